package plan

import (
	"testing"

	"leat/apply/internal/resolve"
	"leat/raster"
)

func TestScaleText(t *testing.T) {
	info := &raster.Info{Bands: []raster.Band{{Scale: 1}, {Scale: 0.0001, Offset: -0.1}, {Offset: 2}, {}}}
	for _, c := range []struct {
		layers  []int
		given   float64
		unscale bool
		want    string
	}{
		{[]int{1, 4}, 0, false, ""},
		{[]int{1, 2}, 0, false, ", scale 0.0001 and offset -0.1 of band 2 not applied"},
		{[]int{2}, 0, true, ", scale 0.0001 and offset -0.1 of band 2 applied"},
		{[]int{2}, 3, false, ", scale 0.0001 and offset -0.1 of band 2 replaced by others"},
		{[]int{3}, 0, false, ", scale 0 and offset 2 of band 3 not applied"},
	} {
		f := &resolve.File{Info: info, Layers: c.layers, Scale: c.given}
		if got := scaleText(f, c.unscale); got != c.want {
			t.Errorf("bands %v: %q, want %q", c.layers, got, c.want)
		}
	}
}
