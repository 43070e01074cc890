package output

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/georef"
	"leat/internal/rundir"
	"leat/internal/scalarvalue"
	"leat/internal/stats"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// sample writes a small raster like the output in a temporary directory, since only that shows
// what a format rejects and what it drops without an error: bands, nodata, names, coordinates. A
// loss that changes how pixels are read is an error, any other loss a note. It does nothing in
// worker processes and on later calls.
func (f *gdalFormat) sample(ctx context.Context, o *Output, grid raster.Grid) error {
	if f.driver == nil || f.sampled {
		return nil
	}
	f.sampled = true
	if most := maxSides[f.driver.Name]; most > 0 && max(grid.Width, grid.Height) > most {
		return jobspec.JobErrors(jobspec.Errorf("Output.Format",
			"output %s: the format %s holds at most %d x %d pixels, not %d x %d", o.Name, o.Spec.Format, most, most,
			grid.Width, grid.Height))
	}
	if f.driver.Name == "PCRaster" && o.Type == ndarray.Uint8 { // PCRaster reads bytes as Boolean
		return jobspec.JobErrors(&outcome.FieldError{Field: "Output.Type", Value: ndarray.Int32.String(),
			Err: fmt.Errorf("output %s: GDAL converts uint8 pixels to 0 and 1 in the format PCRaster", o.Name)})
	}
	directory, err := rundir.Make(os.TempDir())
	if err != nil {
		return fmt.Errorf("output %s: trying the format %s: no temporary directory can be made in %s: %w", o.Name,
			o.Spec.Format, os.TempDir(), err)
	}
	defer func() { _ = directory.Remove() }() // the next run sweeps what stays
	dir := filepath.Join(directory.Path, "trial")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("output %s: trying the format %s: %w", o.Name, o.Spec.Format, err)
	}
	path := filepath.Join(dir, filepath.Base(o.Spec.Identity()))
	hidden := path
	wrong := func(err error) error {
		err = inPlaceOf(inPlaceOf(err, hidden, o.Spec.Label()), path, o.Spec.Label())
		err = fmt.Errorf("output %s: %w", o.Name, err)
		if errors.As(err, new(*diskFullError)) {
			return err
		}
		return jobspec.JobErrors(err)
	}
	s, px := f.sampleFile(o, grid, trySide)
	w, err := f.writeSample(ctx, o, path, s, px)
	if whole := max(grid.Width, grid.Height); err != nil && ctx.Err() == nil && whole > trySide &&
		int64(grid.Width)*int64(grid.Height)*int64(o.Bands*o.Type.Size()) <= tryMost {
		// Some formats have tiles of one size only.
		s, px = f.sampleFile(o, grid, whole)
		w, err = f.writeSample(ctx, o, path, s, px)
	}
	if err != nil {
		return wrong(err)
	}
	defer w.Discard()
	fault.Point("apply.tried")
	hidden = w.StagingPath()
	f.names, _, err = w.FileNames()
	if err != nil {
		return wrong(err)
	}
	if err := s.compareOnDisk(f, w, dir, false); err != nil {
		return wrong(fmt.Errorf("%s: %w", o.Spec.Label(), err))
	}
	inexact, err := differs(ctx, w.StagingPath(), o.Spec.Format, px)
	if err != nil {
		return wrong(err)
	}
	if inexact {
		f.note(outcome.Note{Text: fmt.Sprintf("the format %s, with these options, changes pixels: statistics and histogram are those of the pixels before",
			o.Spec.Format)})
	}
	return nil
}

// writeSample writes the sample, without overviews if the format has none and the job asks for
// none.
func (f *gdalFormat) writeSample(ctx context.Context, o *Output, path string, s *gdalFile,
	px *ndarray.Array) (*gdal.Writer, error) {
	feed := func(w *gdal.Writer) error { return w.WriteBlock(ctx, s.spec.Grid.Window(), px) }
	w, err := s.write(ctx, path, feed)
	if !errors.As(err, new(*overviewsError)) || errors.As(err, new(*diskFullError)) {
		return w, err
	}
	// If the sample is too small for overviews, a larger raster may still have them.
	if small := strings.Contains(err.Error(), "too small"); !small && o.Spec.Overviews != nil {
		return nil, jobspec.Errorf("Output.Overviews", "overviews were asked for, and the format %s has none: %w", o.Spec.Format, err)
	} else if !small {
		f.unsupported("overviews")
		f.factors = nil
	}
	s.factors = nil
	return s.write(ctx, path, feed)
}

// unsupported notes that the format does not keep something.
func (f *gdalFormat) unsupported(what string) {
	if !slices.Contains(f.dropped, what) {
		f.dropped = append(f.dropped, what)
	}
}

