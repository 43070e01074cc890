"""Caches that processes share: docs/python/cache.md. The format is docs/format/cache.md."""

from __future__ import annotations

import fcntl
import functools
import gc
import mmap
import operator
import os
import sys
import threading
import time
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Optional, TypeVar, Union,
                    cast)

from . import _fork, _libc
from . import _cache_file as files
from ._cache_file import EXCLUSIVE, NO_SPACE, SETLK, SHARED, UNLOCKED, lock, lock_of
from ._cache_format import (ALIGN, BAD, COUNTERS, COUNTERS_ATOMIC, COUNTERS_PLAIN, DATA_BYTES,
                            DURABILITY, FAULTS, FIRST_SLOT, FROZEN, HEAD, LOCK_FILL, LOCK_HOLD,
                            LOCK_OPEN, LOCK_WRITE, MAX_OFFSET, MAX_SLOTS, NAMELESS, PAGE,
                            REFUSED_FILLED, REFUSED_FROZEN, REFUSED_FULL, REFUSED_NO_SPACE,
                            REFUSED_RACE, REPAIRED, SLOTS_ON_PAGE, STORED, STORED_BYTES, TAIL, WAIT,
                            Header, Record, boot_id, encode_record, first_record, is_sealed,
                            parse_record, pread_full, round_up, space)
from ._checksum import crc32
from ._units import parse_size
from .errors import Closed, Damaged, Error

if TYPE_CHECKING:
    import numpy
    Array = numpy.ndarray[Any, Any]

Buffer = Union[bytes, bytearray, memoryview, mmap.mmap]
"""Buffer is what can be put: objects with contiguous bytes."""

VERIFY = ("first", "always", "never")

# What this process knows of a slot.
UNKNOWN, MAPPED, VERIFIED = 0, 1, 2  # MAPPED: verified, and in the mapping

WHOLE_TABLE = 1 << 28  # slots up to which a table has a byte for each
BATCH_ENTRIES, BATCH_BYTES = 1024, 64 << 20
FULL_FOR = 0.1  # seconds for which get_or_fill considers the disk full after a put found it so
UNLOCK_WRITE = lock_of(UNLOCKED, LOCK_WRITE)
IN_ORDER = os.uname().machine == "x86_64"  # other processors see stores in their order


class CacheStats(NamedTuple):
    """CacheStats describes a cache. Counts are those of all processes since it was made.

    >>> import leat
    >>> with leat.Cache(10) as cache:
    ...     cache.put(0, b"data"), cache.put(0, b"other")
    ...     stats = cache.stats()
    (True, False)
    >>> stats.stored, stats.refused_filled
    (1, 1)
    """

    slots: int
    """Slots of the cache."""
    bytes: int
    """Bytes of the file: first page, index and entries with their headers."""
    max_bytes: int
    """Most bytes of the file, 0 for no limit."""
    frozen: bool
    """Whether it takes no more entries."""
    preserved: bool
    """Whether its file is final."""
    stored: int
    """Entries put."""
    refused_filled: int
    """Puts into filled slots."""
    refused_race: int
    """Puts that another put to the same slot preceded."""
    refused_frozen: int
    """Puts into the frozen cache."""
    refused_full: int
    """Puts beyond max_bytes."""
    refused_no_space: int
    """Puts that the disk had no space for."""
    bad: int
    """Reads of damaged records."""
    repaired: int
    """Damaged records that a put replaced."""
    faults: int
    """Reads that failed, in Go processes."""
    dead_bytes: int
    """Bytes of records that no slot refers to, running puts included."""


class _Sparse(dict):  # type: ignore[type-arg]
    """_Sparse is a table of zeros that takes memory for others only."""

    def __missing__(self, key: int) -> int:
        return UNKNOWN


