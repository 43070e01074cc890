package expr

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"

	"leat/block"
	"leat/ndarray"
)

// Cases of focal functions have the pixels of a whole domain.

var focalTransform = [6]float64{500000.25, 30, 0, 4000000, 0, -29.9}

// focalCase makes a case of n pixels one of focal functions.
func (g *generator) focalCase(c *numpyCase) {
	c.Transform = &focalTransform
	c.Margin = []string{"", "", "reflect", "nearest"}[g.IntN(4)]
	rows := c.N / placeColumns
	x, y := g.IntN(4), g.IntN(min(4, rows))
	if e, err := Parse(c.Text); err == nil && !e.Focal() {
		x, y = 0, 0
	}
	c.Place = [4]int{-x, -y, placeColumns - x, rows - y}
}

// side generates a square or a disk.
func (g *generator) side() string {
	return []string{"1", "3", "3", "5", "9", "disk(1)", "disk(1.5)", "disk(2.9)", "disk(0)", "4"}[g.IntN(10)]
}

// neighbours generates a focal function whose result does not depend on the order of operations.
func (g *generator) neighbours(depth int) string {
	n := func() string { return g.number(depth-1, 0) }
	switch g.IntN(5) {
	case 0:
		return fmt.Sprintf("shift(%s, %d, %d)", n(), g.IntN(5)-2, g.IntN(11)-5)
	case 1:
		whole := []string{"not " + g.boolean(depth-1, 4), "count(m)", "bits(classify(a, [1, 3]), 0, 1)",
			"isnodata(b)"}[g.IntN(4)]
		return fmt.Sprintf("focal_%s(%s, %s)", []string{"mean", "sum"}[g.IntN(2)], whole, g.side())
	}
	f := []string{"min", "max", "median", "mode", "range", "count"}[g.IntN(6)]
	return fmt.Sprintf("focal_%s(%s, %s)", f, n(), g.side())
}

// near generates a focal function whose result is compared within an error.
func (g *generator) near() string {
	n := g.number(2, 0)
	if g.IntN(3) == 0 {
		n = []string{"a", "b", "c"}[g.IntN(3)]
	}
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf("focal_%s(%s, %s)", []string{"mean", "sum", "std"}[g.IntN(3)], n, g.side())
	case 1:
		kernel := []string{"[[1, 2, 1], [2, 4, 2], [1, 2, 1]]", "[[1/3, 0, -0.1]]", "[[1], [0], [2.5]]", "[[0]]",
			"[[-3]]", "[[0, 1, 0, 0, 0], [1, 0, 0, 2, -1], [0, pi, 0, 0, 0]]", "[[1, 2]]", "[[1, 2, 3], [4]]"}[g.IntN(8)]
		return fmt.Sprintf("convolve(%s, %s)", n, kernel)
	case 2:
		return fmt.Sprintf("%s(%s)", []string{"tpi", "tri", "roughness", "aspect"}[g.IntN(4)], n)
	}
	f := []string{"slope", "hillshade", "curvature"}[g.IntN(3)]
	numbers := map[string][]string{"slope": {"", ", 0.01", ", 0"}, "curvature": {"", ", 100"},
		"hillshade": {"", ", 90", ", -20, 30", ", 315, 90, 0.1", ", 0, 100"}}[f]
	return fmt.Sprintf("%s(%s%s)", f, n, numbers[g.IntN(len(numbers))])
}

// domain returns the window of a focal case.
func (c *numpyCase) domain() block.Window {
	return block.Window{Col: c.Place[0], Row: c.Place[1], Width: placeColumns, Height: c.N / placeColumns}
}

// index returns the pixel of the case that an error of its evaluation names.
func (c *numpyCase) index(p *Program, i int) int {
	if c.Transform == nil {
		return i
	}
	width := placeColumns + 2*p.Margin() // of the operands
	return (i/width-p.Margin())*placeColumns + i%width - p.Margin()
}

// evalWindow computes part of a focal case. Pixels outside the domain are random.
func (c *numpyCase) evalWindow(p *Program, r *rand.Rand, w block.Window, margin int, dst [][]byte,
	counts *Counts) error {
	d := c.domain()
	in := w.Grow(margin)
	var src []Operand
	for _, ref := range p.Refs() {
		b := c.Inputs[ref.Name].Files[ref.File][ref.Band-1]
		data, _ := hex.DecodeString(b.Data)
		mask, _ := hex.DecodeString(b.Mask)
		t, _ := ndarray.ParseDType(b.Type)
		n := int(in.Pixels())
		o := Operand{Data: ndarray.New(t, n).Data}
		if b.Mask != "" {
			o.Mask = make([]byte, n)
		}
		for i := range n {
			x, y := in.Col+i%in.Width-d.Col, in.Row+i/in.Width-d.Row
			if x < 0 || y < 0 || x >= d.Width || y >= d.Height {
				if t.Size() < 8 || t.IsFloat() {
					o.Data[i*t.Size()] = byte(r.IntN(256))
				}
				continue
			}
			at := y*d.Width + x
			copy(o.Data[i*t.Size():(i+1)*t.Size()], data[at*t.Size():])
			if o.Mask != nil {
				o.Mask[i] = mask[at]
			}
		}
		src = append(src, o)
	}
	frame := Frame{Place: Place{Col: w.Col, Row: w.Row, Columns: w.Width, Transform: *c.Transform,
		Geodetic: c.coordinate}, Rows: w.Height, Margin: margin}
	return p.NewEvaluator().EvalWindow(frame, src, dst, counts)
}

// checkWindow compares a random window with the whole domain.
func (c *numpyCase) checkWindow(p *Program, whole [][]byte) error {
	d := c.domain()
	r := rand.New(rand.NewPCG(uint64(c.N), uint64(d.Row)))
	w := block.Window{Width: 1 + r.IntN(d.Width), Height: 1 + r.IntN(d.Height)}
	w.Col, w.Row = d.Col+r.IntN(d.Width-w.Width+1), d.Row+r.IntN(d.Height-w.Height+1)
	part := make([][]byte, len(whole))
	for i := range part {
		part[i] = ndarray.New(p.Type(), int(w.Pixels())).Data
	}
	var counts Counts
	if err := c.evalWindow(p, r, w, p.Margin()+r.IntN(2), part, &counts); err != nil {
		return err
	}
	size := p.Type().Size()
	for i := range part {
		for y := range w.Height {
			at := ((w.Row-d.Row+y)*d.Width + w.Col - d.Col) * size
			got, want := part[i][y*w.Width*size:(y+1)*w.Width*size], whole[i][at:at+w.Width*size]
			if !bytes.Equal(got, want) {
				return fmt.Errorf("window %v of %v: band %d row %d is %x, in the whole %x", w, d, i+1, y, got, want)
			}
		}
	}
	return nil
}

// within reports whether two pixels differ by at most an error.
func within(d ndarray.DType, a, b []byte, limit float64) bool {
	p := ndarray.Scalar{Type: d, Bits: bitsOf(d, a)}.Float64()
	q := ndarray.Scalar{Type: d, Bits: bitsOf(d, b)}.Float64()
	return math.IsInf(limit, 1) || math.Abs(p-q) <= limit || d.IsFloat() && same(d, a, b, true)
}
