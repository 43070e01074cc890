package inflate

import "testing"

// TestMixedBlocks has the lengths of the words of 257 and on. Those of pixels are mixed, those of
// noise, of class maps, whose matches are long, and of smooth heights, with few literals, are not.
func TestMixedBlocks(t *testing.T) {
	long := make([]uint8, 29)
	long[0], long[20] = 3, 2
	for name, c := range map[string]struct {
		lens []uint8
		want bool
	}{
		"pixels": {[]uint8{2, 3, 4}, true},
		"noise":  {[]uint8{7, 9, 9}, false},
		"runs":   {[]uint8{1, 2, 3, 5}, false},
		"long":   {long, false},
	} {
		if got := isMixed(c.lens); got != c.want {
			t.Errorf("%s: isMixed is %v, expected %v", name, got, c.want)
		}
	}
}

// TestFilledBlocks has the words of blocks with little but matches of 258 bytes, with many, and
// with none.
func TestFilledBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		lens map[int]uint8
		want bool
	}{
		"only matches": {map[int]uint8{endOfBlock: 2, 285: 1}, true},
		"a quarter":    {map[int]uint8{0: 1, endOfBlock: 2, 285: 2}, true},
		"an eighth":    {map[int]uint8{0: 1, 1: 2, endOfBlock: 3, 285: 3}, false},
		"no length":    {map[int]uint8{0: 1, endOfBlock: 1}, false},
	} {
		lens := make([]uint8, 286)
		for s, n := range c.lens {
			lens[s] = n
		}
		if got := isFilled(lens); got != c.want {
			t.Errorf("%s: isFilled is %v, expected %v", name, got, c.want)
		}
	}
	if isFilled([]uint8{1, 1}) {
		t.Error("isFilled is true for a code without lengths")
	}
}
