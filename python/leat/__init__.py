"""leat for Python: functions over rasters, and caches that processes share.

Names load their modules on first use, so that "import leat" is quick and does not import NumPy.

>>> import leat
>>> issubclass(leat.Closed, leat.Error)
True
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._apply import apply, demo, open
    from ._block import Block as Block  # not in __all__
    from ._cache import Cache
    from ._cache_stats import CacheStats
    from ._result import Raster, Result
    from .errors import (BlockError, Claimed, Closed, Damaged, Error, JobError, NoBinary, NoSpace,
                         VersionMismatch)

    __version__: str

# The module of each public name. __all__ has all but Block, which needs NumPy.
_modules = {
    "apply": "_apply",
    "Block": "_block",
    "BlockError": "errors",
    "Cache": "_cache",
    "CacheStats": "_cache_stats",
    "Claimed": "errors",
    "Closed": "errors",
    "Damaged": "errors",
    "demo": "_apply",
    "Error": "errors",
    "JobError": "errors",
    "NoBinary": "errors",
    "NoSpace": "errors",
    "open": "_apply",
    "Raster": "_result",
    "Result": "_result",
    "VersionMismatch": "errors",
}

__all__ = [
    "BlockError", "Cache", "CacheStats", "Claimed", "Closed", "Damaged", "Error", "JobError",
    "NoBinary", "NoSpace", "Raster", "Result", "VersionMismatch", "apply", "demo", "open",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from ._binary import version
        value: object = version()
    elif name in _modules:
        from importlib import import_module
        try:
            value = getattr(import_module("." + _modules[name], __name__), name)
        except ModuleNotFoundError as e:
            if e.name != "numpy":
                raise
            raise AttributeError(f"leat.{name} needs NumPy, which is missing") from e
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules, "__version__"})
