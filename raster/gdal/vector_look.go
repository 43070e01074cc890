package gdal

import (
	"context"
	"fmt"

	"leat/raster"
)

// gdal_rasterize passes over two kinds of features without a word: those of geometries that it does not know, of which the pixels would be missing, and those that have no
// place in the grid's system. So all are looked at before they are burned, which for many small ones
// in another system takes about as long as burning them.

// Burned counts features that were to be burned.
type Burned struct {
	Features int64 // that have a geometry
	Unplaced int64 // of these not burned, as a point of theirs has no place in the grid's system: a pole in Lambert's projection, say, or a latitude of 100 degrees
	First    int64 // the number (FID) of the first unplaced one
}

// OGR's types of geometries, without their dimensions.
const (
	geometryCollection = 7
	linearRing         = 101
)

// flat is a type of geometry without its dimensions.
func flat(t int32) int32 {
	if t = t & 0x7fffffff; t >= 1000 && t < 4000 {
		t %= 1000
	}
	return t
}

// unknown is the name of the first type in a geometry that GDAL does not burn, "" where there is none: points, lines and polygons, many of them, and collections are burned, curves
// and surfaces are not.
func unknown(g hGeometry) string {
	switch t := flat(c.OGR_G_GetGeometryType(g)); {
	case t == geometryCollection:
		for i := range c.OGR_G_GetGeometryCount(g) {
			if name := unknown(c.OGR_G_GetGeometryRef(g, i)); name != "" {
				return name
			}
		}
	case t > geometryCollection && t != linearRing && c.OGR_G_IsEmpty(g) == 0:
		return c.OGRGeometryTypeToName(t)
	}
	return ""
}

// look reads all features that will be burned.
func (r *VectorRequest) look(ctx context.Context, from hDataset, layer *VectorLayer, g raster.Grid) (n Burned, err error) {
	err = r.with(from, func(l hLayer) error {
		t, err := r.transformation(l, layer, g)
		if err != nil {
			return err
		}
		if t != 0 {
			defer onThread(func() { c.OCTDestroyCoordinateTransformation(t) })
		}
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var what string
			if what, more, err = r.lookAtSome(l, t, &n); err != nil {
				return err
			}
			if what != "" {
				return fmt.Errorf("%s: %s, which GDAL does not burn: make lines and polygons of it first, with: ogr2ogr -explodecollections -nlt CONVERT_TO_LINEAR straight.gpkg %s; or leave such features out by a condition",
					r.Path, what, raster.GDALName(r.Path))
			}
		}
		return nil
	})
	return n, err
}

// transformation is what brings geometries to the grid's system; 0 where they need none.
func (r *VectorRequest) transformation(l hLayer, layer *VectorLayer, g raster.Grid) (t hTransformation, err error) {
	if layer.CRS.IsZero() || g.CRS.IsZero() || SameCRS(layer.CRS, g.CRS) {
		return 0, nil
	}
	err = try(r.Path, "bring features to the grid", func() bool {
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

// lookAtSome looks at the next features, and says what of them is not burned.
func (r *VectorRequest) lookAtSome(l hLayer, t hTransformation, n *Burned) (what string, more bool, err error) {
	err = try(r.Path, "read its features", func() bool {
		for range someFeatures {
			f := c.OGR_L_GetNextFeature(l)
			if more = f != 0; !more || c.CPLGetLastErrorType() >= classFailure {
				return true
			}
			if g := c.OGR_F_GetGeometryRef(f); g != 0 && c.OGR_G_IsEmpty(g) == 0 {
				n.Features++
				if name := unknown(g); name != "" {
					what = fmt.Sprintf("feature %d is or has a %s", c.OGR_F_GetFID(f), name)
				} else if t != 0 && !placed(g, t) {
					if n.Unplaced == 0 {
						n.First = c.OGR_F_GetFID(f)
					}
					n.Unplaced++
				}
			}
			c.OGR_F_Destroy(f)
			if what != "" {
				return true
			}
		}
		return true
	})
	return what, more, err
}

// placed reports whether all points of a feature's geometry, which is changed, have a place.
func placed(g hGeometry, t hTransformation) bool {
	failed := c.OGR_G_Transform(g, t) != 0
	c.CPLErrorReset()
	return !failed
}
