package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/overview"
	"leat/internal/stats"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
)

// gdalFormat is a format that GDAL writes.
type gdalFormat struct {
	driver  *gdal.Driver // nil in worker processes
	factors []int        // of the overviews that GDAL makes, rising
	sampled bool
	dropped []string       // what the format does not keep
	remarks []outcome.Note // other notes
	names   []string       // of the output's files, found by writing a sample
}

func (*gdalFormat) complete(o *Output) []error {
	s := &o.Spec
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", o.Name, jobspec.Errorf("Output."+field, format, args...)))
	}
	switch {
	case s.Path == "":
		bad("Path", "no file is given")
	case s.InStore():
		bad("Format", "%s: other formats than GeoTIFF may consist of several files, which are written to the local disk alone",
			s.Label())
	}
	if s.COG {
		bad("COG", "leat writes a COG as GeoTIFF, but the format is %s", s.Format)
	}
	if strings.EqualFold(s.Format, "COG") && len(s.Overviews) > 0 {
		bad("Overviews", "overview levels %s: the format COG makes its own", listText(s.Overviews))
	}
	if o.Method == overview.Center {
		bad("OverviewMethod", "overviews by center are for GeoTIFF: GDAL makes those of the format %s and has no such method",
			s.Format)
	}
	for _, f := range []struct {
		name, field string
		set         bool
	}{{"compression", "Compression", s.Compression != ""}, {"predictor", "Predictor", s.Predictor != 0},
		{"level", "Level", s.Level != 0}, {"tile size", "TileSize", s.TileSize != 0},
		{"interleave", "PixelInterleave", s.PixelInterleave}, {"BigTIFF", "BigTIFF", s.BigTIFF}} {
		if f.set {
			bad("Options", "the %s (%s) is for GeoTIFF, expected creation options of %s", f.name, f.field, s.Format)
		}
	}
	if s.HistAux {
		bad("HistAux", "a sidecar with the histogram is for GeoTIFF: GDAL's formats store it themselves")
	}
	return errs
}

// reducesItself reports whether files of the format always hold reduced copies.
func reducesItself(format string) bool {
	name := strings.ToUpper(format)
	return name == "COG" || strings.HasPrefix(name, "JP2")
}

func (f *gdalFormat) takeOverviews(o *Output, factors []int) []int {
	if f.factors = factors; o.Spec.Overviews == nil && reducesItself(o.Spec.Format) {
		f.factors = nil
	}
	return nil
}

func (f *gdalFormat) laterFactors() []int { return f.factors }

func (f *gdalFormat) files() []string { return f.names }

func (*gdalFormat) grid(g raster.Grid) raster.Grid { return g }

func (*gdalFormat) holdsColors(*Output) bool { return false } // few of these formats do

// candidates returns a fast coding: tiles are decoded again when the output is laid out.
func (*gdalFormat) candidates(_ *Output, t ndarray.DType) ([]tiffwrite.Coding, error) {
	list := tiffwrite.Candidates(t, tiffwrite.Zstd)
	c := list[len(list)-1]
	c.Level = 1
	return []tiffwrite.Coding{c}, c.Check(t)
}

func (f *gdalFormat) codingText(o *Output) string {
	text := strings.Join(append([]string{o.Spec.Format}, o.Spec.Options...), " ") + " through GDAL"
	if !o.Type.Valid() {
		return text
	}
	list, err := f.candidates(o, o.Type)
	if err != nil {
		return text
	}
	return text + ", until then " + list[0].String()
}

// bins makes the bins of bytes and classes begin with the value 0: ERDAS Imagine keeps
// histogram and colours in one table, whose rows are values.
func (*gdalFormat) bins(o *Output, b stats.Bins) stats.Bins {
	if !b.Direct || b.Min < 0 || o.Type != ndarray.Uint8 && !o.Spec.Thematic {
		return b
	}
	whole := stats.Bins{Max: b.Max, Direct: true}
	if o.Type == ndarray.Uint8 {
		whole.Max = 255
	}
	whole.Counts = make([]uint64, int(whole.Max)+1)
	copy(whole.Counts[int(b.Min):], b.Counts)
	return whole
}

func (f *gdalFormat) find(o *Output) error {
	var errs []error
	if err := gdal.Available(); err != nil {
		return &absentError{fmt.Errorf("output %s: the format %s is written by GDAL: %w", o.Name, o.Spec.Format,
			err)}
	}
	d, err := writableFormat(o.Spec.Format)
	if err != nil {
		return fmt.Errorf("output %s: %w", o.Name, err)
	}
	f.driver, o.Spec.Format = &d, d.Name
	if other := otherEnding(&d, o.Spec.Path); other != "" {
		text := fmt.Sprintf("output %s: %s: its ending is that of %s, but the format is %s", o.Name,
			o.Spec.Label(), other, d.Name)
		if usual := usualEnding(&d); usual != "" {
			text += ", whose ending is " + usual
		}
		value := other
		if other == geoTIFF {
			value = "GTiff" // the name that the field takes
		}
		errs = append(errs, &outcome.FieldError{Field: "Output.Format", Value: value, Err: errors.New(text)})
	}
	// Fill in what is unknown with a valid value.
	spec := gdal.Spec{Driver: d.Name, Options: o.Spec.Options, Grid: raster.Grid{Width: 1, Height: 1}, Bands: 1,
		Type: o.Type}
	if !spec.Type.Valid() {
		if spec.Type = ndarray.Uint8; len(d.Types) > 0 {
			spec.Type = d.Types[0]
		}
	}
	if err := spec.Check(o.Spec.Identity()); err != nil {
		errs = append(errs, fmt.Errorf("output %s: %w", o.Name,
			inPlaceOf(err, o.Spec.Identity(), o.Spec.Label())))
	}
	return errors.Join(errs...)
}

// gdalMethods are GDAL's names of the overview methods.
var gdalMethods = map[overview.Method]string{overview.Nearest: "NEAREST", overview.Average: "AVERAGE",
	overview.Mode: "MODE"}

// formatOptions returns the creation options, including those that express leat's own options in
// this format.
func (o *Output) formatOptions() []string {
	options := slices.Clone(o.Spec.Options)
	given := func(keys ...string) bool {
		return slices.ContainsFunc(options, func(s string) bool {
			key, _, _ := strings.Cut(s, "=")
			return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) })
		})
	}
	if o.Spec.Format == "COG" {
		if o.Spec.NoOverviews && !given("OVERVIEWS") {
			options = append(options, "OVERVIEWS=NONE")
		}
		if !given("RESAMPLING", "OVERVIEW_RESAMPLING") {
			options = append(options, "OVERVIEW_RESAMPLING="+gdalMethods[o.Method])
		}
	}
	return options
}

// maxSides are limits of formats that writing a small sample does not reveal.
var maxSides = map[string]int{"GIF": 1<<16 - 1, "GSBG": 1<<15 - 1, "JPEG": 65500, "SGI": 1<<16 - 1, "WEBP": 16383}

// CheckSidecars returns an error if the output does not exist yet and one of its sidecars does:
// that file belongs to something else. Sidecars whose name begins with the output's whole name are
// exempt.
func (o *Output) CheckSidecars(names []string) error {
	path := o.Spec.Identity()
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, filepath.Base(path)) {
			continue
		}
		sidecar := filepath.Join(filepath.Dir(path), name)
		if _, err := os.Lstat(sidecar); err == nil {
			return jobspec.Errorf("Output.Path", "output %s: %s has a sidecar %s, which exists and belongs to another file", o.Name,
				o.Spec.Label(), sidecar)
		}
	}
	return nil
}
