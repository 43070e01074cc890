package gdal

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"leat/internal/pytest"
	"leat/internal/rastertest"
	"leat/ndarray"
	"leat/raster"
)

// Random pairs of grids: gdalwarp runs with an exact transformation of every pixel (-et 0), with
// leat's scales, and with one chunk for the whole raster.
var (
	warpSeed  = flag.Uint64("warpseed", 1, "seed of the random pairs of grids")
	warpCases = flag.Int("warpcases", 60, "number of random pairs of grids")
)

// warpCase is a pair of grids that the first script created.
type warpCase struct {
	Path   string     `json:"path"`
	CRS    string     `json:"crs"` // of the reference
	Six    [6]float64 `json:"six"`
	Width  int        `json:"width"`
	Height int        `json:"height"`
	Method string     `json:"method"`
	Valid  string     `json:"valid"` // none, nodata, mask, alpha, both
	Where  string     `json:"where"`
	XScale string     `json:"xscale"`
	YScale string     `json:"yscale"`
	Area   bool       `json:"area"` // average and similar methods
}

const makeWarpCases = `
import json, sys, os, random, math
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions(); osr.UseExceptions()
p = json.load(sys.stdin)
r = random.Random(p["seed"])
def srs(code):
    s = osr.SpatialReference()
    s.ImportFromEPSG(code)
    s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return s
places = [ # codes, longitudes, latitudes
    ([32631, 32632, 4326, 3857], (2, 8), (-10, 75)),
    ([32631, 4326, 3857, 3413, 3035], (-20, 30), (45, 80)),
    ([4326, 3413, 32660], (-180, 180), (70, 89.9)),
    ([4326, 3031, 3857], (-180, 180), (-88, -62)),
    ([4326, 3857], (-180, 180), (-70, 70)),
]
types = [gdal.GDT_Byte, gdal.GDT_UInt16, gdal.GDT_Int16, gdal.GDT_Int32, gdal.GDT_UInt32,
         gdal.GDT_Float32, gdal.GDT_Float64]
methods = p["methods"]
out = []
for n in range(p["cases"]):
    codes, lons, lats = r.choice(places)
    a, b = r.choice(codes), r.choice(codes)
    lon, lat = r.uniform(*lons), r.uniform(*lats)
    def at(code, lon, lat):
        x, y, _ = osr.CoordinateTransformation(srs(4326), srs(code)).TransformPoint(lon, lat)
        return x, y
    metres = r.choice([1, 10, 15, 30, 1000, 5000]) * r.uniform(0.7, 1.5)
    def pixel(code, factor):
        m = metres * factor
        return m / 111000.0 if code == 4326 else m
    w, h = r.randint(1, 140), r.randint(1, 140)
    x, y = at(a, lon, lat)
    px = pixel(a, 1); py = px * r.choice([1, 1, 0.8])
    if r.random() < 0.3: x, y, px, py = (round(v / px) * px for v in (x, y, px, py))
    six = [x - w * px / 2, px, 0, y + h * py / 2, 0, -py]
    if r.random() < 0.1: six[5] = py; six[3] = y - h * py / 2
    if r.random() < 0.1: six[2], six[4] = px * 0.3, -py * 0.2
    if a == 4326 and (six[3] > 90 or six[3] - h * py < -90): six[3] = max(min(six[3], 90.0), -90 + h * py)
    typ, bands = r.choice(types), r.choice([1, 1, 3])
    valid = r.choice(["none", "nodata", "nodata", "mask", "alpha", "both"])
    if valid == "alpha": typ, bands = r.choice([gdal.GDT_Byte, gdal.GDT_UInt16]), r.choice([1, 3])
    path = os.path.join(p["dir"], "%d.tif" % n)
    gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
    total = bands + (valid == "alpha")
    d = gdal.GetDriverByName("GTiff").Create(path, w, h, total, typ, ["ALPHA=YES"] if valid == "alpha" else [])
    d.SetGeoTransform(six); d.SetSpatialRef(srs(a))
    g = np.random.RandomState(p["seed"] * 1000 + n)
    top = {gdal.GDT_Byte: 256, gdal.GDT_UInt16: 65536, gdal.GDT_Int16: 32768}.get(typ, 100000)
    low = -top if typ in (gdal.GDT_Int16, gdal.GDT_Int32, gdal.GDT_Float32, gdal.GDT_Float64) else 0
    nodata = r.choice([0, 0, 255 if typ == gdal.GDT_Byte else 1000])
    style = r.choice(["noise", "few", "smooth"])
    for k in range(bands):
        if style == "noise": v = g.uniform(low, top, (h, w))
        elif style == "few": v = g.randint(0, 5, (h, w)) * 10.0
        else: v = (np.add.outer(np.arange(h), np.arange(w)) * 7 + 100 * k) % top
        if valid in ("nodata", "both"):
            v[g.uniform(size=(h, w)) < 0.2] = nodata
            v[h // 3: h // 2, w // 4: w // 2] = nodata
        d.GetRasterBand(k + 1).WriteArray(v.astype(v.dtype if typ > 5 else np.int64))
        if valid in ("nodata", "both"): d.GetRasterBand(k + 1).SetNoDataValue(nodata)
    if valid == "alpha":
        full = 255 if typ == gdal.GDT_Byte else 65535
        v = g.uniform(0, full, (h, w)); v[g.uniform(size=(h, w)) < 0.3] = 0; v[g.uniform(size=(h, w)) < 0.3] = full
        d.GetRasterBand(total).WriteArray(v.astype(np.int64))
        d.GetRasterBand(total).SetColorInterpretation(gdal.GCI_AlphaBand)
    if valid in ("mask", "both"):
        d.CreateMaskBand(gdal.GMF_PER_DATASET)
        m = np.where(g.uniform(size=(h, w)) < 0.3, 0, 255); m[:h // 2, :w // 3] = 0
        d.GetRasterBand(1).GetMaskBand().WriteArray(m.astype(np.uint8))
    d = None
    factor = r.choice([1, 1, r.uniform(0.3, 3), 2, 0.5, 3.3, 7])
    qx, qy = pixel(b, factor), pixel(b, factor * r.choice([1, 1, 1.3]))
    rw, rh = r.randint(1, 150), r.randint(1, 150)
    rx, ry = at(b, lon, lat)
    rx += qx * r.uniform(-40, 40); ry += qy * r.uniform(-40, 40)
    if a == b and r.random() < 0.5:
        k = r.choice([1, 2, 3, 0.5]); qx, qy = px * k, py * k
        rx, ry = x + px * r.randint(-30, 30), y + py * r.randint(-30, 30)
    method = r.choice(methods)
    if method == "mode" and typ in (gdal.GDT_Float64, gdal.GDT_Int16): # no values that GDAL changes
        d = gdal.Open(path, gdal.GA_Update)
        for k in range(bands):
            v = d.GetRasterBand(k + 1).ReadAsArray().astype(np.float32); v[v == -1] = 2
            d.GetRasterBand(k + 1).WriteArray(v)
        d = None
    out.append(dict(path=path, crs="EPSG:%d" % b, six=[rx - rw * qx / 2, qx, 0, ry + rh * qy / 2, 0, -qy], width=rw, height=rh, method=method, valid=valid,
        where="EPSG:%d %dx%d at %.3f,%.3f, %s, %d bands of %s, %s" % (a, w, h, lon, lat, six, bands, gdal.GetDataTypeName(typ), style)))
json.dump(out, sys.stdout)
`

