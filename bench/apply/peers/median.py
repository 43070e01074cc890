"""Median or percentile 90 of many dates to float32, in windows of 512x512.

plain    numpy.median or numpy.percentile, one thread, deflate
tuned    numpy.partition, two threads, the best coding
network  the ranks by a network of numpy.minimum and numpy.maximum over rows in the cache, two threads, the best coding
"""
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import rasterio

from common import ahead, create, done, network, order, start

way, statistic, out_path, in_paths = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
N = len(in_paths)
A, B, FRACTION = (N - 1) // 2, N // 2, 0.5
if statistic == "p90":
    A = int((N - 1) * 0.9)
    B, FRACTION = min(A + 1, N - 1), (N - 1) * 0.9 - A


def plain(stack):
    if statistic == "median":
        return np.median(stack, axis=0).astype(np.float32)
    return np.percentile(stack, 90, axis=0).astype(np.float32)


def between(a, b, out):
    """Set out to the value between ranks A and B, rounded as NumPy rounds it."""
    if statistic == "median":
        np.add(a, b, out=out, dtype=np.float32)
        out *= np.float32(0.5)
        return
    rise = np.subtract(b, a, dtype=np.float64)
    if FRACTION >= 0.5:
        rise *= FRACTION - 1
        rise += b
    else:
        rise *= FRACTION
        rise += a
    out[...] = rise


def tuned(stack):
    p = np.partition(stack, (A, B), axis=0)
    out = np.empty(stack.shape[1:], np.float32)
    between(p[A], p[B], out)
    return out


NETWORK = network(N, A, B)


def by_network(stack):
    out = np.empty(stack.shape[1:], np.float32)
    spare = np.empty((16,) + stack.shape[2:], stack.dtype)
    for y in range(0, stack.shape[1], 16):
        v = [s[y:y + 16] for s in stack]
        order(v, NETWORK, spare[:len(v[0])])
        between(v[A], v[B], out[y:y + 16])
    return out


function = {"plain": plain, "tuned": tuned, "network": by_network}[way]
own = threading.local()


def work(w):
    if not hasattr(own, "files"):
        own.files = [rasterio.open(p) for p in in_paths]
    return w, function(np.stack([d.read(1, window=w) for d in own.files]))


start()
with rasterio.Env(GDAL_CACHEMAX=512), rasterio.open(in_paths[0]) as d, create(out_path, d, "plain" if way == "plain" else "tuned") as out:
    windows = [w for _, w in out.block_windows(1)]
    if way == "plain":
        for w in windows:
            out.write(work(w)[1], 1, window=w)
    else:
        with ThreadPoolExecutor(2) as pool:
            for w, a in ahead(pool, work, windows, 4):
                out.write(a, 1, window=w)
done()
