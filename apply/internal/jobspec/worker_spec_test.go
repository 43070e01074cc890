package jobspec

import (
	"math"
	"slices"
	"testing"

	"leat/raster"
)

func TestNonFiniteScales(t *testing.T) {
	info := raster.Info{Bands: []raster.Band{{Scale: math.NaN(), Offset: 1}, {Scale: 2, Offset: math.Inf(1)},
		{Scale: 3, Offset: 4}}}
	given := slices.Clone(info.Bands)
	if err := PlainScales(&info, true); err == nil {
		t.Error("a scale of NaN is used, and let through")
	}
	if err := PlainScales(&info, false); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]float64{{1, 0}, {1, 0}, {3, 4}} {
		if b := info.Bands[i]; b.Scale != want[0] || b.Offset != want[1] {
			t.Errorf("band %d has %v and %v", i+1, b.Scale, b.Offset)
		}
	}
	if given[0].Offset != 1 {
		t.Error("the given bands were changed")
	}
}
