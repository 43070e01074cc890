// Package demo makes the scene that leat demo computes an NDVI of: a landscape as Sentinel-2 sees
// it in red (B04) and near infrared (B08) at 20 m, level 2A, reflectance x 10000 + 1000, nodata 0.
//
// Each pixel is a pure function of column, row and size, in integers only, so that every machine
// makes the same file. Sizes other than BaseSize show the same landscape coarser or finer.
package demo

import (
	"math"
	"math/bits"
	"sync"
)

// BaseSize is the number of pixels a side of a Sentinel-2 tile at 20 m.
const BaseSize = 5490

const (
	offset = 1000 // DN of reflectance 0, since processing baseline 04.00
	unit   = 256  // positions are in 1/256 of a 20 m pixel
)

// fillWindow fills the bands and the classes with a window of a scene of size x size pixels. Each
// holds width*height values, row by row. Clouds, harvests and the sensor's noise depend on the
// date.
func fillWindow(size, date, col0, row0, width, height int, red, nir []uint16, class []uint8) {
	s := newPainter(size, col0, width, date)
	for r := range height {
		from, to := r*width, (r+1)*width
		s.row(row0+r, red[from:to], nir[from:to], class[from:to])
	}
}

// positionOf is the position, in unit, of the centre of column or row i.
func positionOf(i, size int) int { return (2*i + 1) * BaseSize * unit / (2 * size) }

// mix gives 32 well-mixed bits for a place.
func mix(x, y int, seed uint32) uint32 {
	h := uint32(x)*0x9e3779b1 ^ bits.RotateLeft32(uint32(y)*0x85ebca77, 13) ^ seed*0xc2b2ae3d
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 12
	h *= 0x297a2d39
	return h ^ h>>15
}

// octave is value noise: random values on a square lattice, smoothly interpolated.
type octave struct {
	size, amp    int    // lattice width in 20 m pixels; values are -amp..amp
	seed         uint32 //
	dx, dy       int    // the lattice is moved by so many units
	first        int    // lattice column of the window's first pixel
	cell         []uint16
	weight       []int16 // 0..4096
	knots        []int32
	row          int // for which knots hold
	haveKnots    bool
	lower, upper []int32
}

// field is a sum of octaves, evaluated row by row.
type field struct {
	octaves []*octave
	sum     int // of the amplitudes
}

func newField(seed uint32, dx, dy int, sizeAmp ...int) *field {
	f := &field{}
	for i := 0; i < len(sizeAmp); i += 2 {
		f.sum += sizeAmp[i+1]
		f.octaves = append(f.octaves, &octave{size: sizeAmp[i], amp: sizeAmp[i+1], seed: seed + uint32(i)*7919,
			dx: dx * unit, dy: dy * unit})
	}
	return f
}

// columns prepares the field for the columns of a window.
func (f *field) columns(size, col0, width int) {
	for _, o := range f.octaves {
		step := o.size * unit
		o.cell, o.weight = make([]uint16, width), make([]int16, width)
		o.first = (positionOf(col0, size) + o.dx + 64*step) / step
		for i := range width {
			at := positionOf(col0+i, size) + o.dx + 64*step // never negative
			o.cell[i] = uint16(at/step - o.first)
			o.weight[i] = int16(smooth(at % step * 4096 / step))
		}
		n := int(o.cell[width-1]) + 2
		o.lower, o.upper, o.knots = make([]int32, n), make([]int32, n), make([]int32, n)
	}
}

// smooth is 3w²-2w³ on 0..4096.
func smooth(w int) int { return (w * w >> 12) * (3*4096 - 2*w) >> 12 }

// at sets dst to the field along the row at position y. Where the remaining octaves can't lift any
// value of a stretch above floor, it leaves them out: these values are at most floor, but not
// exact.
func (f *field) at(y int, floor int32, dst []int32) {
	const stretch = 128
	for _, o := range f.octaves {
		o.toRow(y)
	}
	for i := 0; i < len(dst); i += stretch {
		end := min(i+stretch, len(dst))
		part := dst[i:end]
		clear(part)
		rest := int32(f.sum)
		for _, o := range f.octaves {
			rest -= int32(o.amp)
			cell, weight := o.cell[i:end], o.weight[i:end]
			highest := int32(math.MinInt32)
			for k := range part {
				c := int(cell[k])
				a := o.knots[c]
				v := part[k] + a + (o.knots[c+1]-a)*int32(weight[k])>>12
				part[k] = v
				highest = max(highest, v)
			}
			if highest+rest <= floor {
				break
			}
		}
	}
}

// noFloor makes field.at exact everywhere.
const noFloor = math.MinInt32

// toRow interpolates the lattice to the row at position y.
func (o *octave) toRow(y int) {
	step := o.size * unit
	at := y + o.dy + 64*step
	j, w := at/step, int32(smooth(at%step*4096/step))
	if !o.haveKnots || o.row != j {
		for i := range o.knots {
			o.lower[i] = o.value(o.first+i, j)
			o.upper[i] = o.value(o.first+i, j+1)
		}
		o.row, o.haveKnots = j, true
	}
	for i := range o.knots {
		o.knots[i] = o.lower[i] + (o.upper[i]-o.lower[i])*w>>12
	}
}

func (o *octave) value(i, j int) int32 {
	return (int32(mix(i, j, o.seed)>>16) - 32768) * int32(o.amp) >> 15
}

// river is the course of the river: across the diagonal, at distance mid[s] from it after s units
// along it.
type river struct {
	mid, half []int32 // 20 m pixels x 16
	slope     []int32 // cosine of the course against the diagonal x 4096
}

const riverCos, riverSin = 3547, 2048 // 30 degrees x 4096

var theRiver = sync.OnceValue(func() *river {
	const n = 8000
	r := &river{make([]int32, n), make([]int32, n), make([]int32, n)}
	sum := func(s int, seed uint32, sizeAmp ...int) int32 {
		v := 0
		for i := 0; i < len(sizeAmp); i += 2 {
			step := sizeAmp[i]
			a := int(mix(s/step, i, seed)>>16) - 32768
			b := int(mix(s/step+1, i, seed)>>16) - 32768
			v += (a*4096 + (b-a)*smooth(s%step*4096/step)) >> 12 * sizeAmp[i+1] >> 15
		}
		return int32(v)
	}
	for s := range n {
		r.mid[s] = sum(s, 11, 1700, 8000, 640, 3400, 260, 2200, 110, 700)
		r.half[s] = 13*16 + int32(s)*5*16/n + sum(s, 12, 300, 60, 70, 40)
	}
	for s := range n {
		d := float64(r.mid[min(s+4, n-1)]-r.mid[max(s-4, 0)]) / (8 * 16)
		r.slope[s] = int32(4096 / math.Sqrt(1+float64(d*d)))
	}
	return r
})

// distance is that of a position from the middle of the river minus half its width, in 20 m
// pixels x 16: negative in the water.
func (r *river) distance(x, y int) int32 {
	s := (x*riverCos + y*riverSin) >> 12
	t := (y*riverCos - x*riverSin) >> 12 // units, 0 on the diagonal through the origin
	i := min(max(s/unit, 0), len(r.mid)-1)
	// 900: so that the diagonal goes through the middle of the scene.
	d := int32(t>>4) - 16*900 - r.mid[i]
	if d < 0 {
		d = -d
	}
	return d*(r.slope[i]>>4)>>8 - r.half[i]
}
