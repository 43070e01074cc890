"""Files of pfio's MultiprocessFileCache.preserve: docs/format/cache.md."""

from __future__ import annotations

import mmap
import os
from array import array
from typing import TYPE_CHECKING, Any, Optional

from .errors import Damaged

if TYPE_CHECKING:
    from ._cache import Cache

ENTRY = 16  # bytes of an entry of the index: offset and length
CHUNK = 1 << 16  # entries of the index that are written at once


class PfioFile:
    """PfioFile is a file that pfio, or write, preserved."""

    def __init__(self, path: str, n: int) -> None:
        self.path, self.n = path, n
        self._map: Any = b""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size < ENTRY * n:
                raise self._bad(f"it needs an index of {ENTRY * n} bytes, but has {size}")
            self._map = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fd)
        self._check(size)
        self._index = memoryview(self._map)[:ENTRY * n].cast("q")

    def _bad(self, why: str) -> Damaged:
        return Damaged(f"{self.path}: as a pfio file of {self.n} slots {why}")

    def _check(self, size: int) -> None:
        """Check the index, and the number of slots as far as the file shows it."""
        index = ENTRY * self.n
        words = array("q", self._map[:index])
        offsets, lengths = words[0::2], words[1::2]
        filled = [i for i in range(self.n) if offsets[i] or lengths[i] != -1]
        filled.sort(key=lambda i: (offsets[i], lengths[i]))
        end = index
        for k, i in enumerate(filled):
            offset, length = offsets[i], lengths[i]
            if offset < 0 or length < 0:
                raise self._bad(f"slot {i} is invalid (offset {offset}, length {length})")
            if offset < index:
                raise self._bad(f"the data of slot {i} begin at byte {offset}, within the index")
            if offset + length > size:
                raise self._bad(f"the data of slot {i} end at byte {offset + length} of {size}: "
                                "truncated, or another number of slots")
            if k == 0 and offset != index:
                raise self._bad(f"the first data begin at byte {offset}, not after the index at "
                                f"{index}: it has more slots, at most {offset // ENTRY}")
            if offset < end:
                raise self._bad(f"slots {filled[k - 1]} and {i} share bytes: a put was killed, "
                                "either may be wrong")
            end = offset + length
        if not filled and size != index:
            raise self._bad(f"it has no entries, but {size - index} bytes of data")

    def get(self, i: int) -> Optional[bytes]:
        """Return a copy of entry i, or None if there is none."""
        offset, length = self._index[2 * i], self._index[2 * i + 1]
        if length < 0:
            return None
        data: bytes = self._map[offset:offset + length]
        return data

    def __reduce__(self) -> tuple[Any, ...]:
        return PfioFile, (self.path, self.n)


def write(cache: Cache, n: int, path: str, overwrite: bool) -> None:
    """Write the entries of slots 0 to n-1 of a frozen cache as such a file."""
    from . import _cache_preserve as files
    path = os.path.abspath(path)
    files.check_target(path, overwrite)
    files.publish(path, overwrite, lambda fd: _write(cache, n, fd))
    files.flush_directory(path)


def _write(cache: Cache, n: int, fd: int) -> None:
    from ._cache_format import pwrite_full
    from ._cache_preserve import filled_slots
    slots, starts = array("q"), array("q")
    for i, offset in filled_slots(cache._fd, n):
        slots.append(i)
        starts.append(offset)
    at = ENTRY * n
    offsets, lengths = array("q", bytes(8 * len(slots))), array("q", bytes(8 * len(slots)))
    for k in sorted(range(len(slots)), key=starts.__getitem__):
        view = cache.view(slots[k])
        if view is None:  # damaged
            lengths[k] = -1
            continue
        pwrite_full(fd, view, at)
        offsets[k], lengths[k] = at, len(view)
        at += len(view)
    k = 0
    for first in range(0, n, CHUNK):
        count = min(CHUNK, n - first)
        index = array("q", (0, -1)) * count
        while k < len(slots) and slots[k] < first + count:
            position = 2 * (slots[k] - first)
            index[position], index[position + 1] = offsets[k], lengths[k]
            k += 1
        pwrite_full(fd, index.tobytes(), ENTRY * first)
