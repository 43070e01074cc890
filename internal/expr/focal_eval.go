package expr

import (
	"bytes"
	"errors"
	"fmt"

	"leat/block"
	"leat/internal/expr/internal/focal"
	"leat/ndarray"
)

// Frame is the position of the pixels of a call of [Evaluator.EvalWindow]: a window of the raster
// whose first pixel and number of columns are those of Place, and the margin of the operands around
// it.
type Frame struct {
	Place
	Rows   int
	Margin int
}

// plane holds the pixels of an operand or a result of a focal function.
type plane struct {
	window block.Window
	v32    []float32 // one of them
	v64    []float64
	valid  []byte // nil if all are valid
}

func values[T real](p *plane) *[]T {
	if v, ok := any(&p.v32).(*[]T); ok {
		return v
	}
	return any(&p.v64).(*[]T)
}

// index returns the index of the pixel (x, y).
func (p *plane) index(x, y int) int { return (y-p.window.Row)*p.window.Width + x - p.window.Col }

// focalState holds what an evaluator keeps for focal functions.
type focalState struct {
	evaluators []*Evaluator // by step; nil for results of calls
	planes     []plane
	slots      []focalMemory
	scratch    focal.Scratch
	cols, rows []int // of folded pixels
}

// focalMemory is the memory of planes that follow each other.
type focalMemory struct {
	v32   []float32
	v64   []float64
	valid []byte
}

func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func (p *Program) newFocalState() *focalState {
	s := &focalState{planes: make([]plane, len(p.focal.planes)), slots: make([]focalMemory, len(p.focal.slots))}
	for _, step := range p.focal.steps {
		var ev *Evaluator
		if step.program != nil {
			ev = step.program.NewEvaluator()
			ev.planes = s.planes
		}
		s.evaluators = append(s.evaluators, ev)
	}
	return s
}

// EvalWindow is Eval for a window of the raster. The operands have f.Margin more pixels on each
// side than the window, at least the program's Margin unless they hold the whole domain; dst has
// none. A [PixelError] and FirstCollision count pixels in the rows of the operands.
func (ev *Evaluator) EvalWindow(f Frame, src []Operand, dst [][]byte, c ...*Counts) error {
	p := ev.p
	out := block.Window{Col: f.Col, Row: f.Row, Width: f.Columns, Height: f.Rows}
	in := out.Grow(f.Margin)
	switch {
	case p.geodetic && f.Geodetic == nil:
		return errNoGeodetic
	case out.Empty() || f.Margin < 0:
		return fmt.Errorf("expr: EvalWindow of %v with a margin of %d pixels", out, f.Margin)
	case p.focal != nil && !p.focal.domain.Contains(out):
		return fmt.Errorf("expr: EvalWindow of %v outside the domain %v", out, p.focal.domain)
	case p.focal != nil && !in.Contains(out.Grow(p.Margin()).Intersect(p.focal.domain)):
		return fmt.Errorf("expr: EvalWindow of %v with a margin of %d pixels, the program needs %d", out, f.Margin,
			p.Margin())
	case p.focal != nil && (f.Transform[2] != 0 || f.Transform[4] != 0):
		return errors.New("expr: EvalWindow with focal functions on a rotated raster")
	}
	if err := p.check(src, int(in.Pixels())); err != nil {
		return err
	}
	if err := p.checkOutputs(dst, int(out.Pixels())); err != nil {
		return err
	}
	at := f.Place
	at.Col, at.Row, at.Columns = in.Col, in.Row, in.Width
	ev.begin(at, c)
	if p.focal == nil {
		return ev.evalRows(out, in, out, src, dst)
	}
	strip := p.focal.stripRows(out.Width, out.Height)
	for row := 0; row < out.Height; row += strip {
		part := out
		part.Row, part.Height = out.Row+row, min(strip, out.Height-row)
		for i, step := range p.focal.steps {
			if err := ev.step(i, &step, part, in, src); err != nil {
				return err
			}
		}
		if err := ev.evalRows(part, in, out, src, dst); err != nil {
			return err
		}
	}
	return nil
}

