"""A cache with the interface of pfio's MultiprocessFileCache: change one import.

    from leat.pfio import MultiprocessFileCache

docs/python/pfio.md lists the differences.
"""

from __future__ import annotations

import numbers
import os
import pickle
import shutil
import warnings
from types import TracebackType
from typing import Any, Callable, Optional, Union

from . import _cache_file as files
from ._cache import Cache
from ._cache_fill import filling
from ._cache_format import MAX_OFFSET, MAX_SLOTS, REFUSED_NO_SPACE, STORED
from ._pfio_file import ENTRY, PfioFile, write

__all__ = ["MultiprocessFileCache"]


class MultiprocessFileCache:
    """MultiprocessFileCache keeps length entries in one file, for all processes of a machine.

    >>> from leat.pfio import MultiprocessFileCache
    >>> with MultiprocessFileCache(10, do_pickle=True) as cache:
    ...     cache.get_and_cache(3, lambda i: {"sample": i})
    ...     cache.get(3)
    {'sample': 3}
    {'sample': 3}

    With do_pickle, entries are any objects that can be pickled; else they are bytes. dir is the
    directory of the file, by default pfio in the user's cache directory; it must be local.
    cache_size_limit is the maximum size in bytes of pfio's file with these entries: 16 for each
    slot, and the data; None and 0 mean no limit. verbose prints why preload and preserve did
    nothing. trace has no effect.

    A pickle of it leads to the same cache, while the process that made the pickle has it open. The
    last process that has the cache open removes the file.
    """

    def __init__(self, length: int, do_pickle: bool = False, dir: Optional[str] = None,
                 cache_size_limit: Union[None, int, float] = None, verbose: bool = False,
                 trace: bool = False) -> None:
        if not hasattr(length, "__index__"):
            raise TypeError(f"length: got {type(length).__name__}, expected a whole number")
        if not 0 < length <= MAX_SLOTS:
            raise ValueError(f"length {length}: expected 1 to {MAX_SLOTS}")
        if cache_size_limit is not None and not (isinstance(cache_size_limit, numbers.Real)
                                                 and cache_size_limit >= 0):
            raise ValueError(f"cache_size_limit {cache_size_limit!r}: expected None or bytes")
        self.length = length
        self.do_pickle = do_pickle
        self.cache_size_limit = cache_size_limit
        self.verbose = verbose
        self.trace = trace
        self.dir = _default_directory() if dir is None else dir
        self.closed = False
        self._master_pid = os.getpid()
        self._file: Optional[PfioFile] = None  # after preload
        self._cache = Cache.__new__(Cache)
        self._cache._closed = True
        self._cache._create(files.use_directory(self.dir), length, 0, "first", True)
        self._path = self._cache._hidden
        self._set_limit()
        if verbose:
            print("created cache file:", self._path)

    def _set_limit(self) -> None:
        if self.cache_size_limit:
            most = int(min(self.cache_size_limit, MAX_OFFSET))
            self._cache._data_limit = most - ENTRY * self.length

    def _attached(self) -> Cache:
        """Return the cache, which a worker that called close() opens again."""
        if self._cache.closed:
            self._cache = Cache._existing(self._path, hidden=True)
            self._set_limit()
        return self._cache

    def __len__(self) -> int:
        return self.length

    @property
    def multiprocess_safe(self) -> bool:
        """Whether processes may use it at the same time: True."""
        return True

    @property
    def multithread_safe(self) -> bool:
        """Whether threads may use it at the same time: True."""
        return True

    def _check(self, i: int) -> None:
        if not 0 <= i < self.length:
            raise IndexError(f"index {i} out of range ([0, {self.length - 1}])")

    def get(self, i: int) -> Any:
        """Return entry i, or None if there is none or the cache is closed."""
        if self.closed:
            return None
        self._check(i)
        data = self._attached().get(i) if self._file is None else self._file.get(i)
        if self.do_pickle and data:
            return pickle.loads(data)
        return data

    def put(self, i: int, data: Any) -> bool:
        """Store an entry and report whether it did; a filled slot keeps its entry."""
        if self.closed or self._file is not None:
            return False
        self._check(i)
        cache = self._attached()
        view = memoryview(pickle.dumps(data) if self.do_pickle else data)
        result = cache._put(i, [view.cast("B")] if view.nbytes else [])
        if result == REFUSED_NO_SPACE:
            warnings.warn("No space left on device", RuntimeWarning, stacklevel=2)
        return result == STORED

    def get_and_cache(self, i: int, backend_get: Callable[[int], Any]) -> Any:
        """Return entry i; if there is none, store what backend_get(i) returns first.

        Of all threads and processes that miss it at the same time, one calls its function.
        """
        data = self.get(i)
        if data is not None:
            return data
        if self.closed or self._file is not None or getattr(filling, "yes", False):
            data = backend_get(i)
            self.put(i, data)
            return data
        own: list[Any] = []

        def fill() -> Any:
            own.append(backend_get(i))
            return pickle.dumps(own[0]) if self.do_pickle else own[0]

        data = self._attached().get_or_fill(i, fill)
        if own:
            return own[0]
        return pickle.loads(data) if self.do_pickle and data else data

    def preload(self, name: str) -> bool:
        """Read from the file that preserve(name) made in dir; report whether it did.

        It does nothing and returns False if there is no such file, or the cache is frozen. The
        error is RuntimeError in a process that did not create the cache, and leat.Damaged for a
        file of another length.
        """
        if self._file is not None or self._attached().frozen:
            return self._nothing(f"Failed to preload the cache from {name}: it is frozen")
        if self._master_pid != os.getpid():
            raise RuntimeError("Cannot preload a cache in a worker process")
        path = os.path.join(self.dir, name)
        if not os.path.exists(path):
            return self._nothing(f"Failed to preload the cache: no {name} in {self.dir}")
        self._file = PfioFile(os.path.abspath(path), self.length)
        self._cache.close()
        return True

    def preserve(self, name: str, overwrite: bool = False) -> bool:
        """Freeze the cache, and write its entries to the file name in dir; report whether it did.

        pfio reads the file too. It does nothing and returns False if the name exists and overwrite
        is not true. The error is RuntimeError in a process that did not create the cache.
        """
        if self._master_pid != os.getpid():
            raise RuntimeError("Cannot preserve a cache in a worker process")
        path = os.path.join(self.dir, name)
        if os.path.lexists(path) and not overwrite:
            return self._nothing(f'Specified cache named "{name}" already exists in {self.dir}')
        if self._file is not None:
            _copy(self._file.path, path, overwrite)
            return True
        cache = self._attached()
        cache.freeze()
        write(cache, self.length, path, overwrite)
        return True

    def _nothing(self, why: str) -> bool:
        if self.verbose:
            print(why)
        return False

    def close(self) -> None:
        """Close the cache. In a process that did not create it, the next call opens it again."""
        self._cache.close()
        if self._master_pid == os.getpid():
            self.closed = True

    def __enter__(self) -> MultiprocessFileCache:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._cache.closed:
            del state["_cache"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_cache" not in state:
            self._cache = Cache.__new__(Cache)
            self._cache._closed = True
        else:
            self._set_limit()


def _default_directory() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "pfio")


def _copy(source: str, path: str, overwrite: bool) -> None:
    """Give a preserved file another name."""
    if os.path.lexists(path) and os.path.samefile(source, path):
        return
    temp = os.path.join(os.path.dirname(path) or ".", files.temp_name(os.path.basename(path)))
    try:
        os.link(source, temp)
    except OSError:
        shutil.copyfile(source, temp)
    try:
        if overwrite:
            os.replace(temp, path)
        else:
            os.link(temp, path)
    finally:
        if os.path.lexists(temp):
            os.unlink(temp)
