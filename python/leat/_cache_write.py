"""Writing entries of caches."""

from __future__ import annotations

import fcntl
import operator
import os
import time
from typing import Any

from . import _libc
from ._cache_file import EXCLUSIVE, NO_SPACE, SETLK, UNLOCKED, lock, lock_of
from ._cache_format import (ALIGN, COUNTERS_PLAIN, DATA_BYTES, FIRST_SLOT, FROZEN, HEAD, LOCK_WRITE,
                            MAX_OFFSET, PAGE, REFUSED_FILLED, REFUSED_FROZEN, REFUSED_FULL,
                            REFUSED_NO_SPACE, REFUSED_RACE, REPAIRED, SLOTS_ON_PAGE, STORED,
                            STORED_BYTES, TAIL, WAIT, Record, encode_record, space)
from ._cache_read import CacheReader
from ._cache_state import VERIFIED, Buffer, uses_file
from ._checksum import crc32

BATCH_ENTRIES, BATCH_BYTES = 1024, 64 << 20
FULL_FOR = 0.1  # seconds for which get_or_fill considers the disk full after a put found it so
UNLOCK_WRITE = lock_of(UNLOCKED, LOCK_WRITE)
IN_ORDER = os.uname().machine == "x86_64"  # other processors see stores in their order


class CacheWriter(CacheReader):
    """CacheWriter is the part of a cache that writes entries."""

    __slots__ = ()

    def put(self, i: int, data: Buffer) -> bool:
        """Store data in slot i, 0 to n-1, and report whether it did.

        The first writer wins: a filled slot returns False, as do a frozen cache, a reached limit
        and a full disk; stats() counts each. When put returns, all processes see the whole entry.

        >>> import leat
        >>> with leat.Cache(3) as cache:
        ...     cache.put(0, b"first"), cache.put(0, b"second"), cache.get(0)
        (True, False, b'first')
        """
        try:
            view = memoryview(data)
        except TypeError:
            raise TypeError(f"data: got {type(data).__name__}, expected bytes, or another object "
                            "that has a buffer") from None
        if not view.c_contiguous:
            raise ValueError("data: not contiguous")
        return self._put(i, [view.cast("B")] if view.nbytes else []) == STORED

    def put_array(self, i: int, array: Any) -> bool:
        """Store a NumPy array of any shape in slot i, as a .npy file. See put and get_array.

        >>> import leat, numpy
        >>> with leat.Cache(3) as cache:
        ...     cache.put_array(0, numpy.zeros((2, 2), "f4")), cache.get_array(0).dtype.name
        (True, 'float32')
        """
        from . import _npy
        return self._put(i, _npy.encode(array)) == STORED

    @uses_file
    def _put(self, i: int, parts: list[memoryview]) -> int:
        """Store parts as one entry. Return STORED, or why not."""
        self._check(i)
        i = operator.index(i)
        old = 0 if self._read_only else self._slot(i)
        if (old or self._read_only) and self._whole(i):
            return self._refuse(REFUSED_FILLED)
        if self._frozen():
            return self._refuse(REFUSED_FROZEN)
        length = total = 0
        for part in parts:
            length += len(part)
            total = crc32(part, total)
        with self._mutex:
            self._check(i)  # it may have been closed meanwhile
            try:
                stored = self._put_locked(i, old, Record(i, length, 0, total), parts)
                self._count()
            finally:
                fcntl.fcntl(self._lock_fd, SETLK, UNLOCK_WRITE)
        if self._warnings:
            self._log()
        if stored == STORED and self._durability:
            self._flush_if_due(space(length))
        return stored

    def _put_locked(self, i: int, old: int, record: Record, parts: list[memoryview]) -> int:
        if not self._acquire():
            return self._refuse(REFUSED_FROZEN)
        shared = self._shared
        tail: int = shared[TAIL]
        if tail & FROZEN:
            return self._refuse(REFUSED_FROZEN)
        if not self._allocate(i // SLOTS_ON_PAGE):
            return self._no_space()
        if shared[FIRST_SLOT + i] != old:
            return self._refuse(REFUSED_RACE)
        end = tail + HEAD + record.length
        if (self._header.max_bytes and end > self._header.max_bytes
                or self._data_limit is not None
                and shared[COUNTERS_PLAIN + DATA_BYTES] + record.length > self._data_limit):
            shared[TAIL] = tail | FROZEN
            self._warn("cache frozen: limit reached")
            return self._refuse(REFUSED_FULL)
        if end > MAX_OFFSET - ALIGN:
            return self._no_space()
        took = space(record.length)
        shared[TAIL] = tail + took
        try:
            self._write([memoryview(encode_record(record._replace(offset=tail))), *parts], tail)
            if self._durability == 2:
                os.fdatasync(self._fd)
            if not IN_ORDER:  # a system call orders the stores
                lock(self._lock_fd, LOCK_WRITE, EXCLUSIVE)
            shared[FIRST_SLOT + i] = tail
        except BaseException as e:
            if shared[FIRST_SLOT + i] == tail:
                raise
            _libc.punch(self._fd, tail, took)
            shared[TAIL] = tail
            if isinstance(e, OSError) and e.errno in NO_SPACE:
                return self._no_space()
            raise
        if self._verify != "always":
            self._fast[0][i] = VERIFIED
        shared[COUNTERS_PLAIN + STORED] += 1
        shared[COUNTERS_PLAIN + STORED_BYTES] += took
        shared[COUNTERS_PLAIN + DATA_BYTES] += record.length
        if old:
            shared[COUNTERS_PLAIN + REPAIRED] += 1
        self._no_space_until = 0.0
        return STORED

    def _write(self, parts: list[memoryview], at: int) -> None:
        """Write parts, one after the other, at an offset."""
        while True:
            n = os.pwritev(self._fd, parts, at)
            at += n
            while parts and n >= len(parts[0]):
                n -= len(parts[0])
                parts = parts[1:]
            if not parts:
                return
            parts = [parts[0][n:], *parts[1:]]

    def _acquire(self, even_frozen: bool = False) -> bool:
        """Lock byte 2^61 + 1 exclusively, under _mutex; False if the cache is frozen.

        The caller unlocks it in any case, by a direct call of fcntl: an exception from a signal
        handler can't come between.
        """
        if lock(self._lock_fd, LOCK_WRITE, EXCLUSIVE):
            return True
        pause = 20e-6
        while even_frozen or not self._shared[TAIL] & FROZEN:
            if not self._shared[TAIL] & FROZEN:
                self._shared[WAIT] = time.monotonic_ns() + 10_000_000
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)
            if lock(self._lock_fd, LOCK_WRITE, EXCLUSIVE):
                self._shared[WAIT] = 0
                return True
        return False

    def _allocate(self, page: int) -> bool:
        """Allocate a page of the index, so that stores to it can't fail; False without space."""
        if self._pages[page]:
            return True
        at = PAGE + page * PAGE
        length = min(PAGE, 8 * self._n + PAGE - at)
        try:
            _libc.allocate(self._fd, at, length)
        except OSError as e:
            if e.errno in NO_SPACE:
                return False
            if e.errno != 95:  # EOPNOTSUPP: the store allocates it
                raise
        self._pages[page] = 1
        return True

    def _refuse(self, why: int) -> int:
        self._uncounted[why] += 1
        return why

    def _no_space(self) -> int:
        self._no_space_until = time.monotonic() + FULL_FOR
        self._warn("cache full: no disk space")
        return self._refuse(REFUSED_NO_SPACE)

    def _warn(self, text: str) -> None:
        """Log a warning once, when _mutex is free: the locks of logging wait for forks too."""
        if text not in self._warned:
            self._warned.add(text)
            self._warnings.append(text)

    def _log(self) -> None:
        import logging
        log = logging.getLogger("leat.cache")
        while self._warnings:
            log.warning("%s (cache %s)", self._warnings.pop(), self._name())

    def _count(self) -> None:
        """Add what was counted without the lock; the caller has it."""
        if any(self._uncounted):
            for k, n in enumerate(self._uncounted):
                if n:
                    self._uncounted[k] -= n
                    self._shared[COUNTERS_PLAIN + k] += n

    def _flush_if_due(self, took: int) -> None:
        """Flush as often as the durability requires."""
        if self._durability == 1:
            self._batch[0] += 1
            self._batch[1] += took
            if self._batch[0] < BATCH_ENTRIES and self._batch[1] < BATCH_BYTES:
                return
            self._batch = [0, 0]
        os.fdatasync(self._fd)
