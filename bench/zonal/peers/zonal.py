"""Means of a raster within polygons, by rasterstats' algorithm: each polygon is rasterized in its window.

zonal.py windows|memory RASTER ZONES.geojson OUT.csv
"""
import csv
import json
import multiprocessing
import sys

import numpy as np
import rasterio
import rasterio.features
import rasterio.windows

mode, raster, zones, out = sys.argv[1:]
with open(zones) as f:
    features = json.load(f)["features"]
array = None


def mean(src, feature):
    xs, ys = np.array(feature["geometry"]["coordinates"][0]).T
    c0, r0 = ~src.transform * (xs.min(), ys.max())
    c1, r1 = ~src.transform * (xs.max(), ys.min())
    c0, r0 = max(int(np.floor(c0)), 0), max(int(np.floor(r0)), 0)
    c1, r1 = min(int(np.ceil(c1)), src.width), min(int(np.ceil(r1)), src.height)
    window = rasterio.windows.Window(c0, r0, c1 - c0, r1 - r0)
    values = src.read(1, window=window) if array is None else array[r0:r1, c0:c1]
    inside = rasterio.features.rasterize([feature["geometry"]], out_shape=values.shape, fill=0, default_value=1,
                                         transform=rasterio.windows.transform(window, src.transform), dtype="uint8")
    return feature["properties"]["id"], values[inside != 0].mean(dtype=np.float64)


def part(k):
    half = (len(features) + 1) // 2
    with rasterio.open(raster) as src:
        return [mean(src, f) for f in features[k * half:(k + 1) * half]]


if mode == "memory":
    with rasterio.open(raster, num_threads="all_cpus") as src:
        array = src.read(1)
with multiprocessing.get_context("fork").Pool(2) as pool:
    rows = [row for rows in pool.map(part, range(2)) for row in rows]
with open(out, "w", newline="") as f:
    w = csv.writer(f)
    w.writerow(["id", "mean"])
    w.writerows((i, repr(float(m))) for i, m in rows)
