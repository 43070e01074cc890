"""Cache.preserve: makes the file of a cache final."""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from array import array
from typing import TYPE_CHECKING, Callable, Iterator, Optional

from . import _cache_file as files
from ._cache_file import SETLK
from ._cache_format import (FIRST_SLOT, FROZEN, HEAD, PAGE, SEAL_AT, SLOTS_ON_PAGE, TAIL,
                            boot_id, encode_page, encode_seal, is_sealed, parse_record, pread_full,
                            pwrite_full, slot_entry)
from .errors import Error

if TYPE_CHECKING:
    from ._cache import Cache


def preserve(cache: Cache, path: str, overwrite: bool) -> int:
    """Preserve a cache as path and return how many damaged entries became empty."""
    from ._cache_write import UNLOCK_WRITE
    files.check_name(path)
    path = os.path.abspath(path)
    check_target(path, overwrite)
    dropped = 0
    if not cache._read_only:
        with cache._mutex:
            cache._check(0)
            try:
                cache._acquire(even_frozen=True)
                cache._shared[TAIL] |= FROZEN
                cache._count()
                dropped = seal(cache)
            finally:
                fcntl.fcntl(cache._lock_fd, SETLK, UNLOCK_WRITE)
    name_file(cache, path, overwrite)
    if cache._hidden and files.leads(cache._hidden, cache._lock_fd):
        os.unlink(cache._hidden)  # a process that opens a sealed file can't
    flush_directory(path)
    return dropped


def check_target(path: str, overwrite: bool) -> None:
    """Raise an error if no file can be created at a path, before anything changes."""
    directory = os.path.dirname(path)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "is a directory, expected a file", path)
    if os.path.lexists(path) and not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    files.discard(*files.create(directory, files.temp_name(os.path.basename(path))))


def flush_directory(path: str) -> None:
    """Flush the directory of a path, with its names, to the disk."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)


def filled_slots(fd: int, n: int) -> Iterator[tuple[int, int]]:
    """Yield each filled slot of a cache and the offset in it."""
    at, end = PAGE, PAGE + 8 * n
    while at < end:
        try:
            data = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                return
            data = at
        if data > at:
            at = min(data & -PAGE, end)
            continue
        words = array("Q", pread_full(fd, min(SLOTS_ON_PAGE * 8 * 256, end - at), at))
        first = (at - PAGE) // 8
        for k, offset in enumerate(words):
            if offset:
                yield first + k, offset
        at += 8 * len(words)


def seal(cache: Cache) -> int:
    """Empty the slots of damaged records and write the seal; return their number. No put may
    run."""
    fd, shared = cache._fd, cache._shared
    if is_sealed(pread_full(fd, PAGE, 0)):
        return 0
    slots, starts, ends = array("Q"), array("Q"), array("Q")
    dropped = 0
    for i, offset in filled_slots(fd, cache._n):
        length = whole_length(cache, i, offset)
        if length is None:
            shared[FIRST_SLOT + i] = 0
            cache._fast[0][i] = 0
            dropped += 1
        else:
            slots.append(i)
            starts.append(offset)
            ends.append(offset + HEAD + length)
    end, overlapping = 0, set()
    for k in sorted(range(len(slots)), key=starts.__getitem__):
        if starts[k] < end:
            overlapping.add(k)
        else:
            end = ends[k]
    total = entries = 0
    for k, i in enumerate(slots):
        if k in overlapping:
            shared[FIRST_SLOT + i] = 0
            cache._fast[0][i] = 0
            dropped += 1
        else:
            total = zlib.crc32(slot_entry.pack(i, starts[k]), total)
            entries += 1
    os.fdatasync(fd)
    pwrite_full(fd, encode_seal(entries, shared[TAIL] & ~FROZEN, total), SEAL_AT)
    os.fdatasync(fd)
    return dropped


def whole_length(cache: Cache, i: int, offset: int) -> Optional[int]:
    """Return the length of the record of slot i, or None if it is not whole."""
    from ._cache_read import sum_chunks
    if offset % 64 or offset < cache._header.base or offset > 1 << 62:
        return None
    record = parse_record(pread_full(cache._fd, HEAD, offset), i, offset)
    if record is None or not cache._reaches(offset + HEAD + record.length):
        return None
    start = offset + HEAD
    if sum_chunks(cache._fd, start, start + record.length) != record.sum:
        return None
    return record.length


def name_file(cache: Cache, path: str, overwrite: bool) -> None:
    """Link the file of a cache as path, or copy it if it can't be linked."""
    directory, name = os.path.split(path)
    files.sweep(directory, files.temps_of(name))
    target = path
    if overwrite:  # a link does not replace
        target = os.path.join(directory, files.temp_name(name, cache._header.uuid))
    try:
        try:
            files.link(cache._lock_fd, target)
        except FileExistsError:
            if not overwrite or not files.leads(target, cache._lock_fd):
                raise
    except OSError as e:
        if e.errno not in (errno.ENOENT, errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        publish(path, overwrite, lambda fd: copy(cache, fd))
        return
    if overwrite:
        os.rename(target, path)
        if os.path.lexists(target):  # two names of one file: the rename did nothing
            os.unlink(target)


def publish(path: str, overwrite: bool, fill: Callable[[int], None]) -> None:
    """Create a file, fill and flush it, and then name it path."""
    directory, name = os.path.split(path)
    fd, hidden = files.create(directory, files.temp_name(name))
    try:
        fill(fd)
        os.fdatasync(fd)
        if overwrite:
            if not hidden:
                temp = os.path.join(directory, files.temp_name(name))
                files.link(fd, temp)
                hidden = temp
            os.rename(hidden, path)
        else:
            files.link(fd, path)
    finally:
        files.discard(fd, hidden)


def copy(cache: Cache, to: int) -> None:
    """Copy the file of a cache, with its holes, as one with an identity of its own."""
    size = os.fstat(cache._fd).st_size
    os.ftruncate(to, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(cache._fd, at, os.SEEK_DATA)
            end = os.lseek(cache._fd, at, os.SEEK_HOLE)
        except OSError as e:
            if e.errno == errno.ENXIO:
                break
            end = size
        while at < end:
            data = os.pread(cache._fd, min(1 << 20, end - at), at)
            if not data:
                raise Error(f"{cache!r}: cut off during the copy")
            pwrite_full(to, data, at)
            at += len(data)
    header = cache._header._replace(uuid=os.urandom(16), boot=boot_id())
    pwrite_full(to, encode_page(header)[:128], 0)


