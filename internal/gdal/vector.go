package gdal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"leat/internal/driver"
	"leat/ndarray"
	"leat/raster"
)

// VectorRequest describes what is burned from a vector source onto a grid, and how.
type VectorRequest struct {
	Path string // the source's OGR name: a file, a directory, a database, a URL
	Name string // the name of the source in errors, where Path is a copy; "" is Path
	// Layer is a layer's name or, if no layer has that name, its number from 0. "" is the source's
	// only layer.
	Layer string
	SQL   string // a statement whose result is burned, instead of a layer
	Where string // only features that satisfy this condition; not with SQL, which has its own

	// Attribute holds the value that each feature is burned with; "" burns Burn, or 1 if it is nil.
	Attribute string
	Burn      *float64
	// Null is the value of pixels without a feature; nil means 0.
	Null *float64
	// NoNodata keeps Null from being the nodata value of the result.
	NoNodata bool
	// Type is the pixel type; default Uint8.
	Type ndarray.DType
	// AllTouched burns all pixels that a line or polygon touches, instead of those whose centre a
	// polygon covers or that lie on the line.
	AllTouched bool
	// Cutline requires polygons. Edges of another CRS than the grid's become curves on it, as in
	// gdalwarp; without Cutline only vertices are transformed, as in gdal_rasterize.
	Cutline bool
	// Exact makes it an error if Type can't hold a value of the attribute. gdal_rasterize clamps
	// such values, and rounds integers beyond 2^53.
	Exact bool

	OpenOptions []string
	Drivers     []string
}

func (r *VectorRequest) name() string { return cmp.Or(r.Name, r.Path) }

// try is [try] for calls about the source. It replaces the path in GDAL's message by the source's
// name.
func (r *VectorRequest) try(op string, f func() bool) error {
	err := try(r.name(), op, f)
	var e *Error
	if errors.As(err, &e) && r.Name != "" {
		e.Text = strings.TrimPrefix(strings.ReplaceAll(e.Text, r.Path, r.Name), r.Name+": ")
	}
	return err
}

