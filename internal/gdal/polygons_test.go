package gdal

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

// polygonTruth makes polygons with GDAL's programs. Groups that gdal_sieve.py leaves small become
// nodata before gdal_polygonize.py sees them.
const polygonTruth = `
import json, os, subprocess, sys
from osgeo import gdal, ogr
gdal.UseExceptions()
ogr.UseExceptions()
result = []
for c in json.load(sys.stdin):
    path, eight = c["path"], ["-8"] if c["diagonals"] else []
    if c["sieve"] > 1:
        sieved = path + ".sieved.tif"
        subprocess.run(["gdal_sieve.py", "-q", "-st", str(c["sieve"])] + eight + [path, sieved], check=True)
        d = gdal.Open(sieved, gdal.GA_Update)
        b = d.GetRasterBand(1)
        nodata = b.GetNoDataValue()
        a = b.ReadAsArray()
        rows, cols = a.shape
        seen = set()
        steps = [(0, 1), (1, 0), (0, -1), (-1, 0)] + ([(1, 1), (1, -1), (-1, 1), (-1, -1)] if eight else [])
        for y in range(rows):
            for x in range(cols):
                if (y, x) in seen or a[y, x] == nodata:
                    continue
                group, todo = [], [(y, x)]
                seen.add((y, x))
                while todo:
                    r, k = todo.pop()
                    group.append((r, k))
                    for dr, dk in steps:
                        n = (r + dr, k + dk)
                        if 0 <= n[0] < rows and 0 <= n[1] < cols and n not in seen and a[n] == a[y, x]:
                            seen.add(n)
                            todo.append(n)
                if len(group) < c["sieve"]:
                    for p in group:
                        a[p] = nodata
        b.WriteArray(a)
        d = b = None
        path = sieved
    out = path + ".gpkg"
    subprocess.run(["gdal_polygonize.py", "-q"] + eight + [path, "-f", "GPKG", out], check=True, stdout=subprocess.DEVNULL)
    d = ogr.Open(out)
    result.append(sorted([f.GetField("DN"), f.GetGeometryRef().ExportToIsoWkb().hex()] for f in d.GetLayer(0)))
    d = None
json.dump(result, sys.stdout)
`

type polygonCase struct {
	Path      string `json:"path"` // of the raster for GDAL's programs
	Sieve     int    `json:"sieve"`
	Diagonals bool   `json:"diagonals"`

	grid   raster.Grid
	labels []int32
	memory int64
}

// write writes the polygons of a case and returns their number.
func (p *polygonCase) write(ctx context.Context, path, driver string) (n int64, err error) {
	o := Polygons{Driver: driver, Sieve: p.Sieve, Diagonals: p.Diagonals, MemoryBytes: p.memory}
	w, err := o.Raster(path, p.grid)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Discard()) }()
	a := ndarray.FromSlice(p.labels, 1, p.grid.Height, p.grid.Width)
	if err := w.WriteBlock(ctx, p.grid.Window(), a); err != nil {
		return 0, err
	}
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	n, err = w.Polygonize(ctx, &o, p.grid.CRS, f, path)
	return n, errors.Join(err, f.Close())
}

