package apply

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply/internal/resolve"
	"leat/internal/georef"
	"leat/internal/pytest"
	"leat/raster"
	"leat/worker/subprocess"
)

// makeControl writes rasters with ground control points, with RPCs, with both, and with a transform
// and RPCs.
const makeControl = `
import json, os, sys
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
os.chdir(json.load(sys.stdin))
def srs(text):
    s = osr.SpatialReference(); s.SetFromUserInput(text); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return s
def rpc(k):
    m = {n: repr(k + i / 7) for i, n in enumerate(("LINE_OFF", "SAMP_OFF", "LAT_OFF", "LONG_OFF", "HEIGHT_OFF", "LINE_SCALE", "SAMP_SCALE", "LAT_SCALE", "LONG_SCALE", "HEIGHT_SCALE", "ERR_BIAS", "ERR_RAND"))}
    for j, n in enumerate(("LINE_NUM", "LINE_DEN", "SAMP_NUM", "SAMP_DEN")):
        m[n + "_COEFF"] = " ".join(repr((i + j) * 1e-5 / 3 + k) for i in range(20))
    return m
def make(name, gcps=None, system="EPSG:4326", transform=None, rpcs=None, point=False, names=False, driver="GTiff"):
    d = gdal.GetDriverByName("MEM").Create("", 700, 600, 1)
    d.GetRasterBand(1).WriteArray((np.arange(700 * 600) % 251).reshape(600, 700))
    if gcps:
        d.SetGCPs([gdal.GCP(10 + i / 7, 50 - i / 9, i / 3, i * 37 % 700 + 0.25, i * 53 % 600, "info" if names else "", "p%d" % i if names else str(i + 1)) for i in range(gcps)], srs(system))
    if transform is not None:
        d.SetGeoTransform((transform, 1, 0, 20, 0, -1)); d.SetSpatialRef(srs("EPSG:32620"))
    if rpcs is not None:
        d.SetMetadata(rpc(rpcs), "RPC")
    if point:
        d.SetMetadataItem("AREA_OR_POINT", "Point")
    gdal.GetDriverByName(driver).CreateCopy(name, d)
make("g.tif", 5); make("h.tif", 4); make("point.tif", 5, "EPSG:32631", point=True); make("both.tif", 7, "EPSG:32631", rpcs=3)
make("rpc.tif", rpcs=10); make("placed.tif", transform=100, rpcs=4); make("shifted.tif", transform=130, rpcs=5); make("between.tif", transform=100.5, rpcs=6)
make("named.png", 3, names=True, driver="PNG"); make("lcc.png", 4, "ESRI:102422", driver="PNG"); make("many.png", 11000, driver="PNG"); make("both.png", 6, rpcs=9, driver="PNG")
make("contradiction.png", 6, "EPSG:32620", transform=100, rpcs=9, driver="PNG")
print("null")
`

// compareControl says how the georeferencing of outputs differs from what gdal_translate makes of
// their inputs. Sidecars have a dozen digits of places.
const compareControl = `
import json, os, sys
import numpy as np
import rasterio
from osgeo import gdal
gdal.UseExceptions()
faults = []
for path, out, window, digits in json.load(sys.stdin):
    gdal.Translate(f"/vsimem/{out}/want.tif", path, srcWin=window)
    want, got = gdal.Open(f"/vsimem/{out}/want.tif"), gdal.Open(out)
    points = lambda d: [(p.GCPPixel, p.GCPLine, p.GCPX, p.GCPY, p.GCPZ) for p in d.GetGCPs()]
    a, b = points(want), points(got)
    s, z = want.GetGCPSpatialRef(), got.GetGCPSpatialRef()
    source = gdal.Open(path)
    if "many" in path or path.endswith(".vrt"):
        # GDAL 3.6 writes a tag of so many points that it can't read, and writes the identity as a transform.
        a, s = [(x - window[0], y - window[1], *p) for x, y, *p in points(source)], source.GetGCPSpatialRef()
        want = got
    same = {
        "points": len(a) == len(b) and np.allclose(np.array(a), np.array(b), rtol=digits, atol=0),
        "system of points": (s is None) == (z is None) and (s is None or s.IsSame(z) == 1),
        "rpc": want.GetMetadata("RPC") == got.GetMetadata("RPC"),
        "transform": want.GetGeoTransform(can_return_null=True) == got.GetGeoTransform(can_return_null=True),
        "system": (want.GetSpatialRef() is None) == (got.GetSpatialRef() is None),
        "point": want.GetMetadataItem("AREA_OR_POINT") == got.GetMetadataItem("AREA_OR_POINT") or not a,
        "no transform with points": not b or got.GetGeoTransform(can_return_null=True) is None and got.GetSpatialRef() is None,
        "checksum": source.GetRasterBand(1).Checksum(*window) == got.GetRasterBand(1).Checksum(),
    }
    faults += [f"{out}: {what}" for what, ok in same.items() if not ok]
    with rasterio.open(out) as r:
        if [(p.col, p.row, p.x, p.y, p.z) for p in r.gcps[0]] != b or (r.rpcs is None) != (not got.GetMetadata("RPC")):
            faults.append(f"{out}: rasterio reads {r.gcps}, {r.rpcs}")
json.dump(faults, sys.stdout)
`

