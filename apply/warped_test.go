package apply

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/georef"
	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
	"leat/worker/subprocess"
)

func needGDAL(t testing.TB) {
	t.Helper()
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
}

// warpCase is a file to be warped onto the grid of another one by gdalwarp.
type warpCase struct {
	Path      string   `json:"path"`
	Reference string   `json:"reference"`
	Method    string   `json:"method"`
	XScale    string   `json:"xscale"`
	YScale    string   `json:"yscale"`
	More      []string `json:"more"`
	overviews bool
}

// gdalwarpTruth prints the pixels of the command gdalwarp.
const gdalwarpTruth = `
import json, sys, base64, subprocess, os, tempfile
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "a.tif")
        r = gdal.Open(c["reference"]); six = r.GetGeoTransform()
        srs = os.path.join(t, "srs.wkt"); open(srs, "w").write(r.GetSpatialRef().ExportToWkt(["FORMAT=WKT2_2019"]))
        box = [six[0], six[3] + r.RasterYSize * six[5], six[0] + r.RasterXSize * six[1], six[3]]
        subprocess.run(["gdalwarp", "-q", "-et", "0", "-r", c["method"], "-wo", "XSCALE=" + c["xscale"], "-wo", "YSCALE=" + c["yscale"], "-t_srs", srs,
            "-te"] + ["%.17g" % v for v in box] + ["-ts", str(r.RasterXSize), str(r.RasterYSize)] + (c["more"] or []) + [c["path"], path], check=True)
        a = gdal.Open(path).ReadAsArray()
        out.append(base64.b64encode(np.ascontiguousarray(a).tobytes()).decode())
json.dump(out, sys.stdout)
`

