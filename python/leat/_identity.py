"""How other processes find a function, and a digest that identifies it."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import marshal
import os
import pickle
import sys
import sysconfig
import types
from typing import Any, Callable, Optional

from .errors import JobError

_MAX_DEPTH = 60

PROGRAM_MODULES = ("__main__", "__mp_main__")
"""Names of the module of the program itself; the second in spawned processes of multiprocessing."""


def by_name(function: Callable[..., Any]) -> Optional[str]:
    """Return MODULE:NAME or FILE:NAME, by which other processes find a function, or None."""
    module_name = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    module = sys.modules.get(module_name or "")
    if module is None or not name or "<" in name or _resolve(module, name) != function:
        return None
    spec = getattr(module, "__spec__", None)
    if module_name in PROGRAM_MODULES:
        if spec is not None and spec.name not in PROGRAM_MODULES:  # python -m
            return f"{spec.name}:{name}"
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py") or not os.path.isfile(file):
            return None
        return f"{os.path.abspath(file)}:{name}"
    origin = getattr(spec, "origin", None)
    if not origin or not origin.endswith(".py") or not os.path.isfile(origin):
        return None
    return f"{module_name}:{name}"


def in_main(function: Any) -> bool:
    """Return whether a function is one of the program itself."""
    return getattr(function, "__module__", None) in PROGRAM_MODULES


def search_path() -> list[str]:
    """Return the directories in which this program finds modules, without those of Python itself.

    Workers search them too, in the same order: a module of the same name elsewhere is another one.
    """
    own = set(sysconfig.get_paths().values())
    names = {"site-packages", "dist-packages", "lib-dynload",
             f"python{sys.version_info[0]}{sys.version_info[1]}.zip"}
    found = [os.path.abspath(p) for p in sys.path if isinstance(p, str)]
    return [p for p in found if p not in own and os.path.basename(p) not in names]


def _resolve(module: types.ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def source_by_value(function: Callable[..., Any]) -> str:
    """Return the text of a Python file that has the function, as cloudpickle writes it."""
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        raise JobError(
            f"function {describe(function)}: other processes can't import it, and cloudpickle, "
            "which would send it to them, is not installed; workers=0 runs it in this process"
        ) from None
    try:
        data = cloudpickle.dumps(function)
    except Exception as e:
        raise JobError(f"function {describe(function)}: cloudpickle can't send it to other "
                       f"processes: {e}; workers=0 runs it in this process") from e
    text = base64.b64encode(data).decode()
    return ('"""A function that leat.apply sends to its workers."""\n\nimport base64\nimport pickle'
            f'\n\nfunction = pickle.loads(base64.b64decode("{text}"))\n')


def describe(function: Any) -> str:
    """Return the name of a function for messages."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name)


def digest(*values: Any) -> str:
    """Return a digest of functions and values, which changes when they do.

    It covers code, defaults, what closures hold, the globals that the code names, and of classes
    bases, methods and attributes.
    JobError is raised for a value that can't be compared.
    """
    d = _Digest()
    try:
        for value in values:
            d.add(value, 0)
    except RecursionError:
        raise JobError("resume: the function refers to values that are nested too deeply") from None
    return d.sum.hexdigest()


