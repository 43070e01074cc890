"""Entries that are arrays, as .npy files."""

from __future__ import annotations

import ast
import io
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy

_format: Any = numpy.lib.format

if TYPE_CHECKING:
    Array = numpy.ndarray[Any, Any]  # not before NumPy 1.22

Layout = tuple[tuple[int, ...], bool, "numpy.dtype[Any]"]  # shape, in Fortran's order, type

_layouts: dict[bytes, Layout] = {}  # by header

_MAX_HEADER = 1 << 20
_NUMPY_HEADER = 10_000
"""Bytes of a header that NumPy reads; longer ones are of structured types."""


def encode(array: Any) -> list[memoryview]:
    """Return the parts of a .npy file: its header, and the array's own memory if it can be."""
    if isinstance(array, numpy.ma.MaskedArray):
        raise TypeError("masked array: its mask can't be stored")
    a = numpy.asarray(array)
    if a.dtype.hasobject:
        raise TypeError(f"array of {a.dtype}: objects can't be stored")
    if not (a.flags.c_contiguous or a.flags.f_contiguous):
        a = numpy.array(a, order="C")
    header = io.BytesIO()
    facts = _format.header_data_from_array_1_0(a)
    try:
        _format.write_array_header_1_0(header, facts)
    except ValueError:  # longer than 64 KiB, or a name that is not Latin-1
        try:
            _format.write_array_header_2_0(header, facts)
        except UnicodeEncodeError:
            header.write(_header_3_0(facts))
    if header.tell() > _MAX_HEADER:
        raise ValueError(f"array of a type whose header takes {header.tell()} bytes, at most "
                         f"{_MAX_HEADER} are possible")
    parts = [memoryview(header.getvalue())]
    if a.nbytes:
        flat = (a if a.flags.c_contiguous else a.T).reshape(-1)
        parts.append(memoryview(flat.view(numpy.uint8)))  # type: ignore[arg-type]
    return parts


def _header_3_0(facts: dict[str, Any]) -> bytes:
    """Return a header of version 3, whose text is UTF-8: NumPy has no function for it alone."""
    text = repr(facts).encode()
    text += b" " * (-(12 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x03\0" + len(text).to_bytes(4, "little") + text


def _read_header(header: bytes) -> Layout:
    """Return what a header says."""
    file = io.BytesIO(header)
    version = _format.read_magic(file)
    if version == (3, 0) or len(header) > _NUMPY_HEADER and version in ((1, 0), (2, 0)):
        text = header[10 if version == (1, 0) else 12:]
        facts = ast.literal_eval(text.decode("utf-8" if version == (3, 0) else "latin-1"))
        shape = tuple(operator.index(n) for n in facts["shape"])
        return shape, bool(facts["fortran_order"]), _format.descr_to_dtype(facts["descr"])
    read = (_format.read_array_header_1_0 if version == (1, 0) else
            _format.read_array_header_2_0)
    layout: Layout = read(file)
    return layout


def decode(entry: memoryview) -> Array:
    """Return the array in a .npy file. It shares the memory, and is read-only if that is."""
    if bytes(entry[:6]) != b"\x93NUMPY" or len(entry) < 12:
        raise ValueError("not a .npy file")
    major = entry[6]
    if major == 1:
        start = 10 + int.from_bytes(entry[8:10], "little")
    else:
        start = 12 + int.from_bytes(entry[8:12], "little")
    if not start <= min(len(entry), _MAX_HEADER):
        raise ValueError(f"a header of {start} bytes, expected at most {_MAX_HEADER} within the "
                         f"{len(entry)} of the entry")
    header = bytes(entry[:start])
    layout = _layouts.get(header)
    if layout is None:
        try:
            layout = _read_header(header)
        except (SyntaxError, KeyError, TypeError, RecursionError, MemoryError) as e:
            raise ValueError(f"its header can't be read: {e}") from None
        if len(_layouts) >= 256:
            _layouts.clear()
        _layouts[header] = layout
    shape, fortran, dtype = layout
    if dtype.hasobject:
        raise ValueError(f"array of {dtype}: objects can't be read")
    count = math.prod(shape)
    if len(entry) - start != count * dtype.itemsize:
        raise ValueError(f"{len(entry) - start} bytes of data, expected {count * dtype.itemsize} "
                         f"for shape {shape} of {dtype}")
    if not count or not dtype.itemsize:
        empty: Array = numpy.empty(shape, dtype)
        empty.flags.writeable = False
        return empty
    a = numpy.frombuffer(entry, dtype, count, start)
    return a.reshape(shape[::-1]).T if fortran else a.reshape(shape)
