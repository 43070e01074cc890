"""Prints how many pixels of two rasters differ (NaN equals NaN), out of how many, and by how much at most."""
import sys

import numpy as np
import rasterio

from common import arguments, rows

a_path, b_path = arguments("A", "B")
different, worst = 0, 0.0
np.seterr(all="ignore")
with rasterio.open(a_path) as a, rasterio.open(b_path) as b:
    if a.shape != b.shape or a.dtypes != b.dtypes:
        sys.exit(f"{a.shape} {a.dtypes} and {b.shape} {b.dtypes}")
    for w in rows(a, 512):
        x, y = a.read(1, window=w), b.read(1, window=w)
        off = ~((x == y) | (np.isnan(x) & np.isnan(y)))
        n = int(off.sum())
        if n:
            different += n
            d = np.abs(x[off].astype(np.float64) - y[off])
            worst = max(worst, float(np.nanmax(d))) if not np.isnan(d).all() else float("inf")
    print(different, a.width * a.height, worst)
