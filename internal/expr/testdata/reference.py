"""Evaluates expressions with NumPy, by the table of docs/guide/expressions.md and nothing else.

usage: reference.py cases.json results.json

It shares no code and no method with the Go package: integers are int64 arrays, every NaN becomes
invalid at the operation that makes it, and reductions go pixel by pixel. It is slow and plain.
"""
import json
import math
import sys

import numpy as np

from grammar import Parser, Refused
from neighbours import Neighbours
from values import F32, F64, V, array, number, picked

INT_OUT = [np.dtype(t) for t in ("u1", "i2", "u2", "i4", "u4")]


def stored(env, v, opts):
    if v[0] == "list":
        raise Refused("list")
    rows = [env.force(x) for x in v[1]]
    n = env.n
    t = env.join(*rows)
    if any(r.kind == "nodata" for r in rows):
        raise Refused("nodata as a band")
    scale, offset = opts.get("scale") or 1.0, opts.get("offset") or 0.0
    scaled = (scale, offset) != (1.0, 0.0)
    narrow = t.kind == "bool" or (t.kind == "int" and V("int", lo=t.lo, hi=t.hi).narrow()) or (t.kind == "float" and t.dtype == F32)
    if opts.get("type"):
        dt = np.dtype(opts["type"])
    elif scaled or t.kind == "float":
        dt = F32 if narrow else F64
    elif t.kind == "bool":
        dt = np.dtype("u1")
    else:
        dt = next((d for d in list(t.flow) + INT_OUT if np.iinfo(d).min <= t.lo and t.hi <= np.iinfo(d).max), F64)
    possible = any(r.maybe for r in rows)
    refs = frozenset().union(*[r.refs for r in rows])
    chosen = picked(*rows)
    if scaled:
        chosen = None
    nd = nodata(env, t, dt, opts.get("nodata", ""), possible, chosen)
    if nd is OWN:
        dt, nd = own_nodata(t, dt, scaled, bool(opts.get("type")), chosen)
    bands, count = [], dict(invalid=0, saturated=0, collision=0, inf=0)
    # 64-bit pixels beyond 2^53 first: the earliest pixel counts
    errors = []
    for ref in refs:
        errors += env.memo[ref].bad[:1]
    for r in rows:
        ok = r.valid(n)
        x = array(r if t.kind == "bool" else number(r), t.dtype, n)
        x = x.astype(F64)
        if scaled:
            x = (x - offset) / scale
        out = np.zeros(n, dt)
        for i in range(n):
            if not ok[i]:
                count["invalid"] += 1
                if nd is None:
                    errors.append(i)
                else:
                    out[i] = nd
                continue
            if dt.kind == "f":
                out[i] = dt.type(x[i])
                count["inf"] += bool(np.isinf(x[i]))
                count["saturated"] += bool(np.isinf(out[i]) and not np.isinf(x[i]))
            else:
                lo, hi = int(np.iinfo(dt).min), int(np.iinfo(dt).max)
                w = x[i] if np.isinf(x[i]) else int(np.rint(x[i]))
                if w < lo or w > hi:
                    count["saturated"] += 1
                out[i] = lo if w < lo else hi if w > hi else int(w)
            if nd is not None and out[i] == nd:
                count["collision"] += 1
        bands.append(out.tobytes().hex())
    if errors:
        return {"error": "pixel", "index": min(errors), "type": dt.name}
    near = [r.near.tobytes().hex() if hasattr(r, "near") else "" for r in rows]
    return {"type": dt.name, "nodata": show(nd), "bands": bands, "count": count, "near": near}


def show(nd):
    if nd is None:
        return None
    return str(int(nd)) if nd.dtype.kind in "iu" else repr(float(nd))


OWN = object()


def nodata(env, t, dt, text, possible, chosen):
    """The value that is declared or inherited, None for none, or OWN."""
    def fits(v):
        if dt.kind == "f":
            return True
        return math.isfinite(v) and v == int(v) and np.iinfo(dt).min <= int(v) <= np.iinfo(dt).max

    if text == "none":
        return None
    if text:
        v = float(text)
        if not fits(v):
            raise Refused("nodata does not fit")
        return dt.type(int(v)) if dt.kind in "iu" else dt.type(v)
    if not possible:
        return None
    if chosen and not env.nomask:
        refs = [p for p in chosen if isinstance(p, tuple)]
        numbers = [narrowed(p, t) for p in chosen if not isinstance(p, tuple)]
        bands = [env.inputs[name]["files"][f][b] for name, f, b in refs]
        values = [own(b["nodata"], np.dtype(b["type"])) for b in bands if b.get("nodata") is not None]
        if values and len({str(float(v)) for v in values}) == 1:
            v = values[0]
            if fits(v) and v not in numbers:
                r = dt.type(v)
                if float(r) == v or math.isnan(v):
                    return r
    return OWN


def narrowed(number, t):
    narrow = t.dtype == F32 or (t.kind == "int" and V("int", lo=t.lo, hi=t.hi).narrow())
    return float(F32.type(number)) if narrow else float(number)


def own_nodata(t, dt, scaled, asked, chosen):
    """NaN, or the end of an integer type that the result never is; wider where a computed one may be both."""
    lo, hi = (0, 1) if t.kind == "bool" else (t.lo, t.hi)

    def end(d):
        """What marks invalid pixels of type d, and whether the result is never that."""
        if d.kind == "f":
            return d.type(np.nan), True
        least, most = int(np.iinfo(d).min), int(np.iinfo(d).max)
        known = t.kind != "float" and not scaled
        ends = [(most, known and hi < most), (least, known and lo > least)]
        if d.kind == "i":
            ends.reverse()
        value, free = next((e for e in ends if e[1]), ends[0])
        return d.type(value), free

    if dt.kind != "f" and not asked and not any(isinstance(p, tuple) for p in chosen or ()):
        for d in list(t.flow) + INT_OUT + [F64]:
            if d == F64 or np.iinfo(d).min <= lo and hi <= np.iinfo(d).max and end(d)[1]:
                return d, end(d)[0]
    return dt, end(dt)[0]


def own(text, dt):
    """A nodata value as the band's type holds it."""
    return int(text) if dt.kind in "iu" else float(dt.type(float(text)))


def run(case):
    try:
        tree = Parser(case["text"]).whole()
        env = Neighbours(case, tree)
        result = stored(env, env.eval(tree), case.get("opts", {}))
        result["geodetic"] = {name: v.astype(F64).tobytes().hex() for name, v in env.geodetic.items()}
        return result
    except Refused as e:
        return {"error": "refused", "why": str(e)}


def main():
    with open(sys.argv[1]) as f:
        cases = json.load(f)
    with open(sys.argv[2], "w") as f:
        json.dump([run(c) for c in cases], f)


main()
