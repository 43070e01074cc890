package shm

import (
	"strings"
	"testing"

	"leat/internal/pytest"
)

func TestSizesAreReadAsPeopleWriteThem(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"0", 0}, {"0M", 0}, {"1", 1}, {"4096", 4096}, {"10K", 10 << 10}, {"1M", 1 << 20}, {"2G", 2 << 30},
		{"3T", 3 << 40}, {"1P", 1 << 50},
		{"1.5GiB", 3 << 29}, {"2 GB", 2 << 30}, {"2g", 2 << 30}, {"7kib", 7 << 10}, {"1Mi", 1 << 20}, {"12B", 12},
		{" 1M\n", 1 << 20}, {".5K", 512}, {"5.K", 5 << 10},
		{"0.001K", 1}, {"1.1K", 1126}, {"0.7T", 769658139443}, {"9007199254740993", 9007199254740993},
		{"9223372036854775807", 1<<63 - 1},
		{"007", 7},
	} {
		if got, err := ParseSize(c.text); err != nil || got != c.want {
			t.Errorf("%q is %d, %v, want %d", c.text, got, err, c.want)
		}
	}
}

func TestWhatIsNoSizeIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no number"}, {"M", "no number"}, {"-1", ""}, {"-1M", ""}, {"+1M", ""}, {"1e3", "unit"}, {"1e3M", "unit"},
		{"0x10", "unit"}, {"inf", ""}, {"NaN", ""},
		{"1,5M", "unit"}, {"1.5.1M", "no number"}, {".", "no number"}, {"1X", "unit"}, {"1MM", "unit"},
		{"1Mib2", "unit"}, {"1BiB", "unit"}, {"1/2", "unit"}, {"1_000", "unit"},
		{"9223372036854775808", "larger"}, {"8192P", "larger"}, {"9999999999999999999999T", "larger"},
		{strings.Repeat("9", 1000), "no number"}, {"1M 2", "unit"},
		{"٣M", ""},
	} {
		got, err := ParseSize(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(),
			"such as 500M") || len(err.Error()) > 200 {
			t.Errorf("%.50q is %d, error %v", c.text, got, err)
		}
	}
}

func TestSizesAreThoseOfJoblib(t *testing.T) {
	list := []string{"0M", "10K", "1M", "1.5G", "0.25M", "100K", "7G"}
	var want []int64
	pytest.Run(t, []string{"joblib"}, `
import json, sys
from joblib.disk import memstr_to_bytes
json.dump([memstr_to_bytes(s) for s in json.load(sys.stdin)], sys.stdout)
`, list, &want)
	for i, s := range list {
		if got, err := ParseSize(s); err != nil || got != want[i] {
			t.Errorf("%q is %d, %v, joblib's %d", s, got, err, want[i])
		}
	}
}
