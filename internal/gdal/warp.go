package gdal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"leat/internal/georef"
	"leat/ndarray"
	"leat/raster"
)

// WarpOptions configure [Warp].
type WarpOptions struct {
	// Grid is the reference. Its transform and CRS define the lattice of the result, which extends
	// beyond it. Its width and height only determine where the scales are measured.
	Grid raster.Grid
	// Method of resampling: near (the default), bilinear, cubic, cubicspline, lanczos, average,
	// mode, min, max, median (med), rms, q1, q3. GDAL's sum is not offered: at the edges of the
	// chunks that GDAL works in, it computes other sums.
	Method string
	// Nodata replaces the file's nodata values: one for all bands or one for each; "none" for no
	// nodata, "" for the file's own.
	Nodata []string
	// Overviews allows reading an overview instead of full resolution, as gdalwarp -ovr AUTO does.
	Overviews bool
	// OpenOptions and Drivers are as in [Options].
	OpenOptions []string
	Drivers     []string
	// Handles is as in [Options].
	Handles int
	// MaxBytes bounds the memory of each concurrent read, not counting the array to fill, unless a
	// single pixel needs more; default 64 MiB.
	MaxBytes int64
	// NoMask ignores the file's nodata, mask and alpha. Every pixel is valid, an alpha band is an
	// ordinary band, and the only mask is the area that the input covers. Drivers is ignored then.
	NoMask bool
}

// method is a resampling method.
type method struct {
	number int32 // GDALResampleAlg
	radius int   // filter radius in input pixels, without reduction
	area   bool  // it uses all pixels within a pixel's corners
	since  int   // first GDAL version that has it
}

var methods = map[string]method{
	"near": {0, 0, false, 0}, "nearest": {0, 0, false, 0}, "bilinear": {1, 1, false, 0}, "cubic": {2, 2, false, 0},
	"cubicspline": {3, 2, false, 0},
	"lanczos":     {4, 3, false, 0}, "average": {5, 0, true, 0}, "mode": {6, 0, true, 0}, "max": {8, 0, true, 0},
	"min": {9, 0, true, 0},
	"med": {10, 0, true, 0}, "median": {10, 0, true, 0}, "q1": {11, 0, true, 0}, "q3": {12, 0, true, 0},
	"rms": {14, 0, true, 3_03_00_00},
}

// Methods lists the names of the resampling methods.
func Methods() []string {
	return []string{"near", "bilinear", "cubic", "cubicspline", "lanczos", "average", "rms", "mode", "min", "max",
		"median", "q1", "q3"}
}

// CheckMethod returns an error unless name is a method that the loaded GDAL has. "" means near.
func CheckMethod(name string) error {
	m, ok := methods[strings.ToLower(name)]
	if strings.EqualFold(name, "sum") {
		return errors.New("the resampling method sum is not offered: GDAL's sums depend on its chunks; use average, and multiply it by the number of input pixels that a pixel of the grid covers")
	}
	if !ok && name != "" {
		return fmt.Errorf("unknown resampling method %q; there are %s", name, strings.Join(Methods(), ", "))
	}
	if err := load(); err != nil {
		return err
	}
	if version < m.since {
		return fmt.Errorf("the resampling method %s needs GDAL %d.%d or later, this is %s; use another method, such as average", name, m.since/1_000_000, m.since/10_000%100, c.GDALVersionInfo("RELEASE_NAME"))
	}
	return nil
}

const defaultWarpBytes = 64 << 20

