"""Reading entries of caches."""

from __future__ import annotations

import mmap
import operator
import os
from typing import TYPE_CHECKING, Any, Optional

from ._cache_format import (ALIGN, BAD, HEAD, MAX_OFFSET, PAGE, SLOTS_ON_PAGE, Record, parse_record,
                            pread_full, space)
from ._cache_state import MAPPED, UNKNOWN, VERIFIED, Buffer, CacheState, uses_file
from ._checksum import crc32

if TYPE_CHECKING:
    import numpy
    Array = numpy.ndarray[Any, Any]


class CacheReader(CacheState):
    """CacheReader is the part of a cache that reads entries."""

    __slots__ = ()

    def get(self, i: int) -> Optional[bytes]:
        """Return a copy of entry i, 0 to n-1, or None if there is none.

        >>> import leat
        >>> with leat.Cache(3) as cache:
        ...     cache.get(2) is None
        True
        """
        known, words, data, _, slots = self._fast
        try:
            if known[i] == MAPPED and i >= 0:
                start = slots[i]  # without arithmetic, in which a narrow integer of NumPy overflows
                length = words[(start >> 3) + 2]
                at = start + HEAD
                entry: bytes = data[at:at + length]
                if start and len(entry) == length:  # 0: dropped by preserve
                    return entry
        except (IndexError, TypeError):
            pass
        return self._get(i)

    def view(self, i: int) -> Optional[memoryview]:
        """Return entry i without a copy, or None if there is none.

        The view is read-only and of memory that all processes share. It stays valid after close()
        and keeps the file open. A process that has too many files open gets a view of a copy.

        >>> import leat
        >>> with leat.Cache(3) as cache:
        ...     stored = cache.put(2, b"two")
        ...     bytes(cache.view(2)[:2])
        b'tw'
        """
        known, words, _, view, slots = self._fast
        try:
            if known[i] == MAPPED and i >= 0:
                start = slots[i]
                length = words[(start >> 3) + 2]
                at = start + HEAD
                entry: memoryview = view[at:at + length]
                if start and len(entry) == length:
                    return entry
        except (IndexError, TypeError):
            pass
        return self._get_view(i)

    def __contains__(self, i: object) -> bool:
        """Report whether slot i has an entry that can be read."""
        try:
            number = operator.index(i)  # type: ignore[arg-type]
        except TypeError:
            return False
        if not 0 <= number < self._n:
            return False
        return self._has(number)

    @uses_file
    def _has(self, i: int) -> bool:
        self._check(i)
        if self._fast[0][i] and self._verify != "always" and self._slot(i):
            return True
        return self._whole(i)

    def __len__(self) -> int:
        """Return the number of slots."""
        return self._n

    def get_array(self, i: int) -> Optional[Array]:
        """Return entry i as a NumPy array, without a copy, or None if there is none.

        The array is read-only and of memory that all processes share, in the shape and type that it
        was put with. ValueError is raised if the entry is not a .npy file.

        >>> import leat, numpy
        >>> with leat.Cache(3) as cache:
        ...     stored = cache.put_array(1, numpy.arange(6).reshape(2, 3))
        ...     cache.get_array(1).shape
        (2, 3)
        """
        entry = self.view(i)
        if entry is None:
            return None
        from . import _npy
        try:
            return _npy.decode(entry)
        except ValueError as e:
            raise ValueError(f"entry {i} of the cache {self._name()}: {e}") from None

    def _slot(self, i: int) -> int:
        """Return the offset in slot i, 0 for none."""
        page = i // SLOTS_ON_PAGE
        if not self._pages[page]:
            # A load from a hole may allocate it, see the format.
            at = PAGE + page * PAGE
            slots = pread_full(self._fd, min(PAGE, 8 * self._n + PAGE - at), at)
            if not slots.strip(b"\0"):
                return 0
            self._pages[page] = 1
        offset: int = self._fast[4][i]
        return offset

    def _record(self, i: int) -> Optional[Record]:
        """Return the record that slot i leads to, if its header is right and the file has it."""
        offset = self._slot(i)
        if not offset:
            return None
        if (offset % ALIGN == 0 and self._header.base <= offset <= MAX_OFFSET
                and self._reaches(offset + HEAD)):
            data = self._fast[2]  # another thread may replace it
            if offset + HEAD <= len(data):
                head = data[offset:offset + HEAD]
            else:
                head = pread_full(self._fd, HEAD, offset)
            record = parse_record(head, i, offset)
            if record is not None and self._reaches(offset + HEAD + record.length):
                return record
        self._uncounted[BAD] += 1
        self._fast[0][i] = UNKNOWN
        return None

    def _reaches(self, end: int) -> bool:
        """Report whether the file reaches to an offset."""
        if end > self._size:
            self._size = os.fstat(self._fd).st_size
        return end <= self._size

    def _mapped(self, record: Record) -> tuple[Any, Any]:
        """Return the mapping and its view if a record is in it, else None twice.

        After many others, the mapping grows. Another thread may then replace it by a smaller one.
        """
        end = record.offset + HEAD + record.length
        data, view = self._fast[2:4]
        if end > len(data):
            self._misses += 1
            if self._misses > 64 + (len(data) >> 22):
                try:
                    self._remap()
                except OSError:  # too many open files, or no address space
                    self._misses = 0
                data, view = self._fast[2:4]
        return (data, view) if end <= len(data) else (None, None)

    def _verified(self, record: Record, data: Buffer, state: int) -> bool:
        """Compare the checksum of a record's data, if need be, and note the result."""
        i, known = record.slot, self._fast[0]
        if self._verify != "never" and (not known[i] or self._verify == "always"):
            if crc32(data) != record.sum:
                known[i] = UNKNOWN
                self._uncounted[BAD] += 1
                return False
        if self._verify != "always":
            known[i] = state
        return True

    @uses_file
    def _get(self, i: int) -> Optional[bytes]:
        self._check(i)
        record = self._record(operator.index(i))
        if record is None:
            return None
        start = record.offset + HEAD
        mapping, _ = self._mapped(record)
        if mapping is not None:
            data: bytes = mapping[start:start + record.length]
            state = MAPPED
        else:
            data, state = pread_full(self._fd, record.length, start), VERIFIED
            if len(data) < record.length:
                return None
        return data if self._verified(record, data, state) else None

    @uses_file
    def _get_view(self, i: int) -> Optional[memoryview]:
        self._check(i)
        record = self._record(operator.index(i))
        if record is None:
            return None
        start = record.offset + HEAD
        _, whole = self._mapped(record)
        if whole is not None:
            view, state = whole[start:start + record.length], MAPPED
        elif record.length == 0:
            view, state = memoryview(b""), VERIFIED
        else:
            begin = start & -mmap.ALLOCATIONGRANULARITY
            try:
                part = mmap.mmap(self._fd, start + record.length - begin, mmap.MAP_SHARED,
                                 mmap.PROT_READ, offset=begin)
                view, state = memoryview(part)[start - begin:], VERIFIED
            except OSError:  # too many open files: each mapping has one
                view, state = memoryview(pread_full(self._fd, record.length, start)), VERIFIED
                if len(view) < record.length:
                    return None
        return view if self._verified(record, view, state) else None

    def _whole(self, i: int) -> bool:
        """Report whether slot i has a whole record."""
        record = self._record(i)
        if record is None:
            return False
        start, end = record.offset + HEAD, record.offset + HEAD + record.length
        known = self._fast[0][i]
        if known and self._verify != "always" or self._verify == "never":
            return True
        view = self._fast[3]
        if end <= len(view):
            return self._verified(record, view[start:end], MAPPED)
        return sum_chunks(self._fd, start, end) == record.sum


def sum_chunks(fd: int, start: int, end: int) -> Optional[int]:
    """Return the checksum of a range of a file, or None if the file ends within it."""
    total = 0
    while start < end:
        data = os.pread(fd, min(end - start, 1 << 20), start)
        if not data:
            return None
        total = crc32(data, total)
        start += len(data)
    return total
