package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/internal/resolve"

	"leat/internal/gdal"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/overview"
)

// gdalOutput is the state of an output in a format that GDAL writes. Its spool is like that of a
// GeoTIFF; only laying out differs.
type gdalOutput struct {
	driver  *gdal.Driver // nil for GeoTIFF, and in worker processes
	factors []int        // of the overviews that GDAL makes, rising
	tried   bool
	dropped []string // what the format does not keep
	notes   []string // other notes
	files   []string // names of the output's files, found by writing a sample
	writer  *gdal.Writer
}

const nativeFormat = "GTiff"

// usesGDAL reports whether the output is written through GDAL.
func (s *Output) usesGDAL() bool { return s.Format != "" && !strings.EqualFold(s.Format, nativeFormat) }

// formatName returns GDAL's name of the output's format.
func (s *Output) formatName() string {
	if s.usesGDAL() {
		return s.Format
	}
	return nativeFormat
}

// reducesItself reports whether files of the format always hold reduced copies.
func (s *Output) reducesItself() bool {
	name := strings.ToUpper(s.Format)
	return name == "COG" || strings.HasPrefix(name, "JP2")
}

// endings maps file name endings to GDAL's names of formats.
var endings = map[string]string{
	".asc": "AAIGrid", ".bil": "EHdr", ".bmp": "BMP", ".bt": "BT", ".envi": "ENVI", ".ers": "ERS", ".gif": "GIF",
	".gpkg": "GPKG", ".grib": "GRIB", ".grb2": "GRIB", ".h5": "BAG",
	".hdf": "HDF4Image", ".img": "HFA", ".j2k": "JP2OpenJPEG", ".jp2": "JP2OpenJPEG", ".jpeg": "JPEG", ".jpg": "JPEG",
	".kea": "KEA", ".kro": "KRO", ".mbtiles": "MBTiles", ".mrf": "MRF",
	".nc": "netCDF", ".ntf": "NITF", ".pix": "PCIDSK", ".png": "PNG", ".rst": "RST", ".sdat": "SAGA", ".vrt": "VRT",
	".webp": "WEBP", ".xyz": "XYZ", ".zarr": "Zarr",
}

// checkFormatFields returns the errors in the fields that concern formats, as far as they can be
// found without GDAL.
func (o *output) checkFormatFields() []error {
	s := &o.spec
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", o.name, fmt.Errorf(format, args...)))
	}
	ext := strings.ToLower(filepath.Ext(s.Path))
	tiff := ext == ".tif" || ext == ".tiff"
	if !s.usesGDAL() {
		switch format := endings[ext]; {
		case s.Path == "":
			bad("no file is given")
		case tiff:
		case format == "VRT":
			bad("%s: a VRT holds no pixels: end the name in .tif", s.label())
		case format != "" && !s.inStore():
			bad("%s: its ending is that of %s: say --format %s, or end the name in .tif", s.label(), format, format)
		default:
			bad("%s: leat writes GeoTIFF: give a name that ends in .tif", s.label())
		}
		if len(s.Options) > 0 {
			bad("creation options of GeoTIFF are fields of the output (Compression, Predictor and so on), not its Options")
		}
		return errs
	}
	switch {
	case s.Path == "":
		bad("no file is given")
	case s.inStore():
		bad("%s: other formats than GeoTIFF may consist of several files and are written to the local disk alone: write it there and copy it, or write a GeoTIFF (without --format)", s.label())
	}
	if s.COG {
		bad("--cog is for leat's own GeoTIFF, not for --format %s: leave out one of them", s.Format)
	}
	if strings.EqualFold(s.Format, "COG") && len(s.Overviews) > 0 {
		bad("overview levels can't be given to --format COG, which makes its own: leave out --overviews %s, or take leat's own GeoTIFF (without --format)", listText(s.Overviews))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"compression", s.Compression != ""}, {"predictor", s.Predictor != 0}, {"level", s.Level != 0},
		{"tile size", s.TileSize != 0}, {"interleave", s.PixelInterleave}, {"BigTIFF", s.BigTIFF}} {
		if f.set {
			bad("the %s is for leat's own GeoTIFF: give creation options of %s instead (--co KEY=VALUE; leat info --formats %s lists them)", f.name, s.Format, s.Format)
		}
	}
	if s.HistAux {
		bad("--hist-aux is for GeoTIFF: in other formats the histogram lies where GDAL looks for it")
	}
	return errs
}

