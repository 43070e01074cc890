package apply

import (
	"context"
	"errors"
	"fmt"

	"leat/block"
	"leat/expr"
	"leat/raster"
)

// expressions is a job's band math, compiled for its inputs.
type expressions struct {
	run      *run
	programs []*program // in the order of the outputs
}

type program struct {
	out      *output
	prog     *expr.Program
	operands []operand // in the order of prog.Refs
	counts   expr.Counts
	first    *block.Window // pixel of the first nodata collision, of width and height 1
}

// operand is a layer of one of the run's files.
type operand struct{ file, layer int }

// compileExpressions compiles every output's expression, sets the outputs' types, and cuts the inputs'
// layers down to those that are used.
func compileExpressions(job *Job, in *inputs, grid raster.Grid, outs []*output) (*expressions, error) {
	described := describeInputs(job, in, grid)
	x := &expressions{}
	used := map[operand]bool{}
	var errs []error
	index := map[string][]int{}
	for i, f := range in.files {
		index[f.input] = append(index[f.input], i)
	}
	for _, o := range outs {
		e, err := expr.Parse(job.Expressions[o.name])
		if err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.name, err))
			continue
		}
		p, err := expr.Compile(e, described, &expr.Options{Type: o.spec.Type, Scale: o.spec.Scale, Offset: o.spec.Offset,
			Nodata: o.spec.Nodata, NoMask: job.Controls.NoMask})
		if err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.name, plain(err)))
			continue
		}
		if o.spec.Bands > 0 && o.spec.Bands != p.Bands() {
			errs = append(errs, fmt.Errorf("output %s: the expression gives %s, not %d", o.name, count(p.Bands(), "band"), o.spec.Bands))
		}
		o.typ, o.bands, o.nodata = p.Type(), p.Bands(), p.Nodata()
		pr := &program{out: o, prog: p}
		for _, ref := range p.Refs() {
			op := operand{index[ref.Name][ref.File], ref.Band - 1}
			used[op] = true
			pr.operands = append(pr.operands, op)
		}
		x.programs = append(x.programs, pr)
	}
	if len(errs) > 0 {
		return nil, mistakes(errs...)
	}
	x.keepUsed(in, used)
	return x, nil
}

// describeInputs tells the compiler what each name stands for.
func describeInputs(job *Job, in *inputs, grid raster.Grid) map[string]expr.Input {
	described := map[string]expr.Input{}
	whole := grid.Window()
	for _, name := range sortedKeys(in.byName) {
		d := expr.Input{List: in.lists[name]}
		for _, f := range in.byName[name] {
			var file expr.File
			masked := f.masked || !f.extent().Contains(whole)
			for i, l := range f.layers {
				b := expr.Band{Type: f.typ, Nodata: f.nodata[i], Masked: masked}
				if job.Controls.Unscale {
					b.Scale, b.Offset = f.info.Bands[l-1].Scale, f.info.Bands[l-1].Offset
				}
				file.Bands = append(file.Bands, b)
			}
			d.Files = append(d.Files, file)
		}
		described[name] = d
	}
	return described
}

// keepUsed drops layers that no expression reads, and files of which none is read: they still count for the
// footprint, but are not read.
func (x *expressions) keepUsed(in *inputs, used map[operand]bool) {
	place := map[operand]operand{}
	for i, f := range in.files {
		layers, nodata := f.layers, f.nodata
		f.offered, f.offeredNodata = layers, nodata
		f.layers, f.nodata = nil, nil
		for l := range layers {
			if used[operand{i, l}] {
				place[operand{i, l}] = operand{i, len(f.layers)}
				f.layers, f.nodata = append(f.layers, layers[l]), append(f.nodata, nodata[l])
			}
		}
	}
	for _, p := range x.programs {
		for i, op := range p.operands {
			p.operands[i] = place[op]
		}
	}
}

// evaluators is the scratch of one worker.
type evaluators struct {
	evals    []*expr.Evaluator
	operands []expr.Operand
	dst      [][]byte
}

// compute is the Func of a job of expressions.
func (x *expressions) compute(ctx context.Context, b *Block) error {
	ev, _ := b.worker.exprs.(*evaluators)
	if ev == nil {
		ev = &evaluators{}
		for _, p := range x.programs {
			ev.evals = append(ev.evals, p.prog.NewEvaluator())
		}
		b.worker.exprs = ev
	}
	n := b.Rows() * b.Columns()
	for i, p := range x.programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		ev.operands = ev.operands[:0]
		for _, op := range p.operands {
			fd := &b.data.files[op.file]
			ev.operands = append(ev.operands, expr.Operand{Data: fd.array.At(op.layer).Raw(), Mask: fd.mask})
		}
		out := b.NewOut(p.prog.Type(), p.prog.Bands())
		ev.dst = ev.dst[:0]
		for band := range p.prog.Bands() {
			ev.dst = append(ev.dst, out.At(band).Raw())
		}
		counts := expr.Counts{FirstCollision: -1}
		if err := ev.evals[i].Eval(ev.operands, ev.dst, n, &counts); err != nil {
			return x.locate(b, p, err)
		}
		b.extras[i].counts = counts
		if counts.NodataCollision > 0 {
			at := b.pixelAt(counts.FirstCollision)
			b.extras[i].col, b.extras[i].row = at.Col, at.Row
			if x.run.job.Controls.NodataCollision {
				return fmt.Errorf("output %s: the valid pixel at column %d, row %d of the grid has the nodata value %v: choose another nodata value (--nodata)", p.out.name, at.Col, at.Row, p.out.nodata)
			}
		}
		b.SetOut(p.out.name, out)
	}
	return nil
}

// locate words an error of one pixel with its place in the grid.
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
	return fmt.Errorf("output %s: %s at column %d, row %d of the grid: %s", p.out.name, what, w.Col, w.Row, pe.Msg)
}

// pixelAt is the pixel of the grid at place i of the block's arrays.
func (b *Block) pixelAt(i int) block.Window {
	return block.Window{Col: b.Window.Col - b.Overlap() + i%b.Columns(), Row: b.Window.Row - b.Overlap() + i/b.Columns(), Width: 1, Height: 1}
}

// add sums what was counted in a block. The run's mutex is held.
func (x *expressions) add(extras []extra) {
	for i, p := range x.programs {
		c := &extras[i].counts
		p.counts.Pixels += c.Pixels
		p.counts.Invalid += c.Invalid
		p.counts.NaN += c.NaN
		p.counts.Inf += c.Inf
		p.counts.Saturated += c.Saturated
		p.counts.NodataCollision += c.NodataCollision
		if w := (block.Window{Col: extras[i].col, Row: extras[i].row, Width: 1, Height: 1}); c.NodataCollision > 0 &&
			(p.first == nil || w.Row < p.first.Row || w.Row == p.first.Row && w.Col < p.first.Col) {
			p.first = &w
		}
	}
}