// controlCase is an output, its input, the window of that and how exact places are.
type controlCase = [4]any

func sameControl(t *testing.T, cases []controlCase) {
	t.Helper()
	var faults []string
	pytest.Run(t, []string{"osgeo.gdal", "numpy", "rasterio"}, compareControl, cases, &faults)
	for _, f := range faults {
		t.Error(f)
	}
}

func TestControlPointsAndRPCsAreThoseOfGdalTranslate(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeControl, dir, nil)
	var cases []controlCase
	names := []string{"g.tif", "point.tif", "both.tif", "rpc.tif", "placed.tif", "named.png", "lcc.png", "many.png",
		"both.png"}
	for i, name := range names {
		for k, window := range []raster.Window{{Width: 700, Height: 600}, {Col: 33, Row: 21, Width: 500, Height: 401}} {
			path, out := filepath.Join(dir, name), Output{Path: filepath.Join(dir, fmt.Sprintf("%s_%d.tif", name, k))}
			out.COG = i%2 == 0
			mustRun(t, Job{Inputs: map[string]Input{"a": File(path)}, Expressions: map[string]string{"o": "a"},
				Outputs: map[string]Output{"o": out}, Controls: Controls{Window: &window}})
			digits := 0.0
			if strings.HasSuffix(name, ".png") {
				digits = 1e-15
			}
			cases = append(cases,
				controlCase{path, out.Path, []int{window.Col, window.Row, window.Width, window.Height}, digits})
		}
	}
	sameControl(t, cases)
}

func TestControlPointsOfARealFileAreKept(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	path, dir := repositoryData(t, "rasterio/RGB.byte.gcp.vrt"), t.TempDir()
	var cases []controlCase
	for k, w := range []raster.Window{{Width: 791, Height: 718}, {Col: 100, Row: 50, Width: 600, Height: 401}} {
		out := filepath.Join(dir, fmt.Sprintf("%d.tif", k))
		mustRun(t, Job{Inputs: map[string]Input{"a": File(path)}, Expressions: map[string]string{"o": "a"},
			Outputs: map[string]Output{"o": {Path: out}}, Controls: Controls{Window: &w}})
		cases = append(cases, controlCase{path, out, []int{w.Col, w.Row, w.Width, w.Height}, 0.0})
	}
	sameControl(t, cases)
}

// info describes a raster of any format.
func info(t *testing.T, path string) *raster.Info {
	t.Helper()
	s, err := resolve.OpenRaster(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Info()
}

func TestControlPointsDoNotDependOnHowTheJobIsRun(t *testing.T) {
	needGDAL(t)
	in := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeControl, in, nil)
	run := func(c Concurrency, cut bool) []byte {
		job := Job{Inputs: map[string]Input{"a": File(filepath.Join(in, "both.tif"))},
			Expressions: map[string]string{"o": "a*2"},
			Outputs:     map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.tif"), TileSize: 128}},
			Controls:    Controls{WindowWidth: 128, WindowHeight: 128}, Concurrency: c}
		if cut {
			ctx, cancel := context.WithCancel(t.Context())
			afterBlocks(t, 3, cancel)
			if _, err := Run(ctx, job); err == nil {
				t.Fatal("the run was not cut short")
			}
			job.Resume = true
			if res := mustRun(t, job); res.Resumed == 0 {
				t.Error("nothing was resumed")
			}
		} else {
			mustRun(t, job)
		}
		f := open(t, job.Outputs["o"].Path)
		if g := f.Info().Grid; g.GCPs == nil || len(g.GCPs.Points) != 7 || g.RPC == nil {
			t.Errorf("the output has %v, %v", g.GCPs, g.RPC)
		}
		return fileBytes(t, job.Outputs["o"].Path)
	}
	want := run(Concurrency{Workers: 1}, false)
	if !bytes.Equal(run(Concurrency{Workers: 1}, true), want) {
		t.Error("resumed: other bytes")
	}
	for _, r := range []Reading{ReadHere, ReadByWorkers} {
		if !bytes.Equal(run(Concurrency{On: subprocess.New(nil), Workers: 2, Reading: r}, false), want) {
			t.Errorf("in other processes, reading %v: other bytes", r)
		}
	}
}

