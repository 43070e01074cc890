"""Focal and terrain functions in NumPy: reference.py says how.

A case of these functions has the pixels of a whole domain, in rows of seven columns. Results that
depend on the order of float operations carry, in near, how far another order may lie from them.
"""
import math

import numpy as np

from grammar import Refused
from values import F32, F64, Env, V, array, no_nodata, number, picked

STATISTICS = ["focal_" + s for s in "mean sum min max median std range mode count".split()]
TERRAIN = "slope aspect hillshade tpi tri roughness curvature".split()
NAMES = STATISTICS + TERRAIN + ["convolve", "shift"]
EPS = 2.0**-48
COLUMNS = 7


def occurs(e):
    """Whether an expression has one of these functions."""
    return isinstance(e, (tuple, list)) and (any(occurs(x) for x in e) or bool(e) and e[0] in NAMES)


def literal(e):
    """The number that a literal stands for, and whether it is an integer."""
    if e[0] in ("sign-", "sign+"):
        v, whole = literal(e[1])
        return (-v if e[0] == "sign-" else v), whole
    if e[0] not in ("int", "float"):
        raise Refused("literal")
    return e[1], e[0] == "int"


def footprint(e):
    if e[0] == "disk":
        r, _ = literal(e[1])
        if not 0 <= r <= 500:
            raise Refused("radius")
        m = math.floor(r)
        y, x = np.mgrid[-m : m + 1, -m : m + 1]
        return x * x + y * y <= r * r
    side, whole = literal(e)
    if not whole or side % 2 == 0 or not 1 <= side <= 1001:
        raise Refused("side")
    return np.ones((side, side), bool)


