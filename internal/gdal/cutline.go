package gdal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"leat/internal/zonal"
	"leat/raster"
)

// Edges of a cutline in another CRS than the grid's are straight in that CRS and curves on the
// grid. gdal_rasterize transforms vertices only. gdalwarp also transforms points between them, at
// most a pixel apart; leat does so where the curve is not straight.

// burnCutline burns the polygons of a layer in another CRS onto a raster. It fails for other
// geometries.
func (r *VectorRequest) burnCutline(ctx context.Context, from, to hDataset, layer *VectorLayer, g raster.Grid,
	optimize []string) (n RasterizeResult, err error) {
	err = r.withLayer(from, func(l hLayer) error {
		t, err := r.transformation(l, layer, g)
		if err != nil {
			return err
		}
		defer onThread(func() { c.OCTDestroyCoordinateTransformation(t) })
		follower := &edgeFollower{t: t, grid: g}
		var batch cutlineBatch
		defer batch.close()
		burn := func() error {
			if batch.h == 0 {
				return nil
			}
			whole := VectorRequest{Path: r.Path, Name: r.Name, Burn: r.Burn, AllTouched: r.AllTouched}
			args := append(whole.args(&VectorLayer{Name: batchLayer}), optimize...)
			err := whole.burn(ctx, batch.h, to, args, RasterizeResult{})
			batch.close()
			return err
		}
		for more := true; more; {
			var failed error
			found, err := r.eachFeature(ctx, l, 0, func(f hFeature) string {
				if failed = r.addToCutline(f, to, follower, &batch, &n); failed != nil {
					return "failed"
				}
				if batch.vertices >= maxBatchVertices {
					return "full"
				}
				return ""
			})
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			more = found == "full"
			if err = burn(); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// addToCutline adds a feature to a batch, unless it can't be transformed. It must run within try.
func (r *VectorRequest) addToCutline(f hFeature, to hDataset, follower *edgeFollower, batch *cutlineBatch,
	n *RasterizeResult) error {
	h := c.OGR_F_GetGeometryRef(f)
	if h == 0 || c.OGR_G_IsEmpty(h) != 0 {
		return nil
	}
	n.Features++
	fid := c.OGR_F_GetFID(f)
	if err := r.checkPolygon(h, fid); err != nil {
		return err
	}
	wkb := make([]byte, max(c.OGR_G_WkbSize(h), 0))
	if len(wkb) == 0 || c.OGR_G_ExportToIsoWkb(h, wkbNDR, &wkb[0]) != 0 {
		return fmt.Errorf("%s: the geometry of feature %d can't be read", r.name(), fid)
	}
	p, err := zonal.ParseWKB(wkb)
	if err == nil {
		p, err = follower.polygon(p)
	}
	switch {
	case errors.Is(err, errUnplaced):
		if n.Unplaced == 0 {
			n.First = fid
		}
		n.Unplaced++
		return nil
	case err != nil:
		return fmt.Errorf("%s: feature %d: %w", r.name(), fid, err)
	}
	return batch.add(r, p, to)
}

// checkPolygon returns an error for a geometry of a cutline that is not made of polygons.
func (r *VectorRequest) checkPolygon(h hGeometry, fid int64) error {
	var other func(h hGeometry) string
	other = func(h hGeometry) string {
		t := flat(c.OGR_G_GetGeometryType(h))
		switch {
		case t == wkbPolygon || t == wkbMultiPolygon || c.OGR_G_IsEmpty(h) != 0:
			return ""
		case t != geometryCollection:
			return c.OGRGeometryTypeToName(t)
		}
		for i := range c.OGR_G_GetGeometryCount(h) {
			if name := other(c.OGR_G_GetGeometryRef(h, i)); name != "" {
				return name
			}
		}
		return ""
	}
	if name := other(h); name != "" {
		return fmt.Errorf("%s: feature %d of the cutline is or has a %s, expected polygons", r.name(), fid, name)
	}
	return nil
}

const batchLayer = "cutline"

// maxBatchVertices is the number of vertices, 16 MiB, from which polygons are burned. Tests change
// it.
var maxBatchVertices = 1 << 20

// cutlineBatch is a layer in memory with polygons in the CRS of the grid.
type cutlineBatch struct {
	h          hDataset
	layer      hLayer
	definition hDefinition
	vertices   int
	wkb        []byte
}

// add adds a polygon. It must run within try.
func (b *cutlineBatch) add(r *VectorRequest, p *zonal.Polygon, to hDataset) error {
	if b.h == 0 && !b.open(to) {
		return lastError(r.name(), "burn")
	}
	b.vertices += len(p.XY) / 2
	b.wkb = appendWKB(b.wkb[:0], p)
	if len(b.wkb) > math.MaxInt32 {
		return fmt.Errorf("%s: a polygon has %d vertices, more than GDAL accepts", r.name(), len(p.XY)/2)
	}
	var g hGeometry
	if c.OGR_G_CreateFromWkb(unsafe.Pointer(&b.wkb[0]), 0, &g, int32(len(b.wkb))) != 0 {
		return lastError(r.name(), "burn")
	}
	defer c.OGR_G_DestroyGeometry(g)
	f := c.OGR_F_Create(b.definition)
	defer c.OGR_F_Destroy(f)
	if c.OGR_F_SetGeometry(f, g) != 0 || c.OGR_L_CreateFeature(b.layer, f) != 0 {
		return lastError(r.name(), "burn")
	}
	return nil
}

// open creates the layer in the CRS of a raster.
func (b *cutlineBatch) open(to hDataset) bool {
	driver := c.GDALGetDriverByName("Memory")
	if driver == 0 {
		driver = c.GDALGetDriverByName("MEM") // since 3.11
	}
	if b.h = c.GDALCreate(driver, "", 0, 0, 0, 0, nil); b.h == 0 {
		return false
	}
	s := c.GDALGetSpatialRef(to)
	if b.layer = c.GDALDatasetCreateLayer(b.h, batchLayer, s, wkbMultiPolygon, nil); b.layer == 0 {
		return false
	}
	b.definition = c.OGR_L_GetLayerDefn(b.layer)
	return true
}

func (b *cutlineBatch) close() {
	if b.h != 0 {
		closeDataset(b.h)
	}
	*b = cutlineBatch{wkb: b.wkb}
}

// OGR's and WKB's geometry types.
const (
	wkbPolygon      = 3
	wkbMultiPolygon = 6
)

// appendWKB appends a polygon as a MultiPolygon.
func appendWKB(dst []byte, p *zonal.Polygon) []byte {
	le := binary.LittleEndian
	head := func(typ uint32, n int) {
		dst = append(dst, wkbNDR)
		dst = le.AppendUint32(dst, typ)
		dst = le.AppendUint32(dst, uint32(n))
	}
	head(wkbMultiPolygon, len(p.Parts))
	ring, vertex := 0, 0
	for _, end := range p.Parts {
		head(wkbPolygon, end-ring)
		for ; ring < end; ring++ {
			dst = le.AppendUint32(dst, uint32(p.Rings[ring]-vertex))
			for _, v := range p.XY[2*vertex : 2*p.Rings[ring]] {
				dst = le.AppendUint64(dst, math.Float64bits(v))
			}
			vertex = p.Rings[ring]
		}
	}
	return dst
}

// errUnplaced is returned for polygons with points that can't be transformed.
var errUnplaced = errors.New("a point has no place in the CRS of the grid")

// edgeFollower transforms polygons to the CRS of a grid. It adds vertices until all edges are
// straight.
type edgeFollower struct {
	t    hTransformation
	grid raster.Grid
}

const (
	// straightTo is the accepted distance in pixels between an edge and the curve that it replaces.
	// Less than one in ten thousand pixels along an edge have their centre between the two.
	straightTo = 1e-5
	// roundingShare is the share of coordinates below which distances are rounding errors of PROJ.
	roundingShare = 1e-13
	// maxFollowLevel is the number of times that an edge is cut in four.
	maxFollowLevel = 20
	// maxRingVertices bounds the memory for a ring.
	maxRingVertices = 1 << 26
)

// edgePoint is a point of a ring in the CRS of the layer, in that of the grid, and in pixels.
type edgePoint struct{ sx, sy, x, y, col, row float64 }

// polygon returns a transformed polygon, or errUnplaced. It fails where the CRS of the grid cuts a
// polygon in two and the grid is between the ends of a cut edge.
func (f *edgeFollower) polygon(p *zonal.Polygon) (*zonal.Polygon, error) {
	q := &zonal.Polygon{Parts: p.Parts}
	seam := zonal.Box{MinX: math.Inf(1), MinY: math.Inf(1), MaxX: math.Inf(-1), MaxY: math.Inf(-1)}
	vertex := 0
	for _, end := range p.Rings {
		ring, err := f.ring(p.XY[2*vertex:2*end], &seam)
		if err != nil {
			return nil, err
		}
		for i := range ring {
			q.XY = append(q.XY, ring[i].x, ring[i].y)
		}
		q.Rings = append(q.Rings, len(q.XY)/2)
		vertex = end
	}
	if seam.MinX <= float64(f.grid.Width) && seam.MaxX >= 0 && seam.MinY <= float64(f.grid.Height) && seam.MaxY >= 0 {
		return nil, fmt.Errorf("an edge is cut in two in %v, expected polygons that end there", f.grid.CRS)
	}
	return q, nil
}

// ring transforms a ring. It extends seam by the ends of edges that are cut in two.
func (f *edgeFollower) ring(xy []float64, seam *zonal.Box) ([]edgePoint, error) {
	points := make([]edgePoint, len(xy)/2)
	for i := range points {
		points[i] = edgePoint{sx: xy[2*i], sy: xy[2*i+1]}
	}
	if !f.transform(points) {
		return nil, errUnplaced
	}
	var open []int // edges, by their first point, that may be curves
	for i := range len(points) - 1 {
		open = append(open, i)
	}
	var between []edgePoint
	for level := 0; len(open) > 0; level++ {
		between = between[:0]
		for _, i := range open {
			a, b := &points[i], &points[i+1]
			for k := 0.25; k < 1; k += 0.25 {
				between = append(between,
					edgePoint{sx: a.sx + float64(k*(b.sx-a.sx)), sy: a.sy + float64(k*(b.sy-a.sy))})
			}
		}
		if !f.transform(between) {
			return nil, errUnplaced
		}
		next := make([]edgePoint, 0, len(points)+len(between))
		var still []int
		for i := range points {
			next = append(next, points[i])
			if len(open) == 0 || open[0] != i {
				continue
			}
			open = open[1:]
			three := between[:3]
			between = between[3:]
			a, b := &points[i], &points[i+1]
			switch {
			case f.straight(a, three, b):
			case level == maxFollowLevel:
				for _, p := range []*edgePoint{a, b} {
					seam.MinX, seam.MaxX = min(seam.MinX, p.col), max(seam.MaxX, p.col)
					seam.MinY, seam.MaxY = min(seam.MinY, p.row), max(seam.MaxY, p.row)
				}
			default:
				at := len(next) - 1
				next = append(next, three...)
				still = append(still, at, at+1, at+2, at+3)
			}
		}
		if len(next) > maxRingVertices {
			return nil, fmt.Errorf("the edges of a ring are curves of more than %d vertices in %v", maxRingVertices, f.grid.CRS)
		}
		points, open = next, still
	}
	return points, nil
}

// transform computes the coordinates of points on the grid. It returns false if one has none.
func (f *edgeFollower) transform(points []edgePoint) bool {
	n := len(points)
	if n == 0 {
		return true
	}
	xyz := make([]float64, 3*n)
	success := make([]int32, n)
	for i := range points {
		xyz[i], xyz[n+i] = points[i].sx, points[i].sy
	}
	c.OCTTransformEx(f.t, int32(n), &xyz[0], &xyz[n], &xyz[2*n], &success[0])
	c.CPLErrorReset()
	for i := range points {
		p := &points[i]
		p.x, p.y = xyz[i], xyz[n+i]
		var ok bool
		p.col, p.row, ok = f.grid.Transform.Invert(p.x, p.y)
		if success[i] == 0 || !ok || p.col-p.col != 0 || p.row-p.row != 0 {
			return false
		}
	}
	return true
}

// straight reports whether an edge with three points between its ends is straight on the grid, or
// not longer than a pixel.
func (f *edgeFollower) straight(a *edgePoint, three []edgePoint, b *edgePoint) bool {
	path, last := 0.0, a
	for i := range 4 {
		p := b
		if i < 3 {
			p = &three[i]
		}
		path += math.Hypot(p.col-last.col, p.row-last.row)
		last = p
	}
	if path <= 1 {
		return true
	}
	dx, dy := b.col-a.col, b.row-a.row
	length := math.Hypot(dx, dy)
	if length == 0 {
		return false
	}
	g := &f.grid.Transform
	largest := max(math.Abs(a.x), math.Abs(a.y), math.Abs(b.x), math.Abs(b.y))
	pixel := min(math.Hypot(g[1], g[4]), math.Hypot(g[2], g[5]))
	most := max(straightTo, float64(roundingShare*largest)/pixel)
	for i := range three {
		x, y := three[i].col-a.col, three[i].row-a.row
		if math.Abs(float64(x*dy)-float64(y*dx))/length > most {
			return false
		}
		// Points in even steps; otherwise the edge turns back or is cut in two.
		along := (float64(x*dx) + float64(y*dy)) / length / length
		if math.Abs(along-float64(0.25*float64(i+1))) > 0.2 {
			return false
		}
	}
	return true
}

// followsEdges reports whether r is a cutline in another CRS than the grid's.
func (r *VectorRequest) followsEdges(layer *VectorLayer, g raster.Grid) bool {
	return r.Cutline && !layer.CRS.IsZero() && !g.CRS.IsZero() && !SameCRS(layer.CRS, g.CRS)
}
