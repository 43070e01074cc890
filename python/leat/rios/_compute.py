"""Calls a function of RIOS for each window of a block of leat, in any process."""

from __future__ import annotations

import base64
import copy
import dataclasses
import math
import pickle
import sys
import threading
from typing import Any, Callable, Optional

import numpy as np

from .pixelgrid import PixelGridDefn
from .readerinfo import ReaderInfo
from .rioserrors import ArrayShapeError, MismatchedListLengthsError, ParameterError
from .structures import (ApplierBlockDefn, BlockAssociations, FilenameAssociations, Timers,
                         cloudpickle, file_text)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the array of a file is in a block of leat: an input, and the index if it is a list."""

    name: str
    number: Optional[int]
    input: str
    index: Optional[int]
    file: str
    nodata: Optional[list[Any]]
    """Values by band, instead of what leat knows about the file."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the windows of a run have in common. It can be pickled."""

    sources: list[Source]
    outputs: dict[tuple[str, Optional[int]], str]
    """Names of leat's outputs by name and number."""
    infiles: FilenameAssociations
    outfiles: FilenameAssociations
    grid: PixelGridDefn
    window: tuple[int, int]
    """Columns and rows of a window; blocks of leat hold whole windows."""
    overlap: int


class Caller:
    """Calls the function in this process: the function of leat.apply.

    If copies is set, each worker of leat gets its own copy of the other arguments.
    """

    def __init__(self, layout: Layout, function: Callable[..., Any], other: Any,
                 loggingstream: Any, copies: bool) -> None:
        self.layout, self.function, self.other = layout, function, other
        self.loggingstream, self.copies = loggingstream, copies
        self.timings = Timers()
        self.others: list[Any] = []
        self._lock = threading.Lock()

    def __call__(self, b: Any) -> None:
        other = self.other
        if self.copies:
            if not hasattr(b.state, "other"):
                with self._lock:
                    b.state.other = copy.copy(self.other)
                    self.others.append(b.state.other)
            other = b.state.other
        self.compute(b, other)

    def compute(self, b: Any, other: Any) -> None:
        """Compute the windows of a block, in the order of rows."""
        layout = self.layout
        rows, columns = layout.grid.getDimensions()
        if (b._run.height, b._run.width) != (rows, columns):
            raise ParameterError(f"leat has a grid of {b._run.width} x {b._run.height} pixels, "
                                 f"expected {columns} x {rows}")
        width, height = layout.window
        info = ReaderInfo(layout.grid, width, height, layout.overlap, self.loggingstream)
        whole = b.window.width <= width and b.window.height <= height
        for top in range(0, b.window.height, height):
            for left in range(0, b.window.width, width):
                window = ApplierBlockDefn(b.window.row + top, b.window.column + left,
                                          min(height, b.window.height - top),
                                          min(width, b.window.width - left))
                self.compute_window(b, info, window, whole, other)

    def compute_window(self, b: Any, info: ReaderInfo, window: ApplierBlockDefn, whole: bool,
                       other: Any) -> None:
        """Call the function for a window, and set its outputs."""
        layout, margin = self.layout, self.layout.overlap
        top, left = window.top - b.window.row, window.left - b.window.column
        part = (slice(None), slice(top, top + window.nrows + 2 * margin),
                slice(left, left + window.ncols + 2 * margin))
        inputs, outputs = BlockAssociations(layout.infiles), BlockAssociations(layout.outfiles)
        files = []
        for source in layout.sources:
            i = b._run.input_index[source.input]
            file = b._run.inputs[i].files[source.index or 0]
            # A copy, which the function may keep for later blocks.
            pixels = b[source.input]
            if source.index is not None:
                pixels = pixels[source.index]
            array = np.array(pixels[part], order="C")
            inputs[source.name, source.number] = array
            nodata = file.nodata if source.nodata is None else [
                array.dtype.type(v) for v in source.nodata]
            files.append((array, source.file, nodata))
        info._enter(window, files)
        with self.timings.interval("userfunction"):
            if other is None:
                self.function(info, inputs, outputs)
            else:
                self.function(info, inputs, outputs, other)
        for name, value in vars(layout.outfiles).items():
            if isinstance(value, (list, tuple)):
                made = getattr(outputs, name)
                if not isinstance(made, (list, tuple)) or len(made) != len(value):
                    raise MismatchedListLengthsError(
                        f"outputs.{name}: got {_count(made)}, expected a list of {len(value)} "
                        "arrays, one for each file")
                for number, array in enumerate(made):
                    self.set(b, name, number, array, window, whole)
            else:
                self.set(b, name, None, getattr(outputs, name), window, whole)

    def set(self, b: Any, name: str, number: Optional[int], array: Any, window: ApplierBlockDefn,
            whole: bool) -> None:
        """Write an array of a window to its output."""
        margin = self.layout.overlap
        what = f"outputs.{name}" + ("" if number is None else f"[{number}]")
        if array is None:
            raise KeyError(f"{what}: the function did not set it")
        array = np.asarray(array)
        shape = (window.nrows + 2 * margin, window.ncols + 2 * margin)
        if array.ndim != 3 or array.shape[1:] != shape or array.shape[0] < 1:
            raise ArrayShapeError(f"{what} has the shape {array.shape}, expected (bands, rows, "
                                  f"columns) = (bands, {shape[0]}, {shape[1]})")
        out = self.layout.outputs[name, number]
        target = b._outputs.get(out)
        if target is None:
            target = b.new(out, array.dtype, array.shape[0])
        dtype = "uint8" if array.dtype.kind == "b" else array.dtype.newbyteorder("=").name
        if (dtype, array.shape[0]) != (target.dtype.name, target.shape[0]):
            raise TypeError(f"{what} has {array.shape[0]} bands of {dtype}, and another block has "
                            f"{target.shape[0]} of {target.dtype.name}")
        if whole:
            np.copyto(target, array)
            return
        top, left = window.top - b.window.row + margin, window.left - b.window.column + margin
        inner = slice(margin, margin + window.nrows), slice(margin, margin + window.ncols)
        target[:, top:top + window.nrows, left:left + window.ncols] = array[(slice(None), *inner)]


