package gdal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/ndarray"
	"leat/raster"
)

// VectorLayer describes a layer of a vector source, or the result of a statement.
type VectorLayer struct {
	Name       string // "" of the result of a statement
	Geometry   string // "Point", "3D Line String", "Unknown (any)", ...
	CRS        raster.CRS
	Features   int64       // -1 where the source can't tell without reading all of them
	Extent     *[4]float64 // smallest x and y, largest x and y in the layer's system; nil where the source can't tell without reading many, or there are none
	Attributes []VectorAttribute
}

// VectorAttribute is an attribute of the features of a layer.
type VectorAttribute struct {
	Name   string
	Type   string        // as OGR calls it: "Integer", "Integer64", "Real", "String", "DateTime", ...
	Pixels ndarray.DType // that hold all of its values; NoType where it is no number
}

// VectorInfo is what a request means for its source.
type VectorInfo struct {
	VectorLayer
	// Type is the request's, or, where it names none, one that holds all values that will be burned: uint8, else int32, else float64 for a value to burn; for an
	// attribute int32 or int64 where it is an integer, else float64.
	Type  ndarray.DType
	Files []string // of which the source consists; none for a database or a service
	// Onto is Extent in the grid's system, with all that bends between; nil where it is not known, or has no place there.
	Onto *[4]float64
}

// VectorLayers describes the layers of a source. Errors are those of Open.
func VectorLayers(path string, o *Options) ([]VectorLayer, error) {
	if o == nil {
		o = &Options{}
	}
	r := VectorRequest{Path: path, OpenOptions: o.OpenOptions, Drivers: o.Drivers}
	if err := r.checkTexts(); err != nil {
		return nil, err
	}
	from, err := r.open()
	if err != nil {
		return nil, err
	}
	defer closeDataset(from)
	var list []VectorLayer
	onThread(func() {
		for i := range c.GDALDatasetGetLayerCount(from) {
			list = append(list, describeLayer(c.GDALDatasetGetLayer(from, i)))
		}
	})
	if len(list) == 0 {
		return nil, r.noLayer()
	}
	return list, nil
}

// HoldsVectors reports whether GDAL knows path as a source of geometries.
func HoldsVectors(path string) bool {
	r := VectorRequest{Path: path}
	if r.checkTexts() != nil {
		return false
	}
	from, err := r.open()
	if err != nil {
		return false
	}
	defer closeDataset(from)
	found := false
	onThread(func() {
		for i := range c.GDALDatasetGetLayerCount(from) {
			found = found || c.OGRGeometryTypeToName(c.OGR_L_GetGeomType(c.GDALDatasetGetLayer(from, i))) != noGeometry
		}
	})
	return found
}

// CheckVector reports what Rasterize would find wrong with r before it burns anything, in the same words, and what r means. Of an attribute's values it looks at those of the first
// 100,000 features. Where one of source and grid names a
// system and the other none, that is an error too. A statement is run.
func CheckVector(ctx context.Context, r VectorRequest, g raster.Grid) (*VectorInfo, error) {
	typed := r.Type != ndarray.NoType
	if !typed {
		r.Type = ndarray.Float64
		if r.Attribute == "" {
			r.Type = r.burnType()
		}
	}
	if err := r.validate(g); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from, err := r.open()
	if err != nil {
		return nil, err
	}
	defer closeDataset(from)
	layer, err := r.find(from)
	if err != nil {
		return nil, err
	}
	if !typed && r.Attribute != "" {
		r.Type = r.attributeType(layer)
	}
	if gdalType(r.Type) == 0 {
		return nil, r.noType()
	}
	what, remedy := "the layer "+layer.Name, "make a copy that does, with: ogr2ogr -a_srs EPSG:CODE copy.gpkg "+raster.GDALName(r.Path)
	if r.SQL != "" {
		what, remedy = "what the statement gives", "have it tell, by SetSRID in the dialects that know it, or burn a layer that does"
	}
	switch {
	case layer.Geometry == noGeometry:
		return nil, fmt.Errorf("%s: %s has no geometries, so there is nothing to burn: where the coordinates are columns, say so to the format's driver by its open options (of CSV: X_POSSIBLE_NAMES=, Y_POSSIBLE_NAMES=), or choose a layer or columns that have them", r.Path, what)
	case layer.CRS.IsZero() && !g.CRS.IsZero():
		return nil, fmt.Errorf("%s: %s names no coordinate reference system, so nobody knows where on the grid (%v) it lies: %s", r.Path, what, g.CRS, remedy)
	case !layer.CRS.IsZero() && g.CRS.IsZero():
		return nil, fmt.Errorf("%s: %s is in %v, and the grid names no coordinate reference system, so nobody knows where on it that lies: name the grid's, with: gdal_edit.py -a_srs EPSG:CODE file.tif", r.Path, what, layer.CRS)
	}
	if r.Exact && r.Attribute != "" {
		if err := r.checkValues(ctx, from, layer, fewFeatures); err != nil {
			return nil, err
		}
	}
	info := &VectorInfo{VectorLayer: *layer, Type: r.Type}
	if info.Onto, err = layer.onto(g.CRS); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path, err)
	}
	onThread(func() {
		list := c.GDALGetFileList(from)
		info.Files = goStrings(list)
		c.CSLDestroy(list)
	})
	return info, nil
}

