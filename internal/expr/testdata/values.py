"""Values of expressions in NumPy and the operations on them: reference.py says how."""
import math

import numpy as np

import geodetic
from grammar import Refused

np.seterr(all="ignore")
F32, F64 = np.dtype("f4"), np.dtype("f8")



class V:
    """One band: kind is bool, int, float or nodata; data an array, or a number for a constant."""

    def __init__(self, kind, data=None, ok=None, lo=0, hi=0, flow=(), const=False, strong=None, maybe=None):
        self.kind, self.data, self.lo, self.hi, self.flow = kind, data, lo, hi, tuple(flow)
        self.const, self.strong = const, strong  # strong: dtype of float32(2), float64(2)
        self.ok = ok
        self.refs = frozenset()  # bands that the value depends on
        self.chosen = None  # bands and numbers that its pixels are, unchanged; None where they are computed
        # whether the types alone leave open that a pixel is invalid
        self.maybe = (kind == "float" and not const) if maybe is None else maybe
        if kind == "float" and const:
            self.maybe = math.isnan(data)
        if kind == "float" and not const:
            self.ok = self.ok & ~np.isnan(data)

    def valid(self, n):
        if self.const:
            return np.full(n, not (isinstance(self.data, (float, np.floating)) and math.isnan(self.data)))
        return self.ok

    def narrow(self):
        if self.kind == "bool":
            return True
        if self.kind == "int":
            return -(2**24) <= self.lo and self.hi <= 2**24
        if self.const:
            return self.strong == F32
        return self.data.dtype == F32


def picked(*vs):
    """What the values are chosen from, None if any is computed."""
    out = frozenset()
    for v in vs:
        if v.const:
            out |= {v.data}
        elif v.kind != "nodata":
            if v.chosen is None:
                return None
            out |= v.chosen
    return out


def number(v):
    if v.kind == "bool":
        if v.const:
            return V("int", int(v.data), None, int(v.data), int(v.data), const=True)
        return V("int", v.data.astype("i8"), v.ok, 0, 1, maybe=v.maybe)
    return v


def literal(v):
    return v.const and v.strong is None


def meet(vs):
    """The float type in which values meet."""
    strong = [v for v in vs if v.kind != "nodata" and not (literal(v) and (v.kind == "float" or v.narrow()))]
    if not strong:
        return F64
    return F32 if all(v.narrow() for v in strong) else F64


def array(v, dtype, n):
    if v.const:
        return np.full(n, v.data, dtype=dtype)
    return v.data.astype(dtype)


def flows(*vs):
    out = []
    for v in vs:
        for t in v.flow:
            if t not in out:
                out.append(t)
    if not out:
        return ()
    size = max(t.itemsize for t in out)
    return [t for t in out if t.itemsize == size]


def no_nodata(*vs):
    if any(v.kind == "nodata" for v in vs):
        raise Refused("nodata as an operand")


REDUCERS = ("mean median std var sum count mode first last any all argmin argmax pick percentile quantile".split())


PLACE = (500000.25, 30, 0.1, 4000000, -0.3, -29.9)


