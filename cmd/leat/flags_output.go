package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/expr"
	"leat/internal/gdal"
	"leat/internal/lazyregexp"
	"leat/internal/overview"
	"leat/internal/storeurl"
	"leat/ndarray"
	"leat/raster"
)

// Words that options take.
var (
	outputTypes = []string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
		"float32", "float64"}
	vectorTypes = slices.DeleteFunc(slices.Clone(outputTypes), func(t string) bool { return t == "float16" })

	overviewMethods = []string{"nearest", "center", "average", "mode"}
	collisions      = []string{"warn", "error"}
)

// unknownType is the error for a word that is none of the types.
func unknownType(s string, types []string) error {
	err := fmt.Errorf("use one of %s", strings.Join(types, " "))
	if hint := otherTypes[strings.ToLower(s)]; hint != "" {
		return hintedError{err, hint}
	}
	return didYouMean(err, s, types)
}

// outputFlags are the options of outputs and expressions.
type outputFlags struct {
	outputs, exprs                      []string // NAME=FILE, [NAME=]EXPRESSION
	types, nodata, scales, offsets      []string // [NAME=]VALUE
	formats, creation, names, counts    []string // [NAME=]VALUE
	collision                           string
	overviews, ovMethod                 string
	cog, noStats, noHist, aux, thematic bool
	colors, interp                      []string // [NAME=]VALUE
	unit                                string
	tags                                []string // KEY=VALUE
	noClobber                           bool
	tempDir                             string
	mayBeMissing                        bool     // the job may only emit values
	stac                                []string // [NAME=]FILE
	datetime                            string
	sieves                              []string // [NAME=]N
	diagonals                           bool

	// What Finalize reads.
	files          []namedFile
	dtypes         []namedValue[ndarray.DType]
	nodatas        []namedValue[string]
	scale, offset  []namedValue[float64]
	bandCounts     []namedValue[int]
	drivers        []namedValue[string]
	tables         []namedValue[string] // files
	interps        []namedValue[[]raster.Color]
	items          []namedValue[string] // files
	sieve          []namedValue[int]    // pixels
	from, to       time.Time
	layerNames     []namedValue[[]string]
	levels         []int  // of overviews
	method         string // of overviews; "" where it is unknown, which is reported once
	failCollisions bool
	metadata       map[string]string
}

// AddFlags adds the options.
func (f *outputFlags) AddFlags(fl *pflag.FlagSet) {
	addList(fl, &f.outputs, "output", "o", "`[NAME=]FILE.tif`: an output, or the URL of an object to write; the name may be left out (it is out then) if there is one output; FILE.gpkg or FILE.geojson gets polygons of connected pixels of equal value")
	group(fl, "output", "Outputs")
	addList(fl, &f.exprs, "expression", "e", "`[NAME=]EXPR`: how an output is computed; @FILE reads it from a file, @- from standard input")
	addList(fl, &f.types, "type", "",
		"`[NAME=]TYPE`: element type, such as uint8 or float32: values are rounded and saturated, and the saturated ones are counted (default: what the expression needs)")
	addList(fl, &f.counts, "count", "",
		"`[NAME=]N`: expected number of bands; a result with another number is an error (default: that of the result)")
	addList(fl, &f.nodata, "nodata", "",
		"`[NAME=]VALUE`: nodata value, a number, nan or none (default: that of the inputs if the output has their pixels, else nan or an end of the type's range)")
	addList(fl, &f.scales, "scale", "",
		"`[NAME=]NUMBER`: store (value - offset) / scale, and say so in the file")
	addList(fl, &f.offsets, "offset", "", "`[NAME=]NUMBER`: see --scale")
	fl.StringVar(&f.collision, "nodata-collision", "warn",
		"`WHAT`: warn (default) or error, where a valid result equals nodata")
	addList(fl, &f.formats, "format", "",
		"`[NAME=]FORMAT`: GDAL's name of the format to write, such as HFA, through GDAL (default: GTiff, leat's own GeoTIFF; leat info --formats lists others)")
	addList(fl, &f.creation, "co", "",
		"`[NAME=]KEY=VALUE`: creation option in GDAL's names: COMPRESS (DEFLATE, ZSTD, LZW, PACKBITS, NONE), PREDICTOR (1, 2, 3), LEVEL, BLOCKSIZE, INTERLEAVE (BAND, PIXEL), BIGTIFF (YES, IF_NEEDED); of another format (--format) those that leat info --formats FORMAT lists")
	fl.StringVar(&f.overviews, "overviews", "",
		"`N,N...`: overview levels, powers of two, or none (default: 4,8,16... up to 512 while the smaller side stays above 128)")
	fl.BoolVar(&f.cog, "cog", false, "overviews as a cloud-optimized GeoTIFF has them: 2,4,8... down to 512 pixels")
	fl.StringVar(&f.ovMethod, "overview-method", "nearest",
		"`METHOD`: how overviews are made: nearest (default), center, average or mode")
	fl.BoolVar(&f.noStats, "no-stats", false, "write no statistics and no histogram")
	fl.BoolVar(&f.noHist, "no-histogram", false, "write no histogram")
	fl.BoolVar(&f.aux, "aux-xml", false, "write the histogram to FILE.aux.xml too, where GDAL and QGIS look for it")
	addList(fl, &f.names, "names", "", "`[NAME=]TEXT,...`: names of the bands")
	fl.BoolVar(&f.thematic, "thematic", false, "the pixels are classes (LAYER_TYPE=thematic)")
	addList(fl, &f.colors, "color-table", "",
		"`[NAME=]FILE`: colours and names of the values of uint8 or uint16 pixels: lines 'value red green blue', optionally alpha and a name, as gdaldem and QGIS write them")
	addList(fl, &f.interp, "color-interp", "",
		"`[NAME=]COLOR,...`: what the bands are when the raster is displayed: gray, red, green, blue, alpha, undefined and the other names of GDAL 3.6; or BAND:COLOR for one band")
	fl.StringVar(&f.unit, "unit", "", "`TEXT`: unit of the values")
	addList(fl, &f.tags, "metadata", "", "`KEY=VALUE`: metadata item")
	addList(fl, &f.stac, "stac", "",
		"`[NAME=]FILE.json`: write a STAC Item for the outputs, or for one of them")
	fl.StringVar(&f.datetime, "datetime", "",
		"`TIME[/TIME]`: when the pixels were taken, for --stac (default: what the inputs say)")
	addList(fl, &f.sieves, "sieve", "",
		"`[NAME=]N`: no polygon of fewer than N pixels: smaller ones get the value of their largest neighbour, or are left out if it is smaller too")
	fl.BoolVar(&f.diagonals, "diagonals", false, "pixels that touch at a corner are connected in polygons too")
	fl.BoolVar(&f.noClobber, "no-clobber", false, "an output that exists is an error")
	fl.StringVar(&f.tempDir, "tmpdir", "",
		"`DIR`: where unfinished outputs are kept, and vectors rasterized (default: the directory of each output; of URLs: the system's directory for temporary files)")
}

