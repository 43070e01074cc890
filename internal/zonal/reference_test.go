package zonal

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/block"
	"leat/internal/proctest"
	"leat/internal/pytest"
)

// gdalScript rasterizes polygons with GDAL, computes the area of GEOS's intersections with each
// pixel, and encodes the polygons as WKB.
const gdalScript = `
import json, sys
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
job = json.load(sys.stdin)
n = job["size"]
crs = osr.SpatialReference()
crs.ImportFromEPSG(32632)

def polygon(parts, flip):
    g = ogr.Geometry(ogr.wkbMultiPolygon)
    for rings in parts:
        p = ogr.Geometry(ogr.wkbPolygon)
        for xy in rings:
            r = ogr.Geometry(ogr.wkbLinearRing)
            for i in range(0, len(xy), 2):
                r.AddPoint_2D(xy[i], n - xy[i + 1] if flip else xy[i + 1])
            r.CloseRings()
            p.AddGeometry(r)
        g.AddGeometry(p)
    return g

def rasterize(g, touched):
    ds = gdal.GetDriverByName("MEM").Create("", n, n, 1, gdal.GDT_Byte)
    ds.SetGeoTransform((0, 1, 0, n, 0, -1))
    ds.SetProjection(crs.ExportToWkt())
    source = ogr.GetDriverByName("Memory").CreateDataSource("")
    layer = source.CreateLayer("zones", crs)
    f = ogr.Feature(layer.GetLayerDefn())
    f.SetGeometry(g)
    layer.CreateFeature(f)
    gdal.RasterizeLayer(ds, [1], layer, burn_values=[1], options=["ALL_TOUCHED=TRUE"] if touched else [])
    return np.flatnonzero(ds.ReadAsArray()).tolist()

def areas(g):
    valid = ogr.Geometry(ogr.wkbPolygon)
    for i in range(g.GetGeometryCount()):
        valid = valid.Union(g.GetGeometryRef(i).MakeValid())
    x0, x1, y0, y1 = valid.GetEnvelope()
    out = []
    for r in range(max(int(np.floor(y0)), 0), min(int(np.ceil(y1)), n)):
        for c in range(max(int(np.floor(x0)), 0), min(int(np.ceil(x1)), n)):
            pixel = ogr.CreateGeometryFromWkt(f"POLYGON(({c} {r},{c+1} {r},{c+1} {r+1},{c} {r+1},{c} {r}))")
            a = valid.Intersection(pixel).Area()
            if a > 0:
                out.append([r * n + c, a])
    return out

out = []
for i, parts in enumerate(job["polygons"]):
    g = polygon(parts, True)
    item = {"centre": rasterize(g, False), "touch": rasterize(g, True)}
    plain = polygon(parts, False)
    # MakeValid drops repetitions of an edge, which rounded rings that cross themselves have.
    rounded = all(v * 8 % 1 == 0 for rings in parts for xy in rings for v in xy)
    valid = all(plain.GetGeometryRef(k).IsValid() for k in range(plain.GetGeometryCount()))
    if i < job["areas"] and (valid or not rounded):
        item["areas"] = areas(plain)
    wkb = [plain.ExportToIsoWkb(ogr.wkbNDR), plain.ExportToIsoWkb(ogr.wkbXDR)]
    for code in (ogr.wkbMultiPolygon25D, ogr.wkbMultiPolygonM, ogr.wkbMultiPolygonZM):
        wkb.append(ogr.ForceTo(plain.Clone(), code).ExportToIsoWkb(ogr.wkbXDR))
    wkb.append(ogr.ForceTo(plain.Clone(), ogr.wkbMultiPolygon25D).ExportToWkb(ogr.wkbNDR))
    item["wkb"] = [bytes(b).hex() for b in wkb]
    out.append(item)
json.dump(out, sys.stdout)
`

