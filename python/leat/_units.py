"""Sizes as people write them."""

from __future__ import annotations

import re
from typing import Union

_size = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([KMGT]?)I?B?\s*", re.IGNORECASE)


def parse_size(size: Union[int, str], name: str) -> int:
    """Return a number of bytes: 4096, "500M", "1.5 GiB". K, M, G and T count in steps of 1024.

    >>> parse_size("1.5K", "max_bytes")
    1536
    """
    if isinstance(size, str):
        match = _size.fullmatch(size)
        if match is None:
            raise ValueError(f"{name} {size!r}: expected a size such as 500M or 2G")
        steps = " KMGT".index(match[2].upper() or " ")
        size = int(float(match[1]) * 1024 ** steps)
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"{name} {size!r}: expected a number of bytes or a size such as 500M")
    if not 0 <= size < 1 << 60:
        raise ValueError(f"{name} {size}: expected 0 (no limit) to 2^60 bytes")
    return size
