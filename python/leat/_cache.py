"""Caches that processes share: docs/python/cache.md. The format is docs/format/cache.md."""

from __future__ import annotations

import fcntl
import mmap
import operator
import os
import threading
import time
from types import TracebackType
from typing import Any, Optional, Union

from . import _fork
from . import _cache_file as files
from ._cache_file import EXCLUSIVE, SETLK, SHARED, UNLOCKED, lock
from ._cache_fill import CacheFiller, filling
from ._cache_format import (ALIGN, BAD, COUNTERS, COUNTERS_ATOMIC, COUNTERS_PLAIN, DURABILITY,
                            FAULTS, FROZEN, LOCK_HOLD, LOCK_OPEN, LOCK_WRITE, MAX_OFFSET, MAX_SLOTS,
                            NAMELESS, PAGE, REFUSED_FILLED, REFUSED_FROZEN, REFUSED_FULL,
                            REFUSED_NO_SPACE, REFUSED_RACE, REPAIRED, SLOTS_ON_PAGE, STORED,
                            STORED_BYTES, TAIL, boot_id, first_record, is_sealed, pread_full,
                            round_up)
from ._cache_state import ClosedTable, new_table, use_files, uses_file
from ._cache_stats import CacheStats
from ._cache_write import UNLOCK_WRITE
from ._units import parse_size
from .errors import Closed, Damaged, Error

VERIFY = ("first", "always", "never")


class Cache(CacheFiller):
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

    __slots__ = ()

    def __init__(self, slots: int, path: Union[str, os.PathLike[str], None] = None, *,
                 dir: Union[str, os.PathLike[str], None] = None,
                 max_bytes: Union[int, str] = 0, verify: str = "first", durability: str = "none",
                 allow_remote: bool = False) -> None:
        self._closed = True  # until it is open, for __del__
        if not hasattr(slots, "__index__"):
            raise TypeError(f"slots: got {type(slots).__name__}, expected a whole number")
        slots = operator.index(slots)
        for name, value in (("path", path), ("dir", dir)):
            if value is not None and not isinstance(value, (str, os.PathLike)):
                raise TypeError(f"{name}: got {type(value).__name__}, expected a path")
        if not 1 <= slots <= MAX_SLOTS:
            raise ValueError(f"slots {slots}: expected 1 to {MAX_SLOTS}")
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
                    raise Error(f"cache {path}: it has {header.n} slots, expected {slots}")
                if most and header.max_bytes != most:
                    raise Error(f"cache {path}: its max_bytes is {header.max_bytes}, "
                                f"expected {most}")
            except BaseException:
                files.close_locked(fd)
                raise
            self._open(fd, path, "", verify, durability)
            return
        raise Error(f"cache {path}: created and removed by other processes 100 times")

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]], *, verify: str = "first") -> Cache:
        """Open a file that preserve() made, for reading; it may be anywhere and belong to any user.

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
        if not isinstance(handle, str):
            raise TypeError(f"handle: got {type(handle).__name__}, expected a str")
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
            self._pages = new_table((header.n + SLOTS_ON_PAGE - 1) // SLOTS_ON_PAGE)
            self._size = self._misses = 0
            self._fast = (new_table(header.n), None, None, None, None)
            self._mutex, self._fills_mutex = threading.Lock(), threading.Lock()
            self._fills = {}
            self._uncounted = [0] * COUNTERS
            self._batch = [0, 0]
            self._no_space_until = 0.0
            self._data_limit = None
            self._warned = set()
            self._warnings = []
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
        self._fast = (ClosedTable(f"{self!r}: it is closed"), None, None, None, None)
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
        """Report whether the file has anything but holes and zeros after the tail."""
        page = min(round_up(tail, PAGE), size)
        if pread_full(self._fd, page - tail, tail).strip(b"\0"):
            return True
        try:
            return os.lseek(self._fd, page, os.SEEK_DATA) < size
        except OSError as e:
            return e.errno != 6  # ENXIO: no data

    # The whole cache.

    @uses_file
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

    @uses_file
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

    @uses_file
    def stats(self) -> CacheStats:
        """Return the state of the cache, and counts of what all processes did.

        >>> import leat
        >>> with leat.Cache(10) as cache:
        ...     stored = cache.put(3, b"three")
        ...     cache.stats().stored
        1
        """
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

        >>> import leat
        >>> cache = leat.Cache(10)
        >>> cache.close()
        >>> cache.closed
        True
        """
        if self._closed:
            return
        thread = threading.get_ident()
        if thread in self._users and use_files([thread]):  # it may hold _mutex
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
        while use_files(user for user in list(self._users) if user != thread):
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
        """Maximum size of the file in bytes, 0 for no limit."""
        return self._header.max_bytes

    @property
    @uses_file
    def frozen(self) -> bool:
        """Whether the cache takes no more entries."""
        self._check(0)
        return self._frozen()

    @property
    def closed(self) -> bool:
        """Whether close() was called in this process."""
        return self._closed

    @property
    @uses_file
    def handle(self) -> str:
        """A string with which attach(), also that of Go, opens the cache while this process has it
        open."""
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
        filling.yes = False
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


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} {value!r}: expected {', '.join(map(repr, choices))}")