class _ClosedTable:
    """_ClosedTable is the table of a closed cache."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, i: int) -> int:
        raise Closed(self.text)


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _uses_file(method: _Method) -> _Method:
    """Return a method that raises Closed, and for whose calls close() in other threads waits."""
    @functools.wraps(method)
    def using(self: Cache, *args: Any, **named: Any) -> Any:
        users, thread = self._users, threading.get_ident()
        try:
            # Before the method reads _closed: close() sets that before it waits for _users.
            users.append(thread)
            return method(self, *args, **named)
        except (OSError, TypeError, ValueError):
            if self._closed:  # by a signal handler in this thread
                raise Closed(f"{self!r}: it is closed") from None
            raise
        finally:
            try:
                users.remove(thread)
            except ValueError:  # an exception of a signal came before the append
                pass
            if self._close_due and thread not in users:
                self._end()
    return cast(_Method, using)


_USING: Any = getattr(_uses_file(len), "__code__")


def _use_files(threads: Iterable[int]) -> bool:
    """Report whether one of these threads is in a method that uses a file.

    Python 3.9 may raise the exception of a signal within a finally: a thread can stay in the list.
    """
    waiting = list(threads)
    if not waiting:
        return False
    collects = gc.isenabled()
    try:
        # CPython before 3.11.5 locks up if it collects garbage in this call (gh-106883).
        gc.disable()
        frames = sys._current_frames()
    finally:
        if collects:
            gc.enable()
    for thread in waiting:
        frame = frames.get(thread)
        while frame is not None:
            if frame.f_code is _USING:
                return True
            frame = frame.f_back
    return False


class _Fill:
    """_Fill is a running fill of this process."""

    def __init__(self) -> None:
        # Locked until the end. An Event would be set by Python code, which a signal may interrupt.
        self.running = threading.Lock()
        self.running.acquire()
        self.data: Optional[bytes] = None


_filling = threading.local()


def _table(n: int) -> Any:
    return bytearray(n) if n <= WHOLE_TABLE else _Sparse()


class Cache:
    """Cache keeps n entries of bytes in one local file, for all processes of a machine.

    The first process that puts slot i fills it, once; from then on all processes read it without
    locks. Go programs and the leat command use the same files.

    >>> import leat
    >>> with leat.Cache(1000) as cache:
    ...     cache.put(7, b"seven")
    ...     cache.get(7), cache.get(8)
    True
    (b'seven', None)

    slots is the number of slots, 1 to 2^40. Without a path, the cache has no name and ends with the
    last process that has it open; dir is the directory of its file, by default the user's cache
    directory (LEAT_CACHE_DIR). With a path, it stays: the first process creates it, others with the
    same number of slots join it.

    max_bytes limits the file, with headers and index: bytes, or text such as "200G". The first
    entry beyond it freezes the cache for all processes.

    verify is when an entry's checksum is compared with its data: "first" when this process first
    reads it, "always", or "never". durability is when entries of a named cache are flushed to the
    disk: "none" leaves it to the kernel, "batch" after 1024 entries or 64 MiB, "each" before put
    returns. allow_remote accepts file systems that leat does not know to be local.

    Threads may use a cache at the same time. After a fork, parent and child may. A pickle of it
    leads to the same file: it is for processes of this machine. While a named cache exists, its
    pickle works; that of one without a name works while the process that made the pickle has it
    open.
    """

    __slots__ = ("_fast", "_n", "_header", "_page", "_path", "_hidden", "_read_only", "_verify",
                 "_durability", "_lock_fd", "_fd", "_shared", "_index", "_size", "_misses",
                 "_pages", "_mutex", "_fills", "_fills_mutex", "_uncounted", "_batch",
                 "_no_space_until", "_data_limit", "_warned", "_warnings", "_closed", "_broken",
                 "_users", "_close_due", "__weakref__")

    # Read at every get: the table of what is known, the file as words and as bytes, a view of it,
    # and its slots as words.
    _fast: tuple[Any, Any, Any, Any, Any]
    _shared: Any
    _index: Optional[mmap.mmap]
    _broken: Optional[str]
    _users: list[int]
    """Threads that use the file."""
    _close_due: bool
    """Whether the call of a thread closes the cache when it ends."""

    def __init__(self, slots: int, path: Union[str, os.PathLike[str], None] = None, *,
                 dir: Union[str, os.PathLike[str], None] = None,
                 max_bytes: Union[int, str] = 0, verify: str = "first", durability: str = "none",
                 allow_remote: bool = False) -> None:
        self._closed = True  # until it is open, for __del__
        slots = operator.index(slots)
        if not 1 <= slots <= MAX_SLOTS:
            raise ValueError(f"slots {slots}: want 1 to {MAX_SLOTS}")
        _check_choice("verify", verify, VERIFY)
        _check_choice("durability", durability, DURABILITY)
        most = parse_size(max_bytes, "max_bytes")
        if most and most < first_record(slots):
            raise ValueError(f"max_bytes {most}: the first page and the index of {slots} slots "
                             f"take {first_record(slots)}")
        if path is None:
            if durability != "none":
                raise ValueError(f"durability {durability!r}: a cache without a path ends with its "
                                 "processes")
            directory = (files.default_directory() if dir is None else
                         files.use_directory(os.fspath(dir), allow_remote))
            self._create(directory, slots, most, verify, False)
            return
        if dir is not None:
            raise ValueError("dir is for caches without a path")
        self._join(os.fspath(path), slots, most, verify, DURABILITY.index(durability), allow_remote)

    def _create(self, directory: str, slots: int, most: int, verify: str, hidden: bool) -> None:
        """Create a cache without a name; if hidden is set, with a hidden one in any case."""
        fd, path = files.create_nameless(directory, slots, most, hidden)
        self._open(fd, "", path, verify, 0)

    @classmethod
    def _existing(cls, path: str, verify: str = "first", durability: int = 0,
                  hidden: bool = False) -> Cache:
        """Open a named cache, or one with a hidden name, whatever its slots."""
        fd = files.open_own(path)
        cache = cls.__new__(cls)
        cache._open(fd, "" if hidden else path, path if hidden else "", verify, durability)
        return cache

    def _join(self, path: str, slots: int, most: int, verify: str, durability: int,
              allow_remote: bool) -> None:
        """Open or create a named cache."""
        files.check_name(path)
        path = os.path.abspath(path)
        if not allow_remote:
            files.check_local(os.path.dirname(path))
        for _ in range(100):
            try:
                fd = files.open_own(path)
            except FileNotFoundError:
                try:
                    fd = files.create_named(path, slots, most, durability)
                except FileExistsError:
                    continue  # another process was faster
            try:
                if not files.leads(path, fd):  # removed meanwhile
                    files.close_locked(fd)
                    continue
                header, _ = files.read_page(fd, path)
                if header.n != slots:
                    raise Error(f"cache {path}: it has {header.n} slots, want {slots}")
                if most and header.max_bytes != most:
                    raise Error(f"cache {path}: its max_bytes is {header.max_bytes}, want {most}")
            except BaseException:
                files.close_locked(fd)
                raise
            self._open(fd, path, "", verify, durability)
            return
        raise Error(f"cache {path}: created and removed by other processes 100 times")

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]], *, verify: str = "first") -> Cache:
        """Open a file that preserve() made, for reading; it may be anywhere and of any user.

        >>> import leat, os, tempfile
        >>> with tempfile.TemporaryDirectory() as d:
        ...     with leat.Cache(10) as cache:
        ...         stored = cache.put(3, b"three")
        ...         dropped = cache.preserve(os.path.join(d, "final.cache"))
        ...     with leat.Cache.load(os.path.join(d, "final.cache")) as final:
        ...         len(final), final.get(3)
        (10, b'three')
        """
        _check_choice("verify", verify, VERIFY)
        path = os.path.abspath(os.fspath(path))
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _, page = files.read_page(fd, path)
            if not is_sealed(page):
                raise Damaged(f"cache {path}: it was not preserved")
            try:
                lock(fd, LOCK_HOLD, SHARED)
            except OSError:
                pass  # a network file system without locks
        except BaseException:
            os.close(fd)
            raise
        cache = cls.__new__(cls)
        cache._open(fd, path, "", verify, 0)
        return cache

    @classmethod
    def attach(cls, handle: str, *, verify: str = "first") -> Cache:
        """Open the cache that a handle leads to, while the process that made it has it open.

        >>> import leat
        >>> with leat.Cache(10) as cache, leat.Cache.attach(cache.handle) as same:
        ...     same.put(1, b"one"), cache.get(1)
        (True, b'one')
        """
        _check_choice("verify", verify, VERIFY)
        fd, sealed = files.open_handle(handle)
        hidden = ""
        if not sealed:
            name = os.readlink(f"/proc/self/fd/{fd}")
            if files.NAMELESS_NAME.fullmatch(os.path.basename(name)) and files.leads(name, fd):
                hidden = name
        cache = cls.__new__(cls)
        cache._open(fd, "", hidden, verify, 0)
        return cache

    def _open(self, fd: int, path: str, hidden: str, verify: str, durability: int) -> None:
        """Start on an open file that is held, and owns it."""
        self._closed, self._broken, self._users, self._close_due = True, None, [], False
        self._path, self._hidden = path, hidden
        self._lock_fd, self._fd = fd, -1
        self._shared = self._index = None
        try:
            header, page = files.read_page(fd, path or "without a name")
            self._header, self._n = header, header.n
            sealed = is_sealed(page)
            self._read_only = sealed
            self._durability = max(durability, header.durability)
            # Mappings and reads are of another description: a child that inherits them inherits no
            # locks.
            self._fd = files.reopen(fd, os.O_RDONLY if sealed else os.O_RDWR)
            words = (PAGE + 8 * header.n) // 8
            if not sealed:
                self._index = mmap.mmap(self._fd, 8 * words, mmap.MAP_SHARED,
                                        mmap.PROT_READ | mmap.PROT_WRITE)
                self._index.madvise(mmap.MADV_RANDOM)
                self._shared = memoryview(self._index).cast("Q")
            boot = boot_id()
            lost = (not header.flags & NAMELESS and not sealed
                    and (boot != header.boot or boot == bytes(16)))
            self._verify = "always" if lost else verify
            self._pages = _table((header.n + SLOTS_ON_PAGE - 1) // SLOTS_ON_PAGE)
            self._size = self._misses = 0
            self._fast = (_table(header.n), None, None, None, None)
            self._mutex, self._fills_mutex = threading.Lock(), threading.Lock()
            self._fills: dict[int, _Fill] = {}
            self._uncounted = [0] * COUNTERS
            self._batch = [0, 0]
            self._no_space_until = 0.0
            self._data_limit: Optional[int] = None  # of the bytes of all data, without headers
            self._warned: set[str] = set()
            self._warnings: list[str] = []
            self._remap()
            if not sealed:
                self._repair_tail(lost)
                lock(fd, LOCK_OPEN, UNLOCKED)
        except BaseException:
            self._release()
            raise
        self._closed = False
        _fork.register(self)

    def _release(self) -> None:
        """Close the file and drop the mappings; views keep theirs."""
        self._closed = True
        self._fast = (_ClosedTable(f"{self!r}: it is closed"), None, None, None, None)
        self._shared = self._index = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._lock_fd >= 0:
            fd, self._lock_fd = self._lock_fd, -1
            if self._broken:  # the locks are the parent's
                os.close(fd)
            else:
                files.close_locked(fd)

    def _repair_tail(self, lost: bool) -> None:
        """Compare the tail with the end of the file."""
        size = os.fstat(self._fd).st_size
        end = round_up(min(size, MAX_OFFSET - ALIGN), ALIGN)
        tail = self._shared[TAIL]
        if tail & FROZEN or tail == end:
            return
        with self._mutex:
            try:
                if not self._acquire():
                    return
                tail = self._shared[TAIL]
                if tail < end and (lost or self._has_data(tail, size)):
                    self._shared[TAIL] = end
                elif tail > end and lock(self._lock_fd, LOCK_HOLD, EXCLUSIVE):
                    size = os.fstat(self._fd).st_size
                    end = round_up(min(size, MAX_OFFSET - ALIGN), ALIGN)
                    if self._shared[TAIL] > end:
                        self._shared[TAIL] = end
                    lock(self._lock_fd, LOCK_HOLD, SHARED)
            finally:
                fcntl.fcntl(self._lock_fd, SETLK, UNLOCK_WRITE)

    def _has_data(self, tail: int, size: int) -> bool:
        """Report whether the file has anything but holes and zeros behind the tail."""
        page = min(round_up(tail, PAGE), size)
        if pread_full(self._fd, page - tail, tail).strip(b"\0"):
            return True
        try:
            return os.lseek(self._fd, page, os.SEEK_DATA) < size
        except OSError as e:
            return e.errno != 6  # ENXIO: no data

    # Reading.

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
        except IndexError:
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
        except IndexError:
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

    @_uses_file
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
        was put with. The entry is a .npy file. The error is ValueError if it is another one.

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
            raise ValueError(f"entry {i} of {self._name()}: {e}") from None

    def _check(self, i: int) -> None:
        if self._closed:
            raise Closed(f"{self!r}: it is closed")
        if self._broken:
            raise Error(f"{self!r}: {self._broken}")
        if not 0 <= i < self._n:
            raise IndexError(f"slot {i}: want 0 to {self._n - 1}")

    def _remap(self) -> None:
        """Map the file to its present end. Earlier mappings live as long as their views."""
        size = os.fstat(self._fd).st_size
        new = mmap.mmap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        new.madvise(mmap.MADV_RANDOM, 0, PAGE + 8 * self._n)
        view = memoryview(new)
        self._size, self._misses = max(size, self._size), 0
        words = view[:size & ~7].cast("Q")
        self._fast = (self._fast[0], words, new, view, words[FIRST_SLOT:FIRST_SLOT + self._n])

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

    @_uses_file
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

    @_uses_file
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

    # Writing.

    def put(self, i: int, data: Buffer) -> bool:
        """Store data in slot i, 0 to n-1, and report whether it did.

        The first writer wins: a filled slot returns False, as do a frozen cache, a reached limit
        and a full disk; stats() counts each. When put returns, all processes see the whole entry.

        >>> import leat
        >>> with leat.Cache(3) as cache:
        ...     cache.put(0, b"first"), cache.put(0, b"second"), cache.get(0)
        (True, False, b'first')
        """
        view = memoryview(data)
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

    @_uses_file
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
        """Write parts, one behind the other, at an offset."""
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

        The caller unlocks it in any case, by a direct call of fcntl: an exception of a signal can't
        come between.
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

    def _frozen(self) -> bool:
        return self._read_only or bool(self._shared[TAIL] & FROZEN)

    # Filling.

    def get_or_fill(self, i: int, function: Callable[[], Buffer]) -> bytes:
        """Return a copy of entry i; if there is none, put what function() returns first.

        Of all threads and processes that miss an entry at the same time, one calls its function and
        the others wait. If that one fails or is killed, the next calls its own; each caller gets
        only its own exception. In a frozen or full cache, no caller waits. function must not call
        get_or_fill, since two could wait for each other for ever.

        >>> import leat
        >>> with leat.Cache(3) as cache:
        ...     cache.get_or_fill(1, lambda: b"slow"), cache.get_or_fill(1, lambda: b"other")
        (b'slow', b'slow')
        """
        data = self.get(i)
        if data is not None:
            return data
        if getattr(_filling, "yes", False):
            raise Error(f"get_or_fill of slot {i}: called by a function that fills a slot")
        while True:
            if self._refusing():
                return self._put_filled(i, _call(function))
            own = _Fill()
            try:
                with self._fills_mutex:
                    fill = self._fills.get(i)
                    if fill is None or not fill.running.locked():
                        fill = self._fills[i] = own
                if fill is own:
                    return self._fill(i, function, fill)
            finally:
                own.running.release()
            with fill.running:
                pass
            data = fill.data if fill.data is not None else self.get(i)
            if data is not None:
                return data

    @_uses_file
    def _refusing(self) -> bool:
        """Report whether a put would be refused whatever its slot."""
        self._check(0)
        return self._frozen() or time.monotonic() < self._no_space_until

    def _put_filled(self, i: int, data: bytes) -> bytes:
        """Put what was filled and return the entry, which is another's if that came first."""
        try:
            if not self.put(i, data):
                entry = self.get(i)
                if entry is not None:
                    return entry
        except Closed:
            pass
        return data

    def _fill(self, i: int, function: Callable[[], Buffer], fill: _Fill) -> bytes:
        """Fill slot i for all waiting threads, once no other process does."""
        at = LOCK_FILL + operator.index(i)
        unlock = lock_of(UNLOCKED, at)
        try:
            pause = 50e-6
            while not self._lock_slot(at):
                time.sleep(pause)
                pause = min(2 * pause, 10e-3)
                data = self.get(i)
                if data is not None:
                    return data
                if self._refusing():
                    break
            data = self.get(i)  # it may have been filled before this process got the lock
            if data is None:
                data = fill.data = self._put_filled(i, _call(function))
            return data
        finally:
            self._unlock_slot(unlock)
            with self._fills_mutex:
                self._fills.pop(i, None)

    @_uses_file
    def _lock_slot(self, at: int) -> bool:
        self._check(0)
        return lock(self._lock_fd, at, EXCLUSIVE)

    @_uses_file
    def _unlock_slot(self, unlock: bytes) -> None:
        if self._lock_fd >= 0:
            fcntl.fcntl(self._lock_fd, SETLK, unlock)

    # The whole cache.

    @_uses_file
    def freeze(self) -> None:
        """Refuse all further entries, for all processes and for good; wait for running puts.

        >>> import leat
        >>> with leat.Cache(3) as cache:
        ...     cache.freeze()
        ...     cache.put(0, b"late")
        False
        """
        self._check(0)
        if self._read_only:
            return
        with self._mutex:
            self._check(0)  # it may have been closed meanwhile
            try:
                self._acquire(even_frozen=True)
                self._shared[TAIL] |= FROZEN
                self._count()
            finally:
                fcntl.fcntl(self._lock_fd, SETLK, UNLOCK_WRITE)

    @_uses_file
    def preserve(self, path: Union[str, os.PathLike[str]], overwrite: bool = False) -> int:
        """Make the cache final and give its file a name, from which load() opens it.

        It freezes the cache for all processes, compares all checksums, and flushes the file to the
        disk; on the same file system nothing is copied. Damaged entries become empty: it returns
        their number. An existing path is FileExistsError, unless overwrite is true.

        >>> import leat, os, tempfile
        >>> with tempfile.TemporaryDirectory() as d, leat.Cache(10) as cache:
        ...     stored = cache.put(3, b"three")
        ...     cache.preserve(os.path.join(d, "final.cache"))
        0
        """
        self._check(0)
        from . import _cache_preserve
        return _cache_preserve.preserve(self, os.fspath(path), overwrite)

    @_uses_file
    def stats(self) -> CacheStats:
        """Return what the cache has and what all processes counted."""
        self._check(0)
        words = self._fast[1]
        count = [0] * COUNTERS
        for k in range(COUNTERS):
            if not self._read_only:
                count[k] = words[COUNTERS_ATOMIC + k] + words[COUNTERS_PLAIN + k]
            count[k] = count[k] + self._uncounted[k] & (1 << 64) - 1
        tail = words[TAIL]
        used = tail & ~FROZEN
        dead = 0 if self._read_only else max(used - self._header.base - count[STORED_BYTES], 0)
        sealed = is_sealed(pread_full(self._fd, PAGE, 0))
        return CacheStats(self._n, used, self._header.max_bytes, bool(tail & FROZEN), sealed,
                          count[STORED], count[REFUSED_FILLED], count[REFUSED_RACE],
                          count[REFUSED_FROZEN], count[REFUSED_FULL], count[REFUSED_NO_SPACE],
                          count[BAD], count[REPAIRED], count[FAULTS], dead)

    def close(self) -> None:
        """Close the cache in this process. Views stay valid; other calls raise leat.Closed.

        It waits for calls of other threads that read or write the file, but not for functions
        that fill slots. A signal handler that interrupts such a call of its own thread does not
        wait: the call closes the cache when it ends.
        """
        if self._closed:
            return
        thread = threading.get_ident()
        if thread in self._users and _use_files([thread]):  # it may hold _mutex
            self._closed = self._close_due = True
            return
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        self._end()

    def _end(self) -> None:
        """Release the file after the calls of other threads."""
        pause, thread = 20e-6, threading.get_ident()
        while _use_files(user for user in list(self._users) if user != thread):
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)
        with self._mutex:
            if self._lock_fd < 0:  # a child was forked meanwhile
                return
            try:
                if not self._broken:
                    self._finish()
            finally:
                self._release()

    def _finish(self) -> None:
        """Count, flush, and remove a hidden name if no other process has the cache open."""
        if not self._read_only:
            if any(self._uncounted) and lock(self._lock_fd, LOCK_WRITE, EXCLUSIVE):
                try:
                    self._count()
                finally:
                    fcntl.fcntl(self._lock_fd, SETLK, UNLOCK_WRITE)
            if self._durability == 1 and self._batch[0]:
                os.fdatasync(self._fd)
        if self._hidden:
            # The last process to close removes the name. Each unlocks first, so exactly one of
            # several gets the exclusive lock.
            lock(self._lock_fd, LOCK_HOLD, UNLOCKED)
            last = lock(self._lock_fd, LOCK_HOLD, EXCLUSIVE)
            if last and files.leads(self._hidden, self._lock_fd):
                os.unlink(self._hidden)

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass

    def __repr__(self) -> str:
        if self._closed:
            return f"<leat.Cache of {getattr(self, '_n', '?')} slots, closed>"
        return f"<leat.Cache of {self._n} slots, {self._name()}>"

    def _name(self) -> str:
        return self._path or f"without a name, uuid {self._header.uuid.hex()}"

    @property
    def path(self) -> Optional[str]:
        """The absolute path of a named cache, else None."""
        return self._path or None

    @property
    def uuid(self) -> str:
        """The identity of the file, 32 hexadecimal digits."""
        return self._header.uuid.hex()

    @property
    def max_bytes(self) -> int:
        """Most bytes of the file, 0 for no limit."""
        return self._header.max_bytes

    @property
    @_uses_file
    def frozen(self) -> bool:
        """Whether the cache takes no more entries."""
        self._check(0)
        return self._frozen()

    @property
    def closed(self) -> bool:
        """Whether close() was called in this process."""
        return self._closed

    @property
    @_uses_file
    def handle(self) -> str:
        """A text with which attach() opens the cache, as Go does, while this process has it."""
        self._check(0)
        return files.handle(self._fd, self._header.uuid)

    # Other processes.

    def __reduce__(self) -> tuple[Any, ...]:
        self._check(0)
        return _restore, (self._path, self.handle, self._read_only, self._verify, self._durability)

    def _before_fork(self) -> None:
        self._mutex.acquire()
        try:
            self._fills_mutex.acquire()
        except BaseException:
            self._mutex.release()
            raise

    def _after_fork(self, child: bool) -> None:
        if not child:
            self._fills_mutex.release()
            self._mutex.release()
            return
        # Threads that may have the old ones are not in the child.
        self._mutex, self._fills_mutex, self._users = threading.Lock(), threading.Lock(), []
        if not self._closed:
            self._reopen()
        elif self._lock_fd >= 0:  # another thread of the parent was about to close it
            self._broken = "closed"  # the locks are the parent's
            self._release()

    def _reopen(self) -> None:
        """Replace the inherited description, and with it the parent's locks, in a child."""
        self._fills.clear()
        self._uncounted = [0] * COUNTERS  # the parent counts those
        self._batch = [0, 0]
        _filling.yes = False
        try:
            fd = files.reopen(self._lock_fd, os.O_RDONLY if self._read_only else os.O_RDWR)
            try:
                files.share(fd, self._name())
                os.dup2(fd, self._lock_fd, inheritable=False)
            finally:
                os.close(fd)
        except (OSError, Error) as e:
            self._broken = f"it could not be opened again after a fork: {e}"


def _restore(path: str, handle: str, sealed: bool, verify: str, durability: int) -> Cache:
    """Open a cache from its pickle: by its path while that leads to the same file, else by its
    handle."""
    uuid = handle.rsplit(":", 1)[1]
    if path:
        try:
            cache = (Cache.load(path, verify=verify) if sealed else
                     Cache._existing(path, verify, durability))
        except (OSError, Error):
            cache = None
        if cache is not None:
            if cache.uuid == uuid:
                return cache
            cache.close()
    return Cache.attach(handle, verify=verify)


def _call(function: Callable[[], Buffer]) -> bytes:
    """Call a function that fills a slot."""
    _filling.yes = True
    try:
        data = function()
        return data if type(data) is bytes else bytes(memoryview(data))  # bytes(5) is b"\0\0\0\0\0"
    finally:
        _filling.yes = False


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} {value!r}: want {', '.join(map(repr, choices))}")


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