const warpTruth = `
import json, sys, base64
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    src = gdal.Open(c["path"])
    s = osr.SpatialReference(); s.SetFromUserInput(c["crs"]); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    def target(bands, typ):
        d = gdal.GetDriverByName("MEM").Create("", before + c["width"] + after, before + c["height"] + after, bands, typ)
        x, px, _, y, _, py = c["six"]
        d.SetGeoTransform([x - before * px, px, 0, y - before * py, 0, py]); d.SetSpatialRef(s)
        return d
    alpha = c["valid"] == "alpha"
    n, typ = src.RasterCount, src.GetRasterBand(1).DataType
    nodata = src.GetRasterBand(1).GetNoDataValue()
    # One chunk that reads all of the source: gdalwarp cuts what the target has little of into chunks,
    # which loses pixels that
    # lie on the source's edge, and gives each chunk as much of the source as 21 points on each of its edges tell.
    wo = ["XSCALE=" + c["xscale"], "YSCALE=" + c["yscale"], "SRC_FILL_RATIO_HEURISTICS=NO", "SOURCE_EXTRA=1000"]
    kw = dict(errorThreshold=0, resampleAlg=c["method"], warpOptions=wo, warpMemoryLimit=2000)
    if c["valid"] == "both":
        # One band with a mask and nodata: as two, so that both count in all chunks.
        wo.append("UNIFIED_SRC_NODATA=NO")
        if n == 1:
            src = gdal.Translate("", src, format="VRT", bandList=[1, 1], noData=nodata, maskBand="mask")
    # Pixels next to the source, which average and the like give too, are left out of a chunk with no
    # others: then the target is made larger, on
    # the sides first that leave coordinates as they are.
    for before, after in [(0, 0), (0, 8), (8, 8)] if c["area"] else [(0, 0)]:
        d = target(src.RasterCount, typ)
        if alpha:
            d.GetRasterBand(n).SetColorInterpretation(gdal.GCI_AlphaBand)
        elif nodata is not None:
            for k in range(d.RasterCount):
                d.GetRasterBand(k + 1).SetNoDataValue(nodata); d.GetRasterBand(k + 1).Fill(nodata)
        gdal.Warp(d, src, **kw)
        pixels = d.ReadAsArray(band_list=list(range(1, n + 1))) if n > 1 else d.GetRasterBand(1).ReadAsArray()[None]
        if c["valid"] in ("none", "mask"):
            m = target(n + 1, typ); m.GetRasterBand(n + 1).SetColorInterpretation(gdal.GCI_AlphaBand)
            gdal.Warp(m, src, dstAlpha=True, **kw)
            valid = m.GetRasterBand(n + 1).ReadAsArray() > 0
        elif alpha:
            valid = pixels[-1] > 0
        else:
            valid = (pixels != nodata).any(axis=0)
        own = np.s_[..., before:before + c["height"], before:before + c["width"]]
        pixels, valid = pixels[own], valid[own]
        if valid.any(): break
    out.append(dict(pixels=base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode(),
                    valid=base64.b64encode(np.ascontiguousarray(valid).astype(np.uint8).tobytes()).decode()))
json.dump(out, sys.stdout)
`