class Env:
    def __init__(self, case):
        self.n = case["n"]
        self.inputs = case["inputs"]
        self.nomask = case.get("nomask", False)
        self.memo = {}
        self.named = {}
        self.at = case["place"]
        self.transform = case.get("transform") or case.get("affine") or PLACE
        self.crs = case.get("crs")
        self.geodetic = {}
        self.tables = case.get("tables", {})

    # -- inputs

    def load(self, name, f, b):
        band = self.inputs[name]["files"][f][b]
        dt = np.dtype(band["type"])
        px = np.frombuffer(bytes.fromhex(band["data"]), dt)
        ok = np.ones(self.n, bool)
        maybe = False
        if not self.nomask:
            if band.get("nodata") is not None:
                nd = dt.type(int(band["nodata"])) if dt.kind in "iu" else dt.type(float(band["nodata"]))
                ok &= px != nd
                maybe = True
            if band.get("mask"):
                ok &= np.frombuffer(bytes.fromhex(band["mask"]), "u1") != 0
            maybe = maybe or band.get("masked", False)
        wide = dt.kind in "iu" and dt.itemsize == 8
        scaled = (band.get("scale", 0), band.get("offset", 0)) not in ((0, 0), (1, 0))
        if wide:
            bad = [i for i in range(self.n) if ok[i] and abs(int(px[i])) > 2**53]
            if bad:
                px = np.where(np.isin(np.arange(self.n), bad), dt.type(0), px)
            px = np.where(ok, px, dt.type(0))
        else:
            bad = []
        if scaled:
            cls = F64 if dt in (np.dtype("u4"), np.dtype("i4"), F64) or wide else F32
            v = (px.astype("f8") * band["scale"] + band["offset"]).astype(cls)
            v = V("float", v, ok, maybe=maybe or dt.kind == "f")
        elif dt.kind == "f":
            v = V("float", px, ok)
        else:
            lo, hi = np.iinfo(dt).min, np.iinfo(dt).max
            if wide:
                lo, hi = max(int(lo), -(2**53)), 2**53
            v = V("int", px.astype("i8"), ok, int(lo), int(hi), [dt], maybe=maybe)
        v.bad = bad
        return v

    def place(self, name):
        """A coordinate of the pixels, in rows of seven columns."""
        first_col, first_row, width, height = self.at
        i = np.arange(self.n)
        col, row = first_col + i % 7, first_row + i // 7
        ok = np.ones(self.n, bool)
        if name in geodetic.NAMES:
            data = geodetic.coordinate(name, self.crs, self.transform, col, row)
            self.geodetic[name] = data
            return V("float", data, np.isfinite(data))
        if name == "col":
            return V("int", col.astype("i8"), ok, 0, width - 1, maybe=False)
        if name == "row":
            return V("int", row.astype("i8"), ok, 0, height - 1, maybe=False)
        t = self.transform[0 if name == "x" else 3 :]
        return V("float", (col + 0.5) * t[1] + (row + 0.5) * t[2] + t[0], ok, maybe=False)

    def name(self, name):
        if name not in self.inputs:
            raise Refused("name")
        i = self.inputs[name]
        files = [[("ref", name, f, b) for b in range(len(bands))] for f, bands in enumerate(i["files"])]
        return ("list", files, i.get("times")) if i["list"] else ("bands", files[0])

    # -- structure: ("bands", [V...]) or ("list", [[V...]...]); V may be a lazy ("ref", ...)

    def force(self, v):
        if isinstance(v, tuple):
            ref = v[1:]
            if ref not in self.memo:
                self.memo[ref] = self.load(*ref)
                self.memo[ref].refs = frozenset([ref])
                band = self.inputs[ref[0]]["files"][ref[1]][ref[2]]
                if (band.get("scale", 0), band.get("offset", 0)) in ((0, 0), (1, 0)):
                    self.memo[ref].chosen = frozenset([ref])
            return self.memo[ref]
        return v

    def needed(self, f, vs):
        """The operands that a result depends on."""
        if f == self.isnodata and not vs[0].maybe:
            return []
        if f == self.coalesce:
            last = next((i for i, v in enumerate(vs) if not v.maybe), len(vs))
            return vs[: last + 1]
        return vs

    def isnodata(self, a):
        return self.apply("isnodata", a)

    def coalesce(self, *vs):
        return self.apply("coalesce", *vs)

    def spread(self, f, *vs):
        lists = [len(v[1]) for v in vs if v[0] == "list"]
        if len(set(lists)) > 1:
            raise Refused("lists of different length")
        count = lists[0] if lists else 1
        items = []
        for i in range(count):
            cols = [v[1][i] if v[0] == "list" else v[1] for v in vs]
            widths = {len(c) for c in cols if len(c) != 1}
            if len(widths) > 1:
                raise Refused("bands")
            width = widths.pop() if widths else 1
            row = []
            for b in range(width):
                one = [self.force(c[0] if len(c) == 1 else c[b]) for c in cols]
                r = f(*one)
                if f == self.coalesce:
                    r.chosen = picked(*self.needed(f, one))
                if not r.const:
                    r.refs = r.refs.union(*[o.refs for o in self.needed(f, one)])
                row.append(r)
            items.append(row)
        times = [v[2] for v in vs if v[0] == "list" and v[2]]
        if any(t != times[0] for t in times):
            times = ["differ"]
        return ("list", items, times[0] if times else None) if lists else ("bands", items[0])

    def eval(self, e):
        op, n = e[0], self.n
        if op == "with":
            for name, value in e[1]:
                if name in self.inputs or name in self.named:
                    raise Refused("defined twice")
                self.named[name] = self.eval(value)
            return self.eval(e[2])
        if op == "int":
            if e[1] > 2**53:
                raise Refused("literal")
            return ("bands", [V("int", e[1], None, e[1], e[1], const=True)])
        if op == "float":
            return ("bands", [V("float", e[1], const=True)])
        if op == "place":
            return ("bands", [self.place(e[1])])
        if op == "nodata":
            return ("bands", [V("nodata")])
        if op == "name":
            return self.named[e[1]] if e[1] in self.named else self.name(e[1])
        if op == "recode" and e[2][0] == "file":
            other = self.eval(e[3]) if len(e) > 3 else ("bands", [V("nodata")])
            rows = self.table(self.tables[e[2][1]])
            return self.spread(lambda v, o: self.recode_table(v, rows, o), self.eval(e[1]), other)
        if op in ("in", "classify", "recode"):
            return self.classes(op, e[1:])
        if op == "index":
            v, i = self.eval(e[1]), self.eval(e[2])
            k = i[1][0]
            if isinstance(k, tuple) or not k.const or k.kind != "int" or not 1 <= k.data <= len(v[1]):
                raise Refused("index")
            return ("bands", v[1][k.data - 1] if v[0] == "list" else [v[1][k.data - 1]])
        if op in ("trend", "intercept", "r2"):
            return self.line(op, *e[1:])
        args = [self.eval(a) for a in e[1:]]
        if op == "stack":
            row = []
            for a in args:
                if a[0] == "list":
                    if any(len(f) != 1 for f in a[1]):
                        raise Refused("list of several bands in []")
                    row += [f[0] for f in a[1]]
                else:
                    row += a[1]
            no_nodata(*[v for v in row if isinstance(v, V)])
            return ("bands", row)
        if op in REDUCERS or op in ("min", "max", "coalesce") and len(args) == 1:
            return self.reduce("first" if op == "coalesce" else op, *args)
        if op in ("isnodata", "coalesce"):
            return self.spread(getattr(self, op), *args)
        return self.spread(lambda *vs: self.apply(op, *vs), *args)

    # -- operations of one band each

    def apply(self, op, *vs):
        r = self.compute(op, *vs)
        if op in ("min", "max", "clip", "fill"):
            r.chosen = picked(*vs)
        if op == "where":
            r.chosen = picked(*vs[1:])
        return r

    def compute(self, op, *vs):
        n = self.n
        if op == "where":
            return self.where(*vs)
        no_nodata(*vs)
        if op in ("<", "<=", ">", ">=", "==", "!="):
            return self.compare(op, *[number(v) for v in vs])
        if op in ("and", "or", "not"):
            truth = [(array(v, v.data.dtype if not v.const else F64, n) != 0) for v in vs]
            ok = np.logical_and.reduce([v.valid(n) for v in vs])
            r = {"and": lambda: truth[0] & truth[1], "or": lambda: truth[0] | truth[1], "not": lambda: ~truth[0]}[op]()
            if all(v.const for v in vs) and ok.all():
                return V("bool", bool(r[0]), const=True)
            return V("bool", r, ok, maybe=any(v.maybe for v in vs))
        if op == "isnodata":
            return V("bool", ~vs[0].valid(n), np.ones(n, bool))
        if op == "fill":
            a, v = vs
            if not v.const or math.isnan(v.data):
                raise Refused("fill")
            t = self.join(a, v)
            return t(np.where(a.valid(n), t.of(a), t.of(v)), np.ones(n, bool), False)
        if op == "coalesce":
            t = self.join(*vs)
            data, ok = t.of(vs[-1]), vs[-1].valid(n)
            for v in vs[-2::-1]:
                data, ok = np.where(v.valid(n), t.of(v), data), v.valid(n) | ok
            return t(data, ok, all(v.maybe for v in vs))
        if op in ("&", "|") and vs[0].kind == vs[1].kind == "bool":
            return self.compute({"&": "and", "|": "or"}[op], *vs)
        if op == "sign~" and vs[0].kind == "bool":
            return self.compute("not", *vs)
        vs = [number(v) for v in vs]
        if op in ("float32", "float64"):
            dt = np.dtype(op)
            if vs[0].const:
                return V("float", float(np.array(vs[0].data, F64).astype(dt)), const=True, strong=dt)
            return V("float", vs[0].data.astype(dt), vs[0].ok, maybe=vs[0].maybe)
        if op == "clip":
            return self.pair("min", self.pair("max", vs[0], vs[1]), vs[2])
        if op in ("min", "max"):
            r = vs[0]
            for v in vs[1:]:
                r = self.pair(op, r, v)
            return r
        if op == "sign+":
            return vs[0]
        if op in ("sign-", "abs", "floor", "ceil", "round"):
            return self.simple(op, vs[0])
        if op in ("bits", "bit"):
            if not all(v.const and v.kind == "int" and 0 <= v.data <= 52 for v in vs[1:]):
                raise Refused("the number of a bit")
            low, high = int(vs[1].data), int(vs[-1].data)
            if low > high:
                raise Refused("bits from high to low")
            r = self.bitwise("&", self.bitwise(">>", vs[0], vs[1]), self.whole(2 ** (high - low + 1) - 1))
            return r if op == "bits" else self.compare("!=", r, self.whole(0))
        if op == "sign~":
            if vs[0].kind != "int":
                raise Refused("~ of a float")
            a = vs[0]
            return self.ranged(~a.hi, ~a.lo, [a], ~array(a, "i8", n), a.valid(n), a.maybe)
        if op in ("&", "|", "<<", ">>"):
            return self.bitwise(op, *vs)
        if op in ("+", "-", "*", "%") and vs[0].kind == vs[1].kind == "int":
            return self.integer(op, *vs)
        if op == "**" and vs[0].kind == vs[1].kind == "int" and vs[1].const and vs[1].data >= 0:
            return self.intpow(*vs)
        return self.float(op, *vs)

    def float(self, op, *vs):
        dt = meet(vs)
        n = self.n
        a = [array(v, dt, n) for v in vs]
        f = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.mod, "sqrt": np.sqrt,
            "min": np.minimum, "max": np.maximum,
        }.get(op)
        if op == "**" and vs[1].const and vs[1].data == 2:
            f = lambda x, two: np.square(x)  # as NumPy's own operator does
        if f is None:  # transcendental: NumPy's float64, rounded
            f64 = {
                "**": np.power, "atan2": np.arctan2, "hypot": np.hypot, "exp": np.exp, "expm1": np.expm1,
                "log": np.log, "log10": np.log10, "log2": np.log2, "log1p": np.log1p, "sin": np.sin,
                "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
                "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
            }[op]
            f = lambda *x: f64(*[y.astype(F64) for y in x]).astype(dt)
        r = f(*a)
        if op in ("min", "max"):  # of two zeros the negative one is the smaller
            sign = [np.signbit(x) for x in a]
            both = sign[0] | sign[1] if op == "min" else sign[0] & sign[1]
            zero = (a[0] == 0) & (a[1] == 0)
            r = np.where(zero, np.where(both, -np.zeros(1, dt), np.zeros(1, dt)), r)
        for x in a:
            r = np.where(np.isnan(x), np.array(np.nan, dt), r)
        if all(v.const for v in vs):
            strong = None if all(v.strong is None for v in vs) else dt
            return V("float", float(r[0]), const=True, strong=strong)
        ok = np.logical_and.reduce([v.valid(n) for v in vs])
        return V("float", r, ok, maybe=op not in ("min", "max") or any(v.maybe for v in vs))

    def whole(self, k):
        return V("int", k, None, k, k, const=True)

    def bitwise(self, op, a, b):
        n = self.n
        if a.kind != "int" or b.kind != "int":
            raise Refused("bits of a float")
        if op in ("<<", ">>") and (b.lo < 0 or b.hi > 53):
            raise Refused("shift")
        # Exact integers of Python, not those of NumPy, which wrap.
        f = {"&": lambda p, q: p & q, "|": lambda p, q: p | q, "<<": lambda p, q: p << q, ">>": lambda p, q: p >> q}[op]
        ok = a.valid(n) & b.valid(n)
        x, y = array(a, "i8", n).tolist(), array(b, "i8", n).tolist()
        data = np.array([f(p, q) if good else 0 for p, q, good in zip(x, y, ok)], object)
        if op in ("<<", ">>"):
            ends = [f(p, q) for p in (a.lo, a.hi) for q in (b.lo, b.hi)]
            lo, hi = min(ends), max(ends)
        elif op == "&":
            lo, hi = self.and_range(a.lo, a.hi, b.lo, b.hi)
        else:
            lo, hi = self.and_range(~a.hi, ~a.lo, ~b.hi, ~b.lo)
            lo, hi = ~hi, ~lo
        if lo >= -(2**53) and hi <= 2**53:
            data = data.astype("i8")
        return self.ranged(lo, hi, [a, b], data, ok, a.maybe or b.maybe)

    @staticmethod
    def and_range(alo, ahi, blo, bhi):
        lo = 0
        if alo < 0 and blo < 0:
            lo = -1
            while lo > min(alo, blo):
                lo *= 2
        tops = [hi for low, hi in ((alo, ahi), (blo, bhi)) if low >= 0]
        return lo, min(tops) if tops else max(ahi, bhi)

    def ranged(self, lo, hi, vs, data, ok, maybe):
        if lo < -(2**53) or hi > 2**53:
            raise Refused("beyond 2^53")
        if all(v.const for v in vs):
            if not ok[0]:
                return V("float", math.nan, const=True)
            v = int(data[0])
            return V("int", v, None, v, v, const=True)
        return V("int", data, ok, lo, hi, flows(*vs), maybe=maybe)

    def integer(self, op, a, b):
        n = self.n
        x, y = array(a, "i8", n), array(b, "i8", n)
        ok = a.valid(n) & b.valid(n)
        maybe = a.maybe or b.maybe
        if op == "%":
            zero = y == 0
            lo, hi = min(0, b.lo + 1), max(0, b.hi - 1)
            if a.lo >= 0 and b.lo >= 0:
                hi = min(hi, a.hi)
            if a.hi <= 0 and b.hi <= 0:
                lo = max(lo, a.lo)
            return self.ranged(lo, hi, [a, b], np.mod(x, np.where(zero, 1, y)), ok & ~zero, maybe or b.lo <= 0 <= b.hi)
        pair = {"+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q}[op]
        ends = [pair(p, q) for p in (a.lo, a.hi) for q in (b.lo, b.hi)]
        return self.ranged(min(ends), max(ends), [a, b], pair(x, y), ok, maybe)

    def intpow(self, a, b):
        k = b.data
        if k > 60 and max(abs(a.lo), abs(a.hi)) > 1:
            raise Refused("beyond 2^53")
        ends = [a.lo**k, a.hi**k] + ([0] if k > 0 and a.lo <= 0 <= a.hi else [])
        lo, hi = min(ends), max(ends)
        if a.const:
            return self.ranged(lo, hi, [a], np.array([lo]), np.ones(1, bool), False)
        if lo < -(2**53) or hi > 2**53:
            raise Refused("beyond 2^53")
        return self.ranged(lo, hi, [a], np.array([int(v) ** k for v in a.data], "i8"), a.ok, a.maybe)

    def simple(self, op, a):
        n = self.n
        if a.kind == "int":
            if op == "sign-":
                return self.ranged(-a.hi, -a.lo, [a], -array(a, "i8", n), a.valid(n), a.maybe)
            if op == "abs" and a.lo < 0:
                lo = 0 if a.lo <= 0 <= a.hi else min(abs(a.lo), abs(a.hi))
                return self.ranged(lo, max(abs(a.lo), abs(a.hi)), [a], abs(array(a, "i8", n)), a.valid(n), a.maybe)
            return a
        f = {"sign-": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.rint}[op]
        if a.const:
            return V("float", float(f(a.data)), const=True, strong=a.strong)
        return V("float", f(a.data), a.ok, maybe=a.maybe)

    def pair(self, op, a, b):
        if a.kind == "float" or b.kind == "float":
            return self.float(op, a, b)
        n = self.n
        f = np.minimum if op == "min" else np.maximum
        pick = min if op == "min" else max
        data = f(array(a, "i8", n), array(b, "i8", n))
        return self.ranged(pick(a.lo, b.lo), pick(a.hi, b.hi), [a, b], data, a.valid(n) & b.valid(n), a.maybe or b.maybe)

    def compare(self, op, a, b):
        n = self.n
        if a.kind == b.kind == "int":
            dt = np.dtype("i8")
        elif "int" in (a.kind, b.kind) and (literal(a) or literal(b)):
            dt = F64  # integers are compared exactly, also with decimals
            if (a.kind == "float" and not a.const) or (b.kind == "float" and not b.const):
                dt = meet([a, b])
        else:
            dt = meet([a, b])
        x, y = array(a, dt, n), array(b, dt, n)
        f = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}
        ok = a.valid(n) & b.valid(n)
        r = f[op](x, y)
        if a.const and b.const and ok.all():
            return V("bool", bool(r[0]), const=True)
        return V("bool", r, ok, maybe=a.maybe or b.maybe)

    def join(self, *vs):
        """The type that can stand for all of them, as a maker of values."""
        n, some = self.n, [v for v in vs if v.kind != "nodata"]
        if not some:
            raise Refused("nodata alone")

        class Join:
            def of(self, v):
                if v.kind == "nodata":
                    return np.zeros(n, self.dtype)
                return array(v if self.dtype == bool else number(v), self.dtype, n)

            def alone(self, c, *vs):
                """Where all branches are literals, they take the type of the condition."""
                if self.kind == "float" and all(v.const or v.kind == "nodata" for v in vs):
                    self.dtype = meet([c, *vs])

            def __call__(self, data, ok, maybe):
                return V(self.kind, data, ok, self.lo, self.hi, self.flow, maybe=maybe)

        j = Join()
        j.lo = j.hi = 0
        j.flow = ()
        if any(v.kind == "float" for v in some):
            j.kind, j.dtype = "float", meet(some)
        elif all(v.kind == "bool" for v in some):
            j.kind, j.dtype = "bool", np.dtype(bool)
        else:
            some = [V("int", lo=0, hi=1, const=True) if v.kind == "bool" else v for v in some]
            j.kind, j.dtype = "int", np.dtype("i8")
            j.lo, j.hi, j.flow = min(v.lo for v in some), max(v.hi for v in some), flows(*some)
        return j

    def where(self, c, a, b):
        n = self.n
        no_nodata(c)
        t = self.join(a, b)
        t.alone(c, a, b)
        cond = array(c, c.data.dtype if not c.const else F64, n) != 0
        oka, okb = [np.zeros(n, bool) if v.kind == "nodata" else v.valid(n) for v in (a, b)]
        maybe = any(v.maybe or v.kind == "nodata" for v in (c, a, b))
        return t(np.where(cond, t.of(a), t.of(b)), c.valid(n) & np.where(cond, oka, okb), maybe)

    def classes(self, op, args):
        """in, classify, recode: comparisons with constants, one after the other."""
        a = self.eval(args[0])
        lists = []
        for x in args[1:3]:
            if x[0] != "stack":
                raise Refused("brackets")
            rows = [self.eval(i) for i in x[1:]]
            row = [number(self.force(v[1][0])) for v in rows]
            for v in row:
                if not v.const and v.kind != "nodata" or v.const and math.isnan(v.data):
                    raise Refused("only numbers")
            lists.append(row)
        if any(v.kind == "nodata" for v in lists[0]):
            raise Refused("nodata")
        if op == "classify" and any(p.data >= q.data for p, q in zip(lists[0], lists[0][1:])):
            raise Refused("order")
        if op == "recode":
            if len(lists[0]) != len(lists[1]) or len({v.data for v in lists[0]}) < len(lists[0]):
                raise Refused("values")
            other = self.eval(args[3]) if len(args) > 3 else ("bands", [V("nodata")])
            return self.spread(lambda v, o: self.recode(v, lists[0], lists[1], o), a, other)

        def one(v):
            no_nodata(v)
            tests = [self.compare(">=" if op == "classify" else "==", number(v), k) for k in lists[0]]
            n = self.n
            if op == "in":
                r = tests[0]
                for t in tests[1:]:
                    r = self.apply("or", r, t)
                return r
            r = number(tests[0])
            for t in tests[1:]:
                r = self.integer("+", r, number(t))
            return r

        return self.spread(one, a)

    def table(self, text):
        """The rows of a table of recode: low, high and new value."""
        rows = []
        for line in text.split("\n"):
            line = line.split("#")[0].replace(";", " ").replace(",", " ").split()
            if not line or line[0][0].isalpha() and line[0] != "inf":
                continue
            new = line[-1]
            if new == "nodata":
                new = V("nodata")
            elif "." in new or "e" in new:
                new = V("float", float(new), const=True)
            else:
                new = self.whole(int(new))
            rows.append((float(line[0]), float(line[-2]), new))
        if len({r[:2] for r in rows}) < len(rows):
            raise Refused("twice")
        for r in rows:
            if any(s is not r and (s[0] == r[0] or r[0] < s[0] < r[1]) for s in rows):
                raise Refused("overlap")
        return rows

    def recode_table(self, a, rows, other):
        no_nodata(a)
        x = number(a)
        kind = F32.type if x.kind == "float" and x.narrow() and not x.const else F64.type
        if x.kind == "float" and x.const:
            kind = x.strong.type if x.strong else F64.type
        data = array(x, F64, self.n)
        starts = [float(kind(r[0])) for r in rows]
        tests = []
        for r, start in zip(rows, starts):
            yes = (start <= data) & (data <= float(kind(r[1])))
            for r2, later in zip(rows, starts):
                if r2[0] > r[0]:
                    yes &= ~(data >= later)  # the value belongs to the later range
            tests.append(V("bool", yes, np.ones(self.n, bool), maybe=False))
        return self.cases(x, tests, [r[2] for r in rows], other)

    def recode(self, a, keys, values, other):
        no_nodata(a)
        tests = [self.compare("==", number(a), k) for k in keys]
        return self.cases(a, tests, values, other)

    def cases(self, a, tests, values, other):
        n = self.n
        t = self.join(*values, other)
        t.alone(a, *values, other)
        data, ok = t.of(other), np.zeros(n, bool) if other.kind == "nodata" else other.valid(n)
        for test, v in list(zip(tests, values))[::-1]:
            yes = array(test, bool, n)
            data = np.where(yes, t.of(v), data)
            ok = np.where(yes, np.zeros(n, bool) if v.kind == "nodata" else v.valid(n), ok)
        maybe = any(v.maybe or v.kind == "nodata" for v in [a, other, *values])
        r = t(data, ok & a.valid(n), maybe)
        r.chosen = picked(*values, other)
        return r

    def line(self, op, v, second=None):
        """trend, intercept and r2: second is not evaluated."""
        v = self.eval(v)
        xs, unit = [float(i) for i in range(len(v[1]))], 1.0
        if second == ("name", "times"):
            if v[0] != "list" or not v[2] or v[2] == "differ":
                raise Refused("times")
            xs, unit = [float(t - v[2][0]) for t in v[2]], 86400000.0
        elif second:
            if second[0] != "stack" or len(second) - 1 != len(xs):
                raise Refused("numbers")
            numbers = [self.force(self.eval(x)[1][0]) for x in second[1:]]
            if not all(k.const for k in numbers) or len({float(k.data) for k in numbers}) < len(xs):
                raise Refused("numbers")
            xs = [float(k.data) - float(numbers[0].data) for k in numbers]
        self.xs = (xs, unit)
        return self.reduce(op, v)

    def fit(self, op, x, v):
        """The line through the points, in float64 and in their order."""
        n = len(v)
        mx, mv = sum(x, 0.0) / n, sum(v, F64.type(0)) / n
        sxx = sum(((p - mx) * (p - mx) for p in x), F64.type(0))
        sxv = sum(((p - mx) * (q - mv) for p, q in zip(x, v)), F64.type(0))
        svv = sum(((q - mv) * (q - mv) for q in v), F64.type(0))
        if op == "trend":
            return sxv / sxx * self.xs[1]
        if op == "intercept":
            return mv - sxv / sxx * mx
        if all(q == v[0] for q in v):
            return math.nan
        return np.minimum(1.0, sxv / sxx * (sxv / svv))

    def reduce(self, op, v, *more):
        second = [None]
        if more:
            if more[0][0] == "list":
                raise Refused("a list as second argument")
            second = [self.force(x) for x in more[0][1]]
        files = [[x] for x in v[1]] if v[0] == "bands" else v[1]
        widths = {len(f) for f in files}
        if len(widths) > 1:
            raise Refused("files differ")
        width = widths.pop()
        if width != 1 and len(second) not in (1, width):
            raise Refused("bands")
        out = []
        for b in range(max(width, len(second))):
            items = [self.force(f[min(b, width - 1)]) for f in files]
            out.append(self.reduction(op, items, second[min(b, len(second) - 1)]))
        return ("bands", out)

    def reduction(self, op, vs, arg):
        used = vs
        if op in ("first", "last"):
            order = vs if op == "first" else vs[::-1]
            no_nodata(*vs)
            r = self.compute("coalesce", *order)
            used = self.needed(self.coalesce, order)
            r.chosen = picked(*used)
        elif op == "pick":
            no_nodata(*vs, arg)
            i = number(arg)
            if i.kind != "int" or i.hi < 1 or i.lo > len(vs):
                raise Refused("pick")
            tests = [self.compare("==", i, self.whole(k + 1)) for k in range(len(vs))]
            r = self.cases(i, tests, vs, V("nodata"))
            used = vs + [arg]
        else:
            r = self.combine(op, vs, arg)
            if op in ("min", "max", "mode"):
                r.chosen = picked(*vs)
        r.refs = r.refs.union(*[v.refs for v in used if op != "count" or v.maybe])
        return r

    def combine(self, op, vs, arg):
        n = self.n
        no_nodata(*vs)
        if op in ("percentile", "quantile"):
            no_nodata(arg)
            most = 100 if op == "percentile" else 1
            if not arg.const or not 0 <= arg.data <= most:
                raise Refused("fraction")
            q = arg.data / most
        ok = np.array([v.valid(n) for v in vs])
        if op == "count":
            return V("int", ok.sum(0).astype("i8"), np.ones(n, bool), 0, len(vs))
        if op in ("any", "all"):
            truth = np.array([array(v, v.data.dtype if not v.const else F64, n) != 0 for v in vs])
            data = (truth & ok).any(0) if op == "any" else (truth | ~ok).all(0)
            return V("bool", data, ok.any(0), maybe=all(v.maybe for v in vs))
        vs = [number(v) for v in vs]
        t = self.join(*vs)
        cls = t.dtype if t.kind == "float" else (F32 if V("int", lo=t.lo, hi=t.hi).narrow() else F64)
        data = np.array([t.of(v) for v in vs])
        some = ok.any(0)
        maybe = t.kind == "float" or all(v.maybe for v in vs)
        if op in ("argmin", "argmax"):
            out = np.zeros(n, "i8")
            for i in range(n):
                if some[i]:
                    at = np.flatnonzero(ok[:, i])
                    out[i] = 1 + at[getattr(np, op)(data[at, i])]
            return V("int", out, some, 1, len(vs), maybe=all(v.maybe for v in vs))
        if op == "mode":
            out = np.zeros(n, t.dtype)
            for i in range(n):
                if some[i]:
                    values, count = np.unique(data[:, i][ok[:, i]], return_counts=True)
                    out[i] = values[np.argmax(count)] + values.dtype.type(0)  # of two zeros the positive one
            return t(out, some, maybe)
        if op in ("min", "max"):
            out = np.zeros(n, t.dtype)
            for i in range(n):
                if some[i]:
                    x = data[:, i][ok[:, i]]
                    out[i] = getattr(x, op)()
                    if out[i] == 0 and t.kind == "float":
                        signs = [bool(np.signbit(z)) for z in x if z == 0]
                        out[i] = -0.0 if (any(signs) if op == "min" else all(signs)) else 0.0
            return t(out, some, maybe)
        out = np.zeros(n, cls)
        for i in range(n):
            x = data[:, i][ok[:, i]].astype(cls).astype(F64)
            if not len(x):
                continue
            if op in ("trend", "intercept", "r2"):
                out[i] = cls.type(self.fit(op, [q for q, k in zip(self.xs[0], ok[:, i]) if k], x))
                continue
            s = F64.type(0)
            for p in x:
                s = s + p
            if op == "sum":
                r = s
            elif op == "mean":
                r = s / len(x)
            elif op == "median":
                r = np.median(x)
            elif op in ("percentile", "quantile"):
                r = np.quantile(x, q)
                x, at = np.sort(x), (len(x) - 1) * q
                low, high = x[math.floor(at)], x[math.ceil(at)]
                if low == high:  # where NumPy computes inf - inf
                    r = low + 0.0
            else:
                m, d = s / len(x), F64.type(0)
                for p in x:
                    d = d + (p - m) * (p - m)
                r = d / len(x) if op == "var" else np.sqrt(d / len(x))
            out[i] = cls.type(r)
        return V("float", out, some)
