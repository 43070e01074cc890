package stage

import (
	"bytes"
	"fmt"
	"os"
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

// TestTheBenchmarkRuns runs all of it, small. That it works is looked at, not how quick it was.
func TestTheBenchmarkRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds")
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick", "-dir", dir}, &out); err != nil {
		t.Fatal(err)
	}
	report := out.String()
	lines := map[string][]string{}
	for line := range strings.Lines(report) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		lines[cells[0]] = cells[1:]
	}
	p := place{name: "disk"}
	want := []string{fmt.Sprintf(againSame, p.name), fmt.Sprintf(againNew, latencies[0], p.name), costGet, costWire,
		costObjstore, costPlainNet, costBare, costBareIn, costWireInto,
		fmt.Sprintf(fourReads, 20), fourTime, fmt.Sprintf(oneStream, 24), eightParts, fmt.Sprintf(memoryLine, 6),
		memoryReads,
		hitsLine(10, 12), cogLocal, cogWindowLocal}
	for _, l := range cogLatencies() {
		for _, line := range []string{cogEmpty, cogWarm, cogPieces, cogWindowPieces} {
			want = append(want, fmt.Sprintf(cogRemote, line, l))
		}
	}
	want = append(want, fmt.Sprintf(speedRecycled, speedLine(latencies[0], 32, p)))
	for _, l := range latencies {
		for _, n := range workers {
			want = append(want, speedLine(l, n, p))
		}
	}
	for _, cost := range []string{costAll, costSame, costNew, costInto, costIntoSame, costRecycled, costCopy,
		costPlain, costWrite, costRead, costReuse} {
		want = append(want, fmt.Sprintf(cost, p.name))
	}
	for _, what := range want {
		if cells := lines[what]; len(cells) == 0 || cells[0] == "" || cells[0] == "0" {
			t.Errorf("%q: %q", what, cells)
		}
	}
	// What does not depend on how quick the machine is.
	for _, target := range []string{"reads of the source in a second epoch in the same pool, disk: 0",
		"in a new pool, disk: 0",
		"reads of the source by 4 processes that want the same 20 objects: 20"} {
		if diff := cmp.Diff([]string{"met"}, lines[target][max(0, len(lines[target])-1):]); diff != "" {
			t.Errorf("%s: %s", target, diff)
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

func TestAWrongObjectIsNoticed(t *testing.T) {
	for _, size := range []int64{8, smallSize, period, largeSize} {
		o := object{7, size}
		var b []byte
		for at := int64(0); at < size; {
			next := o.bytes(at)
			b = append(b, next...)
			at += int64(len(next))
		}
		if err := o.check(b); err != nil {
			t.Errorf("%d bytes: the right one: %v", size, err)
		}
		for what, bad := range map[string]error{
			"another one":   object{8, size}.check(b),
			"a shorter one": o.check(b[:size-1]),
			"none":          o.check(nil),
		} {
			if bad == nil {
				t.Errorf("%d bytes: %s was taken", size, what)
			}
		}
		b[size-1] ^= 1
		if o.check(b) == nil {
			t.Errorf("%d bytes: a changed last byte was not noticed", size)
		}
		if got, err := parseObject(o.name()); err != nil || got != o {
			t.Errorf("%q is read as %v, %v", o.name(), got, err)
		}
	}
	for _, name := range []string{"", "8", "7/0", "8/-1", "8/x", "8/99999999", "8/0/0"} {
		if o, err := parseObject(name); err == nil {
			t.Errorf("%q is taken for %v", name, o)
		}
	}
}

func TestWorkerReportsErrors(t *testing.T) {
	b := &bench{ctx: t.Context()}
	for what, x := range map[string]task{
		"a directory that can't be made": {Op: opStage, Dir: "/dev/null/stage", Objects: 1, Size: smallSize, Workers: 1},
		"no such task":                   {Op: "dance", Objects: 1},
		"a source that is not there":     {Op: opBare, URL: "http://127.0.0.1:1", Objects: 1, Size: smallSize, Workers: 1},
	} {
		if _, err := b.one("", x); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
