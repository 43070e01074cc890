package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/ndarray"
	"leat/objstore"
)

// vectorFlags are the options of vectors as they are typed.
type vectorFlags struct {
	vectors, layer, burn, where, sql, null, vectorType, allTouched, openOptions []string
}

// AddFlags adds the options.
func (f *vectorFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.vectors, "vector", "v", nil,
		"`NAME=FILE`: an input made of vectors (GeoPackage, Shapefile, GeoJSON, whatever OGR opens; needs GDAL), which are burned onto the grid before the first block")
	group(fl, "vector", "Vectors")
	fl.StringArrayVar(&f.layer, "layer", nil,
		"`NAME=LAYER`: which of several layers, by its name, or by its number from 0")
	fl.StringArrayVar(&f.burn, "burn", nil,
		"`NAME=VALUE|ATTRIBUTE`: what features are burned with: a number, or the attribute of that name (default: 1)")
	fl.StringArrayVar(&f.where, "where", nil,
		"`NAME=CONDITION`: only features for which it holds, such as roads='class > 3'")
	fl.StringArrayVar(&f.sql, "sql", nil,
		"`NAME=STATEMENT`: burn the result of a statement, such as roads='SELECT * FROM roads WHERE lanes * 2 > 4'")
	fl.StringArrayVar(&f.null, "null", nil,
		"`NAME=VALUE`: the pixel where no feature lies (default: 0); valid unless --input-nodata says otherwise")
	fl.StringArrayVar(&f.vectorType, "vector-type", nil,
		"`NAME=TYPE`: type of the pixels (default: for a number the first of uint8, int32 and float64 that holds it; for an attribute int32, int64 or float64, as it is stored); a value that does not fit is an error")
	fl.StringArrayVar(&f.allTouched, "all-touched", nil,
		"`NAME`: burn all pixels that a line or polygon touches, not only those whose centre it covers")
	fl.StringArrayVar(&f.openOptions, "open-option", nil,
		"`NAME=KEY=VALUE`: an option of the driver that opens the file, such as X_POSSIBLE_NAMES=lon of CSV files")
}

// addTo adds the vectors to a job that has its inputs.
func (f *vectorFlags) addTo(job *apply.Job) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	job.Vectors = map[string]apply.Vector{}
	for _, s := range f.vectors {
		name, path, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || path == "" || objstore.IsURL(name) {
			bad("-v %s: write it as NAME=FILE, such as roads=roads.gpkg", shown(s))
			continue
		}
		path, err := localName(path)
		if err != nil {
			bad("-v %s: %w", name, err)
			continue
		}
		if old, again := job.Vectors[name]; again {
			bad("-v %s: there is a vector %s already (%s): give each a name of its own", shown(s), name,
				shown(old.Path))
			continue
		}
		job.Vectors[name] = apply.Vector{Path: path}
	}
	return errors.Join(errs...)
}

// setOptions sets the options of the vectors of a job.
func (f *vectorFlags) setOptions(job *apply.Job) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	// each sets something of the vectors that values NAME=VALUE name, each once.
	each := func(flag string, values []string, many bool, set func(v *apply.Vector, value string) error) {
		seen := map[string]bool{}
		for _, s := range values {
			name, value, ok := strings.Cut(s, "=")
			v, known := job.Vectors[name]
			switch {
			case !ok || value == "":
				bad("%s %s: write it as NAME=VALUE, NAME being a vector (-v)", flag, s)
			case !known:
				bad("%s %s: %s", flag, s, f.unknown(job, name))
			case seen[name] && !many:
				bad("%s %s: it is given for %s already", flag, s, name)
			default:
				if err := set(&v, value); err != nil {
					bad("%s %s: %w", flag, s, err)
				}
			}
			if known {
				seen[name], job.Vectors[name] = true, v
			}
		}
	}
	each("--layer", f.layer, false, func(v *apply.Vector, s string) error { v.Layer = s; return nil })
	each("--where", f.where, false, func(v *apply.Vector, s string) error { v.Where = s; return nil })
	each("--sql", f.sql, false, func(v *apply.Vector, s string) error { v.SQL = s; return nil })
	each("--open-option", f.openOptions, true, func(v *apply.Vector, s string) error {
		if !strings.Contains(s, "=") {
			return errors.New("write it as NAME=KEY=VALUE")
		}
		v.OpenOptions = append(v.OpenOptions, s)
		return nil
	})
	each("--burn", f.burn, false, func(v *apply.Vector, s string) error {
		if n, err := strconv.ParseFloat(s, 64); err == nil {
			v.Burn = &n
		} else {
			v.Attribute = s
		}
		return nil
	})
	each("--null", f.null, false, func(v *apply.Vector, s string) error {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return errors.New("use a number or nan")
		}
		v.Null = &n
		return nil
	})
	each("--vector-type", f.vectorType, false, func(v *apply.Vector, s string) (err error) {
		v.Type, err = ndarray.ParseDType(s)
		if err != nil || v.Type.IsComplex() || v.Type == ndarray.Float16 {
			return errors.New("use one of uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64")
		}
		return nil
	})
	seen := map[string]bool{}
	for _, name := range f.allTouched {
		v, known := job.Vectors[name]
		switch {
		case !known:
			bad("--all-touched %s: %s", name, f.unknown(job, name))
		case seen[name]:
			bad("--all-touched %s: it is given already", name)
		default:
			v.AllTouched, seen[name] = true, true
			job.Vectors[name] = v
		}
	}
	return errors.Join(errs...)
}

// unknown says that a name is no vector's.
func (f *vectorFlags) unknown(job *apply.Job, name string) string {
	if _, ok := job.Inputs[name]; ok {
		return fmt.Sprintf("the input %s is a raster (-i), not a vector (-v)", name)
	}
	if len(job.Vectors) == 0 {
		return fmt.Sprintf("there is no vector %q: give one with -v", name)
	}
	return fmt.Sprintf("there is no vector %q; there is %s", name, strings.Join(sortedNames(job.Vectors), ", "))
}

// nodata takes the values of --input-nodata that name vectors, and returns the others.
func (f *vectorFlags) nodata(job *apply.Job, values []string) (rest []string, err error) {
	var errs []error
	seen := map[string]bool{}
	for _, s := range values {
		name, value, _ := strings.Cut(s, "=")
		v, ok := job.Vectors[name]
		switch {
		case !ok:
			rest = append(rest, s)
			continue
		case seen[name]:
			errs = append(errs, fmt.Errorf("--input-nodata %s: it is given for %s already", s, name))
		case value == "" || strings.Contains(value, ","):
			errs = append(errs, fmt.Errorf("--input-nodata %s: give one value: a vector becomes one band", s))
		}
		v.Nodata, seen[name] = value, true
		job.Vectors[name] = v
	}
	return rest, errors.Join(errs...)
}

// noBands refuses a choice of bands of vectors.
func (f *vectorFlags) noBands(job *apply.Job, values []string) error {
	i := slices.IndexFunc(values, func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		_, ok := job.Vectors[name]
		return ok
	})
	if i < 0 {
		return nil
	}
	return fmt.Errorf("--layers %s: a vector becomes one band; the layer of its file is chosen with --layer", values[i])
}
