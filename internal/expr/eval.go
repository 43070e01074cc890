package expr

import (
	"errors"
	"fmt"

	"leat/ndarray"
)

// chunk is the number of pixels that an instruction processes at a time. A float32 vector is 2 KiB,
// so that more than ten fit into the L1 cache, and the few nanoseconds that an instruction costs
// are spread over many pixels.
const chunk = 512

// Operand holds the pixels of one band.
type Operand struct {
	// Data holds the pixels in the band's type and the machine's byte order, aligned for the type.
	Data []byte
	// Mask has one byte per pixel, 0 for invalid ones; nil means that all are valid. Pixels that
	// are NaN or equal the band's nodata are invalid in any case.
	Mask []byte
}

// Counts sums up the pixels of an output that Eval wrote, each band separately.
type Counts struct {
	Pixels  int64 // all
	Invalid int64 // invalid pixels, including those counted by NaN
	NaN     int64 // pixels that the computation made invalid: 0/0, log(-1), a % 0
	Inf     int64 // infinite pixels of float outputs
	// Saturated counts pixels beyond the range of the output type, which became its nearest value
	// (in float outputs, infinity).
	Saturated int64
	// NodataCollision counts valid results that equal the output's nodata value: readers will treat
	// them as invalid.
	NodataCollision int64
	// FirstCollision is the index of the first of them within its call of Eval, or -1.
	FirstCollision int
}

// Evaluator computes pixels of a program. Only one goroutine may use it at a time. Its scratch
// memory is a few vectors, whatever the number of pixels.
type Evaluator struct {
	p       *Program
	r32     [][]float32
	r64     [][]float64
	rb      [][]byte
	masks   [][]byte // by mask register; nil if all pixels are valid
	maskMem [][]byte
	scratch [8][]float64 // of reductions
	column  []float64
	stored  []float64 // scratch of stores
	ok      []byte
	rounded []int32
	rows    []int32 // scratch of medians
	cells   [][]int32
	left    []int32
	runs    []int32 // scratch of modes
	pixels  pixelRows

	src    []Operand // of the current chunk
	dst    [][]byte
	base   int // index of the chunk's first pixel
	place  Place
	counts []*Counts // by output
	// uncounted replaces the Counts that callers do not pass.
	uncounted Counts
	err       *PixelError // the first of the current chunk

	x, y   int         // the chunk's first pixel, in EvalWindow
	focal  *focalState // nil without focal functions
	planes []plane     // of them

	// Of the operand of a focal function: the validity of its pixels, that of the current chunk,
	// and whether any is invalid.
	planeValid, partValid []byte
	someInvalid           bool
}

// NewEvaluator returns an evaluator of p with its own scratch memory.
func (p *Program) NewEvaluator() *Evaluator {
	ev := &Evaluator{
		p:       p,
		r32:     registers[float32](p.regs[reg32]),
		r64:     registers[float64](p.regs[reg64]),
		rb:      registers[byte](p.regs[regBool]),
		masks:   make([][]byte, p.regs[regMask]),
		maskMem: make([][]byte, p.regs[regMask]),
		src:     make([]Operand, len(p.refs)),
		dst:     make([][]byte, len(p.sizes)),
		counts:  make([]*Counts, len(p.outputs)),
	}
	if p.focal != nil {
		ev.focal = p.newFocalState()
		ev.planes = ev.focal.planes
	}
	for _, k := range p.constants {
		for i := range chunk {
			switch k.kind {
			case reg32:
				ev.r32[k.reg][i] = float32(k.k)
			case reg64:
				ev.r64[k.reg][i] = k.k
			case regBool:
				ev.rb[k.reg][i] = byte(k.k)
			}
		}
	}
	return ev
}

func registers[T any](n int) [][]T {
	r := make([][]T, n)
	for i := range r {
		r[i] = make([]T, chunk)
	}
	return r
}

// Eval computes n pixels. src has an operand for each of the program's Refs, of at least n
// elements. dst has a slice for each band of each output, of at least n elements of the output's
// Type and aligned for it. They must not overlap, and Eval keeps neither. c has Counts for each
// output, to which Eval adds; it may be shorter, and its elements may be nil. Eval returns a
// *PixelError for the first pixel that cannot be computed (a 64-bit integer beyond 2^53) or written
// (an invalid one in an output without nodata); the contents of dst are then undefined.
//
// Expressions that use coordinates need EvalAt.
func (ev *Evaluator) Eval(src []Operand, dst [][]byte, n int, c ...*Counts) error {
	return ev.EvalAt(Place{}, src, dst, n, c...)
}

