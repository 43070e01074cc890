package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/ndarray"
)

// vectorFlags are the options of vectors as they are typed.
type vectorFlags struct {
	vectors, layer, burn, where, sql, null, vectorType, allTouched, openOptions []string

	// What Finalize reads.
	files  []namedFile
	nulls  []namedValue[float64]
	dtypes []namedValue[ndarray.DType]
}

// AddFlags adds the options.
func (f *vectorFlags) AddFlags(fl *pflag.FlagSet) {
	addList(fl, &f.vectors, "vector", "v",
		"`NAME=FILE`: an input made of vectors (GeoPackage, Shapefile, GeoJSON, whatever OGR opens; needs GDAL), which are burned onto the grid before the first block")
	group(fl, "vector", "Vectors")
	addList(fl, &f.layer, "layer", "",
		"`NAME=LAYER`: which of several layers, by its name, or by its number from 0")
	addList(fl, &f.burn, "burn", "",
		"`NAME=VALUE|ATTRIBUTE`: what features are burned with: a number, or the attribute of that name (default: 1)")
	addList(fl, &f.where, "where", "",
		"`NAME=CONDITION`: only features for which it holds, such as roads='class > 3'")
	addList(fl, &f.sql, "sql", "",
		"`NAME=STATEMENT`: burn the result of a statement, such as roads='SELECT * FROM roads WHERE lanes * 2 > 4'")
	addList(fl, &f.null, "null", "",
		"`NAME=VALUE`: the pixel where no feature lies (default: 0); valid unless --input-nodata says otherwise")
	addList(fl, &f.vectorType, "vector-type", "",
		"`NAME=TYPE`: type of the pixels (default: for a number the first of uint8, int32 and float64 that holds it; for an attribute int32, int64 or float64, as it is stored); a value that does not fit is an error")
	addList(fl, &f.allTouched, "all-touched", "",
		"`NAME`: burn all pixels that a line or polygon touches, not only those whose centre it covers")
	addList(fl, &f.openOptions, "open-option", "",
		"`NAME=KEY=VALUE`: an option of the driver that opens the file, such as X_POSSIBLE_NAMES=lon of CSV files")
}

// Finalize reads the values of the options, as far as they are right.
func (f *vectorFlags) Finalize() error {
	var errs []error
	f.files = nil
	for _, s := range f.vectors {
		v, err := cutFile("-v", s, "NAME=FILE, such as roads=roads.gpkg")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.files = append(f.files, v)
	}
	var err error
	f.nulls, err = parseNamed("--null", f.null, func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, errors.New("use a number or nan")
		}
		return n, nil
	})
	errs = append(errs, err)
	f.dtypes, err = parseNamed("--vector-type", f.vectorType, func(s string) (ndarray.DType, error) {
		t, err := ndarray.ParseDType(s)
		if err != nil || t.IsComplex() || t == ndarray.Float16 {
			return 0, unknownType(s, vectorTypes)
		}
		return t, nil
	})
	return errors.Join(append(errs, err)...)
}

// addTo adds the vectors to a job. complete is false if one could not be read.
func (f *vectorFlags) addTo(job *apply.Job) (complete bool, _ error) {
	var errs []error
	job.Vectors = map[string]apply.Vector{}
	for _, file := range f.files {
		if old, again := job.Vectors[file.name]; again {
			errs = append(errs, fmt.Errorf("-v %s: there is a vector %s already (%s): give each a name of its own",
				shown(file.text), file.name, shown(old.Path)))
			continue
		}
		job.Vectors[file.name] = apply.Vector{Path: file.path}
	}
	return len(errs) == 0 && len(f.files) == len(f.vectors), errors.Join(errs...)
}

