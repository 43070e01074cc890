"""Measures leat.Cache, LMDB and pfio in one process and prints a table in Markdown.

    python3 bench/python/cache.py [-quick] [-dir DIR]

LMDB (python3-lmdb) is tuned: one read transaction for all gets, and puts are not flushed. pfio
comes from LEAT_PEERS and flushes each put. Entries are compared before gets and views are measured.
Rounds alternate; times are medians, in brackets the lowest and the highest.
"""

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

import leat  # noqa: E402


def data_of(i, size):
    return ((i + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little") * (size // 8)


class Leat:
    def __init__(self, directory, n):
        self.cache = leat.Cache(n, dir=directory)
        self.keys = list(range(n))

    def put(self, keys, datas):
        put = self.cache.put
        for k, d in zip(keys, datas):
            put(k, d)

    def get(self, keys):
        get = self.cache.get
        for k in keys:
            get(k)

    def view(self, keys):
        view = self.cache.view
        for k in keys:
            view(k)

    def one(self, i):
        return self.cache.get(i)

    def close(self):
        self.cache.close()


class Pfio(Leat):
    def __init__(self, directory, n):
        import pfio.cache
        self.cache = pfio.cache.MultiprocessFileCache(n, dir=directory)
        self.keys = list(range(n))

    view = None


class Lmdb:
    def __init__(self, directory, n):
        import lmdb
        self.env = lmdb.open(os.path.join(directory, "lmdb"), map_size=32 << 30, sync=False,
                             metasync=False)
        self.keys = [i.to_bytes(8, "big") for i in range(n)]

    def put(self, keys, datas):
        for k, d in zip(keys, datas):
            with self.env.begin(write=True) as txn:
                txn.put(k, d, overwrite=False)

    def get(self, keys, buffers=False):
        with self.env.begin(buffers=buffers) as txn:
            get = txn.get
            for k in keys:
                get(k)

    def view(self, keys):
        self.get(keys, buffers=True)

    def one(self, i):
        with self.env.begin() as txn:
            return txn.get(self.keys[i])

    def close(self):
        self.env.close()


def peers():
    found = {"leat": Leat}
    try:
        import lmdb
        print(f"LMDB {'.'.join(map(str, lmdb.version()))}, python3-lmdb {lmdb.__version__}")
        found["LMDB"] = Lmdb
    except ImportError:
        print("no LMDB here (Debian: apt-get install python3-lmdb)")
    path = os.path.join(os.environ.get("LEAT_PEERS", ""), "pfio")
    if os.environ.get("LEAT_PEERS") and os.path.isdir(path):
        package = types.ModuleType("pfio")  # without its store clients
        package.__path__ = [os.path.join(path, "pfio")]
        sys.modules["pfio"] = package
        sys.path.insert(0, path)
        found["pfio"] = Pfio
        print("pfio of scripts/peers")
    else:
        print("no pfio: LEAT_PEERS names no directory with a checkout")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-quick", action="store_true", help="few entries: checks that it works")
    parser.add_argument("-dir", default=None, help="directory on a local disk")
    o = parser.parse_args()
    rounds = 3 if o.quick else 9
    print(f"Python {sys.version.split()[0]}, leat {leat.__version__}")
    found = peers()
    print("\n| entries | operation | " + " | ".join(f"{name}, us" for name in found) + " | " +
          " | ".join(f"{name} ÷ leat" for name in found if name != "leat") + " |")
    print("| --- " * (1 + 2 * len(found)) + "|")
    for size, n in ((1024, 4000), (110 << 10, 1000)):
        if o.quick:
            n //= 10
        measure(o, found, size, n, rounds)


def measure(o, found, size, n, rounds):
    directory = tempfile.mkdtemp(prefix="leat-bench-", dir=o.dir)
    stores = {}
    try:
        for name, kind in found.items():
            os.mkdir(os.path.join(directory, name))
            stores[name] = kind(os.path.join(directory, name), n)
        times = {(op, name): [] for op in ("put", "get", "view") for name in stores}
        datas = [data_of(i, size) for i in range(n)]
        part = n // rounds
        for r in range(rounds):
            for name, s in alternate(stores, r):
                begin = time.perf_counter()
                s.put(s.keys[r * part:(r + 1) * part], datas[r * part:(r + 1) * part])
                times["put", name].append((time.perf_counter() - begin) / part)
        n = rounds * part
        for s in stores.values():
            for i in range(n):
                if s.one(i) != datas[i]:
                    raise SystemExit(f"{type(s).__name__}: entry {i} differs from what was put")
        order = random.Random(1).choices(range(n), k=2000 if o.quick else 20000)
        for op in ("get", "view"):
            for r in range(rounds):
                for name, s in alternate(stores, r):
                    if getattr(s, op):
                        keys = [s.keys[i] for i in order]
                        begin = time.perf_counter()
                        getattr(s, op)(keys)
                        times[op, name].append((time.perf_counter() - begin) / len(keys))
        for op in ("put", "get", "view"):
            row = [times[op, name] for name in stores]
            own = statistics.median(row[0])
            cells = [f"{statistics.median(t) * 1e6:.2f} ({min(t) * 1e6:.2f} to {max(t) * 1e6:.2f})"
                     if t else "" for t in row]
            cells += [f"{statistics.median(t) / own:.2f}" if t else "" for t in row[1:]]
            print(f"| {size >> 10} KiB | {op} | " + " | ".join(cells) + " |", flush=True)
    finally:
        for s in stores.values():
            s.close()
        shutil.rmtree(directory)


def alternate(stores, r):
    items = list(stores.items())
    return items[r % len(items):] + items[:r % len(items)]


main()
