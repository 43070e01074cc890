package apply

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"leat/block"
	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/gdal"
	"leat/worker/subprocess"

	"pgregory.net/rapid"
)

func needGDAL(t testing.TB) {
	t.Helper()
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
}

// warpCase is a file to be brought onto the grid of another one by gdalwarp.
type warpCase struct {
	Path      string   `json:"path"`
	Reference string   `json:"reference"`
	Method    string   `json:"method"`
	XScale    string   `json:"xscale"`
	YScale    string   `json:"yscale"`
	More      []string `json:"more"`
	overviews bool
}

// gdalwarpTruth gives the pixels of the command gdalwarp.
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

// gdalwarped runs gdalwarp with the scales that leat takes.
func gdalwarped(t testing.TB, list []warpCase) [][]byte {
	t.Helper()
	for i := range list {
		k := &list[i]
		w, err := gdal.Warp(k.Path, &gdal.WarpOptions{Grid: gridAt(t, k.Reference), Method: k.Method, Overviews: k.overviews})
		if err != nil {
			t.Fatal(err)
		}
		x, y := w.Scales()
		w.Close()
		k.XScale, k.YScale = strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(y, 'g', -1, 64)
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
	src, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	return src.Info().Grid
}

// rawPixels are the bytes of all bands of a raster.
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

// copyInput writes the pixels of input b as they come.
func copyInput(_ context.Context, b *Block) error {
	a := b.NewOut(b.In("b").Type, b.In("b").Shape[0])
	copy(a.Raw(), b.In("b").Raw())
	b.SetOut("out", a)
	return nil
}

// onto is a job that brings a file onto the grid of another one, and writes it.
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

func TestRealRastersWarpedInARunAreThoseOfGdalwarp(t *testing.T) {
	needGDAL(t)
	rgb, nir := repositoryData(t, "rasterio/rgb1.tif"), repositoryData(t, "rasterio/rgb1_fake_nir_epsg3857.tif")
	b4, b8 := repositoryData(t, "landsat8/l8_B4.tif"), repositoryData(t, "landsat8/l8_B8.tif")
	rotated := repositoryData(t, "rasterio/rotated.tif")
	var list []warpCase
	for _, m := range []string{"near", "bilinear", "cubic", "cubicspline", "lanczos", "average", "mode", "min", "max", "med"} {
		list = append(list, warpCase{Path: nir, Reference: rgb, Method: m})
	}
	list = append(list, warpCase{Path: b8, Reference: b4, Method: "average"}, warpCase{Path: b4, Reference: b8, Method: "cubic"},
		warpCase{Path: rgb, Reference: nir, Method: "lanczos"})
	if g := gridAt(t, rotated); g.HasTransform && g.Transform.Rotated() && !g.CRS.IsZero() {
		north := write(t, filepath.Join(t.TempDir(), "north.tif"), raster.Grid{Width: 90, Height: 80, HasTransform: true, CRS: g.CRS,
			Transform: raster.Transform{boundsOf(g)[0], (boundsOf(g)[2] - boundsOf(g)[0]) / 90, 0, boundsOf(g)[3], 0, -(boundsOf(g)[3] - boundsOf(g)[1]) / 80}}, make([]uint8, 90*80), nil)
		list = append(list, warpCase{Path: rotated, Reference: north, Method: "bilinear"})
	}
	// A coarse grid, for which a reduced copy would do.
	coarse := gridAt(t, b4)
	coarse.Width, coarse.Height = coarse.Width/5, coarse.Height/5
	coarse.Transform[1], coarse.Transform[5] = 150, -150
	rough := write(t, filepath.Join(t.TempDir(), "coarse.tif"), coarse, make([]uint8, coarse.Width*coarse.Height), nil)
	reduced := filepath.Join(t.TempDir(), "reduced.tif")
	mustRun(t, Job{Inputs: map[string]Input{"b": File(b8)}, Outputs: map[string]Output{"out": {Path: reduced, Overviews: []int{2, 4, 8}}}, Expressions: map[string]string{"out": "b"}})
	list = append(list, warpCase{Path: reduced, Reference: rough, Method: "bilinear"}, warpCase{Path: reduced, Reference: rough, Method: "bilinear", overviews: true})
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
		if got, ref := gridAt(t, out), gridAt(t, k.Reference); got.Transform != ref.Transform || got.Width != ref.Width || !gdal.SameCRS(got.CRS, ref.CRS) {
			t.Errorf("%s: the output lies at %+v", name, got)
		}
	}
}

