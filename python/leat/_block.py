"""The block that a function computes: class Block."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Union

import numpy as np

from ._convert import PixelError, convert
from ._function_run import FunctionRun, Output
from ._memory import InputMemory
from ._messages import TYPES

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]  # not before NumPy 1.22

__all__ = ["Block", "Window"]

_masked_array: Any = np.ma.array


class Window(NamedTuple):
    """Window is a window of the run's grid."""

    column: int
    """Offset of its first column."""
    row: int
    """Offset of its first row."""
    width: int
    """Number of columns."""
    height: int
    """Number of rows."""


def plural(n: int, noun: str) -> str:
    """Return a number and a noun: 2 bands."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


class Block:
    """One block of a run, as a function sees it.

    Each input is an array of shape (bands, rows, columns), with the margin: ``b.red`` or
    ``b["red"]``. An input that is a list of files is a list of such arrays. Arrays are views of
    shared memory: the function may write to them, and must not keep them for later blocks.

    Assign to a name of an output to set it: ``b.out = array``, of shape (bands, rows, columns), or
    (rows, columns) for one band, with the margin or without. Assignment copies and converts the
    pixels, see ``set``.

    >>> def ndvi(b):
    ...     red, nir = b.red.astype("f4"), b.nir.astype("f4")
    ...     b.out = (nir - red) / (nir + red)
    """

    number: int
    """Number of the block, from 0."""
    window: Window
    """Window of the grid, without the margin."""

    _run: FunctionRun
    _memory: Optional[InputMemory]
    _places: tuple[int, ...]
    _arrays: dict[int, list[Array]]
    _outputs: dict[str, Array]
    _values: list[Any]
    _valid: dict[int, list[Array]]
    _unscaled: dict[int, list[Array]]

    def __init__(self, run: FunctionRun, number: int, window: Sequence[int], memory: InputMemory,
                 places: tuple[int, ...]) -> None:
        d = self.__dict__
        d["_run"], d["_memory"], d["_places"] = run, memory, places
        d["_arrays"], d["_valid"], d["_unscaled"], d["_outputs"], d["_values"] = {}, {}, {}, {}, []
        d["number"], d["window"] = number, Window(*window)

    def __repr__(self) -> str:
        names = ", ".join(
            f"{i.name}={plural(len(i.files), 'file') if i.list else i.files[0].seen_dtype}"
            for i in self._run.inputs)
        w = self.window
        return (f"<Block {self.number} of {self.total}, {w.width} x {w.height} pixels at column "
                f"{w.column}, row {w.row}; {names}>")

    def _end(self) -> None:
        """Make later uses fail: leat uses the memory for other blocks."""
        self._outputs.clear()
        for arrays in (self._arrays, self._valid, self._unscaled):
            arrays.clear()
        self.__dict__["_memory"] = None

    def _live(self) -> InputMemory:
        """Return the memory of the inputs."""
        if self._memory is None:
            raise RuntimeError(f"block {self.number} has ended, and other blocks use its memory: "
                               "copy what you keep of a block")
        return self._memory

    # Inputs and outputs by name.

    def _input(self, name: str) -> int:
        i = self._run.input_index.get(name)
        if i is None:
            raise KeyError(self._no_input(name))
        return i

    def _no_input(self, name: str) -> str:
        return f"there is no input {name!r}; the inputs are {_names(self._run.input_index)}"

    def _pixels(self, i: int) -> list[Array]:
        """Return the arrays of an input, which are made when the function first asks for them."""
        arrays = self._arrays.get(i)
        if arrays is None:
            given, shape, memory = self._run.inputs[i], (self.rows, self.columns), self._live()
            arrays = [np.ndarray((len(f.bands), *shape), f.dtype, memory.map, self._places[2 * n])
                      for n, f in enumerate(given.files, given.first)]
            self._arrays[i] = arrays
        return arrays

    def _seen(self, i: int) -> list[Array]:
        """Return the arrays of an input: pixels, or values if the job applies scale and offset."""
        files = self._run.inputs[i].files
        if all(f.scaling is None for f in files):
            return self._pixels(i)
        if i not in self._unscaled:
            self._unscaled[i] = [
                a if f.scaling is None else f.unscale(a, v, f.scaling)
                for f, a, v in zip(files, self._pixels(i), self._validity(i))]
        return self._unscaled[i]

    def _validity(self, i: int) -> list[Array]:
        """Return which pixels of the files of an input are valid; the caller must not write."""
        if i not in self._valid:
            given = self._run.inputs[i]
            self._valid[i] = [f.valid(a, self._mask(n, f.mask_planes))
                              for n, (f, a) in enumerate(zip(given.files, self._pixels(i)),
                                                         given.first)]
        return self._valid[i]

    def _mask(self, file: int, planes: int) -> Optional[Array]:
        place = self._places[2 * file + 1]
        if place < 0:
            return None
        return np.ndarray((planes, self.rows, self.columns), "u1", self._live().map, place)

    def __getitem__(self, name: str) -> Any:
        """Return the pixels of an input, or of an output that was set."""
        i = self._run.input_index.get(name)
        if i is not None:
            arrays = self._seen(i)
            return list(arrays) if self._run.inputs[i].list else arrays[0]
        if name in self._outputs:
            return self._outputs[name]
        if name in self._run.output_index:
            self._live()
            raise KeyError(f"the output {name!r} was not set")
        raise KeyError(self._no_input(name))

    def __getattr__(self, name: str) -> Any:
        if name == "_run":  # of an object that is not made by __init__, such as a copy
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._run.output_index:
            self.set(name, value)
        elif hasattr(type(self), name) or name in self.__dict__:
            raise AttributeError(f"{name!r} of a block can't be set")
        else:
            raise AttributeError(self._no_output(name))

    def _no_output(self, name: str) -> str:
        if name in self._run.input_index:
            return f"{name!r} is an input: write to its pixels, as in b.{name}[...] = 0"
        return f"there is no output {name!r}; the outputs are {_names(self._run.output_index)}"

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self._run.input_index) |
                      set(self._run.output_index))

    # The block's place.

    @property
    def total(self) -> int:
        """Number of blocks of the run."""
        return self._run.count

    @property
    def first(self) -> bool:
        """Whether this is block 0. Blocks are computed in any order."""
        return self.number == 0

    @property
    def last(self) -> bool:
        """Whether this is the block with the highest number."""
        return self.number == self.total - 1

    @property
    def overlap(self) -> int:
        """Width of the margin in pixels, the same on each side."""
        return self._run.overlap

    @property
    def rows(self) -> int:
        """Height of the arrays, with the margin."""
        return self.window.height + 2 * self._run.overlap

    @property
    def columns(self) -> int:
        """Width of the arrays, with the margin."""
        return self.window.width + 2 * self._run.overlap

    @property
    def transform(self) -> tuple[float, ...]:
        """The arrays' transform, six numbers in GDAL's order: its origin is the upper left corner
        of the margin.
        """
        t = self._run.transform
        if t is None:
            raise ValueError("the grid has no transform")
        column, row = self.window.column - self._run.overlap, self.window.row - self._run.overlap
        return (t[0] + column * t[1] + row * t[2], t[1], t[2], t[3] + column * t[4] + row * t[5],
                t[4], t[5])

    @property
    def crs(self) -> str:
        """The coordinate reference system: its code, such as EPSG:32631, else its WKT; "" if the
        grid has neither.
        """
        return self._run.crs

    def coordinates(self) -> tuple[Array, Array]:
        """Return the map coordinates of the pixels' centres: x of each column and y of each row,
        float64, in units of the CRS.

        In a rotated grid they do not exist: ValueError is raised.

        >>> def distance(b):  # from a point, of shape (rows, columns)
        ...     x, y = b.coordinates()
        ...     b.out = np.hypot(x - 650000, y[:, np.newaxis] - 4850000)
        """
        t = self.transform
        if t[2] or t[4]:
            raise ValueError("the grid is rotated: the columns and rows have no x and y")
        columns, rows = np.arange(self.columns) + 0.5, np.arange(self.rows) + 0.5
        return t[0] + columns * t[1] + 0.5 * t[2], t[3] + 0.5 * t[4] + rows * t[5]

    # What belongs to inputs.

    def valid(self, name: str) -> Any:
        """Return which pixels of an input are valid: bool, of the input's shape; a list of them if
        it is a list.

        Pixels that are nodata, NaN, masked or outside their file are not valid. Call it before you
        write to the input.

        >>> import leat, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     red = leat.demo(directory, size=64)["red"]
        ...     leat.apply(lambda b: b.emit(b.valid("red").sum()), dict(red=red), workers=0).values
        [4013]
        """
        i = self._input(name)
        valid = [v.copy() for v in self._validity(i)]  # the caller may write to them
        return valid if self._run.inputs[i].list else valid[0]

    def masked(self, name: str) -> Any:
        """Return an input as a masked array, in which invalid pixels are masked; a list of them if
        it is a list.

        >>> def anomaly(b):
        ...     red = b.masked("red").astype("f4")
        ...     b.out = red - b.params["mean"]  # masked pixels become nodata
        """
        pixels, valid = self[name], self.valid(name)
        if isinstance(pixels, list):
            return [_masked_array(p, mask=~v) for p, v in zip(pixels, valid)]
        return _masked_array(pixels, mask=~valid)

    def nodata(self, name: str, band: int = 1) -> Any:
        """Return the nodata value of a band of an input's first file, counted from 1; None if it
        has none, NaN if the job applies scale and offset.

        >>> def fill(b):
        ...     b.red[b.red == b.nodata("red")] = 0
        """
        values = self._run.inputs[self._input(name)].files[0].seen_nodata
        if not 1 <= band <= len(values):
            raise IndexError(f"band {band} of input {name!r}, which has "
                             f"{plural(len(values), 'band')}")
        return values[band - 1]

    def path(self, name: str) -> Union[str, list[str]]:
        """Return the name of an input's file; a list of names if it is a list.

        >>> def dates(b):
        ...     b.emit([path[-12:-4] for path in b.path("scenes")])
        """
        i = self._run.inputs[self._input(name)]
        return [f.path for f in i.files] if i.list else i.files[0].path

    def xarray(self, name: str) -> Any:
        """Return an input as an xarray.DataArray (band, y, x) with coordinates; a list of them if
        it is a list.

        It is a view of the same memory. ``attrs`` has nodata, if the input has it, and crs. x and y
        have no coordinates if the grid is rotated or has no transform.

        >>> def gradient(b):
        ...     b.out = b.xarray("dem").differentiate("x").values
        """
        import xarray
        i = self._run.inputs[self._input(name)]
        t = self._run.transform
        axes: dict[str, Any] = {}
        if t and not t[2] and not t[4]:
            axes["x"], axes["y"] = self.coordinates()
        arrays = []
        for f, a in zip(i.files, self._seen(self._input(name))):
            attrs: dict[str, Any] = {"crs": self.crs}
            if f.seen_nodata[0] is not None:
                attrs["nodata"] = f.seen_nodata[0]
            arrays.append(
                xarray.DataArray(a, dims=("band", "y", "x"),
                                 coords={"band": f.bands, **axes}, name=name, attrs=attrs))
        return arrays if i.list else arrays[0]

    # What belongs to the run.

    @property
    def params(self) -> Any:
        """The parameters of the function; None if there are none."""
        return self._run.params

    @property
    def state(self) -> Any:
        """An object that lives as long as this worker, for attributes such as a model that was
        loaded once.
        """
        return self._run.state

    def emit(self, value: Any) -> None:
        """Pass a value of this block to the caller of leat.apply, in the order of blocks.

        The value is one that JSON can represent, or a number or an array of NumPy.

        >>> import leat, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     red = leat.demo(directory, size=64)["red"]
        ...     leat.apply(lambda b: b.emit([b.number, b.rows]), dict(red=red), workers=0).values
        [[0, 64]]
        """
        if not self._run.emits:
            raise RuntimeError("nothing receives the values that the function emits")
        self._live()
        self._values.append(self._run.encode_value(value))

    # Outputs.

    def new(self, name: str, dtype: Any = None, bands: Optional[int] = None) -> Array:
        """Set an output to a new array, and return it: (bands, rows, columns), with the margin.

        Its values are undefined: fill all of it. It is in the memory from which leat writes the
        output, so that nothing is copied. dtype and bands may be left out if the output declares
        them.

        >>> def difference(b):
        ...     np.subtract(b.nir, b.red, dtype="i4", out=b.new("out", "i4"))
        """
        o = self._output(name)
        t = np.dtype(dtype if dtype is not None else o.type or "O").newbyteorder("=")
        if t.name == "bool":
            t = np.dtype("uint8")
        if t.name not in TYPES:
            what = "no dtype is given" if dtype is None else f"no pixels of type {t}"
            raise TypeError(f"output {name!r}: {what}, expected one of {', '.join(TYPES)}")
        if o.type and t.name != o.type:
            raise TypeError(f"output {name!r} is {o.type}, not {t.name}")
        bands = (o.bands or 1) if bands is None else operator.index(bands)
        if bands < 1:
            raise ValueError(f"output {name!r}: {bands} bands, expected at least one")
        if o.bands and bands != o.bands:
            raise ValueError(f"output {name!r} has {plural(o.bands, 'band')}, not {bands}")
        array = self._run.memory.allocate(t, (bands, self.rows, self.columns))
        self._outputs[name] = array
        return array

    def _output(self, name: str) -> Output:
        i = self._run.output_index.get(name)
        if i is None:
            raise KeyError(self._no_output(name))
        self._live()
        return self._run.outputs[i]

    def set(self, name: str, value: Any) -> None:
        """Set an output to a copy of an array of shape (bands, rows, columns), or (rows, columns)
        for one band.

        The output has the array's type, or the type that it declares; values are then rounded,
        halves to even. A value that the type can't hold is an error. Masked pixels, and NaN where
        the type has none, become nodata; that is an error for integers without a nodata value.

        >>> def brightest(b):
        ...     b.set("out", b.red.max(axis=0))
        """
        o = self._output(name)
        kept = self._outputs.get(name)
        if kept is not None and value is kept:
            return
        if not isinstance(value, np.ndarray):
            value = np.asanyarray(value)
        if value.dtype.kind not in "biufc" or value.dtype.name not in (*TYPES, "bool"):
            raise TypeError(f"output {name!r}: pixels of type {value.dtype}, expected one of "
                            f"{', '.join(TYPES)}")
        if value.ndim == 2:
            value = value[np.newaxis]
        shape = (self.rows, self.columns)
        window = (self.window.height, self.window.width)
        if value.ndim != 3 or value.shape[1:] not in (shape, window) or value.shape[0] < 1:
            raise ValueError(f"output {name!r} has the shape {value.shape}, expected "
                             f"(bands, {shape[0]}, {shape[1]})")
        if o.bands and value.shape[0] != o.bands:
            raise ValueError(f"output {name!r} has {plural(value.shape[0], 'band')}, "
                             f"expected {o.bands}")
        t: np.dtype[Any] = np.dtype(
            o.type or ("uint8" if value.dtype.kind == "b" else value.dtype.newbyteorder("=")))
        margin = self.overlap if value.shape[1:] == shape else 0
        out = self._run.memory.allocate(t, value.shape)
        try:
            convert(out, value, o.nodata)
        except PixelError as e:
            band, row, column = e.index
            place = (f"band {band + 1}, column {self.window.column + column - margin}, "
                     f"row {self.window.row + row - margin} of the grid")
            raise e.kind(f"output {name!r} ({t.name}): {e} at {place}") from None
        self._outputs[name] = out


def _names(index: dict[str, int]) -> str:
    return ", ".join(index) or "none"
