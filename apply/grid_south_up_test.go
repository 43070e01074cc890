package apply

import (
	"strings"
	"testing"

	"leat/apply/internal/resolve"
	"leat/raster"
)

func TestSouthUpRows(t *testing.T) {
	a, b := mapGrid(10, 10, 0, 0), mapGrid(10, 10, 0, 0)
	b.Transform[3] += 10 * b.Transform[5]
	b.Transform[5] = -b.Transform[5]
	for _, pair := range [][2]raster.Grid{{a, b}, {b, a}} {
		want := "its rows run from north to south"
		if pair[0].Transform[5] > 0 {
			want = "its rows run from south to north"
		}
		if text := resolve.OffGrid(pair[0], pair[1]); !strings.Contains(text, want) || strings.Contains(text, "pixel size") {
			t.Errorf("%q does not say that %s", text, want)
		}
	}
}
