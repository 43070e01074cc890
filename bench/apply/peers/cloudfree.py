"""Median of the NDVI of the clear pixels of many scenes to float32, NaN where no scene is clear, by xarray and dask in two
threads. FILES are all red bands, then all near infrared bands, then all classes.

xarray   where and median of xarray on chunks of 512x512, deflate
chunks   xarray's arrays; a function of a chunk of all scenes sorts by a network of numpy.minimum and numpy.maximum
         over rows in the cache; the best coding
windows  the same function on windows that dask's threads read by rasterio
"""
import sys
import threading

import dask
import dask.array as da
import numpy as np
import rasterio
import rioxarray
import xarray as xr
from rasterio.windows import Window

from common import create, done, network, order, start

way, out_path, files = sys.argv[1], sys.argv[2], sys.argv[3:]
N = len(files) // 3
RED, NIR, SCL = files[:N], files[N:2 * N], files[2 * N:]
CLEAR = (4, 5, 6)
MIDDLE = N // 2
NETWORK = network(N, 0, MIDDLE)  # with fewer clear scenes, the middle ranks are lower
np.seterr(all="ignore")


def median(red, nir, scl):
    """Return the median of the NDVI of the clear scenes. Others sort last, as infinity."""
    out = np.empty(red.shape[1:], np.float32)
    v = np.empty((N, 16) + red.shape[2:], np.float32)
    spare = np.empty_like(v[0])
    for y in range(0, red.shape[1], 16):
        rows = min(16, red.shape[1] - y)
        part, s = v[:, :rows], spare[:rows]
        clear = np.isin(scl[:, y:y + rows], CLEAR)
        for i in range(N):
            np.subtract(nir[i, y:y + rows], red[i, y:y + rows], out=part[i], dtype=np.float32)
            np.add(nir[i, y:y + rows], red[i, y:y + rows], out=s, dtype=np.float32)
            part[i] /= s
            part[i][~clear[i]] = np.inf
        order(list(part), NETWORK, s)
        n = clear.sum(axis=0)
        low = np.take_along_axis(part, np.maximum(n - 1, 0)[None] // 2, 0)[0]
        high = np.take_along_axis(part, n[None] // 2, 0)[0]
        low += high
        low *= np.float32(0.5)
        low[n == 0] = np.nan
        out[y:y + rows] = low
    return out


class Writer:
    """Writer is the target of dask.array.store: it writes each chunk to a dataset."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __setitem__(self, at, a):
        rows, columns = at
        self.dataset.write(a, 1, window=Window.from_slices(rows, columns))


def scenes(paths, chunk):
    """Return the rasters as one array of scenes, rows and columns, in chunks of one scene each."""
    arrays = [rioxarray.open_rasterio(p, chunks=dict(x=chunk, y=chunk), lock=False).squeeze("band", drop=True)
              for p in paths]
    return xr.concat(arrays, "scene", join="override")


start()
with dask.config.set(scheduler="threads", num_workers=2), rasterio.Env(GDAL_CACHEMAX=512):
    if way == "xarray":
        red, nir, scl = (scenes(p, 512) for p in (RED, NIR, SCL))
        red, nir = red.astype(np.float32), nir.astype(np.float32)
        ndvi = ((nir - red) / (nir + red)).where(scl.isin(CLEAR))
        ndvi.chunk(scene=-1).median("scene").astype(np.float32).rio.to_raster(
            out_path, tiled=True, blockxsize=512, blockysize=512, compress="deflate", lock=threading.Lock())
    elif way == "chunks":
        with rasterio.open(RED[0]) as like, create(out_path, like, "tuned") as out:
            parts = [scenes(p, 512).chunk(scene=-1).data for p in (RED, NIR, SCL)]
            result = da.map_blocks(median, *parts, dtype=np.float32, drop_axis=0)
            da.store(result, Writer(out), lock=threading.Lock())
    else:
        own = threading.local()

        def read(block_info=None):
            if not hasattr(own, "files"):
                own.files = [[rasterio.open(p) for p in paths] for paths in (RED, NIR, SCL)]
            (y, y_end), (x, x_end) = block_info[None]["array-location"]
            w = Window(x, y, x_end - x, y_end - y)
            return median(*(np.stack([d.read(1, window=w) for d in band]) for band in own.files))

        with rasterio.open(RED[0]) as like, create(out_path, like, "tuned") as out:
            chunks = da.core.normalize_chunks((512, 512), like.shape)
            da.store(da.map_blocks(read, chunks=chunks, dtype=np.float32), Writer(out), lock=threading.Lock())
done()
