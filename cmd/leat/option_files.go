package main

import (
	"errors"
	"os"

	"leat/apply"
)

// optionFile is a file that an option names and that is neither an input nor a vector of the job.
type optionFile struct {
	what string // such as "the file of --extent"
	path string
}

// optionFiles returns the files that give the job's grid, and the STAC documents of its inputs.
func optionFiles(job *apply.Job, grid *gridFlags, inputs *inputFlags) (files []optionFile) {
	add := func(flag, path string) {
		if local, err := localName(path); err == nil && path != "" {
			files = append(files, optionFile{"the file of " + flag, local})
		}
	}
	add("--grid", grid.grid)
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

// sameFile reports whether two paths lead to one existing file.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