func TestNotesNameControlThatIsNotKept(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeControl, dir, nil)
	rpcOf := func(name string) *raster.RPC { return info(t, filepath.Join(dir, name)).Grid.RPC }
	shifted := rpcOf("placed.tif")
	shifted.SampOff -= 30
	for name, c := range map[string]struct {
		a, b, reference string
		format          string
		note            string
		points          int
		rpc             *raster.RPC
	}{
		"other points": {a: "g.tif", b: "h.tif", note: "different ground control points",
			points: 5},
		"other points, second": {a: "g.tif", b: "h.tif", reference: "b", note: "those of b", points: 4},
		"the same points":      {a: "g.tif", b: "g.tif", points: 5},
		"other coefficients": {a: "placed.tif", b: "shifted.tif", note: "those of a",
			rpc: shifted},
		"of the second": {a: "placed.tif", b: "shifted.tif", reference: "b", note: "those of b",
			rpc: rpcOf("shifted.tif")},
		"warped": {a: "placed.tif", b: "between.tif", reference: "a", note: "of b: it is warped",
			rpc: rpcOf("placed.tif")},
		"transform": {a: "contradiction.png", b: "contradiction.png",
			note: "(GCPs) of a, b: the grid has coordinates of its own", rpc: rpcOf("contradiction.png")},
		"names": {a: "named.png", b: "rpc.tif", note: "names of ground control points",
			points: 3, rpc: rpcOf("rpc.tif")},
		"format without points": {a: "point.tif", b: "point.tif", format: "netCDF",
			note: "ground control points"},
		"format with both":      {a: "both.tif", b: "both.tif", format: "ENVI", points: 7, rpc: rpcOf("both.tif")},
		"format that copies":    {a: "both.tif", b: "both.tif", format: "PNG", points: 7, rpc: rpcOf("both.tif")},
		"format, point as area": {a: "point.tif", b: "point.tif", format: "PNG", points: 5},
	} {
		t.Run(name, func(t *testing.T) {
			out := Output{Path: filepath.Join(t.TempDir(), "o.tif"), Format: c.format}
			if c.format != "" {
				out.Path = strings.TrimSuffix(out.Path, ".tif")
			}
			job := Job{Inputs: map[string]Input{"a": File(filepath.Join(dir, c.a)), "b": File(filepath.Join(dir, c.b))},
				Expressions: map[string]string{"o": "min(a, b)"}, Outputs: map[string]Output{"o": out},
				Controls: Controls{Reference: c.reference}}
			res := mustRun(t, job)
			notes := strings.Join(noteTexts(res.Plan.Notes, res.Outputs[0].Warnings), "\n")
			if strings.Count(notes, c.note) != 1 && c.note != "" || c.note == "" && strings.Contains(notes, "control") {
				t.Errorf("notes %q", notes)
			}
			g := info(t, out.Path).Grid
			if g.GCPs == nil && c.points > 0 || g.GCPs != nil && len(g.GCPs.Points) != c.points {
				t.Errorf("points %v", g.GCPs)
			}
			if (g.RPC == nil) != (c.rpc == nil) || g.RPC != nil &&
				!slices.EqualFunc(georef.RPCValues(g.RPC), georef.RPCValues(c.rpc), isClose) {
				t.Errorf("coefficients %v, expected %v", g.RPC, c.rpc)
			}
		})
	}
}
