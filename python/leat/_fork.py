"""Hooks that run when a process with caches forks."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forks(Protocol):
    """Forks has methods that run around each fork."""

    def _before_fork(self) -> None: ...

    def _after_fork(self, child: bool) -> None: ...


_all: weakref.WeakSet[Forks] = weakref.WeakSet()
_mutex = threading.Lock()
_forking: list[Forks] = []


def register(cache: Forks) -> None:
    """Call the methods of an object around each fork, while it lives."""
    with _mutex:
        _all.add(cache)


def _before() -> None:
    _mutex.acquire()
    for cache in list(_all):
        cache._before_fork()
        _forking.append(cache)


def _after(child: bool) -> None:
    try:
        # An exception from a signal handler ends _before, but not the fork: the child must not use
        # the parent's locks even so.
        caches = list(_all) if child else _forking[::-1]
        _forking.clear()
        for cache in caches:
            cache._after_fork(child)
    finally:
        _mutex.release()


os.register_at_fork(before=_before, after_in_parent=lambda: _after(False),
                    after_in_child=lambda: _after(True))
