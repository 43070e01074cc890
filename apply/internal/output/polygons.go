package output

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/stats"
	"leat/internal/tempfile"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
)

// polygons is the format of the polygons around connected pixels of equal value. The spool holds
// the pixels. When all are there, GDAL makes the polygons of them.
type polygons struct {
	found   bool // false in worker processes
	checked bool
}

// polygonSidecars are suffixes of files next to an older GeoPackage, which SQLite would apply to
// the new one.
var polygonSidecars = []string{"-journal", "-wal", "-shm"}

func (*polygons) complete(o *Output) []error {
	s := &o.Spec
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", o.Name, jobspec.Errorf("Output."+field, format, args...)))
	}
	switch {
	case s.Path == "":
		bad("Path", "no file is given")
	case gdal.PolygonDriver(s.Path) == "":
		bad("Path", "%s: polygons are written as .gpkg or .geojson, expected a name with one of these endings", s.Label())
	}
	if s.Sieve < 0 || s.Sieve > math.MaxInt32 {
		bad("Sieve", "a sieve of %d pixels: expected 1 to %d", s.Sieve, math.MaxInt32)
	}
	for _, f := range []struct {
		what, field string
		set         bool
	}{
		{"overviews", "COG", s.COG}, {"overviews", "Overviews", s.Overviews != nil},
		{"a format", "Format", s.Format != ""}, {"creation options", "Options", len(s.Options) > 0},
		{"a compression", "Compression", s.Compression != ""}, {"a predictor", "Predictor", s.Predictor != 0},
		{"a level", "Level", s.Level != 0}, {"tiles", "TileSize", s.TileSize != 0},
		{"an interleave", "PixelInterleave", s.PixelInterleave}, {"BigTIFF", "BigTIFF", s.BigTIFF},
		{"a histogram", "HistAux", s.HistAux}, {"names of bands", "LayerNames", s.LayerNames != nil},
		{"a layer type", "Thematic", s.Thematic}, {"a colour table", "Colors", s.Colors != nil},
		{"names of values", "Categories", s.Categories != nil},
		{"a colour interpretation", "ColorInterp", s.ColorInterp != nil}, {"a unit", "Unit", s.Unit != ""},
		{"metadata", "Metadata", len(s.Metadata) > 0}, {"a scale", "Scale", s.Scale != 0},
		{"an offset", "Offset", s.Offset != 0}, {"bands", "BeforeClose", s.BeforeClose != nil},
	} {
		if f.set {
			bad(f.field, "polygons have no %s, which rasters have", strings.TrimPrefix(strings.TrimPrefix(f.what, "a "), "an "))
		}
	}
	s.COG, s.Overviews = false, nil // these errors are reported once
	return errs
}

func (f *polygons) find(o *Output) error {
	if err := gdal.Available(); err != nil {
		return &absentError{fmt.Errorf("output %s: polygons are made by GDAL: %w", o.Name, err)}
	}
	f.found = true
	return nil
}

func (*polygons) takeOverviews(*Output, []int) []int { return nil }

func (*polygons) laterFactors() []int { return nil }

// candidates returns a fast coding, of types whose values GDAL distinguishes.
func (*polygons) candidates(o *Output, t ndarray.DType) ([]tiffwrite.Coding, error) {
	if !t.IsInteger() || t.Size() > 4 || t == ndarray.Uint32 {
		return nil, jobspec.Errorf("Output.Polygons",
			"polygons of pixels of %v, expected whole numbers that int32 holds: uint8, int8, uint16, int16 or int32", t)
	}
	if o.Bands > 1 {
		return nil, jobspec.Errorf("Output.Bands", "polygons of %d bands, expected one", o.Bands)
	}
	return (*gdalFormat)(nil).candidates(o, t)
}

func (*polygons) codingText(o *Output) string {
	return gdal.PolygonDriver(o.Spec.Path) + " through GDAL"
}