def _count(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{len(value)} arrays"
    return type(value).__name__


# In other processes.


def send(layout: Layout, function: Callable[..., Any], other: Any) -> dict[str, str]:
    """Return what compute_remote needs as parameters of leat.apply."""
    from .. import _identity
    pickler = pickle if cloudpickle is None else cloudpickle
    params = {}
    if pickler is pickle:
        name = _identity.by_name(function)
        if name is None:
            raise ParameterError(
                f"the function {_identity.describe(function)} can't be sent to other processes: "
                "expected a function of a module or of the program, or cloudpickle to be installed")
        params["function"] = name
        function = None  # type: ignore[assignment]
    try:
        data = pickler.dumps((layout, function, other))
    except Exception as e:
        raise ParameterError(f"the function's arguments can't be sent to other processes: {e}"
                             ) from e
    params["pickle"] = base64.b64encode(data).decode()
    return params


def compute_remote(b: Any) -> None:
    """Compute a block in a process of leat, and emit the other arguments if they have changed."""
    state = b.state
    if not hasattr(state, "caller"):
        layout, function, other = pickle.loads(base64.b64decode(b.params["pickle"]))
        if function is None:
            function = _load(b.params["function"])
        state.caller = Caller(layout, function, other, sys.stdout, False)
        state.sent, state.count = _dumps(other), 0
        state.name = f"{b._run.worker}.{b._run.slot}"
    caller = state.caller
    caller.timings = Timers()
    caller.compute(b, caller.other)
    message = {"worker": state.name, "count": state.count,
               "intervals": caller.timings.pairs.get("userfunction", [])}
    state.count += 1
    if caller.other is not None:
        data = _dumps(caller.other)
        if data != state.sent:
            message["other"] = base64.b64encode(data).decode()
            state.sent = data
    b.emit(message)


def _dumps(value: Any) -> bytes:
    if value is None:
        return b""
    pickler = pickle if cloudpickle is None else cloudpickle  # as send: classes of the program
    data: bytes = pickler.dumps(value)
    return data


def _load(name: str) -> Any:
    from .. import _function
    server: Any = _function
    place, _, function = name.rpartition(":")
    wanted = {"file": place} if place.endswith(".py") else {"module": place}
    return server.load({**wanted, "name": function})[0]


class Collector:
    """Merges what compute_remote emits: the other arguments of each worker, and timings."""

    def __init__(self, timings: Timers) -> None:
        self.timings = timings
        self.counts: dict[str, int] = {}
        self.data: dict[str, Optional[str]] = {}

    def __call__(self, first: Any, message: Any) -> Any:
        if first is not self:
            self.add(first)
        self.add(message)
        return self

    def add(self, message: Any) -> None:
        """Add what a block emitted."""
        worker, count = message["worker"], message["count"]
        for start, end in message["intervals"]:
            self.timings._add("userfunction", start, end)
        self.counts.setdefault(worker, -1)
        self.data.setdefault(worker, None)
        if "other" in message and count > self.counts[worker]:
            self.counts[worker], self.data[worker] = count, message["other"]

    def others(self, other: Any) -> list[Any]:
        """Return the other arguments of each worker."""
        return [copy.deepcopy(other) if data is None else pickle.loads(base64.b64decode(data))
                for data in self.data.values()]


def blocks_of(window: int, size: int, align: int) -> int:
    """Return the side of leat's blocks: whole windows, and whole units, or the whole size."""
    side = math.lcm(window, align)
    return min(side, -(-size // window) * window)


def names_of(files: FilenameAssociations) -> list[tuple[str, Optional[int], str]]:
    """Return name, number and path of each file."""
    return [(name, number, file_text(path, name + ("" if number is None else f"[{number}]")))
            for name, number, path in files]