// evalRows computes the pixels of a window. in is the window of the operands, and all that of dst.
func (ev *Evaluator) evalRows(w, in, all block.Window, src []Operand, dst [][]byte) error {
	// Parts of equal length cost less than a short one at the end.
	parts := (w.Width + chunk - 1) / chunk
	part := min(chunk, ((w.Width+parts-1)/parts+15)&^15)
	for y := w.Row; y < w.Row+w.Height; y++ {
		for x := w.Col; x < w.Col+w.Width; x += part {
			m := min(part, w.Col+w.Width-x)
			off := (y-in.Row)*in.Width + x - in.Col
			at := (y-all.Row)*all.Width + x - all.Col
			ev.x, ev.y = x, y
			for i, size := range ev.p.sizes {
				ev.dst[i] = dst[i][at*size : (at+m)*size]
			}
			if ev.planeValid != nil {
				ev.partValid = ev.planeValid[at : at+m]
			}
			if err := ev.chunk(src, off, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// step computes a plane around part of a window.
func (ev *Evaluator) step(number int, step *focalStep, part, in block.Window, src []Operand) error {
	s, plan := ev.focal, ev.p.focal
	spec := &plan.planes[step.plane]
	w := block.Window{Col: part.Col - spec.columns, Row: part.Row - spec.rows, Width: part.Width + 2*spec.columns,
		Height: part.Height + 2*spec.rows}
	inside := w.Intersect(plan.domain)
	if step.call != nil {
		w = inside
	}
	p, m := &s.planes[step.plane], &s.slots[spec.slot]
	n := int(w.Pixels())
	p.window = w
	m.valid = grown(m.valid, n)
	p.valid = m.valid
	if spec.reg == reg32 {
		m.v32 = grown(m.v32, n)
		p.v32 = m.v32
	} else {
		m.v64 = grown(m.v64, n)
		p.v64 = m.v64
	}
	if step.call != nil {
		if spec.reg == reg32 {
			compute[float32](ev, step, p)
		} else {
			compute[float64](ev, step, p)
		}
		return nil
	}
	sub := s.evaluators[number]
	sub.begin(ev.place, nil)
	sub.planeValid, sub.someInvalid = p.valid, false
	data := ndarray.BytesOf(p.v32)
	if spec.reg == reg64 {
		data = ndarray.BytesOf(p.v64)
	}
	if err := sub.evalRows(inside, in, w, src, [][]byte{data}); err != nil {
		return err
	}
	if inside != w {
		s.fillOutside(p, spec.reg, inside, plan)
		sub.someInvalid = sub.someInvalid || plan.fold == block.MarginNodata
	}
	if !sub.someInvalid {
		p.valid = nil
	}
	return nil
}

// fillOutside sets the pixels of a plane outside the domain by those inside, or as invalid.
func (s *focalState) fillOutside(p *plane, reg regKind, inside block.Window, plan *focalPlan) {
	w, d := p.window, plan.domain
	s.cols, s.rows = grown(s.cols, w.Width), grown(s.rows, w.Height)
	source := func(list []int, at, low, n int) {
		for i := range list {
			switch {
			case at+i >= low && at+i < low+n:
				list[i] = i
			case plan.fold == block.MarginNodata:
				list[i] = -1
			default:
				list[i] = Fold(plan.fold, at+i, low, low+n) - at
			}
		}
	}
	source(s.cols, w.Col, d.Col, d.Width)
	source(s.rows, w.Row, d.Row, d.Height)
	spread(p.valid, w.Width, s.cols, s.rows)
	if reg == reg32 {
		spread(p.v32, w.Width, s.cols, s.rows)
	} else {
		spread(p.v64, w.Width, s.cols, s.rows)
	}
}

// spread sets each pixel to the one in the given column and row, or to 0 where one of them is
// negative: first along rows, then whole rows.
func spread[T any](v []T, width int, cols, rows []int) {
	for y, from := range rows {
		if from != y {
			continue
		}
		row := v[y*width : (y+1)*width]
		for x, from := range cols {
			switch {
			case from < 0:
				clear(row[x : x+1])
			case from != x:
				row[x] = row[from]
			}
		}
	}
	for y, from := range rows {
		row := v[y*width : (y+1)*width]
		switch {
		case from < 0:
			clear(row)
		case from != y:
			copy(row, v[from*width:(from+1)*width])
		}
	}
}

// compute computes the result of a call.
func compute[T real](ev *Evaluator, step *focalStep, p *plane) {
	s, call, d := ev.focal, step.call, ev.p.focal.domain
	// Positions count from the corner of the domain, so that a window of a raster has the bits of
	// the whole.
	at := func(p *plane) focal.Plane[T] {
		return focal.Plane[T]{Values: *values[T](p), Valid: p.valid, Rows: p.window.Height, Columns: p.window.Width,
			Row: p.window.Row - d.Row, Col: p.window.Col - d.Col}
	}
	dst, src := at(p), at(&s.planes[step.source])
	switch call.name {
	case "focal_mean":
		focal.Mean(&dst, &src, call.footprint, &s.scratch)
	case "focal_sum":
		focal.Sum(&dst, &src, call.footprint, &s.scratch)
	case "focal_min":
		focal.Min(&dst, &src, call.footprint, &s.scratch)
	case "focal_max":
		focal.Max(&dst, &src, call.footprint, &s.scratch)
	case "focal_median":
		focal.Median(&dst, &src, call.footprint, &s.scratch)
	case "focal_std":
		focal.Std(&dst, &src, call.footprint, &s.scratch)
	case "focal_range":
		focal.Range(&dst, &src, call.footprint, &s.scratch)
	case "focal_mode":
		focal.Mode(&dst, &src, call.footprint, &s.scratch)
	case "focal_count":
		focal.Count(&dst, &src, call.footprint, &s.scratch)
	case "convolve":
		focal.Convolve(&dst, &src, call.weights, &s.scratch)
	case "shift":
		move(&dst, &src, call.down, call.right)
	default:
		terrain(ev, call, &dst, &src)
	}
	p.valid = dst.Valid
}

// terrain computes the result of a terrain function.
func terrain[T real](ev *Evaluator, call *focalNode, dst, src *focal.Plane[T]) {
	s := &ev.focal.scratch
	switch call.name {
	case "tpi":
		focal.TPI(dst, src, s)
		return
	case "tri":
		focal.TRI(dst, src, s)
		return
	case "roughness":
		focal.Roughness(dst, src, s)
		return
	}
	azimuth, altitude, scale := call.numbers[0], call.numbers[1], call.numbers[2]
	cell := focal.CellSize{X: ev.place.Transform[1] * scale, Y: ev.place.Transform[5] * scale, Scale: 1}
	switch call.name {
	case "slope":
		focal.Slope(dst, src, cell, s)
	case "aspect":
		focal.Aspect(dst, src, cell, s)
	case "curvature":
		focal.Curvature(dst, src, cell, s)
	case "hillshade":
		focal.Hillshade(dst, src, cell, azimuth, altitude, s)
	}
}

// move sets dst to src moved down and to the right.
func move[T real](dst, src *focal.Plane[T], down, right int) {
	valid := dst.Valid[:len(dst.Values)]
	dst.Valid = nil
	for r := range dst.Rows {
		from := (dst.Row+r-down-src.Row)*src.Columns + dst.Col - right - src.Col
		to := r * dst.Columns
		copy(dst.Values[to:to+dst.Columns], src.Values[from:])
		if src.Valid != nil {
			copy(valid[to:to+dst.Columns], src.Valid[from:])
			dst.Valid = valid
		}
	}
	if dst.Valid != nil && bytes.IndexByte(valid, 0) < 0 {
		dst.Valid = nil
	}
}

// aliasPlane makes a register point to the memory of a plane.
func aliasPlane[T real](ev *Evaluator, in *instr, n int) {
	p := &ev.planes[in.ref]
	at := p.index(ev.x, ev.y)
	vectors[T](ev)[in.dst] = (*values[T](p))[at : at+n]
}

func planeMask(ev *Evaluator, in *instr, n int) {
	p := &ev.planes[in.ref]
	ev.masks[in.dst] = nil
	if p.valid != nil {
		at := p.index(ev.x, ev.y)
		if m := p.valid[at : at+n]; bytes.IndexByte(m, 0) >= 0 {
			ev.masks[in.dst] = m
		}
	}
}

// storePlane stores pixels of the operand of a focal function.
func storePlane[T real](ev *Evaluator, in *instr, n int) {
	if !in.root.direct {
		copy(ndarray.Cast[T](ev.dst[0])[:n], vectors[T](ev)[in.args[0]])
	}
	mask := ev.masks[in.args[1]]
	if mask == nil {
		mask = allValid
	} else if bytes.IndexByte(mask[:n], 0) >= 0 {
		ev.someInvalid = true
	}
	copy(ev.partValid[:n], mask)
}
