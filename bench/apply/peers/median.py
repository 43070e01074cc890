"""Median of many dates to float32, in windows of 512x512.

plain    numpy.median, one thread, deflate
tuned    numpy.partition, two threads, the best coding
network  the middle by a network of numpy.minimum and numpy.maximum over rows in the cache, two threads, the best coding
"""
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import rasterio

from common import ahead, create, done, start

way, out_path, in_paths = sys.argv[1], sys.argv[2], sys.argv[3:]
N = len(in_paths)
A, B = (N - 1) // 2, N // 2


def network(n):
    """The comparisons of Batcher's sort that can reach the middle."""
    pairs, p = [], 1
    while p < n:
        k = p
        while k >= 1:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        pairs.append((i + j, i + j + k))
            k //= 2
        p *= 2
    needed, kept = {A, B}, []
    for i, j in reversed(pairs):
        if i in needed or j in needed:
            kept.append((i, j, i in needed, j in needed))
            needed |= {i, j}
    return kept[::-1]


def plain(stack):
    return np.median(stack, axis=0).astype(np.float32)


def tuned(stack):
    p = np.partition(stack, (A, B), axis=0)
    return (p[A].astype(np.float32) + p[B]) / np.float32(2)


NETWORK = network(N)


def by_network(stack):
    out = np.empty(stack.shape[1:], np.float32)
    spare = np.empty((16,) + stack.shape[2:], stack.dtype)
    for y in range(0, stack.shape[1], 16):
        v = [s[y:y + 16] for s in stack]
        t = spare[:len(v[0])]
        for i, j, low, high in NETWORK:
            if low and high:
                np.minimum(v[i], v[j], out=t)
                np.maximum(v[i], v[j], out=v[j])
                v[i][...] = t
            elif low:
                np.minimum(v[i], v[j], out=v[i])
            else:
                np.maximum(v[i], v[j], out=v[j])
        o = out[y:y + 16]
        np.add(v[A], v[B], out=o, dtype=np.float32)
        o *= np.float32(0.5)
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
