# mypy: ignore-errors
"""The block that a function computes: class Block."""

import collections
import math
import operator

import numpy as np

__all__ = ["Block", "Window"]

#: A window of the run's grid: column and row offset, width and height in pixels.
Window = collections.namedtuple("Window", "column row width height")

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
         "float32", "float64",
         "complex64", "complex128")


def plural(n, noun):
    return "%d %s%s" % (n, noun, "" if n == 1 else "s")


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

    def __init__(self, run, number, window, arrays, masks):
        d = self.__dict__
        d["_run"], d["_arrays"], d["_masks"] = run, arrays, masks
        d["_outputs"], d["_values"], d["_valid"], d["_unscaled"] = {}, [], {}, {}
        #: Number of the block, from 0.
        d["number"] = number
        #: Window of the grid, without the margin.
        d["window"] = Window(*window)

    def __repr__(self):
        names = ["%s=%s" % (i.name, "list of %d" % len(i.files) if i.list
                            else i.files[0].seen_dtype) for i in self._run.inputs]
        return "<Block %d of %d, %d x %d pixels at column %d, row %d; %s>" % (
            self.number, self.total, self.window.width, self.window.height, self.window.column,
            self.window.row,
            ", ".join(names))

    # Inputs and outputs by name.

    def _input(self, name):
        i = self._run.input_index.get(name)
        if i is None:
            raise KeyError("there is no input %r; the inputs are %s" %
                           (name, ", ".join(self._run.input_index) or "none"))
        return i

    def __getitem__(self, name):
        """Return the pixels of an input, or of an output that was set."""
        i = self._run.input_index.get(name)
        if i is not None:
            arrays = self._seen(i)
            return list(arrays) if self._run.inputs[i].list else arrays[0]
        if name in self._outputs:
            return self._outputs[name]
        if name in self._run.output_index:
            raise KeyError("the output %r was not set" % (name,))
        raise KeyError("there is no input %r; the inputs are %s" %
                       (name, ", ".join(self._run.input_index) or "none"))

    def _seen(self, i):
        """Return the arrays of an input: pixels, or values if the job applies scale and offset."""
        files = self._run.inputs[i].files
        if all(f.scaling is None for f in files):
            return self._arrays[i]
        if i not in self._unscaled:
            self._unscaled[i] = [a if f.scaling is None else f.unscale(a, v)
                                 for f, a, v in zip(files, self._arrays[i], self._validity(i))]
        return self._unscaled[i]

    def _validity(self, i):
        """Return which pixels of the files of an input are valid; the caller must not write."""
        if i not in self._valid:
            self._valid[i] = [f.valid(a, m)
                              for f, a, m in zip(self._run.inputs[i].files, self._arrays[i],
                                                 self._masks[i])]
        return self._valid[i]

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __setitem__(self, name, value):
        self.set(name, value)

    def __setattr__(self, name, value):
        if name in self._run.output_index:
            self.set(name, value)
        elif hasattr(type(self), name) or name in self.__dict__:
            raise AttributeError("%r of a block can't be set" % (name,))
        else:
            raise AttributeError(self._no_output(name))

    def _no_output(self, name):
        if name in self._run.input_index:
            return "%r is an input: write to its pixels, as in b.%s[...] = 0" % (name, name)
        return "there is no output %r; the outputs are %s" % (name,
            ", ".join(self._run.output_index) or "none")

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(self._run.input_index) |
                      set(self._run.output_index))

    # The block's place.

    @property
    def total(self):
        """Number of blocks of the run."""
        return self._run.count

    @property
    def first(self):
        """Whether this is block 0. Blocks are computed in any order."""
        return self.number == 0

    @property
    def last(self):
        """Whether this is the block with the highest number."""
        return self.number == self.total - 1

    @property
    def overlap(self):
        """Width of the margin in pixels, the same on each side."""
        return self._run.overlap

    @property
    def rows(self):
        """Height of the arrays, with the margin."""
        return self.window.height + 2 * self._run.overlap

    @property
    def columns(self):
        """Width of the arrays, with the margin."""
        return self.window.width + 2 * self._run.overlap

    @property
    def transform(self):
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
    def crs(self):
        """The coordinate reference system as WKT, "" if the grid has none."""
        return self._run.crs

    def coordinates(self):
        """Return the map coordinates of the pixels' centres: x of each column and y of each row,
        float64.

        In a rotated grid, these do not exist: that is a ValueError.
        """
        t = self.transform
        if t[2] or t[4]:
            raise ValueError("the grid is rotated: the columns and rows have no x and y")
        columns, rows = np.arange(self.columns) + 0.5, np.arange(self.rows) + 0.5
        return t[0] + columns * t[1] + 0.5 * t[2], t[3] + 0.5 * t[4] + rows * t[5]

    # What belongs to inputs.

    def valid(self, name):
        """Return which pixels of an input are valid: bool, of the input's shape; a list of them if
        it is a list.

        Pixels that are nodata, NaN, masked or outside their file are not valid. Call it before you
        write to the input.
        """
        i = self._input(name)
        valid = [v.copy() for v in self._validity(i)]  # the caller may write to them
        return valid if self._run.inputs[i].list else valid[0]

    def masked(self, name):
        """Return an input as a masked array, in which invalid pixels are masked; a list of them if
        it is a list.
        """
        pixels, valid = self[name], self.valid(name)
        if isinstance(pixels, list):
            return [np.ma.array(p, mask=~v) for p, v in zip(pixels, valid)]
        return np.ma.array(pixels, mask=~valid)

    def nodata(self, name, band=1):
        """Return the nodata value of a band of an input's first file, counted from 1; None if it
        has none, NaN if the job applies scale and offset.
        """
        values = self._run.inputs[self._input(name)].files[0].seen_nodata
        if not 1 <= band <= len(values):
            raise IndexError("band %d of input %r, which has %s" %
                             (band, name, plural(len(values), "band")))
        return values[band - 1]

    def path(self, name):
        """Return the name of an input's file; a list of names if it is a list."""
        i = self._run.inputs[self._input(name)]
        return [f.path for f in i.files] if i.list else i.files[0].path

    def xarray(self, name):
        """Return an input as an xarray.DataArray (band, y, x) with coordinates; a list of them if
        it is a list.

        It is a view of the same memory. ``attrs`` has nodata, if the input has it, and crs. x and y
        have no coordinates if the grid is rotated or has no transform.
        """
        import xarray
        i = self._run.inputs[self._input(name)]
        t = self._run.transform
        axes = dict(zip("xy", self.coordinates())) if t and not t[2] and not t[4] else {}
        arrays = []
        for f, a in zip(i.files, self._seen(self._input(name))):
            attrs = {"crs": self.crs}
            if f.seen_nodata[0] is not None:
                attrs["nodata"] = f.seen_nodata[0]
            arrays.append(
                xarray.DataArray(a, dims=("band", "y", "x"),
                                 coords={"band": f.bands, **axes}, name=name, attrs=attrs))
        return arrays if i.list else arrays[0]

    # What belongs to the run.

    @property
    def params(self):
        """The parameters of the function; None if there are none."""
        return self._run.params

    @property
    def state(self):
        """An object that lives as long as this worker, for attributes such as a model that was
        loaded once.
        """
        return self._run.state

    def emit(self, value):
        """Pass a value of this block to the caller of leat.apply, in the order of blocks."""
        if not self._run.emits:
            raise RuntimeError("nothing receives the values that the function emits")
        self._values.append(self._run.encode_value(value))

    # Outputs.

    def new(self, name, dtype=None, bands=None):
        """Set an output to a new array, and return it: (bands, rows, columns), with the margin.

        Its values are undefined: fill all of it. It is in the memory from which leat writes the
        output, so that nothing is copied. dtype and bands may be left out if the output declares
        them.
        """
        o = self._output(name)
        t = np.dtype(dtype if dtype is not None else o.type or "O").newbyteorder("=")
        if t.name == "bool":
            t = np.dtype("uint8")
        if t.name not in TYPES:
            raise TypeError("output %r: %s, expected one of %s" % (
                name, "no dtype is given" if dtype is None else "no pixels of type %s" % t,
                ", ".join(TYPES)))
        if o.type and t.name != o.type:
            raise TypeError("output %r is %s, not %s" % (name, o.type, t.name))
        bands = (o.bands or 1) if bands is None else operator.index(bands)
        if bands < 1:
            raise ValueError("output %r: %d bands, expected at least one" % (name, bands))
        if o.bands and bands != o.bands:
            raise ValueError("output %r has %s, not %d" % (name, plural(o.bands, "band"), bands))
        array = self._run.memory.allocate(t, (bands, self.rows, self.columns))
        self._outputs[name] = array
        return array

    def _output(self, name):
        i = self._run.output_index.get(name)
        if i is None:
            raise KeyError(self._no_output(name))
        return self._run.outputs[i]

    def set(self, name, value):
        """Set an output to a copy of an array of shape (bands, rows, columns), or (rows, columns)
        for one band.

        The output has the array's type, or that which it declares: then values are rounded, halves
        to even. A value that the type can't hold is an error. Masked pixels, and NaN where the type
        has none, become nodata; that is an error for integers without a nodata value.
        """
        o = self._output(name)
        kept = self._outputs.get(name)
        if kept is not None and value is kept:
            return
        if not isinstance(value, np.ndarray):
            value = np.asanyarray(value)
        if value.dtype.kind not in "biufc" or value.dtype.name not in TYPES + ("bool",):
            raise TypeError("output %r: pixels of type %s, expected one of %s" %
                            (name, value.dtype, ", ".join(TYPES)))
        if value.ndim == 2:
            value = value[np.newaxis]
        shape = (self.rows, self.columns)
        window = (self.window.height, self.window.width)
        if value.ndim != 3 or value.shape[1:] not in (shape, window) or value.shape[0] < 1:
            raise ValueError("output %r has the shape %s, expected (bands, %d, %d)" %
                             (name, value.shape, *shape))
        if o.bands and value.shape[0] != o.bands:
            raise ValueError("output %r has %s, expected %d" %
                             (name, plural(value.shape[0], "band"), o.bands))
        t = np.dtype(o.type
                     or ("uint8" if value.dtype.kind == "b" else value.dtype.newbyteorder("=")))
        margin = self.overlap if value.shape[1:] == shape else 0
        out = self._run.memory.allocate(t, value.shape)
        try:
            convert(out, value, o.nodata)
        except _Pixel as e:
            where = e.index
            place = "band %d, column %d, row %d of the grid" % (
                where[0] + 1, self.window.column + where[2] - margin, self.window.row +
                where[1] - margin)
            raise e.kind("output %r (%s): %s at %s" % (name, t.name, e.args[0], place)) from None
        self._outputs[name] = out


