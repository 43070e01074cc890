package resolve

import (
	"fmt"
	"maps"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/expr"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// Program is the compiled expression of an output or a variable, or those of several outputs.
type Program struct {
	*expr.Program
	Members  []int     // the indices of the outputs or the variable among those of the job
	Labels   []string  // of these, such as "output ndvi", for messages
	Operands []Operand // in the order of Refs
	// Carried is the index of the file whose alpha band the output copies: its alpha band does not
	// mask pixels here. It is -1 if there is none.
	Carried int
}

// Operand is a layer of a file of the job, both counted from 0.
type Operand struct{ File, Layer int }

// compile compiles every output's expression and sets the outputs' types. It returns the inputs
// without the layers that no expression uses. domain is empty if there are no focal functions.
func compile(job *jobspec.Job, in *Inputs, grid raster.Grid, domain block.Window,
	outs []*output.Output) (programs []*Program, _ *Inputs, err error) {
	described := describeInputs(job, in, grid.Window().Union(domain), nil)
	var errs []error
	links := linkExpressions(job, func(name string) bool { _, ok := described[name]; return ok })
	var together joint
	for i, o := range outs {
		e := links.exprs[o.Name]
		if e == nil {
			if err := links.errs[o.Name]; err != nil {
				errs = append(errs, fmt.Errorf("output %s: %w", o.Name, err))
			}
			continue
		}
		if job.Controls.Cutline != "" {
			e = e.Within(job.Controls.Cutline)
		}
		opts := exprOptions(job, o, grid)
		opts.Domain, opts.Margin, opts.Ground = domain, job.Controls.Margin, ground(grid, domain)
		p, err := expr.Compile(e, described, opts)
		var carried *File
		if err == nil && !e.Focal() { // which need the pixels that alpha masks
			p, carried, err = carryAlpha(e, p, opts, job, in, grid)
		}
		if err == nil && p.Geodetic() {
			err = checkGeodetic(grid)
		}
		if err != nil {
			errs = append(errs, compileError(job, o.Name, err))
			continue
		}
		if o.Spec.Bands > 0 && o.Spec.Bands != p.Bands() {
			errs = append(errs, fmt.Errorf("output %s: the expression gives %s, not %d", o.Name,
				units.Count(p.Bands(), "band"), o.Spec.Bands))
		}
		o.Type, o.Bands, o.Nodata = p.Type(), p.Bands(), p.Nodata()
		inheritScalings(o, in, p)
		o.Copied = make([]*raster.Band, p.Bands())
		for k := range o.Copied {
			if ref, ok := p.CopiedBand(k + 1); ok {
				f := in.ByName[ref.Name][ref.File]
				o.Copied[k] = &f.Info.Bands[f.Layers[ref.Band-1]-1]
				if f == carried && f.Layers[ref.Band-1] == f.Alpha {
					o.Alpha = k + 1
				}
			}
		}
		if carried != nil || len(outs) == 1 { // with carried, the descriptions of the inputs differ
			programs = append(programs, newProgram(p, in, carried, []int{i}, "output "+o.Name))
			continue
		}
		together.outs, together.exprs, together.opts = append(together.outs, i), append(together.exprs, e),
			append(together.opts, opts)
	}
	if len(errs) > 0 {
		return nil, nil, jobspec.JobErrors(errs...)
	}
	shared, err := together.compile(described, in, outs)
	if err != nil {
		return nil, nil, err
	}
	programs = append(programs, shared...)
	return programs, keepUsed(programs, in), nil
}

// joint holds the expressions of outputs that are compiled again together, to do shared work once.
type joint struct {
	outs  []int // by expression: the index of the output
	exprs []*expr.Expr
	opts  []*expr.Options
}

func (j *joint) compile(described map[string]expr.Input, in *Inputs, outs []*output.Output) (list []*Program,
	err error) {
	compiled, members, err := expr.CompileAll(j.exprs, described, j.opts)
	if err != nil {
		return nil, err
	}
	for k, p := range compiled {
		var numbers []int
		var labels []string
		for _, m := range members[k] {
			numbers = append(numbers, j.outs[m])
			labels = append(labels, "output "+outs[j.outs[m]].Name)
		}
		list = append(list, newProgram(p, in, nil, numbers, labels...))
	}
	return list, nil
}

// newProgram returns a program with its operands. carried may be nil.
func newProgram(p *expr.Program, in *Inputs, carried *File, members []int, labels ...string) *Program {
	pr := &Program{Program: p, Members: members, Labels: labels, Carried: slices.Index(in.Files, carried)}
	for _, ref := range p.Refs() {
		file := slices.Index(in.Files, in.ByName[ref.Name][ref.File])
		pr.Operands = append(pr.Operands, Operand{file, ref.Band - 1})
	}
	return pr
}

// exprOptions returns the compiler's options for an output.
func exprOptions(job *jobspec.Job, o *output.Output, grid raster.Grid) *expr.Options {
	return &expr.Options{Type: o.Spec.Type, Scale: o.Spec.Scale, Offset: o.Spec.Offset, Nodata: o.Spec.Nodata,
		NoMask: job.Controls.NoMask, Tables: job.Tables, Width: grid.Width, Height: grid.Height}
}

// carryAlpha compiles an expression again if one of its results is the alpha band of a file. That
// band then marks the file's valid pixels in the output, so the expression keeps all pixels. It
// returns the file, or nil if there is none.
func carryAlpha(e *expr.Expr, p *expr.Program, opts *expr.Options, job *jobspec.Job, in *Inputs,
	grid raster.Grid) (*expr.Program, *File, error) {
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
		again, err := expr.Compile(e, describeInputs(job, in, grid.Window(), f), opts)
		if err != nil {
			return nil, nil, err
		}
		if again.Nodata() == nil { // readers ignore alpha where they find nodata
			return again, f, nil
		}
	}
	return p, nil, nil
}

