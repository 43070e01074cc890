package apply

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

	"leat/internal/fault"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/gdal"
	"leat/raster/stats"
)

// tryFormat writes a small raster of the output's kind in a temporary folder, since only that tells what a format refuses, and what it drops in silence: the number of bands,
// nodata, names, coordinates. What would be read as something else than what was asked for is an error, and all else a note. It does nothing for GeoTIFF, and the second time.
func (o *output) tryFormat(ctx context.Context, p *Plan) error {
	if o.foreign.driver == nil || o.foreign.tried {
		return nil
	}
	o.foreign.tried = true
	if most := maxSides[o.foreign.driver.Name]; most > 0 && max(p.Grid.Width, p.Grid.Height) > most {
		return mistakes(fmt.Errorf("output %s: the format %s holds at most %d x %d pixels, not %d x %d: take another one", o.name, o.spec.Format, most, most, p.Grid.Width, p.Grid.Height))
	}
	if o.foreign.driver.Name == "PCRaster" && o.typ == ndarray.Uint8 { // it takes bytes for Boolean
		return mistakes(fmt.Errorf("output %s: GDAL makes 0 and 1 of pixels of uint8 in files of the format PCRaster: ask for int32 (--type)", o.name))
	}
	folder, err := makeRunFolder(os.TempDir())
	if err != nil {
		return fmt.Errorf("output %s: trying the format %s: no temporary folder can be made, set TMPDIR to a folder that can be written to: %w", o.name, o.spec.Format, err)
	}
	defer func() { _ = folder.remove() }() // what stays is swept by the next one
	dir := filepath.Join(folder.path, "trial")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("output %s: trying the format %s: %w", o.name, o.spec.Format, err)
	}
	path := filepath.Join(dir, filepath.Base(o.spec.identity()))
	hidden := path
	wrong := func(err error) error {
		err = inPlaceOf(inPlaceOf(err, hidden, o.spec.label()), path, o.spec.label())
		err = fmt.Errorf("output %s: %w", o.name, err)
		if errors.As(err, new(*noRoomError)) {
			return err
		}
		return mistakes(err)
	}
	s, px := o.sample(p, trySide)
	w, err := o.writeSample(ctx, path, s, px)
	if whole := max(p.Grid.Width, p.Grid.Height); err != nil && ctx.Err() == nil && whole > trySide && int64(p.Grid.Width)*int64(p.Grid.Height)*int64(o.bands*o.typ.Size()) <= tryMost {
		// Some formats have tiles of one size only.
		s, px = o.sample(p, whole)
		w, err = o.writeSample(ctx, path, s, px)
	}
	if err != nil {
		return wrong(err)
	}
	defer w.Discard()
	fault.Point("apply.tried")
	hidden = w.Hidden()
	o.foreign.files, _, err = w.FileNames()
	if err != nil {
		return wrong(err)
	}
	if err := s.checkRoom(&o.foreign, w, dir, false); err != nil {
		return wrong(fmt.Errorf("%s: %w", o.spec.label(), err))
	}
	inexact, err := differs(ctx, w.Hidden(), o.spec.Format, px)
	if err != nil {
		return wrong(err)
	}
	if inexact {
		o.foreign.say(fmt.Sprintf("the format %s, with these options, changes pixels: statistics and histogram are those of the pixels before", o.spec.Format))
	}
	return nil
}

// writeSample writes the sample, without overviews where the format has none and none were asked for.
func (o *output) writeSample(ctx context.Context, path string, s *sheet, px *ndarray.Array) (*gdal.Writer, error) {
	feed := func(w *gdal.Writer) error { return w.WriteBlock(ctx, s.spec.Grid.Window(), px) }
	w, err := s.write(ctx, path, feed)
	if !errors.As(err, new(*overviewsError)) || errors.As(err, new(*noRoomError)) {
		return w, err
	}
	// Those of a larger raster can perhaps be made.
	if small := strings.Contains(err.Error(), "too small"); !small && o.spec.Overviews != nil {
		return nil, fmt.Errorf("overviews were asked for, and the format %s has none (%w): leave them out (--overviews none), or take another format", o.spec.Format, err)
	} else if !small {
		o.foreign.lose("overviews")
		o.foreign.factors = nil
	}
	s.factors = nil
	return s.write(ctx, path, feed)
}

// lose notes what the format does not keep.
func (f *foreign) lose(what string) {
	if !slices.Contains(f.lost, what) {
		f.lost = append(f.lost, what)
	}
}

func (f *foreign) say(text string) {
	if !slices.Contains(f.says, text) {
		f.says = append(f.says, text)
	}
}

// foreignNotes are sentences on what the output does not have because of its format.
func (o *output) foreignNotes() []string {
	f := &o.foreign
	notes := slices.Clone(f.says)
	if n := len(f.lost); n > 0 {
		text := f.lost[n-1]
		if n > 1 {
			text = strings.Join(f.lost[:n-1], ", ") + " and " + text
		}
		notes = append(notes, fmt.Sprintf("the format %s does not keep %s", o.spec.Format, text))
	}
	return notes
}

