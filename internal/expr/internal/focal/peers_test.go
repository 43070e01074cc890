package focal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/internal/pytest"
)

// peerRaster is a raster as the scripts read it.
type peerRaster struct {
	Rows, Columns int
	Values        []float64
	Valid         []byte
	Footprints    [][][]int
	Weights       [][]float64
	Cell          [2]float64
	Light         [2]float64
}

// peerResults are the names of functions and their results, null where invalid.
type peerResults []struct {
	Name   string
	Of     int // footprint
	Values []*float64
}

func (p raster) forPeer() peerRaster {
	return peerRaster{Rows: p.rows, Columns: p.columns, Values: p.values, Valid: p.valid}
}

// compare compares results of a peer with those of the functions. A share of the pixels can have a
// larger error than limit allows, of up to most.
func (results peerResults) compare(t *testing.T, p raster, all func(of int) []function,
	limit func(name string) (most, share float64)) {
	t.Helper()
	var s Scratch
	r := rand.New(rand.NewPCG(1, 1))
	for _, result := range results {
		fs := all(result.Of)
		i := slices.IndexFunc(fs, func(f function) bool { return f.name == result.Name })
		if i < 0 {
			t.Fatalf("no function %s", result.Name)
		}
		b := compute(t, r, fs[i], fs[i].float32s, p, 0, 0, p.rows, p.columns, &s)
		most, share := limit(result.Name)
		different, seen := 0, 0
		for i, want := range result.Values {
			valid := b.Valid == nil || b.Valid[i] != 0
			if valid != (want != nil) {
				t.Fatalf("%s: pixel %d is valid: %v", result.Name, i, valid)
			}
			if !valid {
				continue
			}
			seen++
			difference := math.Abs(float64(b.Values[i]) - *want)
			if result.Name == "aspect" {
				difference = min(difference, 360-difference)
			}
			if difference > 1e-6*math.Abs(*want) {
				different++
			}
			if !(difference <= most*max(1, math.Abs(*want))) {
				t.Fatalf("%s, footprint %d: %v at pixel %d, expected %v", result.Name, result.Of, b.Values[i], i, *want)
			}
		}
		if float64(different) > share*float64(seen) || seen < len(result.Values)/3 {
			t.Errorf("%s, footprint %d: %d of %d pixels differ", result.Name, result.Of, different, seen)
		}
	}
}

func TestStatisticsEqualSciPy(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	p := randomRaster(r, "integers", 40, 50, 0.1)
	for i := range p.values {
		p.values[i] = math.Round(p.values[i] / 1000)
	}
	in := p.forPeer()
	in.Weights = [][]float64{{1, 2, 0.5}, {0, -1, 4}, {3, 0, -2}}
	var footprints []Footprint
	for _, radius := range []float64{1, 2.3, 5} {
		f, err := Disk(radius)
		if err != nil {
			t.Fatal(err)
		}
		footprints = append(footprints, f)
	}
	footprints = append(footprints, Square(1), Square(3), Square(11))
	for _, f := range footprints {
		_, sides := f.Margin()
		var rows [][]int
		for _, h := range f.half {
			row := make([]int, 2*sides+1)
			for i := sides - h; i <= sides+h; i++ {
				row[i] = 1
			}
			rows = append(rows, row)
		}
		in.Footprints = append(in.Footprints, rows)
	}
	var results peerResults
	pytest.Run(t, []string{"numpy", "scipy.ndimage"}, `
import json, sys
import numpy as np
from scipy import ndimage as nd
c = json.load(sys.stdin)
shape = c["Rows"], c["Columns"]
import base64
ok = np.frombuffer(base64.b64decode(c["Valid"]), "u1").reshape(shape) != 0
x = np.array(c["Values"], float).reshape(shape)
results = []
def put(name, of, values, valid):
    cells = zip(values.ravel(), valid.ravel())
    results.append(dict(Name=name, Of=of, Values=[float(v) if k else None for v, k in cells]))
def mode(v):
    values, n = np.unique(v[~np.isnan(v)], return_counts=True)
    return values[n.argmax()] if len(values) else 0
for i, f in enumerate(c["Footprints"]):
    f = np.array(f)
    add = lambda v: nd.correlate(v, f.astype(float), mode="constant")
    n = np.rint(add(ok.astype(float)))
    some = n > 0
    put("count", i, n, n >= 0)
    total = add(np.where(ok, x, 0))
    mean = total / np.maximum(n, 1)
    put("sum", i, total, some)
    put("mean", i, mean, some)
    put("std", i, np.sqrt(np.maximum(0, add(np.where(ok, x * x, 0)) / np.maximum(n, 1) - mean * mean)), some)
    low = nd.minimum_filter(np.where(ok, x, np.inf), footprint=f, mode="constant", cval=np.inf)
    high = nd.maximum_filter(np.where(ok, x, -np.inf), footprint=f, mode="constant", cval=-np.inf)
    put("min", i, low, some)
    put("max", i, high, some)
    put("range", i, high - low, some)
    holes = np.where(ok, x, np.nan)
    each = lambda g: nd.generic_filter(holes, g, footprint=f, mode="constant", cval=np.nan)
    put("median", i, each(np.nanmedian), some)
    put("mode", i, each(mode), some)
w = np.array(c["Weights"])
put("convolve", 0, nd.correlate(np.where(ok, x, 0), w, mode="constant"),
    nd.correlate((~ok).astype(int), (w != 0).astype(int), mode="constant", cval=1) == 0)
print(json.dumps(results))
`, in, &results)
	results.compare(t, p, func(of int) []function { return functions(footprints[of], in.Weights) },
		func(name string) (most, share float64) {
			if name == "std" {
				return 1e-5, 0.001
			}
			return 1e-7, 0
		})
}

