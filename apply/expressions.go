package apply

import (
	"context"
	"errors"
	"fmt"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/expr"
)

// expressions are a job's compiled expressions, and what they counted.
type expressions struct {
	run      *run
	programs []*program // in the order of the outputs
}

type program struct {
	*resolve.Program
	counts expr.Counts
	first  *block.Window // pixel of the first nodata collision: a window of width and height 1
}

func newExpressions(r *run, programs []*resolve.Program) *expressions {
	x := &expressions{run: r}
	for _, p := range programs {
		x.programs = append(x.programs, &program{Program: p})
	}
	return x
}

// evaluators is the memory that one worker reuses.
type evaluators struct {
	evals    []*expr.Evaluator
	operands []expr.Operand
	dst      [][]byte
}

// compute is the Func of a job with expressions.
func (x *expressions) compute(ctx context.Context, b *Block) error {
	ev, _ := b.worker.exprs.(*evaluators)
	if ev == nil {
		ev = &evaluators{}
		for _, p := range x.programs {
			ev.evals = append(ev.evals, p.NewEvaluator())
		}
		b.worker.exprs = ev
	}
	n := b.Rows() * b.Columns()
	for i, p := range x.programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		ev.operands = ev.operands[:0]
		for _, op := range p.Operands {
			fd := &b.data.files[op.File]
			var mask []byte
			if op.File != p.Carried {
				mask = fd.maskOf(x.run.in.Files[op.File], op.Layer)
			}
			ev.operands = append(ev.operands, expr.Operand{Data: fd.array.At(op.Layer).Raw(), Mask: mask})
		}
		out := b.NewOut(p.Type(), p.Bands())
		ev.dst = ev.dst[:0]
		for band := range p.Bands() {
			ev.dst = append(ev.dst, out.At(band).Raw())
		}
		counts := expr.Counts{FirstCollision: -1}
		if err := ev.evals[i].Eval(ev.operands, ev.dst, n, &counts); err != nil {
			return x.locate(b, p, err)
		}
		b.extras[i].Counts = counts
		if counts.NodataCollision > 0 {
			at := b.pixelAt(counts.FirstCollision)
			b.extras[i].Col, b.extras[i].Row = at.Col, at.Row
			if x.run.job.Controls.NodataCollision {
				return fmt.Errorf("output %s: the valid pixel at column %d, row %d of the grid has the nodata value %v: choose another nodata value (--nodata)", p.Output, at.Col, at.Row, p.Nodata())
			}
		}
		b.SetOut(p.Output, out)
	}
	return nil
}

// locate adds the pixel's position in the grid to an error about one pixel.
func (x *expressions) locate(b *Block, p *program, err error) error {
	var pe *expr.PixelError
	if !errors.As(err, &pe) {
		return err
	}
	w := b.pixelAt(pe.Index)
	what := pe.Input
	if what == "" {
		what = fmt.Sprintf("band %d", pe.Band)
	}
	return fmt.Errorf("output %s: %s at column %d, row %d of the grid: %s", p.Output, what, w.Col, w.Row, pe.Msg)
}

// pixelAt returns the pixel of the grid at index i of the block's arrays.
func (b *Block) pixelAt(i int) block.Window {
	return block.Window{Col: b.Window.Col - b.Overlap() + i%b.Columns(),
		Row: b.Window.Row - b.Overlap() + i/b.Columns(), Width: 1, Height: 1}
}

// add sums the counts of a block. The caller holds the run's mutex.
func (x *expressions) add(extras []spool.Extra) {
	for i, p := range x.programs {
		c := &extras[i].Counts
		p.counts.Pixels += c.Pixels
		p.counts.Invalid += c.Invalid
		p.counts.NaN += c.NaN
		p.counts.Inf += c.Inf
		p.counts.Saturated += c.Saturated
		p.counts.NodataCollision += c.NodataCollision
		if w := (block.Window{Col: extras[i].Col, Row: extras[i].Row, Width: 1, Height: 1}); c.NodataCollision > 0 &&
			(p.first == nil || w.Row < p.first.Row || w.Row == p.first.Row && w.Col < p.first.Col) {
			p.first = &w
		}
	}
}