// trySide is the side of the raster that formats are tried with, and tryMost how many bytes one of the output's own size may have.
const (
	trySide = 64
	tryMost = 32 << 20
)

// sample is a raster of at most side pixels a side that has all that the output will have.
func (o *output) sample(p *Plan, side int) (*sheet, *ndarray.Array) {
	s := &sheet{spec: gdal.Spec{Driver: o.spec.Format, Options: o.formatOptions(), Grid: p.Grid, Bands: o.bands, Type: o.typ, Nodata: o.nodata, Metadata: o.spec.Metadata},
		method: gdalMethods[o.spec.OverviewMethod]}
	g := &s.spec.Grid
	g.Width, g.Height = min(g.Width, side), min(g.Height, side)
	if len(o.foreign.factors) > 0 {
		s.factors = []int{2}
	}
	for i := range o.bands {
		b, br := o.bandInfo(i), BandResult{}
		if !o.spec.NoStatistics && !o.typ.IsComplex() {
			br.Moments = stats.Moments{Total: 4, Valid: 3, Min: 1, Max: 3, Mean: 2, M2: 2}
			statisticsItems(b.Metadata, &br.Moments)
			if !o.spec.NoHistogram {
				br.Bins = stats.Bins{Min: 1, Max: 3, Direct: true, Counts: []uint64{1, 1, 1}}
				br.Median, br.Mode = 2, 1
				histogramItems(b.Metadata, &br)
			}
		}
		s.spec.BandInfo = append(s.spec.BandInfo, b)
		s.bands = append(s.bands, br)
	}
	return s, o.noise(g.Width, g.Height)
}

// noise are pixels of all kinds, which a format that does not keep all of them can't give back.
func (o *output) noise(width, height int) *ndarray.Array {
	a := ndarray.New(o.typ, o.bands, height, width)
	raw, r := a.Raw(), rand.New(rand.NewPCG(1, 2))
	size, parts := o.typ.Size(), 1
	part := o.typ
	if o.typ.IsComplex() {
		parts, size = 2, size/2
		if part = ndarray.Float32; o.typ == ndarray.Complex128 {
			part = ndarray.Float64
		}
	}
	lo, hi := -1e6, 1e6
	if part.IsInteger() {
		lo, hi = part.Limits()
	}
	if n := len(o.spec.Colors); n > 0 {
		lo, hi = 0, float64(n-1)
	}
	for i := range width * height * o.bands * parts {
		v := lo + r.Float64()*(hi-lo)
		if part.IsFloat() && i%2 == 0 { // of all magnitudes
			v = math.Ldexp(r.Float64()-0.5, r.IntN(40)-20)
		}
		sc, err := ndarray.ScalarFromFloat(nearest(v, part), part)
		if err != nil {
			continue // it stays 0
		}
		if o.nodata != nil && parts == 1 && i%7 == 0 {
			sc = *o.nodata
		}
		sc.Put(raw[i*size:])
	}
	return a
}

// nearest is v as a value of a type.
func nearest(v float64, t ndarray.DType) float64 {
	switch {
	case t.IsInteger():
		return math.Floor(v)
	case t == ndarray.Float32:
		return float64(float32(v))
	}
	return v
}

// differs reports whether the pixels of a file are others than those that were written to it.
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

// sameValues takes all NaN for one value.
func sameValues[T ndarray.Real](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return x == y || x != x && y != y })
}

