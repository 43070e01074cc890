package main

import (
	"errors"
	"strings"

	"leat/apply"
	"leat/internal/localpath"
	"leat/internal/storeurl"
)

// optionFile is a file that an option names and that is neither an input nor a vector of the job.
type optionFile struct {
	what string // such as "the file of --extent"
	path string
}

// optionFiles returns the files that give the job's grid, the STAC documents of its inputs, and the
// tables of its expressions.
func optionFiles(job *apply.Job, grid *gridFlags, inputs *inputFlags) (files []optionFile) {
	add := func(flag, path string) {
		if local, err := localName(path); err == nil && path != "" {
			files = append(files, optionFile{"the file of " + flag, local})
		}
	}
	add("--grid", grid.grid)
	if crs, _, numbers := strings.Cut(grid.grid, ","); numbers {
		add("--grid", crs)
	}
	if _, input := job.Inputs[grid.reference]; !input {
		add("--reference", grid.reference)
	}
	add("--crs", grid.crs)
	add("--bbox-crs", grid.bboxCRS)
	for _, path := range grid.extents {
		add("--extent", path)
	}
	for _, path := range sortedNames(inputs.documents) {
		if local, err := localName(path); err == nil {
			files = append(files, optionFile{"the STAC document of -i", local})
		}
	}
	for _, path := range sortedNames(job.Tables) {
		files = append(files, optionFile{"a table of -e", path})
	}
	return files
}

// checkReplaced returns an error for each output that would replace one of the files.
func checkReplaced(job *apply.Job, files []optionFile) error {
	var errs []error
	for _, file := range files {
		for _, name := range sortedNames(job.Outputs) {
			if sameFile(file.path, job.Outputs[name].Path) {
				errs = append(errs, usagef("output %s is also %s (%s)", name, file.what, shown(file.path)))
			}
		}
	}
	return errors.Join(errs...)
}

// sameFile reports whether two paths lead to one existing file, or are the same URL.
func sameFile(a, b string) bool {
	if storeurl.Is(a) || storeurl.Is(b) {
		return a == b
	}
	return localpath.Same(a, b)
}
