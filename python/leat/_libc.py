"""What the os module lacks of Linux: the kind of a file system, and holes in files."""

from __future__ import annotations

import ctypes
import errno
import functools
import os

# Kinds of file systems that belong to one machine, as statfs(2) numbers them: mappings are shared
# and locks work.
LOCAL = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0x01021994: "tmpfs",
    0x794C7630: "overlay",
}

KEEP_SIZE, PUNCH_HOLE = 1, 2  # modes of fallocate(2)


@functools.lru_cache(maxsize=None)
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    libc.fstatfs.argtypes = [ctypes.c_int, ctypes.c_void_p]
    return libc


def is_local(directory: str) -> bool:
    """Report whether a directory is on a file system that is known to belong to one machine."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        facts = (ctypes.c_uint64 * 32)()  # struct statfs has 120 bytes and begins with the kind
        if _libc().fstatfs(fd, ctypes.byref(facts)) != 0:
            return False
        return (facts[0] & 0xFFFFFFFF) in LOCAL
    finally:
        os.close(fd)


def allocate(fd: int, at: int, length: int) -> None:
    """Allocate a range of a file on the disk, without changing its size."""
    error = _fallocate(fd, KEEP_SIZE, at, length)
    if error:
        raise OSError(error, os.strerror(error))


def punch(fd: int, at: int, length: int) -> None:
    """Free the space of a range, if the file system can."""
    _fallocate(fd, PUNCH_HOLE | KEEP_SIZE, at, length)


def _fallocate(fd: int, mode: int, at: int, length: int) -> int:
    """Call fallocate(2), again if a signal interrupts it; return 0 or the error's number."""
    while _libc().fallocate(fd, mode, at, length) != 0:
        error = ctypes.get_errno()
        if error != errno.EINTR:
            return error
    return 0
