"""What all blocks of a connection have in common."""

from __future__ import annotations

import math
import struct
import types
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import numpy as np

from ._memory import OutputMemory

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]  # not before NumPy 1.22


class File:
    """File is a file of an input."""

    def __init__(self, d: dict[str, Any]) -> None:
        self.path: str = d["path"]
        self.bands: list[int] = d["bands"]
        self.dtype: np.dtype[Any] = np.dtype(d["type"])
        part = {"complex64": "float32", "complex128": "float64"}.get(d["type"], d["type"])
        parse: Callable[[str], Any] = int if self.dtype.kind in "iu" else float
        scalar = np.dtype(part).type
        self.nodata: list[Any] = [None if text is None else scalar(parse(text))
                                  for text in d["nodata"]]
        self.mask_planes: int = d.get("mask_planes", 0)
        self.mask: Optional[list[int]] = d.get("mask")
        # What the function sees: real values if the job asks for them, else the pixels as they are.
        self.scaling: Optional[list[tuple[float, float]]] = None
        self.seen_dtype, self.seen_nodata = self.dtype, self.nodata
        if d.get("unscale"):
            self.scaling = [(float(s), float(o)) for s, o in zip(d["scale"], d["offset"])]
            if self.dtype.kind != "c":
                narrow = self.dtype.itemsize <= 2 or self.dtype == np.float32
                self.seen_dtype = np.dtype("f4" if narrow else "f8")
            nan = self.seen_dtype.type("nan").real
            self.seen_nodata = [None if v is None else nan for v in self.nodata]

    def unscale(self, pixels: Array, valid: Array, scaling: list[tuple[float, float]]) -> Array:
        """Return pixels * scale + offset, NaN where a pixel is not valid.

        It is computed in float64 and rounded once, as expressions do.
        """
        out: Array = np.empty(pixels.shape, self.seen_dtype)
        wide: Any = np.complex128 if self.dtype.kind == "c" else np.float64
        with np.errstate(over="ignore", invalid="ignore"):
            for to, band, (scale, offset) in zip(out, pixels, scaling):
                values = np.multiply(band, scale, dtype=wide)
                values += offset
                to[...] = values
        out[~valid] = math.nan
        return out

    def valid(self, pixels: Array, mask: Optional[Array]) -> Array:
        """Return which pixels are valid; mask is an array of planes."""
        valid: Array
        if self.dtype.kind in "fc":
            valid = pixels == pixels
        else:
            valid = np.ones(pixels.shape, bool)
        for i, nodata in enumerate(self.nodata):
            if nodata is not None and nodata == nodata:
                valid[i] &= (pixels[i].real if self.dtype.kind == "c" else pixels[i]) != nodata
            if mask is not None and self.mask is not None:
                valid[i] &= mask[self.mask[i]] != 0
        return valid


class Input:
    """Input is a file, or a list of files."""

    def __init__(self, d: dict[str, Any], first: int) -> None:
        self.name: str = d["name"]
        self.list: bool = d["list"]
        self.files = [File(f) for f in d["files"]]
        #: Number of its first file among the files of all inputs.
        self.first = first


class Output:
    """Output is an output as the job declares it."""

    def __init__(self, d: dict[str, Any]) -> None:
        self.name: str = d["name"]
        self.type: str = d["type"]
        self.bands: int = d["bands"]
        text: Optional[str] = d["nodata"]
        self.nodata: Union[int, float, None]
        try:
            self.nodata = None if text is None else int(text)
        except ValueError:
            self.nodata = float(str(text))


class FunctionRun:
    """FunctionRun holds what leat sends about a run before its first block."""

    def __init__(self, setup: dict[str, Any], memory: OutputMemory,
                 encode_value: Callable[[Any], Any]) -> None:
        self.inputs: list[Input] = []
        files = 0
        for i in setup["inputs"]:
            self.inputs.append(Input(i, files))
            files += len(i["files"])
        #: Offset of the pixels and of the mask of each file.
        self.places = struct.Struct(f"<{2 * files}q")
        self.outputs = [Output(o) for o in setup["outputs"]]
        self.input_index = {i.name: n for n, i in enumerate(self.inputs)}
        self.output_index = {o.name: n for n, o in enumerate(self.outputs)}
        self.count: int = setup["blocks"]["count"]
        self.overlap: int = setup["overlap"]
        grid = setup["grid"]
        self.transform: Optional[tuple[float, ...]] = (tuple(grid["transform"])
                                                       if grid["transform"] else None)
        self.width: int = grid["width"]
        self.height: int = grid["height"]
        self.crs: str = grid["crs"]
        self.worker: int = setup["worker"]
        self.workers: int = setup["workers"]
        self.slot: int = setup["slot"]
        self.params: Any = setup["params"]
        self.emits: bool = setup["emits"]
        self.state: Any = types.SimpleNamespace()
        self.memory, self.encode_value = memory, encode_value