func (k warpCase) grid() raster.Grid {
	return raster.Grid{Width: k.Width, Height: k.Height, Transform: k.Six, HasTransform: true,
		CRS: raster.CRS{Code: k.CRS}}
}

func (k warpCase) String() string {
	return fmt.Sprintf("%s (%s, %s) %s by %s onto %s %v %dx%d, scales %s %s", filepath.Base(k.Path), k.Valid, k.Where,
		"", k.Method, k.CRS, k.Six, k.Width, k.Height, k.XScale, k.YScale)
}

// needGDAL skips a test without the library.
func needGDAL(t testing.TB) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip(err)
	}
}

func allBands(info *raster.Info) []int {
	bands := make([]int, len(info.Bands))
	for i := range bands {
		bands[i] = i + 1
	}
	return bands
}

// randomPairs creates cases, and opens them.
func randomPairs(t *testing.T, seed uint64, cases int) ([]warpCase, []*Warped) {
	t.Helper()
	needGDAL(t)
	var list []warpCase
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeWarpCases,
		map[string]any{"seed": seed, "cases": cases, "dir": t.TempDir(),
			"methods": []string{"near", "bilinear", "cubic", "cubicspline", "lanczos", "average", "mode", "min", "max",
				"med", "rms", "q1", "q3"}}, &list)
	var warped []*Warped
	var kept []warpCase
	for i := range list {
		k := &list[i]
		w, err := Warp(k.Path, &WarpOptions{Grid: k.grid(), Method: k.Method})
		if err != nil && strings.Contains(err.Error(), "times as wide as a pixel of that grid") {
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		t.Cleanup(func() { w.Close() })
		// GDAL has alpha bands only from column and row 0 on, so the reference starts where the
		// raster does.
		if w.shift != [2]int{} {
			g := k.grid().Sub(raster.Window{Col: -w.shift[0], Row: -w.shift[1], Width: k.Width + w.shift[0],
				Height: k.Height + w.shift[1]})
			k.Six, k.Width, k.Height = g.Transform, g.Width, g.Height
			w.Close()
			if w, err = Warp(k.Path, &WarpOptions{Grid: g, Method: k.Method}); err != nil {
				t.Fatalf("%v: %v", k, err)
			}
		}
		x, y := w.Scales()
		k.XScale, k.YScale = strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(y, 'g', -1, 64)
		k.Area = w.method.area
		warped, kept = append(warped, w), append(kept, *k)
	}
	return kept, warped
}

