"""Measures functions against x87 extended precision: accuracy.py samples.bin results.txt

samples.bin: for each function of the order below, n float64 of a, n of b, n of the result. One line of
output per function: name, largest error in units in the last place of the exact result, arguments there.
"""
import sys

import numpy as np

np.seterr(all="ignore")
L = np.longdouble
names = sys.argv[3].split(",")
funcs = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power",
}
data = np.fromfile(sys.argv[1], "f8").reshape(len(names), 3, -1)
with open(sys.argv[2], "w") as out:
    for name, (a, b, got) in zip(names, data):
        f = getattr(np, funcs.get(name, name))
        two = name in ("pow", "atan2", "hypot")
        want = f(a.astype(L), b.astype(L)) if two else f(a.astype(L))
        near = want.astype("f8")
        unit = np.spacing(np.abs(near)).astype(L)
        err = np.abs(got.astype(L) - want) / unit
        same = (got == near) | (np.isnan(got) & np.isnan(near)) | (np.isinf(near) & (np.abs(got) >= np.finfo("f8").max))
        err = np.where(same, np.minimum(np.nan_to_num(err), 0.5), np.where(np.isfinite(err), err, 1e9))
        i = int(np.argmax(err))
        out.write(f"{name} {float(err[i]):.3f} {a[i]!r} {b[i]!r} {got[i]!r} {near[i]!r}\n")