// VectorKey returns equal texts for two requests if and only if they burn the same. The path alone
// does not identify a request, which may name an attribute. The key ignores the state of the
// source and Name.
func VectorKey(r VectorRequest) string {
	if r.Type == ndarray.NoType {
		r.Type = ndarray.Uint8
	}
	if r.Attribute != "" {
		r.Burn = nil
	} else if r.Burn == nil {
		r.Burn = new(float64(1))
	}
	if r.Null == nil {
		r.Null = new(float64)
	}
	text := []any{r.Path, r.Layer, r.SQL, r.Where, r.Attribute, number(r.Burn), number(r.Null), r.NoNodata, r.Type,
		r.AllTouched, r.Cutline, r.Exact, r.OpenOptions, r.Drivers}
	b, _ := json.Marshal(text) // strings and string lists can't fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// number returns a text that is unique for each number, NaN included.
func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// openVector is a flag of GDALOpenEx.
const openVector = 0x04

// Rasterize burns r onto g and writes the result to path, a tiled GeoTIFF that must not exist. The
// result is that of gdal_rasterize. Geometries of another CRS are transformed to g's; those that
// can't be are counted in n. A curve or a surface, which GDAL does not burn, is an error. Errors
// list the existing layers and attributes.
func Rasterize(ctx context.Context, r VectorRequest, g raster.Grid, path string) (n RasterizeResult, err error) {
	if err := r.validate(g); err != nil {
		return n, err
	}
	if err := load(); err != nil {
		return n, fmt.Errorf("%s: %w", r.name(), err)
	}
	if err := ctx.Err(); err != nil {
		return n, err
	}
	if r.Type == ndarray.NoType {
		r.Type = ndarray.Uint8
	}
	if gdalType(r.Type) == 0 {
		return n, r.noType()
	}
	from, err := r.open()
	if err != nil {
		return n, err
	}
	defer closeDataset(from)
	layer, err := r.findLayer(from)
	if err != nil {
		return n, err
	}
	if r.Exact && r.Attribute != "" {
		if err := r.checkValues(ctx, from, layer, 0); err != nil {
			return n, err
		}
	}
	follows := r.followsEdges(layer, g)
	if !follows {
		if n, err = r.scanFeatures(ctx, from, layer, g); err != nil {
			return n, err
		}
	}
	share := burningShare(g, r.Type, c.GDALGetCacheMax64())
	if err := burning.Acquire(ctx, share); err != nil {
		return n, err
	}
	defer burning.Release(share)
	to, err := r.create(g, path)
	if err != nil {
		return n, err
	}
	var optimize []string
	if int64(g.Width)*int64(g.Height)*int64(r.Type.Size()) > c.GDALGetCacheMax64()/smallShare {
		optimize = []string{"-optim", "RASTER"}
	}
	if follows {
		n, err = r.burnCutline(ctx, from, to, layer, g, optimize)
	} else {
		err = r.burn(ctx, from, to, append(r.args(layer), optimize...), n)
	}
	// Closing writes the pixels.
	err = errors.Join(err, try(path, "write", func() bool { c.GDALClose(to); return true }))
	if ctx.Err() != nil {
		err = ctx.Err() // takes precedence over GDAL's error about the cancelled call
	}
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return n, err
}

// smallShare is the inverse of the share of GDAL's cache up to which a raster is burned in the way
// that GDAL prefers: feature by feature, which touches few blocks. If the raster does not stay in
// the cache, which concurrent rasters share, blocks are decoded and encoded again for each feature:
// 20,000 lines on 8000 x 6000 pixels took two minutes, but three seconds strip by strip with all
// features in each.
const smallShare = 8

// burnedTile is the side of a burned raster's tiles.
const burnedTile = 512

// burning lets rasters be burned at the same time only if GDAL's cache holds them all. If it does
// not, a thread may write blocks of another thread's raster while that thread does so too: GDAL
// does not prevent it (issues 1488 and 2011), and pixels are lost or deflate fails.
var burning = semaphore.NewWeighted(allShares)

const allShares = 1 << 20

// burningShare returns what a raster takes of allShares, which are half of GDAL's cache: the other
// half is for what GDAL reads. A raster that needs more is burned alone.
func burningShare(g raster.Grid, t ndarray.DType, cache int64) int64 {
	tiles := func(n int) float64 { return math.Ceil(float64(n) / burnedTile) }
	bytes := tiles(g.Width) * tiles(g.Height) * burnedTile * burnedTile * float64(t.Size())
	return int64(min(math.Ceil(bytes/(float64(cache)/2)*allShares), allShares))
}

// open opens the source.
func (r *VectorRequest) open() (from hDataset, err error) {
	if err := load(); err != nil {
		return 0, fmt.Errorf("%s: %w", r.name(), err)
	}
	if err := checkKind(r.Path); err != nil {
		return 0, err
	}
	err = r.try("open its vectors", func() bool {
		from = c.GDALOpenEx(driver.GDALName(r.Path), openVector|openVerbose, cStrings(r.Drivers),
			cStrings(r.OpenOptions), nil)
		return from != 0
	})
	if err == nil {
		err = r.checkOpenOptions(from)
	}
	if err != nil && from != 0 {
		closeDataset(from)
	}
	if err != nil && absent(r.Path) {
		return 0, fmt.Errorf("%s: %w", r.name(), unix.ENOENT)
	}
	if err != nil && strings.Contains(err.Error(), "not recognized as") {
		return 0, fmt.Errorf("%w; if it is a raster, make it an input of its own", err)
	}
	return from, err
}

func (r *VectorRequest) validate(g raster.Grid) error {
	errs := []error{r.checkTexts()}
	bad := func(text string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+text, append([]any{r.name()}, args...)...))
	}
	if r.SQL != "" && (r.Layer != "" || r.Where != "") {
		bad("an SQL statement selects layer and features itself; leave out the layer and the condition")
	}
	if r.Attribute != "" && r.Burn != nil {
		bad("both an attribute (%s) and a value to burn; give one of them", r.Attribute)
	}
	if g.Width < 1 || g.Height < 1 || !g.HasTransform {
		bad("the grid (%d x %d pixels) has no georeference, so vectors can't be burned onto it: use one that has, or write one into its file first, with: gdal_edit.py -a_ullr ... -a_srs ...", g.Width, g.Height)
	}
	typ := cmp.Or(r.Type, ndarray.Uint8)
	if typ.IsComplex() || typ == ndarray.Float16 {
		bad("vectors can't be burned as %v; use an integer type, float32 or float64", typ)
	} else {
		for what, v := range map[string]*float64{"value to burn": r.Burn, "null value": r.Null} {
			if v == nil {
				continue
			}
			if _, err := ndarray.ScalarFromFloat(*v, typ); err != nil {
				bad("the %s %s is not a value of type %v; choose another type", what, number(v), typ)
			}
		}
	}
	return errors.Join(errs...)
}