// onReference is the part of a warped raster on its reference's own pixels: all bands and validity.
func onReference(t testing.TB, w *Warped, g raster.Grid) (pixels *ndarray.Array, valid []byte) {
	t.Helper()
	info := w.Info()
	pixels = ndarray.New(info.Bands[0].Type, len(info.Bands), g.Height, g.Width)
	for b := range info.Bands {
		copy(pixels.At(b).Raw(), bytes.Repeat(w.fillValue(b+1), g.Width*g.Height))
	}
	valid = make([]byte, g.Width*g.Height)
	col, row := w.Offset()
	have := g.Window().Intersect(info.Grid.Window().Shift(col, row))
	if have.Empty() {
		return pixels, valid
	}
	bands, size := allBands(info), pixels.Type.Size()
	got := &ndarray.Array{Type: pixels.Type, Data: pixels.Data, Strides: pixels.Strides,
		Shape: []int{len(bands), have.Height, have.Width}, Offset: (have.Row*g.Width + have.Col) * size}
	if err := w.Read(t.Context(), bands, have.Shift(-col, -row), got); err != nil {
		t.Fatal(err)
	}
	mask := bytes.Repeat([]byte{255}, int(have.Pixels()))
	if info.Mask == raster.MaskDataset {
		if err := w.ReadMask(t.Context(), have.Shift(-col, -row), mask); err != nil {
			t.Fatal(err)
		}
	}
	for y := range have.Height {
		for x := range have.Width {
			at := (have.Row+y)*g.Width + have.Col + x
			if mask[y*have.Width+x] == 0 {
				continue
			}
			for b, band := range info.Bands {
				pixel := pixels.At(b).Raw()[at*size:][:size]
				counts := true
				switch {
				case info.Mask == raster.MaskAlpha:
					counts = b == len(info.Bands)-1 && !bytes.Equal(pixel, make([]byte, size))
				case band.Nodata != nil:
					counts = !bytes.Equal(pixel, w.fillValue(b+1))
				}
				if counts {
					valid[at] = 1
				}
			}
		}
	}
	return pixels, valid
}

