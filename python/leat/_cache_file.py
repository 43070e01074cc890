"""Files of caches: locks, opening, creating, hidden names, handles (docs/format/cache.md)."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import time
from typing import Callable, Optional

from . import _libc
from ._cache_format import (LOCK_HOLD, LOCK_OPEN, NAMELESS, PAGE, Header, boot_id, encode_page,
                            parse_page, pread_full, pwrite_full)
from .errors import Damaged, Error, NoSpace

_flock = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux
SHARED, EXCLUSIVE, UNLOCKED = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
SETLK = fcntl.F_OFD_SETLK

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

NAMELESS_NAME = re.compile(r"\.leat-cache-[0-9a-f]{32}")
TEMP_NAME = re.compile(r"(\..*\.)[0-9a-f]{16}\.leat-new", re.DOTALL)
HANDLE = re.compile(r"leat-cache1:([0-9a-f]{32}):([1-9][0-9]{0,9})/(0|[1-9][0-9]{0,9})"
                    r":([0-9a-f]{32})")


def lock_of(kind: int, at: int) -> bytes:
    """Return the argument of fcntl that locks or unlocks a byte."""
    return _flock.pack(kind, os.SEEK_SET, at, 1, 0)


def lock(fd: int, at: int, kind: int) -> bool:
    """Lock or unlock a byte of a file; report whether that did not conflict with another lock."""
    try:
        fcntl.fcntl(fd, SETLK, lock_of(kind, at))
    except OSError as e:
        if e.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def hold(fd: int, name: str) -> None:
    """Take the locks of a process that opens a file; the caller releases LOCK_OPEN."""
    end = time.monotonic() + 1
    while not lock(fd, LOCK_OPEN, EXCLUSIVE) and time.monotonic() < end:
        time.sleep(50e-6)
    share(fd, name)


def share(fd: int, name: str) -> None:
    """Take the lock that a process holds while it has a file open. A process that closes the file
    may hold the lock exclusively for a moment."""
    pause = 20e-6
    while not lock(fd, LOCK_HOLD, SHARED):
        if pause > 0.5:
            raise Error(f"cache {name}: another process is removing it")
        time.sleep(pause)
        pause *= 2


def close_locked(fd: int) -> None:
    """Unlock and close a file. A child that is about to start a program may have it too."""
    try:
        lock(fd, LOCK_HOLD, UNLOCKED)
    finally:
        os.close(fd)


def reopen(fd: int, flags: int) -> int:
    """Open the file of a descriptor once more, as a description with locks of its own."""
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)


def leads(path: str, fd: int) -> bool:
    """Report whether a path is a name of an open file."""
    try:
        named = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(named, os.fstat(fd))


def read_page(fd: int, name: str) -> tuple[Header, bytes]:
    """Read and check page 0."""
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        raise Damaged(f"cache {name}: not a regular file")
    page = pread_full(fd, PAGE, 0)
    return parse_page(page, facts.st_size, name), page


def check_own(fd: int, name: str) -> os.stat_result:
    """Raise an error unless an open file is a regular file of the user."""
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        raise Damaged(f"cache {name}: not a regular file")
    if facts.st_uid != os.geteuid():
        raise Error(f"cache {name}: it belongs to user {facts.st_uid}, not to user {os.geteuid()}")
    return facts


def check_name(path: str) -> None:
    """Raise an error for a name that would be swept."""
    name = os.path.basename(path)
    if not name:
        raise ValueError(f"cache {path!r}: names a directory, expected a file")
    if NAMELESS_NAME.fullmatch(name) or TEMP_NAME.fullmatch(name):
        raise ValueError(f"cache {path}: the name is reserved for temporary files")


def check_local(directory: str) -> None:
    """Raise an error unless a directory is on a local file system."""
    if not _libc.is_local(directory):
        raise Error(f"directory {directory}: not on a local file system that leat knows, "
                    "processes may not see each other's entries")


def open_own(path: str) -> int:
    """Open a named cache for writing and hold it. The error is FileNotFoundError if none exists."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise Error(f"cache {path}: it is a symbolic link") from None
        if e.errno in (errno.EISDIR, errno.ENXIO):
            raise Damaged(f"cache {path}: not a regular file") from None
        raise
    try:
        mode = check_own(fd, path).st_mode
        if mode & 0o022:
            raise Error(f"cache {path}: other users may write to it (mode {mode & 0o7777:04o}, "
                        "expected 0600)")
        hold(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def temp_name(name: str, id_: Optional[bytes] = None) -> str:
    """Return the hidden name of a file that will become name."""
    return temp_prefix(name) + (id_ or os.urandom(8))[:8].hex() + ".leat-new"


def temp_prefix(name: str) -> str:
    """Return the start of such names."""
    return "." + os.fsdecode(os.fsencode(name)[:228]) + "."


def create(directory: str, hidden: str, named: bool = False) -> tuple[int, str]:
    """Create an empty file that is held: without a name, else with a hidden one, which it returns.

    If named is set, it has the hidden name in any case.
    """
    flags = os.O_RDWR | os.O_CLOEXEC
    fd, path = -1, ""
    if not named:
        try:
            fd = os.open(directory, flags | os.O_TMPFILE, 0o600)
        except OSError as e:
            if e.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
                raise
    if fd < 0:
        path = os.path.join(directory, hidden)
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        if not lock(fd, LOCK_HOLD, SHARED) or path and not leads(path, fd):
            raise Error(f"directory {directory}: another process removes new files")
    except BaseException:
        os.close(fd)
        raise
    return fd, path


def discard(fd: int, path: str) -> None:
    """Close a file from create, and remove its hidden name."""
    if path and leads(path, fd):
        os.unlink(path)
    close_locked(fd)


def format_file(fd: int, header: Header, directory: str) -> None:
    """Make an empty file a cache."""
    try:
        os.ftruncate(fd, header.base)
        pwrite_full(fd, encode_page(header), 0)
    except OSError as e:
        if e.errno in (errno.EFBIG, errno.EINVAL):
            raise NoSpace(f"directory {directory}: {header.n} slots take a file of {header.base} "
                          "bytes, more than this process may write or the file system has") from e
        if e.errno in NO_SPACE:
            raise NoSpace(f"directory {directory}: {e.strerror}") from e
        raise


def new_header(n: int, max_bytes: int, durability: int, flags: int) -> Header:
    """Return the header of a new cache."""
    return Header(flags, n, max_bytes, durability, os.urandom(16), boot_id())


def create_named(path: str, n: int, max_bytes: int, durability: int) -> int:
    """Create a named cache. The error is FileExistsError if another process was faster."""
    directory, name = os.path.split(path)
    fd, hidden = create(directory, temp_name(name))
    try:
        format_file(fd, new_header(n, max_bytes, durability, 0), directory)
        os.fdatasync(fd)  # the name must not reach the disk before page 0
        if hidden:
            sweep(directory, temps_of(name))
        link(fd, path)
        if hidden:
            os.unlink(hidden)
    except BaseException:
        discard(fd, hidden)
        raise
    return fd


def create_nameless(directory: str, n: int, max_bytes: int, hidden: bool) -> tuple[int, str]:
    """Create a cache without a name, or with a hidden one, which it returns."""
    fd, path = create(directory, ".leat-cache-" + os.urandom(16).hex(), hidden)
    try:
        format_file(fd, new_header(n, max_bytes, 0, NAMELESS), directory)
        if path:
            sweep(directory, lambda name: bool(NAMELESS_NAME.fullmatch(name)))
    except BaseException:
        discard(fd, path)
        raise
    return fd, path


def link(fd: int, path: str) -> None:
    """Give an open file a name."""
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # dst_dir_fd makes Python call linkat, which follows links in /proc
        os.link(f"/proc/self/fd/{fd}", os.path.basename(path), dst_dir_fd=directory,
                follow_symlinks=True)
    finally:
        os.close(directory)


def temps_of(name: str) -> Callable[[str], bool]:
    """Return what matches the hidden names of files that were to become name."""
    def matches(other: str) -> bool:
        found = TEMP_NAME.fullmatch(other)
        return found is not None and found[1] == temp_prefix(name)
    return matches


def sweep(directory: str, matches: Callable[[str], bool]) -> None:
    """Remove files with matching names that killed processes left."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        if matches(name):
            try:
                remove_if_unlocked(os.path.join(directory, name))
            except OSError:
                pass  # leftovers do no harm


def remove_if_unlocked(path: str) -> None:
    """Remove a hidden file that no process holds."""
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            return
        if lock(fd, LOCK_HOLD, EXCLUSIVE) and leads(path, fd):
            if TEMP_NAME.fullmatch(os.path.basename(path)) or is_nameless(fd):
                os.unlink(path)
    finally:
        close_locked(fd)


def is_nameless(fd: int) -> bool:
    """Report whether a file is a cache without a name, or one that was not finished."""
    page = pread_full(fd, PAGE, 0)
    if not page.strip(b"\0"):
        return True
    if page[8:12] == b"\1\0\0\0":  # of an older leat, which sweeps it
        return False
    try:
        return bool(parse_page(page, 1 << 63, "").flags & NAMELESS)
    except Damaged:
        return False


def default_directory() -> str:
    """Return the directory of caches without a name, see docs/guide/configuration.md."""
    named = os.environ.get("LEAT_CACHE_DIR")
    if named:
        return use_directory(named)
    guesses = []
    cache, home, job = (os.environ.get(name, "") for name in
                        ("XDG_CACHE_HOME", "HOME", "SLURM_TMPDIR"))
    if os.path.isabs(cache):
        guesses.append(os.path.join(cache, "leat"))
    elif os.path.isabs(home):
        guesses.append(os.path.join(home, ".cache", "leat"))
    if os.path.isabs(job):
        guesses.append(job)
    else:
        guesses.append(os.path.join(os.environ.get("TMPDIR") or "/tmp", f"leat-{os.geteuid()}"))
    reasons = []
    for guess in guesses:
        try:
            directory = use_directory(guess)
            facts = os.stat(directory)
            named_facts = os.lstat(guess)
            if (facts.st_uid != os.geteuid() or facts.st_mode & 0o022
                    or stat.S_ISLNK(named_facts.st_mode) and named_facts.st_uid != os.geteuid()):
                raise Error(f"directory {guess}: it belongs to another user, or others may write "
                            "to it")
            return directory
        except (OSError, Error) as e:
            reasons.append(str(e))
    raise Error("no directory for caches, and LEAT_CACHE_DIR names none: " + "; ".join(reasons))


def use_directory(directory: str, anywhere: bool = False) -> str:
    """Make a directory if it is missing, check that it is local, and return its absolute path."""
    directory = os.path.abspath(directory)
    os.makedirs(directory, 0o700, exist_ok=True)
    if not anywhere:
        check_local(directory)
    return directory


def handle(fd: int, uuid: bytes) -> str:
    """Return the handle of a cache that this process has open as fd."""
    boot = boot_id()
    if boot == bytes(16):
        raise Error("handles of caches need /proc")
    return f"leat-cache1:{boot.hex()}:{os.getpid()}/{fd}:{uuid.hex()}"


def open_handle(text: str) -> tuple[int, bool]:
    """Open the file that a handle leads to, and hold it; report whether it is sealed."""
    from ._cache_format import is_sealed
    match = HANDLE.fullmatch(text)
    if match is None:
        raise ValueError(f"cache handle {text[:120]!r}: expected leat-cache1:BOOT:PID/FD:UUID")
    boot, pid, number, uuid = match.groups()
    if bytes.fromhex(boot) != boot_id():
        raise Error("cache handle: it was issued on another machine, or before a reboot")
    place = f"descriptor {number} of process {pid}"
    path = f"/proc/{pid}/fd/{number}"
    gone = f"cache handle: the process {pid} that issued it has ended or closed the cache"
    common = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    # O_PATH first: what is there may be a device or a pipe.
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except PermissionError:
        raise Error(f"cache handle: process {pid} denies access to its files") from None
    except OSError:
        raise Error(gone) from None
    try:
        facts = os.fstat(at)
        if not stat.S_ISREG(facts.st_mode):
            raise Error(gone)
        check_own(at, place)
        fd = os.open(f"/proc/self/fd/{at}", os.O_RDONLY | common)
        try:
            try:
                header, page = read_page(fd, place)
            except Damaged:
                raise Error(gone) from None
            if header.uuid.hex() != uuid:
                raise Error(gone)
            sealed = is_sealed(page)
            if not sealed:
                os.close(fd)
                fd = -1
                fd = os.open(f"/proc/self/fd/{at}", os.O_RDWR | common)
            hold(fd, place)
            return fd, sealed
        except BaseException:
            if fd >= 0:
                os.close(fd)
            raise
    finally:
        os.close(at)