// args returns the equivalent arguments of gdal_rasterize.
func (r *VectorRequest) args(layer *VectorLayer) []string {
	args := []string{"-l", layer.Name}
	if r.SQL != "" {
		args = []string{"-sql", r.SQL}
	}
	if r.Where != "" {
		args = append(args, "-where", r.Where)
	}
	if r.AllTouched {
		args = append(args, "-at")
	}
	if r.Attribute != "" {
		return append(args, "-a", r.Attribute)
	}
	burn := 1.0
	if r.Burn != nil {
		burn = *r.Burn
	}
	return append(args, "-burn", number(&burn))
}

// create creates the raster to burn into, filled with Null.
func (r *VectorRequest) create(g raster.Grid, path string) (to hDataset, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("%s: it exists already", path)
	}
	options := []string{"TILED=YES", "BLOCKXSIZE=" + strconv.Itoa(burnedTile), "BLOCKYSIZE=" + strconv.Itoa(burnedTile), "COMPRESS=DEFLATE", "ZLEVEL=1",
		"BIGTIFF=IF_SAFER"}
	if r.Type == ndarray.Int8 && version < since37 {
		options = append(options, "PIXELTYPE=SIGNEDBYTE")
	}
	null := 0.0
	if r.Null != nil {
		null = *r.Null
	}
	err = try(path, "create", func() bool {
		to = c.GDALCreate(c.GDALGetDriverByName("GTiff"), path, int32(g.Width), int32(g.Height), 1, gdalType(r.Type),
			cStrings(options))
		if to == 0 {
			return false
		}
		b := c.GDALGetRasterBand(to, 1)
		s, err := srsOf(g.CRS)
		if err != nil {
			return false
		}
		if s != 0 {
			defer c.OSRDestroySpatialReference(s)
			if c.GDALSetSpatialRef(to, s) != 0 {
				return false
			}
		}
		return c.GDALSetGeoTransform(to, &g.Transform[0]) == 0 &&
			(r.NoNodata || c.GDALSetRasterNoDataValue(b, null) == 0) &&
			(null == 0 || c.GDALFillRaster(b, null, 0) == 0)
	})
	if err != nil && to != 0 {
		closeDataset(to)
		err = errors.Join(err, os.Remove(path))
	}
	return to, err
}

func (r *VectorRequest) burn(ctx context.Context, from, to hDataset, args []string, n RasterizeResult) error {
	var options hBurning
	err := r.try("burn", func() bool {
		options = c.GDALRasterizeOptionsNew(cStrings(args), nil)
		return options != 0
	})
	if err != nil {
		return err
	}
	defer onThread(func() { c.GDALRasterizeOptionsFree(options) })
	p := newProgress(ctx)
	defer p.end()
	onThread(func() { c.GDALRasterizeOptionsSetProgress(options, p.function, p.data) })
	var fault int32
	return tryWarp(r.name(), "burn", func() bool {
		burned := c.GDALRasterize(nil, to, from, options, &fault) == to
		if burned && n.Unplaced > 0 && c.CPLGetLastErrorNo() == errorAppDefined {
			c.CPLErrorReset() // its messages about these
		}
		return burned
	})
}