// EvalAt is Eval for pixels at a place of the raster.
func (ev *Evaluator) EvalAt(place Place, src []Operand, dst [][]byte, n int, c ...*Counts) error {
	p := ev.p
	if p.geodetic && place.Geodetic == nil {
		return errNoGeodetic
	}
	if p.placed && place.Columns <= 0 {
		return errors.New("expr: Eval of an expression with coordinates: the place of the pixels is missing")
	}
	if p.focal != nil {
		return errors.New("expr: Eval of an expression with focal functions, which need EvalWindow")
	}
	if err := p.check(src, n); err != nil {
		return err
	}
	if err := p.checkOutputs(dst, n); err != nil {
		return err
	}
	ev.begin(place, c)
	for off := 0; off < n; {
		m := min(chunk, n-off)
		for i, size := range p.sizes {
			ev.dst[i] = dst[i][off*size : (off+m)*size]
		}
		if err := ev.chunk(src, off, m); err != nil {
			return err
		}
		off += m
	}
	return nil
}

// begin prepares a call of EvalAt or EvalWindow.
func (ev *Evaluator) begin(place Place, counts []*Counts) {
	ev.place = place
	for i := range ev.counts {
		c := &ev.uncounted
		if i < len(counts) && counts[i] != nil {
			c = counts[i]
		}
		if c.NodataCollision == 0 {
			c.FirstCollision = -1
		}
		ev.counts[i] = c
	}
}

// chunk computes m pixels, from number off of the operands.
func (ev *Evaluator) chunk(src []Operand, off, m int) error {
	for i := range src {
		width := ev.p.bandOf[i].Type.Size()
		ev.src[i] = Operand{Data: src[i].Data[off*width : (off+m)*width]}
		if src[i].Mask != nil {
			ev.src[i].Mask = src[i].Mask[off : off+m]
		}
	}
	ev.base = off
	if err := ev.run(m); err != nil {
		// A later instruction may fail at an earlier pixel.
		if first := err.Index - off; first > 0 {
			if earlier := ev.run(first); earlier != nil {
				err = earlier
			}
		}
		return err
	}
	return nil
}

// floats returns scratch memory number i for a chunk of float64.
func (ev *Evaluator) floats(i int) []float64 {
	if ev.scratch[i] == nil {
		ev.scratch[i] = make([]float64, chunk)
	}
	return ev.scratch[i]
}

// run executes the program on the first n pixels of the chunk.
func (ev *Evaluator) run(n int) *PixelError {
	ev.err = nil
	for _, b := range ev.p.bindings {
		if b.kind == reg32 {
			ev.r32[b.reg] = ndarray.Cast[float32](ev.dst[b.at])
		} else {
			ev.r64[b.reg] = ndarray.Cast[float64](ev.dst[b.at])
		}
	}
	code := ev.p.code
	for i := range code {
		code[i].run(ev, &code[i], n)
	}
	return ev.err
}

// recordError records e if no earlier pixel has an error.
func (ev *Evaluator) recordError(e PixelError) {
	e.Index += ev.base
	if ev.err == nil || e.Index < ev.err.Index {
		ev.err = &e
	}
}

// check checks that the operands have n pixels.
func (p *Program) check(src []Operand, n int) error {
	if len(src) != len(p.refs) {
		return fmt.Errorf("expr: Eval with %d operands, the program has %d", len(src), len(p.refs))
	}
	for i, s := range src {
		if len(s.Data) < n*p.bandOf[i].Type.Size() || s.Mask != nil && len(s.Mask) < n {
			return fmt.Errorf("expr: Eval of %d pixels: operand %s is shorter", n, p.refNames[i])
		}
	}
	return nil
}

// checkOutputs checks that the output bands have n pixels.
func (p *Program) checkOutputs(dst [][]byte, n int) error {
	if len(dst) != len(p.sizes) {
		return fmt.Errorf("expr: Eval with %d output bands, the program has %d", len(dst), len(p.sizes))
	}
	for i, d := range dst {
		if len(d) < n*p.sizes[i] {
			return fmt.Errorf("expr: Eval of %d pixels: output band %d is shorter", n, i+1)
		}
	}
	return nil
}
