"""The format of cache files, version 2: docs/format/cache.md."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from typing import NamedTuple, Optional, Union

from .errors import Damaged, Error

PAGE = 4096  # page 0, and pages of the index
SLOTS_ON_PAGE = PAGE // 8
HEAD = 64  # bytes of a record's header
ALIGN = 64
MAX_SLOTS = 1 << 40
MAX_OFFSET = 1 << 62

# Numbers of 8-byte words in the file.
TAIL = 16
WAIT = 17
COUNTERS_ATOMIC = 24
COUNTERS_PLAIN = 56
FIRST_SLOT = 512

FROZEN = 1 << 63  # a bit of the tail
NAMELESS = 1  # a flag

# Bytes that are locked.
LOCK_HOLD = 1 << 61
LOCK_WRITE = LOCK_HOLD + 1
LOCK_OPEN = LOCK_HOLD + 2
LOCK_FILL = 1 << 62  # + slot

# Counters, in their order. DATA_BYTES exists only among those of plain stores.
(STORED, STORED_BYTES, REFUSED_FILLED, REFUSED_RACE, REFUSED_FROZEN, REFUSED_FULL, REFUSED_NO_SPACE,
 BAD, REPAIRED, FAULTS) = range(10)
COUNTERS = 10
DATA_BYTES = 10

MAGIC = b"LEATCCH1"
RECORD_MAGIC = b"LEATREC1"
SEAL_MAGIC = b"PRESERVE"
VERSION = 2
SEAL_AT = 320

DURABILITY = ("none", "batch", "each")

_page = struct.Struct("<8sIIQQQII16s16s44xI")
_record = struct.Struct("<8sQQQI24xI")
_seal = struct.Struct("<8sQQI32xI")
slot_entry = struct.Struct("<QQ")


class Header(NamedTuple):
    """Header is the part of page 0 that never changes."""

    flags: int
    n: int
    max_bytes: int
    durability: int
    uuid: bytes
    boot: bytes

    @property
    def base(self) -> int:
        """Where the first record begins."""
        return first_record(self.n)


class Record(NamedTuple):
    """Record is a record's header."""

    slot: int
    length: int
    offset: int
    sum: int


def round_up(n: int, step: int) -> int:
    """Round up to a multiple of a power of two."""
    return (n + step - 1) & -step


def first_record(n: int) -> int:
    """Return where the records of a cache of n slots begin."""
    return round_up(PAGE + 8 * n, ALIGN)


def space(length: int) -> int:
    """Return what the record of an entry takes in the file."""
    return round_up(HEAD + length, ALIGN)


def encode_page(header: Header) -> bytes:
    """Return page 0 of a new cache."""
    if sys.byteorder != "little":
        raise Error("caches need a little-endian machine")
    fixed = _page.pack(MAGIC, VERSION, header.flags, header.n, header.base, header.max_bytes,
                       header.durability, 0, header.uuid, header.boot, 0)[:124]
    page = fixed + struct.pack("<IQ", zlib.crc32(fixed), header.base)
    return page.ljust(PAGE, b"\0")


def parse_page(page: bytes, size: int, name: str) -> Header:
    """Parse page 0 of a file of a size. The error is Damaged, with the name."""
    def bad(why: str) -> Damaged:
        return Damaged(f"cache {name}: {why}")

    if sys.byteorder != "little":
        raise Error("caches need a little-endian machine")
    if len(page) < 8 or page[:7] != MAGIC[:7]:
        raise bad("another kind of file")
    version = int.from_bytes(page[8:12], "little") if len(page) >= 12 else 0
    if page[:8] != MAGIC or version > VERSION:
        raise bad("made by a newer leat")
    if len(page) < PAGE:
        raise bad("cut off within its first page")
    if version == 1:
        raise bad("version 1 of the format, expected 2")
    (_, _, flags, n, base, max_bytes, durability, _, uuid, boot, sum_) = _page.unpack(page[:128])
    if sum_ != zlib.crc32(page[:124]) or version < 1:
        raise bad("damaged first page")
    if not 1 <= n <= MAX_SLOTS or base != first_record(n):
        raise bad(f"invalid first page ({n} slots)")
    if size < base:
        raise bad(f"cut off: {size} bytes, its {n} slots alone take {base}")
    tail = int.from_bytes(page[128:136], "little") & ~FROZEN
    if max_bytes >> 63 or durability > 2 or tail < base or tail % ALIGN or tail > MAX_OFFSET:
        raise bad("invalid first page")
    return Header(flags, n, max_bytes, durability, uuid, boot)


def encode_record(record: Record) -> bytes:
    """Return the 64 bytes of a record's header."""
    head = _record.pack(RECORD_MAGIC, record.slot, record.length, record.offset, record.sum, 0)[:60]
    return head + zlib.crc32(head).to_bytes(4, "little")


def parse_record(head: bytes, slot: int, offset: int) -> Optional[Record]:
    """Parse a record's header; None unless it is valid for the slot at the offset."""
    if len(head) < HEAD:
        return None
    magic, its_slot, length, its_offset, sum_, head_sum = _record.unpack(head)
    if (magic != RECORD_MAGIC or its_slot != slot or its_offset != offset
            or length > MAX_OFFSET - HEAD - offset or head_sum != zlib.crc32(head[:60])):
        return None
    return Record(slot, length, offset, sum_)


def encode_seal(entries: int, tail: int, index: int) -> bytes:
    """Return the seal of a preserved cache."""
    seal = _seal.pack(SEAL_MAGIC, entries, tail, index, 0)[:60]
    return seal + zlib.crc32(seal).to_bytes(4, "little")


def is_sealed(page: bytes) -> bool:
    """Report whether page 0 has a seal."""
    seal = page[SEAL_AT:SEAL_AT + 64]
    return (seal[:8] == SEAL_MAGIC and int.from_bytes(seal[60:], "little") == zlib.crc32(seal[:60])
            and page[135] & 0x80 != 0)


def boot_id() -> bytes:
    """Return the id of this boot of the machine, zeros where it is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as f:
            id_ = bytes.fromhex(f.read().decode("ascii").replace("-", "").strip())
    except (OSError, ValueError):
        return bytes(16)
    return id_ if len(id_) == 16 else bytes(16)


def pread_full(fd: int, length: int, at: int) -> bytes:
    """Read length bytes at an offset, fewer only at the end of the file."""
    data = os.pread(fd, min(length, 1 << 30), at)
    if len(data) == length or not data:
        return data
    parts, done = [data], len(data)
    while done < length:
        data = os.pread(fd, min(length - done, 1 << 30), at + done)
        if not data:
            break
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def pwrite_full(fd: int, data: Union[bytes, memoryview], at: int) -> None:
    """Write all bytes at an offset."""
    view = memoryview(data)
    while view:
        n = os.pwrite(fd, view[:1 << 30], at)
        view, at = view[n:], at + n