// gdalwarped runs gdalwarp with the scales of a job's plan.
func gdalwarped(t testing.TB, list []warpCase) [][]byte {
	t.Helper()
	for i := range list {
		k := &list[i]
		job := onto(k.Path, k.Reference, k.Method, filepath.Join(t.TempDir(), "out.tif"))
		job.Inputs["b"] = Input{Files: []string{k.Path}, Resample: k.Method, Overviews: k.overviews}
		p, err := MakePlan(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		if in := p.Inputs[0]; in.XScale != 0 || in.YScale != 0 {
			t.Errorf("the reference is warped: %+v", in)
		}
		k.XScale, k.YScale = strconv.FormatFloat(p.Inputs[1].XScale, 'g', -1, 64),
			strconv.FormatFloat(p.Inputs[1].YScale, 'g', -1, 64)
		k.More = []string{"-ovr", map[bool]string{true: "AUTO", false: "NONE"}[k.overviews]}
	}
	var texts []string
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, gdalwarpTruth, list, &texts)
	var all [][]byte
	for _, text := range texts {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func gridAt(t testing.TB, path string) raster.Grid {
	t.Helper()
	src, err := resolve.OpenRaster(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	return src.Info().Grid
}

// rawPixels returns the bytes of all bands of a raster.
func rawPixels(t testing.TB, path string) []byte {
	t.Helper()
	f := open(t, path)
	i := f.Info()
	bands := make([]int, len(i.Bands))
	for n := range bands {
		bands[n] = n + 1
	}
	a := ndarray.New(i.Bands[0].Type, len(bands), i.Grid.Height, i.Grid.Width)
	if err := f.Read(t.Context(), bands, i.Grid.Window(), a); err != nil {
		t.Fatal(err)
	}
	return a.Raw()
}

// copyInput writes the pixels of input b unchanged.
func copyInput(_ context.Context, b *Block) error {
	a := b.NewOut(b.In("b").Type, b.In("b").Shape[0])
	copy(a.Raw(), b.In("b").Raw())
	b.SetOut("out", a)
	return nil
}

// onto returns a job that warps a file onto the grid of another one, and writes it.
func onto(path, reference, method, out string) Job {
	return Job{Inputs: map[string]Input{"a": File(reference), "b": {Files: []string{path}, Resample: method}},
		Outputs:  map[string]Output{"out": {Path: out, NoOverviews: true, NoStatistics: true, TileSize: 64}},
		Controls: Controls{Reference: "a", Footprint: Reference}, Func: copyInput}
}

func sameRaw(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	n := 0
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			n++
		}
	}
	t.Errorf("%s: %d of %d bytes differ (%d are wanted)", what, n, len(got), len(want))
}

func TestRealWarpMatchesGdalwarp(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	rgb, nir := repositoryData(t, "rasterio/rgb1.tif"), repositoryData(t, "rasterio/rgb1_fake_nir_epsg3857.tif")
	b4, b8 := repositoryData(t, "landsat8/l8_B4.tif"), repositoryData(t, "landsat8/l8_B8.tif")
	rotated := repositoryData(t, "rasterio/rotated.tif")
	var list []warpCase
	methods := []string{"near", "bilinear", "cubic", "cubicspline", "lanczos", "average", "mode", "min", "max", "med"}
	if testing.Short() {
		methods = []string{"cubic", "mode"} // internal/gdal compares the others with gdalwarp
	}
	for _, m := range methods {
		list = append(list, warpCase{Path: nir, Reference: rgb, Method: m})
	}
	list = append(list, warpCase{Path: b8, Reference: b4, Method: "average"},
		warpCase{Path: b4, Reference: b8, Method: "cubic"},
		warpCase{Path: rgb, Reference: nir, Method: "lanczos"})
	if g := gridAt(t, rotated); g.HasTransform && georef.Rotated(g.Transform) && !g.CRS.IsZero() {
		north := write(t, filepath.Join(t.TempDir(), "north.tif"),
			raster.Grid{Width: 90, Height: 80, HasTransform: true, CRS: g.CRS,
				Transform: raster.Transform{boundsOf(g)[0], (boundsOf(g)[2] - boundsOf(g)[0]) / 90, 0, boundsOf(g)[3],
					0,
					-(boundsOf(g)[3] - boundsOf(g)[1]) / 80}}, make([]uint8, 90*80), nil)
		list = append(list, warpCase{Path: rotated, Reference: north, Method: "bilinear"})
	}
	// A coarse grid, for which a reduced copy would do.
	coarse := gridAt(t, b4)
	coarse.Width, coarse.Height = coarse.Width/5, coarse.Height/5
	coarse.Transform[1], coarse.Transform[5] = 150, -150
	rough := write(t, filepath.Join(t.TempDir(), "coarse.tif"), coarse, make([]uint8, coarse.Width*coarse.Height), nil)
	reduced := filepath.Join(t.TempDir(), "reduced.tif")
	mustRun(t, Job{Inputs: map[string]Input{"b": File(b8)},
		Outputs:     map[string]Output{"out": {Path: reduced, Overviews: []int{2, 4, 8}}},
		Expressions: map[string]string{"out": "b"}})
	list = append(list, warpCase{Path: reduced, Reference: rough, Method: "bilinear"},
		warpCase{Path: reduced, Reference: rough, Method: "bilinear", overviews: true})
	all := gdalwarped(t, list)
	if bytes.Equal(all[len(all)-1], all[len(all)-2]) {
		t.Error("overviews make no difference")
	}
	for i, want := range all {
		k := list[i]
		name := filepath.Base(k.Path) + " onto " + filepath.Base(k.Reference) + " by " + k.Method
		out := filepath.Join(t.TempDir(), "out.tif")
		job := onto(k.Path, k.Reference, k.Method, out)
		job.Inputs["b"] = Input{Files: []string{k.Path}, Resample: k.Method, Overviews: k.overviews}
		job.Controls.WindowWidth, job.Controls.WindowHeight = 192, 128
		job.Concurrency.Workers = 2
		res := mustRun(t, job)
		if res.Plan.Inputs[1].Warped == "" || res.Plan.Inputs[0].Warped != "" {
			t.Errorf("%s: the plan says %+v", name, res.Plan.Inputs)
		}
		if bytes.Count(want, []byte{0}) == len(want) {
			t.Errorf("%s: nothing is compared", name)
		}
		sameRaw(t, name, rawPixels(t, out), want)
		if got, ref := gridAt(t, out), gridAt(t,
			k.Reference); got.Transform != ref.Transform || got.Width != ref.Width || !gdal.SameCRS(got.CRS, ref.CRS) {
			t.Errorf("%s: the output lies at %+v", name, got)
		}
	}
}

func boundsOf(g raster.Grid) [4]float64 {
	a, b, c, d := g.Bounds()
	return [4]float64{a, b, c, d}
}

func TestWarpSameBytes(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	const w, h = 210, 170
	ref := write(t, filepath.Join(dir, "red.tif"), mapGrid(w, h, 0, 0), terrain[uint16](w, h, 1), nil)
	other := mapGrid(190, 160, 3, 5)
	other.Transform[1], other.Transform[5] = 13, -11
	other.CRS.Code = "EPSG:32630" // the next zone
	other.Transform[0], other.Transform[3] = 971000, 5010600
	px := holes(terrain[uint16](190, 160, 2), 190, 30, 0, 3)
	red := write(t, filepath.Join(dir, "other.tif"), other, px, func(o *Output) { o.Nodata = "0" })
	job := func(method, out string, overlap int) Job {
		return Job{Inputs: map[string]Input{"a": File(ref), "red": {Files: []string{red}, Resample: method}},
			Functions: testFunctions, Function: "focal", Params: focalParams{1.5},
			Outputs: map[string]Output{"mean": {Path: filepath.Join(out, "mean.tif"), Nodata: "-1", TileSize: 32},
				"copy": {Path: filepath.Join(out, "copy.tif"), Nodata: "0", TileSize: 32}},
			Merge:    func(int, any) error { return nil },
			Controls: Controls{Reference: "a", Footprint: Union, Overlap: overlap}}
	}
	want := map[string][]byte{}
	rapid.Check(t, func(rt *rapid.T) {
		method := rapid.SampledFrom([]string{"near", "bilinear", "cubic", "average", "mode"}).Draw(rt, "method")
		out := t.TempDir()
		j := job(method, out, rapid.IntRange(1, 9).Draw(rt, "overlap"))
		if rapid.Bool().Draw(rt, "planned") {
			j.Controls.MemoryBytes = int64(rapid.IntRange(400, 900).Draw(rt, "MiB")) << 20
		} else {
			j.Controls.WindowWidth, j.Controls.WindowHeight = rapid.IntRange(1, 260).Draw(rt, "width"),
				rapid.IntRange(1, 200).Draw(rt, "height")
		}
		workers := rapid.IntRange(1, 4).Draw(rt, "workers")
		j.Concurrency = Concurrency{Workers: workers, Readers: rapid.IntRange(1, 3).Draw(rt, "readers")}
		if how := rapid.IntRange(0, 11).Draw(rt, "processes"); how < 2 {
			j.Concurrency = Concurrency{On: subprocess.New(nil), Workers: min(workers, 2),
				Reading: []Reading{ReadHere, ReadByWorkers}[how]}
		}
		if _, err := Run(t.Context(), j); err != nil {
			rt.Fatal(err)
		}
		for _, name := range []string{"mean", "copy"} {
			got, key := fileBytes(t, filepath.Join(out, name+".tif")), name+method
			if want[key] == nil {
				want[key] = got
			} else if !bytes.Equal(got, want[key]) {
				rt.Fatalf("%s by %s has other bytes", name, method)
			}
		}
	})
}

// warpedWhole returns all pixels of a file on the grid of another, and their place.
func warpedWhole(t testing.TB, path string, o *gdal.WarpOptions) (px *ndarray.Array, valid []byte, at block.Window) {
	t.Helper()
	w, err := gdal.Warp(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	g := w.Info().Grid
	px = ndarray.New(w.Info().Bands[0].Type, 1, g.Height, g.Width)
	if err := w.Read(t.Context(), []int{1}, g.Window(), px); err != nil {
		t.Fatal(err)
	}
	valid = bytes.Repeat([]byte{255}, g.Width*g.Height)
	if w.Info().Mask == raster.MaskDataset {
		if err := w.ReadMask(t.Context(), g.Window(), valid); err != nil {
			t.Fatal(err)
		}
	}
	col, row := w.Offset()
	return px, valid, block.Window{Col: col, Row: row, Width: g.Width, Height: g.Height}
}

func TestWarpMargins(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	const w, h = 100, 80
	ref := write(t, filepath.Join(dir, "a.tif"), mapGrid(w, h, 0, 0), terrain[uint8](w, h, 1), nil)
	other := mapGrid(60, 50, -4, 20)
	other.Transform[1], other.Transform[5] = 12, -12
	for _, nodata := range []string{"", "77"} {
		path := write(t, filepath.Join(dir, "b"+nodata+".tif"), other, terrain[uint8](60, 50, 2),
			func(o *Output) { o.Nodata = nodata })
		px, mask, at := warpedWhole(t, path, &gdal.WarpOptions{Grid: mapGrid(w, h, 0, 0), Method: "bilinear"})
		all := px.Raw()
		beyond, missing := 0, 0
		job := Job{Inputs: map[string]Input{"a": File(ref), "b": {Files: []string{path}, Resample: "bilinear"}},
			Merge: func(int, any) error { return nil },
			Controls: Controls{Reference: "a", Footprint: Reference, Overlap: 7, WindowWidth: 32, WindowHeight: 32,
				Window: &block.Window{Col: 1, Row: 2, Width: w - 1, Height: h - 2}},
			Concurrency: Concurrency{Workers: 1},
			Func: func(_ context.Context, b *Block) error {
				got, valid := b.In("b").Raw(), b.Valid("b").Raw()
				for y := range b.Rows() {
					for x := range b.Columns() {
						col, row := b.Window.Col-7+x+1, b.Window.Row-7+y+2 // of the reference
						i := y*b.Columns() + x
						wantPixel, wantValid := byte(0), byte(0)
						if nodata != "" {
							wantPixel = 77
						}
						if c, r := col-at.Col, row-at.Row; c >= 0 && r >= 0 && c < at.Width && r < at.Height {
							wantPixel = all[r*at.Width+c]
							if mask[r*at.Width+c] != 0 && (nodata == "" || wantPixel != 77) {
								wantValid = 1
							}
							if col < 1 {
								beyond++
							}
						} else {
							missing++
						}
						if got[i] != wantPixel || valid[i] != wantValid {
							return fmt.Errorf("nodata %q, column %d, row %d: %d (valid %d), not %d (%d)", nodata, col,
								row, got[i], valid[i], wantPixel, wantValid)
						}
					}
				}
				return nil
			}}
		mustRun(t, job)
		if beyond == 0 || missing == 0 {
			t.Errorf("%d pixels beyond the grid were compared, and %d outside the file", beyond, missing)
		}
	}
}

// warpMakes makes rasters of one kind of validity each: d/KIND.tif.
const warpMakes = `
import json, sys
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
d = json.load(sys.stdin)
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
s = osr.SpatialReference(); s.ImportFromEPSG(32631)
def make(name, six, kind, w=60, h=50):
    f = gdal.GetDriverByName("GTiff").Create(d + "/" + name, w, h, 2 if kind == "alpha" else 1, gdal.GDT_Byte, ["ALPHA=YES"] if kind == "alpha" else [])
    f.SetGeoTransform(six); f.SetSpatialRef(s)
    g = np.random.RandomState(5)
    v = g.randint(1, 200, (h, w)).astype(np.uint8)
    v[10:20, 10:25] = 9
    f.GetRasterBand(1).WriteArray(v)
    m = np.where(g.uniform(size=(h, w)) < 0.2, 0, 255).astype(np.uint8); m[30:40, 5:30] = 0
    if kind == "nodata": f.GetRasterBand(1).SetNoDataValue(9)
    if kind == "alpha":
        f.GetRasterBand(2).WriteArray(m); f.GetRasterBand(2).SetColorInterpretation(gdal.GCI_AlphaBand)
    if kind == "mask":
        f.CreateMaskBand(gdal.GMF_PER_DATASET); f.GetRasterBand(1).GetMaskBand().WriteArray(m)
    f = None
for kind in ("none", "nodata", "mask", "alpha"):
    make(kind + ".tif", (500020, 12.5, 0, 4999900, 0, -12.5), kind)
print("null")
`

// validTruth prints warped pixels and which of them are valid.
const validTruth = `
import json, sys, base64
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    src = gdal.Open(c["path"])
    if c["nomask"]: # a copy that says nothing
        plain = gdal.GetDriverByName("MEM").Create("", src.RasterXSize, src.RasterYSize, 1, gdal.GDT_Byte)
        plain.SetGeoTransform(src.GetGeoTransform()); plain.SetSpatialRef(src.GetSpatialRef())
        plain.GetRasterBand(1).WriteArray(src.GetRasterBand(1).ReadAsArray()); src = plain
    kw = dict(errorThreshold=0, resampleAlg=c["method"], warpOptions=["XSCALE=" + c["xscale"], "YSCALE=" + c["yscale"]], format="MEM",
        outputBounds=[500000, 4999200, 501000, 5000000], width=100, height=80, dstAlpha=True)
    if c["srcnodata"]: kw["srcNodata"] = c["srcnodata"]
    none = {"": src.GetRasterBand(1).GetNoDataValue(), "None": None}.get(c["srcnodata"], c["srcnodata"])
    if none is not None: # the output has it too, and no valid pixel equals it
        kw["dstAlpha"], kw["dstNodata"] = False, none
    d = gdal.Warp("", src, **kw)
    v = d.GetRasterBand(2).ReadAsArray() > 0 if none is None else d.GetRasterBand(1).ReadAsArray() != float(none)
    a = np.where(v, d.GetRasterBand(1).ReadAsArray(), 0)
    out.append(base64.b64encode(np.stack([a, v]).astype(np.uint8).tobytes()).decode())
json.dump(out, sys.stdout)
`

func TestWarpMasksAndNoMask(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, warpMakes, dir, nil)
	grid := mapGrid(100, 80, 0, 0)
	type validCase struct {
		Path   string `json:"path"`
		Method string `json:"method"`
		Source string `json:"srcnodata"`
		NoMask bool   `json:"nomask"`
		XScale string `json:"xscale"`
		YScale string `json:"yscale"`

		at block.Window // window of the input, by leat
	}
	var list []validCase
	for _, method := range []string{"near", "bilinear", "average"} {
		for _, kind := range []string{"none", "nodata", "mask", "alpha"} {
			for _, noMask := range []bool{false, true} {
				list = append(list, validCase{Path: filepath.Join(dir, kind+".tif"), Method: method, NoMask: noMask})
			}
		}
		list = append(list, validCase{Path: filepath.Join(dir, "nodata.tif"), Method: method, Source: "100"},
			validCase{Path: filepath.Join(dir, "nodata.tif"), Method: method, Source: "None"},
			validCase{Path: filepath.Join(dir, "none.tif"), Method: method, Source: "77"})
	}
	for i := range list {
		k := &list[i]
		w, err := gdal.Warp(k.Path, &gdal.WarpOptions{Grid: grid, Method: k.Method})
		if err != nil {
			t.Fatal(err)
		}
		x, y := w.Scales()
		k.at = w.Info().Grid.Window()
		k.at.Col, k.at.Row = w.Offset()
		w.Close()
		k.XScale, k.YScale = strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(y, 'g', -1, 64)
	}
	var truth []string
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, validTruth, list, &truth)
	for i, k := range list {
		name := fmt.Sprintf("%s by %s, nodata %q, without masks %v", filepath.Base(k.Path), k.Method, k.Source,
			k.NoMask)
		want, _ := base64.StdEncoding.DecodeString(truth[i])
		in := Input{Files: []string{k.Path}, Layers: []int{1}, Resample: k.Method}
		switch k.Source {
		case "":
		case "None":
			in.Nodata = []string{"none"}
		default:
			in.Nodata = []string{k.Source}
		}
		got := make([]byte, 2*100*80)
		mustRun(t, Job{Inputs: map[string]Input{"b": in}, Concurrency: Concurrency{Workers: 1},
			Controls: Controls{Grid: &grid, Footprint: Reference, NoMask: k.NoMask, WindowWidth: 48, WindowHeight: 32},
			Func: func(_ context.Context, b *Block) error {
				px, valid := b.In("b").Raw(), b.Valid("b").Raw()
				for y := range b.Window.Height {
					for x := range b.Window.Width {
						at, i := (b.Window.Row+y)*100+b.Window.Col+x, y*b.Window.Width+x
						if valid[i] != 0 {
							got[at], got[100*80+at] = px[i], 1
						}
					}
				}
				return nil
			}})
		// GDAL's average sets pixels outside the input too.
		for i := range 100 * 80 {
			if k.Method == "average" && !k.at.Contains(block.Window{Col: i % 100, Row: i / 100, Width: 1, Height: 1}) {
				want[i], want[100*80+i] = 0, 0
			}
		}
		if n := bytes.Count(want[100*80:], []byte{1}); n < 1000 || n > 7000 {
			t.Errorf("%s: %d pixels are valid: nothing is tested", name, n)
		}
		sameRaw(t, name+": validity", got[100*80:], want[100*80:])
		sameRaw(t, name, got[:100*80], want[:100*80])
	}
}

