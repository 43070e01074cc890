package gdal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"leat/ndarray"
	"leat/raster"
)

// VectorRequest says what of a vector source is burned onto a grid, and how.
type VectorRequest struct {
	Path string // as OGR calls the source: a file, a folder, a database, a URL
	// Layer is one by its name, or, where no layer is called so, by its number from 0. "" is the only layer of the source.
	Layer string
	SQL   string // a statement whose result is burned, instead of a layer
	Where string // only features for which this condition holds; not with SQL, which has its own

	// Attribute whose number each feature is burned with; "" burns Burn, 1 if nil.
	Attribute string
	Burn      *float64
	// Null is the pixel where no feature lies; 0 if nil.
	Null *float64
	// NoNodata leaves Null unmarked; else it is the nodata value of the result.
	NoNodata bool
	// Type of the pixels; default Uint8.
	Type ndarray.DType
	// AllTouched burns all pixels that a line or polygon touches, not only those whose centre it covers or that lie on the line.
	AllTouched bool

	OpenOptions []string
	Drivers     []string
}

// VectorKey is the same for two requests exactly when they burn the same: the path alone does not tell, as two attributes of one file
// are two requests. The state of the source is not in it.
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
	text := []any{r.Path, r.Layer, r.SQL, r.Where, r.Attribute, number(r.Burn), number(r.Null), r.NoNodata, r.Type, r.AllTouched, r.OpenOptions, r.Drivers}
	b, _ := json.Marshal(text) // texts, numbers and lists of texts can't fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// number is text that tells all numbers apart, NaN too.
func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// openVector is the flag of GDALOpenEx.
const openVector = 0x04

// Rasterize burns r onto g and writes the result to path, a tiled GeoTIFF that must not exist. It gives what gdal_rasterize
// gives; geometries of another system are brought to g's. Errors name layers and attributes that there are.
func Rasterize(ctx context.Context, r VectorRequest, g raster.Grid, path string) error {
	if err := r.validate(g); err != nil {
		return err
	}
	if err := load(); err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.Type == ndarray.NoType {
		r.Type = ndarray.Uint8
	}
	if gdalType(r.Type) == 0 {
		return fmt.Errorf("%s: GDAL %s has no pixels of type %v to burn into; use another type", r.Path, c.GDALVersionInfo("RELEASE_NAME"), r.Type)
	}
	var from hDataset
	err := try(r.Path, "open the vectors of", func() bool {
		from = c.GDALOpenEx(raster.GDALName(r.Path), openVector|openVerbose, cStrings(r.Drivers), cStrings(r.OpenOptions), nil)
		return from != 0
	})
	if err != nil {
		if from != 0 {
			closeDataset(from)
		}
		return err
	}
	defer closeDataset(from)
	args, err := r.args(from)
	if err != nil {
		return err
	}
	to, err := r.create(g, path)
	if err != nil {
		return err
	}
	err = r.burn(from, to, args)
	// Its pixels are written when it is closed.
	err = errors.Join(err, try(path, "write", func() bool { c.GDALClose(to); return true }))
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func (r *VectorRequest) validate(g raster.Grid) error {
	errs := []error{checkText(r.Path, "name", r.Path), checkText(r.Path, "layer", r.Layer), checkText(r.Path, "statement", r.SQL), checkText(r.Path, "condition", r.Where),
		checkText(r.Path, "attribute", r.Attribute), checkText(r.Path, "open option", r.OpenOptions...), checkText(r.Path, "driver", r.Drivers...)}
	bad := func(text string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+text, append([]any{r.Path}, args...)...))
	}
	if r.SQL != "" && (r.Layer != "" || r.Where != "") {
		bad("an SQL statement says by itself which layer and features are meant; leave the layer and the condition out")
	}
	if r.Attribute != "" && r.Burn != nil {
		bad("both an attribute (%s) and a value to burn; give one of them", r.Attribute)
	}
	if g.Width < 1 || g.Height < 1 || !g.HasTransform {
		bad("a grid of %d x %d pixels that must be georeferenced is no place to burn vectors", g.Width, g.Height)
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
				bad("the %s %s is none of type %v; choose another type", what, number(v), typ)
			}
		}
	}
	return errors.Join(errs...)
}