// sample returns an error for a grid whose polygons the format can't hold.
func (f *polygons) sample(_ context.Context, o *Output, grid raster.Grid) error {
	if !f.found || f.checked {
		return nil
	}
	f.checked = true
	if !grid.HasTransform && (grid.GCPs != nil || grid.RPC != nil) {
		return jobspec.JobErrors(jobspec.Errorf("Output.Path",
			"output %s: the grid has ground control points or RPCs and no transform, so polygons have no place", o.Name))
	}
	if err := o.polygons().Check(o.Spec.Label(), grid); err != nil {
		return jobspec.JobErrors(jobspec.Errorf("Output.Path", "output %s: %w", o.Name, err))
	}
	return nil
}

// polygons returns what GDAL makes.
func (o *Output) polygons() *gdal.Polygons {
	return &gdal.Polygons{Driver: gdal.PolygonDriver(o.Spec.Path), Sieve: o.Spec.Sieve, Diagonals: o.Spec.Diagonals}
}

func (*polygons) files() []string { return nil }

func (*polygons) notes() []outcome.Note { return nil }

// grid returns an empty one: the file's place is that of its features.
func (*polygons) grid(raster.Grid) raster.Grid { return raster.Grid{} }

func (*polygons) bins(_ *Output, b stats.Bins) stats.Bins { return b }

func (*polygons) holdsColors(*Output) bool { return false }

// memory leaves out what groups of pixels and outlines take, which depends on the pixels. layOut
// checks that they fit in the rest of the budget.
func (*polygons) memory(o *Output, grid raster.Grid, budget int64) memory {
	return memory{bytes: BaseBytes + libraryBytes + polygonCache(budget, grid) + 2*formatWindow(budget),
		most: BaseBytes + libraryBytes + 3*4*int64(grid.Width)*int64(grid.Height)}
}

// polygonCache returns the size of GDAL's cache. It holds two rows of tiles of the raster of
// polygons, even if the raster is wide: each pass goes through the rows of pixels.
func polygonCache(budget int64, grid raster.Grid) int64 {
	return max(formatCache(budget), 2*gdal.PolygonTileRowBytes(grid))
}

// groupBytes returns the part of a budget that remains for groups of pixels and outlines. A small
// budget leaves some for small rasters.
func groupBytes(budget int64, grid raster.Grid) int64 {
	return max(16<<20, budget-BaseBytes-libraryBytes-polygonCache(budget, grid))
}

// budgetForGroups returns a budget, in whole MiB, that leaves so many bytes for groups.
func budgetForGroups(bytes int64, grid raster.Grid) int64 {
	// A third of the budget is for the cache, within limits.
	cache := max(8<<20, min(256<<20, bytes/2), 2*gdal.PolygonTileRowBytes(grid))
	return (BaseBytes + libraryBytes + bytes + cache + 1<<20 - 1) >> 20 << 20
}

func (f *polygons) layOut(ctx context.Context, w *Writer) (_ Finished, err error) {
	defer w.timings.Start("making polygons", "main", -1).Stop()
	debug.FreeOSMemory() // the memory of blocks: GDAL allocates its own, which Go's runtime does not see
	if _, err := w.Spool.Finish(ctx, w.workers); err != nil {
		return nil, err
	}
	if os.Getenv("GDAL_CACHEMAX") == "" {
		if err := gdal.SetCacheBytes(polygonCache(w.budgetBytes, w.grid)); err != nil {
			return nil, err
		}
	}
	path := w.Spec.StagingPath()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if err != nil {
			err = fmt.Errorf("output %s: %w", w.Name, f.layOutError(w, path, err))
		}
	}()
	pixels, err := w.polygons().Raster(path, w.grid)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pixels.Discard()) }()
	if err := w.feed(ctx, &labelWriter{file: pixels, nodata: w.Nodata}); err != nil {
		return nil, err
	}
	done := &finishedTable{w: w, sidecars: polygonSidecars, res: outcome.OutputResult{Name: w.Name,
		Path: w.Spec.Label(), Type: w.Type, Nodata: w.Nodata, Format: gdal.PolygonDriver(w.Spec.Path),
		Coding: f.codingText(&w.Output)}}
	if done.file, err = tempfile.Create(w.Spec.localPath(), 0o666); err != nil {
		return nil, err
	}
	spec := w.polygons()
	spec.MemoryBytes = groupBytes(w.budgetBytes, w.grid)
	n, err := pixels.Polygonize(ctx, spec, w.grid.CRS, done.file.File, w.Spec.Label())
	if err == nil {
		var st os.FileInfo
		if st, err = done.file.Stat(); err == nil {
			done.res.Bytes, done.res.Polygons = st.Size(), &n
			return done, nil
		}
	}
	return nil, errors.Join(err, done.file.Abort())
}

