package measured

import (
	"strings"
	"testing"
	"time"
)

func TestTimesAreShownInAUnitThatFitsTheMedian(t *testing.T) {
	for _, c := range []struct {
		times Times
		want  string
	}{
		{nil, ""},
		{Times{30, 10, 20}, "20.0 ns (10.0-30.0)"},
		{Times{40 * time.Microsecond, 20 * time.Microsecond}, "30.0 µs (20.0-40.0)"},
		{Times{355 * time.Millisecond}, "355 ms (355-355)"},
		{Times{12 * time.Second, 14 * time.Second, 10 * time.Second}, "12.0 s (10.0-14.0)"},
	} {
		if got := c.times.String(); got != c.want {
			t.Errorf("%v: %q, expected %q", []time.Duration(c.times), got, c.want)
		}
	}
	if got := (Times{10}).Ratio(Times{40}); got != "0.25" {
		t.Errorf("the ratio is %q", got)
	}
	if got := (Times{10}).Ratio(nil); got != "" {
		t.Errorf("the ratio to nothing is %q", got)
	}
}

func TestATableIsMarkdown(t *testing.T) {
	var b strings.Builder
	Table(&b, [][]string{{"", "x"}, {"a", "1"}})
	if want := "|  | x |\n| --- | --- |\n| a | 1 |\n\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
