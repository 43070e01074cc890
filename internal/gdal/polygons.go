package gdal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"leat/ndarray"
	"leat/raster"
)

// Polygons describes a file of the polygons around connected pixels of equal value: a feature for
// each, with the value as an integer. [Polygons.Raster] makes the raster of the pixels, and
// [Writer.Polygonize] the polygons.
type Polygons struct {
	Driver string // FormatGeoPackage or FormatGeoJSON
	// Sieve is the smallest number of pixels of a polygon. Smaller groups of pixels get the value
	// of their largest neighbour, or become invalid if that is smaller too.
	Sieve int
	// Diagonals connects pixels that touch at a corner.
	Diagonals bool
	// MemoryBytes is what groups of pixels and outlines may take; 0 is unlimited. If they need
	// more, Writer.Polygonize returns a PolygonMemoryError before GDAL starts.
	MemoryBytes int64
}

// PolygonNodata is the value of invalid pixels in the raster of polygons. GDAL uses it internally,
// so no valid pixel may have it.
const PolygonNodata int32 = -51502112

// polygonType is OGR's number of polygons.
const polygonType = 3

func (o *Polygons) file() *FeatureFile {
	return &FeatureFile{Driver: o.Driver, Layer: "polygons", Columns: []FeatureColumn{{"value", FeatureInteger}},
		Geometry: polygonType}
}

// Check returns the errors in a file of polygons on a grid that can be found without pixels. name
// is the file's name in errors. Check creates an empty file in memory.
func (o *Polygons) Check(name string, g raster.Grid) error {
	if err := load(); err != nil {
		return err
	}
	if _, err := DriverByName(o.Driver); err != nil {
		return err
	}
	path := fmt.Sprintf("/vsimem/leat-polygons-%d%s", serial.Add(1), o.file().ending())
	defer onThread(func() { c.VSIUnlink(path) })
	w, err := o.file().createEmpty(g.CRS, path, name)
	if err != nil {
		return err
	}
	return w.close()
}