// layers lists the names of the layers.
func layers(from hDataset) (names []string) {
	onThread(func() {
		for i := range c.GDALDatasetGetLayerCount(from) {
			names = append(names, c.OGR_L_GetName(c.GDALDatasetGetLayer(from, i)))
		}
	})
	return names
}

// attributes lists the names of a layer's attributes.
func attributes(l hLayer) (names []string) {
	d := c.OGR_L_GetLayerDefn(l)
	for i := range c.OGR_FD_GetFieldCount(d) {
		names = append(names, c.OGR_Fld_GetNameRef(c.OGR_FD_GetFieldDefn(d, i)))
	}
	return names
}

// layer finds the name of the layer that is meant.
func (r *VectorRequest) layer(from hDataset) (string, error) {
	names := layers(from)
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%s: it has no layer of vectors; if it is a raster, make it an input of its own (%w)", r.Path, raster.ErrFormat)
	case r.Layer == "" && len(names) == 1:
		return names[0], nil
	case r.Layer == "":
		return "", fmt.Errorf("%s: it has %d layers; name one of them: %s", r.Path, len(names), list(names))
	case slices.Contains(names, r.Layer):
		return r.Layer, nil
	}
	if n, err := strconv.Atoi(r.Layer); err == nil && n >= 0 && n < len(names) {
		return names[n], nil
	}
	return "", fmt.Errorf("%s: there is no layer %s; it has %s", r.Path, r.Layer, list(names))
}

// list joins names for an error, the first of many.
func list(names []string) string {
	const most = 30
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// args are the arguments of gdal_rasterize that say the same.
func (r *VectorRequest) args(from hDataset) ([]string, error) {
	var args []string
	var names []string
	if r.SQL != "" {
		err := try(r.Path, "run the statement "+strconv.Quote(r.SQL)+" on", func() bool {
			l := c.GDALDatasetExecuteSQL(from, r.SQL, nil, nil)
			if l == 0 {
				return false
			}
			names = attributes(l)
			c.GDALDatasetReleaseResultSet(from, l)
			return true
		})
		if err != nil {
			return nil, err
		}
		args = append(args, "-sql", r.SQL)
	} else {
		name, err := r.layer(from)
		if err != nil {
			return nil, err
		}
		err = try(r.Path, "open the layer "+name+" of", func() bool {
			l := c.GDALDatasetGetLayerByName(from, name)
			if l != 0 {
				names = attributes(l)
			}
			return l != 0
		})
		if err != nil {
			return nil, err
		}
		args = append(args, "-l", name)
	}
	if r.Where != "" {
		args = append(args, "-where", r.Where)
	}
	if r.AllTouched {
		args = append(args, "-at")
	}
	if r.Attribute == "" {
		burn := 1.0
		if r.Burn != nil {
			burn = *r.Burn
		}
		return append(args, "-burn", number(&burn)), nil
	}
	if !slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, r.Attribute) }) {
		return nil, fmt.Errorf("%s: there is no attribute %s; there are %s", r.Path, r.Attribute, list(names))
	}
	return append(args, "-a", r.Attribute), nil
}

// create makes the raster to burn into, filled with Null.
func (r *VectorRequest) create(g raster.Grid, path string) (to hDataset, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("%s: it exists already", path)
	}
	options := []string{"TILED=YES", "BLOCKXSIZE=512", "BLOCKYSIZE=512", "COMPRESS=DEFLATE", "ZLEVEL=1", "BIGTIFF=IF_SAFER"}
	if r.Type == ndarray.Int8 && version < since37 {
		options = append(options, "PIXELTYPE=SIGNEDBYTE")
	}
	null := 0.0
	if r.Null != nil {
		null = *r.Null
	}
	err = try(path, "create", func() bool {
		to = c.GDALCreate(c.GDALGetDriverByName("GTiff"), path, int32(g.Width), int32(g.Height), 1, gdalType(r.Type), cStrings(options))
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

func (r *VectorRequest) burn(from, to hDataset, args []string) error {
	var options hBurning
	err := try(r.Path, "burn", func() bool {
		options = c.GDALRasterizeOptionsNew(cStrings(args), nil)
		return options != 0
	})
	if err != nil {
		return err
	}
	defer onThread(func() { c.GDALRasterizeOptionsFree(options) })
	var fault int32
	return tryWarp(r.Path, "burn", func() bool { return c.GDALRasterize(nil, to, from, options, &fault) == to })
}
