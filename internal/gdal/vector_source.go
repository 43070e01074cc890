package gdal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/internal/driver"
	"leat/ndarray"
	"leat/raster"
)

// VectorLayer describes a layer of a vector source, or the result of a statement.
type VectorLayer struct {
	Name     string // "" for the result of a statement
	Geometry string // "Point", "3D Line String", "Unknown (any)", ...
	CRS      raster.CRS
	Features int64 // -1 if the source would have to read all of them
	// Extent is the smallest x and y and the largest x and y in the layer's CRS. It is nil if there
	// are no features, or if the source would have to read many features to determine it.
	Extent     *[4]float64
	Attributes []VectorAttribute
}

// VectorAttribute is an attribute of the features of a layer.
type VectorAttribute struct {
	Name   string
	Type   string        // OGR's name: "Integer", "Integer64", "Real", "String", "DateTime", ...
	Pixels ndarray.DType // the pixel type that holds all values; NoType if not a number
}

// VectorInfo is the result of CheckVector.
type VectorInfo struct {
	VectorLayer
	// Type is the request's, or, if that is not set, a type that holds all values to be burned:
	// uint8, else int32, else float64 for a fixed value; int32 or int64 for an integer attribute,
	// else float64.
	Type  ndarray.DType
	Files []string // the source's files; none for a database or a service
	// Onto is Extent in the grid's CRS, including edges that curve between the corners; nil if
	// unknown or if it can't be transformed.
	Onto *[4]float64
}