func TestTerrainEqualsGDAL(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	p := randomRaster(r, "floats", 60, 70, 0.02)
	for i := range p.values {
		x, y := float64(i%p.columns), float64(i/p.columns)
		p.values[i] = float64(float32(1000 + p.values[i]/20 + 300*math.Sin(x/9)*math.Cos(y/7)))
		if y < 10 {
			p.values[i] = 70
		}
	}
	in := p.forPeer()
	in.Cell, in.Light = [2]float64{cell.X, cell.Y}, [2]float64{azimuth, altitude}
	in.Weights = [][]float64{{cell.Scale}}
	var results peerResults
	pytest.Run(t, []string{"numpy", "osgeo.gdal"}, `
import base64, json, sys
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
c = json.load(sys.stdin)
shape = c["Rows"], c["Columns"]
ok = np.frombuffer(base64.b64decode(c["Valid"]), "u1").reshape(shape) != 0
x = np.where(ok, np.array(c["Values"], float).reshape(shape), -9999)
def dataset(width, height):
    d = gdal.GetDriverByName("MEM").Create("", shape[1], shape[0], 1, gdal.GDT_Float32)
    d.SetGeoTransform([500000, width, 0, 4000000, 0, height])
    d.GetRasterBand(1).WriteArray(x)
    d.GetRasterBand(1).SetNoDataValue(-9999)
    return d
results = []
def put(name, d, **options):
    mode = {"tpi": "TPI", "tri": "TRI", "roughness": "Roughness"}.get(name, name)
    r = gdal.DEMProcessing("", d, mode, format="MEM", **options)
    b = r.GetRasterBand(1)
    v, none = b.ReadAsArray(), b.GetNoDataValue()
    results.append(dict(Name=name, Of=0, Values=[None if k == none else float(k) for k in v.ravel()]))
width, height = c["Cell"]
scale = c["Weights"][0][0]
d = dataset(width, height)
put("slope", d, scale=scale)
put("hillshade", d, scale=scale, azimuth=c["Light"][0], altitude=c["Light"][1])
for name in ("tpi", "tri", "roughness"):
    put(name, d)
put("aspect", dataset(10, -10)) # gdaldem takes pixels for squares
print(json.dumps(results))
`, in, &results)
	square := CellSize{10, -10, 1}
	results.compare(t, p, func(int) []function {
		all := functions(Square(3), [][]float64{{1}})
		for i := range all {
			if all[i].name == "aspect" {
				all[i].float32s = func(d, p *Plane[float32], s *Scratch) { Aspect(d, p, square, s) }
			}
		}
		return all
	}, func(name string) (most, share float64) {
		// GDAL computes sums in float32 and hillshade with an approximate square root.
		switch name {
		case "hillshade":
			return 1, 0.002
		case "roughness":
			return 0, 0
		}
		return 2e-4, 1
	})
}
