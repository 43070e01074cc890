package gdal

import (
	"context"
	"errors"
	"fmt"

	"leat/internal/driver"
	"leat/raster"
)

// gdal_rasterize silently skips two kinds of features: those with geometries that it does not
// support, whose pixels would be missing, and those that can't be transformed to the grid's CRS. So
// all features are checked before they are burned. For many small features in another CRS, this
// takes about as long as burning them.

// RasterizeResult counts the features of a request.
type RasterizeResult struct {
	Features int64 // with a geometry
	// Unplaced counts those not burned because a point can't be transformed to the grid's CRS, such
	// as a pole in Lambert's projection, or a latitude of 100 degrees.
	Unplaced int64
	First    int64 // the number (FID) of the first unplaced one
}

// OGR's geometry types, without their dimensions.
const (
	geometryCollection = 7
	linearRing         = 101
)

// flat returns a geometry type without its dimensions.
func flat(t int32) int32 {
	if t = t & 0x7fffffff; t >= 1000 && t < 4000 {
		t %= 1000
	}
	return t
}

// unsupportedGeometry returns the name of the first type in a geometry that GDAL does not burn, or
// "". It burns points, lines and polygons, multiple ones and collections of them, but no curves and
// surfaces.
func unsupportedGeometry(g hGeometry) string {
	switch t := flat(c.OGR_G_GetGeometryType(g)); {
	case t == geometryCollection:
		for i := range c.OGR_G_GetGeometryCount(g) {
			if name := unsupportedGeometry(c.OGR_G_GetGeometryRef(g, i)); name != "" {
				return name
			}
		}
	case t > geometryCollection && t != linearRing && c.OGR_G_IsEmpty(g) == 0:
		return c.OGRGeometryTypeToName(t)
	}
	return ""
}

// scanFeatures checks all features that will be burned.
func (r *VectorRequest) scanFeatures(ctx context.Context, from hDataset, layer *VectorLayer,
	g raster.Grid) (n RasterizeResult, err error) {
	err = r.withLayer(from, func(l hLayer) error {
		t, err := r.transformation(l, layer, g)
		if err != nil {
			return err
		}
		if t != 0 {
			defer onThread(func() { c.OCTDestroyCoordinateTransformation(t) })
		}
		var failed error
		what, err := r.eachFeature(ctx, l, 0, func(f hFeature) string {
			h := c.OGR_F_GetGeometryRef(f)
			if h == 0 || c.OGR_G_IsEmpty(h) != 0 {
				return ""
			}
			n.Features++
			if r.Cutline {
				if failed = r.checkPolygon(h, c.OGR_F_GetFID(f)); failed != nil {
					return "failed"
				}
			}
			if name := unsupportedGeometry(h); name != "" {
				return fmt.Sprintf("feature %d is or has a %s", c.OGR_F_GetFID(f), name)
			}
			if t != 0 && !transformable(h, t) {
				if n.Unplaced == 0 {
					n.First = c.OGR_F_GetFID(f)
				}
				n.Unplaced++
			}
			return ""
		})
		if failed != nil {
			return errors.Join(err, failed)
		}
		if err == nil && what != "" {
			err = fmt.Errorf("%s: %s, which GDAL does not burn: convert it to lines and polygons first, with: ogr2ogr -explodecollections -nlt CONVERT_TO_LINEAR straight.gpkg %s; or exclude such features by a condition",
				r.name(), what, driver.GDALName(r.name()))
		}
		return err
	})
	return n, err
}

// transformation returns the transformation of geometries to the grid's CRS; 0 if they need none.
func (r *VectorRequest) transformation(l hLayer, layer *VectorLayer, g raster.Grid) (t hTransformation, err error) {
	if layer.CRS.IsZero() || g.CRS.IsZero() || SameCRS(layer.CRS, g.CRS) {
		return 0, nil
	}
	err = r.try("transform features to the grid", func() bool {
		to, err := srsOf(g.CRS)
		if err != nil || to == 0 {
			return false
		}
		defer c.OSRDestroySpatialReference(to)
		t = c.OCTNewCoordinateTransformation(c.OGR_L_GetSpatialRef(l), to)
		return t != 0
	})
	return t, err
}

// transformable reports whether all points of a feature's geometry can be transformed. It changes
// the geometry.
func transformable(g hGeometry, t hTransformation) bool {
	failed := c.OGR_G_Transform(g, t) != 0
	c.CPLErrorReset()
	return !failed
}