func (f *gdalFormat) note(n outcome.Note) {
	if !slices.Contains(f.remarks, n) {
		f.remarks = append(f.remarks, n)
	}
}

func (f *gdalFormat) notes() []outcome.Note {
	notes := slices.Clone(f.remarks)
	if n := len(f.dropped); n > 0 {
		text := f.dropped[n-1]
		if n > 1 {
			text = strings.Join(f.dropped[:n-1], ", ") + " and " + text
		}
		notes = append(notes, outcome.Note{Text: fmt.Sprintf("the format %s does not keep %s", f.driver.Name, text)})
	}
	return notes
}

// trySide is the side of the sample in pixels. tryMost is the maximum size in bytes of a sample as
// large as the output itself.
const (
	trySide = 64
	tryMost = 32 << 20
)

// sampleFile returns a raster of at most side pixels a side with all features that the output will
// have.
func (f *gdalFormat) sampleFile(o *Output, grid raster.Grid, side int) (*gdalFile, *ndarray.Array) {
	s := &gdalFile{spec: gdal.Spec{Driver: o.Spec.Format, Options: o.formatOptions(), Grid: grid, Bands: o.Bands,
		Type: o.Type, Nodata: o.Nodata, Metadata: o.Spec.Metadata},
		method: gdalMethods[o.Method], inherit: o.inheritsScale(), interp: o.Spec.ColorInterp != nil}
	g := &s.spec.Grid
	g.Width, g.Height = min(g.Width, side), min(g.Height, side)
	if len(f.factors) > 0 {
		s.factors = []int{2}
	}
	for i := range o.Bands {
		b, br := o.bandInfo(i), outcome.BandResult{}
		if !o.Spec.NoStatistics && !o.Type.IsComplex() {
			setMoments(&br, &stats.Moments{Total: 4, Valid: 3, Min: 1, Max: 3, Mean: 2, M2: 2})
			statisticsItems(b.Metadata, &br)
			if !o.Spec.NoHistogram {
				br.Histogram = outcome.Histogram{Min: 1, Max: 3, Direct: true, Counts: []uint64{1, 1, 1}}
				br.Median, br.Mode = 2, 1
				histogramItems(b.Metadata, &br)
			}
		}
		s.spec.BandInfo = append(s.spec.BandInfo, b)
		s.bands = append(s.bands, br)
	}
	return s, o.noise(g.Width, g.Height)
}

// noise returns pixels of all kinds, so that a format which does not keep some of them shows it.
func (o *Output) noise(width, height int) *ndarray.Array {
	a := ndarray.New(o.Type, o.Bands, height, width)
	raw, r := a.Raw(), rand.New(rand.NewPCG(1, 2))
	size, parts := o.Type.Size(), 1
	part := o.Type
	if o.Type.IsComplex() {
		parts, size = 2, size/2
		if part = ndarray.Float32; o.Type == ndarray.Complex128 {
			part = ndarray.Float64
		}
	}
	lo, hi := -1e6, 1e6
	if part.IsInteger() {
		lo, hi = part.Limits()
	}
	if n := len(o.Spec.Colors); n > 0 {
		lo, hi = 0, float64(n-1)
	}
	for i := range width * height * o.Bands * parts {
		v := lo + float64(r.Float64()*(hi-lo))
		if part.IsFloat() && i%2 == 0 { // of all magnitudes
			v = math.Ldexp(float64(r.Float64())-0.5, r.IntN(40)-20)
		}
		sc, err := ndarray.ScalarFromFloat(nearest(v, part), part)
		if err != nil {
			continue // it stays 0
		}
		if o.Nodata != nil && parts == 1 && i%7 == 0 {
			sc = *o.Nodata
		}
		scalarvalue.Put(sc, raw[i*size:])
	}
	return a
}

// nearest returns v rounded to a value of the type.
func nearest(v float64, t ndarray.DType) float64 {
	switch {
	case t.IsInteger():
		return math.Floor(v)
	case t == ndarray.Float32:
		return float64(float32(v))
	}
	return v
}

// differs reports whether the pixels of a file differ from those that were written to it.
func differs(ctx context.Context, path, driver string, want *ndarray.Array) (bool, error) {
	f, err := gdal.Open(path, &gdal.Options{Drivers: []string{gdal.ReadAs(driver)}})
	if errors.As(err, new(*gdal.SubdatasetsError)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	i := f.Info()
	bands := make([]int, len(i.Bands))
	for n := range bands {
		bands[n] = n + 1
	}
	if len(bands) != want.Shape[0] || i.Bands[0].Type != want.Type {
		return true, nil
	}
	got := ndarray.New(want.Type, want.Shape...)
	if err := f.Read(ctx, bands, i.Grid.Window(), got); err != nil {
		return false, err
	}
	switch want.Type {
	case ndarray.Float32:
		return !sameValues(ndarray.Slice[float32](got), ndarray.Slice[float32](want)), nil
	case ndarray.Float64:
		return !sameValues(ndarray.Slice[float64](got), ndarray.Slice[float64](want)), nil
	}
	return !slices.Equal(got.Raw(), want.Raw()), nil
}

// sameValues reports whether two slices are equal, where all NaN count as equal.
func sameValues[T ndarray.Real](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return x == y || x != x && y != y })
}

