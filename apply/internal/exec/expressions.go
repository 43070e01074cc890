package exec

import (
	"context"
	"errors"
	"fmt"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/expr"
	"leat/ndarray"
)

// expressions compute a job's outputs from its inputs.
type expressions struct {
	programs       []*resolve.Program
	collisionFails bool // a valid result that equals nodata is an error
}

// evaluators is the memory that one worker reuses.
type evaluators struct {
	evals    []*expr.Evaluator // by program
	operands []expr.Operand
	dst      [][]byte
}

// computed are the pixels of an output or a variable.
type computed struct {
	*expr.Output
	label  string
	number int // among the outputs or variables
	pixels *ndarray.Array
	counts expr.Counts
}

// compute is the function of a job with expressions.
func (x *expressions) compute(ctx context.Context, b *Block) error {
	ev := x.evaluators(b)
	for i, p := range x.programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		outs, err := ev.eval(b, i, p)
		if err != nil {
			return err
		}
		for k := range outs {
			out := &outs[k]
			extra := &b.extras[out.number]
			extra.Counts = out.counts
			if out.counts.NodataCollision > 0 {
				at := b.pixelAt(out.counts.FirstCollision)
				extra.Col, extra.Row = at.Col, at.Row
				if x.collisionFails {
					return out.collision(b)
				}
			}
			b.SetOut(out.number, out.pixels)
		}
	}
	return nil
}

// computeVariables computes the variables of a function.
func (x *expressions) computeVariables(ctx context.Context, b *Block) error {
	ev := x.evaluators(b)
	b.variables = make([]variable, len(x.programs))
	for i, p := range x.programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		values, err := ev.eval(b, i, p)
		if err != nil {
			return err
		}
		v := &values[0]
		if v.counts.NodataCollision > 0 {
			return v.collision(b)
		}
		b.variables[v.number] = variable{v.pixels, v.Nodata()}
	}
	return nil
}

// collision returns the error about a valid pixel that has the nodata value.
func (c *computed) collision(b *Block) error {
	at := b.pixelAt(c.counts.FirstCollision)
	return jobspec.Errorf("Controls.NodataCollision",
		"%s: the valid pixel at column %d, row %d of the grid has the nodata value %v", c.label, at.Col, at.Row, c.Nodata())
}

// evaluators returns the evaluators of the worker that computes a block.
func (x *expressions) evaluators(b *Block) *evaluators {
	if b.state.evaluators == nil {
		ev := &evaluators{}
		for _, p := range x.programs {
			ev.evals = append(ev.evals, p.NewEvaluator())
		}
		b.state.evaluators = ev
	}
	return b.state.evaluators
}

// eval evaluates program i on a block, with the function's margin.
func (ev *evaluators) eval(b *Block, i int, p *resolve.Program) ([]computed, error) {
	ev.operands = ev.operands[:0]
	for _, op := range p.Operands {
		fd := &b.data.files[op.File]
		var mask []byte
		if op.File != p.Carried {
			mask = fd.maskOf(b.File(op.File), op.Layer)
		}
		ev.operands = append(ev.operands, expr.Operand{Data: fd.array.At(op.Layer).Raw(), Mask: mask})
	}
	w := b.Window.Grow(b.Overlap())
	frame := expr.Frame{Place: expr.Place{Col: w.Col, Row: w.Row, Columns: w.Width, Transform: b.Grid().Transform},
		Rows: w.Height, Margin: b.margin() - b.Overlap()}
	ev.dst = ev.dst[:0]
	outs := make([]computed, len(p.Members))
	counts := make([]*expr.Counts, len(outs))
	for k, o := range p.Outputs() {
		outs[k] = computed{Output: o, label: p.Labels[k], number: p.Members[k], pixels: b.NewArray(o.Type(), o.Bands()),
			counts: expr.Counts{FirstCollision: -1}}
		counts[k] = &outs[k].counts
		for band := range o.Bands() {
			ev.dst = append(ev.dst, outs[k].pixels.At(band).Raw())
		}
	}
	err := place(p, b.Grid(), frame.Place, func(at expr.Place) error {
		if frame.Place = at; frame.Margin == 0 && !p.Focal() {
			return ev.evals[i].EvalAt(at, ev.operands, ev.dst, w.Width*w.Height, counts...)
		}
		return ev.evals[i].EvalWindow(frame, ev.operands, ev.dst, counts...)
	})
	if err != nil {
		return nil, locate(b, p, err)
	}
	return outs, nil
}

// locate adds the pixel's position in the grid to an error about one pixel.
func locate(b *Block, p *resolve.Program, err error) error {
	var pe *expr.PixelError
	if !errors.As(err, &pe) {
		return err
	}
	at, label := b.pixelAt(pe.Index), p.Labels[pe.Output]+": "
	what := fmt.Sprintf("band %d", pe.Band)
	if pe.Input != "" {
		what = pe.Input
		if len(p.Labels) > 1 {
			label = "" // any of them may use it
		}
	}
	return fmt.Errorf("%s%s at column %d, row %d of the grid: %s", label, what, at.Col, at.Row, pe.Msg)
}

// pixelAt returns the pixel of the grid at index i of the files' arrays.
func (b *Block) pixelAt(i int) block.Window {
	w := b.Window.Grow(b.margin())
	return block.Window{Col: w.Col + i%w.Width, Row: w.Row + i/w.Width, Width: 1, Height: 1}
}

// margin returns the width of the margin of the files' arrays. That of focal functions is not part
// of Overlap.
func (b *Block) margin() int { return b.state.shared.blocks.Overlap }
