package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/gdal"
	"leat/internal/storeurl"
	"leat/internal/vectorcopy"
	"leat/internal/zonal"
	"leat/internal/zonaljob"
)

// Words that options of leat zonal take.
var (
	weightWords  = []string{"centre", "touch", "coverage"}
	outsideWords = []string{"warn", "error"}
)

// zoneFlags are the options of zones, statistics and the table.
type zoneFlags struct {
	zones, layer, where, sql string
	openOptions, by          []string
	outside                  string
	exprs, stats             []string
	weights                  string
	output                   string
	noClobber                bool
	tempDir                  string

	// What Finalize reads.
	rule      zonal.Rule
	atOutside zonaljob.Outside
	statList  string
	path      string

	options *zonaljob.Options // of the job
	copied  *vectorcopy.Copy  // of zones in a store; nil if they are not
}

// AddFlags adds the options.
func (f *zoneFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringVarP(&f.zones, "zones", "z", "",
		"`FILE`: polygons (GeoPackage, Shapefile, GeoJSON, whatever OGR opens; needs GDAL), in whatever CRS, or a raster whose integers are zones")
	group(fl, "zones", "Zones")
	fl.StringSliceVar(&f.by, "by", nil,
		"`ATTRIBUTE`: what identifies the zones in the table, unique in the layer; several are separated by commas (default: the number of the feature, FID)")
	fl.StringVar(&f.layer, "zones-layer", "", "`LAYER`: which of several layers, by its name, or by its number from 0")
	fl.StringVar(&f.where, "zones-where", "", "`CONDITION`: only features for which it holds, such as 'class > 3'")
	fl.StringVar(&f.sql, "zones-sql", "", "`STATEMENT`: the result of a statement instead of a layer")
	addList(fl, &f.openOptions, "zones-open-option", "", "`KEY=VALUE`: an option of the driver that opens the file")
	fl.StringVar(&f.weights, "weights", "centre",
		"`RULE`: which pixels are in a polygon: centre (default): those whose centre it covers; touch: those that it touches; coverage: all that it covers a part of, weighted by the share")
	fl.StringVar(&f.outside, "outside", "warn",
		"`WHAT`: warn (default: they have rows without values) or error, if polygons lie outside the raster")
	addList(fl, &f.exprs, "expression", "e",
		"`[NAME=]EXPR`: what the statistics are of; again for several; @FILE reads it from a file (default: each input)")
	group(fl, "expression", "Statistics")
	addList(fl, &f.stats, "stat", "",
		"`LIST`: "+strings.Join(zonal.Names(), ", ")+", separated by commas; p0 to p100 are percentiles; histogram(0, 0.5, 1) counts in ranges (default: count,min,mean,max)")
	fl.StringVarP(&f.output, "output", "o", "", "`FILE`: the table (.csv, .parquet) or the polygons with their statistics (.geojson, .gpkg; needs GDAL), or the URL of an object to write")
	group(fl, "output", "Table")
	fl.BoolVar(&f.noClobber, "no-clobber", false, "a table that exists is an error")
	fl.StringVar(&f.tempDir, "tmpdir", "",
		"`DIR`: where the unfinished table is kept (default: its directory; of URLs: the system's directory for temporary files)")
}

// Finalize reads the values of the options, as far as they are right.
func (f *zoneFlags) Finalize() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch f.weights {
	case "centre", "center":
		f.rule = zonal.ByCentre
	case "touch", "touched", "all-touched":
		f.rule = zonal.ByTouch
	case "coverage":
		f.rule = zonal.ByCoverage
	default:
		bad("--weights %s: %w", f.weights, unknownWord(f.weights, weightWords))
	}
	switch f.outside {
	case "warn":
	case "error":
		f.atOutside = zonaljob.OutsideError
	default:
		bad("--outside %s: %w", f.outside, unknownWord(f.outside, outsideWords))
	}
	if f.statList = strings.Join(f.stats, ","); f.stats == nil {
		f.statList = "count,min,mean,max"
	}
	if _, err := zonal.Parse(f.statList); err != nil {
		if unknown := new(zonal.UnknownError); errors.As(err, &unknown) && unknown.Closest != "" {
			err = hintedError{err, fmt.Sprintf("did you mean %s?", unknown.Closest)}
		}
		bad("--stat %s: %w", f.statList, err)
	}
	if f.zones == "" {
		bad("no zones: give polygons or a raster with -z FILE")
	}
	if f.output == "" {
		bad("no output: give a file with -o FILE.csv, .parquet, .geojson or .gpkg")
	} else if file, err := newNamedFile("-o", f.output, zonaljob.OutputName, f.output, "FILE.csv"); err != nil {
		errs = append(errs, err)
	} else if zonaljob.CheckPath(file.path) != nil {
		bad("-o %w", &zonaljob.FormatError{Path: shown(file.path)})
	} else {
		f.path = file.path
	}
	if f.sql != "" && (f.layer != "" || f.where != "") {
		bad("--zones-sql: a statement selects layer and features itself: leave out --zones-layer and --zones-where")
	}
	return errors.Join(errs...)
}