// onto brings the layer's extent to another system.
func (l *VectorLayer) onto(to raster.CRS) (*[4]float64, error) {
	e := l.Extent
	if e == nil || !(e[2]-e[0] <= math.MaxFloat64 && e[3]-e[1] <= math.MaxFloat64) {
		return nil, nil
	}
	if SameCRS(l.CRS, to) {
		return e, nil
	}
	const n = 64
	g := raster.Grid{Width: n, Height: n, HasTransform: true, CRS: l.CRS}
	least := 1e-9 * max(math.Abs(e[0]), math.Abs(e[3]), 1) // the sides of one point's
	g.Transform = raster.Transform{e[0], max(e[2]-e[0], least) / n, 0, e[3], 0, -max(e[3]-e[1], least) / n}
	box, err := Extent(g, to)
	switch {
	case errors.Is(err, errNoImage):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &box, nil
}

// burnType is the least type of a few that holds the values that are burned.
func (r *VectorRequest) burnType() ndarray.DType {
	for _, t := range []ndarray.DType{ndarray.Uint8, ndarray.Int32} {
		if r.holds(t, r.Burn) && r.holds(t, r.Null) {
			return t
		}
	}
	return ndarray.Float64
}

// attributeType is the type that holds the attribute's values and Null.
func (r *VectorRequest) attributeType(layer *VectorLayer) ndarray.DType {
	a, _ := layer.attribute(r.Attribute)
	if !r.holds(a.Pixels, r.Null) {
		return ndarray.Float64
	}
	return a.Pixels
}

// holds reports whether a type has a value; nil is one that all have.
func (r *VectorRequest) holds(t ndarray.DType, v *float64) bool {
	if v == nil {
		return true
	}
	_, err := ndarray.ScalarFromFloat(*v, t)
	return err == nil
}

func (r *VectorRequest) noType() error {
	return fmt.Errorf("%s: GDAL %s has no pixels of type %v to burn into; use another type", r.Path, c.GDALVersionInfo("RELEASE_NAME"), r.Type)
}

func (r *VectorRequest) noLayer() error {
	return fmt.Errorf("%s: it has no layer of vectors; if it is a raster, make it an input of its own (%w)", r.Path, raster.ErrFormat)
}

// noGeometry is OGR's name of the geometry of a table of attributes alone.
const noGeometry = "None"

// OGR's types of attributes that are numbers.
const (
	ofInteger   = 0
	ofReal      = 2
	ofInteger64 = 12
)

// fewFeatures are read for the extent of a layer that does not know it, and for the values of an attribute, in a tenth of a second or so.
const fewFeatures = 100_000

// describeLayer is called on one thread.
func describeLayer(l hLayer) VectorLayer {
	d := VectorLayer{Name: c.OGR_L_GetName(l), Geometry: c.OGRGeometryTypeToName(c.OGR_L_GetGeomType(l)), CRS: crsOf(c.OGR_L_GetSpatialRef(l)), Features: c.OGR_L_GetFeatureCount(l, 0)}
	var e [4]float64 // OGREnvelope: MinX, MaxX, MinY, MaxY
	read := int32(0) // all features, for the extent
	if d.Features > 0 && d.Features <= fewFeatures {
		read = 1
	}
	if c.OGR_L_GetExtent(l, &e[0], read) == 0 && d.Features != 0 {
		d.Extent = &[4]float64{e[0], e[2], e[1], e[3]}
	}
	def := c.OGR_L_GetLayerDefn(l)
	for i := range c.OGR_FD_GetFieldCount(def) {
		f := c.OGR_FD_GetFieldDefn(def, i)
		t := c.OGR_Fld_GetType(f)
		a := VectorAttribute{Name: c.OGR_Fld_GetNameRef(f), Type: c.OGR_GetFieldTypeName(t)}
		switch t {
		case ofInteger:
			a.Pixels = ndarray.Int32
		case ofInteger64:
			if a.Pixels = ndarray.Int64; gdalType(a.Pixels) == 0 {
				a.Pixels = ndarray.Float64
			}
		case ofReal:
			a.Pixels = ndarray.Float64
		}
		d.Attributes = append(d.Attributes, a)
	}
	return d
}

// attribute finds an attribute by its name, in any case of letters as OGR does, and its place.
func (l *VectorLayer) attribute(name string) (VectorAttribute, int) {
	at := slices.IndexFunc(l.Attributes, func(a VectorAttribute) bool { return strings.EqualFold(a.Name, name) })
	if at < 0 {
		return VectorAttribute{}, at
	}
	return l.Attributes[at], at
}

func (l *VectorLayer) attributeNames() (names []string) {
	for _, a := range l.Attributes {
		names = append(names, a.Name)
	}
	return names
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

// layer finds the name of the layer that is meant.
func (r *VectorRequest) layer(from hDataset) (string, error) {
	names := layers(from)
	switch {
	case len(names) == 0:
		return "", r.noLayer()
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

// find finds what is to be burned, and checks the condition and the attribute.
func (r *VectorRequest) find(from hDataset) (*VectorLayer, error) {
	var found VectorLayer
	err := r.with(from, func(l hLayer) error {
		onThread(func() { found = describeLayer(l) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.SQL != "" {
		found.Name = ""
	}
	if r.Attribute == "" {
		return &found, nil
	}
	a, at := found.attribute(r.Attribute)
	if at < 0 {
		return nil, fmt.Errorf("%s: there is no attribute %s; there are %s", r.Path, r.Attribute, list(found.attributeNames()))
	}
	if a.Pixels == ndarray.NoType {
		return nil, fmt.Errorf("%s: the attribute %s is no number (%s) to burn; have a statement make one of it (SQL), or burn a value", r.Path, a.Name, a.Type)
	}
	return &found, nil
}

// with calls f with the layer that is to be burned, or the result of the statement, cut down to the features that the condition leaves.
func (r *VectorRequest) with(from hDataset, f func(l hLayer) error) error {
	var l hLayer
	if r.SQL != "" {
		err := try(r.Path, "run the statement "+strconv.Quote(r.SQL), func() bool {
			l = c.GDALDatasetExecuteSQL(from, r.SQL, nil, nil)
			return l != 0
		})
		if l != 0 {
			defer onThread(func() { c.GDALDatasetReleaseResultSet(from, l) })
		}
		if err != nil {
			return err
		}
		return f(l)
	}
	name, err := r.layer(from)
	if err != nil {
		return err
	}
	if err := try(r.Path, "open the layer "+name, func() bool { l = c.GDALDatasetGetLayerByName(from, name); return l != 0 }); err != nil {
		return err
	}
	if r.Where != "" {
		if err := try(r.Path, "take the condition "+strconv.Quote(r.Where), func() bool {
			if c.OGR_L_SetAttributeFilter(l, r.Where) != 0 {
				return false
			}
			// Databases look at it when the first feature is asked for.
			if f := c.OGR_L_GetNextFeature(l); f != 0 {
				c.OGR_F_Destroy(f)
			}
			c.OGR_L_ResetReading(l)
			return true
		}); err != nil {
			return err
		}
	}
	return f(l)
}

// checkValues looks for a feature whose attribute is no value of the type of the pixels, among the first so many; 0: all.
func (r *VectorRequest) checkValues(ctx context.Context, from hDataset, layer *VectorLayer, most int) error {
	a, at := layer.attribute(r.Attribute)
	if a.Type != "Integer64" && (r.Type == ndarray.Float64 || r.Type == a.Pixels) {
		return nil // all of its values are
	}
	return r.with(from, func(l hLayer) error {
		for n := 0; most == 0 || n < most; n += someFeatures {
			if err := ctx.Err(); err != nil {
				return err
			}
			unfit, more, err := r.checkSome(l, int32(at), a.Type == "Integer64")
			if err != nil {
				return err
			}
			if unfit != "" {
				return fmt.Errorf("%s: the attribute %s of %s, which pixels of %v can't hold; choose another type, or features (a condition), or have a statement change it (SQL)", r.Path, a.Name, unfit, r.Type)
			}
			if !more {
				break
			}
		}
		return nil
	})
}

// someFeatures are read between looks at the context.
const someFeatures = 1000

// checkSome looks at the next features.
func (r *VectorRequest) checkSome(l hLayer, at int32, integer bool) (unfit string, more bool, err error) {
	err = try(r.Path, "read its features", func() bool {
		for range someFeatures {
			f := c.OGR_L_GetNextFeature(l)
			if f == 0 {
				more = false
				return true
			}
			more = true
			if c.OGR_F_IsFieldSetAndNotNull(f, at) != 0 {
				v := c.OGR_F_GetFieldAsDouble(f, at)
				fits, text := r.holds(r.Type, &v), number(&v)
				if integer {
					n := c.OGR_F_GetFieldAsInteger64(f, at)
					// GDAL burns numbers of 64 bits as float64.
					fits, text = fits && v < math.MaxInt64 && int64(v) == n, strconv.FormatInt(n, 10)
				}
				if !fits && c.OGR_F_GetGeometryRef(f) != 0 {
					unfit = fmt.Sprintf("feature %d is %s", c.OGR_F_GetFID(f), text)
				}
			}
			c.OGR_F_Destroy(f)
			if unfit != "" {
				return true
			}
		}
		return true
	})
	return unfit, more, err
}

// checkTexts refuses texts that C would cut short.
func (r *VectorRequest) checkTexts() error {
	return errors.Join(checkText(r.Path, "name", r.Path), checkText(r.Path, "layer", r.Layer), checkText(r.Path, "statement", r.SQL), checkText(r.Path, "condition", r.Where),
		checkText(r.Path, "attribute", r.Attribute), checkText(r.Path, "open option", r.OpenOptions...), checkText(r.Path, "driver", r.Drivers...))
}
