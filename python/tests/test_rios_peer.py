"""RIOS's own tests with leat.rios, and outputs of both compared, where LEAT_PEERS has RIOS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import leat

from .rios_support import SIZE, RiosCase, X, Y, needs_rios, np
from .support import peer, slow

PYTHON = Path(leat.__file__).parents[1]

# RIOS 2.0.9 constructs spatial references with an argument that GDAL 3.6 does not know.
START = """
import json, os, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from osgeo import osr

class SpatialReference(osr.SpatialReference):
    def __init__(self, *args, epsg=None, **options):
        super().__init__(*args, **options)
        if epsg is not None:
            self.ImportFromEPSG(epsg)

osr.SpatialReference = SpatialReference
"""

MODULES = START + """
import contextlib, importlib, io, time, traceback
import leat.rios
leat.rios.install()
from rios import applier
assert applier.__name__ == "leat.rios.applier"
for name in sys.argv[3:]:
    out, start = io.StringIO(), time.time()
    with contextlib.redirect_stdout(out):
        try:
            passed = bool(importlib.import_module("rios.riostests." + name).run())
        except Exception:
            traceback.print_exc(file=out)
            passed = False
    print(json.dumps([name, passed, time.time() - start, out.getvalue()]), flush=True)
"""

# Runs a list of cases: what the function returns, inputs, output, and controls.
CASES = START + """
import importlib
from osgeo import gdal
gdal.UseExceptions()
import numpy as np
applier = importlib.import_module(sys.argv[3] + ".applier")
for case in json.load(sys.stdin):
    infiles, outfiles = applier.FilenameAssociations(), applier.FilenameAssociations()
    for name, value in case["inputs"].items():
        setattr(infiles, name, value)
    outfiles.o = case["output"]
    controls = applier.ApplierControls()
    for name, values in case["controls"].items():
        getattr(controls, name)(*values)

    def function(info, inputs, outputs):
        x, y = info.getBlockCoordArrays()
        scope = {"np": np, "x": x, "y": y, "info": info, **vars(inputs)}
        outputs.o = eval(case["text"], scope)

    applier.apply(function, infiles, outfiles, controls=controls)
"""


@needs_rios
@slow("runs RIOS's own tests")
class OwnTests(RiosCase):
    def run_modules(self, *names: str) -> None:
        """Run modules of RIOS's tests in a process, print a table, and check that all pass."""
        rios = peer("rios")
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([rios, str(PYTHON)])}
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", MODULES, rios,
                               str(PYTHON), *names], stdout=subprocess.PIPE, cwd=self.dir, env=env)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for name, passed, seconds, _ in rows:
            print(f"| {name} | {'passed' if passed else 'failed'} | {seconds:.1f} s |")
        self.assertEqual([name for name, _, _, _ in rows], list(names))
        for name, passed, _, out in rows:
            self.assertTrue(passed, f"{name}: {out}")

    def test_blocks(self) -> None:
        self.run_modules("testavg", "testcoords", "testlayerselection", "testoverlap",
                         "testreaderinfo", "testbeforeclose", "testsigned8bit")

    def test_tables(self) -> None:
        self.run_modules("testcolortable", "testratcolortable", "testratstats")

    def test_workers(self) -> None:
        self.run_modules("testavgthreads", "testavgsubproc", "testapplyreturn")

    def test_grids(self) -> None:
        self.run_modules("testfootprint", "testfilesforextent", "testreproj", "testreprojcurves",
                         "testresample", "testsetinputnull", "testvector")

    def test_pyramids(self) -> None:
        self.run_modules("testpyramids")

    def test_statistics(self) -> None:
        self.run_modules("teststats")