// Finalize reads the values of the options, as far as they are right.
func (f *outputFlags) Finalize() error {
	errs := []error{f.finalizeFiles()}
	var err error
	f.dtypes, err = parseNamed("--type", f.types, parseType)
	errs = append(errs, err)
	f.bandCounts, err = parseNamed("--count", f.counts, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1<<16-1 {
			return 0, errors.New("use a number of bands from 1 to 65535")
		}
		return n, nil
	})
	errs = append(errs, err)
	f.nodatas, err = parseNamed("--nodata", f.nodata, func(s string) (string, error) {
		if _, err := strconv.ParseFloat(s, 64); err != nil && s != "none" {
			return "", errors.New("use a number, nan or none")
		}
		return s, nil
	})
	errs = append(errs, err)
	f.scale, err = parseNamed("--scale", f.scales, func(s string) (float64, error) {
		v, err := parseFinite(s)
		if err != nil || v == 0 {
			return 0, errors.New("use a finite number other than 0")
		}
		return v, nil
	})
	errs = append(errs, err)
	f.offset, err = parseNamed("--offset", f.offsets, parseFinite)
	errs = append(errs, err)
	f.drivers, err = parseNamed("--format", f.formats, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("give the name of a format, such as HFA (leat info --formats lists them)")
		}
		if strings.EqualFold(s, "GeoTIFF") {
			s = "GTiff"
		}
		return s, nil
	})
	errs = append(errs, err)
	f.sieve, err = parseNamed("--sieve", f.sieves, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > math.MaxInt32 {
			return 0, errors.New("use a number of pixels of 1 or more")
		}
		return n, nil
	})
	errs = append(errs, err)
	f.tables, err = parseNamed("--color-table", f.colors, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("give the name of a file")
		}
		return s, nil
	})
	errs = append(errs, err)
	f.interps, err = parseNamedLists("--color-interp", f.interp, parseColorInterp)
	errs = append(errs, err)
	f.layerNames, err = parseNamed("--names", f.names, parseList)
	return errors.Join(append(errs, err, f.finalizeOverviews(), f.finalizeOthers(),
		f.finalizeSTAC())...)
}

