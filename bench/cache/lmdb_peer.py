# The peer: LMDB through python3-lmdb. It takes orders, one JSON object a line, and answers each with one line; the processes that an
# order asks for are real ones, forked for it, and open the environment themselves.
#
# As it comes: a transaction for every operation, each put brought to the disk. Tuned: one read transaction for 1000 gets (it does not see what
# others put meanwhile), and puts are not brought to the disk.
import json
import multiprocessing
import random
import struct
import sys
import time

import lmdb

WORD = struct.Struct("<Q")
KEY = struct.Struct(">Q")


def word(i):
    return (i + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


def blank(size):
    return bytearray((k * 31 >> 3) & 255 for k in range(size))


def marks(size):
    return (0, size // 16 * 8, size - 8)


def mark(b, i):
    for at in marks(len(b)):
        WORD.pack_into(b, at, word(i))


def open_env(o):
    tuned = o.get("tuned", False)
    return lmdb.open(o["path"], map_size=32 << 30, max_readers=126, sync=not tuned, metasync=not tuned)


def check(data, size, i):
    w = word(i)
    if data is None or len(data) != size or any(WORD.unpack_from(data, at)[0] != w for at in marks(size)):
        raise ValueError("LMDB: entry %d is another one" % i)


def getter(env, o, view):
    """A function that gets one entry and looks at it."""
    size, n, tuned = o["size"], o["entries"], o["tuned"]
    order = [random.randrange(n) for _ in range(1 << 14)]
    keys = [KEY.pack(i) for i in range(n)]
    middle = [word(i) >> 24 & 255 for i in range(n)]
    at = size // 16 * 8 + 3
    state = {"k": 0}

    def look(data, i):
        if view:
            if len(data) != size or data[at] != middle[i]:
                raise ValueError("LMDB: entry %d is another one" % i)
        else:
            check(data, size, i)

    def some(count):
        k = state["k"]
        state["k"] = k + count
        if tuned:
            with env.begin(buffers=view) as txn:
                for j in range(k, k + count):
                    i = order[j & 16383]
                    look(txn.get(keys[i]), i)
        else:
            for j in range(k, k + count):
                i = order[j & 16383]
                with env.begin(buffers=view) as one:
                    look(one.get(keys[i]), i)

    return some


def putter(env, o, rank, writers, first):
    size, slots = o["size"], o["slots"]
    data = blank(size)
    state = {"k": rank}

    def some(count):
        for _ in range(count):
            i = first + (state["k"] * 0x9E3779B1 + 12345 & slots - 1)
            state["k"] += writers
            mark(data, i)
            with env.begin(write=True) as txn:
                if not txn.put(KEY.pack(i), data, overwrite=False):
                    raise ValueError("LMDB: entry %d was there" % i)

    return some


def child(o, rank, barrier, results):
    try:
        env = open_env(o)
        what, n = o["what"], o["processes"]
        limit = 1 << 62
        if what == "put":
            some, batch, limit = putter(env, o, rank, n, 0), 1, o["limit"] // n
        elif what == "mixed" and rank == 0:
            some, batch, limit = putter(env, o, 0, 1, o["entries"]), 1, o["limit"]
        else:
            some = getter(env, o, what == "view")
            batch = 1000 if o["tuned"] else 16
            some(o["entries"])
        barrier.wait()
        begin = time.time()
        end, count = begin, 0
        until = begin + o["seconds"]
        while end < until and count < limit:
            some(batch)
            count += batch
            end = time.time()
        results.put({"rank": rank, "count": count, "begin": begin, "end": end})
        env.close()
    except BaseException as e:
        barrier.abort()
        results.put({"rank": rank, "error": repr(e)})


def run(o):
    n = o["processes"]
    barrier, results = multiprocessing.Barrier(n), multiprocessing.Queue()
    all_of_them = [multiprocessing.Process(target=child, args=(o, k, barrier, results)) for k in range(n)]
    for p in all_of_them:
        p.start()
    answers = [results.get() for _ in all_of_them]
    for p in all_of_them:
        p.join()
    errors = [a["error"] for a in answers if "error" in a]
    real = [e for e in errors if "BrokenBarrier" not in e]
    return {"error": (real or errors)[0]} if errors else {"parts": sorted(answers, key=lambda a: a["rank"])}


def make(o):
    env = open_env(o)
    data = blank(o["size"])
    with env.begin(write=True) as txn:
        for i in range(o["entries"]):
            mark(data, i)
            txn.put(KEY.pack(i), data)
    env.sync(True)
    env.close()
    return {}


def opened(o):
    begin = time.time()
    env = open_env(o)
    end = time.time()
    env.close()
    return {"parts": [{"rank": 0, "count": 1, "begin": begin, "end": end}]}


def main():
    multiprocessing.set_start_method("fork")
    print(json.dumps({"versions": "LMDB %d.%d.%d, python3-lmdb %s, Python %s" % (*lmdb.version(), lmdb.__version__, sys.version.split()[0])}), flush=True)
    for line in sys.stdin:
        o = json.loads(line)
        try:
            answer = {"run": run, "make": make, "open": opened}[o["op"]](o)
        except Exception as e:
            answer = {"error": repr(e)}
        print(json.dumps(answer), flush=True)


main()
