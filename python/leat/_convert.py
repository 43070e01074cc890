"""Conversion of pixels to the type of an output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]  # not before NumPy 1.22


class PixelError(Exception):
    """PixelError is an error about a pixel; index is the place of the pixel in the array."""

    def __init__(self, kind: type[Exception], text: str, bad: Array) -> None:
        super().__init__(text)
        self.kind, self.index = kind, np.unravel_index(int(np.argmax(bad)), bad.shape)


def convert(out: Array, value: Array, nodata: Union[int, float, None]) -> None:
    """Set out to value, an array of the same shape.

    It raises a PixelError for values that out can't hold.
    """
    t = out.dtype
    invalid: Optional[Array] = None
    if isinstance(value, np.ma.MaskedArray):
        if value.mask is not np.ma.nomask and value.mask.any():
            invalid = np.broadcast_to(value.mask, value.shape)
        value = value.data
    if value.dtype.kind == "c" and t.kind != "c":
        raise TypeError(f"complex pixels for an output of {t.name}")
    if t.kind in "iu" and value.dtype.kind == "f":
        nan = np.isnan(value)
        if nan.any():
            invalid = nan if invalid is None else invalid | nan
        _round(out, value, invalid)
    elif t.kind in "iu" and not np.can_cast(value.dtype, t):
        _narrow(out, value, invalid)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(out, value, casting="unsafe")
        if not np.can_cast(value.dtype, t):
            overflow = np.isinf(out)
            if overflow.any():
                _check_range(~overflow | np.isinf(value), invalid, value, t)
    if invalid is not None:
        _set_invalid(out, invalid, nodata)


def _round(out: Array, value: Array, invalid: Optional[Array]) -> None:
    """Set integers to rounded floats."""
    # Both limits are exact in float32 and float64: powers of two.
    info: Any = np.iinfo(out.dtype)
    rounded = np.rint(value if value.dtype.itemsize > 2 else value.astype("f4"))
    kept = (rounded >= float(info.min)) & (rounded < 2.0 ** (info.max.bit_length()))
    _check_range(kept, invalid, value, out.dtype)
    with np.errstate(invalid="ignore"):
        np.copyto(out, rounded, casting="unsafe")


def _narrow(out: Array, value: Array, invalid: Optional[Array]) -> None:
    """Set integers to integers, or bools, of a type with other limits."""
    info: Any = np.iinfo(out.dtype)
    if value.size and (int(value.min()) < info.min or int(value.max()) > info.max):
        kept = np.ones(value.shape, bool)
        own: Any = np.iinfo(value.dtype)
        if own.min < info.min:
            kept &= value >= info.min
        if own.max > info.max:
            kept &= value <= info.max
        _check_range(kept, invalid, value, out.dtype)
    np.copyto(out, value, casting="unsafe")


def _set_invalid(out: Array, invalid: Array, nodata: Union[int, float, None]) -> None:
    t = out.dtype
    if nodata is None and t.kind in "fc":
        nodata = math.nan
    if nodata is None:
        raise PixelError(ValueError, "the output has no nodata value for the invalid pixel",
                         invalid)
    if t.kind in "iu":
        info: Any = np.iinfo(t)
        if not (nodata == nodata and info.min <= nodata <= info.max and nodata == int(nodata)):
            raise ValueError(f"the nodata value {nodata} is not a value of {t.name}")
    fill = t.type(nodata)
    if fill == fill:
        same = (out == fill) & ~invalid
        if same.any():
            raise PixelError(ValueError, f"the valid pixel has the nodata value {nodata}", same)
    out[invalid] = fill


def _check_range(kept: Array, invalid: Optional[Array], value: Array, t: np.dtype[Any]) -> None:
    bad = ~kept
    if invalid is not None:
        bad &= ~invalid
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise PixelError(OverflowError, f"the value {value[at]} is beyond the range of {t.name}",
                         bad)