// setOptions sets the options of the vectors of a job that has all of them.
func (f *vectorFlags) setOptions(job *apply.Job) error {
	text := func(option string, texts []string, set func(v *apply.Vector, s string)) error {
		values, err := parseNamed(option, texts, anyText)
		return errors.Join(err, setVectors(f, job, option, values, set))
	}
	errs := []error{
		text("--layer", f.layer, func(v *apply.Vector, s string) { v.Layer = s }),
		text("--where", f.where, func(v *apply.Vector, s string) { v.Where = s }),
		text("--sql", f.sql, func(v *apply.Vector, s string) { v.SQL = s }),
		f.setOpenOptions(job),
		text("--burn", f.burn, func(v *apply.Vector, s string) {
			if n, err := strconv.ParseFloat(s, 64); err == nil {
				v.Burn = &n
			} else {
				v.Attribute = s
			}
		}),
		setVectors(f, job, "--null", f.nulls, func(v *apply.Vector, n float64) { v.Null = &n }),
		setVectors(f, job, "--vector-type", f.dtypes, func(v *apply.Vector, t ndarray.DType) { v.Type = t }),
	}
	seen := map[string]bool{}
	for _, name := range f.allTouched {
		v, known := job.Vectors[name]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("--all-touched %s: %w", name, f.unknown(job, name)))
		case seen[name]:
			errs = append(errs, givenAlready("--all-touched", name, "", name))
		default:
			v.AllTouched, seen[name] = true, true
			job.Vectors[name] = v
		}
	}
	return errors.Join(errs...)
}

// setOpenOptions sets the options of drivers that open vectors.
func (f *vectorFlags) setOpenOptions(job *apply.Job) error {
	const option = "--open-option"
	values, err := parseNamedLists(option, f.openOptions, func(s string) (string, error) {
		if s != "" && !strings.Contains(s, "=") {
			return "", errors.New("write it as NAME=KEY=VALUE")
		}
		return s, nil
	})
	return errors.Join(err, setVectors(f, job, option, values,
		func(v *apply.Vector, s string) { v.OpenOptions = append(v.OpenOptions, s) }))
}

// setVectors calls set for the vector that each value names.
func setVectors[T any](f *vectorFlags, job *apply.Job, option string, values []namedValue[T],
	set func(v *apply.Vector, value T)) error {
	var errs []error
	for _, value := range values {
		v, known := job.Vectors[value.name]
		switch {
		case !value.named || value.text == value.name+"=":
			errs = append(errs, fmt.Errorf("%s %s: write it as NAME=VALUE, NAME being a vector (-v)", option, value.text))
		case !known:
			errs = append(errs, fmt.Errorf("%s %s: %w", option, value.text, f.unknown(job, value.name)))
		default:
			set(&v, value.value)
			job.Vectors[value.name] = v
		}
	}
	return errors.Join(errs...)
}

// unknown is the error for a name that no vector has.
func (f *vectorFlags) unknown(job *apply.Job, name string) error {
	if _, ok := job.Inputs[name]; ok {
		return fmt.Errorf("the input %s is a raster (-i), not a vector (-v)", name)
	}
	if len(job.Vectors) == 0 {
		return fmt.Errorf("there is no vector %q: give one with -v", name)
	}
	return unknownName("vector", name, sortedNames(job.Vectors))
}

// nodata takes the values of --input-nodata that name vectors, and returns the others.
func (f *vectorFlags) nodata(job *apply.Job, values []string) (rest []string, err error) {
	var errs []error
	seen := map[string]string{}
	for _, s := range values {
		name, value, _ := strings.Cut(s, "=")
		v, ok := job.Vectors[name]
		switch {
		case !ok:
			rest = append(rest, s)
			continue
		case seen[name] != "":
			errs = append(errs, givenAlready("--input-nodata", s, name, seen[name]))
			continue
		case value == "" || strings.Contains(value, ","):
			errs = append(errs, fmt.Errorf("--input-nodata %s: give one value: a vector becomes one band", s))
		}
		v.Nodata, seen[name] = value, s
		job.Vectors[name] = v
	}
	return rest, errors.Join(errs...)
}

// noBands returns an error if bands of a vector are selected.
func (f *vectorFlags) noBands(job *apply.Job, values []string) error {
	if v := firstOfVector(job, values); v != "" {
		return fmt.Errorf("--bands %s: a vector becomes one band; the layer of its file is chosen with --layer", v)
	}
	return nil
}

// noScale returns an error if a vector has a scale.
func (f *vectorFlags) noScale(job *apply.Job, values []string) error {
	if v := firstOfVector(job, values); v != "" {
		return fmt.Errorf("--input-scale %s: a vector has the values that are burned, which --burn chooses", v)
	}
	return nil
}

// firstOfVector returns the first NAME=VALUE whose name is that of a vector, "" if there is none.
func firstOfVector(job *apply.Job, values []string) string {
	for _, s := range values {
		name, _, _ := strings.Cut(s, "=")
		if _, ok := job.Vectors[name]; ok {
			return s
		}
	}
	return ""
}