// writeLabels writes the raster of a case for GDAL's programs, with another nodata value.
func (p *polygonCase) writeLabels(t *testing.T) {
	t.Helper()
	const nodata = 9999
	w, err := Create(p.Path, &Spec{Driver: "GTiff", Grid: p.grid, Bands: 1, Type: ndarray.Int32,
		Nodata: new(ndarray.ScalarOf(int32(nodata)))})
	if err != nil {
		t.Fatal(err)
	}
	a := ndarray.New(ndarray.Int32, 1, p.grid.Height, p.grid.Width)
	for i, v := range p.labels {
		if v == PolygonNodata {
			v = nodata
		}
		ndarray.Cast[int32](a.Data)[i] = v
	}
	if err := errors.Join(w.WriteBlock(t.Context(), p.grid.Window(), a), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// readPolygons returns value and WKB of the polygons of a file, in order.
func readPolygons(t *testing.T, path string, g raster.Grid) (list [][2]any) {
	t.Helper()
	_, err := ReadFeatures(t.Context(), VectorRequest{Path: path}, []string{"value"}, g, func(f *Feature) error {
		list = append(list, [2]any{float64(f.Values[0].(int64)), fmt.Sprintf("%x", f.WKB)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// labels returns random labels of some size of patches, a part of them invalid.
func labels(r *rand.Rand, width, height, values, patch int, invalid float64) []int32 {
	across := width/patch + 1
	coarse := make([]int32, across*(height/patch+1))
	for i := range coarse {
		if coarse[i] = int32(r.IntN(values)) - 1; r.Float64() < invalid {
			coarse[i] = PolygonNodata
		}
	}
	list := make([]int32, width*height)
	for i := range list {
		list[i] = coarse[i/width/patch*across+i%width/patch]
		if r.IntN(10) == 0 { // grains
			list[i] = int32(r.IntN(values)) - 1
		}
	}
	return list
}

func TestPolygonsEqualGDALPrograms(t *testing.T) {
	need(t, "GPKG")
	pytest.Python(t, "osgeo")
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	var cases []*polygonCase
	for i := range 12 {
		g := utm(1+r.IntN(70), 1+r.IntN(60))
		if i%3 == 0 { // not north up
			g.Transform = raster.Transform{4.5e5, 0.1, 0.3, 5e6, 0.7, -0.31}
		}
		p := &polygonCase{Path: filepath.Join(dir, fmt.Sprintf("%d.tif", i)), Sieve: []int{0, 1, 4, 12}[i%4],
			Diagonals: i%8 >= 4, grid: g, labels: labels(r, g.Width, g.Height, 2+i%3, 1+i%5, float64(i%2)*0.4)}
		p.writeLabels(t)
		cases = append(cases, p)
	}
	if p := landsatCase(t, filepath.Join(dir, "landsat.tif")); p != nil {
		cases = append(cases, p)
	}
	var want [][][2]any
	pytest.Run(t, []string{"osgeo"}, polygonTruth, cases, &want)
	for i, p := range cases {
		path := filepath.Join(dir, fmt.Sprintf("%d.gpkg", i))
		n, err := p.write(t.Context(), path, FormatGeoPackage)
		if err != nil {
			t.Fatal(err)
		}
		checkClean(t, path)
		got := readPolygons(t, path, p.grid)
		if int(n) != len(got) {
			t.Errorf("case %d: %d polygons, said to be %d", i, len(got), n)
		}
		sortPolygons(got)
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("case %d, sieve %d, diagonals %v, %d x %d: %s", i, p.Sieve, p.Diagonals, p.grid.Width, p.grid.Height, diff)
		}
	}
}

// landsatCase returns a case of quality flags of a real scene, nil if it is not here.
func landsatCase(t *testing.T, path string) *polygonCase {
	t.Helper()
	scene := filepath.Join("../../../shared/data/landsat8/l8_BQA.tif")
	if _, err := os.Stat(scene); err != nil {
		t.Log("the real scene is not here: ", err)
		return nil
	}
	f := open(t, scene)
	g := f.Info().Grid
	win := raster.Window{Col: g.Width / 3, Row: g.Height / 3, Width: min(250, g.Width/3), Height: min(200, g.Height/3)}
	a := ndarray.New(ndarray.Uint16, 1, win.Height, win.Width)
	if err := f.Read(t.Context(), []int{1}, win, a); err != nil {
		t.Fatal(err)
	}
	p := &polygonCase{Path: path, Sieve: 5, grid: g}
	p.grid.Width, p.grid.Height, p.grid.Transform = win.Width, win.Height, g.Transform.Shift(win.Col, win.Row)
	for _, v := range ndarray.Cast[uint16](a.Data) {
		p.labels = append(p.labels, int32(v))
	}
	p.writeLabels(t)
	return p
}

func sortPolygons(list [][2]any) {
	slices.SortFunc(list, func(a, b [2]any) int {
		return stdcmp.Or(stdcmp.Compare(a[0].(float64), b[0].(float64)), stdcmp.Compare(a[1].(string), b[1].(string)))
	})
}

// TestPolygonTilesFitCache checks that GDAL's smallest cache holds a row of tiles, since all passes
// read rows of pixels.
func TestPolygonTilesFitCache(t *testing.T) {
	need(t, "GTiff")
	for _, c := range []struct{ width, height, tileWidth, tileHeight int }{{3, 5, 16, 16}, {512, 513, 512, 512},
		{700, 200, 512, 256}, {10980, 10980, 512, 64}, {100000, 20, 512, 16}} {
		w, err := (&Polygons{Driver: FormatGeoPackage}).Raster(filepath.Join(t.TempDir(), "a.gpkg"), utm(c.width, c.height))
		if err != nil {
			t.Fatal(err)
		}
		if bw, bh := w.BlockSize(); bw != c.tileWidth || bh != c.tileHeight || 4*bh*c.width > 8<<20 {
			t.Errorf("%d x %d pixels: tiles of %d x %d, expected %d x %d", c.width, c.height, bw, bh, c.tileWidth, c.tileHeight)
		}
		if err := w.Discard(); err != nil {
			t.Error(err)
		}
	}
}

// TestOutlineMeter compares parts, groups and corners of random pixels with those found one by one.
func TestOutlineMeter(t *testing.T) {
	need(t, "GTiff")
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 200 {
		width, height, diagonals := 1+r.IntN(12), 1+r.IntN(emitRows-2), i%2 == 0
		list := labels(r, width, height, 2+i%3, 1+i%3, float64(i%4)/5)
		m := newOutlineMeter(width, diagonals)
		m.invalid = i%3 == 0
		for y := range height {
			m.add(list[y*width : (y+1)*width])
		}
		m.finish()
		at := func(x, y int) int64 {
			if x < 0 || y < 0 || x >= width || y >= height {
				return outsidePixel
			}
			return int64(list[y*width+x])
		}
		var parts, groups, corners int64
		seen := map[[2]int]bool{}
		var fill func(x, y int)
		fill = func(x, y int) {
			seen[[2]int{x, y}] = true
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					if (diagonals || dx*dy == 0) && at(x+dx, y+dy) == at(x, y) && !seen[[2]int{x + dx, y + dy}] {
						fill(x+dx, y+dy)
					}
				}
			}
		}
		for y := range height {
			for x := range width {
				v := at(x, y)
				if at(x-1, y) != v && at(x, y-1) != v && (!diagonals || at(x-1, y-1) != v && at(x+1, y-1) != v) {
					parts++
				}
				if v == int64(PolygonNodata) && !m.invalid {
					continue
				}
				if v != int64(PolygonNodata) && !seen[[2]int{x, y}] {
					groups++
					fill(x, y)
				}
				for _, d := range [][2]int{{-1, -1}, {1, -1}, {-1, 1}, {1, 1}} {
					side, over, across := at(x+d[0], y) == v, at(x, y+d[1]) == v, at(x+d[0], y+d[1]) == v
					if !side && !over || side && over && !across {
						corners++
					}
				}
			}
		}
		// GDAL writes no polygon of so few rows before the last one.
		if m.parts != parts || m.groups != groups || m.peak != corners {
			t.Fatalf("%d x %d, diagonals %v, %v: %d parts, %d groups, %d corners, expected %d, %d, %d", width, height,
				diagonals, list, m.parts, m.groups, m.peak, parts, groups, corners)
		}
	}
}

// TestOutlinesOfCompletePolygonsTakeNoMemory checks that the corners of a tall raster of small
// groups are those of some rows, and that those of a comb are all.
func TestOutlinesOfCompletePolygonsTakeNoMemory(t *testing.T) {
	need(t, "GTiff")
	const width, height = 40, 400
	for what, c := range map[string]struct {
		value                      func(x, y int) int32
		least, most, groups, parts int64
		diagonals                  bool
	}{
		"single pixels": {value: func(x, y int) int32 { return int32((x + y) % 2) }, least: 4 * width * emitRows,
			most: 4 * width * (emitRows + 4), groups: width * height, parts: width * height},
		"checkerboard": {value: func(x, y int) int32 { return int32((x + y) % 2) }, least: 4 * width * height,
			most: 4 * width * height, groups: 2, parts: width, diagonals: true},
		"columns": {value: func(x, _ int) int32 { return int32(x) }, least: 4 * width, most: 4 * width,
			groups: width, parts: width},
	} {
		m := newOutlineMeter(width, c.diagonals)
		row := make([]int32, width)
		for y := range height {
			for x := range row {
				row[x] = c.value(x, y)
			}
			m.add(row)
		}
		m.finish()
		if m.peak < c.least || m.peak > c.most || m.groups != c.groups || m.parts < c.groups || m.parts > c.parts {
			t.Errorf("%s: %d corners, %d groups, %d parts", what, m.peak, m.groups, m.parts)
		}
	}
}

func TestPolygonMemory(t *testing.T) {
	need(t, "GPKG")
	const side = 200
	g := utm(side, side)
	board := make([]int32, side*side)
	for i := range board {
		board[i] = int32((i%side + i/side) % 2)
	}
	path := filepath.Join(t.TempDir(), "a.gpkg")
	for _, c := range []struct {
		sieve           int
		diagonals       bool
		groups, corners int64
	}{{0, false, side * side, -1}, {0, true, 2, 4 * side * side}, {3, false, side * side, 0}} {
		p := &polygonCase{grid: g, Sieve: c.sieve, Diagonals: c.diagonals, labels: board, memory: 1 << 10}
		_, err := p.write(t.Context(), path, FormatGeoPackage)
		var e *PolygonMemoryError
		if !errors.As(err, &e) || e.Groups != c.groups || c.corners >= 0 && e.Corners != c.corners ||
			e.Allowed != p.memory {
			t.Errorf("sieve %d, diagonals %v: %v", c.sieve, c.diagonals, err)
			continue
		}
		checkClean(t, path)
		p.memory = e.Bytes
		if _, err := p.write(t.Context(), path, FormatGeoPackage); err != nil {
			t.Errorf("sieve %d, diagonals %v: with the memory that it needs: %v", c.sieve, c.diagonals, err)
		}
	}
}

func TestPolygonsInGeoJSON(t *testing.T) {
	need(t, "GeoJSON")
	dir := t.TempDir()
	g := raster.Grid{Width: 3, Height: 2, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{3, 0.5, 0, 46, 0, -0.5}}
	none := PolygonNodata
	p := &polygonCase{grid: g, labels: []int32{7, 7, none, none, 7, -3}}
	path := filepath.Join(dir, "a.geojson")
	n, err := p.write(t.Context(), path, FormatGeoJSON)
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if got := readPolygons(t, path, g); len(got) != 2 {
		t.Error(got)
	}
	p.grid.CRS = raster.CRS{}
	_, err = p.write(t.Context(), path, FormatGeoJSON)
	holds(t, err, "names no coordinate reference system")
	holds(t, (&Polygons{Driver: FormatGeoJSON}).Check(path, p.grid), "a.geojson", "names no coordinate reference system")
	checkClean(t, path)
	if err := (&Polygons{Driver: FormatGeoPackage}).Check(path, p.grid); err != nil {
		t.Error(err)
	}
}

func TestPolygonsCancelled(t *testing.T) {
	need(t, "GPKG")
	g := utm(300, 300)
	for _, sieve := range []int{0, 5} {
		r := rand.New(rand.NewPCG(1, 1))
		p := &polygonCase{grid: g, Sieve: sieve, labels: labels(r, g.Width, g.Height, 3, 1, 0)}
		path := filepath.Join(t.TempDir(), "a.gpkg")
		for calls := int32(1); calls < 2000; calls *= 3 {
			ctx := &countdown{Context: t.Context()}
			ctx.left.Store(calls)
			if _, err := p.write(ctx, path, FormatGeoPackage); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			checkClean(t, path)
		}
	}
}

// countdown is a context that is cancelled after some calls of Err.
type countdown struct {
	context.Context
	left atomic.Int32
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}
