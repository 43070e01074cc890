package cache

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leat/bench/runner"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the benchmark start this binary in its roles.
func TestMain(m *testing.M) {
	runner.ServeRole(Part)
	os.Exit(m.Run())
}

// TestTheBenchmarkRuns runs all of it for a moment each. That it works is looked at, not how quick
// it was.
func TestTheBenchmarkRuns(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick", "-dir", dir}, &out); err != nil {
		t.Fatal(err)
	}
	report := out.String()
	systems := 2
	if python() != "" {
		systems = 4
	} else if !strings.Contains(report, "LMDB is not installed") {
		t.Error("the report does not say that LMDB was left out")
	}
	s, lines := quickSize(), map[string][]string{}
	for line := range strings.Lines(report) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		lines[strings.TrimSpace(cells[0])] = cells[1:]
	}
	want := []string{"time to open 10.0k slots", "the gets of these",
		"put 110 KiB by one process, while 4 others get by copy"}
	for _, x := range s.rows() {
		want = append(want, x.what)
	}
	for _, what := range want {
		cells := lines[what]
		if len(cells) != 2*systems-1 {
			t.Errorf("%q: %d cells: %q", what, len(cells), cells)
			continue
		}
		for k, c := range cells {
			if c = strings.TrimSpace(c); c == "" || strings.HasPrefix(c, "0.00 ") {
				t.Errorf("%q, column %d: %q", what, k+1, c)
			}
		}
	}
	if strings.Contains(report, "not measured") {
		t.Error("a target was not measured")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if t.Failed() {
		t.Log(report)
	}
}

func python() string {
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import lmdb").Run() == nil {
			return p
		}
	}
	return ""
}

func TestAWrongEntryIsNoticed(t *testing.T) {
	for _, size := range []int{large, small, 24} {
		b := blank(size)
		mark(b, 7)
		if err := check(b, size, 7); err != nil {
			t.Errorf("%d bytes: the right one: %v", size, err)
		}
		if err := touch(b, size, 7); err != nil {
			t.Errorf("%d bytes: the right one: %v", size, err)
		}
		for what, bad := range map[string]error{
			"another one":          check(b, size, 8),
			"another one, touched": touch(b, size, 8),
			"a shorter one":        check(b[:size-8], size, 7),
			"none":                 touch(nil, size, 7),
		} {
			if bad == nil {
				t.Errorf("%d bytes: %s was taken", size, what)
			}
		}
		b[size-1] ^= 1
		if check(b, size, 7) == nil {
			t.Errorf("%d bytes: a changed last byte was not noticed", size)
		}
	}
}

func TestWorkerWithMissingEntriesFails(t *testing.T) {
	for _, y := range []system{leatSystem{}, lockedSystem{}} {
		made := task{Op: opCopy, Size: small, Entries: 4, Fresh: 4, Processes: 1, For: 1}
		w, err := y.make(t.TempDir(), made)
		if err != nil {
			t.Fatal(err)
		}
		more := made
		more.Entries, more.Fresh = 8, 0
		if parts, err := y.measure(t.Context(), more, w); err == nil {
			t.Errorf("%s: %v", y.name(), parts)
		}
		if err := w.drop(); err != nil {
			t.Error(err)
		}
	}
}

func TestPutsAreScatteredToAllSlotsOnce(t *testing.T) {
	const n = 1 << 10
	seen := map[int64]bool{}
	for k := range int64(n) {
		seen[scatter(k, n)] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d slots", len(seen), n)
	}
}

func TestTheLockedVariantKeepsTheFirstEntryOfASlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	l, err := makeLocked(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for k, c := range []struct {
		slot   int64
		data   string
		stored bool
	}{{1, "one", true}, {0, "", true}, {1, "two", false}, {0, "x", false}} {
		if stored, err := l.put(c.slot, []byte(c.data), k%2 == 0); err != nil || stored != c.stored {
			t.Errorf("put %d: %v, %v", k, stored, err)
		}
	}
	if _, err := l.put(3, nil, false); err == nil {
		t.Error("a slot beyond the last was taken")
	}
	other, err := openLocked(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var got []string
	for i := range int64(3) {
		b, err := other.get(i, make([]byte, 1))
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			got = append(got, "none")
			continue
		}
		got = append(got, string(b))
	}
	if d := cmp.Diff([]string{"", "one", "none"}, got); d != "" {
		t.Error(d)
	}
}

func TestRatesAreShownInThreeDigits(t *testing.T) {
	for _, c := range []struct {
		r    rates
		want string
	}{
		{nil, ""},
		{rates{1.02}, "1.02 (1.02-1.02)"},
		{rates{183_200, 170_000, 190_400, 185_000}, "184k (170k-190k)"},
		{rates{5_312_000, 999_600, 12_340_000}, "5.31M (1.00M-12.3M)"},
		{rates{99.96, 999.4, 999.6}, "999 (100-1.00k)"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("%v: %q, expected %q", []float64(c.r), got, c.want)
		}
	}
	if got := (rates{10}).ratio(rates{4}); got != 2.5 {
		t.Errorf("a ratio of %v", got)
	}
	if got := (rates{10}).ratio(nil); got != 0 {
		t.Errorf("a ratio of %v to nothing", got)
	}
}

func TestProcessesAreCountedFromTheFirstBeginToTheLastEnd(t *testing.T) {
	got := perSecond([]part{{Count: 10, Begin: 0, End: 5e8}, {Count: 30, Begin: 1e8, End: 2e9}})
	if got != 20 {
		t.Errorf("%v a second", got)
	}
	if got := perSecond(nil); got != 0 {
		t.Errorf("%v a second of nothing", got)
	}
}

func TestATargetThatWasNotMeasuredIsMissed(t *testing.T) {
	for _, x := range newResults().targets(quickSize()) {
		if x.met {
			t.Errorf("%q is met by %q", x.what, x.got)
		}
	}
}

func TestOptionsThatMakeNoSenseAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-runs=0"}, {"-for=0s"}, {"all"}, {"-only=("},
		{"-quick", "-dir", filepath.Join(t.TempDir(), "none")}} {
		if err := runner.Run(t.Context(), Part, args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
