package resolve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/internal/expr"
	"leat/internal/gdal"
	"leat/internal/localpath"
	"leat/internal/regular"
	"leat/internal/storeurl"
	"leat/internal/units"
)

// validate returns all errors in a job that can be found without opening a raster. For partial see
// Check.
func validate(job *jobspec.Job, partial bool) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, jobspec.Errorf(field, format, args...))
	}
	switch {
	case partial:
	case !job.Function.Defined && job.Expressions == nil:
		bad("", "nothing to compute: the job has neither a function nor expressions")
	case job.Function.Defined && job.Expressions != nil:
		bad("", "the job has a function and expressions, expected one of them")
	case !job.Function.Defined && job.Variables != nil:
		bad("", "the job has variables and no function that gets them")
	}
	errs = append(errs, validateVariables(job, partial)...)
	for _, name := range slices.Sorted(maps.Keys(job.Inputs)) {
		in := job.Inputs[name]
		if job.Expressions != nil || job.Variables != nil {
			if err := expr.CheckName(name); err != nil {
				errs = append(errs, plain(err))
			}
		}
		switch {
		case len(in.Files) == 0:
			bad("Input.Files", "input %s: no file is given", name)
		case len(in.Files) > 1 && !in.List:
			bad("Input.List", "input %s: %d files, expected one, as it is not a list", name, len(in.Files))
		case in.Times != nil && len(in.Times) != len(in.Files):
			bad("Input.Times", "input %s: %s for %s, expected one for each", name, units.Count(len(in.Times), "time"),
				units.Count(len(in.Files), "file"))
		case in.Times != nil && in.FindTimes:
			bad("Input.Times", "input %s: its times are given, and searched for in its files too, expected one of the two", name)
		}
		if in.Groups != nil {
			switch sum := groupedFiles(in.Groups); {
			case !in.List || sum != len(in.Files):
				bad("Input.Groups", "input %s: groups of %d files, expected a list of as many and not one of %d", name, sum, len(in.Files))
			case job.Function.Defined && job.Variables == nil && len(in.Groups) < len(in.Files):
				bad("Input.Groups", "input %s: groups of files need expressions, and the job has a function", name)
			}
		}
		if in.Scale-in.Scale != 0 || in.Offset-in.Offset != 0 {
			bad("Input.Scale", "input %s: scale %v and offset %v, expected finite numbers", name, in.Scale, in.Offset)
		} else if in.Scale == 0 && in.Offset != 0 {
			bad("Input.Offset", "input %s: offset %v without a scale, expected a scale other than 0", name, in.Offset)
		}
	}
	used, links := usedExpressions(job), linkExpressions(job, job.IsInput)
	for _, name := range slices.Sorted(maps.Keys(job.Expressions)) {
		if _, ok := job.Outputs[name]; !ok && !partial && !used[name] {
			names := slices.Sorted(maps.Keys(job.Outputs))
			bad("", "%w", &outcome.UnknownNameError{Name: name, Known: names,
				Err: fmt.Errorf("there is an expression for %q, but no output of that name: there is %s", name,
					strings.Join(names, ", "))})
		} else if err := links.errs[name]; err != nil {
			who := label(job, name)
			if partial { // the output may be one that could not be read
				who = "output " + name
			}
			bad("", "%s: %w", who, plain(err))
		}
	}
	if job.Expressions != nil && !partial {
		for _, name := range slices.Sorted(maps.Keys(job.Outputs)) {
			if _, ok := job.Expressions[name]; !ok {
				bad("", "output %s has no expression", name)
			}
		}
		if len(job.Outputs) == 0 {
			bad("", "expressions need an output each")
		}
	}
	switch {
	case !job.Resume:
	case len(job.Outputs) == 0:
		bad("Resume", "the job has no outputs, so an earlier run left nothing to resume from")
	case job.Function.MergesWorkers:
		bad("Resume", "a job that merges values of workers (Job.MergeWorkers) can't be resumed: they end with the run")
	case !job.Resumable():
		bad("Resume", "a job with Merge can only be resumed with a codec for the emitted values (Job.Emits)")
	}
	switch {
	case !job.Function.MergesWorkers:
	case job.Expressions != nil:
		bad("MergeWorkers", "merging values of workers needs a function, and the job has expressions")
	case !job.Function.Closes:
		bad("MergeWorkers", "the job merges values of workers, and has no Close that returns them")
	}
	c := &job.Controls
	if c.Overlap < 0 || c.Overlap > jobspec.MaxBlockSide {
		bad("Controls.Overlap", "overlap %d: expected 0 to %d pixels", c.Overlap, jobspec.MaxBlockSide)
	}
	if c.WindowWidth < 0 || c.WindowHeight < 0 || (c.WindowWidth == 0) != (c.WindowHeight == 0) {
		bad("Controls.WindowWidth", "block size %d x %d: expected two sides above 0", c.WindowWidth, c.WindowHeight)
	}
	if c.WindowWidth > jobspec.MaxBlockSide || c.WindowHeight > jobspec.MaxBlockSide {
		bad("Controls.WindowWidth", "block size %d x %d: expected at most %d pixels a side", c.WindowWidth, c.WindowHeight,
			jobspec.MaxBlockSide)
	}
	if c.MemoryBytes < 0 {
		bad("Controls.MemoryBytes", "memory of %d bytes: expected a size above 0", c.MemoryBytes)
	}
	if c.Footprint == jobspec.Reference && c.Reference == "" && c.Grid == nil {
		bad("Controls.Footprint", "the footprint is that of the reference, and there is no reference")
	}
	switch x, y := c.PixelSize[0], c.PixelSize[1]; {
	case x == 0 && y == 0:
		if c.CRS != nil {
			bad("Controls.CRS", "a CRS without a pixel size, expected both")
		}
	case !(x > 0 && y > 0) || math.IsInf(x, 0) || math.IsInf(y, 0):
		bad("Controls.PixelSize", "pixel size %v x %v, expected finite numbers above 0", x, y)
	case len(job.Inputs) == 0 && !partial:
		bad("Controls.PixelSize", "a pixel size without inputs, whose extent it needs")
	}
	errs = append(errs, validateCutline(job, partial)...)
	_, known := job.Inputs[c.Reference]
	if _, vector := job.Vectors[c.Reference]; c.Reference != "" && !known && !vector && !partial {
		errs = append(errs, unknownReference(c.Reference, slices.Sorted(maps.Keys(job.Inputs))))
	}
	errs = append(errs, validateConcurrency(job)...)
	vectors, lacking := validateVectors(job)
	errs = append(errs, vectors...)
	return errors.Join(jobspec.JobErrors(errs...), errors.Join(validateWarps(job)...),
		errors.Join(validatePaths(job)...),
		lacking)
}

