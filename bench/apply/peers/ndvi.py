"""NDVI of two files to float32 by rasterio and NumPy, in several ways:

blocks  block by block of the input, as the manual shows it
whole   whole arrays, read and written with two threads, computed by rows that stay in the cache
rows    windows of many rows, read and written with two threads
ahead   windows of many rows, read and computed by two threads of Python while GDAL's threads encode
"""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import rasterio
from rasterio.windows import Window

from common import ahead, arguments, create, done, rows, start

way, coding, red_path, nir_path, out_path = arguments("WAY", "CODING", "RED", "NIR", "OUT")
np.seterr(all="ignore")
ROWS = 512


def ndvi(red, nir):
    red, nir = red.astype(np.float32), nir.astype(np.float32)
    return (nir - red) / (nir + red)


def ndvi_by_rows(red, nir, step):
    """The same in little memory and two passes less over it."""
    out = np.empty(red.shape, np.float32)
    for i in range(0, len(out), step):
        r, n = red[i:i + step].astype(np.float32), nir[i:i + step].astype(np.float32)
        np.subtract(n, r, out=out[i:i + step])
        np.add(n, r, out=n)
        np.divide(out[i:i + step], n, out=out[i:i + step])
    return out


start()
if way == "blocks":
    with rasterio.open(red_path) as red, rasterio.open(nir_path) as nir, create(out_path, red, coding) as out:
        for _, w in out.block_windows(1):
            out.write(ndvi(red.read(1, window=w), nir.read(1, window=w)), 1, window=w)
elif way == "whole":
    with rasterio.Env(GDAL_CACHEMAX=64), rasterio.open(red_path, num_threads=2) as red, \
            rasterio.open(nir_path, num_threads=2) as nir, create(out_path, red, coding) as out:
        out.write(ndvi_by_rows(red.read(1), nir.read(1), 8), 1)
elif way == "rows":
    with rasterio.Env(GDAL_CACHEMAX=256), rasterio.open(red_path, num_threads=2) as red, \
            rasterio.open(nir_path, num_threads=2) as nir, create(out_path, red, coding) as out:
        for w in rows(out, ROWS):
            out.write(ndvi_by_rows(red.read(1, window=w), nir.read(1, window=w), 8), 1, window=w)
elif way == "ahead":
    import threading
    own = threading.local()

    def read(w):
        if not hasattr(own, "red"):
            own.red, own.nir = rasterio.open(red_path), rasterio.open(nir_path)
        return w, ndvi_by_rows(own.red.read(1, window=w), own.nir.read(1, window=w), 8)

    with rasterio.Env(GDAL_CACHEMAX=256), ThreadPoolExecutor(2) as pool, rasterio.open(red_path) as red, \
            create(out_path, red, coding) as out:
        for w, a in ahead(pool, read, list(rows(out, ROWS)), 3):
            out.write(a, 1, window=w)
else:
    raise SystemExit(f"no way {way}")
done()