// describeInputs describes the inputs to the compiler, by name. Their pixels in a window of the
// grid are read. All pixels of the file carried, which may be nil, count as valid: pixels outside
// the file are 0, in its alpha band too.
func describeInputs(job *jobspec.Job, in *Inputs, whole block.Window, carried *File) map[string]expr.Input {
	described := map[string]expr.Input{}
	for _, name := range slices.Sorted(maps.Keys(in.ByName)) {
		d, item := expr.Input{List: in.Lists[name]}, 0
		for _, f := range in.ByName[name] {
			file := expr.File{Time: f.Time}
			outside := !f.Extent().Contains(whole)
			for i, l := range f.Layers {
				b := expr.Band{Type: f.Type, Nodata: f.Nodata[i],
					Masked: f != carried && (outside || f.Masks[i].Kind != raster.MaskNone)}
				b.Scale, b.Offset = f.Scaling(l, job.Controls.Unscale)
				file.Bands = append(file.Bands, b)
			}
			d.Files = append(d.Files, file)
			if n := len(d.Groups); n > 0 && f.Item == item {
				d.Groups[n-1]++
			} else {
				d.Groups, item = append(d.Groups, 1), f.Item
			}
		}
		described[name] = d
	}
	return described
}

// keepUsed returns the inputs without the layers that no expression reads, and adapts the operands.
// A file without layers is not read but still counts for the footprint.
func keepUsed(programs []*Program, in *Inputs) *Inputs {
	used := map[Operand]bool{}
	for _, p := range programs {
		for _, op := range p.Operands {
			used[op] = true
		}
	}
	place := map[Operand]Operand{}
	kept := map[*File]*File{}
	for i, f := range in.Files {
		k := *f
		k.Offered, k.OfferedNodata, k.OfferedMasks = f.Layers, f.Nodata, f.Masks
		k.Layers, k.Nodata, k.Masks = nil, nil, nil
		for l := range f.Layers {
			if used[Operand{i, l}] {
				place[Operand{i, l}] = Operand{i, len(k.Layers)}
				k.Layers, k.Nodata, k.Masks = append(k.Layers, f.Layers[l]), append(k.Nodata, f.Nodata[l]),
					append(k.Masks, f.Masks[l])
			}
		}
		k.indexMasks()
		kept[f] = &k
	}
	for _, p := range programs {
		for i, op := range p.Operands {
			p.Operands[i] = place[op]
		}
	}
	return in.Replace(kept)
}

// unusedInputs returns a note for each input that no expression reads, except the reference.
func unusedInputs(in *Inputs, reference string) []outcome.Note {
	var list []outcome.Note
	for _, name := range slices.Sorted(maps.Keys(in.ByName)) {
		if name != reference && !slices.ContainsFunc(in.ByName[name],
			func(f *File) bool { return len(f.Layers) > 0 }) {
			list = append(list, outcome.Note{
				Text: fmt.Sprintf("input %s is used by no expression: it counts for the grid alone", name)})
		}
	}
	return list
}
