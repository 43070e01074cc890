package zonal

import (
	"math"
	"math/rand/v2"
	"testing"

	"leat/block"
)

// TestCellsHaveAllPixels compares cells with the pixels of polygons: rings of random points, some
// of them on the borders of cells, just next to them, or a long way outside the raster.
func TestCellsHaveAllPixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	grid := block.Window{Width: 700, Height: 450}
	reach := 0.0
	coordinate := func(n int) float64 {
		switch rng.IntN(5) {
		case 0:
			return float64(64 * rng.IntN(n/64+1))
		case 1:
			return float64(64*rng.IntN(n/64+1)) + (rng.Float64()-0.5)*1e-9
		case 2:
			return math.Nextafter(float64(64*rng.IntN(n/64+1)), -1+2*reach)
		case 3:
			return (rng.Float64() - 0.5) * reach
		}
		return rng.Float64() * float64(n)
	}
	var r Rasterizer
	var m Mask
	skipped := 0
	for i := range 800 {
		reach = math.Pow(10, float64(i%24))
		var p Polygon
		for range 1 + rng.IntN(2) {
			for range 3 + rng.IntN(3) {
				p.XY = append(p.XY, coordinate(grid.Width), coordinate(grid.Height))
			}
			p.Rings = append(p.Rings, len(p.XY)/2)
			p.Parts = append(p.Parts, len(p.Rings))
		}
		box, _ := p.Bounds()
		c := NewCells(grid.Width, grid.Height)
		c.Add(&p, box.Window().Intersect(grid))
		for range 20 {
			w := block.Window{Col: 64 * rng.IntN(11), Row: 64 * rng.IntN(8), Width: 64, Height: 64}.Intersect(grid)
			if c.Overlap(w) {
				continue
			}
			skipped++
			for rule := ByCentre; rule <= ByCoverage; rule++ {
				if r.Cover(&p, w, rule, &m); !m.Empty() {
					t.Fatalf("%v has pixels of %v by rule %d, which the cells miss", w, p.XY, rule)
				}
			}
		}
	}
	if skipped < 1000 {
		t.Errorf("only %d windows without pixels were compared", skipped)
	}
}

func TestCellsOfLongRasters(t *testing.T) {
	for _, size := range [][2]int{{1, 1 << 34}, {1 << 34, 1}, {1 << 34, 1 << 34}, {64, 1}} {
		if c := NewCells(size[0], size[1]); c.Bytes() > 2<<20 {
			t.Errorf("%v pixels: %d bytes", size, c.Bytes())
		}
	}
}

// TestCellsLeaveGapsOut checks that cells between the two parts of a polygon are not set.
func TestCellsLeaveGapsOut(t *testing.T) {
	for _, size := range []int{10_000, 1 << 20} {
		x := float64(size - 300)
		p := &Polygon{XY: []float64{10, 10, 200, 10, 200, 200, x, x, x + 200, x, x, x + 200},
			Rings: []int{3, 6}, Parts: []int{1, 2}}
		c := NewCells(size, size)
		box, _ := p.Bounds()
		c.Add(p, box.Window())
		for _, v := range []struct {
			at   int
			want bool
		}{{100, true}, {size / 2, false}, {size - 200, true}} {
			if got := c.Overlap(block.Window{Col: v.at, Row: v.at, Width: 50, Height: 50}); got != v.want {
				t.Errorf("%d pixels: pixels at %d: %v", size, v.at, got)
			}
		}
		if c.Bytes() > 4<<20 {
			t.Errorf("%d pixels: %d bytes", size, c.Bytes())
		}
	}
}
