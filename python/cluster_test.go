package python

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/internal/worker/pbstest"
	"leat/internal/worker/slurmtest"
)

// riosScript is a script for RIOS except for its import. It runs a function with the
// computeWorkerKind of its first argument, and prints checksums of the outputs and the run's
// results. The inputs are a raster, a resampled raster, a list and a vector.
const riosScript = `
import hashlib, json, os, sys
import numpy as np
from osgeo import gdal, osr
from leat.rios import applier

gdal.UseExceptions()

class Other:
    total, blocks = 0, 0

def mix(info, inputs, outputs, other):
    red, nir = inputs.a.astype("f4")
    coarse = inputs.coarse[0] + sum(int(i) * block[0] for i, block in enumerate(inputs.list))
    outputs.index = np.array([(nir - red) / (nir + red)])
    outputs.mixed = [np.array([coarse + 1000 * inputs.area[0]]).astype("u2"),
                     inputs.a[:, ::-1] if info.getOverlapSize() == 0 else np.roll(inputs.a, 1, 2)]
    other.total += int(inputs.a.sum())
    other.blocks += 1

def fails(info, inputs, outputs, other):
    mix(info, inputs, outputs, other)
    if info.isLastBlock():
        raise ValueError("no luck in " + info.getFilenameFor(inputs.a))

def raster(name, pixels, size):
    d = gdal.GetDriverByName("GTiff").Create(name, pixels.shape[2], pixels.shape[1], pixels.shape[0], gdal.GDT_UInt16)
    d.SetGeoTransform((500000, size, 0, 7000000, 0, -size))
    sr = osr.SpatialReference()
    sr.ImportFromEPSG(28355)
    d.SetProjection(sr.ExportToWkt())
    d.WriteArray(pixels)

def inputs():
    r = np.random.RandomState(1)
    raster("a.tif", r.randint(1, 1000, (2, 300, 400)).astype("u2"), 10)
    raster("b.tif", r.randint(1, 1000, (1, 300, 400)).astype("u2"), 10)
    raster("coarse.tif", r.randint(1, 1000, (1, 100, 140)).astype("u2"), 30)
    ring = [[500500, 6999000], [502000, 6999900], [503000, 6997500], [500500, 6999000]]
    with open("area.geojson", "w") as f:
        json.dump({"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": "EPSG:28355"}},
                   "features": [{"type": "Feature", "properties": {},
                                 "geometry": {"type": "Polygon", "coordinates": [ring]}}]}, f)

def main(kind, single, name, out):
    infiles, outfiles, other = applier.FilenameAssociations(), applier.FilenameAssociations(), Other()
    infiles.a, infiles.list, infiles.coarse, infiles.area = "a.tif", ["a.tif", "b.tif"], "coarse.tif", "area.geojson"
    outfiles.index, outfiles.mixed = out + "/index.tif", [out + "/m1.tif", out + "/m2.tif"]
    os.makedirs(out, exist_ok=True)
    controls = applier.ApplierControls()
    controls.setReferenceImage("a.tif")
    controls.setResampleMethod("bilinear", "coarse")
    controls.setOutputDriverName("GTiff")
    controls.setOverlap(2)
    controls.setWindowSize(128, 128)
    controls.setTempdir(os.getcwd())
    if kind != "CW_NONE":
        controls.setConcurrencyStyle(applier.ConcurrencyStyle(
            computeWorkerKind=kind, numComputeWorkers=2, singleBlockComputeWorkers=single == "single"))
    done = applier.apply(globals()[name], infiles, outfiles, other, controls)
    files = sorted(os.listdir(out))
    sums = [hashlib.sha256(open(out + "/" + f, "rb").read()).hexdigest() for f in files]
    print(json.dumps({"files": files, "sums": sums, "total": sum(o.total for o in done.otherArgsList),
                      "blocks": sum(o.blocks for o in done.otherArgsList), "copies": len(done.otherArgsList)}))

if __name__ == "__main__":
    if sys.argv[1] == "inputs":
        inputs()
    else:
        main(*sys.argv[1:])
`

// riosResult is what riosScript prints.
type riosResult struct {
	Files, Sums           []string
	Total, Blocks, Copies int
}

// riosOnCluster compares runs of riosScript with computeWorkerKind kind with one in the script's
// own process. left names the jobs that have not ended.
func riosOnCluster(t *testing.T, kind string, left func() []string) {
	python := pytest.Python(t, "numpy", "osgeo.gdal")
	leat := buildLeat(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script.py")
	if err := os.WriteFile(script, []byte(riosScript), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) ([]byte, []byte, error) {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), python, append([]string{"-B", script}, args...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
		cmd.Env = append(os.Environ(), "LEAT_BINARY="+leat, "PYTHONPATH="+here, "LEAT_LISTEN=127.0.0.1")
		err := cmd.Run()
		return stdout.Bytes(), stderr.Bytes(), err
	}
	result := func(args ...string) (r riosResult) {
		t.Helper()
		stdout, stderr, err := run(args...)
		if err == nil {
			err = json.Unmarshal(stdout, &r)
		}
		if err != nil {
			t.Fatalf("%q: %v\n%s%s", args, err, stdout, stderr)
		}
		return r
	}
	if _, stderr, err := run("inputs"); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	want := result("CW_NONE", "", "mix", "here")
	if want.Blocks != 12 || len(want.Files) < 3 {
		t.Fatalf("%+v", want)
	}
	for _, single := range []string{"", "single"} {
		got := result(kind, single, "mix", "there"+single)
		if !slices.Equal(got.Files, want.Files) || !slices.Equal(got.Sums, want.Sums) {
			t.Errorf("%s: outputs differ from those of the process: %+v, expected %+v", single, got, want)
		}
		if got.Total != want.Total || got.Blocks != want.Blocks || single == "single" && got.Copies < 2 {
			t.Errorf("%s: other arguments %+v, expected %+v", single, got, want)
		}
	}
	_, stderr, err := run(kind, "", "fails", "failed")
	text := string(stderr)
	if err == nil || !strings.Contains(text, "ValueError: no luck in a.tif") ||
		!strings.Contains(text, "WorkerExceptionError") {
		t.Errorf("%v\n%s", err, text)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "failed", "[^.]*")); err != nil || len(files) > 0 {
		t.Errorf("the run that failed leaves %v, %v", files, err)
	}
	if got := result(kind, "", "mix", "failed"); !slices.Equal(got.Files, want.Files) || !slices.Equal(got.Sums, want.Sums) {
		t.Errorf("the run after that: %+v, expected %+v", got, want)
	}
	if jobs := left(); len(jobs) > 0 {
		t.Errorf("the jobs %v are left", jobs)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 9 {
		t.Errorf("files %v are left, %v", files, err)
	}
}

func TestRiosWithSlurm(t *testing.T) {
	c := slurmtest.Start(t)
	c.Setenv(t)
	riosOnCluster(t, "CW_SLURM", func() []string { return strings.Fields(c.Jobs(t)) })
}

func TestRiosWithPBS(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts jobs of the stand-in for PBS")
	}
	s := pbstest.New(t, pbstest.Settings{})
	riosOnCluster(t, "CW_PBS", s.Left)
}
