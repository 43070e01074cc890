"""Filling slots of caches by one process at a time."""

from __future__ import annotations

import fcntl
import operator
import threading
import time
from typing import Callable, Optional

from ._cache_file import EXCLUSIVE, SETLK, UNLOCKED, lock, lock_of
from ._cache_format import LOCK_FILL
from ._cache_state import Buffer, uses_file
from ._cache_write import CacheWriter
from .errors import Closed, Error


class Fill:
    """Fill is a running fill of this process."""

    def __init__(self) -> None:
        # Locked until the end. An Event would be set by Python code, which a signal may interrupt.
        self.running = threading.Lock()
        self.running.acquire()
        self.data: Optional[bytes] = None


filling = threading.local()


class CacheFiller(CacheWriter):
    """CacheFiller is the part of a cache that fills slots by functions."""

    __slots__ = ()

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
        if not callable(function):
            raise TypeError(f"function: got {type(function).__name__}, expected a function without "
                            "arguments")
        data = self.get(i)
        if data is not None:
            return data
        i = operator.index(i)  # arrays have no hash, or one of their own
        if getattr(filling, "yes", False):
            raise Error(f"get_or_fill of slot {i}: called by a function that fills a slot")
        while True:
            if self._refusing():
                return self._put_filled(i, _call(function))
            own = Fill()
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

    @uses_file
    def _refusing(self) -> bool:
        """Report whether a put into any slot would be refused."""
        self._check(0)
        return self._frozen() or time.monotonic() < self._no_space_until

    def _put_filled(self, i: int, data: bytes) -> bytes:
        """Put data and return the entry, which is another caller's if that was put first."""
        try:
            if not self.put(i, data):
                entry = self.get(i)
                if entry is not None:
                    return entry
        except Closed:
            pass
        return data

    def _fill(self, i: int, function: Callable[[], Buffer], fill: Fill) -> bytes:
        """Fill slot i for all waiting threads, once no other process does."""
        at = LOCK_FILL + i
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

    @uses_file
    def _lock_slot(self, at: int) -> bool:
        self._check(0)
        return lock(self._lock_fd, at, EXCLUSIVE)

    @uses_file
    def _unlock_slot(self, unlock: bytes) -> None:
        if self._lock_fd >= 0:
            fcntl.fcntl(self._lock_fd, SETLK, unlock)


def _call(function: Callable[[], Buffer]) -> bytes:
    """Call a function that fills a slot."""
    filling.yes = True
    try:
        data = function()
        if type(data) is bytes:
            return data
        try:
            return bytes(memoryview(data))  # bytes(5) is b"\0\0\0\0\0"
        except TypeError:
            raise TypeError("the function that fills the slot returned "
                            f"{type(data).__name__}, expected bytes, or another object that has a "
                            "buffer") from None
    finally:
        filling.yes = False