func TestRealMosaicMatchesGDAL(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	var files []string
	for n := 1; n <= 4; n++ {
		files = append(files, repositoryData(t, fmt.Sprintf("rasterio/rgb%d.tif", n)))
	}
	dir := t.TempDir()
	// the first valid one, like gdal_merge with the last named first
	first := func(_ context.Context, b *Block) error {
		out := b.NewOut(ndarray.Uint8, 3)
		px := out.Raw()
		clear(px)
		list, valid := b.InList("t"), b.ValidList("t")
		for k := len(list) - 1; k >= 0; k-- {
			from, ok := list[k].Raw(), valid[k].Raw()
			for i := range px {
				if ok[i] != 0 {
					px[i] = from[i]
				}
			}
		}
		b.SetOut("out", out)
		return nil
	}
	vrt := filepath.Join(dir, "all.vrt")
	gdalProgram(t, "gdalbuildvrt", "-q", vrt, files[3], files[2], files[1], files[0])
	truth := func(window []int) []byte {
		var text string
		pytest.Run(t, []string{"osgeo.gdal", "numpy"}, `
import json, sys, base64
from osgeo import gdal
p = json.load(sys.stdin)
d = gdal.Open(p["vrt"])
json.dump(base64.b64encode(d.ReadAsArray(*(p["window"] or [])).tobytes()).decode(), sys.stdout)`,
			map[string]any{"vrt": vrt, "window": window}, &text)
		b, _ := base64.StdEncoding.DecodeString(text)
		return b
	}
	for _, foot := range []Footprint{Union, Intersection} {
		out := filepath.Join(dir, foot.String()+".tif")
		mustRun(t, Job{Inputs: map[string]Input{"t": Files(files...)},
			Outputs:  map[string]Output{"out": {Path: out, Nodata: "0", TileSize: 64}},
			Controls: Controls{Footprint: foot, Reference: "t"}, Func: first})
		g := gridAt(t, out)
		if foot == Union {
			if g.Width != 791 || g.Height != 718 {
				t.Errorf("the union has %d x %d pixels", g.Width, g.Height)
			}
			sameRaw(t, "union", rawPixels(t, out), truth(nil))
		} else {
			if g.Width != 1 || g.Height != 1 {
				t.Errorf("the intersection has %d x %d pixels", g.Width, g.Height)
			}
			sameRaw(t, "intersection", rawPixels(t, out), truth([]int{399, 399, 1, 1}))
		}
	}
	// The same four on a grid in another CRS: each as gdalwarp warps it, the first on top.
	grid := raster.Grid{Width: 420, Height: 380, HasTransform: true,
		Transform: raster.Transform{-8800000, 640, 0, 2930000, 0, -640}}
	var err error
	if grid.CRS, err = gdal.ParseCRS("EPSG:3857"); err != nil {
		t.Fatal(err)
	}
	ref := write(t, filepath.Join(dir, "ref.tif"), grid, make([]uint8, 420*380), nil)
	var list []warpCase
	for _, f := range files {
		list = append(list, warpCase{Path: f, Reference: ref, Method: "bilinear"})
	}
	each := gdalwarped(t, list)
	want := make([]byte, 3*420*380)
	for k := len(each) - 1; k >= 0; k-- {
		for i, v := range each[k] {
			if v != 0 { // nodata of all of them
				want[i] = v
			}
		}
	}
	out := filepath.Join(dir, "warped.tif")
	in := Files(files...)
	in.Resample = "bilinear"
	mustRun(t, Job{Inputs: map[string]Input{"t": in},
		Outputs:  map[string]Output{"out": {Path: out, Nodata: "0", TileSize: 64}},
		Controls: Controls{Grid: &grid, Footprint: Reference, WindowWidth: 128, WindowHeight: 128}, Func: first})
	sameRaw(t, "warped", rawPixels(t, out), want)
	if bytes.Count(want, []byte{0}) > len(want)/2 {
		t.Error("most of the mosaic is empty")
	}
}

