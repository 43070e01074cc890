package gdal

import (
	"context"
	"errors"
	"fmt"

	"leat/raster"
)

// Feature is a feature of a vector layer as ReadFeatures passes it.
type Feature struct {
	FID int64
	// WKB is the geometry in the CRS of the grid, in ISO's form; nil if the feature has none. It is
	// valid during one call.
	WKB []byte
	// Values are the requested attributes: nil, int64, float64 or string.
	Values []any
}

// wkbNDR is OGR's number of the byte order of WKB: little-endian.
const wkbNDR = 1

// ReadFeatures calls each with the features of r's layer in the order of the source, with these
// attributes. Vertices in another CRS are transformed to g's; edges between them stay straight. It
// returns a description of the layer.
func ReadFeatures(ctx context.Context, r VectorRequest, attributes []string, g raster.Grid,
	each func(f *Feature) error) (*VectorLayer, error) {
	from, layer, err := r.openFeatures(attributes, g)
	if err != nil {
		return nil, err
	}
	defer closeDataset(from)
	fields := layer.fields(attributes)
	var wkb []byte
	err = r.withLayer(from, func(l hLayer) error {
		t, err := r.transformation(l, layer, g)
		if err != nil {
			return err
		}
		if t != 0 {
			defer onThread(func() { c.OCTDestroyCoordinateTransformation(t) })
		}
		var failed error
		_, err = r.eachFeature(ctx, l, 0, func(h hFeature) string {
			f := &Feature{FID: c.OGR_F_GetFID(h), Values: fieldValues(h, fields)}
			if geometry := c.OGR_F_GetGeometryRef(h); geometry != 0 && c.OGR_G_IsEmpty(geometry) == 0 {
				if t != 0 && !transformable(geometry, t) {
					failed = fmt.Errorf("%s: feature %d has a point that can't be transformed from %v to %v", r.name(), f.FID, layer.CRS,
						g.CRS)
					return "failed"
				}
				n := int(c.OGR_G_WkbSize(geometry))
				if n > cap(wkb) {
					wkb = make([]byte, n)
				}
				if f.WKB = wkb[:n]; n <= 0 || c.OGR_G_ExportToIsoWkb(geometry, wkbNDR, &f.WKB[0]) != 0 {
					failed = fmt.Errorf("%s: the geometry of feature %d can't be read", r.name(), f.FID)
					return "failed"
				}
			}
			if failed = each(f); failed != nil {
				return "failed"
			}
			return ""
		})
		return errors.Join(err, failed)
	})
	return layer, err
}

// openFeatures opens the source, finds the layer and checks that its features have a position on
// the grid.
func (r *VectorRequest) openFeatures(attributes []string, g raster.Grid) (hDataset, *VectorLayer, error) {
	errs := []error{r.checkTexts(), checkText(r.name(), "attribute", attributes...)}
	if r.SQL != "" && (r.Layer != "" || r.Where != "") {
		errs = append(errs, fmt.Errorf("%s: a statement selects layer and features itself, expected no layer and no condition", r.name()))
	}
	if !g.HasTransform {
		errs = append(errs, r.unmet("the raster has no georeference, so the position of features on it is unknown"))
	}
	if err := errors.Join(errs...); err != nil {
		return 0, nil, err
	}
	from, err := r.open()
	if err != nil {
		return 0, nil, err
	}
	layer, err := r.findLayer(from)
	if err == nil {
		err = r.checkFeatures(layer, attributes, g)
	}
	if err != nil {
		closeDataset(from)
		return 0, nil, err
	}
	return from, layer, nil
}

// checkFeatures returns an error for a layer whose features have no position on the grid, or that
// lacks one of the attributes.
func (r *VectorRequest) checkFeatures(layer *VectorLayer, attributes []string, g raster.Grid) error {
	what := "the layer " + layer.Name
	if r.SQL != "" {
		what = "the result of the statement"
	}
	switch {
	case layer.Geometry == noGeometry:
		return r.unmet("%s has no geometries, expected polygons", what)
	case layer.CRS.IsZero() && !g.CRS.IsZero():
		return r.unmet("%s names no coordinate reference system, so its position on the raster (%v) is unknown",
			what, g.CRS)
	case !layer.CRS.IsZero() && g.CRS.IsZero():
		return r.unmet("%s is in %v, and the raster names no coordinate reference system, so its position there is unknown",
			what, layer.CRS)
	}
	for _, name := range attributes {
		if _, at := layer.attribute(name); at < 0 {
			return r.unmet("there is no attribute %s; there are %s", name, list(layer.attributeNames()))
		}
	}
	return nil
}

// field is an attribute to read.
type field struct {
	index int32
	typ   string
}

// fields finds attributes that the layer has.
func (l *VectorLayer) fields(names []string) (list []field) {
	for _, name := range names {
		a, at := l.attribute(name)
		list = append(list, field{int32(at), a.Type})
	}
	return list
}

// fieldValues reads attributes of a feature.
func fieldValues(h hFeature, fields []field) []any {
	if len(fields) == 0 {
		return nil
	}
	values := make([]any, len(fields))
	for i, f := range fields {
		switch {
		case c.OGR_F_IsFieldSetAndNotNull(h, f.index) == 0:
		case f.typ == "Integer" || f.typ == "Integer64":
			values[i] = c.OGR_F_GetFieldAsInteger64(h, f.index)
		case f.typ == "Real":
			values[i] = c.OGR_F_GetFieldAsDouble(h, f.index)
		default:
			values[i] = c.OGR_F_GetFieldAsString(h, f.index)
		}
	}
	return values
}

// FieldTypes returns OGR's names of the types of attributes that the layer has.
func (l *VectorLayer) FieldTypes(names []string) (types []string) {
	for _, f := range l.fields(names) {
		types = append(types, f.typ)
	}
	return types
}