func TestWarpEqualsGdalwarpRandomGrids(t *testing.T) {
	list, warped := randomPairs(t, *warpSeed, *warpCases)
	var truth []struct{ Pixels, Valid string }
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, warpTruth, list, &truth)
	filled := 0
	for i, k := range list {
		got, valid := onReference(t, warped[i], k.grid())
		want, _ := base64.StdEncoding.DecodeString(truth[i].Pixels)
		wantValid, _ := base64.StdEncoding.DecodeString(truth[i].Valid)
		filled += bytes.Count(wantValid, []byte{1})
		withoutRim(t, k.String(), warped[i], got, want, valid, wantValid)
		differ(t, k.String(), got, want, valid, wantValid)
	}
	if filled < 1000 {
		t.Errorf("%d valid pixels in all: the test compares nothing", filled)
	}
}

// withoutRim removes from the truth what average and similar methods give to pixels outside the
// input, up to one of its own pixels away: leat has none that would form a column or row of their
// own.
func withoutRim(t testing.TB, name string, w *Warped, got *ndarray.Array, want, valid, wantValid []byte) {
	t.Helper()
	if !w.method.area {
		return
	}
	col, row := w.Offset()
	g := w.Info().Grid
	xs, ys := w.Scales()
	within := raster.Window{Col: col, Row: row, Width: g.Width, Height: g.Height}
	rim := within.Grow(int(math.Ceil(2*max(xs, ys))) + 4) // more than a pixel at rotated corners
	height, width, size := got.Shape[1], got.Shape[2], got.Type.Size()
	h, err := w.src.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.src.release(h)
	l, err := w.transformer(h)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i := range wantValid {
		at := raster.Window{Col: i % width, Row: i / width % height, Width: 1, Height: 1}
		if wantValid[i] == 0 || within.Contains(at) {
			continue
		}
		if taken++; !rim.Contains(at) {
			t.Errorf("%s: gdalwarp gives column %d, row %d, outside %v", name, at.Col, at.Row, within)
			return
		}
		x, y, ok := []float64{float64(at.Col), float64(at.Col + 1)}, []float64{float64(at.Row), float64(at.Row + 1)},
			make([]bool, 2)
		if err := l.toInput(x, y, ok); err != nil {
			t.Fatal(err)
		}
		const rounding = 1e-6
		if overlap(x, w.size.Width) > rounding && overlap(y, w.size.Height) > rounding {
			t.Errorf("%s: column %d, row %d lies on the input and is left out", name, at.Col, at.Row)
			return
		}
		wantValid[i] = 0
		for b := range got.Shape[0] {
			p := (b*height*width + i%(height*width)) * size
			copy(want[p:p+size], got.Raw()[p:p+size])
		}
	}
	if given := bytes.Count(wantValid, []byte{1}); taken > 0 && given == 0 && len(wantValid) > 100*taken {
		t.Errorf("%s: all %d pixels that gdalwarp gives were taken for a rim", name, taken)
	}
}

// overlap returns how much of n pixels lies between two coordinates.
func overlap(between []float64, n int) float64 {
	return min(slices.Max(between), float64(n)) - max(slices.Min(between), 0)
}

// differ compares pixels and validity, and reports the first difference of each.
func differ(t testing.TB, name string, got *ndarray.Array, want, valid, wantValid []byte) {
	t.Helper()
	height, width, size := got.Shape[1], got.Shape[2], got.Type.Size()
	raw := got.Raw()
	if len(raw) != len(want) {
		t.Fatalf("%s: %d bytes, not %d", name, len(raw), len(want))
	}
	n, first := 0, -1
	for p := 0; p < len(raw); p += size {
		if !bytes.Equal(raw[p:p+size], want[p:p+size]) {
			if n++; first < 0 {
				first = p / size
			}
		}
	}
	if n > 0 {
		p := first
		t.Errorf("%s: %d of %d pixels differ; the first, column %d, row %d of band %d, is % x, not % x", name, n,
			len(raw)/size, p%width, p/width%height, p/width/height+1, raw[p*size:(p+1)*size], want[p*size:(p+1)*size])
	}
	n, first = 0, -1
	for p := range valid {
		if valid[p] != wantValid[p] {
			if n++; first < 0 {
				first = p
			}
		}
	}
	if n > 0 {
		t.Errorf("%s: validity of %d of %d pixels differs; the first, column %d, row %d, is %d", name, n, len(valid),
			first%width, first/width, valid[first])
	}
}

