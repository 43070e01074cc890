"""What the peers share. A peer does one job as a process of its own and ends with the line "inner SECONDS": the time of
the job without the start of Python and its imports, which bench shows beside the whole."""
import sys
import time

import numpy as np
import rasterio
from rasterio.windows import Window

_start = time.perf_counter()

# The best settings found for each writer; "plain" is what one gets without asking for more than deflate.
CODINGS = {
    "plain": dict(compress="deflate"),
    "tuned": dict(compress="deflate", predictor=3, zlevel=1, num_threads=2),
    "zstd": dict(compress="zstd", predictor=3, zstd_level=1, num_threads=2),
}


def start():
    """Begins the time of the job: called when all imports are done."""
    global _start
    _start = time.perf_counter()


def done():
    print(f"inner {time.perf_counter() - _start:.4f}")


def create(path, like, coding):
    """A float32 GeoTIFF in tiles of 512 on the grid of an open raster."""
    return rasterio.open(path, "w", driver="GTiff", width=like.width, height=like.height, count=1, dtype="float32",
                         crs=like.crs, transform=like.transform, tiled=True, blockxsize=512, blockysize=512, **CODINGS[coding])


def rows(dataset, n):
    """Windows of n rows and full width."""
    for row in range(0, dataset.height, n):
        yield Window(0, row, dataset.width, min(n, dataset.height - row))


def ahead(pool, function, items, n):
    """function of each item in order, n of them worked on ahead by the pool's threads."""
    waiting = []
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > n:
            yield waiting.pop(0).result()
    for w in waiting:
        yield w.result()


def network(n, first, last):
    """Return those comparisons of Batcher's sort of n rows that decide the rows first to last. A comparison is two rows,
    and whether the smaller and the larger value are needed."""
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
    needed, kept = set(range(first, last + 1)), []
    for i, j in reversed(pairs):
        if i in needed or j in needed:
            kept.append((i, j, i in needed, j in needed))
            needed |= {i, j}
    return kept[::-1]


def order(rows, comparisons, spare):
    """Apply comparisons to rows in place. spare is an array of the size of one row."""
    for i, j, low, high in comparisons:
        if low and high:
            np.minimum(rows[i], rows[j], out=spare)
            np.maximum(rows[i], rows[j], out=rows[j])
            rows[i][...] = spare
        elif low:
            np.minimum(rows[i], rows[j], out=rows[i])
        else:
            np.maximum(rows[i], rows[j], out=rows[j])


def arguments(*names):
    if len(sys.argv) != len(names) + 1:
        sys.exit("usage: " + " ".join((sys.argv[0],) + names))
    return sys.argv[1:]
