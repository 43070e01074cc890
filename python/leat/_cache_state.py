"""The state of an open cache, and the calls that use its file."""

from __future__ import annotations

import functools
import gc
import mmap
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, TypeVar, Union, cast

from ._cache_format import FIRST_SLOT, FROZEN, PAGE, TAIL, Header
from .errors import Closed, Error

if TYPE_CHECKING:
    from ._cache_fill import Fill

Buffer = Union[bytes, bytearray, memoryview, mmap.mmap]
"""Buffer is what can be put: objects with contiguous bytes."""

# What this process knows of a slot.
UNKNOWN, MAPPED, VERIFIED = 0, 1, 2  # MAPPED: verified, and in the mapping

WHOLE_TABLE = 1 << 28  # slots up to which a table has a byte for each


class _Sparse(dict):  # type: ignore[type-arg]
    """_Sparse is a table of zeros that takes memory only for other values."""

    def __missing__(self, key: int) -> int:
        return UNKNOWN


def new_table(n: int) -> Any:
    """Return a table of n zeros."""
    return bytearray(n) if n <= WHOLE_TABLE else _Sparse()


class ClosedTable:
    """ClosedTable is the table of a closed cache."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, i: int) -> int:
        raise Closed(self.text)


_Method = TypeVar("_Method", bound=Callable[..., Any])


def uses_file(method: _Method) -> _Method:
    """Return a method that raises Closed. close() in other threads waits for its calls."""
    @functools.wraps(method)
    def using(self: CacheState, *args: Any, **named: Any) -> Any:
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
            except ValueError:  # an exception from a signal handler came before the append
                pass
            if self._close_due and thread not in users:
                self._end()
    return cast(_Method, using)


_USING: Any = getattr(uses_file(len), "__code__")


def use_files(threads: Iterable[int]) -> bool:
    """Report whether one of these threads is in a method that uses a file.

    Python 3.9 may raise the exception of a signal handler within a finally: a thread can stay in
    the list.
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


class CacheState:
    """CacheState is what all parts of a cache use."""

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
    _lock_fd: int
    _fd: int
    _path: str
    _hidden: str
    _read_only: bool
    _verify: str
    _durability: int
    _header: Header
    _n: int
    _size: int
    _misses: int
    _pages: Any
    _mutex: threading.Lock
    _fills: dict[int, Fill]
    _fills_mutex: threading.Lock
    _uncounted: list[int]
    _batch: list[int]
    _no_space_until: float
    _data_limit: Optional[int]
    """Limit of the bytes of all data, without headers."""
    _warned: set[str]
    _warnings: list[str]
    _closed: bool

    def _end(self) -> None:
        raise NotImplementedError

    def _check(self, i: int) -> None:
        if self._closed:
            raise Closed(f"{self!r}: it is closed")
        if self._broken:
            raise Error(f"{self!r}: {self._broken}")
        if not hasattr(i, "__index__"):
            raise TypeError(f"slot: got {type(i).__name__}, expected a whole number")
        if not 0 <= i < self._n:
            raise IndexError(f"slot {i}: expected 0 to {self._n - 1}")

    def _remap(self) -> None:
        """Map the file to its present end. Earlier mappings live as long as their views."""
        size = os.fstat(self._fd).st_size
        new = mmap.mmap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        new.madvise(mmap.MADV_RANDOM, 0, PAGE + 8 * self._n)
        view = memoryview(new)
        self._size, self._misses = max(size, self._size), 0
        words = view[:size & ~7].cast("Q")
        self._fast = (self._fast[0], words, new, view, words[FIRST_SLOT:FIRST_SLOT + self._n])

    def _frozen(self) -> bool:
        return self._read_only or bool(self._shared[TAIL] & FROZEN)

    def __repr__(self) -> str:
        if self._closed:
            return f"<leat.Cache of {getattr(self, '_n', '?')} slots, closed>"
        return f"<leat.Cache of {self._n} slot{'s' * (self._n != 1)}, {self._name()}>"

    def _name(self) -> str:
        return self._path or f"without a name, uuid {self._header.uuid.hex()}"
