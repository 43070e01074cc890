"""Reads an array that a Go program shares: read.py PATH OFFSET HANDLE."""
import ast
import sys

import numpy as np


def attach(path, offset, handle):
    """The array as NumPy sees it: the same memory, nothing is copied. It is valid while the process
    that made it keeps it open."""
    shape, strides, descr = handle.split(":", 9)[7:]
    numbers = lambda text: () if text == "-" else tuple(int(n) for n in text.split(","))
    dtype = np.dtype(ast.literal_eval(descr))
    return np.ndarray(numbers(shape), dtype, np.memmap(path, "u1", "r"), int(offset), numbers(strides))


if __name__ == "__main__":
    path, offset, handle = sys.argv[1:]
    a = attach(path, offset, handle)
    whole = np.load(path, mmap_mode="r")  # it is a whole .npy file, too: it has more than 64 KiB
    assert a.shape == whole.shape and np.array_equal(a, whole)
    print(f"NumPy: {a.dtype} {a.shape}, mean {a.mean(dtype=np.float64):.3f}")