// finalizeFiles reads -o.
func (f *outputFlags) finalizeFiles() error {
	var errs []error
	f.files = nil
	for _, s := range f.outputs {
		file, err := parseOutput(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.files = append(f.files, file)
	}
	return errors.Join(errs...)
}

// finalizeOverviews reads the options of overviews.
func (f *outputFlags) finalizeOverviews() (err error) {
	var errs []error
	if _, err = overview.ParseMethod(f.ovMethod); err == nil {
		f.method = f.ovMethod
	} else {
		errs = append(errs, fmt.Errorf("--overview-method %s: %w", f.ovMethod, unknownWord(f.ovMethod, overviewMethods)))
	}
	f.levels = nil
	if f.overviews != "" && !f.noOverviews() {
		if f.levels, err = integers(f.overviews); err != nil {
			errs = append(errs, fmt.Errorf("--overviews %s: write levels as 2,4,8, or none", f.overviews))
		}
		if f.cog {
			errs = append(errs, errors.New("--overviews and --cog: give one of them"))
		}
	}
	return errors.Join(errs...)
}

func (f *outputFlags) noOverviews() bool { return f.overviews == "none" }

// finalizeOthers reads --metadata and --nodata-collision.
func (f *outputFlags) finalizeOthers() error {
	var errs []error
	f.metadata = map[string]string{}
	for _, s := range f.tags {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			errs = append(errs, fmt.Errorf("--metadata %s: write it as KEY=VALUE", s))
			continue
		}
		if old, again := f.metadata[k]; again {
			errs = append(errs, givenAlready("--metadata", s, "", k+"="+old))
			continue
		}
		f.metadata[k] = v
	}
	switch f.collision {
	case "warn":
	case "error":
		f.failCollisions = true
	default:
		errs = append(errs, fmt.Errorf("--nodata-collision %s: %w", f.collision, unknownWord(f.collision, collisions)))
	}
	return errors.Join(errs...)
}

// parseOutput reads [NAME=]FILE; a file alone is the output "out". A path with a slash before its
// first = is a file alone.
func parseOutput(s string) (namedFile, error) {
	name, path, ok := strings.Cut(s, "=")
	if !ok || storeurl.Is(name) || strings.Contains(name, "/") {
		name, path = "out", s
	}
	if name = strings.TrimSpace(name); name != "" && !expr.IsName(name) {
		return namedFile{}, hintedError{fmt.Errorf("-o %s: %q cannot be the name of an output: use letters, digits and _, no digit first", shown(s), name),
			"write a path with = as " + shown("./"+s)}
	}
	return newNamedFile("-o", s, name, path, "NAME=FILE.tif, such as ndvi=ndvi.tif")
}

// parseType reads the element type of an output.
func parseType(s string) (ndarray.DType, error) {
	t, err := ndarray.ParseDType(s)
	if err != nil || t.IsComplex() {
		return 0, unknownType(s, outputTypes)
	}
	return t, nil
}

func parseFinite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errors.New("use a finite number")
	}
	return v, nil
}

// addTo adds the outputs to a job. complete is false if one could not be read.
func (f *outputFlags) addTo(job *apply.Job) (complete bool, _ error) {
	if len(f.outputs) == 0 && !f.mayBeMissing {
		return false, errors.New("no output: give at least one -o NAME=FILE.tif")
	}
	var errs []error
	for _, file := range f.files {
		if old, again := job.Outputs[file.name]; again {
			errs = append(errs, fmt.Errorf("-o %s: there is an output %s already (%s): give each a name of its own",
				shown(file.text), file.name, shown(old.Path)))
			continue
		}
		job.Outputs[file.name] = apply.Output{Path: file.path, TempDir: f.tempDir}
	}
	return len(errs) == 0 && len(f.files) == len(f.outputs), errors.Join(errs...)
}