// layOutError words an error of making polygons for users, who know the output by its label.
func (*polygons) layOutError(w *Writer, path string, err error) error {
	var memory *gdal.PolygonMemoryError
	if errors.As(err, &memory) {
		budget := budgetForGroups(memory.Bytes, w.grid)
		return &outcome.FieldError{Field: "Controls.MemoryBytes", Value: fmt.Sprintf("%dM", budget>>20), Err: err}
	}
	if errors.As(err, new(*gdal.Error)) {
		return inPlaceOf(diskFull(filepath.Dir(path), err), path+":", w.Spec.Label()+":")
	}
	if errors.As(err, new(*os.PathError)) || errors.As(err, new(*os.SyscallError)) ||
		errors.As(err, new(*os.LinkError)) {
		return spool.WriteError(w.Spec.Label(), w.Spec.localPath(), err)
	}
	return err
}

// labelWriter writes pixels as labels: int32, and the nodata value of polygons.
type labelWriter struct {
	file   *gdal.Writer
	nodata *ndarray.Scalar
	labels []int32
}

func (l *labelWriter) BlockSize() (width, height int) { return l.file.BlockSize() }

func (l *labelWriter) WriteBlock(ctx context.Context, win raster.Window, a *ndarray.Array) error {
	if cap(l.labels) < a.Len() {
		l.labels = make([]int32, a.Len())
	}
	labels := l.labels[:a.Len()]
	switch a.Type {
	case ndarray.Uint8:
		widen[uint8](labels, a, l.nodata)
	case ndarray.Int8:
		widen[int8](labels, a, l.nodata)
	case ndarray.Uint16:
		widen[uint16](labels, a, l.nodata)
	case ndarray.Int16:
		widen[int16](labels, a, l.nodata)
	case ndarray.Int32:
		if i := widen[int32](labels, a, l.nodata); i >= 0 {
			return fmt.Errorf("the pixel at column %d, row %d is %d, which GDAL uses for invalid pixels of polygons: expected another value",
				win.Col+i%win.Width, win.Row+i/win.Width, gdal.PolygonNodata)
		}
	}
	return l.file.WriteBlock(ctx, win, ndarray.FromSlice(labels, 1, win.Height, win.Width))
}

// widen makes labels of the pixels of a contiguous array. It returns the index of the first valid
// pixel with the value of invalid labels, or -1.
func widen[T uint8 | int8 | uint16 | int16 | int32](labels []int32, a *ndarray.Array, nodata *ndarray.Scalar) int {
	wrong := -1
	for i, v := range ndarray.Cast[T](a.Raw()) {
		labels[i] = int32(v)
		if labels[i] == gdal.PolygonNodata && wrong < 0 {
			wrong = i
		}
	}
	if nodata == nil {
		return wrong
	}
	invalid := int32(nodata.Float64())
	if invalid == gdal.PolygonNodata {
		return -1
	}
	for i, v := range labels {
		if v == invalid {
			labels[i] = gdal.PolygonNodata
		}
	}
	return wrong
}