// resolveFormats looks up the outputs' formats in GDAL and returns the errors in them.
func resolveFormats(outs []*output) error {
	var wrong, absent []error
	for _, o := range outs {
		if !o.spec.usesGDAL() {
			continue
		}
		if err := gdal.Available(); err != nil {
			absent = append(absent, fmt.Errorf("output %s: the format %s is written by GDAL: %w", o.name, o.spec.Format,
				err))
			continue
		}
		d, err := writableFormat(o.spec.Format)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("output %s: %w", o.name, err))
			continue
		}
		o.gdal.driver, o.spec.Format = &d, d.Name
		if other := otherEnding(&d, o.spec.Path); other != "" {
			instead := "say --format " + other
			if other == geoTIFF {
				instead = "leave out --format " + d.Name
			}
			if usual := usualEnding(&d); usual != "" {
				instead += ", or end the name in " + usual
			}
			wrong = append(wrong, fmt.Errorf("output %s: %s: its ending is that of %s, and the format is to be %s: %s",
				o.name, o.spec.label(), other, d.Name, instead))
		}
		// Fill in what is unknown with a valid value.
		spec := gdal.Spec{Driver: d.Name, Options: o.spec.Options, Grid: raster.Grid{Width: 1, Height: 1}, Bands: 1,
			Type: o.typ}
		if !spec.Type.Valid() {
			if spec.Type = ndarray.Uint8; len(d.Types) > 0 {
				spec.Type = d.Types[0]
			}
		}
		if err := spec.Check(o.spec.identity()); err != nil {
			wrong = append(wrong, fmt.Errorf("output %s: %w", o.name,
				inPlaceOf(err, o.spec.identity(), o.spec.label())))
		}
	}
	return errors.Join(errors.Join(absent...), jobErrors(wrong...))
}

const geoTIFF = "GeoTIFF"

// wellKnown are formats whose endings belong to them alone: no format without an ending of its own
// may use them.
var wellKnown = []string{"GIF", "GPKG", "JP2OpenJPEG", "JPEG", "netCDF", "PNG", "WEBP"}

// otherEnding returns the format that a name's ending belongs to if it is not d, and "" if the name
// may be that of a file of format d. If d has no ending of its own, only the endings of well-known
// formats count: ENVI's files often end in .img.
func otherEnding(d *gdal.Driver, path string) string {
	ext := strings.ToLower(filepath.Ext(path))
	owner := endings[ext]
	switch {
	case len(ext) < 2 || owner == d.Name || hasEnding(d, ext):
		return ""
	case ext == ".tif" || ext == ".tiff":
		return geoTIFF
	case len(d.Extensions) == 0 && !slices.Contains(wellKnown, owner):
		return ""
	}
	return owner
}

func hasEnding(d *gdal.Driver, ext string) bool {
	return slices.ContainsFunc(d.Extensions, func(e string) bool { return strings.EqualFold(e, ext[1:]) })
}

// usualEnding returns the ending of a format, "" if it has none.
func usualEnding(d *gdal.Driver) string {
	if len(d.Extensions) > 0 {
		return "." + d.Extensions[0]
	}
	for _, ext := range sortedKeys(endings) {
		if endings[ext] == d.Name {
			return ext
		}
	}
	return ""
}

// writableFormat looks up a format of rasters that GDAL can write.
func writableFormat(name string) (gdal.Driver, error) {
	all, err := gdal.Drivers()
	if err != nil {
		return gdal.Driver{}, err
	}
	i := slices.IndexFunc(all, func(d gdal.Driver) bool { return strings.EqualFold(d.Name, name) })
	if i < 0 {
		return gdal.Driver{}, noFormat(all, name)
	}
	d := all[i]
	switch {
	case d.Name == "VRT":
		return d, errors.New("a VRT holds no pixels: take another format (leat info --formats lists them)")
	case !d.Write:
		return d, fmt.Errorf("GDAL can't write rasters of the format %s (%s): take another one (leat info --formats lists those that it can)", d.Name, d.LongName)
	}
	return d, nil
}

// NoFormat returns an error about a format that GDAL does not have, with suggestions of similar
// names.
func NoFormat(name string) error {
	all, err := gdal.Drivers()
	if err != nil {
		return err
	}
	return noFormat(all, name)
}

func noFormat(all []gdal.Driver, name string) error {
	release, _ := gdal.Version()
	text := fmt.Sprintf("GDAL %s has no format %s", release, name)
	if similar := similarFormats(all, name); similar != nil {
		text += ": is it " + strings.Join(similar, " or ") + "?"
	}
	return errors.New(text + " (leat info --formats lists those that it has)")
}

// similarFormats returns up to three formats that the user may have meant.
func similarFormats(all []gdal.Driver, name string) (similar []string) {
	simple := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, strings.ToLower(s))
	}
	want := simple(name)
	if want == "" {
		return nil
	}
	for _, matches := range []func(d *gdal.Driver) bool{
		func(d *gdal.Driver) bool { return slices.Contains(d.Extensions, want) },
		func(d *gdal.Driver) bool { return distance(simple(d.Name), want) <= 1+len(want)/8 },
		func(d *gdal.Driver) bool { return len(want) > 2 && strings.Contains(simple(d.LongName), want) },
	} {
		for _, d := range byDistance(all, func(d *gdal.Driver) int { return distance(simple(d.Name), want) }) {
			if d.Write && len(similar) < 3 && !slices.Contains(similar, d.Name) && matches(&d) {
				similar = append(similar, d.Name)
			}
		}
	}
	return similar
}