@needs_rios
@slow("runs RIOS itself")
class SamePixels(RiosCase):
    def test_same_pixels_as_rios(self) -> None:
        peer("rios")
        rng = np.random.RandomState(5)

        def scene(bands: int, rows: int, columns: int) -> Any:
            return rng.randint(1, 1000, (bands, rows, columns)).astype("uint16")

        a = self.raster("a.tif", scene(2, 330, 410), nodata=7)
        b = self.raster("b.tif", scene(2, 300, 380), 41, 23)
        fine = self.raster("fine.tif", scene(2, 500, 640), 3.3, -2.1, nodata=3, size=5)
        half = self.raster("half.tif", scene(1, 300, 300), 4.5, 7.5)
        zone = self.raster("zone.tif", scene(1, 200, 250), 13.7, 20, nodata=0, epsg=32755)
        x0, y0 = X + 80.5 * SIZE, Y - 60.25 * SIZE
        square = self.path("areas.geojson")
        points = [[x0, y0], [x0 + 1503, y0 + 33], [x0 + 1210, y0 - 1500], [x0, y0]]
        Path(square).write_text(json.dumps({
            "type": "FeatureCollection", "crs": {"type": "name", "properties": {
                "name": "urn:ogc:def:crs:EPSG::28355"}}, "features": [
                {"type": "Feature", "properties": {"class": n}, "geometry": {
                    "type": "Polygon", "coordinates": [[[x + n * 30, y - n * 20]
                                                        for x, y in points]]}}
                for n in (3, 5)]}))
        gtiff = {"setOutputDriverName": ["GTiff"]}
        cases = [
            ("a + 1", {"a": a}, {}),
            ("a[:1] * np.float32(.3)", {"a": a}, gtiff),
            ("a + a[:, ::-1]", {"a": a}, {"setWindowSize": [64, 50]}),
            ("a + a[:, ::-1]", {"a": a}, {"setWindowSize": [100, 75], "setOverlap": [4]}),
            ("a[:1] + b[1:]", {"a": a, "b": b}, {"setOverlap": [9]}),
            ("np.concatenate((a, b))", {"a": a, "b": b}, {"setFootprintType": [1]}),
            ("np.concatenate((a, b))", {"a": a, "b": b}, {"setFootprintType": [2],
                                                          "setReferenceImage": ["b"]}),
            ("np.stack((x, y)).astype('i4')", {"a": a}, {"setOverlap": [2]}),
            *[("np.concatenate((a, fine))", {"a": a, "fine": fine},
               {"setReferenceImage": ["a"], "setResampleMethod": [method], "setOverlap": [3]})
              for method in ("near", "bilinear", "cubic", "lanczos", "average")],
            ("np.concatenate((a, zone))", {"a": a, "zone": zone},
             {"setReferenceImage": ["a"], "setResampleMethod": ["bilinear", "zone"],
              "setInputNoDataValue": [11, "zone"]}),
            ("np.concatenate((a[:1], zone))", {"a": a, "zone": zone},
             {"setReferenceImage": ["zone"], "setFootprintType": [1]}),
            *[("np.stack((fine[0], fine[0][::-1, ::-1]))", {"a": a, "fine": fine},
               {"setReferenceImage": ["a"], "setOverlap": [9], "setFootprintType": [footprint],
                "setResampleMethod": ["bilinear"]}) for footprint in (0, 1, 2)],
            *[("np.concatenate((a[:1], half))", {"a": a, "half": half},
               {"setReferenceImage": ["a"], "setFootprintType": [footprint],
                "setInputNoDataValue": [5, "half"], "setResampleMethod": ["average"]})
              for footprint in (0, 1)],
            ("np.stack((x, y)).astype('i4')", {}, {"setReferenceImage": [a],
                                                   "setFootprintType": [2], "setOverlap": [1]}),
            ("a // 9", {"a": a}, {"setThematic": [True]}),
            ("a", {"a": a}, {"setThematic": [True], **gtiff}),
            ("fine[0] + fine[1]", {"fine": [a, b]}, {"selectInputImageLayers": [[2]]}),
            ("v", {"a": a, "v": square}, {}),
            ("v", {"a": a, "v": square}, {"setBurnAttribute": ["class"], "setAlltouched": [True],
                                          "setVectorNull": [9], "setOverlap": [1]}),
            ("v", {"a": a, "v": square}, {"setBurnValue": [77]}),
        ]
        for module in ("rios", "leat.rios"):
            jobs = [{"text": text, "inputs": inputs, "controls": controls, "output": self.output(
                module, i, controls)} for i, (text, inputs, controls) in enumerate(cases)]
            done = subprocess.run(
                [sys.executable, "-B", "-W", "ignore", "-c", CASES, peer("rios"), str(PYTHON),
                 module], input=json.dumps(jobs).encode(), stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, cwd=self.dir)
            self.assertEqual(done.returncode, 0, done.stdout.decode())
        for i, (text, inputs, controls) in enumerate(cases):
            with self.subTest(text=text, inputs=list(inputs), controls=controls):
                paths = [self.output(module, i, controls) for module in ("rios", "leat.rios")]
                want, got = map(self.read, paths)
                self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
                np.testing.assert_array_equal(got, want)
                theirs, ours = map(self.describe, paths)
                for key, value in theirs.items():
                    self.assertEqual(ours[key], value, key)

    def output(self, module: str, number: int, controls: dict[str, Any]) -> str:
        """Return the path of an output."""
        ending = "tif" if "setOutputDriverName" in controls else "img"
        return self.path(f"{module}_{number}.{ending}")

    def describe(self, path: str) -> dict[str, Any]:
        """Return what a file has other than pixels."""
        from .rios_support import gdal
        dataset = gdal().Open(path)
        band = dataset.GetRasterBand(1)
        items = band.GetMetadata()
        histogram = None
        if items.get("STATISTICS_HISTOBINFUNCTION") == "direct":
            counts = items["STATISTICS_HISTOBINVALUES"].strip("|").split("|")
            histogram = np.trim_zeros(np.array(counts, "i8"), "b").tolist()
        return {"transform": dataset.GetGeoTransform(), "nodata": band.GetNoDataValue(),
                "overviews": band.GetOverviewCount(), "layer type": items.get("LAYER_TYPE"),
                "histogram": histogram,
                **{key: round(float(items["STATISTICS_" + key]), 6)
                   for key in ("MINIMUM", "MAXIMUM", "MEAN", "STDDEV")}}
