package preview

import (
	"image"
	"image/color"
	"math"
	"slices"

	"leat/raster"
)

// stretchSample bounds the number of cells that percentiles are computed from.
const stretchSample = 1 << 17

// stretch returns the 2nd and the 98th percentile of the cells of band i, or 0 and 1 when none is
// valid.
func (r *reducer) stretch(i int) (lo, hi float64) {
	step := 1 + len(r.sum[i])/stretchSample
	var v []float64
	for k := 0; k < len(r.sum[i]); k += step {
		if n := r.count[i][k]; n > 0 {
			v = append(v, r.sum[i][k]/float64(n))
		}
	}
	if len(v) == 0 {
		if step == 1 {
			return 0, 1
		}
		// Few valid cells may lie between the sampled ones.
		for k, n := range r.count[i] {
			if n > 0 {
				v = append(v, r.sum[i][k]/float64(n))
			}
		}
		if len(v) == 0 {
			return 0, 1
		}
	}
	slices.Sort(v)
	at := func(q float64) float64 { return v[int(math.Round(q*float64(len(v)-1)))] }
	return at(.02), at(.98)
}

// share returns the position of v between lo and hi, from 0 to 1. It is 0.5 if they are equal, or
// if a sum of pixels was beyond float64.
func share(v, lo, hi float64) float64 {
	switch {
	case hi <= lo:
		return 0.5
	case v <= lo:
		return 0
	case v >= hi:
		return 1
	}
	s := (v/2 - lo/2) / (hi/2 - lo/2) // the difference of wholes may be infinite
	if math.IsNaN(s) {
		return 0.5
	}
	return s
}

func (r *reducer) paintRamp(img *image.NRGBA, ramp Ramp, lo, hi float64) {
	table := make([]color.NRGBA, 512)
	for i := range table {
		table[i] = ramp.At(float64(i) / float64(len(table)-1))
	}
	for k, n := range r.count[0] {
		if n > 0 {
			s := share(r.sum[0][k]/float64(n), lo, hi)
			c := table[int(float64(s*float64(len(table)-1))+.5)]
			copy(img.Pix[4*k:], []uint8{c.R, c.G, c.B, 255})
		}
	}
}

// paintRGB leaves out cells where one of the three bands has no valid pixel.
func (r *reducer) paintRGB(img *image.NRGBA) {
	var lo, hi [3]float64
	for b := range 3 {
		lo[b], hi[b] = r.stretch(b)
	}
	for k := range r.count[0] {
		if r.count[0][k] == 0 || r.count[1][k] == 0 || r.count[2][k] == 0 {
			continue
		}
		for b := range 3 {
			img.Pix[4*k+b] = uint8(float64(255*share(r.sum[b][k]/float64(r.count[b][k]), lo[b], hi[b])) + .5)
		}
		img.Pix[4*k+3] = 255
	}
}

// paintTable leaves values without an entry transparent.
func (r *reducer) paintTable(img *image.NRGBA, table []raster.RGBA) {
	for k, n := range r.count[0] {
		if v := r.sum[0][k]; n > 0 && v >= 0 && v < float64(len(table)) {
			c := table[int(v)]
			copy(img.Pix[4*k:], []uint8{c.R, c.G, c.B, c.A})
		}
	}
}

// Ramp is a list of colours at equal distances; those between are interpolated.
type Ramp []color.NRGBA

var (
	grayRamp = Ramp{{0, 0, 0, 255}, {255, 255, 255, 255}}
	// Lightness rises evenly, so that the ramp is readable in gray and with colour blindness.
	blueYellowRamp = Ramp{{40, 16, 86, 255}, {52, 68, 138, 255}, {36, 112, 142, 255}, {38, 155, 128, 255},
		{110, 195, 88, 255}, {250, 230, 60, 255}}
	// Zero is the lightest.
	redGreenRamp = Ramp{{140, 20, 45, 255}, {214, 84, 60, 255}, {248, 178, 110, 255}, {253, 246, 205, 255},
		{164, 212, 120, 255}, {62, 156, 78, 255}, {6, 82, 44, 255}}
)

// At returns the colour at a share of the ramp from 0 to 1.
func (c Ramp) At(share float64) color.NRGBA {
	p := float64(share * float64(len(c)-1))
	i := min(int(p), len(c)-2)
	f := p - float64(i)
	mixed := func(a, b uint8) uint8 { return uint8(float64(float64(a)*(1-f)) + float64(float64(b)*f) + .5) }
	a, b := c[i], c[i+1]
	return color.NRGBA{mixed(a.R, b.R), mixed(a.G, b.G), mixed(a.B, b.B), 255}
}