// createEmpty creates a file with a layer in a CRS.
func (o *FeatureFile) createEmpty(crs raster.CRS, path, name string) (*featureWriter, error) {
	if crs.IsZero() && o.Driver == FormatGeoJSON {
		return nil, unplacedError(name)
	}
	w := &featureWriter{file: o, path: path, name: name}
	var srsErr error
	err := w.try("create", func() bool {
		var s hSRS
		if s, srsErr = srsOf(crs); srsErr != nil {
			return false
		}
		if s != 0 {
			defer c.OSRDestroySpatialReference(s)
		}
		return w.createLayer(s, int32(o.Geometry))
	})
	if srsErr != nil {
		err = fmt.Errorf("%s: %w", name, srsErr)
	}
	if err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

// Raster creates the raster of int32 pixels, one band, whose polygons Writer.Polygonize makes. It
// is in a hidden directory next to path and is never published: the caller calls Discard.
func (o *Polygons) Raster(path string, g raster.Grid) (*Writer, error) {
	width := min(burnedTile, (g.Width+15)/16*16)
	// The features have the CRS, which GeoTIFF may not be able to express.
	g = raster.Grid{Width: g.Width, Height: g.Height, HasTransform: g.HasTransform, Transform: g.Transform}
	return Create(path, &Spec{Driver: "GTiff", Grid: g, Bands: 1, Type: ndarray.Int32,
		Nodata: new(ndarray.ScalarOf(PolygonNodata)), Options: []string{"TILED=YES", fmt.Sprint("BLOCKXSIZE=", width),
			fmt.Sprint("BLOCKYSIZE=", polygonTileHeight(g)), "COMPRESS=DEFLATE", "ZLEVEL=1", "BIGTIFF=IF_SAFER"}})
}

// tileRowBytes bounds a row of tiles of the raster of polygons. Each pass reads the raster by rows
// of pixels, so GDAL's cache must hold a row of tiles: otherwise GDAL decodes them again for each
// row of pixels. PolygonTileRowBytes returns the size for wider rasters.
const tileRowBytes = 4 << 20

// PolygonTileRowBytes returns the size of a row of tiles of the raster of polygons on a grid.
func PolygonTileRowBytes(g raster.Grid) int64 {
	return 4 * int64(polygonTileHeight(g)) * int64(g.Width)
}

// polygonTileHeight returns a power of two, so that tiles fit those of spools, of 16 or more.
func polygonTileHeight(g raster.Grid) int {
	h := burnedTile
	for h > 16 && (h/2 >= g.Height || 4*h*g.Width > tileRowBytes) {
		h /= 2
	}
	return h
}

// Polygonize writes the polygons of the raster to an empty file in the CRS crs; errors name the
// file name. It returns the number of polygons. After an error, which may be ctx's, only Discard is
// useful.
func (w *Writer) Polygonize(ctx context.Context, o *Polygons, crs raster.CRS, to *os.File, name string) (int64, error) {
	n, err := w.sieve(ctx, o)
	if err != nil {
		return 0, err
	}
	debug.FreeOSMemory() // GDAL allocates its own
	dir := filepath.Join(w.staged.scratch(), "polygons")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	file := o.file()
	features, err := file.createEmpty(crs, filepath.Join(dir, file.Layer+file.ending()), name)
	if err != nil {
		return 0, err
	}
	err = w.derive(ctx, "make polygons", features.try, func(p *progress) bool {
		var options []string
		if o.Diagonals {
			options = []string{"8CONNECTED=8"}
		}
		b := c.GDALGetRasterBand(w.h, 1)
		return c.GDALPolygonize(b, c.GDALGetMaskBand(b), features.layer, 0, cStrings(options), p.function, p.data) == 0
	})
	if err != nil {
		features.abandon()
		return 0, err
	}
	if err := features.close(); err != nil {
		return 0, err
	}
	return n, copyOnly(to, features.path)
}

// sieve gives groups of few pixels the value of their largest neighbour. Groups that GDAL keeps,
// since they have no valid neighbour or the largest one is small too, become invalid. sieve returns
// the number of groups that remain, and an error if their polygons would take too much memory.
func (w *Writer) sieve(ctx context.Context, o *Polygons) (int64, error) {
	meter := newOutlineMeter(w.spec.Grid.Width, o.Diagonals)
	measure := func(row []int32) (bool, error) { meter.add(row); return false, nil }
	if err := w.eachRow(ctx, measure); err != nil {
		return 0, err
	}
	meter.finish()
	if o.Sieve <= 1 {
		return meter.groups, o.checkMemory(meter, meter.peak)
	}
	if err := o.checkMemory(meter, 0); err != nil {
		return 0, err
	}
	connectedness := int32(4)
	if o.Diagonals {
		connectedness = 8
	}
	err := w.derive(ctx, "sieve", w.try, func(p *progress) bool {
		b := c.GDALGetRasterBand(w.h, 1)
		return c.GDALSieveFilter(b, c.GDALGetMaskBand(b), b, int32(o.Sieve), connectedness, nil,
			p.function, p.data) == 0
	})
	if err != nil {
		return 0, err
	}
	// The sieve joins parts of groups and makes no new ones.
	groups := newPixelGroups(w.spec.Grid.Width, o.Diagonals, meter.parts, int32(o.Sieve))
	if err := w.eachRow(ctx, func(row []int32) (bool, error) { groups.add(row); return false, nil }); err != nil {
		return 0, err
	}
	groups.finish()
	meter = newOutlineMeter(w.spec.Grid.Width, o.Diagonals)
	err = w.eachRow(ctx, func(row []int32) (bool, error) {
		changed := groups.drop(row)
		meter.add(row)
		return changed, nil
	})
	if err != nil {
		return 0, err
	}
	meter.finish()
	return meter.groups, o.checkMemory(meter, meter.peak)
}

// eachRow calls f with each row of the raster from the top, and writes the row if f has changed it.
func (w *Writer) eachRow(ctx context.Context, f func(row []int32) (changed bool, err error)) error {
	row := make([]int32, w.spec.Grid.Width)
	var failed error
	err := w.derive(ctx, "sieve", w.try, func(*progress) bool {
		var pin runtime.Pinner
		defer pin.Unpin()
		pin.Pin(&row[0])
		for y := range w.spec.Grid.Height {
			if failed = ctx.Err(); failed != nil || !w.rowIO(0, y, row) {
				return false
			}
			var changed bool
			if changed, failed = f(row); failed != nil || changed && !w.rowIO(1, y, row) {
				return false
			}
		}
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}

// rowIO reads a row, or writes it if write is 1. It must run within try.
func (w *Writer) rowIO(write int32, y int, row []int32) bool {
	width := int32(len(row))
	b := c.GDALGetRasterBand(w.h, 1)
	return c.GDALRasterIOEx(b, write, 0, int32(y), width, 1, unsafe.Pointer(&row[0]), width, 1,
		gdalType(ndarray.Int32), 4, 4*int64(width), nil) == 0
}

// polygonDrivers maps the endings of files of polygons to GDAL's names of their formats.
var polygonDrivers = map[string]string{".gpkg": FormatGeoPackage, ".geojson": FormatGeoJSON}

// PolygonDriver returns GDAL's name of the format of polygons that the ending of path stands for,
// or "" for another ending.
func PolygonDriver(path string) string { return polygonDrivers[strings.ToLower(filepath.Ext(path))] }