// Warped is a raster on the lattice of another grid: a raster.Source that computes its pixels when
// they are read, and a raster.Masker if Info().Mask is raster.MaskDataset. Info().Grid is the
// smallest window of the lattice with all pixels that the input yields.
//
// Pixels are exactly those of gdalwarp -et 0 for the whole raster at once, with XSCALE and YSCALE
// of [Warped.Scales], whatever windows are read. The reference's own transform is used, so that
// pixels don't differ by rounding. There is one exception: with average, mode, min and similar
// methods, GDAL yields a rim of pixels outside the input. Info().Grid excludes whole columns and
// rows of this rim, so that tiles with edges between pixels don't overlap. If GDAL would silently
// change pixels, such as 64-bit integers beyond 2^53, a read whose window is near them returns an
// error. Transformation and filter use the whole input, so that pixels at the edge of a window are
// the same as in its middle.
//
// A pixel is invalid by nodata if the input has it, which no valid pixel equals (GDAL changes a
// valid result that equals nodata by the smallest step); by alpha if the input's last band is
// alpha; else by a mask, of the area that the input covers and of its own mask, if any. A file's
// nodata and mask both apply, as in gdalwarp -wo UNIFIED_SRC_NODATA=NO with several bands. By
// default gdalwarp ignores the mask in each of its chunks that has a nodata pixel.
type Warped struct {
	info    raster.Info
	src     *File
	method  method
	grid    raster.Grid // the reference
	origin  [2]int      // lattice column and row of the first pixel of Info().Grid
	shift   [2]int      // added to lattice columns and rows for GDAL's
	crs     string      // the reference's, as text for GDAL; "" if neither raster names one
	xs, ys  float64
	nodata  []*ndarray.Scalar // of the input's bands
	losses  []loss            // likewise
	alpha   int               // the input's last band if it is alpha; else 0
	masked  bool              // the input has a mask for all bands
	size    raster.Size       // of the input
	memory  int64
	address uintptr // of GDALGenImgProjTransform

	mu     sync.Mutex
	lenses map[hDataset]*transformer
}

var (
	_ raster.Source = (*Warped)(nil)
	_ raster.Masker = (*Warped)(nil)
)

// Warp opens the raster at path and warps it to the lattice of o.Grid. Errors are those of [Open],
// and those of an input that can't be transformed to the reference's CRS.
func Warp(path string, o *WarpOptions) (*Warped, error) {
	if err := o.validate(path); err != nil {
		return nil, err
	}
	open := &Options{OpenOptions: o.OpenOptions, Drivers: o.Drivers, Handles: o.Handles}
	src, err := openInput(path, open, o)
	if err != nil {
		return nil, err
	}
	w, err := newWarped(src, o)
	if err == nil && o.Overviews {
		var level int
		if level, err = w.level(); err == nil && level >= 0 {
			err = w.Close()
			open.OpenOptions = append(slices.Clone(o.OpenOptions), "OVERVIEW_LEVEL="+strconv.Itoa(level))
			if err == nil {
				src, err = openInput(path, open, o)
			}
			if err == nil {
				w, err = newWarped(src, o)
			}
		}
	}
	return w, err
}

// openInput opens the raster to warp.
func openInput(path string, open *Options, o *WarpOptions) (*File, error) {
	src, err := Open(path, open)
	if err != nil || !o.NoMask || src.info.Mask == raster.MaskNone && src.info.AlphaBand() == 0 {
		return src, err
	}
	bare, err := src.withoutMask()
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return bare, nil
}

func (o *WarpOptions) validate(path string) error {
	if o == nil {
		return fmt.Errorf("%s: the grid to warp it to is missing", path)
	}
	var errs []error
	if err := CheckMethod(o.Method); err != nil {
		errs = append(errs, err)
	}
	if !o.Grid.HasTransform {
		errs = append(errs, errors.New("the reference grid is not georeferenced, so nothing can be warped to it; give another one"))
	} else if t := o.Grid.Transform; float64(t[1]*t[5]) == float64(t[2]*t[4]) || slices.ContainsFunc(t[:],
		func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		errs = append(errs, fmt.Errorf("the reference grid's transform %v can't be inverted", t))
	}
	if o.MaxBytes < 0 || o.Handles < 0 {
		errs = append(errs, fmt.Errorf("%d bytes and %d handles: expected numbers above 0, or 0 for the defaults",
			o.MaxBytes, o.Handles))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("warping %s: %w", path, err)
	}
	return nil
}