// byDistance returns the formats, the nearest first.
func byDistance(all []gdal.Driver, dist func(d *gdal.Driver) int) []gdal.Driver {
	return slices.SortedStableFunc(slices.Values(all), func(a, b gdal.Driver) int { return dist(&a) - dist(&b) })
}

// distance returns how many letters have to be inserted, deleted or replaced to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// gdalCoding returns the coding of tiles in the spool of an output that GDAL writes: a fast one,
// since they are decoded again at the end.
func gdalCoding(t ndarray.DType) ([]tiffwrite.Coding, error) {
	list := tiffwrite.Candidates(t, tiffwrite.Zstd)
	c := list[len(list)-1]
	c.Level = 1
	return []tiffwrite.Coding{c}, c.Check(t)
}

// gdalText describes for the plan how the output is stored.
func (o *output) gdalText() string {
	text := strings.Join(append([]string{o.spec.Format}, o.spec.Options...), " ") + " through GDAL"
	if !o.typ.Valid() {
		return text
	}
	list, err := gdalCoding(o.typ)
	if err != nil {
		return text
	}
	return text + ", until then " + list[0].String()
}

// gdalMethods are GDAL's names of the overview methods.
var gdalMethods = map[overview.Method]string{overview.Nearest: "NEAREST", overview.Average: "AVERAGE",
	overview.Mode: "MODE"}

// formatOptions returns the creation options, including those that express leat's own options in
// this format.
func (o *output) formatOptions() []string {
	options := slices.Clone(o.spec.Options)
	given := func(keys ...string) bool {
		return slices.ContainsFunc(options, func(s string) bool {
			key, _, _ := strings.Cut(s, "=")
			return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) })
		})
	}
	if o.spec.Format == "COG" {
		if o.spec.NoOverviews && !given("OVERVIEWS") {
			options = append(options, "OVERVIEWS=NONE")
		}
		if !given("RESAMPLING", "OVERVIEW_RESAMPLING") {
			options = append(options, "OVERVIEW_RESAMPLING="+gdalMethods[o.spec.OverviewMethod])
		}
	}
	return options
}

// maxSides are limits of formats that writing a small sample does not reveal.
var maxSides = map[string]int{"GIF": 1<<16 - 1, "GSBG": 1<<15 - 1, "JPEG": 65500, "SGI": 1<<16 - 1, "WEBP": 16383}

// tryFormats writes samples of the outputs that GDAL writes, and finds files that two outputs or
// inputs share.
func (r *run) tryFormats(ctx context.Context) error {
	type file struct{ path, what string }
	var files []file
	for _, o := range r.outs {
		if !o.spec.usesGDAL() {
			files = append(files, file{o.spec.identity(), "output " + o.name})
		}
	}
	for _, f := range r.in.Files {
		if path := resolve.LocalFile(f.From); path != "" {
			files = append(files, file{realPath(path), "input " + f.Name})
		}
	}
	for i, o := range r.outs {
		if !o.spec.usesGDAL() || !o.typ.Valid() || o.bands == 0 {
			continue
		}
		if err := o.tryFormat(ctx, r.plan); err != nil {
			return err
		}
		r.plan.Outputs[i].Notes = o.gdalNotes()
		if err := o.checkSidecars(o.gdal.files); err != nil {
			return err
		}
		for _, name := range o.gdal.files {
			path := filepath.Join(filepath.Dir(o.spec.identity()), name)
			for _, f := range files {
				if f.path == path {
					return jobErrors(fmt.Errorf("output %s: %s has a sidecar %s, which is that of %s: write to another folder, or under another name", o.name, o.spec.label(), path, f.what))
				}
			}
			files = append(files, file{path, "output " + o.name})
		}
	}
	return nil
}

// checkSidecars returns an error if the output does not exist yet and one of its sidecars does:
// that file belongs to something else. Sidecars whose name begins with the output's whole name are
// exempt.
func (o *output) checkSidecars(names []string) error {
	path := o.spec.identity()
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, filepath.Base(path)) {
			continue
		}
		sidecar := filepath.Join(filepath.Dir(path), name)
		if _, err := os.Lstat(sidecar); err == nil {
			return fmt.Errorf("output %s: %s has a sidecar %s, which exists and belongs to another file: remove it, or give another name", o.name, o.spec.label(), sidecar)
		}
	}
	return nil
}
