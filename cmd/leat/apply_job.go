package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"leat/apply"
	"leat/block"
	"leat/internal/units"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
	"leat/raster/overview"
	"leat/stores"
)

// job returns the job that the options ask for, and all that is wrong with the options. The job is
// partial if inputs, outputs or expressions could not be read.
func (f *applyFlags) job(ctx context.Context, in *stores.Stores) (_ *apply.Job, partial bool, _ error) {
	job := &apply.Job{Open: in.Open, Store: in, Inputs: map[string]apply.Input{}, Outputs: map[string]apply.Output{},
		Expressions: map[string]string{}}
	errs := []error{f.stores.Finalize()}
	inputs, vectors := f.addInputs(job), f.vectors.addTo(job)
	inputs = errors.Join(inputs, vectors)
	if vectors == nil {
		errs = append(errs, f.vectors.setOptions(job))
	}
	outputs := f.addOutputs(job)
	expressions := f.addExpressions(job, outputs == nil)
	errs = append(errs, inputs, outputs, expressions)
	if outputs == nil {
		errs = append(errs, f.setTyped(job), f.setFormats(job), f.setCreation(job), f.setLook(ctx, job))
	}
	if inputs == nil {
		errs = append(errs, f.setInputs(job), f.setWarps(job))
	}
	errs = append(errs, f.setControls(job))
	if err := f.setGrid(ctx, job); err != nil {
		errs = append(errs, err)
		if job.Controls.Grid == nil {
			withoutGrid(job)
		}
	}
	return job, inputs != nil || outputs != nil || expressions != nil, errors.Join(errs...)
}

// withoutGrid removes the footprint of a grid that could not be read, so that it is not called
// wrong, too.
func withoutGrid(job *apply.Job) {
	if job.Controls.Reference == "" {
		job.Controls.Footprint = apply.Intersection
	}
}

