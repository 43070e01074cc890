"""Loads the function that leat names."""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import types
from typing import Any, Callable, Optional

from ._messages import Failure

LOADING = "LEAT_LOADING_FUNCTION"
"""The variable that is set while a function is loaded: leat.apply refuses to run then."""

Function = Callable[[Any], object]


def load(wanted: dict[str, Any]) -> tuple[Function, str, str]:
    """Return the function that leat names, and the path and SHA-256 of its source."""
    spec, path = _spec(wanted, _extend_path(wanted))
    source = _source(wanted, path)
    digest = hashlib.sha256(source).hexdigest()
    if wanted.get("sha256") and wanted["sha256"] != digest:
        raise Failure("SourceChanged", f"{path} is not the file with which the run began: it was "
                                       "changed, or differs on this machine")
    module = None if wanted.get("file") else sys.modules.get(spec.name)
    if module is None or getattr(module, "__file__", None) != path:
        module = _run_module(spec, source)
    return _find(module, wanted["name"], path), path, digest


def _source(wanted: dict[str, Any], path: str) -> bytes:
    """Return the source that leat sends, else that of the file."""
    if wanted.get("source"):
        source = base64.b64decode(wanted["source"])
        # Tracebacks have lines of this source, whatever the machine has under the path.
        lines = [line + "\n" for line in importlib.util.decode_source(source).split("\n")]
        linecache.cache[path] = len(source), None, lines, path
        return source
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError as e:
        raise Failure(type(e).__name__, f"{path}: {e.strerror}") from None


def _extend_path(wanted: dict[str, Any]) -> list[str]:
    """Set where modules are found first, and return these directories."""
    directory = wanted.get("directory", "")
    first = [directory] if directory else []
    caller = wanted.get("path")
    if caller:
        first = (first if wanted.get("file") else []) + list(caller)
    sys.path[:] = first + [p for p in sys.path if p not in first]
    return first


def _spec(wanted: dict[str, Any],
          first: list[str]) -> tuple[importlib.machinery.ModuleSpec, str]:
    """Return the spec of the module, which is found in these directories first, and the path of
    its source."""
    if wanted.get("file"):
        path: str = wanted["file"]
        name = os.path.splitext(os.path.basename(path))[0]
        if name in sys.modules:
            name = "leat_function_" + name
        return _source_spec(name, path, None), path
    name = wanted["module"]
    found = importlib.util.find_spec(name)
    if found is None:
        raise Failure("ModuleNotFoundError",
                      f"there is no module {name} in {', '.join(first)} or {sys.executable}")
    origin = found.origin
    if not origin or not os.path.isfile(origin):
        raise Failure("ImportError", f"the module {name} has no file of its own")
    if not origin.endswith(".py"):
        raise Failure("ImportError", f"the module {name} is {origin}, expected a .py file")
    return _source_spec(name, origin, found.submodule_search_locations), origin


def _source_spec(name: str, path: str,
                 locations: Optional[list[str]]) -> importlib.machinery.ModuleSpec:
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_Loader(name, path), submodule_search_locations=locations)
    assert spec is not None
    return spec


def _run_module(spec: importlib.machinery.ModuleSpec, source: bytes) -> types.ModuleType:
    loader = spec.loader
    assert isinstance(loader, _Loader)
    loader.source = source
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    os.environ[LOADING] = "1"
    try:
        loader.exec_module(module)
    finally:
        del os.environ[LOADING]
    return module


def _find(module: types.ModuleType, name: str, path: str) -> Function:
    """Return the function of a dotted name in a module."""
    function: Any = module
    done: list[str] = []
    for part in name.split("."):
        try:
            function = getattr(function, part)
        except AttributeError:
            names = sorted(n for n in dir(function) if not n.startswith("_")
                           and callable(getattr(function, n, None)))
            has = "; it has " + ", ".join(names[:20]) if names else ""
            raise Failure("AttributeError",
                          f"{'.'.join([path, *done])} has no function {part}{has}") from None
        done.append(part)
    if not callable(function):
        raise Failure("TypeError", f"{name} in {path} is a {type(function).__name__}, expected a "
                                   "function of one argument")
    check_function(function, f"{name} in {path}")
    found: Function = function
    return found


def closes(function: object) -> bool:
    """Return whether a function is a class whose instances have a method close."""
    return isinstance(function, type) and callable(getattr(function, "close", None))


def check_function(function: object, name: str) -> None:
    """Raise a TypeError if a function is a class whose instances can't be called, or if a call
    would only make a coroutine or a generator."""
    if isinstance(function, type) and not any("__call__" in c.__dict__ for c in function.__mro__):
        raise TypeError(f"{name} is a class without a method __call__(self, block)")
    called: Any = function
    if isinstance(function, type) or not hasattr(function, "__code__"):
        called = getattr(function, "__call__", None)  # noqa: B004
    flags = getattr(getattr(called, "__code__", None), "co_flags", 0)
    for flag, kind in _UNSUITED.items():
        if flags & flag:
            raise TypeError(f"{name} is {kind}, expected an ordinary function")


_UNSUITED = {
    0x20: "a generator function, with yield",
    0x80: "a coroutine function, with async def",
    0x200: "an asynchronous generator function, with async def and yield",
}
"""Kinds of functions whose body does not run when they are called, by inspect's CO_ flags."""


def check_returned(value: object) -> None:
    """Raise a TypeError if a call only made a coroutine or a generator: a wrapper may hide that."""
    if isinstance(value, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        if not isinstance(value, types.AsyncGeneratorType):
            value.close()  # no warning that it was never awaited
        raise TypeError(f"the function returned a {type(value).__name__}, whose body has not run; "
                        "expected an ordinary function, without yield and async")


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs the source whose SHA-256 was computed, and leaves no compiled file."""

    source = b""

    def get_code(self, fullname: str) -> types.CodeType:
        code: types.CodeType = compile(self.source, self.path, "exec", dont_inherit=True)
        return code
