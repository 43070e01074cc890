"""Mean of the 11x11 pixels around each, of those that lie in the raster; sums in float64, the result float32.

plain   cumulative sums over windows of 512 rows, one thread, deflate
scipy   scipy.ndimage.uniform_filter of the whole array and of a mask of ones, SIDE x SIDE
tuned   the same with two threads that read and compute, the column sums built by adding 11 rows in the cache, and the best
        coding
"""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import rasterio
from rasterio.windows import Window

from common import ahead, arguments, create, done, rows, start

way, side, in_path, out_path = arguments("WAY", "SIDE", "IN", "OUT")
R = int(side) // 2
if way == "scipy":
    from scipy.ndimage import uniform_filter


def window_sums(a, axis):
    """Sums of 2R+1 neighbours along an axis; a has a margin of R there."""
    c = np.cumsum(a, axis=axis, dtype=np.float64)
    zero = np.zeros_like(c.take([0], axis=axis))
    c = np.concatenate([zero, c], axis=axis)
    n = a.shape[axis] - 2 * R
    return c.take(range(2 * R + 1, 2 * R + 1 + n), axis=axis) - c.take(range(n), axis=axis)


def counts(first, n, size):
    """How many of the 2R+1 places around each exist."""
    i = np.arange(first, first + n)
    return (np.minimum(i + R, size - 1) - np.maximum(i - R, 0) + 1).astype(np.float64)


def read(d, w):
    """The window with a margin of R on all sides, 0 beyond the raster."""
    top, bottom = min(R, w.row_off), min(R, d.height - w.row_off - w.height)
    a = d.read(1, window=Window(0, w.row_off - top, d.width, w.height + top + bottom))
    return np.pad(a, ((R - top, R - bottom), (R, R)))


def plain(d, w):
    a = read(d, w)
    s = window_sums(window_sums(a, 0), 1)
    return (s / np.outer(counts(w.row_off, w.height, d.height), counts(0, d.width, d.width))).astype(np.float32)


def tuned(d, w):
    a = read(d, w)
    out = np.empty((w.height, d.width), np.float32)
    below = counts(w.row_off, w.height, d.height)
    across = counts(0, d.width, d.width)
    column = a[:2 * R].sum(axis=0, dtype=np.float64)
    c = np.zeros(len(column) + 1)
    s = np.empty(d.width)
    for y in range(w.height):
        column += a[y + 2 * R]
        np.cumsum(column, out=c[1:])
        np.subtract(c[2 * R + 1:], c[:-2 * R - 1], out=s)
        s /= across * below[y]
        out[y] = s
        column -= a[y]
    return out


start()
if way == "plain":
    with rasterio.open(in_path) as d, create(out_path, d, "plain") as out:
        for w in rows(d, 512):
            out.write(plain(d, w), 1, window=w)
elif way == "scipy":
    with rasterio.Env(GDAL_CACHEMAX=512), rasterio.open(in_path) as d, create(out_path, d, "tuned") as out:
        def mean(a):
            return uniform_filter(a, 2 * R + 1, output=np.float64, mode="constant")

        a = mean(d.read(1))
        a /= mean(np.ones(d.shape, np.float32))
        out.write(a.astype(np.float32), 1)
else:
    own = threading.local()

    def work(w):
        if not hasattr(own, "d"):
            own.d = rasterio.open(in_path)
        return w, tuned(own.d, w)

    with rasterio.Env(GDAL_CACHEMAX=512), ThreadPoolExecutor(2) as pool, rasterio.open(in_path) as d, \
            create(out_path, d, "tuned") as out:
        for w, a in ahead(pool, work, list(rows(d, 512)), 3):
            out.write(a, 1, window=w)
done()
