"""Entries that are arrays, as .npy files."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy

_format: Any = numpy.lib.format

if TYPE_CHECKING:
    Array = numpy.ndarray[Any, Any]  # not before NumPy 1.22

Layout = tuple[tuple[int, ...], bool, "numpy.dtype[Any]"]  # shape, in Fortran's order, type

_layouts: dict[bytes, Layout] = {}  # by header


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
    except ValueError:  # longer than 64 KiB
        _format.write_array_header_2_0(header, facts)
    parts = [memoryview(header.getvalue())]
    if a.nbytes:
        flat = (a if a.flags.c_contiguous else a.T).reshape(-1)
        parts.append(memoryview(flat.view(numpy.uint8)))  # type: ignore[arg-type]
    return parts


def decode(entry: memoryview) -> Array:
    """Return the array in a .npy file. It shares the memory, and is read-only if that is."""
    if bytes(entry[:6]) != b"\x93NUMPY" or len(entry) < 12:
        raise ValueError("not a .npy file")
    major = entry[6]
    if major == 1:
        start = 10 + int.from_bytes(entry[8:10], "little")
    else:
        start = 12 + int.from_bytes(entry[8:12], "little")
    header = bytes(entry[:start])
    layout = _layouts.get(header)
    if layout is None:
        file = io.BytesIO(header)
        version = _format.read_magic(file)
        read = (_format.read_array_header_1_0 if version == (1, 0) else
                _format.read_array_header_2_0)
        layout = read(file)
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
        return numpy.empty(shape, dtype)
    a = numpy.frombuffer(entry, dtype, count, start)
    return a.reshape(shape[::-1]).T if fortran else a.reshape(shape)
