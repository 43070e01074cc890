package apply

import (
	"cmp"
	"fmt"

	"leat/internal/gdal"
	"leat/internal/tiffwrite"
	"leat/raster"
)

// resolveCRS finds how GeoTIFF outputs store the CRS of the grid or of its ground control points:
// as geo keys, or, if keys can't express it, as WKT in NAME.aux.xml, where GDAL looks first. It
// returns a note on the latter.
func (r *run) resolveCRS(grid *raster.Grid) (note string, err error) {
	native := false
	for _, o := range r.outs {
		native = native || !o.spec.usesGDAL()
	}
	if !native {
		return "", nil
	}
	cause := tiffwrite.CheckGeoreference(*grid)
	if cause == nil {
		return "", nil
	}
	crs, held := &grid.CRS, "it"
	if points := grid.GCPs; points != nil && !grid.HasTransform {
		own := *points
		grid.GCPs, crs, held = &own, &own.CRS, "the ground control points"
		if len(own.Points) > tiffwrite.MaxGCPs {
			wkt, err := gdal.WKT(*crs)
			if err != nil {
				return "", fmt.Errorf("%w, and %v can't be written otherwise: %w", cause, *crs, err)
			}
			r.holdAside(wkt)
			return fmt.Sprintf("%v: GeoTIFFs have them in their .aux.xml", cause), nil
		}
	}
	system, err := gdal.ParseCRS(cmp.Or(crs.WKT, crs.Code))
	if err != nil {
		return "", fmt.Errorf("%w, and GDAL finds no geo keys for it: %w", cause, err)
	}
	if crs.Keys = system.Keys; system.Keys != nil {
		return "", tiffwrite.CheckGeoreference(*grid)
	}
	r.holdAside(system.WKT)
	return fmt.Sprintf("no geo keys express the coordinate reference system %v: GeoTIFFs have %s in their .aux.xml",
		*crs, held), nil
}

// holdAside makes GeoTIFF outputs have the system, and ground control points, in their .aux.xml.
func (r *run) holdAside(wkt string) {
	for _, o := range r.outs {
		if !o.spec.usesGDAL() {
			o.wkt = wkt
		}
	}
}

// fileGrid returns the grid that the output's file stores.
func (o *output) fileGrid() raster.Grid {
	g := o.run.plan.Grid
	if !o.spec.usesGDAL() && tiffwrite.CheckGeoreference(g) != nil {
		g.CRS = raster.CRS{} // it is in .aux.xml
		if !g.HasTransform {
			g.GCPs = nil // so are they
		}
	}
	return g
}
