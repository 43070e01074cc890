package inflate

import "testing"

// TestMixedBlocks has the lengths of the words of 257 and on. Those of pixels are mixed, those of
// noise and of class maps, whose matches are long, are not.
func TestMixedBlocks(t *testing.T) {
	long := make([]uint8, 29)
	long[0], long[20] = 3, 2
	for name, c := range map[string]struct {
		lens []uint8
		want bool
	}{
		"pixels": {[]uint8{2, 3, 4}, true},
		"noise":  {[]uint8{7, 9, 9}, false},
		"long":   {long, false},
	} {
		if got := isMixed(c.lens); got != c.want {
			t.Errorf("%s: isMixed is %v, expected %v", name, got, c.want)
		}
	}
}
