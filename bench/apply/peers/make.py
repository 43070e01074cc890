"""Makes the inputs from the scene of leat demo, all written by rasterio: deflate, predictor 2 (3 for floats), without nodata
unless said.

bands  IN OUT            a copy in tiles of 512
strips IN OUT            a copy in strips
nodata IN OUT            a copy in tiles of 512 that says that 0 is nodata
part   IN OUT COL ROW W H   a part of it, in tiles of 256
float  IN OUT            reflectance as float32, in tiles of 512
dem    IN OUT            heights of hills on its grid as float32, to a decimetre, in tiles of 512
dates  IN OUT N SIZE     the upper left part of it as on N dates: other light, other noise; OUT has %d in its name
clouds IN OUT N SIZE     classes of its pixels on N dates, numbered as Sentinel-2 numbers them, uint8; a third is cloud or shadow
"""
import os
import sys

import numpy as np
import rasterio
from rasterio.windows import Window

from common import rows

kind, in_path, out_path = sys.argv[1:4]
more = [int(v) for v in sys.argv[4:]]


def write(path, source, part, change=lambda a, row: a, dtype="uint16", nodata=None, **shape):
    shape = shape or dict(tiled=True, blockxsize=512, blockysize=512)
    unfinished = path + ".part"
    with rasterio.open(unfinished, "w", driver="GTiff", width=part.width, height=part.height, count=1, dtype=dtype, crs=source.crs,
                       transform=source.window_transform(part), nodata=nodata, compress="deflate",
                       predictor={"float32": 3, "uint8": 1}.get(dtype, 2), num_threads=2, bigtiff="if_safer", **shape) as out:
        for w in rows(out, 512):
            a = source.read(1, window=Window(part.col_off, part.row_off + w.row_off, w.width, w.height))
            out.write(change(a, w.row_off), 1, window=w)
    with open(unfinished, "rb+") as f:
        os.fsync(f.fileno())  # else it is written out while something is measured
    os.rename(unfinished, path)


# Reading with threads too hangs GDAL 3.6 now and then: readers and writers wait for one pool of threads.
with rasterio.Env(GDAL_CACHEMAX=512), rasterio.open(in_path) as source:
    whole = Window(0, 0, source.width, source.height)
    if kind == "bands":
        write(out_path, source, whole)
    elif kind == "strips":
        write(out_path, source, whole, tiled=False)
    elif kind == "nodata":
        write(out_path, source, whole, nodata=0)
    elif kind == "part":
        write(out_path, source, Window(*more), tiled=True, blockxsize=256, blockysize=256)
    elif kind == "float":
        write(out_path, source, whole, lambda a, row: (a.astype(np.float32) - np.float32(1000)) / np.float32(10000), "float32")
    elif kind == "dem":
        def heights(a, row):
            y, x = np.mgrid[row:row + a.shape[0], 0:a.shape[1]]
            h = 800 + 300 * np.sin(x / 397) * np.cos(y / 293) + 40 * np.sin(x / 31 + y / 47)
            return np.round(h + np.random.default_rng(row).normal(0, 0.3, a.shape), 1).astype(np.float32)
        write(out_path, source, whole, heights, "float32")
    elif kind == "dates":
        n, size = more
        for date in range(n):
            def change(a, row):
                noise = np.random.default_rng((date, row)).integers(-40, 41, a.shape)
                light = 1 + 0.15 * np.sin(2 * np.pi * date / n)
                return np.clip(1000 + (a - 1000.0) * light + noise, 1, 65535).astype(np.uint16)
            write(out_path % date, source, Window(0, 0, size, size), change)
    elif kind == "clouds":
        n, size = more
        for date in range(n):
            rng = np.random.default_rng(date)
            coarse = rng.random((size // 64 + 2, size // 64 + 2))
            steps = np.arange(size) / 64
            low, part = steps.astype(int), steps % 1

            def classes(a, row):
                y, fy = low[row:row + a.shape[0], None], part[row:row + a.shape[0], None]
                top = coarse[y, low] * (1 - part) + coarse[y, low + 1] * part
                bottom = coarse[y + 1, low] * (1 - part) + coarse[y + 1, low + 1] * part
                cover = top * (1 - fy) + bottom * fy
                clear = np.where(a > 1600, 5, np.where(a > 1150, 4, 6))
                return np.where(cover > 0.7, 9, np.where(cover > 0.6, 8, np.where(cover > 0.57, 3, clear))).astype(np.uint8)
            write(out_path % date, source, Window(0, 0, size, size), classes, "uint8")
    else:
        sys.exit(f"can't make {kind}")