class _Pixel(Exception):
    """An error about a pixel, whose index is that of the array."""

    def __init__(self, kind, text, bad):
        super().__init__(text)
        self.kind, self.index = kind, np.unravel_index(int(np.argmax(bad)), bad.shape)


def convert(out, value, nodata):
    """Set out to value, an array of the same shape.

    nodata is a number of Python or None. It raises a _Pixel for values that out can't hold.
    """
    t, invalid = out.dtype, None
    if isinstance(value, np.ma.MaskedArray):
        if value.mask is not np.ma.nomask and value.mask.any():
            invalid = np.broadcast_to(value.mask, value.shape)
        value = value.data
    if value.dtype.kind == "c" and t.kind != "c":
        raise TypeError("complex pixels for an output of %s" % t.name)
    if t.kind in "iu" and value.dtype.kind == "f":
        nan = np.isnan(value)
        if nan.any():
            invalid = nan if invalid is None else invalid | nan
        # Both limits are exact in float32 and float64: powers of two.
        info = np.iinfo(t)
        rounded = np.rint(value if value.dtype.itemsize > 2 else value.astype("f4"))
        kept = (rounded >= float(info.min)) & (rounded < 2.0 ** (info.max.bit_length()))
        _check_range(kept, invalid, value, t)
        with np.errstate(invalid="ignore"):
            np.copyto(out, rounded, casting="unsafe")
    elif t.kind in "iu" and not np.can_cast(value.dtype, t):
        info = np.iinfo(t)
        if value.size and (int(value.min()) < info.min or int(value.max()) > info.max):
            kept = np.ones(value.shape, bool)
            if np.iinfo(value.dtype).min < info.min:
                kept &= value >= info.min
            if np.iinfo(value.dtype).max > info.max:
                kept &= value <= info.max
            _check_range(kept, invalid, value, t)
        np.copyto(out, value, casting="unsafe")
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(out, value, casting="unsafe")
        if not np.can_cast(value.dtype, t):
            overflow = np.isinf(out)
            if overflow.any():
                _check_range(~overflow | np.isinf(value), invalid, value, t)
    if invalid is None:
        return
    if nodata is None and t.kind in "fc":
        nodata = math.nan
    if nodata is None:
        raise _Pixel(ValueError, "the output has no nodata value for the invalid pixel", invalid)
    if t.kind in "iu" and not (nodata == nodata and np.iinfo(t).min <= nodata <= np.iinfo(t).max
                               and nodata == int(nodata)):
        raise ValueError("the nodata value %s is no value of %s" % (nodata, t.name))
    fill = t.type(nodata)
    if fill == fill:
        same = (out == fill) & ~invalid
        if same.any():
            raise _Pixel(ValueError, "the valid pixel has the nodata value %s" % nodata, same)
    out[invalid] = fill


def _check_range(kept, invalid, value, t):
    bad = ~kept
    if invalid is not None:
        bad &= ~invalid
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise _Pixel(OverflowError, "the value %s is beyond the range of %s" % (value[at], t.name),
                     bad)