// namedExpression is NAME=EXPRESSION, but not a comparison.
var namedExpression = lazyregexp.New(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=([^=](?s:.*))$`)

// addExpressions adds the expressions. If outputs are missing, one without a name may be for any of
// them.
func (f *outputFlags) addExpressions(ctx context.Context, job *apply.Job, allOutputs bool) error {
	if len(f.exprs) == 0 {
		return errors.New("no expression: say with -e what to compute")
	}
	var errs []error
	for _, s := range f.exprs {
		var name, text string
		if len(s) < 1<<16 { // a longer one is refused by the parser, not searched here
			if m := namedExpression.FindStringSubmatch(s); m != nil && !f.definesName(m[1], s) {
				name, text = m[1], m[2]
			}
		}
		if name == "" {
			if len(f.outputs) > 1 {
				errs = append(errs, fmt.Errorf("-e %s: there are several outputs: write it as NAME=EXPRESSION", shorten(s)))
				continue
			}
			name, text = "out", s
			if allOutputs {
				name = f.files[0].name
			}
		}
		if _, again := job.Expressions[name]; again {
			errs = append(errs, fmt.Errorf("-e %s: output %s has an expression already", shorten(s), name))
			continue
		}
		text, err := interruptible(ctx, func() (string, error) { return readExpression(text) })
		if err != nil {
			errs = append(errs, fmt.Errorf("-e %s: %w", shorten(s), err))
			continue
		}
		job.Expressions[name] = text
	}
	return errors.Join(errs...)
}

// definesName reports whether an expression that begins with NAME= defines an intermediate result,
// as in v = a * 2; v + 1. It does not if an output has this name.
func (f *outputFlags) definesName(name, text string) bool {
	return strings.Contains(text, ";") &&
		!slices.ContainsFunc(f.files, func(file namedFile) bool { return file.name == name })
}

// maxExpressionFile is more than an expression can have, so that the parser says what its limit is.
const maxExpressionFile = 1 << 17

// readExpression returns the text of an expression, which @FILE or, as @-, standard input holds.
func readExpression(text string) (string, error) {
	path, ok := strings.CutPrefix(strings.TrimSpace(text), "@")
	if !ok {
		return text, nil
	}
	if path == "" {
		return "", errors.New("write @FILE, with the name of a file, or @- for standard input")
	}
	file := os.Stdin
	if path == "-" {
		path = "standard input"
	} else {
		var err error
		if file, err = os.Open(path); err != nil {
			return "", fileError{fmt.Errorf("reading %s: %w", shown(path), cause(err))}
		}
		defer file.Close()
	}
	b, err := io.ReadAll(io.LimitReader(file, maxExpressionFile))
	if err != nil {
		return "", fileError{fmt.Errorf("reading %s: %w", shown(path), cause(err))}
	}
	return string(b), nil
}

// setOptions sets the options of the outputs of a job that has all of them.
func (f *outputFlags) setOptions(ctx context.Context, job *apply.Job) error {
	errs := []error{
		setOutputs(job, "--type", f.dtypes, func(o *apply.Output, v ndarray.DType) { o.Type = v }),
		setOutputs(job, "--count", f.bandCounts, func(o *apply.Output, v int) { o.Bands = v }),
		setOutputs(job, "--nodata", f.nodatas, func(o *apply.Output, v string) { o.Nodata = v }),
		setOutputs(job, "--scale", f.scale, func(o *apply.Output, v float64) { o.Scale = v }),
		setOutputs(job, "--offset", f.offset, func(o *apply.Output, v float64) { o.Offset = v }),
		setOutputs(job, "--format", f.drivers, func(o *apply.Output, v string) { o.Format = v }),
		f.setCreation(job),
	}
	errs = append(errs, f.setColors(ctx, job), f.setColorInterps(job), f.setPolygons(job))
	rasters := firstRaster(job) != ""
	setAllOutputs(job, func(o *apply.Output) {
		o.NoClobber = f.noClobber
		if o.Polygons && rasters {
			return // the other options are for the rasters
		}
		o.COG, o.Overviews, o.NoOverviews, o.OverviewMethod = f.cog, f.levels, f.noOverviews(), f.method
		o.NoStatistics, o.NoHistogram, o.HistAux = f.noStats, f.noHist, f.aux
		o.Thematic, o.Unit = f.thematic, f.unit
		if len(f.metadata) > 0 {
			o.Metadata = f.metadata
		}
	})
	return errors.Join(append(errs,
		setOutputs(job, "--names", f.layerNames, func(o *apply.Output, v []string) { o.LayerNames = v }))...)
}

// setPolygons sets the options of outputs of polygons: those whose names say so, unless a format
// of rasters is given for them.
func (f *outputFlags) setPolygons(job *apply.Job) error {
	setAllOutputs(job, func(o *apply.Output) {
		if o.Polygons = o.Format == "" && gdal.PolygonDriver(o.Path) != ""; o.Polygons {
			o.Diagonals = f.diagonals
		}
	})
	polygons := slices.ContainsFunc(sortedNames(job.Outputs),
		func(name string) bool { return job.Outputs[name].Polygons })
	if f.diagonals && !polygons {
		return errors.New("--diagonals: no output has polygons, expected one such as -o NAME=FILE.gpkg")
	}
	var errs []error
	for _, v := range f.sieve {
		errs = append(errs, forOutputs(job, "--sieve", []namedValue[int]{v}, func(name string, pixels int) error {
			o := job.Outputs[name]
			switch {
			case o.Polygons:
				o.Sieve = pixels
				job.Outputs[name] = o
			case v.named || !polygons:
				return fmt.Errorf("--sieve %s: output %s is a raster, expected polygons such as -o NAME=FILE.gpkg", v.text, name)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}
