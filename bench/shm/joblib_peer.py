"""joblib's way of sharing arrays, measured: prints one JSON object of lists of seconds. Arguments: rounds, largest size in MB."""
import json
import os
import sys
import tempfile
import time

import joblib
import numpy as np

rounds, largest = int(sys.argv[1]), int(sys.argv[2])
folder = tempfile.mkdtemp(prefix="joblib-peer-", dir="/dev/shm")
result = {"versions": f"Python {sys.version.split()[0]}, joblib {joblib.__version__}, NumPy {np.__version__}"}


def timed(f):
    begin = time.perf_counter()
    value = f()
    return time.perf_counter() - begin, value


def touch(a, i=0):
    """A task that looks at one element of an array."""
    return float(a[i])


try:
    for mb in (1, 100, 1000):
        if mb > largest:
            continue
        a = np.arange(mb * 125_000, dtype=np.float64)
        path = os.path.join(folder, f"{mb}.pkl")
        dumps, loads = [], []
        for _ in range(rounds):
            dumps.append(timed(lambda: joblib.dump(a, path))[0])
            seconds, b = timed(lambda: joblib.load(path, mmap_mode="r"))
            loads.append(seconds)
            assert b[-1] == a[-1]
            del b
            os.unlink(path)
        result[f"dump {mb}"], result[f"load {mb}"] = dumps, loads
        del a
    big, tiny = np.arange(12_500_000, dtype=np.float64), np.arange(10, dtype=np.float64)
    first, many, small, single = [], [], [], []
    for _ in range(rounds):
        with joblib.Parallel(n_jobs=2, temp_folder=folder) as parallel:
            parallel(joblib.delayed(touch)(tiny) for _ in range(4))  # the workers are there
            first.append(timed(lambda: parallel(joblib.delayed(touch)(big) for _ in range(2)))[0])
            many.append(timed(lambda: parallel(joblib.delayed(touch)(big, i) for i in range(1000)))[0])
            small.append(timed(lambda: parallel(joblib.delayed(touch)(tiny, i % 10) for i in range(1000)))[0])
        with joblib.Parallel(n_jobs=2, temp_folder=folder, batch_size=1) as parallel:
            parallel(joblib.delayed(touch)(big) for _ in range(4))
            single.append(timed(lambda: parallel(joblib.delayed(touch)(big, i) for i in range(1000)))[0])
    result.update({"first call": first, "1000 tasks": many, "1000 tiny": small, "1000 single": single})
finally:
    for root, dirs, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))
        for name in dirs:
            os.rmdir(os.path.join(root, name))
    os.rmdir(folder)
print(json.dumps(result))