class Neighbours(Env):
    def __init__(self, case, tree):
        super().__init__(case)
        self.margin = {"": None, "reflect": "symmetric", "nearest": "edge"}[case.get("margin", "")]
        self.focal = occurs(tree)

    def place(self, name):
        v = super().place(name)
        if self.focal and name in ("col", "row"):  # all pixels of the domain
            v.lo, v.hi = int(v.data.min()), int(v.data.max())
        return v

    def eval(self, e):
        op = e[0]
        if op == "disk":
            raise Refused("disk")
        if op not in NAMES:
            return super().eval(e)
        a = self.eval(e[1])
        if op in STATISTICS:
            f = footprint(e[2])
            return self.spread(lambda v: self.statistic(op, v, f), a)
        if op == "convolve":
            w = self.weights(e[2])
            return self.spread(lambda v: self.convolve(v, w), a)
        if op == "shift":
            moves = [literal(x) for x in e[2:]]
            if not all(whole and -1000 <= k <= 1000 for k, whole in moves):
                raise Refused("shift")
            return self.spread(lambda v: self.shift(v, moves[0][0], moves[1][0]), a)
        numbers = [self.force(self.eval(x)[1][0]) for x in e[2:]]
        if not all(k.const and math.isfinite(k.data) for k in numbers):
            raise Refused("numbers")
        return self.spread(lambda v: self.terrain(op, v, [float(k.data) for k in numbers]), a)

    def weights(self, e):
        if e[0] != "stack" or any(r[0] != "stack" for r in e[1:]) or len({len(r) for r in e[1:]}) != 1:
            raise Refused("kernel")
        rows = [[self.force(self.eval(x)[1][0]) for x in r[1:]] for r in e[1:]]
        if len(rows) % 2 == 0 or len(rows[0]) % 2 == 0:
            raise Refused("even")
        if not all(k.const and math.isfinite(k.data) for r in rows for k in r):
            raise Refused("weights")
        # Turned by 180 degrees: the first weight belongs to the pixel below and to the right.
        return np.array([[float(k.data) for k in r] for r in rows])[::-1, ::-1]

    def windows(self, x, ok, rows, columns):
        """The neighbours of each pixel, and which of them are valid: arrays of four dimensions."""
        pad = [(rows, rows), (columns, columns)]
        x, ok = x.reshape(-1, COLUMNS), ok.reshape(-1, COLUMNS)
        if self.margin:
            x, ok = np.pad(x, pad, self.margin), np.pad(ok, pad, self.margin)
        else:
            x, ok = np.pad(x, pad), np.pad(ok, pad)
        view = np.lib.stride_tricks.sliding_window_view
        shape = (2 * rows + 1, 2 * columns + 1)
        return view(x, shape), view(ok, shape)

    def operand(self, v):
        """The value as a number, its class, its pixels in their own type, and which are valid."""
        no_nodata(v)
        v = number(v)
        cls = F32 if v.narrow() else F64
        return v, cls, array(v, np.dtype("i8") if v.kind == "int" else cls, self.n), v.valid(self.n)

    def statistic(self, op, v, f):
        v, cls, x, ok = self.operand(v)
        n = self.n
        x, ok = self.windows(x, ok, f.shape[0] // 2, f.shape[1] // 2)
        x, ok = x[:, :, f].reshape(n, -1), ok[:, :, f].reshape(n, -1)
        if op == "focal_count":
            return V("int", ok.sum(1).astype("i8"), np.ones(n, bool), 0, int(f.sum()))
        some = ok.any(1)
        groups = [p[k] if k.any() else p[:1] * 0 for p, k in zip(x, ok)]
        if op in ("focal_min", "focal_max", "focal_mode"):
            r = self.like(v, np.array([getattr(self, op[6:])(g) for g in groups], x.dtype), some, v.maybe)
            r.chosen = picked(v)
            return r
        maybe = v.maybe or v.kind == "float"
        if op == "focal_range":
            data = np.array([g.max() - g.min() for g in groups], x.dtype)
            if v.kind == "int":
                return self.exact(0, v.hi - v.lo, v, data, some)
            return V("float", data, some, maybe=maybe)
        if op == "focal_sum" and v.kind == "int":
            most = int(f.sum())
            return self.exact(min(v.lo, v.lo * most), max(v.hi, v.hi * most), v, np.array([g.sum() for g in groups]), some)
        if op == "focal_median":
            return V("float", np.array([np.median(g.astype(F64)) for g in groups]).astype(cls), some, maybe=maybe)
        groups = [g.astype(F64) for g in groups]
        if op == "focal_std":
            r = V("float", np.array([self.std(g) for g in groups]).astype(cls), some, maybe=maybe)
            return self.near(r, groups, np.where(r.ok, r.data, 0.0).astype(F64), 0)
        wide = [g.astype(np.longdouble) for g in groups]
        share = [len(g) if op == "focal_mean" else 1 for g in groups]
        data = np.array([F64.type(g.sum()) / k + 0.0 for g, k in zip(wide, share)]).astype(cls)
        r = V("float", data, some, maybe=maybe)
        if v.kind == "int":
            return r
        return self.near(r, groups, np.array([float(abs(g).sum() / k) for g, k in zip(wide, share)]))

    def min(self, g):
        r = g.min()
        return -r * 0 if r == 0 and g.dtype.kind == "f" and np.signbit(g[g == 0]).any() and not np.signbit(r) else r

    def max(self, g):
        r = g.max()
        return abs(r) if r == 0 and not np.signbit(g[g == 0]).all() else r

    def mode(self, g):
        values, count = np.unique(g, return_counts=True)
        return values[np.argmax(count)] + values.dtype.type(0)  # of two zeros the positive one

    def std(self, g):
        """The standard deviation of differences from a pixel, which are small."""
        d = (g - g[0]).astype(np.longdouble)
        return float(np.sqrt(((d - d.mean()) ** 2).mean()))

    def like(self, v, data, ok, maybe):
        if v.kind == "int":
            return self.exact(v.lo, v.hi, v, data, ok, maybe)
        return V("float", data, ok, maybe=maybe)

    def exact(self, lo, hi, v, data, ok, maybe=None):
        if lo < -(2**53) or hi > 2**53:
            raise Refused("beyond 2^53")
        return V("int", data.astype("i8"), ok, int(lo), int(hi), v.flow, maybe=v.maybe if maybe is None else maybe)

    def near(self, r, groups, scale, factor=EPS):
        """Notes an error of a share of scale. Where sums of huge numbers overflow, any result will do."""
        with np.errstate(all="ignore"):
            error = np.where(np.isfinite(scale), scale, 0) * (factor or EPS)
        finite = [abs(g[np.isfinite(g)]) for g in groups]
        r.near = np.where([len(g) > 0 and g.max() > 1e100 for g in finite], np.inf, error)
        return r

    def unsure(self, v):
        """Whether a result that needs all neighbours can be invalid."""
        return v.maybe or not self.margin

    def convolve(self, v, w):
        v, cls, x, ok = self.operand(v)
        x, ok = self.windows(x.astype(F64), ok, w.shape[0] // 2, w.shape[1] // 2)
        used = w != 0
        x, good = x[:, :, used].reshape(self.n, -1), ok[:, :, used].reshape(self.n, -1).all(1)
        x = np.where(good[:, None], x, 0)
        terms = x.astype(np.longdouble) * w[used]
        r = V("float", (terms.sum(1) + 0.0).astype(F64).astype(cls), good, maybe=self.unsure(v) or v.kind == "float")
        return self.near(r, list(x), abs(terms).sum(1).astype(F64))

    def shift(self, v, down, right):
        v, cls, x, ok = self.operand(v)
        x, ok = self.windows(x, ok, abs(down), abs(right))
        at = abs(down) - down, abs(right) - right
        r = self.like(v, x[:, :, at[0], at[1]].ravel(), ok[:, :, at[0], at[1]].ravel(), self.unsure(v))
        r.chosen = picked(v)
        return r

    def terrain(self, op, v, numbers):
        v, cls, z, ok = self.operand(v)
        z, ok = self.windows(z.astype(F64) if op != "roughness" else z.astype(cls), ok, 1, 1)
        z, ok = z.reshape(self.n, 9), ok.reshape(self.n, 9).all(1)
        z = np.where(ok[:, None], z, z.dtype.type(0))
        a, b, c, d, e, f, g, h, i = z.T
        maybe = self.unsure(v) or v.kind == "float" or op == "aspect"
        if op == "roughness":
            return V("float", z.max(1) - z.min(1), ok, maybe=maybe)
        azimuth, altitude, scale = 315.0, 45.0, 1.0
        if op == "hillshade":
            azimuth, altitude, scale = (numbers + [azimuth, altitude, scale][len(numbers) :])[:3]
        elif numbers:
            scale = numbers[0]
        if scale <= 0 or not -360 <= azimuth <= 360 or not 0 <= altitude <= 90:
            raise Refused("numbers")
        t = self.transform
        dx, dy = abs(t[1]) * scale, abs(t[5]) * scale
        p = ((c + 2 * f + i) - (a + 2 * d + g)) / (8 * dx)
        q = ((a + 2 * b + c) - (g + 2 * h + i)) / (8 * dy)
        sums = np.where(np.isfinite(z), abs(z), 0).sum(1)
        gradient = sums / min(dx, dy)  # what errors of p and q are in proportion to
        p, q = np.where(np.isnan(q), q, p), np.where(np.isnan(p), p, q)  # a NaN is never valid
        if op == "slope":
            data, error = np.degrees(np.arctan(np.hypot(p, q))), 60 * gradient + 90
        elif op == "aspect":
            data, error = np.degrees(np.arctan2(-p, -q)) % 360, 60 * gradient / np.hypot(p, q) + 360
            ok = ok & ~((p == 0) & (q == 0))
            data = data.astype(cls)
            data[data >= 360] = 0
        elif op == "hillshade":
            az, alt = np.radians(azimuth), np.radians(altitude)
            l = (np.sin(alt) - np.cos(alt) * (p * np.sin(az) + q * np.cos(az))) / np.sqrt(1 + p**2 + q**2)
            exact = 1 + 254 * np.maximum(0, l)
            good = ok & ~np.isnan(exact)
            data = np.floor(np.where(good, exact, 0) + 0.5)
            r = V("int", data.astype("i8"), good, 1, 255, maybe=maybe)
            self.near(r, list(z), gradient)
            close = abs(exact - np.floor(exact) - 0.5) < np.minimum(0.5, 1e-9 + 1e-9 * gradient)
            r.near = np.where(np.isinf(r.near), r.near, np.where(close, 1.0, 0.0))
            return r
        elif op == "curvature":
            data = -100 * ((d - 2 * e + f) / dx**2 + (b - 2 * e + h) / dy**2) + 0.0
            error = 400 * sums * (1 / dx**2 + 1 / dy**2)
        elif op == "tpi":
            data = e - (a + b + c + d + f + g + h + i) / 8
            error = sums
        else:
            data = np.sqrt(sum((k - e) ** 2 for k in (a, b, c, d, f, g, h, i)))
            error = sums
        r = V("float", data.astype(cls), ok, maybe=maybe)
        return self.near(r, list(z), error)
