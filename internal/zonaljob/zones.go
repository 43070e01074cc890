package zonaljob

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"leat/block"
	"leat/internal/gdal"
	"leat/internal/georef"
	"leat/internal/units"
	"leat/internal/zonal"
	"leat/raster"
)

// Outside is what happens to zones outside the raster.
type Outside uint8

const (
	OutsideWarn  Outside = iota // they have rows without values, and a warning counts them
	OutsideError                // they are errors
)

// zoneList holds the zones of a vector source.
type zoneList struct {
	shapes shapes
	fids   []int64
	ids    [][]any // by attribute and zone
	types  []string
	// geometry is the type of all polygons as WKB numbers it, without dimensions; 0 if they have
	// several types.
	geometry uint32
	mixed    bool
	// outside counts the zones outside the raster, empty those without a polygon, and turned those
	// with parts that would lie on the raster if shifted by 360 degrees. The first of each is
	// named.
	outside, empty, turned                int
	firstOutside, firstEmpty, firstTurned int64
}

// readZones reads the polygons of a vector source in pixel coordinates of a grid.
func readZones(ctx context.Context, r gdal.VectorRequest, by []string, grid raster.Grid,
	outside Outside) (*zoneList, error) {
	name := cmp.Or(r.Name, r.Path)
	z := &zoneList{ids: make([][]any, len(by))}
	seen := map[string]int{} // index in fids
	whole := block.Window{Width: grid.Width, Height: grid.Height}
	geographic := georef.Geographic(grid.CRS)
	var outsideBox zonal.Box
	layer, err := gdal.ReadFeatures(ctx, r, by, grid, func(f *gdal.Feature) error {
		if err := z.addID(name, by, f, seen); err != nil {
			return err
		}
		if f.WKB == nil {
			if z.empty == 0 {
				z.firstEmpty = f.FID
			}
			z.empty++
			z.shapes.add(nil)
			return nil
		}
		p, err := zonal.ParseWKB(f.WKB)
		if err != nil {
			return fmt.Errorf("%s: feature %d: %w", name, f.FID, err)
		}
		z.addType(f.WKB)
		box, ok := p.Bounds()
		if ok {
			for i := 0; i+1 < len(p.XY); i += 2 {
				if p.XY[i], p.XY[i+1], ok = grid.Transform.Invert(p.XY[i], p.XY[i+1]); !ok {
					return fmt.Errorf("%s: the raster's transform %v can't be inverted", name, grid.Transform)
				}
			}
			pixels, _ := p.Bounds()
			if pixels.Window().Intersect(whole).Empty() {
				if outside == OutsideError {
					return outsideError(name, f.FID, box, grid)
				}
				if z.outside == 0 {
					z.firstOutside, outsideBox = f.FID, box
				}
				z.outside++
			}
			if geographic && reachesAfterTurn(box, grid) {
				if z.turned == 0 {
					z.firstTurned = f.FID
				}
				z.turned++
			}
		}
		z.shapes.add(p)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(z.fids) == 0:
		return nil, jobErrorf("%s: the layer %s has no features, expected polygons", name, layer.Name)
	case z.outside > 0 && z.outside+z.empty == len(z.fids):
		return nil, jobErrorf("%w; no zone lies on it", outsideError(name, z.firstOutside, outsideBox, grid))
	}
	z.types = layer.FieldTypes(by)
	return z, nil
}

// reachesAfterTurn reports whether a box in degrees overlaps the raster by more than a pixel's
// width if it is shifted by 360 degrees to the east or west.
func reachesAfterTurn(box zonal.Box, grid raster.Grid) bool {
	const turn = 360
	x0, y0, x1, y1 := grid.Bounds()
	if box.MaxY <= y0 || box.MinY >= y1 {
		return false
	}
	pixel := (x1 - x0) / float64(grid.Width)
	overlap := func(shift float64) float64 { return min(box.MaxX+shift, x1) - max(box.MinX+shift, x0) }
	return max(overlap(turn), overlap(-turn)) > pixel
}

// addType records the type of a geometry in ISO's WKB in little-endian order.
func (z *zoneList) addType(wkb []byte) {
	typ := binary.LittleEndian.Uint32(wkb[1:]) % 1000
	switch {
	case z.mixed:
	case z.geometry == 0:
		z.geometry = typ
	case z.geometry != typ:
		z.geometry, z.mixed = 0, true
	}
}

// addID records the id of a feature, which must be unique.
func (z *zoneList) addID(path string, by []string, f *gdal.Feature, seen map[string]int) error {
	z.fids = append(z.fids, f.FID)
	if len(by) == 0 {
		return nil
	}
	var key strings.Builder
	for i, v := range f.Values {
		if v == nil {
			return jobErrorf("%s: feature %d has no value of the attribute %s, expected one to identify it", path, f.FID, by[i])
		}
		z.ids[i] = append(z.ids[i], v)
		fmt.Fprintf(&key, "%v\x00", v)
	}
	if i, again := seen[key.String()]; again {
		var what []string
		for i, name := range by {
			what = append(what, fmt.Sprintf("%s %v", name, f.Values[i]))
		}
		same, first := strings.Join(what, ", "), z.fids[i]
		if first == f.FID { // as in GeoJSON whose features have equal ids
			return jobErrorf("%s: the features in places %d and %d of the layer, both with the number %d, have the same %s, expected unique values",
				path, i+1, len(z.fids), first, same)
		}
		return jobErrorf("%s: the features %d and %d have the same %s, expected unique values", path, first, f.FID, same)
	}
	seen[key.String()] = len(z.fids) - 1
	return nil
}

func outsideError(path string, fid int64, box zonal.Box, grid raster.Grid) error {
	x0, y0, x1, y1 := grid.Bounds()
	return fmt.Errorf("%s: feature %d lies outside the raster, at x %.9g to %.9g and y %.9g to %.9g in %v; the raster has x %.9g to %.9g and y %.9g to %.9g",
		path, fid, box.MinX, box.MaxX, box.MinY, box.MaxY, grid.CRS, x0, x1, y0, y1)
}

// warnings returns the warnings about zones without values.
func (z *zoneList) warnings() (list []string) {
	if z.outside > 0 {
		list = append(list, fmt.Sprintf("%s outside the raster, the first is feature %d: no values",
			units.Plural(int64(z.outside), "zone lies", "zones lie"), z.firstOutside))
	}
	if z.empty > 0 {
		list = append(list, fmt.Sprintf("%s no polygon, the first is feature %d: no values",
			units.Plural(int64(z.empty), "zone has", "zones have"), z.firstEmpty))
	}
	if z.turned > 0 {
		list = append(list, fmt.Sprintf("%s that would lie on the raster if shifted by 360 degrees, the first is feature %d: no values of these parts",
			units.Plural(int64(z.turned), "zone has parts", "zones have parts"), z.firstTurned))
	}
	return list
}
