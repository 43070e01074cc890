"""A polynomial of one float32 band, by NumPy.

plain          the expression as it stands, in windows of 512x512, one thread, deflate
tuned          in place and in pieces that stay in the cache, two threads, the best coding
memory         the expression as it stands on an array in memory, to an array in memory
memory-tuned   in place and in pieces that stay in the cache, one thread, from memory to memory
memory-threads the same with two threads
"""
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import rasterio

from common import ahead, create, done, rows, start

way, expression, coefficients, in_path = sys.argv[1:5]
out_path = sys.argv[5] if len(sys.argv) > 5 else None
np.seterr(all="ignore")
code = compile(expression, "expression", "eval")
C = [np.float32(c) for c in coefficients.split(",")]  # from the highest power down
PIECE = 32768  # 128 KiB: with the result well within the second-level cache


def plain(x):
    return eval(code, {"a": x})


def tuned(x):
    flat = x.reshape(-1)
    out = np.empty_like(flat)
    for i in range(0, len(flat), PIECE):
        p, o = flat[i:i + PIECE], out[i:i + PIECE]
        np.multiply(p, C[0], out=o)
        o += C[1]
        for c in C[2:]:
            o *= p
            o += c
    return out.reshape(x.shape)


if way.startswith("memory"):
    x = rasterio.open(in_path).read(1)
    start()
    if way == "memory":
        plain(x)
    elif way == "memory-tuned":
        tuned(x)
    else:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(tuned, np.array_split(x, 8)))
    done()
    sys.exit()

start()
if way == "plain":
    with rasterio.open(in_path) as d, create(out_path, d, "plain") as out:
        for _, w in out.block_windows(1):
            out.write(plain(d.read(1, window=w)), 1, window=w)
else:
    own = threading.local()

    def work(w):
        if not hasattr(own, "d"):
            own.d = rasterio.open(in_path)
        return w, tuned(own.d.read(1, window=w))

    with rasterio.Env(GDAL_CACHEMAX=512), ThreadPoolExecutor(2) as pool, rasterio.open(in_path) as d, \
            create(out_path, d, "tuned") as out:
        for w, a in ahead(pool, work, list(rows(d, 512)), 3):
            out.write(a, 1, window=w)
done()
