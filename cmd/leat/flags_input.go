package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/stac"
	"leat/stores"
)

// inputFlags are the options of inputs.
type inputFlags struct {
	inputs                              []string // NAME=FILE
	bandLists, inputNodata, inputScales []string // NAME=VALUE,...
	timeTexts                           []string // [NAME=]TIMES
	noMask, unscale                     bool
	group                               string          // of STAC items
	alternates                          []string        // names, of STAC assets
	jobLists                            map[string]bool // inputs that are lists even of one file

	// What Finalize reads.
	files  []namedFile
	bands  []namedValue[[]int]
	scales []namedValue[scaling]
	times  []namedValue[inputTimes]
	by     stac.Grouping

	documents       map[string]*stac.Document // that were read, by path or URL
	knownAlternates []string                  // of the assets that were read
}

// AddFlags adds the options.
func (f *inputFlags) AddFlags(fl *pflag.FlagSet) {
	addList(fl, &f.inputs, "input", "i",
		"`NAME=FILE`: an input, or the URL of one; the same name again, a pattern such as 't*.tif' or a file of names, @list.txt, makes a list of files; items.json#ASSET takes an asset of STAC items")
	group(fl, "input", "Inputs")
	fl.StringVar(&f.group, "group", "",
		"`BY`: STAC items that make up one item of a list: each by itself (item, default), those of one day in UTC (day), or of one day by the sun (solar-day); the first valid pixel counts")
	fl.StringSliceVar(&f.alternates, "alternate", nil,
		"`NAME,...`: alternates of STAC assets to read, such as s3: the first of these that an asset has; main is its own href")
	addList(fl, &f.bandLists, "bands", "", "`NAME=N,N...`: the bands of an input to use, in this order")
	addList(fl, &f.inputNodata, "input-nodata", "",
		"`NAME=V,V...`: nodata of an input instead of what its files say; one value for all bands, or one for each; none for none")
	addList(fl, &f.timeTexts, "times", "",
		"`[NAME=]TIMES`: when the files of a list were taken, for trend(t, times): auto finds it in their metadata or names; else times such as 2020-01-05,2020-02-01, one for each file, or a file with one in each line")
	fl.BoolVar(&f.noMask, "no-mask", false, "nodata, masks and alpha do not count: every pixel is valid")
	fl.BoolVar(&f.unscale, "unscale", false, "values of inputs are pixel*scale + offset where the files have them")
	addList(fl, &f.inputScales, "input-scale", "",
		"`NAME=SCALE[,OFFSET]`: values of this input are pixel*SCALE + OFFSET, whatever its files say; --unscale is not needed")
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
	errs = append(errs, err)
	switch by := slices.Index(groupings, f.group); {
	case f.group == "":
	case by < 0:
		errs = append(errs, fmt.Errorf("--group %s: %w", f.group, unknownWord(f.group, groupings)))
	case !f.hasAssets():
		errs = append(errs, fmt.Errorf("--group %s: no input is an asset of STAC items, such as -i NAME=items.json#ASSET", f.group))
	default:
		f.by = stac.Grouping(by)
	}
	switch {
	case f.alternates != nil && len(f.alternates) == 0, slices.Contains(f.alternates, ""):
		errs = append(errs, fmt.Errorf("--alternate %s: expected names, such as s3,main",
			cmp.Or(shown(strings.Join(f.alternates, ",")), `""`)))
	case len(f.alternates) > 0 && !f.hasAssets():
		errs = append(errs, fmt.Errorf("--alternate %s: no input is an asset of STAC items, such as -i NAME=items.json#ASSET",
			shown(strings.Join(f.alternates, ","))))
	}
	f.scales, err = parseNamed("--input-scale", f.inputScales, parseScaling)
	errs = append(errs, err)
	f.times, err = parseNamed("--times", f.timeTexts, parseTimes)
	return errors.Join(append(errs, err)...)
}

// hasAssets reports whether an input is an asset of STAC items.
func (f *inputFlags) hasAssets() bool {
	return slices.ContainsFunc(f.files, func(file namedFile) bool { _, _, ok := cutAsset(file.path); return ok })
}

// groupings are what --group takes, in the order of stac.Grouping.
var groupings = []string{"item", "day", "solar-day"}

// scaling is the value of --input-scale.
type scaling struct{ scale, offset float64 }

// parseScaling reads SCALE[,OFFSET].
func parseScaling(s string) (scaling, error) {
	v, err := numbers(s)
	if err != nil || len(v) == 0 || len(v) > 2 {
		return scaling{}, errors.New("write it as NAME=SCALE,OFFSET, such as a=0.0001,-0.1")
	}
	for _, n := range v {
		if n-n != 0 {
			return scaling{}, fmt.Errorf("%v is not a finite number", n)
		}
	}
	if v[0] == 0 {
		return scaling{}, errors.New("use a scale other than 0")
	}
	return scaling{v[0], append(v, 0)[1]}, nil
}

// addTo adds the inputs to a job, with the files that patterns and lists stand for. complete is
// false if one could not be read.
func (f *inputFlags) addTo(ctx context.Context, job *apply.Job, in *stores.Stores) (complete bool, _ error) {
	var errs []error
	for _, file := range f.files {
		if err := f.addInput(ctx, job, in, file); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		if err := f.checkAlternates(); err != nil {
			errs = append(errs, err)
		}
	}
	return len(errs) == 0 && len(f.files) == len(f.inputs), errors.Join(errs...)
}

// addInput adds the files that one -i stands for to an input.
func (f *inputFlags) addInput(ctx context.Context, job *apply.Job, in *stores.Stores, file namedFile) error {
	found, err := f.expand(ctx, in, "-i", file)
	if err != nil {
		return err
	}
	input, again := job.Inputs[file.name]
	input.List = input.List || again || found.list || f.jobLists[file.name]
	before := len(input.Files)
	input.Files = append(input.Files, found.files...)
	if found.times != nil || input.Times != nil {
		input.Times = append(append(input.Times, make([]time.Time, before-len(input.Times))...), found.times...)
		input.Times = append(input.Times, make([]time.Time, len(input.Files)-len(input.Times))...)
	}
	if found.groups != nil || input.Groups != nil {
		ones := func(n int) []int { return slices.Repeat([]int{1}, n) }
		if input.Groups == nil {
			input.Groups = ones(before)
		}
		if found.groups == nil {
			found.groups = ones(len(found.files))
		}
		input.Groups = append(input.Groups, found.groups...)
	}
	job.Inputs[file.name] = input
	return nil
}

// setOptions sets bands and nodata of a job that has all inputs and vectors.
func (f *inputFlags) setOptions(job *apply.Job, vectors *vectorFlags) error {
	nodata, err := vectors.nodata(job, f.inputNodata)
	errs := []error{err, vectors.noBands(job, f.bandLists), vectors.noScale(job, f.inputScales)}
	values, err := parseNamed("--input-nodata", nodata, parseList)
	return errors.Join(append(errs, err,
		setInputs(job, "--input-nodata", values, func(in *apply.Input, v []string) { in.Nodata = v }),
		setInputs(job, "--bands", f.bands, func(in *apply.Input, v []int) { in.Layers = v }),
		setInputs(job, "--input-scale", f.scales, func(in *apply.Input, v scaling) { in.Scale, in.Offset = v.scale, v.offset }))...)
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