// validateCutline returns the errors in a job's cutline.
func validateCutline(job *jobspec.Job, partial bool) (errs []error) {
	name := job.Controls.Cutline
	if name == "" {
		return nil
	}
	bad := func(format string, args ...any) {
		errs = append(errs, jobspec.Errorf("Controls.Cutline", format, args...))
	}
	v, known := job.Vectors[name]
	switch {
	case !known && !partial:
		bad("the cutline %q is not the name of a vector", name)
	case job.Function.Defined && job.Variables == nil:
		bad("a cutline needs expressions, and the job has a function")
	case v.Burn != nil || v.Attribute != "" || v.Null != nil || v.Nodata != "":
		bad("the cutline %s burns values, expected one without a value, an attribute, a null or nodata", name)
	}
	return errs
}

// groupedFiles returns the number of files in groups, -1 if a group is empty.
func groupedFiles(groups []int) (sum int) {
	for _, n := range groups {
		if n < 1 {
			return -1
		}
		sum += n
	}
	return sum
}

// validatePaths returns errors for outputs that can't be written, are named twice, or are inputs.
func validatePaths(job *jobspec.Job) []error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, jobspec.Errorf(field, format, args...))
	}
	mistake := func(format string, args ...any) {
		errs = append(errs, &outcome.JobError{Err: jobspec.Errorf("Output.Path", format, args...)})
	}
	var seen []string
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(job.Outputs)) {
		o := output.Spec(job.Outputs[name])
		if o.Path == "" {
			continue
		}
		path := o.Identity()
		if other, ok := owner[path]; ok {
			mistake("outputs %s and %s are the same file %s", other, name, o.Label())
		}
		owner[path] = name
		seen = append(seen, path)
		if o.InStore() { // checkStore checks the store
			errs = append(errs, checkTempDir(name, o.SpoolDir())...)
			continue
		}
		dir := filepath.Dir(path)
		if st, err := os.Stat(dir); err != nil {
			bad("Output.Path", "output %s: the directory %s does not exist", name, dir)
		} else if !st.IsDir() {
			bad("Output.Path", "output %s: %s is not a directory", name, dir)
		} else if err := unix.Access(dir, unix.W_OK); err != nil {
			bad("Output.Path", "output %s: the directory %s can't be written to: %w", name, dir, err)
		}
		if _, err := os.Lstat(path); errors.Is(err, unix.ENAMETOOLONG) {
			bad("Output.Path", "output %s: %s: %w", name, o.Path, unix.ENAMETOOLONG)
		} else if _, err := os.Lstat(path + ".aux.xml"); (o.HistAux || o.Categories != nil) && errors.Is(err, unix.ENAMETOOLONG) {
			what := "names of values"
			if o.HistAux {
				what = "histogram"
			}
			bad("Output.Path", "output %s: %s.aux.xml, for the %s: %w", name, o.Path, what, unix.ENAMETOOLONG)
		}
		if st, err := os.Stat(path); err == nil {
			switch {
			case st.IsDir() && !o.UsesGDAL(): // some formats are directories
				bad("Output.Path", "output %s: %s is a directory, expected the name of a file", name, o.Path)
			case !st.IsDir() && !st.Mode().IsRegular():
				bad("Output.Path", "output %s: %s: %w", name, o.Path, regular.ErrSpecial)
			case o.NoClobber:
				bad("Output.NoClobber", "output %s: %s exists and must not be replaced", name, o.Path)
			}
		}
		if o.TempDir != "" {
			errs = append(errs, checkTempDir(name, o.TempDir)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(job.Inputs)) {
		for _, in := range job.Inputs[name].Files {
			path := storeurl.Redact(in)
			if !storeurl.Is(in) {
				path = localpath.Real(in)
			}
			for _, out := range seen {
				if out == path || localpath.Same(out, path) {
					mistake("output %s is also the input %s (%s)", owner[out], name,
						storeurl.Redact(in))
				}
				if strings.TrimSuffix(path, filepath.Ext(path)) == out {
					mistake("output %s (%s) would remove %s, which input %s reads", owner[out],
						out, storeurl.Redact(in), name)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(job.Vectors)) {
		v := job.Vectors[name]
		for _, out := range seen {
			if file := VectorFile(&v); file != "" && (out == localpath.Real(file) || localpath.Same(out, file)) {
				mistake("output %s is also the vector %s (%s)", owner[out], name, v.Label())
			}
		}
	}
	return errs
}

func checkTempDir(name, dir string) []error {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return []error{jobspec.Errorf("Output.TempDir", "output %s: the directory %s for unfinished outputs does not exist",
			name, dir)}
	}
	return nil
}

// validateVectors returns the errors in a job's vectors that can be found without opening them:
// errors in the job, and an error about what this machine lacks.
func validateVectors(job *jobspec.Job) (wrong []error, lacking error) {
	if len(job.Vectors) == 0 {
		return nil, nil
	}
	bad := func(field, format string, args ...any) {
		wrong = append(wrong, jobspec.Errorf(field, format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(job.Vectors)) {
		v := job.Vectors[name]
		if job.Expressions != nil || job.Variables != nil {
			if err := expr.CheckName(name); err != nil {
				wrong = append(wrong, plain(err))
			}
		}
		if _, ok := job.Inputs[name]; ok {
			bad("", "%s is the name of an input and of a vector", name)
		}
		if v.Path == "" {
			bad("Vector.Path", "vector %s: no file is given", name)
		}
	}
	c := &job.Controls
	if _, ok := job.Vectors[c.Reference]; ok {
		bad("Controls.Reference", "the reference %s is a vector, which has no pixels, expected an input", c.Reference)
	}
	if len(job.Inputs) == 0 && c.Grid == nil {
		bad("Controls.Grid", "vectors have no grid: expected a grid, or an input that has one")
	}
	if on := job.Concurrency.On; on != nil && !on.Capabilities().Local && job.Concurrency.SharedTemp == "" {
		if on.Capabilities().NoSharedFS {
			bad("Concurrency.SharedTemp",
				"vectors are rasterized to a file, and workers of %s share no directory with this machine to read it from",
				on.Name())
		} else if !slices.ContainsFunc(slices.Collect(maps.Values(job.Outputs)),
			func(o jobspec.Output) bool { return !storeurl.Is(o.Path) }) {
			bad("Concurrency.SharedTemp",
				"vectors are rasterized to a file next to the first output, and no output is a file that workers of %s can reach",
				on.Name())
		}
	}
	if err := gdal.Available(); err != nil {
		lacking = fmt.Errorf("vector %s: vectors are read through GDAL: %w", slices.Sorted(maps.Keys(job.Vectors))[0], err)
	}
	return wrong, lacking
}