// compare opens a file that was written and compares it with s. A difference that changes how
// pixels are read is an error, any other becomes a note. If exact is true, the statistics must be
// equal: some formats compute their own.
func (s *gdalFile) compare(notes *gdalFormat, path string, exact bool) error {
	name := s.spec.Driver
	f, err := gdal.Open(path, &gdal.Options{Drivers: []string{gdal.ReadAs(name)}})
	var sub *gdal.SubdatasetsError
	if errors.As(err, &sub) {
		notes.note(outcome.Note{
			Text: fmt.Sprintf("the format %s stores each band as a separate raster", name)})
		return nil
	}
	if err != nil {
		return fmt.Errorf("the file that GDAL wrote can't be opened: %w", err)
	}
	defer f.Close()
	i := f.Info()
	s.made = i.Overviews
	lost := func(field, what string) error {
		return jobspec.Errorf(field, "the format %s does not keep %s", name, what)
	}
	g := s.spec.Grid
	switch {
	case len(i.Bands) != s.spec.Bands:
		return jobspec.Errorf("Output.Format", "the format %s stores %s instead of %d", name, units.Count(len(i.Bands), "band"),
			s.spec.Bands)
	case i.Grid.Width != g.Width || i.Grid.Height != g.Height:
		return jobspec.Errorf("Output.Format", "the format %s stores %d x %d pixels instead of %d x %d", name, i.Grid.Width,
			i.Grid.Height, g.Width, g.Height)
	}
	if g.HasTransform && (!i.Grid.HasTransform || !sameTransform(g.Transform, i.Grid.Transform, g)) {
		notes.unsupported("the coordinates")
	}
	switch {
	case g.CRS.IsZero():
	case i.Grid.CRS.IsZero():
		notes.unsupported("the coordinate reference system")
	case !gdal.SameCRS(g.CRS, i.Grid.CRS):
		notes.unsupported("the coordinate reference system as it was")
	}
	if !g.HasTransform && g.GCPs != nil {
		switch got := i.Grid.GCPs; {
		case !sameControlPoints(g.GCPs, got):
			notes.unsupported("ground control points")
		case !sameNames(g.GCPs.Points, got.Points):
			notes.unsupported("names of ground control points")
		}
	}
	if g.RPC != nil && (i.Grid.RPC == nil || !allClose(georef.RPCValues(g.RPC), georef.RPCValues(i.Grid.RPC))) {
		notes.unsupported("RPCs")
	}
	for k, v := range s.spec.Metadata {
		if !holds(i.Metadata, k, v) {
			notes.unsupported("metadata items")
		}
	}
	for n, b := range i.Bands {
		switch {
		case b.Type == s.spec.Type:
		case exact: // the sample had the type
			notes.note(outcome.Note{Text: fmt.Sprintf("the format %s does not store the type of pixels, which are read as %v", name, b.Type)})
		default:
			return &outcome.FieldError{Field: "Output.Type", Value: b.Type.String(),
				Err: fmt.Errorf("the format %s stores pixels of %v instead of %v", name, b.Type, s.spec.Type)}
		}
		if s.spec.Nodata != nil && (b.Nodata == nil || b.Nodata.String() != s.spec.Nodata.String()) {
			return lost("Output.Nodata", "the nodata value "+s.spec.Nodata.String())
		}
		if s.spec.BandInfo == nil {
			continue
		}
		want := &s.spec.BandInfo[n]
		if want.Colors != nil && !sameColors(want.Colors, b.Colors) {
			return lost("Output.Colors", "the colour table")
		}
		if want.Colors != nil && translucent(want.Colors, s.spec.Nodata) &&
			!slices.Equal(want.Colors, b.Colors[:len(want.Colors)]) {
			notes.unsupported("the opacity of colours")
		}
		if names := categories(want); names != nil && !sameCategories(names, b.Categories) {
			notes.unsupported("names of values")
		}
		if s.interp && want.Color != "" && want.Color != b.Color {
			notes.unsupported("colour interpretations")
		}
		if scale := want.Scale; scale != 0 && !isClose(scale, b.Scale) || !isClose(want.Offset, b.Offset) {
			if !s.inherit {
				return lost("Output.Scale", "scale and offset")
			}
			notes.unsupported("the scale and offset of the inputs")
		}
		if b.Color == raster.ColorAlpha && want.Color != raster.ColorAlpha {
			notes.note(outcome.Note{Text: fmt.Sprintf(
				"the format %s takes band %d for opacity (alpha): pixels are invalid where it is 0", name, n+1)})
		}
		if want.Name != "" && b.Name != want.Name {
			notes.unsupported("names of bands")
		}
		if want.Unit != "" && b.Unit != want.Unit {
			notes.unsupported("the unit")
		}
		for _, k := range slices.Sorted(maps.Keys(want.Metadata)) {
			v := want.Metadata[k]
			switch {
			case holds(b.Metadata, k, v):
			case k == "LAYER_TYPE":
				notes.unsupported("that the pixels are classes")
			case !strings.HasPrefix(k, "STATISTICS_"):
				notes.unsupported("metadata items of bands")
			case k == "STATISTICS_MINIMUM" || k == "STATISTICS_MAXIMUM" || k == "STATISTICS_MEAN" ||
				k == "STATISTICS_STDDEV":
				if !hasStatistics(b.Metadata[k], v, exact) {
					notes.unsupported("statistics")
				}
			case k == "STATISTICS_VALID_PERCENT" && b.Metadata[k] == "":
				notes.unsupported("the share of valid pixels")
			}
		}
		if want := gdalHistogram(&s.bands[n]); want != nil && s.bands[n].Valid > 0 {
			got, err := f.Histogram(n + 1)
			if err != nil {
				return err
			}
			if got == nil || exact && !slices.Equal(got.Counts, want.Counts) {
				notes.unsupported("histograms")
			}
		}
	}
	if len(s.factors) > 0 && len(i.Overviews) < len(s.factors) {
		notes.unsupported("overviews")
	}
	return nil
}

