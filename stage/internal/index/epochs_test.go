//go:build linux

package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrderForEpochs(t *testing.T) {
	for name, test := range map[string]struct {
		used          []int64
		now, interval int64
		oldest        bool
		want          []int64
	}{
		"the newest first":                  {[]int64{3, 1, 2}, 4, 0, false, []int64{3, 2, 1}},
		"now and then the oldest":           {[]int64{3, 1, 2}, 4, 0, true, []int64{1, 3, 2}},
		"replaced ones before all":          {[]int64{3, 0, 2, 0}, 4, 0, true, []int64{0, 0, 3, 2}},
		"not used for long, the oldest yet": {[]int64{93, 10, 95, 20}, 100, 30, true, []int64{10, 20, 95, 93}},
		"all used within the interval":      {[]int64{93, 50, 95}, 100, 30, false, []int64{95, 93, 50}},
		"one":                               {[]int64{5}, 6, 0, true, []int64{5}},
		"none":                              {nil, 6, 0, true, nil},
	} {
		var all []candidate
		for _, u := range test.used {
			all = append(all, candidate{used: u})
		}
		orderForEpochs(all, test.now, test.interval, test.oldest)
		var got []int64
		for _, c := range all {
			got = append(got, c.used)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-expected +got):\n%s", name, diff)
		}
	}
}

func TestNoteInterval(t *testing.T) {
	b := open(t)
	for range 3 {
		b.noteInterval(1000_000)
		b.noteInterval(10)
	}
	if n := b.h.interval.Load(); n > 1000_000 || n < 990_000 {
		t.Errorf("%d after intervals up to 1000000", n)
	}
	for range 20 * epochDecay {
		b.noteInterval(10)
	}
	if n := b.h.interval.Load(); n > 1100 {
		t.Errorf("%d after many intervals of 10", n)
	}
}
