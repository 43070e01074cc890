package resolve

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/expr"
	"leat/ndarray"
	"leat/raster"
)

// validateVariables returns the errors in a job's variables that can be found without opening a
// raster.
func validateVariables(job *jobspec.Job, partial bool) (errs []error) {
	known := map[string]bool{}
	for name := range job.Inputs {
		known[name] = true
	}
	for name := range job.Vectors {
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(job.Variables)) {
		e, err := expr.Parse(job.Variables[name])
		if err != nil {
			errs = append(errs, jobspec.Errorf("", "variable %s: %w", name, err))
			continue
		}
		for _, used := range e.Names() {
			if names, text := namesOfInputs(job); !known[used] && !partial {
				errs = append(errs, &outcome.UnknownNameError{Name: used, Known: names,
					Err: fmt.Errorf("variable %s: no input is named %s; %s", name, used, text)})
			}
		}
	}
	return errs
}

// compileVariables compiles the variables of a function, in the order of their names. It returns
// the inputs without the layers that none of them uses. domain is empty if there are no focal
// functions.
func compileVariables(job *jobspec.Job, in *Inputs, grid raster.Grid, domain block.Window) (programs []*Program,
	_ *Inputs, err error) {
	described := describeInputs(job, in, grid.Window().Union(domain), nil)
	var errs []error
	for i, name := range slices.Sorted(maps.Keys(job.Variables)) {
		p, err := compileVariable(job.Variables[name], job.Controls.Cutline, described,
			&expr.Options{NoMask: job.Controls.NoMask, Tables: job.Tables, Width: grid.Width, Height: grid.Height,
				Domain: domain, Margin: job.Controls.Margin, Ground: ground(grid, domain)})
		if err == nil && p.Geodetic() {
			err = checkGeodetic(grid)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("variable %s: %w", name, plain(err)))
			continue
		}
		programs = append(programs, newProgram(p, in, nil, []int{i}, "variable "+name))
	}
	if len(errs) > 0 {
		return nil, nil, jobspec.JobErrors(errs...)
	}
	return programs, keepUsed(programs, in), nil
}

// compileVariable compiles an expression. The result has a value for pixels that are not valid:
// NaN, or the least one of a wider integer type, which no valid pixel has. Integers of 64 bits keep
// their type and the nodata value of expressions.
func compileVariable(text, cutline string, in map[string]expr.Input, opts *expr.Options) (*expr.Program, error) {
	e, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	if cutline != "" {
		e = e.Within(cutline)
	}
	p, err := expr.Compile(e, in, opts)
	if err != nil {
		return nil, err
	}
	switch t := p.Type(); {
	case t == ndarray.Float16, t == ndarray.Float32:
		opts.Type, opts.Nodata = ndarray.Float32, "nan"
	case t == ndarray.Float64:
		opts.Nodata = "nan"
	case p.Nodata() == nil || t.Size() == 8:
		return p, nil
	case t.Size() == 1:
		opts.Type, opts.Nodata = ndarray.Int16, strconv.Itoa(math.MinInt16)
	case t.Size() == 2:
		opts.Type, opts.Nodata = ndarray.Int32, strconv.Itoa(math.MinInt32)
	default:
		opts.Type, opts.Nodata = ndarray.Int64, strconv.Itoa(math.MinInt64)
	}
	return expr.Compile(e, in, opts)
}
