"""Counts of caches."""

from __future__ import annotations

from typing import NamedTuple


class CacheStats(NamedTuple):
    """CacheStats describes a cache. Counts are those of all processes since it was made.

    >>> import leat
    >>> with leat.Cache(10) as cache:
    ...     cache.put(0, b"data"), cache.put(0, b"other")
    ...     stats = cache.stats()
    (True, False)
    >>> stats.stored, stats.refused_filled
    (1, 1)
    """

    slots: int
    """Slots of the cache."""
    bytes: int
    """Bytes of the file: first page, index and entries with their headers."""
    max_bytes: int
    """Maximum size of the file in bytes, 0 for no limit."""
    frozen: bool
    """Whether it takes no more entries."""
    preserved: bool
    """Whether its file is final."""
    stored: int
    """Entries put."""
    refused_filled: int
    """Puts into filled slots."""
    refused_race: int
    """Puts that another put to the same slot preceded."""
    refused_frozen: int
    """Puts into the frozen cache."""
    refused_full: int
    """Puts beyond max_bytes."""
    refused_no_space: int
    """Puts that the disk had no space for."""
    bad: int
    """Reads of damaged records."""
    repaired: int
    """Damaged records that a put replaced."""
    faults: int
    """Reads that failed, in Go processes."""
    dead_bytes: int
    """Bytes of records that no slot refers to, running puts included."""
