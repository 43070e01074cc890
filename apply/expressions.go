package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/expr"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// expressions are a job's expressions, compiled for its inputs.
type expressions struct {
	run      *run
	programs []*program // in the order of the outputs
}

type program struct {
	out      *output.Output
	prog     *expr.Program
	operands []operand     // in the order of prog.Refs
	carried  *resolve.File // the file whose alpha band the output copies; this alpha band does not mask pixels here
	counts   expr.Counts
	first    *block.Window // pixel of the first nodata collision: a window of width and height 1
}

// operand is a layer of one of the run's files.
type operand struct{ file, layer int }

// compileExpressions compiles every output's expression, sets the outputs' types, and drops the
// inputs' layers that no expression uses.
func compileExpressions(job *Job, in *resolve.Inputs, grid raster.Grid, outs []*output.Output) (*expressions, error) {
	described := describeInputs(job, in, grid, nil)
	x := &expressions{}
	used := map[operand]bool{}
	var errs []error
	index := map[string][]int{}
	for i, f := range in.Files {
		index[f.Name] = append(index[f.Name], i)
	}
	for _, o := range outs {
		e, err := expr.Parse(job.Expressions[o.Name])
		if err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.Name, err))
			continue
		}
		opts := exprOptions(job, o)
		p, err := expr.Compile(e, described, opts)
		var carried *resolve.File
		if err == nil {
			p, carried, err = carryAlpha(e, p, opts, job, in, grid)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", o.Name, plain(err)))
			continue
		}
		if o.Spec.Bands > 0 && o.Spec.Bands != p.Bands() {
			errs = append(errs, fmt.Errorf("output %s: the expression gives %s, not %d", o.Name,
				units.Count(p.Bands(), "band"), o.Spec.Bands))
		}
		o.Type, o.Bands, o.Nodata = p.Type(), p.Bands(), p.Nodata()
		pr := &program{out: o, prog: p, carried: carried}
		o.Copied = make([]*raster.Band, p.Bands())
		for i := range o.Copied {
			if ref, ok := p.CopiedBand(i + 1); ok {
				f := in.ByName[ref.Name][ref.File]
				o.Copied[i] = &f.Info.Bands[f.Layers[ref.Band-1]-1]
				if f == carried && f.Layers[ref.Band-1] == f.Alpha {
					o.Alpha = i + 1
				}
			}
		}
		for _, ref := range p.Refs() {
			op := operand{index[ref.Name][ref.File], ref.Band - 1}
			used[op] = true
			pr.operands = append(pr.operands, op)
		}
		x.programs = append(x.programs, pr)
	}
	if len(errs) > 0 {
		return nil, jobErrors(errs...)
	}
	x.keepUsed(in, used)
	return x, nil
}

// exprOptions returns the compiler's options for an output.
func exprOptions(job *Job, o *output.Output) *expr.Options {
	return &expr.Options{Type: o.Spec.Type, Scale: o.Spec.Scale, Offset: o.Spec.Offset, Nodata: o.Spec.Nodata,
		NoMask: job.Controls.NoMask}
}

// carryAlpha compiles an expression again if one of its results is the alpha band of a file. That
// band then marks the file's valid pixels in the output, so the expression keeps all pixels. It
// returns the file, or nil if there is none.
func carryAlpha(e *expr.Expr, p *expr.Program, opts *expr.Options, job *Job, in *resolve.Inputs,
	grid raster.Grid) (*expr.Program, *resolve.File, error) {
	for i := range p.Bands() {
		ref, ok := p.CopiedBand(i + 1)
		if !ok {
			continue
		}
		f := in.ByName[ref.Name][ref.File]
		if f.Alpha == 0 || f.Layers[ref.Band-1] != f.Alpha || slices.ContainsFunc(f.Nodata,
			func(v *ndarray.Scalar) bool { return v != nil }) {
			continue
		}
		again, err := expr.Compile(e, describeInputs(job, in, grid, f), opts)
		if err != nil {
			return nil, nil, err
		}
		if again.Nodata() == nil { // readers ignore alpha where they find nodata
			return again, f, nil
		}
	}
	return p, nil, nil
}

// describeInputs describes the inputs to the compiler, by name. All pixels of the file carried,
// which may be nil, count as valid: pixels outside the file are 0, in its alpha band too.
func describeInputs(job *Job, in *resolve.Inputs, grid raster.Grid, carried *resolve.File) map[string]expr.Input {
	described := map[string]expr.Input{}
	whole := grid.Window()
	for _, name := range sortedKeys(in.ByName) {
		d := expr.Input{List: in.Lists[name]}
		for _, f := range in.ByName[name] {
			var file expr.File
			outside := !f.Extent().Contains(whole)
			for i, l := range f.Layers {
				b := expr.Band{Type: f.Type, Nodata: f.Nodata[i],
					Masked: f != carried && (outside || f.Masks[i].Kind != raster.MaskNone)}
				if job.Controls.Unscale {
					b.Scale, b.Offset = f.Info.Bands[l-1].Scale, f.Info.Bands[l-1].Offset
				}
				file.Bands = append(file.Bands, b)
			}
			d.Files = append(d.Files, file)
		}
		described[name] = d
	}
	return described
}

// keepUsed drops the layers that no expression reads. A file without layers is not read but still
// counts for the footprint.
func (x *expressions) keepUsed(in *resolve.Inputs, used map[operand]bool) {
	place := map[operand]operand{}
	for i, f := range in.Files {
		layers, nodata, masks := f.Layers, f.Nodata, f.Masks
		f.Offered, f.OfferedNodata, f.OfferedMasks = layers, nodata, masks
		f.Layers, f.Nodata, f.Masks = nil, nil, nil
		for l := range layers {
			if used[operand{i, l}] {
				place[operand{i, l}] = operand{i, len(f.Layers)}
				f.Layers, f.Nodata, f.Masks = append(f.Layers, layers[l]), append(f.Nodata, nodata[l]),
					append(f.Masks, masks[l])
			}
		}
		f.IndexMasks()
	}
	for _, p := range x.programs {
		for i, op := range p.operands {
			p.operands[i] = place[op]
		}
	}
}

// unused returns a note for each input that no expression reads, except the reference.
func (x *expressions) unused(in *resolve.Inputs, reference string) []string {
	var list []string
	for _, name := range sortedKeys(in.ByName) {
		if name != reference && !slices.ContainsFunc(in.ByName[name],
			func(f *resolve.File) bool { return len(f.Layers) > 0 }) {
			list = append(list, fmt.Sprintf("input %s is used by no expression: it counts for the grid alone", name))
		}
	}
	return list
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
			var mask []byte
			if f := x.run.in.Files[op.file]; f != p.carried {
				mask = fd.maskOf(f, op.layer)
			}
			ev.operands = append(ev.operands, expr.Operand{Data: fd.array.At(op.layer).Raw(), Mask: mask})
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
		b.extras[i].Counts = counts
		if counts.NodataCollision > 0 {
			at := b.pixelAt(counts.FirstCollision)
			b.extras[i].Col, b.extras[i].Row = at.Col, at.Row
			if x.run.job.Controls.NodataCollision {
				return fmt.Errorf("output %s: the valid pixel at column %d, row %d of the grid has the nodata value %v: choose another nodata value (--nodata)", p.out.Name, at.Col, at.Row, p.out.Nodata)
			}
		}
		b.SetOut(p.out.Name, out)
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
	return fmt.Errorf("output %s: %s at column %d, row %d of the grid: %s", p.out.Name, what, w.Col, w.Row, pe.Msg)
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
