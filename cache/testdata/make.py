"""Makes the golden files of this folder from the description of the formats alone: python3 make.py [FOLDER].

Every byte is determined: running it again gives the same files (CPython 3.8 or later, no packages).
"""
import os
import struct
import sys
import zlib

TABLE = []
for k in range(256):
    for _ in range(8):
        k = (k >> 1) ^ (0x82F63B78 if k & 1 else 0)
    TABLE.append(k)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def up(n, step=64):
    return (n + step - 1) // step * step


ENTRIES = [(7, bytes(range(256)) * 5), (0, b"zero"), (1, b""), (19, b"last")]  # in order of arrival
N = 20
UUID = bytes(range(16))


def cache(n=N, entries=ENTRIES, version=2, frozen=True, sealed=True, dead=0, boot=bytes(16), flags=0):
    crc = crc32c if version == 1 else zlib.crc32
    base = up(4096 + 8 * n)
    page = bytearray(4096)
    page[0:8] = b"LEATCCH1"
    struct.pack_into("<IIQQQI", page, 8, version, flags, n, base, 0, 0)
    page[48:64] = UUID
    page[64:80] = boot
    struct.pack_into("<I", page, 124, crc(page[:124]))
    index, records, tail, end, room = [0] * n, b"", base + dead, base, 0
    records += bytes(dead)
    for slot, data in entries:
        head = bytearray(64)
        head[0:8] = b"LEATREC1"
        struct.pack_into("<QQQI", head, 8, slot, len(data), tail, crc(data))
        struct.pack_into("<I", head, 60, crc(head[:60]))
        index[slot] = tail
        records += bytes(up(len(records)) - len(records)) + bytes(head) + data
        end = tail + 64 + len(data)
        room += up(64 + len(data))
        tail = up(end)
    struct.pack_into("<Q", page, 128, tail | (1 << 63 if frozen else 0))
    # In version 2, one of the entries counts as put by plain stores.
    plain = up(64 + len(entries[0][1])) if version > 1 and entries else 0
    struct.pack_into("<QQ", page, 192, len(entries) - (plain > 0), room - plain)
    struct.pack_into("<QQ", page, 448, int(plain > 0), plain)
    if sealed:
        text = b"".join(struct.pack("<QQ", i, o) for i, o in enumerate(index) if o)
        seal = bytearray(64)
        seal[0:8] = b"PRESERVE"
        struct.pack_into("<QQI", seal, 8, len(entries), tail, crc(text))
        struct.pack_into("<I", seal, 60, crc(seal[:60]))
        page[320:384] = seal
    body = bytes(page) + struct.pack("<%dQ" % n, *index)
    return bytearray(body + bytes(base - len(body)) + records)


def damaged(offset, new, **how):
    b = cache(**how)
    b[offset : offset + len(new)] = new
    return b


def pfio(n, entries):
    index, data = [(0, -1)] * n, b""
    for slot, piece in entries:
        index[slot] = (16 * n + len(data), len(piece))
        data += piece
    return b"".join(struct.pack("<Qq", o, l) for o, l in index) + data


BASE = up(4096 + 8 * N)
SLOT = lambda i: 4096 + 8 * i
good = pfio(N, ENTRIES)

FILES = {
    # caches
    "good.cache": cache(),
    "dead.cache": cache(dead=640),
    "growing.cache": cache(frozen=False, sealed=False),
    "empty.cache": cache(entries=[]),
    "newer.cache": cache(version=3),
    "newer_magic.cache": damaged(0, b"LEATCCH2"),
    "older.cache": cache(version=0),
    "foreign.cache": bytearray(b"not a cache at all\n" * 400),
    "cut_page.cache": cache()[:1000],
    "cut_index.cache": cache()[:4200],
    "cut_data.cache": cache()[: BASE + 64 + 600],
    "page_bit.cache": damaged(50, b"\xff"),
    "data_bit.cache": damaged(BASE + 64 + 700, b"\xff"),
    "record_bit.cache": damaged(BASE + 16, b"\xff"),
    "slot_swapped.cache": damaged(SLOT(0), struct.pack("<Q", BASE)),
    "slot_outside.cache": damaged(SLOT(7), struct.pack("<Q", 1 << 40)),
    "slot_negative.cache": damaged(SLOT(7), struct.pack("<Q", (1 << 64) - 64)),
    "slot_odd.cache": damaged(SLOT(7), struct.pack("<Q", BASE + 1)),
    "slot_lost.cache": damaged(SLOT(7), bytes(8)),
    # caches of version 1
    "good_v1.cache": cache(version=1),
    "dead_v1.cache": cache(version=1, dead=640),
    "growing_v1.cache": cache(version=1, frozen=False, sealed=False),
    "data_bit_v1.cache": damaged(BASE + 64 + 700, b"\xff", version=1),
    "record_bit_v1.cache": damaged(BASE + 16, b"\xff", version=1),
    "slot_lost_v1.cache": damaged(SLOT(7), bytes(8), version=1),
    # pfio's
    "good.pfio": good,
    "empty.pfio": pfio(N, []),
    "killed.pfio": good[: 16 * 2] + struct.pack("<Qq", len(good), 100) + good[16 * 3 :],
    "overlap.pfio": good[: 16 * 2] + good[16 * 7 : 16 * 8] + good[16 * 3 :],
    "negative.pfio": good[: 16 * 2] + struct.pack("<Qq", 16 * N, -2) + good[16 * 3 :],
    "huge.pfio": good[: 16 * 2] + struct.pack("<Qq", (1 << 63) - 1, (1 << 63) - 1) + good[16 * 3 :],
    "in_index.pfio": good[: 16 * 2] + struct.pack("<Qq", 8, 4) + good[16 * 3 :],
}

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, data in FILES.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