func boundsOf(g raster.Grid) [4]float64 {
	a, b, c, d := g.Bounds()
	return [4]float64{a, b, c, d}
}

func TestWarpingGivesTheSameBytesForAnyWorkersWindowsAndOverlaps(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	const w, h = 210, 170
	ref := write(t, filepath.Join(dir, "red.tif"), mapGrid(w, h, 0, 0), terrain[uint16](w, h, 1), nil)
	other := mapGrid(190, 160, 3, 5)
	other.Transform[1], other.Transform[5] = 13, -11
	other.CRS.Code = "EPSG:32630" // a zone beside
	other.Transform[0], other.Transform[3] = 971000, 5010600
	px := holes(terrain[uint16](190, 160, 2), 190, 30, 0, 3)
	red := write(t, filepath.Join(dir, "other.tif"), other, px, func(o *Output) { o.Nodata = "0" })
	job := func(method, out string, overlap int) Job {
		return Job{Inputs: map[string]Input{"a": File(ref), "red": {Files: []string{red}, Resample: method}}, Functions: testFunctions, Function: "focal", Params: focalParams{1.5},
			Outputs: map[string]Output{"mean": {Path: filepath.Join(out, "mean.tif"), Nodata: "-1", TileSize: 32}, "copy": {Path: filepath.Join(out, "copy.tif"), Nodata: "0", TileSize: 32}},
			Merge:   func(int, any) error { return nil }, Controls: Controls{Reference: "a", Footprint: Union, Overlap: overlap}}
	}
	want := map[string][]byte{}
	rapid.Check(t, func(rt *rapid.T) {
		method := rapid.SampledFrom([]string{"near", "bilinear", "cubic", "average", "mode"}).Draw(rt, "method")
		out := t.TempDir()
		j := job(method, out, rapid.IntRange(1, 9).Draw(rt, "overlap"))
		if rapid.Bool().Draw(rt, "planned") {
			j.Controls.MemoryBytes = int64(rapid.IntRange(400, 900).Draw(rt, "MiB")) << 20
		} else {
			j.Controls.WindowWidth, j.Controls.WindowHeight = rapid.IntRange(1, 260).Draw(rt, "width"), rapid.IntRange(1, 200).Draw(rt, "height")
		}
		workers := rapid.IntRange(1, 4).Draw(rt, "workers")
		j.Concurrency = Concurrency{Workers: workers, Readers: rapid.IntRange(1, 3).Draw(rt, "readers")}
		if how := rapid.IntRange(0, 11).Draw(rt, "processes"); how < 2 {
			j.Concurrency = Concurrency{On: subprocess.New(nil), Workers: min(workers, 2), Reading: []Reading{ReadHere, ReadByWorkers}[how]}
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

// warpedWhole is all that a file gives on the lattice of a grid, and where.
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

func TestMarginsOfWarpedInputsHaveRealDataBeyondTheGridAndNothingElsewhere(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	const w, h = 100, 80
	ref := write(t, filepath.Join(dir, "a.tif"), mapGrid(w, h, 0, 0), terrain[uint8](w, h, 1), nil)
	other := mapGrid(60, 50, -4, 20)
	other.Transform[1], other.Transform[5] = 12, -12
	for _, nodata := range []string{"", "77"} {
		path := write(t, filepath.Join(dir, "b"+nodata+".tif"), other, terrain[uint8](60, 50, 2), func(o *Output) { o.Nodata = nodata })
		px, mask, at := warpedWhole(t, path, &gdal.WarpOptions{Grid: mapGrid(w, h, 0, 0), Method: "bilinear"})
		all := px.Raw()
		beyond, missing := 0, 0
		job := Job{Inputs: map[string]Input{"a": File(ref), "b": {Files: []string{path}, Resample: "bilinear"}}, Merge: func(int, any) error { return nil },
			Controls:    Controls{Reference: "a", Footprint: Reference, Overlap: 7, WindowWidth: 32, WindowHeight: 32, Window: &block.Window{Col: 1, Row: 2, Width: w - 1, Height: h - 2}},
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
							return fmt.Errorf("nodata %q, column %d, row %d: %d (valid %d), not %d (%d)", nodata, col, row, got[i], valid[i], wantPixel, wantValid)
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

// validTruth warps and tells pixels and which of them are valid.
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
        plain.SetGeoTransform(src.GetGeoTransform()); plain.SetSpatialRef(src.GetSpatialRef()); plain.GetRasterBand(1).WriteArray(src.GetRasterBand(1).ReadAsArray()); src = plain
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

func TestNodataMasksAndAlphaOfWarpedInputsCountUnlessNoMaskIsAsked(t *testing.T) {
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

		at block.Window // that the input gives, by leat
	}
	var list []validCase
	for _, method := range []string{"near", "bilinear", "average"} {
		for _, kind := range []string{"none", "nodata", "mask", "alpha"} {
			for _, noMask := range []bool{false, true} {
				list = append(list, validCase{Path: filepath.Join(dir, kind+".tif"), Method: method, NoMask: noMask})
			}
		}
		list = append(list, validCase{Path: filepath.Join(dir, "nodata.tif"), Method: method, Source: "100"},
			validCase{Path: filepath.Join(dir, "nodata.tif"), Method: method, Source: "None"}, validCase{Path: filepath.Join(dir, "none.tif"), Method: method, Source: "77"})
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
		name := fmt.Sprintf("%s by %s, nodata %q, without masks %v", filepath.Base(k.Path), k.Method, k.Source, k.NoMask)
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
		// GDAL's average gives pixels beside the input, too.
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

func TestAMosaicOfRealRastersIsThatOfGDAL(t *testing.T) {
	needGDAL(t)
	var files []string
	for n := 1; n <= 4; n++ {
		files = append(files, repositoryData(t, fmt.Sprintf("rasterio/rgb%d.tif", n)))
	}
	dir := t.TempDir()
	first := func(_ context.Context, b *Block) error { // the first that is valid, as gdal_merge with the last named first
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
json.dump(base64.b64encode(d.ReadAsArray(*(p["window"] or [])).tobytes()).decode(), sys.stdout)`, map[string]any{"vrt": vrt, "window": window}, &text)
		b, _ := base64.StdEncoding.DecodeString(text)
		return b
	}
	for _, foot := range []Footprint{Union, Intersection} {
		out := filepath.Join(dir, foot.String()+".tif")
		mustRun(t, Job{Inputs: map[string]Input{"t": Files(files...)}, Outputs: map[string]Output{"out": {Path: out, Nodata: "0", TileSize: 64}},
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
	// The same four on a grid of another system: each as gdalwarp gives it, the first on top.
	grid := raster.Grid{Width: 420, Height: 380, HasTransform: true, Transform: raster.Transform{-8800000, 640, 0, 2930000, 0, -640}}
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
	mustRun(t, Job{Inputs: map[string]Input{"t": in}, Outputs: map[string]Output{"out": {Path: out, Nodata: "0", TileSize: 64}},
		Controls: Controls{Grid: &grid, Footprint: Reference, WindowWidth: 128, WindowHeight: 128}, Func: first})
	sameRaw(t, "warped", rawPixels(t, out), want)
	if bytes.Count(want, []byte{0}) > len(want)/2 {
		t.Error("most of the mosaic is empty")
	}
}

func TestInputsOnTheGridAreNotResampledWhateverTheirSystemIsCalled(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	grid := mapGrid(40, 30, 0, 0)
	grid.CRS.Code = "EPSG:2154"
	a := write(t, filepath.Join(dir, "a.tif"), grid, px, nil)
	// The same system without its code.
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
		p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a), "b": {Files: []string{user}, Resample: "cubic"}}, Controls: c, Func: nothing})
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Inputs[1].Warped != "" || p.Grid.Width != 38 || p.Grid.Height != 29 {
			t.Errorf("%+v, %d x %d", p.Inputs[1], p.Grid.Width, p.Grid.Height)
		}
	}
}

func TestWhatCannotBeWarpedIsRefusedWithTheReason(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	grid := mapGrid(40, 30, 0, 0)
	a := write(t, filepath.Join(dir, "a.tif"), grid, px, nil)
	off := grid
	off.Transform[1] = 20
	b := write(t, filepath.Join(dir, "b.tif"), off, px, nil)
	bare := off
	bare.CRS = raster.CRS{}
	noCRS := write(t, filepath.Join(dir, "nocrs.tif"), bare, px, nil)
	nowhere := write(t, filepath.Join(dir, "nowhere.tif"), raster.Grid{Width: 40, Height: 30, Transform: raster.Identity}, px, nil)
	turned := grid
	turned.Transform[2], turned.Transform[4] = 2, 2
	rotated := write(t, filepath.Join(dir, "rotated.tif"), turned, px, nil)
	if err := planError(Job{Inputs: map[string]Input{"a": File(a), "r": File(rotated)}, Controls: Controls{Reference: "a"}, Func: nothing}); err != nil {
		t.Error("a rotated input:", err)
	}
	for name, c := range map[string]struct {
		inputs   map[string]Input
		controls Controls
		want     []string
	}{
		"without a reference":       {map[string]Input{"a": File(a), "b": File(b)}, Controls{}, []string{"--reference a, or --grid", "pixel size 20 x 10"}},
		"an open raster":            {map[string]Input{"a": File(a), "b": {Files: []string{b}, Source: open(t, b)}}, Controls{Reference: "a"}, []string{"Input.Source", b, "pixel size 20"}},
		"no CRS":                    {map[string]Input{"a": File(a), "b": File(noCRS)}, Controls{Reference: "a"}, []string{noCRS, "names no coordinate reference system", "-a_srs"}},
		"no CRS of the reference":   {map[string]Input{"a": File(a), "b": File(noCRS)}, Controls{Reference: "b"}, []string{a, "the reference names no coordinate"}},
		"no transform":              {map[string]Input{"a": File(a), "b": File(nowhere)}, Controls{Reference: "a"}, []string{nowhere, "where it lies"}},
		"no transform of the grid":  {map[string]Input{"a": File(a), "b": File(nowhere)}, Controls{Reference: "b"}, []string{a, "the reference says nothing"}},
		"a rotated reference":       {map[string]Input{"a": File(a), "r": File(rotated)}, Controls{Reference: "r"}, []string{rotated, "is rotated"}},
		"a method":                  {map[string]Input{"a": File(a), "b": {Files: []string{b}, Resample: "best"}}, Controls{Reference: "a"}, []string{"input b", `"best"`, "cubicspline"}},
		"a method that is not used": {map[string]Input{"a": {Files: []string{a}, Resample: "best"}}, Controls{}, []string{"input a", `"best"`}},
		"a band with two kinds of nodata": {map[string]Input{"a": File(a), "b": {Files: []string{b}, Layers: []int{1, 1}, Nodata: []string{"1", "2"}}}, Controls{Reference: "a"},
			[]string{b, "band 1 is read twice"}},
		"extents and a box":           {map[string]Input{"a": File(a)}, Controls{BBox: &[4]float64{0, 0, 1, 1}, Extents: []raster.Grid{grid}}, []string{"give one of them"}},
		"an extent that lies nowhere": {map[string]Input{"a": File(a)}, Controls{Extents: []raster.Grid{{Width: 3, Height: 3, Transform: raster.Identity}}}, []string{"--extent", "georeferenced"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(failRun(t, Job{Inputs: c.inputs, Controls: c.controls, Func: nothing}, c.want...))
		})
	}
}

// planError is the error of planning a job.
func planError(job Job) error {
	_, err := MakePlan(context.Background(), job)
	return err
}

func TestAnExtentOfAnotherSystemIsRelatedByItsEdges(t *testing.T) {
	needGDAL(t)
	a := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(400, 300, 0, 0), terrain[uint8](400, 300, 1), nil)
	e := raster.Grid{Width: 10, Height: 10, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"}, Transform: raster.Transform{3.005, 0.001, 0, 45.149, 0, -0.001}}
	p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a)}, Controls: Controls{Extents: []raster.Grid{e}}, Func: nothing})
	if err != nil {
		t.Fatal(err)
	}
	box, err := gdal.Extent(e, mapGrid(1, 1, 0, 0).CRS)
	if err != nil {
		t.Fatal(err)
	}
	minX, minY, maxX, maxY := p.Grid.Bounds()
	for i, d := range []float64{minX - box[0], minY - box[1], maxX - box[2], maxY - box[3]} {
		if d > 5 || d < -5 {
			t.Errorf("side %d is %v m off: %v, not %v", i, d, boundsOf(p.Grid), box)
		}
	}
}

func TestAWarpThatDiffersIsNotResumed(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const w, h = 200, 150
	a := write(t, at("a.tif"), mapGrid(w, h, 0, 0), terrain[uint16](w, h, 1), nil)
	off := mapGrid(w, h, 0, 0)
	off.Transform[1] = 11
	b := write(t, at("b.tif"), off, terrain[uint16](w, h, 2), func(o *Output) { o.NoOverviews, o.Overviews = false, []int{2} })
	make := func(out string) Job {
		return Job{Inputs: map[string]Input{"a": File(a), "b": {Files: []string{b}, Resample: "bilinear"}}, Expressions: map[string]string{"x": "a + b"},
			Outputs: map[string]Output{"x": {Path: at(out), TileSize: 64}}, Controls: Controls{Reference: "a", WindowWidth: 64, WindowHeight: 64}}
	}
	mustRun(t, make("want.tif"))
	interrupt(t, make("x.tif"))
	for name, c := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"method":    {func(j *Job) { j.Inputs["b"] = Input{Files: []string{b}, Resample: "cubic"} }, "input b: the method of resampling (--resample) was bilinear and is cubic"},
		"overviews": {func(j *Job) { j.Inputs["b"] = Input{Files: []string{b}, Resample: "bilinear", Overviews: true} }, "input b: its overviews were not used and are (--use-overviews)"},
		"grid":      {func(j *Job) { g := mapGrid(w, h+2, 0, 0); j.Controls.Reference, j.Controls.Grid = "", &g }, "input b: the grid that it is warped onto (--reference, --grid) is another"},
	} {
		job := make("x.tif")
		c.change(&job)
		job.Resume = true
		t.Log(name, failRun(t, job, c.want))
	}
	job := make("x.tif")
	job.Resume, job.Concurrency = true, Concurrency{Workers: 2, Readers: 2}
	if res := mustRun(t, job); res.Resumed == 0 {
		t.Error("no block was resumed")
	}
	sameFileBytes(t, "resumed", at("x.tif"), fileBytes(t, at("want.tif")))
}

func TestGridsOfWarpsComeWholeThroughJSON(t *testing.T) {
	g := mapGrid(3, 4, 1, 1)
	g.Transform[0] = 0.1 + 0.2
	g.CRS = raster.CRS{Code: "", Name: "Stra\xdfe", WKT: "a\xff", Keys: &raster.GeoKeys{Directory: []uint16{1, 1, 0, 0}, Doubles: []float64{1. / 3}, ASCII: "M\xfcnchen|"}}
	w := warping{Grid: exactGrid{g}, Method: "near", MaxBytes: rand.Int64()}
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var back warping
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if c := back.Grid.CRS; c.Name != g.CRS.Name || c.WKT != g.CRS.WKT || c.Keys.ASCII != g.CRS.Keys.ASCII || c.Keys.Doubles[0] != 1./3 || back.Grid.Transform != g.Transform || back.MaxBytes != w.MaxBytes || back.Grid.Width != 3 {
		t.Errorf("%+v", back)
	}
}

func TestAWorkerWarpsWithTheVersionOfGDALThatTheRunHas(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	off := mapGrid(40, 30, 0, 0)
	off.Transform[1] = 20
	b := write(t, filepath.Join(dir, "b.tif"), off, terrain[uint8](40, 30, 1), nil)
	version, err := gdal.Version()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version string
		mixed   bool
		want    string
	}{{version, false, ""}, {"1.2.3", true, ""}, {"1.2.3", false, "whose version is " + version + " here and 1.2.3 where the run is"}} {
		f := &inputFile{path: b, from: b}
		w := &warping{Grid: exactGrid{mapGrid(40, 30, 0, 0)}, Method: "near", Nodata: []string{""}, GDAL: c.version}
		err := f.reopen(t.Context(), openLocal, w, c.mixed)
		if c.want != "" {
			wantError(t, err, c.want, "--mixed")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if g := f.src.Info().Grid; g.Width != 80 || g.Height != 30 {
			t.Errorf("%+v", g)
		}
		if err := f.src.Close(); err != nil {
			t.Error(err)
		}
	}
}
