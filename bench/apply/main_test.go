package apply

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leat/bench/runner"
)

func TestTheMedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo(t *testing.T) {
	s := spreadOf([]sample{{wall: 4 * time.Second}, {wall: time.Second}, {wall: 3 * time.Second},
		{wall: 2 * time.Second}}, wall)
	if s != (spread{2.5, 1, 4}) {
		t.Errorf("%v", s)
	}
	if s := spreadOf(nil, wall); !math.IsNaN(s.median) {
		t.Errorf("of nothing: %v", s)
	}
}

func TestRatiosAreToTheQuickestPeerThatRan(t *testing.T) {
	run := func(s float64, tuned bool) *result {
		return &result{variant: variant{tuned: tuned},
			samples: []sample{{wall: time.Duration(s * float64(time.Second))}}}
	}
	leat, slow, quick := run(1, false), run(4, true), run(2, true)
	missing := &result{variant: variant{tuned: true}}
	best := fastest([]*result{leat, missing, slow, quick}, func(r *result) bool { return r.tuned })
	if best != quick {
		t.Fatalf("%+v", best)
	}
	if r := ratio(leat, best, wall); r != 0.5 {
		t.Errorf("ratio %v", r)
	}
	if r := ratio(leat, missing, wall); !math.IsNaN(r) {
		t.Errorf("ratio to a peer that did not run: %v", r)
	}
}

func TestThePolynomialHasFiftyTerms(t *testing.T) {
	text, coefficients := chain()
	if n := len(strings.Split(coefficients, ",")); n != 50 {
		t.Errorf("%d coefficients", n)
	}
	if m, p := strings.Count(text, "*a"), strings.Count(text, " + "); m != 49 || p != 49 {
		t.Errorf("%d products and %d sums", m, p)
	}
	if o, c := strings.Count(text, "("), strings.Count(text, ")"); o != c {
		t.Errorf("%d and %d parentheses", o, c)
	}
}

// TestTheBenchmarkRuns runs all of it with small inputs. Only that it works is looked at, and that
// outputs are equal.
func TestTheBenchmarkRuns(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): takes half a minute")
	}
	dir := t.TempDir()
	probe := &bench{Options: &runner.Options{Quick: true}, peers: "peers", inputs: &inputs{}}
	if probe.findPeers(t.Context()); probe.python == "" {
		t.Skip("NumPy and rasterio are not installed: install python3-numpy and python3-rasterio")
	}
	var stdout bytes.Buffer
	if err := runner.Run(t.Context(), Part, []string{"-quick", "-data", filepath.Join(dir, "data")}, &stdout); err != nil {
		t.Fatal(err)
	}
	report := stdout.String()
	if strings.Contains(report, "differ, by") {
		t.Errorf("outputs are not equal:\n%s", report)
	}
	for _, want := range []string{"## NDVI", "## Memory", "## Focal", "## Median", "## Percentile", "## Median of the NDVI",
		"## Polynomial", "## A small file",
		"## Targets"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in the report", want)
		}
	}
	if strings.Contains(report, dir) {
		t.Errorf("a path of this machine is in the report:\n%s",
			regexp.MustCompile(".*"+regexp.QuoteMeta(dir)+".*").FindString(report))
	}
	for _, pattern := range []string{"out-*", "scene-*", "*.part"} {
		if left, _ := filepath.Glob(filepath.Join(dir, "data", pattern)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}