func isClose(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

func allClose(a, b []float64) bool { return slices.EqualFunc(a, b, isClose) }

// sameControlPoints reports whether a file has the points that were written to it. Sidecars keep
// some ten digits.
func sameControlPoints(want, got *raster.GCPs) bool {
	return got != nil && gdal.SameCRS(want.CRS, got.CRS) && slices.EqualFunc(want.Points, got.Points,
		func(a, b raster.GCP) bool {
			return math.Abs(a.Pixel-b.Pixel) <= 1e-3 && math.Abs(a.Line-b.Line) <= 1e-3 && isClose(a.X, b.X) &&
				isClose(a.Y, b.Y) && isClose(a.Z, b.Z)
		})
}

// sameNames reports whether points have the names that were given to them.
func sameNames(want, got []raster.GCP) bool {
	return slices.EqualFunc(want, got, func(a, b raster.GCP) bool {
		return (a.ID == "" || a.ID == b.ID) && a.Info == b.Info
	})
}

// sameTransform reports whether all corners agree to a thousandth of a pixel.
func sameTransform(a, b raster.Transform, g raster.Grid) bool {
	for _, c := range [][2]float64{{0, 0}, {float64(g.Width), 0}, {0, float64(g.Height)},
		{float64(g.Width), float64(g.Height)}} {
		for k := 0; k < 6; k += 3 {
			x := a[k] + float64(c[0]*a[k+1]) + float64(c[1]*a[k+2])
			y := b[k] + float64(c[0]*b[k+1]) + float64(c[1]*b[k+2])
			if math.Abs(x-y) > 1e-3*max(math.Abs(a[k+1]), math.Abs(a[k+2])) {
				return false
			}
		}
	}
	return true
}

// sameColors reports whether got begins with the colours of want. It ignores transparency, which
// not all formats hold.
func sameColors(want, got []raster.RGBA) bool {
	if len(got) < len(want) {
		return false
	}
	for i, c := range want {
		if got[i].R != c.R || got[i].G != c.G || got[i].B != c.B {
			return false
		}
	}
	return true
}

// sameCategories reports whether got has the names of want; some formats have one for every value.
func sameCategories(want, got []string) bool {
	return len(got) >= len(want) && slices.Equal(want, got[:len(want)])
}

// holds reports whether items contain one, perhaps under the name that netCDF gives it.
func holds(items map[string]string, key, value string) bool {
	if v, ok := items[key]; ok {
		return v == value
	}
	return items["NC_GLOBAL#"+key] == value || items["NC_GLOBAL#GDAL_"+key] == value
}

// hasStatistics reports whether an item is a number and, if exact is true, the number that was
// written.
func hasStatistics(got, want string, exact bool) bool {
	var a, b float64
	if _, err := fmt.Sscan(got, &a); err != nil {
		return false
	}
	if _, err := fmt.Sscan(want, &b); err != nil {
		return true
	}
	return !exact || isClose(a, b) || math.Abs(a-b) < 1e-9
}
