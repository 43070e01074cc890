package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/objstore"
)

// inputFlags are the options of inputs.
type inputFlags struct {
	inputs                 []string // NAME=FILE
	bandLists, inputNodata []string // NAME=VALUE,...
	noMask, unscale        bool

	// What Finalize reads.
	files []namedFile
	bands []namedValue[[]int]
}

// AddFlags adds the options.
func (f *inputFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.inputs, "input", "i", nil,
		"`NAME=FILE`: an input, or the URL of one; the same name again makes a list of files")
	group(fl, "input", "Inputs")
	fl.StringArrayVar(&f.bandLists, "bands", nil, "`NAME=N,N...`: the bands of an input to use, in this order")
	fl.StringArrayVar(&f.inputNodata, "input-nodata", nil,
		"`NAME=V,V...`: nodata of an input instead of what its files say; one value for all bands, or one for each; none for none")
	fl.BoolVar(&f.noMask, "no-mask", false, "nodata, masks and alpha do not count: every pixel is valid")
	fl.BoolVar(&f.unscale, "unscale", false, "expressions see pixel*scale + offset of inputs that have them")
}

// Finalize reads the values of the options, as far as they are right.
func (f *inputFlags) Finalize() error {
	var errs []error
	f.files = nil
	for _, s := range f.inputs {
		in, err := cutFile("-i", s, "NAME=FILE, such as red=B4.tif")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.files = append(f.files, in)
	}
	var err error
	f.bands, err = parseNamed("--bands", f.bandLists, func(s string) ([]int, error) {
		list, err := integers(s)
		if err != nil {
			return nil, errors.New("write bands as 1,2,3")
		}
		return list, nil
	})
	return errors.Join(append(errs, err)...)
}

// addTo adds the inputs to a job. complete is false if one could not be read.
func (f *inputFlags) addTo(job *apply.Job) (complete bool, _ error) {
	var errs []error
	for _, in := range f.files {
		if err := addInput(job, in); err != nil {
			errs = append(errs, err)
		}
	}
	return len(errs) == 0 && len(f.files) == len(f.inputs), errors.Join(errs...)
}

// addInput adds a file, or the files that match a pattern, to an input.
func addInput(job *apply.Job, file namedFile) error {
	in, again := job.Inputs[file.name]
	in.List = in.List || again
	files := []string{file.path}
	if objstore.IsURL(file.path) {
		if strings.ContainsAny(file.path, "*[") {
			return fmt.Errorf("-i %s: patterns are for local files: give each URL by an -i of its own", shown(file.text))
		}
	} else if _, err := os.Stat(file.path); err != nil && strings.ContainsAny(file.path, "*?[") {
		found, err := filepath.Glob(file.path)
		if err != nil {
			return fmt.Errorf("-i %s: the pattern has a [ without its ]", file.text)
		}
		if len(found) == 0 {
			return fileError{fmt.Errorf("-i %s: no file matches the pattern", file.text)}
		}
		slices.Sort(found)
		files, in.List = found, true
	}
	in.Files = append(in.Files, files...)
	job.Inputs[file.name] = in
	return nil
}

// setOptions sets bands and nodata of a job that has all inputs and vectors.
func (f *inputFlags) setOptions(job *apply.Job, vectors *vectorFlags) error {
	nodata, err := vectors.nodata(job, f.inputNodata)
	errs := []error{err, vectors.noBands(job, f.bandLists)}
	values, err := parseNamed("--input-nodata", nodata, parseList)
	return errors.Join(append(errs, err,
		setInputs(job, "--input-nodata", values, func(in *apply.Input, v []string) { in.Nodata = v }),
		setInputs(job, "--bands", f.bands, func(in *apply.Input, v []int) { in.Layers = v }))...)
}

// setInputs calls set for the input that each value names; vectors are left out.
func setInputs[T any](job *apply.Job, option string, values []namedValue[T], set func(in *apply.Input, v T)) error {
	var errs []error
	for _, v := range values {
		in, known := job.Inputs[v.name]
		_, vector := job.Vectors[v.name]
		switch {
		case vector: // reported already
		case !v.named:
			errs = append(errs, fmt.Errorf("%s %s: write it as NAME=VALUE, NAME being an input", option, v.text))
		case !known:
			errs = append(errs, fmt.Errorf("%s %s: %w", option, v.text, unknownName("input", v.name, sortedNames(job.Inputs))))
		default:
			set(&in, v.value)
			job.Inputs[v.name] = in
		}
	}
	return errors.Join(errs...)
}