// VectorLayers describes the layers of a source. Errors are those of Open.
func VectorLayers(path string, o *Options) ([]VectorLayer, error) {
	if o == nil {
		o = &Options{}
	}
	r := VectorRequest{Path: path, Name: o.Name, OpenOptions: o.OpenOptions, Drivers: o.Drivers}
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

// HoldsVectors reports whether GDAL can open path as a vector source.
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

// CheckVector returns the errors that Rasterize would return before it burns anything, and
// describes r. It checks an attribute's values in the first 100,000 features, and runs a statement.
// If only one of source and grid names a CRS, that is an error.
func CheckVector(ctx context.Context, r VectorRequest, g raster.Grid) (*VectorInfo, error) {
	typed := r.Type != ndarray.NoType
	if !typed {
		r.Type = ndarray.Float64
		if r.Attribute == "" {
			r.Type = r.burnType()
		}
	}
	if err := r.validate(g); err != nil {
		return nil, &RequestError{err}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from, err := r.open()
	if err != nil {
		return nil, err
	}
	defer closeDataset(from)
	layer, err := r.findLayer(from)
	if err != nil {
		return nil, err
	}
	if !typed && r.Attribute != "" {
		r.Type = r.attributeType(layer)
	}
	if gdalType(r.Type) == 0 {
		return nil, r.noType()
	}
	what, remedy := "the layer "+layer.Name,
		"make a copy that does, with: ogr2ogr -a_srs EPSG:CODE copy.gpkg "+driver.GDALName(r.name())
	if r.SQL != "" {
		what, remedy = "the result of the statement",
			"set it by SetSRID in the statement, in dialects that have it, or burn a layer that names one"
	}
	switch {
	case layer.Geometry == noGeometry:
		return nil, r.unmet("%s has no geometries, so there is nothing to burn: if columns hold the coordinates, name them in the driver's open options (of CSV: X_POSSIBLE_NAMES=, Y_POSSIBLE_NAMES=), or choose a layer or columns that have them", what)
	case layer.CRS.IsZero() && !g.CRS.IsZero():
		return nil, r.unmet("%s names no coordinate reference system, so its position on the grid (%v) is unknown: %s", what, g.CRS, remedy)
	case !layer.CRS.IsZero() && g.CRS.IsZero():
		return nil, r.unmet("%s is in %v, and the grid names no coordinate reference system, so its position there is unknown: name the grid's, with: gdal_edit.py -a_srs EPSG:CODE file.tif", what, layer.CRS)
	}
	if r.Exact && r.Attribute != "" {
		if err := r.checkValues(ctx, from, layer, fewFeatures); err != nil {
			return nil, err
		}
	}
	info := &VectorInfo{VectorLayer: *layer, Type: r.Type}
	if info.Onto, err = layer.onto(g.CRS); err != nil {
		return nil, fmt.Errorf("%s: %w", r.name(), err)
	}
	info.Files = fileNames(from)
	return info, nil
}

// onto transforms the layer's extent to another CRS.
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
	least := 1e-9 * max(math.Abs(e[0]), math.Abs(e[3]), 1) // the sides of the box of a single point
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

// burnType returns the smallest of a few types that holds the burned values.
func (r *VectorRequest) burnType() ndarray.DType {
	for _, t := range []ndarray.DType{ndarray.Uint8, ndarray.Int32} {
		if r.holds(t, r.Burn) && r.holds(t, r.Null) {
			return t
		}
	}
	return ndarray.Float64
}

// attributeType returns the type that holds the attribute's values and Null.
func (r *VectorRequest) attributeType(layer *VectorLayer) ndarray.DType {
	a, _ := layer.attribute(r.Attribute)
	if !r.holds(a.Pixels, r.Null) {
		return ndarray.Float64
	}
	return a.Pixels
}

// holds reports whether a type can hold a value; all can hold nil.
func (r *VectorRequest) holds(t ndarray.DType, v *float64) bool {
	if v == nil {
		return true
	}
	_, err := ndarray.ScalarFromFloat(*v, t)
	return err == nil
}

func (r *VectorRequest) noType() error {
	return fmt.Errorf("%s: GDAL %s can't burn into pixels of type %v; use another type", r.name(),
		c.GDALVersionInfo("RELEASE_NAME"), r.Type)
}

func (r *VectorRequest) noLayer() error {
	return fmt.Errorf("%s: it has no vector layer; if it is a raster, use it as a raster input (%w)", r.name(),
		raster.ErrFormat)
}

// noGeometry is OGR's geometry name of a table without geometries.
const noGeometry = "None"

// OGR's numeric attribute types.
const (
	ofInteger   = 0
	ofReal      = 2
	ofInteger64 = 12
)

// fewFeatures is the number of features that are read for the extent of a layer that does not store
// it, and for the values of an attribute: about a tenth of a second's work.
const fewFeatures = 100_000

// describeLayer must run within onThread or try.
func describeLayer(l hLayer) VectorLayer {
	d := VectorLayer{Name: c.OGR_L_GetName(l), Geometry: c.OGRGeometryTypeToName(c.OGR_L_GetGeomType(l)),
		CRS: crsOf(c.OGR_L_GetSpatialRef(l)), Features: c.OGR_L_GetFeatureCount(l, 0)}
	var e [4]float64 // OGREnvelope: MinX, MaxX, MinY, MaxY
	read := int32(0) // bool: read all features for the extent
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

// attribute finds an attribute and its index by name, in upper or lower case as OGR does.
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

// layers returns the names of the layers.
func layers(from hDataset) (names []string) {
	onThread(func() {
		for i := range c.GDALDatasetGetLayerCount(from) {
			names = append(names, c.OGR_L_GetName(c.GDALDatasetGetLayer(from, i)))
		}
	})
	return names
}

// layer returns the name of the requested layer.
func (r *VectorRequest) layer(from hDataset) (string, error) {
	names := layers(from)
	switch {
	case len(names) == 0:
		return "", r.noLayer()
	case r.Layer == "" && len(names) == 1:
		return names[0], nil
	case r.Layer == "":
		return "", r.unmet("it has %d layers; name one of them: %s", len(names), list(names))
	case slices.Contains(names, r.Layer):
		return r.Layer, nil
	}
	if n, err := strconv.Atoi(r.Layer); err == nil && n >= 0 && n < len(names) {
		return names[n], nil
	}
	return "", r.unmet("there is no layer %s; it has %s", r.Layer, list(names))
}

// list joins names for an error, at most the first of many.
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

// findLayer returns the requested layer, and checks the condition and the attribute.
func (r *VectorRequest) findLayer(from hDataset) (*VectorLayer, error) {
	var found VectorLayer
	err := r.withLayer(from, func(l hLayer) error {
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
		return nil, r.unmet("there is no attribute %s; there are %s", r.Attribute,
			list(found.attributeNames()))
	}
	if a.Pixels == ndarray.NoType {
		return nil, r.unmet("the attribute %s is not a number (%s); convert it in a statement (SQL), or burn a fixed value", a.Name, a.Type)
	}
	return &found, nil
}

// withLayer calls f with the requested layer, or the result of the statement, filtered by the
// condition.
func (r *VectorRequest) withLayer(from hDataset, f func(l hLayer) error) error {
	var l hLayer
	if r.SQL != "" {
		err := r.try("run the statement "+strconv.Quote(r.SQL), func() bool {
			l = c.GDALDatasetExecuteSQL(from, r.SQL, nil, nil)
			return l != 0
		})
		if l != 0 {
			defer onThread(func() { c.GDALDatasetReleaseResultSet(from, l) })
		}
		if err != nil {
			return &RequestError{err}
		}
		return f(l)
	}
	name, err := r.layer(from)
	if err != nil {
		return err
	}
	if err := r.try("open the layer "+name,
		func() bool {
			if l = c.GDALDatasetGetLayerByName(from, name); l != 0 {
				// It is the same layer each time: it may have been read to its end.
				c.OGR_L_ResetReading(l)
			}
			return l != 0
		}); err != nil {
		return err
	}
	if r.Where != "" {
		if err := r.try("apply the condition "+strconv.Quote(r.Where), func() bool {
			if c.OGR_L_SetAttributeFilter(l, r.Where) != 0 {
				return false
			}
			// Databases evaluate it when the first feature is read.
			if f := c.OGR_L_GetNextFeature(l); f != 0 {
				c.OGR_F_Destroy(f)
			}
			c.OGR_L_ResetReading(l)
			return true
		}); err != nil {
			return &RequestError{err}
		}
	}
	return f(l)
}

// checkValues looks for a feature whose attribute the pixel type can't hold, among the first most
// features; 0 means all.
func (r *VectorRequest) checkValues(ctx context.Context, from hDataset, layer *VectorLayer, most int) error {
	a, at := layer.attribute(r.Attribute)
	integer := a.Type == "Integer64"
	if !integer && (r.Type == ndarray.Float64 || r.Type == a.Pixels) {
		return nil // the type holds all values
	}
	return r.withLayer(from, func(l hLayer) error {
		unfit, err := r.eachFeature(ctx, l, most, func(f hFeature) string {
			if c.OGR_F_IsFieldSetAndNotNull(f, int32(at)) == 0 {
				return ""
			}
			v := c.OGR_F_GetFieldAsDouble(f, int32(at))
			fits, text := r.holds(r.Type, &v), number(&v)
			if integer {
				n := c.OGR_F_GetFieldAsInteger64(f, int32(at))
				// GDAL burns 64-bit integers as float64.
				fits, text = fits && v < math.MaxInt64 && int64(v) == n, strconv.FormatInt(n, 10)
			}
			if fits || c.OGR_F_GetGeometryRef(f) == 0 {
				return ""
			}
			return fmt.Sprintf("feature %d is %s", c.OGR_F_GetFID(f), text)
		})
		if err == nil && unfit != "" {
			err = fmt.Errorf("%s: the attribute %s of %s, which pixels of %v can't hold; choose another type, exclude features by a condition, or convert it in a statement (SQL)", r.name(), a.Name, unfit, r.Type)
		}
		return err
	})
}

// someFeatures is the number of features read between checks of the context.
const someFeatures = 1000

// eachFeature calls f with up to most features of a layer (0: all) until f returns a text other
// than "". It returns that text.
func (r *VectorRequest) eachFeature(ctx context.Context, l hLayer, most int,
	f func(h hFeature) string) (found string, err error) {
	for n, more := 0, true; more && found == "" && err == nil && (most == 0 || n < most); n += someFeatures {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		err = r.try("read its features", func() bool {
			for i := 0; i < someFeatures && found == ""; i++ {
				h := c.OGR_L_GetNextFeature(l)
				if more = h != 0 && c.CPLGetLastErrorType() < classFailure; !more {
					break
				}
				found = f(h)
				c.OGR_F_Destroy(h)
			}
			return true
		})
	}
	return found, err
}

// checkTexts returns an error for texts that C would truncate.
func (r *VectorRequest) checkTexts() error {
	return errors.Join(checkText(r.name(), "name", r.Path), checkText(r.name(), "layer", r.Layer),
		checkText(r.name(), "statement", r.SQL), checkText(r.name(), "condition", r.Where),
		checkText(r.name(), "attribute", r.Attribute), checkText(r.name(), "open option", r.OpenOptions...),
		checkText(r.name(), "driver", r.Drivers...))
}