// newWarped takes ownership of src, even when it fails.
func newWarped(src *File, o *WarpOptions) (*Warped, error) {
	w := &Warped{src: src, grid: o.Grid, method: methods[strings.ToLower(o.Method)],
		lenses: map[hDataset]*transformer{}, memory: o.MaxBytes}
	if w.memory == 0 {
		w.memory = defaultWarpBytes
	}
	w.size = raster.Size{Width: src.info.Grid.Width, Height: src.info.Grid.Height}
	err := w.computeFootprint(o)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// computeFootprint computes all values that do not change afterwards.
func (w *Warped) computeFootprint(o *WarpOptions) error {
	in := &w.src.info
	if err := w.references(); err != nil {
		return fmt.Errorf("%s: %w", in.Path, err)
	}
	if err := w.validity(o); err != nil {
		return fmt.Errorf("%s: %w", in.Path, err)
	}
	for i, b := range in.Bands {
		if gdalType(b.Type) == 0 || b.Type == ndarray.Int8 && version < since37 && w.method.number != 0 {
			return fmt.Errorf("%s: GDAL %s can't resample the %v pixels of band %d; use a later version, or the method near (%w)", in.Path, c.GDALVersionInfo("RELEASE_NAME"), b.Type, i+1, raster.ErrUnsupported)
		}
		w.losses = append(w.losses, lossOf(w.method, b.Type))
	}
	h, err := w.src.acquire(context.Background())
	if err != nil {
		return err
	}
	defer w.src.release(h)
	l, err := w.transformer(h)
	if err != nil {
		return err
	}
	at, err := footprint(l, w.size, w.method.area, o.Grid.Window(), period(o.Grid.Transform))
	if errors.Is(err, errNoImage) || errors.Is(err, errTooDistant) {
		return fmt.Errorf("%s: it can't be warped to the reference grid (%v): %w", in.Path, o.Grid.CRS, err)
	}
	if err != nil {
		return err
	}
	// The intersection: a transformation may be distorted outside it.
	common := at.Intersect(o.Grid.Window())
	if common.Empty() {
		common = at
	}
	if w.xs, w.ys, err = scales(l, common, w.size); err != nil {
		return err
	}
	if w.method.area {
		if w.xs, err = areaScale(w.xs, w.size.Width); err != nil {
			return fmt.Errorf("%s: %w", in.Path, err)
		}
	}
	w.describe(at)
	return nil
}

// period returns the distances after which the columns of a grid may repeat: 360 degrees of
// longitude or, in cylindrical projections such as Mercator's, the equator of WGS 84.
func period(t raster.Transform) []float64 {
	if georef.Rotated(t) {
		return nil
	}
	const equator = 2 * math.Pi * 6378137
	return []float64{360 / math.Abs(t[1]), equator / math.Abs(t[1])}
}

// references checks the CRSs of both grids, and finds GDAL's text for the reference's.
func (w *Warped) references() error {
	var err error
	if w.address, err = transformerAddress(); err != nil {
		return err
	}
	in := w.src.info.Grid
	if in.HasTransform && in.CRS.IsZero() != w.grid.CRS.IsZero() {
		if in.CRS.IsZero() {
			return fmt.Errorf("the input names no coordinate reference system and the reference grid does (%v), so it can't be warped; write one into it, with: gdal_edit.py -a_srs EPSG:... %s", w.grid.CRS, w.src.info.Path)
		}
		return fmt.Errorf("the reference grid names no coordinate reference system and the input does (%v), so it can't be warped; use another reference, or write one into its file (gdal_edit.py -a_srs EPSG:...)", in.CRS)
	}
	if !w.grid.CRS.IsZero() {
		w.crs, err = referenceText(w.grid.CRS)
	}
	return err
}

// validity determines nodata, alpha and mask.
func (w *Warped) validity(o *WarpOptions) error {
	in, override := &w.src.info, o.Nodata
	if o.NoMask {
		w.nodata = make([]*ndarray.Scalar, len(in.Bands))
		return nil
	}
	if n := len(override); n > 1 && n != len(in.Bands) {
		return fmt.Errorf("%d nodata values for %d bands: give one, or one for each", n, len(in.Bands))
	}
	for i, b := range in.Bands {
		nodata := b.Nodata
		if len(override) > 0 {
			switch text := override[min(i, len(override)-1)]; text {
			case "":
			case "none":
				nodata = nil
			default:
				v, err := ndarray.ParseScalar(text, b.Type)
				if err != nil {
					return fmt.Errorf("nodata %s is not a value of type %v; use another, or none", text, b.Type)
				}
				nodata = &v
			}
		}
		w.nodata = append(w.nodata, nodata)
	}
	switch last := len(in.Bands); {
	case last > 1 && in.Bands[last-1].Color == raster.ColorAlpha: // as in gdalwarp
		w.alpha = last
	case in.Mask == raster.MaskDataset:
		if len(w.src.masks) != 1 {
			return fmt.Errorf("its bands have separate masks, which GDAL does not warp; write them as nodata first, or extract one band (%w)", raster.ErrUnsupported)
		}
		w.masked = true
	}
	return nil
}

// describe fills in info for the window at of the lattice.
func (w *Warped) describe(at raster.Window) {
	w.origin = [2]int{at.Col, at.Row}
	w.info = w.src.info
	i := &w.info
	i.Grid = w.grid.Sub(at)
	i.Overviews, i.Interleave, i.Predictor = nil, "band", 1
	i.TileWidth, i.TileHeight = min(512, at.Width), min(512, at.Height)
	i.Mask, i.MaskTile = raster.MaskNone, raster.Size{}
	i.Bands = slices.Clone(i.Bands)
	uncovered := false // some band has no nodata for pixels without input
	for n := range i.Bands {
		b := &i.Bands[n]
		b.Nodata, b.NodataText = w.nodata[n], ""
		if w.alpha > 0 {
			b.Nodata = nil
		}
		if b.Nodata != nil {
			b.NodataText = b.Nodata.String()
		} else {
			uncovered = true
		}
		if b.Color == raster.ColorAlpha && n+1 != w.alpha {
			b.Color = raster.ColorUndefined // GDAL does not warp it as alpha
		}
		b.Metadata = nil // its statistics are of other pixels
	}
	switch {
	case w.alpha > 0:
		i.Mask = raster.MaskAlpha
		// GDAL has no alpha band outside its raster, so alphaBand creates one, whose columns and
		// rows start at 0.
		w.shift = [2]int{max(0, -at.Col), max(0, -at.Row)}
	case uncovered:
		i.Mask, i.MaskTile = raster.MaskDataset, raster.Size{Width: i.TileWidth, Height: i.TileHeight}
	}
	if w.shift != [2]int{} {
		w.dropTransformers()
	}
}

// FileNames returns the files of the input, as [File.FileNames] does.
func (w *Warped) FileNames() ([]string, error) { return w.src.FileNames() }

// Info describes the warped raster.
func (w *Warped) Info() *raster.Info { return &w.info }

// Scales returns GDAL's warp options XSCALE and YSCALE: lattice pixels for one input pixel along
// the input's columns and rows.
func (w *Warped) Scales() (x, y float64) { return w.xs, w.ys }

// Offset returns the column and row of the reference grid where Info().Grid begins.
func (w *Warped) Offset() (col, row int) { return w.origin[0], w.origin[1] }

// level returns the overview that -ovr AUTO would use, the smallest that still has the lattice's
// resolution; -1 for none.
func (w *Warped) level() (int, error) {
	target := 1 / math.Max(w.xs, w.ys)
	best, width := -1, w.size.Width
	for i, s := range w.src.info.Overviews {
		if ratio := float64(w.size.Width) / float64(s.Width); ratio < target+0.1 && s.Width < width {
			best, width = w.src.levels[i], s.Width
		}
	}
	return best, nil
}

// Close closes the input.
func (w *Warped) Close() error {
	w.dropTransformers()
	return w.src.Close()
}