func (f *applyFlags) addInputs(job *apply.Job) error {
	if len(f.inputs) == 0 && len(f.vectors.vectors) == 0 {
		return errors.New("no input: give at least one -i NAME=FILE")
	}
	var errs []error
	for _, s := range f.inputs {
		if err := addInput(job, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// addInput adds the input of an -i NAME=FILE.
func addInput(job *apply.Job, s string) error {
	name, path, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" || path == "" || objstore.IsURL(name) {
		return fmt.Errorf("-i %s: write it as NAME=FILE, such as red=B4.tif", shown(s))
	}
	path, err := localName(path)
	if err != nil {
		return fmt.Errorf("-i %s: %w", name, err)
	}
	in, again := job.Inputs[name]
	in.List = in.List || again
	files := []string{path}
	if objstore.IsURL(path) {
		if strings.ContainsAny(path, "*[") {
			return fmt.Errorf("-i %s: patterns are for local files: give each URL by an -i of its own", shown(s))
		}
	} else if _, err := os.Stat(path); err != nil && strings.ContainsAny(path, "*?[") {
		found, err := filepath.Glob(path)
		if err != nil {
			return fmt.Errorf("-i %s: the pattern has a [ without its ]", s)
		}
		if len(found) == 0 {
			return fileError{fmt.Errorf("-i %s: no file matches the pattern", s)}
		}
		slices.Sort(found)
		files, in.List = found, true
	}
	in.Files = append(in.Files, files...)
	job.Inputs[name] = in
	return nil
}

func (f *applyFlags) addOutputs(job *apply.Job) error {
	if len(f.outputs) == 0 {
		return errors.New("no output: give at least one -o NAME=FILE.tif")
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, s := range f.outputs {
		name, path, ok := strings.Cut(s, "=")
		if !ok || objstore.IsURL(name) {
			name, path = "out", s
		}
		name = strings.TrimSpace(name)
		if name == "" || path == "" {
			bad("-o %s: write it as NAME=FILE.tif, such as ndvi=ndvi.tif", shown(s))
			continue
		}
		path, err := localName(path)
		if err != nil {
			bad("-o %s: %w", name, err)
			continue
		}
		if old, again := job.Outputs[name]; again {
			bad("-o %s: there is an output %s already (%s): give each a name of its own", shown(s), name,
				shown(old.Path))
			continue
		}
		job.Outputs[name] = apply.Output{Path: path}
	}
	return errors.Join(errs...)
}

// namedExpression is NAME=EXPRESSION, but not a comparison.
var namedExpression = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=([^=](?s:.*))$`)

// addExpressions adds the expressions. If outputs are missing, one without a name may be for any of
// them.
func (f *applyFlags) addExpressions(job *apply.Job, allOutputs bool) error {
	if len(f.exprs) == 0 {
		return errors.New("no expression: say with -e what to compute")
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, s := range f.exprs {
		var name, text string
		if len(s) < 1<<16 { // a longer one is refused by the parser, not searched here
			if m := namedExpression.FindStringSubmatch(s); m != nil {
				name, text = m[1], m[2]
			}
		}
		if name == "" {
			if len(f.outputs) > 1 {
				bad("-e %s: there are several outputs: write it as NAME=EXPRESSION", shorten(s))
				continue
			}
			if name, text = onlyKey(job.Outputs), s; !allOutputs {
				name = "out"
			}
		}
		if _, again := job.Expressions[name]; again {
			bad("-e %s: output %s has an expression already", shorten(s), name)
			continue
		}
		job.Expressions[name] = text
	}
	return errors.Join(errs...)
}

// fileError is about a file that the command line names, not about the command line.
type fileError struct{ err error }

func (e fileError) Error() string { return e.err.Error() }
func (e fileError) Unwrap() error { return e.err }

func shorten(s string) string {
	if r := []rune(s[:min(len(s), 200)]); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}

func onlyKey[V any](m map[string]V) string {
	for k := range m {
		return k
	}
	return ""
}

// eachOutput calls set for the outputs that each [NAME=]VALUE is for.
func eachOutput(job *apply.Job, flag string, values []string, set func(o *apply.Output, value string) error) error {
	var errs []error
	for _, s := range values {
		names := sortedNames(job.Outputs)
		value := s
		if name, rest, ok := strings.Cut(s, "="); ok {
			if _, known := job.Outputs[name]; !known {
				errs = append(errs, fmt.Errorf("%s %s: there is no output %q; there is %s", flag, s, name,
					strings.Join(names, ", ")))
				continue
			}
			names, value = []string{name}, rest
		}
		for _, n := range names {
			o := job.Outputs[n]
			if err := set(&o, value); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", flag, s, err))
				break
			}
			job.Outputs[n] = o
		}
	}
	return errors.Join(errs...)
}

// setTyped sets type, nodata, scale and offset of outputs.
func (f *applyFlags) setTyped(job *apply.Job) error {
	return errors.Join(
		eachOutput(job, "--type", f.types, func(o *apply.Output, v string) (err error) {
			o.Type, err = ndarray.ParseDType(v)
			if err != nil || o.Type.IsComplex() {
				return errors.New("use one of uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64")
			}
			return nil
		}),
		eachOutput(job, "--nodata", f.nodata, func(o *apply.Output, v string) error {
			if _, err := strconv.ParseFloat(v, 64); err != nil && v != "none" {
				return errors.New("use a number, nan or none")
			}
			o.Nodata = v
			return nil
		}),
		eachOutput(job, "--scale", f.scales, func(o *apply.Output, v string) (err error) {
			o.Scale, err = strconv.ParseFloat(v, 64)
			if err != nil || o.Scale == 0 || math.IsNaN(o.Scale) || math.IsInf(o.Scale, 0) {
				return errors.New("use a finite number other than 0")
			}
			return nil
		}),
		eachOutput(job, "--offset", f.offsets, func(o *apply.Output, v string) (err error) {
			o.Offset, err = strconv.ParseFloat(v, 64)
			if err != nil || math.IsNaN(o.Offset) || math.IsInf(o.Offset, 0) {
				return errors.New("use a finite number")
			}
			return nil
		}))
}

// allOutputs changes every output.
func allOutputs(job *apply.Job, set func(o *apply.Output)) {
	for _, n := range sortedNames(job.Outputs) {
		o := job.Outputs[n]
		set(&o)
		job.Outputs[n] = o
	}
}

// setLook sets overviews, statistics and what the file says of itself.
func (f *applyFlags) setLook(ctx context.Context, job *apply.Job) error {
	var errs []error
	method, err := overview.ParseMethod(f.ovMethod)
	if err != nil {
		errs = append(errs, fmt.Errorf("--overview-method %s: use nearest, average or mode", f.ovMethod))
	}
	var levels []int
	none := f.overviews == "none"
	if f.overviews != "" && !none {
		if levels, err = integers(f.overviews); err != nil {
			errs = append(errs, fmt.Errorf("--overviews %s: write levels as 2,4,8, or none", f.overviews))
		}
		if f.cog {
			errs = append(errs, errors.New("--overviews and --cog: give one of them"))
		}
	}
	metadata := map[string]string{}
	for _, s := range f.tags {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			errs = append(errs, fmt.Errorf("--metadata %s: write it as KEY=VALUE", s))
		}
		metadata[k] = v
	}
	colors, err := interruptible(ctx, func() ([]raster.RGBA, error) { return readColors(f.colors) })
	if err != nil {
		errs = append(errs, err)
	}
	allOutputs(job, func(o *apply.Output) {
		o.COG, o.Overviews, o.NoOverviews, o.OverviewMethod = f.cog, levels, none, method
		o.NoStatistics, o.NoHistogram, o.HistAux = f.noStats, f.noHist, f.aux
		o.Thematic, o.Unit, o.NoClobber, o.TempDir = f.thematic, f.unit, f.noClobber, f.tempDir
		o.Colors = colors
		if len(metadata) > 0 {
			o.Metadata = metadata
		}
	})
	errs = append(errs, eachOutput(job, "--names", f.names, func(o *apply.Output, v string) error {
		o.LayerNames = strings.Split(v, ",")
		return nil
	}))
	return errors.Join(errs...)
}

// setInputs sets nodata and layers of inputs.
func (f *applyFlags) setInputs(job *apply.Job) error {
	var errs []error
	each := func(flag string, values []string, set func(in *apply.Input, v string) error) {
		for _, s := range values {
			name, v, ok := strings.Cut(s, "=")
			in, known := job.Inputs[name]
			_, vector := job.Vectors[name]
			switch {
			case vector: // reported already
			case !ok:
				errs = append(errs, fmt.Errorf("%s %s: write it as NAME=VALUE, NAME being an input", flag, s))
			case !known:
				errs = append(errs, fmt.Errorf("%s %s: there is no input %q; there is %s", flag, s, name,
					strings.Join(sortedNames(job.Inputs), ", ")))
			default:
				if err := set(&in, v); err != nil {
					errs = append(errs, fmt.Errorf("%s %s: %w", flag, s, err))
				}
				job.Inputs[name] = in
			}
		}
	}
	nodata, err := f.vectors.nodata(job, f.inputNodata)
	errs = append(errs, err, f.vectors.noBands(job, f.layers))
	each("--input-nodata", nodata, func(in *apply.Input, v string) error {
		in.Nodata = strings.Split(v, ",")
		return nil
	})
	each("--layers", f.layers, func(in *apply.Input, v string) (err error) {
		if in.Layers, err = integers(v); err != nil {
			return errors.New("write bands as 1,2,3")
		}
		return nil
	})
	return errors.Join(errs...)
}

func (f *applyFlags) setControls(job *apply.Job) error {
	c := &job.Controls
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch f.footprint {
	case "":
		if f.grid != "" {
			c.Footprint = apply.Reference
		}
	case "intersection":
	case "union":
		c.Footprint = apply.Union
	case "reference":
		c.Footprint = apply.Reference
	default:
		bad("--footprint %s: use intersection, union or reference", f.footprint)
	}
	switch f.margin {
	case "nodata":
	case "reflect":
		c.Margin = block.MarginReflect
	case "nearest":
		c.Margin = block.MarginNearest
	default:
		bad("--margin %s: use nodata, reflect or nearest", f.margin)
	}
	switch f.collision {
	case "warn":
	case "error":
		c.NodataCollision = true
	default:
		bad("--nodata-collision %s: use warn or error", f.collision)
	}
	if f.overlap < 0 {
		bad("--overlap %d: use 0 or more pixels", f.overlap)
	}
	c.Reference, c.Overlap, c.NoMask, c.Unscale = f.reference, f.overlap, f.noMask, f.unscale
	if c.Footprint == apply.Reference && c.Reference == "" && f.grid == "" && len(job.Inputs) > 0 {
		c.Reference = sortedNames(job.Inputs)[0]
	}
	if f.bbox != "" {
		v, err := numbers(f.bbox)
		if err != nil || len(v) != 4 {
			bad("--bbox %s: write it as MINX,MINY,MAXX,MAXY", f.bbox)
		} else {
			c.BBox = &[4]float64{v[0], v[1], v[2], v[3]}
		}
	}
	if f.srcwin != "" {
		v, err := integers(f.srcwin)
		if err != nil || len(v) != 4 || v[2] <= 0 || v[3] <= 0 {
			bad("--srcwin %s: write it as COLUMN,ROW,WIDTH,HEIGHT", f.srcwin)
		} else {
			c.Window = &block.Window{Col: v[0], Row: v[1], Width: v[2], Height: v[3]}
		}
	}
	if f.window != "" {
		before := len(errs)
		w, h, both := strings.Cut(f.window, "x")
		if !both {
			h = w
		}
		x, err1 := strconv.Atoi(w)
		y, err2 := strconv.Atoi(h)
		if err1 != nil || err2 != nil || x <= 0 || y <= 0 || x > 1<<24 || y > 1<<24 {
			bad("--window %s: write the size of blocks as 1024 or 2048x512 (a part of the raster is --srcwin or --bbox)", f.window)
		}
		if len(errs) == before {
			c.WindowWidth, c.WindowHeight = x, y
		}
	}
	if f.memory != "" {
		n, err := units.ParseSize(f.memory)
		if err != nil {
			bad("--memory %s: %v", f.memory, err)
		}
		c.MemoryBytes = n
	}
	if f.workers < 0 || f.readers < 0 {
		bad("-j and --readers: use 1 or more, or leave them out for one per core")
	}
	return errors.Join(errs...)
}

func integers(s string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func numbers(s string) ([]float64, error) {
	var list []float64
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