// fewer returns few, or all where tests go through all of their cases, as make test-all does.
func fewer(few, all int) int {
	if os.Getenv("LEAT_TEST_DIST") != "" {
		return all
	}
	return few
}

func TestWarpDoesNotDependOnWindows(t *testing.T) {
	list, warped := randomPairs(t, *warpSeed+1000, fewer(10, 30))
	r := rand.New(rand.NewPCG(*warpSeed, 7))
	for i, k := range list {
		w := warped[i]
		info := w.Info()
		g := info.Grid
		if g.Width*g.Height > 1<<20 {
			continue
		}
		bands, size := allBands(info), info.Bands[0].Type.Size()
		whole, mask := ndarray.New(info.Bands[0].Type, len(bands), g.Height, g.Width), make([]byte, g.Width*g.Height)
		if err := w.Read(t.Context(), bands, g.Window(), whole); err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		if info.Mask == raster.MaskDataset {
			if err := w.ReadMask(t.Context(), g.Window(), mask); err != nil {
				t.Fatalf("%v: %v", k, err)
			}
		}
		small, err := Warp(k.Path, &WarpOptions{Grid: k.grid(), Method: k.Method, MaxBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n := range 8 {
			at := raster.Window{Width: 1 + r.IntN(g.Width), Height: 1 + r.IntN(g.Height)}
			at.Col, at.Row = r.IntN(g.Width-at.Width+1), r.IntN(g.Height-at.Height+1)
			some := r.Perm(len(bands))[:1+r.IntN(len(bands))]
			from := w
			if n%2 == 1 {
				from = small
			}
			all.Go(func() {
				numbers := make([]int, len(some))
				for i, b := range some {
					numbers[i] = b + 1
				}
				got, part := ndarray.New(whole.Type, len(some), at.Height, at.Width), make([]byte, at.Width*at.Height)
				if err := from.Read(t.Context(), numbers, at, got); err != nil {
					t.Errorf("%v: %v", k, err)
					return
				}
				if info.Mask == raster.MaskDataset {
					if err := from.ReadMask(t.Context(), at, part); err != nil {
						t.Errorf("%v: %v", k, err)
						return
					}
				}
				for y := range at.Height {
					for i, b := range some {
						a := got.At(i).Raw()[y*at.Width*size:][:at.Width*size]
						e := whole.At(b).Raw()[((at.Row+y)*g.Width+at.Col)*size:][:at.Width*size]
						if !bytes.Equal(a, e) {
							t.Errorf("%v: row %d of band %d of window %v is not that of the whole", k, y, b+1, at)
							return
						}
					}
					if info.Mask == raster.MaskDataset && !bytes.Equal(part[y*at.Width:][:at.Width],
						mask[(at.Row+y)*g.Width+at.Col:][:at.Width]) {
						t.Errorf("%v: row %d of the mask of window %v is not that of the whole", k, y, at)
						return
					}
				}
			})
		}
		all.Wait()
		small.Close()
	}
}

func TestFootprintEdges(t *testing.T) {
	list, warped := randomPairs(t, *warpSeed+2000, 40)
	n := 0
	for i, k := range list {
		w := warped[i]
		g := w.Info().Grid
		if k.Valid != "none" || g.Width*g.Height > 1<<20 {
			continue
		}
		mask := make([]byte, g.Width*g.Height)
		if err := w.ReadMask(t.Context(), g.Window(), mask); err != nil {
			t.Fatal(err)
		}
		count := func(at raster.Window) (given int) {
			for y := range at.Height {
				given += bytes.Count(mask[(at.Row+y)*g.Width+at.Col:][:at.Width], []byte{255})
			}
			return given
		}
		for side, at := range map[string]raster.Window{"left": {Width: 1, Height: g.Height},
			"right": {Col: g.Width - 1, Width: 1, Height: g.Height},
			"top":   {Width: g.Width, Height: 1}, "bottom": {Row: g.Height - 1, Width: g.Width, Height: 1}} {
			if count(at) == 0 && count(g.Window()) > 0 {
				t.Errorf("%v: nothing along the %s of %dx%d pixels", k, side, g.Width, g.Height)
			}
		}
		n++
	}
	if n == 0 {
		t.Error("no case was looked at")
	}
}

func TestWarpedSource(t *testing.T) {
	list, _ := randomPairs(t, *warpSeed+3000, fewer(6, 12))
	for _, k := range list {
		t.Run(filepath.Base(k.Path)+" "+k.Valid, func(t *testing.T) {
			open := func(t testing.TB) raster.Source {
				w, err := Warp(k.Path, &WarpOptions{Grid: k.grid(), Method: k.Method, Handles: 2})
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			w := open(t)
			info := w.Info()
			whole := ndarray.New(info.Bands[0].Type, len(info.Bands), info.Grid.Height, info.Grid.Width)
			if info.Grid.Width*info.Grid.Height > 1<<18 {
				t.Skip("too large")
			}
			if err := w.Read(t.Context(), allBands(info), info.Grid.Window(), whole); err != nil {
				t.Fatal(err)
			}
			w.Close()
			rastertest.Run(t, open, whole)
		})
	}
}

func TestWarpOverviewsOnRequest(t *testing.T) {
	needGDAL(t)
	path := filepath.Join(t.TempDir(), "a.tif")
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, `
import json, sys
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
p = json.load(sys.stdin)
f = gdal.GetDriverByName("GTiff").Create(p, 512, 512, 1, gdal.GDT_UInt16)
f.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
s = osr.SpatialReference(); s.ImportFromEPSG(32631); f.SetSpatialRef(s)
f.GetRasterBand(1).WriteArray(np.random.RandomState(1).randint(0, 60000, (512, 512)))
f.BuildOverviews("AVERAGE", [2, 4, 8])
print("{}")`, path, nil)
	g := raster.Grid{Width: 90, Height: 90, HasTransform: true,
		Transform: raster.Transform{499950, 57, 0, 5000033, 0, -57}, CRS: raster.CRS{Code: "EPSG:32631"}}
	for _, asked := range []bool{false, true} {
		w, err := Warp(path, &WarpOptions{Grid: g, Method: "bilinear", Overviews: asked})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		x, y := w.Scales()
		if got := w.size.Width; asked && got != 128 || !asked && got != 512 {
			t.Errorf("asked %v: %d columns are read", asked, got)
		}
		var truth string
		pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys, base64
from osgeo import gdal, osr
gdal.UseExceptions()
p = json.load(sys.stdin)
s = osr.SpatialReference(); s.ImportFromEPSG(32631)
d = gdal.GetDriverByName("MEM").Create("", 90, 90, 1, gdal.GDT_UInt16); d.SetGeoTransform(p["six"]); d.SetSpatialRef(s)
gdal.Warp(d, p["path"], errorThreshold=0, resampleAlg="bilinear", overviewLevel=p["ovr"], warpOptions=["XSCALE=" + p["x"], "YSCALE=" + p["y"]])
json.dump(base64.b64encode(d.ReadAsArray().tobytes()).decode(), sys.stdout)`,
			map[string]any{"path": path, "six": g.Transform, "ovr": map[bool]string{true: "AUTO", false: "NONE"}[asked],
				"x": strconv.FormatFloat(x, 'g', -1, 64), "y": strconv.FormatFloat(y, 'g', -1, 64)}, &truth)
		got, _ := onReference(t, w, g)
		want, _ := base64.StdEncoding.DecodeString(truth)
		differ(t, fmt.Sprint("asked ", asked), got, want, nil, nil)
	}
}
