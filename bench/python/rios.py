"""Compares RIOS, tuned, with leat.rios and leat.apply.

    LEAT_PEERS=DIR LEAT_BINARY=bin/leat PYTHONPATH=python python3 bench/python/rios.py

scripts/peers makes DIR. Prints Markdown. RIOS makes neither statistics nor overviews, leat makes
both. Each run is a process of its own. Times are medians, in brackets the lowest and highest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import leat

APPLY = """
import json, sys
import leat
import numpy as np

def ndvi(b):
    red, nir = b.red.astype("f4"), b.nir.astype("f4")
    with np.errstate(all="ignore"):
        np.divide(nir - red, nir + red, out=b.new("out", "f4"))

if __name__ == "__main__":
    case = json.loads(sys.argv[1])
    leat.apply(ndvi, case["scene"], case["out"], nodata=0, workers=case["workers"])
"""

RIOS = """
import importlib, json, sys
case = json.loads(sys.argv[1])
from osgeo import gdal, osr
gdal.UseExceptions()
import numpy as np

# RIOS 2.0.9 passes an argument that GDAL 3.6 does not know.
class SpatialReference(osr.SpatialReference):
    def __init__(self, *args, epsg=None, **options):
        super().__init__(*args, **options)
        if epsg is not None:
            self.ImportFromEPSG(epsg)

osr.SpatialReference = SpatialReference
applier = importlib.import_module(case["module"] + ".applier")

def ndvi(info, inputs, outputs):
    red, nir = inputs.red.astype("f4"), inputs.nir.astype("f4")
    with np.errstate(all="ignore"):
        outputs.out = (nir - red) / (nir + red)

if __name__ == "__main__":
    infiles, outfiles = applier.FilenameAssociations(), applier.FilenameAssociations()
    infiles.red, infiles.nir, outfiles.out = case["scene"]["red"], case["scene"]["nir"], case["out"]
    controls = applier.ApplierControls()
    controls.setOutputDriverName("GTiff")
    controls.setCreationOptions(case["options"])
    controls.setWindowSize(case["window"], case["window"])
    if case["bare"]:
        controls.setCalcStats(False)
        controls.setOmitPyramids(True)
    if case["workers"]:
        controls.setConcurrencyStyle(applier.ConcurrencyStyle(
            numReadWorkers=case["readers"], numComputeWorkers=case["workers"],
            computeWorkerKind=getattr(applier, case["kind"])))
    applier.apply(ndvi, infiles, outfiles, controls=controls)
"""

# What RIOS's users tune: the window, workers, and a fast coding of the same kind as leat's.
# Predictor 3 is not possible: RIOS tries the options with an image of bytes first.
CODING = ["TILED=YES", "COMPRESS=DEFLATE", "ZLEVEL=1"]
LEAT_CODING = ["COMPRESS=DEFLATE", "PREDICTOR=3"]


def variants() -> dict[str, tuple[str, dict[str, object]]]:
    """Return the program and the case of each variant."""
    rios = {"module": "rios", "bare": True, "options": CODING, "window": 512, "workers": 0}
    threads = {**rios, "workers": 2, "readers": 1, "kind": "CW_THREADS"}
    drop_in = {**rios, "module": "leat.rios", "bare": False, "options": LEAT_CODING}
    return {
        "RIOS, one thread": (RIOS, rios),
        "RIOS, one thread, windows of 1024": (RIOS, {**rios, "window": 1024}),
        "RIOS, one thread, GDAL encodes in two":
            (RIOS, {**rios, "options": [*CODING, "NUM_THREADS=2"]}),
        "RIOS, CW_THREADS, one reader": (RIOS, threads),
        "RIOS, CW_THREADS, two readers, windows of 1024":
            (RIOS, {**threads, "readers": 2, "window": 1024}),
        "RIOS, one thread, predictor 2":
            (RIOS, {**rios, "options": [*CODING, "PREDICTOR=2"]}),
        "leat.rios, CW_NONE": (RIOS, drop_in),
        "leat.rios, CW_SUBPROC":
            (RIOS, {**drop_in, "workers": 2, "readers": 1, "kind": "CW_SUBPROC"}),
        "leat.apply, two processes": (APPLY, {"workers": 2}),
        "leat.apply, threads": (APPLY, {"workers": "threads"}),
    }


def measure(program: str, case: dict[str, object], directory: str) -> tuple[float, float]:
    """Run the program and return the seconds by the clock, and those of the processors."""
    path = os.path.join(directory, "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    environment = dict(os.environ)
    package = os.path.dirname(os.path.dirname(leat.__file__))
    environment["PYTHONPATH"] = os.pathsep.join(
        [package, os.path.join(os.environ["LEAT_PEERS"], "rios")])
    before, begin = os.times(), time.perf_counter()
    subprocess.run([sys.executable, path, json.dumps(case)], check=True, env=environment,
                   stdout=subprocess.DEVNULL, cwd=directory)
    wall, after = time.perf_counter() - begin, os.times()
    return wall, (after.children_user - before.children_user
                  + after.children_system - before.children_system)


def describe(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=5490)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if "LEAT_PEERS" not in os.environ:
        sys.exit("LEAT_PEERS is not set: scripts/peers makes the directory that it names")
    with tempfile.TemporaryDirectory() as directory:
        scene = leat.demo(os.path.join(directory, "scene"), size=options.size)
        out = os.path.join(directory, "out.tif")
        wall: dict[str, list[float]] = {}
        used: dict[str, list[float]] = {}
        for run in range(options.runs + 1):
            for name, (program, case) in variants().items():
                times = measure(program, {**case, "scene": dict(scene), "out": out}, directory)
                os.unlink(out)
                if run > 0:  # the first one warms up
                    wall.setdefault(name, []).append(times[0])
                    used.setdefault(name, []).append(times[1])
                print(".", end="", file=sys.stderr, flush=True)
    rios = [name for name in used if name.startswith("RIOS")]
    base = min(statistics.median(used[name]) for name in rios)
    fastest = min(statistics.median(wall[name]) for name in rios)
    print(f"\nNDVI of two bands of uint16, {options.size} x {options.size}, to float32. "
          "RIOS makes pixels only, leat statistics and overviews too:\n\n"
          "| variant | wall, s | ÷ fastest RIOS | processor, s | ÷ cheapest RIOS |\n"
          "| --- | --- | --- | --- | --- |")
    for name in wall:
        print(f"| {name} | {describe(wall[name])} | "
              f"{statistics.median(wall[name]) / fastest:.2f} | "
              f"{describe(used[name])} | {statistics.median(used[name]) / base:.2f} |")


if __name__ == "__main__":
    main()
