package ranged

import (
	"bytes"
	"slices"
	"testing"
)

func TestMatches(t *testing.T) {
	old := bytes.Repeat([]byte("old "), 100<<10)
	m := &memory{data: old} // unversioned
	r, err := Open(t.Context(), m, "o", &Options{HeadBytes: 1000, BlockBytes: 1000, CacheBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ReadAt(make([]byte, 10), 300_000); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   int
		want bool
	}{"the same": {-1, true}, "another head": {999, false}, "another piece": {300_500, false},
		"what nobody read": {200_000, true}} {
		other := slices.Clone(old)
		if c.at >= 0 {
			other[c.at]++
		}
		if same, err := r.Matches(bytes.NewReader(other)); same != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, same, err)
		}
	}
	if same, err := r.Matches(bytes.NewReader(old[:250_000])); same || err != nil {
		t.Errorf("a shorter one: %v, %v", same, err)
	}
}