// compare opens a file that was written and says what of the sheet it does not hold: by an error what its pixels would be misread without, to notes the
// rest. With exact statistics must be those of the sheet: some formats compute their own.
func (s *sheet) compare(notes *foreign, path string, exact bool) error {
	name := s.spec.Driver
	f, err := gdal.Open(path, &gdal.Options{Drivers: []string{gdal.ReadAs(name)}})
	var sub *gdal.SubdatasetsError
	if errors.As(err, &sub) {
		notes.say(fmt.Sprintf("the format %s makes a raster of its own of each band: leat info lists them", name))
		return nil
	}
	if err != nil {
		return fmt.Errorf("what GDAL has written can't be opened: %w", err)
	}
	defer f.Close()
	i := f.Info()
	s.made = i.Overviews
	remedy := func(what, instead string) error {
		return fmt.Errorf("the format %s does not keep %s: %s, or take another format", name, what, instead)
	}
	g := s.spec.Grid
	switch {
	case len(i.Bands) != s.spec.Bands:
		return fmt.Errorf("the format %s makes %s of %d: take another one", name, count(len(i.Bands), "band"), s.spec.Bands)
	case i.Grid.Width != g.Width || i.Grid.Height != g.Height:
		return fmt.Errorf("the format %s makes %d x %d pixels of %d x %d: take another one", name, i.Grid.Width, i.Grid.Height, g.Width, g.Height)
	}
	if g.HasTransform && (!i.Grid.HasTransform || !sameTransform(g.Transform, i.Grid.Transform, g)) {
		notes.lose("the coordinates")
	}
	switch {
	case g.CRS.IsZero():
	case i.Grid.CRS.IsZero():
		notes.lose("the coordinate reference system")
	case !gdal.SameCRS(g.CRS, i.Grid.CRS):
		notes.lose("the coordinate reference system as it was")
	}
	for k, v := range s.spec.Metadata {
		if !holds(i.Metadata, k, v) {
			notes.lose("metadata items")
		}
	}
	for n, b := range i.Bands {
		switch {
		case b.Type == s.spec.Type:
		case exact: // of the sample it was the same
			notes.say(fmt.Sprintf("the format %s has no type of pixels: these are read as %v", name, b.Type))
		default:
			return fmt.Errorf("the format %s makes pixels of %v of those of %v: ask for %v (--type), or take another format", name, b.Type, s.spec.Type, b.Type)
		}
		if s.spec.Nodata != nil && (b.Nodata == nil || b.Nodata.String() != s.spec.Nodata.String()) {
			return remedy("the nodata value "+s.spec.Nodata.String(), "take --nodata none where all pixels are valid")
		}
		if s.spec.BandInfo == nil {
			continue
		}
		want := &s.spec.BandInfo[n]
		if want.Colors != nil && !sameColors(want.Colors, b.Colors) {
			return remedy("the colour table", "leave it out (--color-table)")
		}
		if scale := want.Scale; scale != 0 && !near(scale, b.Scale) || !near(want.Offset, b.Offset) {
			return remedy("scale and offset", "leave them out (--scale, --offset)")
		}
		if b.Color == raster.ColorAlpha && want.Color != raster.ColorAlpha {
			notes.say(fmt.Sprintf("the format %s takes band %d for opacity (alpha): pixels are invalid where it is 0", name, n+1))
		}
		if want.Name != "" && b.Name != want.Name {
			notes.lose("names of bands")
		}
		if want.Unit != "" && b.Unit != want.Unit {
			notes.lose("the unit")
		}
		for _, k := range slices.Sorted(maps.Keys(want.Metadata)) {
			v := want.Metadata[k]
			switch {
			case holds(b.Metadata, k, v):
			case k == "LAYER_TYPE":
				notes.lose("that the pixels are classes")
			case !strings.HasPrefix(k, "STATISTICS_"):
				notes.lose("metadata items of bands")
			case k == "STATISTICS_MINIMUM" || k == "STATISTICS_MAXIMUM" || k == "STATISTICS_MEAN" || k == "STATISTICS_STDDEV":
				if !hasStatistics(b.Metadata[k], v, exact) {
					notes.lose("statistics")
				}
			case k == "STATISTICS_VALID_PERCENT" && b.Metadata[k] == "":
				notes.lose("the share of valid pixels")
			}
		}
		if want := gdalHistogram(&s.bands[n]); want != nil && s.bands[n].Moments.Valid > 0 {
			got, err := f.Histogram(n + 1)
			if err != nil {
				return err
			}
			if got == nil || exact && !slices.Equal(got.Counts, want.Counts) {
				notes.lose("histograms")
			}
		}
	}
	if len(s.factors) > 0 && len(i.Overviews) < len(s.factors) {
		notes.lose("overviews")
	}
	return nil
}

func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// sameTransform reports whether no corner lies elsewhere by a thousandth of a pixel.
func sameTransform(a, b raster.Transform, g raster.Grid) bool {
	for _, c := range [][2]float64{{0, 0}, {float64(g.Width), 0}, {0, float64(g.Height)}, {float64(g.Width), float64(g.Height)}} {
		for k := 0; k < 6; k += 3 {
			x := a[k] + c[0]*a[k+1] + c[1]*a[k+2]
			y := b[k] + c[0]*b[k+1] + c[1]*b[k+2]
			if math.Abs(x-y) > 1e-3*max(math.Abs(a[k+1]), math.Abs(a[k+2])) {
				return false
			}
		}
	}
	return true
}

// sameColors reports whether a table begins with the colours of another. Not all formats have room for transparency.
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

// holds reports whether items have one, perhaps under a name that netCDF makes of it.
func holds(items map[string]string, key, value string) bool {
	if v, ok := items[key]; ok {
		return v == value
	}
	return items["NC_GLOBAL#"+key] == value || items["NC_GLOBAL#GDAL_"+key] == value
}

// hasStatistics reports whether an item is there and, where it has to be exact, has the same number in it.
func hasStatistics(got, want string, exact bool) bool {
	var a, b float64
	if _, err := fmt.Sscan(got, &a); err != nil {
		return false
	}
	if _, err := fmt.Sscan(want, &b); err != nil {
		return true
	}
	return !exact || near(a, b) || math.Abs(a-b) < 1e-9
}
