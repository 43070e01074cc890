package output

import (
	"cmp"
	"fmt"
	"slices"

	"leat/internal/gdal"
	"leat/internal/tiffwrite"
	"leat/raster"
)

// ResolveCRS finds how GeoTIFF outputs store the CRS of the grid or of its ground control points:
// as geo keys, or, if keys can't express it, as WKT in NAME.aux.xml, where GDAL looks first. It
// returns a note on the latter.
func ResolveCRS(outs []*Output, grid *raster.Grid) (note string, err error) {
	if !HasNative(outs) {
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
			storeInAuxXML(outs, wkt)
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
	storeInAuxXML(outs, system.WKT)
	return fmt.Sprintf("no geo keys express the coordinate reference system %v: GeoTIFFs have %s in their .aux.xml",
		*crs, held), nil
}

// storeInAuxXML makes GeoTIFF outputs store the CRS, and ground control points, in their .aux.xml.
func storeInAuxXML(outs []*Output, wkt string) {
	for _, o := range outs {
		if o.Spec.isNative() {
			o.WKT = wkt
		}
	}
}

// HasNative reports whether one of the outputs is a GeoTIFF that leat writes itself.
func HasNative(outs []*Output) bool {
	return slices.ContainsFunc(outs, func(o *Output) bool { return o.Spec.isNative() })
}
