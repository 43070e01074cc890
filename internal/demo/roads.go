package demo

import (
	"math"
	"sync"
)

// town is a settlement; place and radius in 20 m pixels.
type town struct{ x, y, radius int }

// The towns of the scene, and the roads between them by index.
var (
	sceneTowns = [...]town{
		{2340, 2880, 330}, {4250, 3690, 190}, {850, 1080, 170}, {1250, 4250, 150}, {3450, 1150, 160},
		{4720, 1900, 120}, {2900, 4600, 130}, {480, 2700, 90}, {1900, 620, 80}, {3600, 2500, 90},
		{1750, 3500, 60}, {3050, 3500, 70}, {5000, 3000, 60}, {2700, 1750, 70}, {400, 4800, 80}, {4400, 700, 60},
		{1300, 1900, 55}, {4000, 4900, 60}, {2100, 5100, 55}, {5150, 1100, 50},
	}
	sceneRoads = [...]struct{ from, to, half int }{ // half the width in 1/16 of a 20 m pixel
		{0, 1, 18}, {0, 2, 18}, {1, 12, 11}, {0, 3, 10}, {0, 4, 12}, {4, 5, 10}, {1, 6, 9}, {2, 8, 9}, {2, 7, 9},
		{3, 14, 9}, {3, 10, 8}, {0, 9, 9}, {9, 5, 8}, {6, 18, 8}, {1, 11, 9}, {4, 13, 8}, {0, 16, 8}, {4, 15, 9},
		{5, 19, 9}, {1, 17, 8}, {7, 3, 8},
	}
)

// roadPiece is a straight piece of a road, in unit.
type roadPiece struct{ x, y, dx, dy, length, half int }

// roadPieces bends each road a little, as a parabola beside the straight line, in straight pieces.
var roadPieces = sync.OnceValue(func() []roadPiece {
	const pieces = 24
	var all []roadPiece
	for _, r := range sceneRoads {
		a, b := sceneTowns[r.from], sceneTowns[r.to]
		dx, dy := b.x-a.x, b.y-a.y
		bend := int(mix(r.from, r.to, 61)>>24) - 128 // 1/1024 of the length, in the middle
		at := func(k int) (x, y int) {
			side := bend * k * (pieces - k) // of 1024*pieces*pieces/4
			x = a.x*unit + dx*unit*k/pieces - dy*unit*side/(256*pieces*pieces)
			y = a.y*unit + dy*unit*k/pieces + dx*unit*side/(256*pieces*pieces)
			return
		}
		for k := range pieces {
			x0, y0 := at(k)
			x1, y1 := at(k + 1)
			// exact: Sqrt is rounded correctly everywhere
			length := int(math.Sqrt(float64((x1-x0)*(x1-x0) + (y1-y0)*(y1-y0))))
			all = append(all, roadPiece{x0, y0, x1 - x0, y1 - y0, max(1, length), r.half * unit / 16})
		}
	}
	return all
})

// paintRoads sets cover to how much of each pixel of the row at y is road, of 256; x holds the
// positions of the columns, ascending.
func paintRoads(y int, x []int, cover []int32) {
	clear(cover)
	for _, p := range roadPieces() {
		reach := p.half + unit
		if y < min(p.y, p.y+p.dy)-reach || y > max(p.y, p.y+p.dy)+reach {
			continue
		}
		lo, hi := min(p.x, p.x+p.dx)-reach, max(p.x, p.x+p.dx)+reach
		for i := firstAtLeast(x, lo); i < len(x) && x[i] <= hi; i++ {
			rx, ry := x[i]-p.x, y-p.y
			if along := (rx*p.dx + ry*p.dy) / p.length; along < -p.half || along > p.length+p.half {
				continue
			}
			off := abs(rx*p.dy-ry*p.dx) / p.length
			cover[i] = max(cover[i], int32(min(max(p.half+unit/2-off, 0), 256)))
		}
	}
}

// firstAtLeast is the first index of ascending x whose value is at least v.
func firstAtLeast(x []int, v int) int {
	lo, hi := 0, len(x)
	for lo < hi {
		if m := (lo + hi) / 2; x[m] < v {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}