func TestEquivalentCRSNotWarped(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	grid := mapGrid(40, 30, 0, 0)
	grid.CRS.Code = "EPSG:2154"
	a := write(t, filepath.Join(dir, "a.tif"), grid, px, nil)
	// The same CRS without its code.
	user := filepath.Join(dir, "user.tif")
	pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys, re
from osgeo import gdal, osr
p = json.load(sys.stdin)
s = osr.SpatialReference(); s.ImportFromEPSG(2154)
s.ImportFromWkt(re.sub(r',AUTHORITY\["EPSG","2154"\]', "", s.ExportToWkt(["FORMAT=WKT1"])))
f = gdal.GetDriverByName("GTiff").Create(p, 40, 30, 1, gdal.GDT_Byte)
f.SetGeoTransform((500020, 10, 0, 4999990, 0, -10)); f.SetSpatialRef(s); f.GetRasterBand(1).Fill(3)
print("null")`, user, nil)
	if g := gridAt(t, user); g.CRS.Equal(grid.CRS) {
		t.Fatalf("the systems have one name: %+v", g.CRS)
	}
	for _, c := range []Controls{{}, {Reference: "a"}} {
		p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a),
			"b": {Files: []string{user}, Resample: "cubic"}}, Controls: c, Func: nothing})
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Inputs[1].Warped != "" || p.Grid.Width != 38 || p.Grid.Height != 29 {
			t.Errorf("%+v, %d x %d", p.Inputs[1], p.Grid.Width, p.Grid.Height)
		}
	}
}