// TestGDALAgrees compares pixels with gdal_rasterize's, shares with GEOS's areas, and reads WKB
// that GDAL wrote.
func TestGDALAgrees(t *testing.T) {
	const size = 60
	count, areas := proctest.Rounds(80, 300, 1500), proctest.Rounds(12, 40, 200)
	rng := rand.New(rand.NewPCG(8, 1))
	var polygons []*Polygon
	var parts [][][][]float64
	for range count {
		p := randomPolygon(rng)
		for i, v := range p.XY { // so that flipping y is exact
			p.XY[i] = math.Round((v+10)*(1<<30)) / (1 << 30)
		}
		polygons = append(polygons, p)
		var rings [][][]float64
		at, ring := 0, 0
		for _, end := range p.Parts {
			var part [][]float64
			for ; ring < end; ring++ {
				part = append(part, p.XY[at:2*p.Rings[ring]])
				at = 2 * p.Rings[ring]
			}
			rings = append(rings, part)
		}
		parts = append(parts, rings)
	}
	var out []struct {
		Centre, Touch []int
		Areas         [][2]float64
		WKB           []string
	}
	pytest.Run(t, []string{"numpy", "osgeo.gdal"}, gdalScript,
		map[string]any{"size": size, "polygons": parts, "areas": areas}, &out)
	var r Rasterizer
	var m Mask
	cover := func(p *Polygon, rule Rule) []Weight {
		r.Cover(p, block.Window{Width: size, Height: size}, rule, &m)
		return shares(&m, size, size)
	}
	same, differ, compared := 0, 0, 0
	for n, p := range polygons {
		for i, w := range cover(p, ByCentre) {
			if _, want := slices.BinarySearch(out[n].Centre, i); want != (w == One) {
				t.Fatalf("polygon %d %v: pixel %d,%d by centre is %v in GDAL", n, p, i%size, i/size, want)
			}
		}
		box, _ := p.Bounds()
		near := box.Window().Grow(1)
		for i, w := range cover(p, ByTouch) {
			if !near.Contains(block.Window{Col: i % size, Row: i / size, Width: 1, Height: 1}) {
				if w > 0 {
					t.Fatalf("polygon %d %v has the pixel %d,%d", n, parts[n], i%size, i/size)
				}
				continue
			}
			_, gdal := slices.BinarySearch(out[n].Touch, i)
			_, centre := slices.BinarySearch(out[n].Centre, i)
			got, x, y := w == One, float64(i%size), float64(i/size)
			if want := centre || passes(p, x, y, -1e-9); got != want {
				t.Fatalf("polygon %d %v: pixel %v,%v by touch is %v, expected %v", n, parts[n], x, y, got, want)
			}
			// GDAL takes some of the pixels that the boundary only meets at their border, takes the
			// wrong one of two where an edge passes through the corner, and has a tolerance of a
			// hundredth of a pixel.
			if got != gdal && !rounded(p) && passes(p, x, y, 0.011) == passes(p, x, y, -0.011) {
				t.Fatalf("polygon %d %v: pixel %v,%v by touch is %v in GDAL", n, parts[n], x, y, gdal)
			}
			switch {
			case got && gdal:
				same++
			case got != gdal:
				differ++
			}
		}
		if out[n].Areas != nil {
			compared++
			want := make([]float64, size*size)
			for _, a := range out[n].Areas {
				want[int(a[0])] = a[1]
			}
			for i, w := range cover(p, ByCoverage) {
				if math.Abs(w.Float()-want[i]) > 1e-11 {
					t.Fatalf("polygon %d %v: pixel %d,%d has the share %v, GEOS has %v", n, p, i%size, i/size,
						w.Float(), want[i])
				}
			}
		}
		for i, text := range out[n].WKB {
			b, _ := hex.DecodeString(text)
			got, err := ParseWKB(b)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(cover(got, ByCoverage), cover(p, ByCoverage)) || len(got.Parts) != len(p.Parts) {
				t.Fatalf("polygon %d read from WKB, form %d, differs: %v", n, i, got)
			}
		}
	}
	if same < 50*count || differ > same/50 {
		t.Errorf("%d touched pixels are the same in GDAL, %d differ", same, differ)
	}
	if compared < areas/2 {
		t.Errorf("%d polygons were compared with GEOS", compared)
	}
}

// rounded reports whether all coordinates are multiples of 1/8.
func rounded(p *Polygon) bool {
	return !slices.ContainsFunc(p.XY, func(v float64) bool { return v*8 != math.Floor(v*8) })
}

// passes reports whether an edge of p passes through the pixel at x, y, grown by a margin.
func passes(p *Polygon, x, y, margin float64) bool {
	start := 0
	for _, end := range p.Rings {
		for i := start; i < end; i++ {
			j := i + 1
			if j == end {
				j = start
			}
			a, b := p.XY[2*i:2*i+2], p.XY[2*j:2*j+2]
			t0, t1 := 0.0, 1.0 // the part of the edge within the pixel
			for axis, low := range []float64{x, y} {
				lo, hi := low-margin, low+1+margin
				d := b[axis] - a[axis]
				if d == 0 {
					if a[axis] < lo || a[axis] > hi {
						t1 = -1
					}
					continue
				}
				u, v := (lo-a[axis])/d, (hi-a[axis])/d
				t0, t1 = max(t0, min(u, v)), min(t1, max(u, v))
			}
			if t0 <= t1 {
				return true
			}
		}
		start = end
	}
	return false
}
