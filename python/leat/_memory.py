"""Shared memory of the function protocol."""

from __future__ import annotations

import math
import mmap
import os
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ._messages import OUTPUT, TYPES

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]  # not before NumPy 1.22

ALIGN = 64

_CODES = {name: code for code, name in enumerate(TYPES)}


class InputMemory:
    """InputMemory is memory of leat that holds the inputs of blocks."""

    def __init__(self, descriptor: int, size: int, begin: int, private: bool) -> None:
        self.private = private
        self.map = mmap.mmap(descriptor, size, mmap.MAP_PRIVATE if private else mmap.MAP_SHARED,
                             mmap.PROT_READ | mmap.PROT_WRITE, offset=begin)

    def drop_written(self) -> None:
        """Forget what the function wrote, if other processes use the memory too."""
        if self.private:
            self.map.madvise(mmap.MADV_DONTNEED)


class OutputMemory:
    """OutputMemory is a file in memory that holds the output arrays of a block."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.descriptor, self.limit = descriptor, limit
        self.size = self.used = 0
        # Where the arrays of this block and of the block before begin and end.
        self.begin = self.kept_begin = self.kept_end = 0
        self.map: Optional[mmap.mmap] = None
        self.places: dict[int, tuple[int, Array]] = {}

    def start(self, keep: bool = False) -> None:
        """Forget the arrays of the last block, or keep their pixels during this one."""
        self.kept_begin, self.kept_end = (self.begin, self.used) if keep else (0, 0)
        # In turn before and after the last block, if blocks have the same size.
        before = self.kept_begin >= self.kept_end - self.kept_begin
        self.begin = self.used = 0 if before else self.kept_end
        self.places.clear()

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Return a new array, whose values are undefined."""
        size = dtype.itemsize * math.prod(shape)
        begin, end = self.used, self.used + size
        if begin < self.kept_end and end > self.kept_begin:
            begin, end = self.kept_end, self.kept_end + size
        if end > self.limit:
            raise MemoryError(f"the outputs of a block take {_mebibytes(end)}, and the run has "
                              f"memory for {_mebibytes(self.limit)}")
        if end > self.size:
            self._grow(min(max(end, 2 * self.size), self.limit))
        self.used = (end + ALIGN - 1) // ALIGN * ALIGN
        a: Array = np.ndarray(shape, dtype, self.map, begin)
        self.places[id(a)] = begin, a
        return a

    def _grow(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)
        self.map, self.size = mmap.mmap(self.descriptor, size), size  # arrays keep the old mapping

    def place(self, array: Optional[Array]) -> bytes:
        """Return where an array is, as leat gets it; None is an output that was not set."""
        if array is None:
            return OUTPUT.pack(-1, 0, 0, 0, 0)
        return OUTPUT.pack(self.places[id(array)][0], _CODES[array.dtype.name], *array.shape)

    def close(self) -> None:
        """Close the file. Arrays in use keep their mapping."""
        self.map = None
        self.places.clear()
        os.close(self.descriptor)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.4g} MiB"