class _Digest:
    def __init__(self) -> None:
        self.sum = hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []

    def text(self, kind: str, text: Any) -> None:
        data = text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogatepass")
        self.sum.update(f"{kind}:{len(data)}:".encode() + data)

    def add(self, value: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise JobError("resume: the function refers to values that are nested too deeply")
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.text(type(value).__name__, repr(value))
            return
        if id(value) in self.seen:
            self.text("seen", self.seen[id(value)])
            return
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)  # so that no other value gets its id
        depth += 1
        if isinstance(value, types.ModuleType):
            self.text("module", value.__name__)
        elif isinstance(value, functools.partial):
            self.text("partial", "")
            for part in (value.func, value.args, value.keywords):
                self.add(part, depth)
        elif isinstance(value, types.MethodType):
            self.text("method", value.__func__.__qualname__)
            self.add(value.__func__, depth)
            self.add(value.__self__, depth)
        elif isinstance(value, types.FunctionType):
            self.function(value, depth)
        elif isinstance(value, types.CodeType):
            self.code(value, depth)
        elif isinstance(value, types.BuiltinFunctionType):
            self.text("builtin", f"{value.__module__}.{value.__qualname__}")
        elif isinstance(value, type):
            self.klass(value, depth)
        elif isinstance(value, (staticmethod, classmethod)):
            self.text(type(value).__name__, "")
            self.add(value.__func__, depth)
        elif isinstance(value, property):
            self.text("property", "")
            for part in (value.fget, value.fset, value.fdel):
                self.add(part, depth)
        elif isinstance(value, (tuple, list)):
            self.text(type(value).__name__, len(value))
            if len(value) > _MANY and _PLAIN.issuperset(map(type, value)):
                self.text("plain", marshal.dumps(list(value), 2))  # without references
                return
            for one in value:
                self.add(one, depth)
        elif isinstance(value, (set, frozenset)):
            self.text("set", len(value))
            for one in sorted(digest(one) for one in value):
                self.text("one", one)
        elif isinstance(value, dict):
            self.text("dict", len(value))
            if len(value) > _MANY and _PLAIN.issuperset(map(type, (*value, *value.values()))):
                self.text("plain", marshal.dumps([*value.items()], 2))
                return
            for key, one in value.items():
                self.add(key, depth)
                self.add(one, depth)
        elif isinstance(value, functools.cached_property):
            self.text("property", "")
            self.reference(value.func, depth)
        elif isinstance(value, _CACHED):
            self.text("cached", "")
            self.reference(value.__wrapped__, depth)
        else:
            self.klass(type(value), depth)
            self.state(value, depth)

    def reference(self, value: Any, depth: int) -> None:
        """Add a value; of what belongs to an installed package the name."""
        if _installed(value):
            self.text("installed", f"{value.__module__}.{value.__qualname__}")
        else:
            self.add(value, depth)

    def state(self, value: Any, depth: int) -> None:
        """Add what an object holds, in the parts of which a pickle of it consists."""
        try:
            if _installed(type(value)):
                self.text("pickle", pickle.dumps(value, 4))
                return
            parts = value.__reduce_ex__(4)
        except Exception as e:
            raise JobError(
                f"resume: the function refers to a {type(value).__qualname__}, which can't be "
                f"compared with that of the earlier run: {e}") from e
        if isinstance(parts, str):
            self.text("name", parts)
            return
        for k, part in enumerate(parts):
            # Those from the fourth on are iterators.
            self.reference(part if k < 3 or part is None else list(part), depth)

    def function(self, f: types.FunctionType, depth: int) -> None:
        self.text("function", f.__qualname__)
        self.code(f.__code__, depth)
        self.add(f.__defaults__, depth)
        self.add(f.__kwdefaults__, depth)
        for cell in f.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # it is set later
                self.text("cell", "empty")
                continue
            self.add(value, depth)
        for name in sorted(_names(f.__code__)):
            if name in f.__globals__:
                self.text("global", name)
                self.reference(f.__globals__[name], depth)

    def code(self, code: types.CodeType, depth: int) -> None:
        self.text("code", code.co_code)
        for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
            self.text("names", " ".join(names))
        for constant in code.co_consts:
            self.add(constant, depth)

    def klass(self, value: type, depth: int) -> None:
        """Add a class: its bases, methods and attributes if it is the user's."""
        self.text("class", f"{value.__module__}.{value.__qualname__}")
        if _installed(value):
            return
        for base in value.__bases__:
            self.reference(base, depth)
        for name, member in sorted(vars(value).items()):
            if name not in _NOT_COMPARED and not isinstance(member, _BUILT_IN):
                self.text("member", name)
                self.reference(member, depth)


_CACHED: Any = type(functools.lru_cache(len))

_MANY = 1000
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))

_NOT_COMPARED = frozenset((
    "__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__annotate_func__",
    "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
    "_abc_impl", "__dataclass_fields__", "__dataclass_params__"))
"""Attributes of classes that do not change what methods do, or follow from other attributes."""

_BUILT_IN = (types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType,
             types.WrapperDescriptorType)


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _installed(value: Any) -> bool:
    """Return whether a function or class belongs to an installed package, not to the user."""
    if not isinstance(value, (types.FunctionType, type)) or value.__module__ in PROGRAM_MODULES:
        return False
    if value.__module__ in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file or file.startswith(_library())


@functools.lru_cache(maxsize=None)
def _library() -> tuple[str, ...]:
    """Return the directories of Python's own modules."""
    return tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