// variables returns the expressions by name. Without any, each input is a variable.
func (f *zoneFlags) variables(ctx context.Context, job *apply.Job) (map[string]string, error) {
	all := map[string]string{}
	var errs []error
	for _, s := range f.exprs {
		name, text := "value", s
		if m := namedExpression.FindStringSubmatch(s[:min(len(s), 1<<16)]); m != nil &&
			(!strings.Contains(s, ";") || namedExpression.MatchString(m[2])) {
			name, text = m[1], m[2]
		} else if len(f.exprs) > 1 {
			errs = append(errs, fmt.Errorf("-e %s: there are several expressions: write it as NAME=EXPRESSION", shorten(s)))
			continue
		}
		if _, again := all[name]; again {
			errs = append(errs, fmt.Errorf("-e %s: %s has an expression already", shorten(s), name))
			continue
		}
		text, err := interruptible(ctx, func() (string, error) { return readExpression(text) })
		if err != nil {
			errs = append(errs, fmt.Errorf("-e %s: %w", shorten(s), err))
			continue
		}
		all[name] = text
	}
	if len(f.exprs) > 0 {
		return all, errors.Join(errs...)
	}
	for _, name := range sortedNames(job.Inputs) {
		if job.Inputs[name].List {
			errs = append(errs, fmt.Errorf("input %s is a list of files: say with -e what to compute of it", name))
		}
		all[name] = name
	}
	if len(all) == 0 {
		errs = append(errs, errors.New("no values: vectors are not variables: give -i NAME=FILE, or say with -e what to compute"))
	}
	return all, errors.Join(errs...)
}

// addTo completes a job that has its inputs.
func (f *zoneFlags) addTo(ctx context.Context, job *apply.Job, warn func(string)) error {
	o := &zonaljob.Options{Path: f.path, By: f.by, Outside: f.atOutside, Stats: f.statList, Rule: f.rule,
		NoClobber: f.noClobber, TempDir: f.tempDir, Warn: warn}
	f.options = o
	var errs []error
	var err error
	if o.Variables, err = f.variables(ctx, job); err != nil {
		errs = append(errs, err)
	}
	vectors := gdal.VectorRequest{Path: f.zones, Layer: f.layer, Where: f.where, SQL: f.sql, OpenOptions: f.openOptions}
	if f.isRaster(ctx) {
		o.Raster = &apply.Input{Files: []string{f.zones}}
		for _, g := range []struct {
			flag string
			set  bool
		}{{"--by", f.by != nil}, {"--zones-layer", f.layer != ""}, {"--zones-where", f.where != ""},
			{"--zones-sql", f.sql != ""}, {"--zones-open-option", f.openOptions != nil}, {"--weights", f.rule != zonal.ByCentre},
			{"--outside", f.atOutside != zonaljob.OutsideWarn}} {
			if g.set {
				errs = append(errs, fmt.Errorf("%s is for polygons, and %s is a raster", g.flag, shown(f.zones)))
			}
		}
	} else {
		if f.copied, vectors.Path, err = localVectors(ctx, job, "-z", f.zones); err != nil {
			errs = append(errs, err)
		} else if f.copied != nil {
			vectors.Name = storeurl.Redact(f.zones)
		} else if _, err := os.Stat(vectors.Path); errors.Is(err, fs.ErrNotExist) && isFileName(vectors.Path) {
			errs = append(errs, fileError{fmt.Errorf("-z %s: %w", shown(f.zones), cause(err))})
		}
		o.Zones = vectors
	}
	return errors.Join(append(errs, zonaljob.Complete(job, o))...)
}

// Close frees what the run of the job holds.
func (f *zoneFlags) Close() error {
	var errs []error
	if f.options != nil {
		errs = append(errs, f.options.Close())
	}
	if f.copied != nil {
		errs = append(errs, f.copied.Close())
	}
	return errors.Join(errs...)
}

// isFileName reports whether a name of vectors can only be that of a file, and not that of a
// database, of GDAL's virtual files, or a source written as XML.
func isFileName(name string) bool {
	return !strings.ContainsAny(name, ":<") && !strings.HasPrefix(name, "/vsi")
}

// isRaster reports whether the zones are a raster: what opens as one and holds no polygons, or has
// the name of one in a store.
func (f *zoneFlags) isRaster(ctx context.Context) bool {
	if storeurl.Is(f.zones) {
		return slices.ContainsFunc([]string{".tif", ".tiff", ".npy"},
			func(ending string) bool { return strings.HasSuffix(strings.ToLower(f.zones), ending) })
	}
	raster, err := interruptible(ctx, func() (bool, error) {
		src, err := apply.Open(f.zones)
		if err != nil {
			return false, nil
		}
		driver := src.Info().Driver
		if err := src.Close(); err != nil {
			return false, err
		}
		return driver == "GTiff" || driver == "npy" || !gdal.HoldsVectors(f.zones), nil
	})
	return raster && err == nil
}
