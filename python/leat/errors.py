"""The errors of leat. All derive from Error, carry facts as attributes, and can be pickled."""

from __future__ import annotations

from typing import Any, Optional


class Error(Exception):
    """Error is the base of all errors that leat raises itself.

    >>> import leat
    >>> try:
    ...     raise leat.Closed("get: the cache is closed")
    ... except leat.Error as e:
    ...     print(e)
    get: the cache is closed
    """

    def __init__(self, *args: object, **facts: Any) -> None:
        super().__init__(*args)
        for name, value in facts.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, value)


class NoBinary(Error):
    """NoBinary is raised when the leat program is not found. The text lists the places."""


class VersionMismatch(Error):
    """VersionMismatch is raised when the version of the leat program is not the package's."""

    path: str = ""
    """The program."""
    found: str = ""
    """The program's version."""
    expected: str = ""
    """The package's version."""


class Closed(Error):
    """Closed is raised by a call on an object that was closed."""


class Damaged(Error):
    """Damaged is raised for a file that does not conform to its format."""


class Claimed(Error):
    """Claimed is raised when another process holds what was asked for, such as an output."""

    holder: Optional[str] = None
    """The process that holds it, as far as it is known."""


class NoSpace(Error):
    """NoSpace is raised when a disk, memory or a limit leaves no space."""


class JobError(Error):
    """JobError is raised when a run of leat fails."""


class BlockError(JobError):
    """BlockError is raised when the function fails on a block.

    >>> import leat
    >>> e = leat.BlockError("block 3: ValueError: no data", block=3, host="node7")
    >>> e.block, e.host, e.worker
    (3, 'node7', None)
    """

    block: Optional[int] = None
    """The block's number, from 0."""
    window: Any = None
    """The block's window: column and row offset, width, height, in pixels."""
    worker: Optional[str] = None
    """The worker that ran the function; None in this process."""
    host: Optional[str] = None
    """The machine that ran the function."""
    traceback: str = ""
    """The Python traceback, as text."""
