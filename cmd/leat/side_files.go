package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/internal/localpath"
	"leat/internal/preview"
	"leat/internal/regular"
	"leat/internal/storeurl"
	"leat/internal/tempfile"
	"leat/stores"
	"leat/timing"
)

// sideFiles writes items, preview, trace and report. If one of them fails, the others are still
// written.
func (f *applyFlags) sideFiles(ctx context.Context, in *stores.Stores, job *apply.Job, res *apply.Result,
	rec *timing.Recorder, items []*itemFile) error {
	var errs []error
	if err := writeItems(ctx, in, items, job, res); err != nil {
		errs = append(errs, err)
	}
	if f.preview != "" {
		if err := f.writePreview(ctx, in, job.Outputs[firstRaster(job)].Path); err != nil {
			errs = append(errs, err)
		}
	}
	if f.trace != "" {
		if err := writeFile(f.trace, rec.Trace); err != nil {
			errs = append(errs, fmt.Errorf("the trace %s could not be written: %w", f.trace, cause(err)))
		}
	}
	if f.report != "" {
		if err := writeReport(ctx, in, f.report, job, res, rec); err != nil {
			errs = append(errs, fmt.Errorf("the report %s could not be written: %w", f.report, cause(err)))
		}
	}
	return errors.Join(errs...)
}

// writePreview writes the preview of the output at path.
func (f *applyFlags) writePreview(ctx context.Context, in *stores.Stores, path string) error {
	src, err := openOutput(ctx, in, path)
	if err != nil {
		return err
	}
	if err := errors.Join(preview.Write(ctx, f.preview, src, preview.DefaultSide), src.Close()); err != nil {
		return fmt.Errorf("the preview %s could not be written: %w", f.preview, cause(err))
	}
	return nil
}

// firstRaster returns the name of the first output that is a raster, "" if there is none.
func firstRaster(job *apply.Job) string {
	for _, name := range sortedNames(job.Outputs) {
		if !job.Outputs[name].Polygons {
			return name
		}
	}
	return ""
}

// writeFile publishes what write makes.
func writeFile(path string, write func(io.Writer) error) error {
	p, err := tempfile.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := write(p); err != nil {
		return err
	}
	return p.Commit()
}

// checkSideFiles says beforehand whether the files that come besides the outputs can be written.
func (f *applyFlags) checkSideFiles(job *apply.Job) error {
	var errs []error
	if f.preview != "" && len(f.outputs) == 0 {
		errs = append(errs, usagef("--preview %s: the job has no output", f.preview))
	} else if f.preview != "" && len(job.Outputs) > 0 && firstRaster(job) == "" {
		errs = append(errs, usagef("--preview %s: the job has no output that is a raster", f.preview))
	}
	taken := optionFiles(job, &f.gridFlags, &f.inputFlags)
	take := func(what, path string) { taken = append(taken, optionFile{what, path}) }
	for _, name := range sortedNames(job.Inputs) {
		for _, path := range job.Inputs[name].Files {
			take("the input "+name, path)
		}
	}
	for _, name := range sortedNames(job.Vectors) {
		take("the vector "+name, job.Vectors[name].Path)
	}
	for _, name := range sortedNames(job.Outputs) {
		take("the output "+name, job.Outputs[name].Path)
	}
	const item = "that of --stac"
	check := func(flag, what, path string) {
		if other := fileAt(taken, path); other != "" && (other != item || what != item) {
			errs = append(errs, usagef("%s %s is %s: write to another file", flag, path, other))
			return
		}
		take(what, path)
		if err := checkSideFile(path); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", flag, path, err))
		}
	}
	for _, side := range []struct{ flag, path string }{{"--preview", f.preview}, {"--report", f.report},
		{"--trace", f.trace}} {
		if side.path != "" {
			check(side.flag, "that of "+side.flag, side.path)
		}
	}
	for _, v := range f.items {
		if !storeurl.Is(v.value) {
			check("--stac", item, v.value)
		}
	}
	return errors.Join(errs...)
}

// fileAt returns what the last file is that a path leads to, "" if none of the files is there.
func fileAt(files []optionFile, path string) string {
	path = localpath.Absolute(path)
	st, err := os.Stat(path)
	for _, file := range slices.Backward(files) {
		if localpath.Absolute(file.path) == path {
			return file.what
		}
		if err == nil {
			if other, err := os.Stat(file.path); err == nil && os.SameFile(st, other) {
				return file.what
			}
		}
	}
	return ""
}

func checkSideFile(path string) error {
	if err := regular.Check(path); errors.Is(err, regular.ErrDirectory) {
		return errors.New("that is a directory: give the name of a file in it")
	} else if errors.Is(err, regular.ErrSpecial) {
		return regular.ErrSpecial
	} else if errors.Is(err, unix.ENAMETOOLONG) {
		return unix.ENAMETOOLONG
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("the directory %s does not exist: make it first", dir)
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return fmt.Errorf("the directory %s can't be written to: %w", dir, err)
	}
	return nil
}
