package exec

import (
	"context"
	"errors"
	"fmt"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/expr"
	"leat/ndarray"
)

// expressions compute a job's outputs from its inputs.
type expressions struct {
	programs       []*resolve.Program // by output
	collisionFails bool               // a valid result that equals nodata is an error
}

// evaluators is the memory that one worker reuses.
type evaluators struct {
	evals    []*expr.Evaluator
	operands []expr.Operand
	dst      [][]byte
}

// compute is the function of a job with expressions.
func (x *expressions) compute(ctx context.Context, b *Block) error {
	ev := x.evaluators(b)
	for i, p := range x.programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, counts, err := ev.eval(b, i, p)
		if err != nil {
			return err
		}
		b.extras[i].Counts = counts
		if counts.NodataCollision > 0 {
			at := b.pixelAt(counts.FirstCollision)
			b.extras[i].Col, b.extras[i].Row = at.Col, at.Row
			if x.collisionFails {
				return collision(b, p, &counts)
			}
		}
		b.SetOut(i, out)
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
		v, counts, err := ev.eval(b, i, p)
		if err != nil {
			return err
		}
		if counts.NodataCollision > 0 {
			return collision(b, p, &counts)
		}
		b.variables[i] = variable{v, p.Nodata()}
	}
	return nil
}

// collision returns the error about a valid pixel that has the nodata value.
func collision(b *Block, p *resolve.Program, counts *expr.Counts) error {
	at := b.pixelAt(counts.FirstCollision)
	return jobspec.Errorf("Controls.NodataCollision",
		"%s: the valid pixel at column %d, row %d of the grid has the nodata value %v", p.Label, at.Col, at.Row, p.Nodata())
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
func (ev *evaluators) eval(b *Block, i int, p *resolve.Program) (*ndarray.Array, expr.Counts, error) {
	ev.operands = ev.operands[:0]
	for _, op := range p.Operands {
		fd := &b.data.files[op.File]
		var mask []byte
		if op.File != p.Carried {
			mask = fd.maskOf(b.File(op.File), op.Layer)
		}
		ev.operands = append(ev.operands, expr.Operand{Data: fd.array.At(op.Layer).Raw(), Mask: mask})
	}
	out := b.NewArray(p.Type(), p.Bands())
	w := b.Window.Grow(b.Overlap())
	frame := expr.Frame{Place: expr.Place{Col: w.Col, Row: w.Row, Columns: w.Width, Transform: b.Grid().Transform},
		Rows: w.Height, Margin: b.margin() - b.Overlap()}
	ev.dst = ev.dst[:0]
	for band := range p.Bands() {
		ev.dst = append(ev.dst, out.At(band).Raw())
	}
	counts := expr.Counts{FirstCollision: -1}
	err := place(p, b.Grid(), frame.Place, func(at expr.Place) error {
		if frame.Place = at; frame.Margin == 0 && !p.Focal() {
			return ev.evals[i].EvalAt(at, ev.operands, ev.dst, w.Width*w.Height, &counts)
		}
		return ev.evals[i].EvalWindow(frame, ev.operands, ev.dst, &counts)
	})
	if err != nil {
		return nil, counts, locate(b, p, err)
	}
	return out, counts, nil
}

// locate adds the pixel's position in the grid to an error about one pixel.
func locate(b *Block, p *resolve.Program, err error) error {
	var pe *expr.PixelError
	if !errors.As(err, &pe) {
		return err
	}
	w := b.pixelAt(pe.Index)
	what := pe.Input
	if what == "" {
		what = fmt.Sprintf("band %d", pe.Band)
	}
	return fmt.Errorf("%s: %s at column %d, row %d of the grid: %s", p.Label, what, w.Col, w.Row, pe.Msg)
}

// pixelAt returns the pixel of the grid at index i of the files' arrays.
func (b *Block) pixelAt(i int) block.Window {
	w := b.Window.Grow(b.margin())
	return block.Window{Col: w.Col + i%w.Width, Row: w.Row + i/w.Width, Width: 1, Height: 1}
}

// margin returns the width of the margin of the files' arrays. That of focal functions is not part
// of Overlap.
func (b *Block) margin() int { return b.state.shared.blocks.Overlap }
