"""Tests of leat.Cache by one process, its threads and its files."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import operator
import os
import pickle
import random
import re
import resource
import struct
import sys
import threading
import unittest
import zlib
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import leat
from leat import _cache_file, _cache_state, _libc
from leat._cache_format import FROZEN, LOCK_FILL, LOCK_WRITE, TAIL, first_record, space

from .support import TestCase, needs, slow

ROOT = Path(__file__).parents[2]


def sample(i: int, size: int) -> bytes:
    """Return bytes that differ from entry to entry."""
    return random.Random(i).randbytes(size)


class Narrow:
    """Narrow is an integer with which nothing can be computed."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __lt__(self, other: Any) -> bool:
        return self.number < operator.index(other)

    def __ge__(self, other: Any) -> bool:
        return self.number >= operator.index(other)

    def __eq__(self, other: Any) -> bool:
        return self.number == operator.index(other)

    def __hash__(self) -> int:
        return hash(self.number)


class Cases(TestCase):
    def cache(self, slots: int = 10, **options: Any) -> leat.Cache:
        """Return a cache without a name in the test's directory."""
        cache = leat.Cache(slots, dir=self.dir, **options)
        self.addCleanup(cache.close)
        return cache

    def named(self, slots: int = 10, **options: Any) -> leat.Cache:
        """Return the cache named c in the test's directory."""
        cache = leat.Cache(slots, self.path("c"), **options)
        self.addCleanup(cache.close)
        return cache

    def patch(self, at: int, data: bytes) -> None:
        """Overwrite bytes of that cache's file."""
        with open(self.path("c"), "r+b") as f:
            f.seek(at)
            f.write(data)


class Entries(Cases):
    def test_put_and_get(self) -> None:
        c = self.cache(5)
        sizes = {0: 0, 1: 1, 2: 63, 3: 64, 4: 300_000}
        for i, size in sizes.items():
            self.assertNotIn(i, c)
            self.assertIsNone(c.get(i))
            self.assertIsNone(c.view(i))
            self.assertIs(c.put(i, sample(i, size)), True)
            self.assertIs(c.put(i, b"other"), False)
            self.assertIn(i, c)
        for _ in range(2):
            for i, size in sizes.items():
                self.assertEqual(c.get(i), sample(i, size))
                self.assertEqual(c.view(i), sample(i, size))
        self.assertEqual(len(c), 5)
        self.assertNotIn(5, c)
        self.assertNotIn(-1, c)
        self.assertNotIn("1", c)
        stats = c.stats()
        self.assertEqual((stats.slots, stats.stored, stats.refused_filled, stats.dead_bytes),
                         (5, 5, 5, 0))
        self.assertEqual(stats.bytes, first_record(5) + sum(map(space, sizes.values())))

    def test_slots_out_of_range(self) -> None:
        c = self.cache(5)
        c.put(4, b"last")
        for i in (-1, -5, 5, 1 << 40, 1 << 70):
            for call in (c.get, c.view, lambda i: c.put(i, b""), lambda i: c.get_or_fill(i, bytes)):
                with self.assertRaisesRegex(IndexError, f"slot {i}: expected 0 to 4"):
                    call(i)
        for i in ("1", 1.5, None):
            with self.assertRaises(TypeError):
                c.get(i)  # type: ignore[arg-type]

    def test_slots_of_narrow_integers(self) -> None:
        """NumPy's integers of 8 and 16 bits overflow in sums with what they can't hold."""
        for slots in (60_000, (1 << 28) + 1):
            c = self.cache(slots)
            for number in (3, 200, 59_999):
                i: Any = Narrow(number)
                self.assertIsNone(c.get(i))
                self.assertTrue(c.put(i, b"data"))
                c.get(number)
                for _ in range(2):
                    self.assertEqual((c.get(i), c.view(i), i in c), (b"data", b"data", True))
                self.assertEqual(c.get_or_fill(Narrow(7), bytes), b"")  # type: ignore[arg-type]

    def test_kinds_of_data(self) -> None:
        c = self.cache(6)
        memory = memoryview(b"0123456789")
        self.assertTrue(c.put(0, bytearray(b"abc")))
        self.assertTrue(c.put(1, memory[2:4]))
        self.assertTrue(c.put(2, memory.cast("B", (2, 5))))
        self.assertEqual([c.get(0), c.get(1), c.get(2)], [b"abc", b"23", b"0123456789"])
        with self.assertRaisesRegex(ValueError, "contiguous"):
            c.put(3, memory[::2])
        with self.assertRaises(TypeError):
            c.put(3, "text")  # type: ignore[arg-type]
        self.assertIsNone(c.get(3))

    def test_more_views_than_open_files(self) -> None:
        c = self.cache(300)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (c._lock_fd + 20, limits[1]))
        views = []
        for i in range(300):
            self.assertTrue(c.put(i, sample(i, 1000)))
            views.append(c.view(i))
            self.assertEqual(c.get(i), sample(i, 1000))
        for i, view in enumerate(views):
            self.assertEqual(view, sample(i, 1000))
            assert view is not None
            self.assertTrue(view.readonly)

    def test_views_are_read_only_and_outlive_close(self) -> None:
        c = self.cache()
        c.put(0, b"data")
        c.put(1, b"")
        late, empty = c.view(0), c.view(1)
        assert late is not None and empty is not None
        with self.assertRaises(TypeError):
            late[0] = 1
        c.close()
        self.assertEqual((late, bytes(empty)), (b"data", b""))

    def test_closed(self) -> None:
        c = self.cache()
        c.put(0, b"data")
        self.assertEqual(c.get(0), b"data")
        c.close()
        c.close()
        self.assertTrue(c.closed)
        for call in (lambda: c.get(0), lambda: c.view(0), lambda: c.put(0, b""), lambda: 0 in c,
                     c.freeze, c.stats, lambda: c.preserve(self.path("p")), lambda: c.handle,
                     lambda: c.get_or_fill(0, bytes), lambda: pickle.dumps(c), lambda: c.frozen):
            with self.assertRaises(leat.Closed):
                call()
        self.assertIn("closed", repr(c))
        with leat.Cache(1) as one:
            self.assertTrue(repr(one).startswith("<leat.Cache of 1 slot, without a name"))

    def test_close_that_fails_closes_the_file(self) -> None:
        c = self.named(durability="batch")
        c.put(0, b"data")
        mapped = c.view(0)
        descriptors = c._fd, c._lock_fd
        with mock.patch("os.fdatasync", side_effect=OSError(errno.EIO, "broken")):
            with self.assertRaisesRegex(OSError, "broken"):
                c.close()
        self.assertTrue(c.closed)
        self.assertEqual(mapped, b"data")
        for fd in descriptors:
            with self.assertRaises(OSError):
                os.fstat(fd)

    def test_reads_while_the_file_grows(self) -> None:
        c = self.cache(3000)
        rng = random.Random(1)
        for i in range(3000):
            self.assertTrue(c.put(i, sample(i, i % 700)))
            j = rng.randrange(i + 1)
            read = c.get(j) if i % 3 else c.view(j)
            self.assertEqual(read, sample(j, j % 700))
        self.assertEqual(c.stats().bad, 0)

    def test_sparse_table_of_many_slots(self) -> None:
        c = self.cache((1 << 30) + 1)
        last = 1 << 30
        self.assertIsNone(c.get(last))
        self.assertTrue(c.put(last, b"last"))
        self.assertEqual([c.get(last), c.get(last), c.get(5)], [b"last", b"last", None])
        with self.assertRaises(IndexError):
            c.get(last + 1)

    def test_threads_share_a_cache(self) -> None:
        c = self.cache(400)
        wins = [0] * 8
        errors = []

        def work(thread: int) -> None:
            order = list(range(400))
            random.Random(thread).shuffle(order)
            try:
                for i in order:
                    wins[thread] += c.put(i, sample(i, 1000))
                    assert c.get(i) == sample(i, 1000), i
                    assert c.get_or_fill(i, bytes) == sample(i, 1000), i
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((errors, sum(wins)), ([], 400))

    def test_mapping_that_another_thread_replaces(self) -> None:
        """Of two threads that map the file anew, the one with the earlier end may be later."""
        c = self.cache()
        earlier = c._fast
        c.put(0, b"data")

        def replace(frame: FrameType, event: str, _: Any) -> Any:
            if event == "return":
                c._fast = earlier
            return replace

        for read in (c.get, c.view):
            c._remap()
            c._fast[0][0] = _cache_state.VERIFIED
            sys.settrace(lambda frame, event, arg:
                         replace if frame.f_code.co_name == "_mapped" else None)
            try:
                data = read(0)
            finally:
                sys.settrace(None)
            self.assertIs(c._fast, earlier)
            self.assertEqual(data, b"data")

    def test_wrong_types(self) -> None:
        wrong: Any = "1"
        number: Any = 1
        for text, make in (("slots: got str", lambda: leat.Cache(wrong)),
                           ("path: got int", lambda: leat.Cache(1, number)),
                           ("dir: got int", lambda: leat.Cache(1, dir=number)),
                           ("handle: got int", lambda: leat.Cache.attach(number))):
            with self.assertRaisesRegex(TypeError, text):
                make()
        c = self.cache()
        for call in (c.get, c.view, c.get_array, lambda i: c.put(i, b""),
                     lambda i: c.get_or_fill(i, bytes)):
            for i in (wrong, 1.0, None):
                with self.assertRaisesRegex(TypeError, "slot: got .*, expected a whole number"):
                    call(i)
        with self.assertRaisesRegex(TypeError, "data: got str, expected bytes"):
            c.put(0, wrong)
        with self.assertRaisesRegex(TypeError, "function: got str, expected a function"):
            c.get_or_fill(0, wrong)
        with self.assertRaisesRegex(TypeError, "returned str, expected bytes"):
            c.get_or_fill(0, lambda: wrong)
        self.assertIsNone(c.get(0))

    def test_verify(self) -> None:
        for verify, reads in (("first", 1), ("always", 3), ("never", 0)):
            with self.named(verify=verify) as c:
                c.put(0, b"data")
            with self.named(verify=verify) as c:
                crc32 = mock.Mock(wraps=zlib.crc32)
                with mock.patch("leat._cache_read.crc32", crc32):
                    for _ in range(3):
                        self.assertEqual(c.get(0), b"data")
                self.assertEqual(crc32.call_count, reads, verify)
            os.unlink(self.path("c"))

    @needs("numpy")
    def test_arrays(self) -> None:
        import numpy
        arrays = [numpy.arange(24).reshape(2, 3, 4), numpy.asfortranarray(numpy.eye(3, 5)),
                  numpy.float32(2.5), numpy.zeros((0, 4)), numpy.array(["a", "bc"]),
                  numpy.arange(10)[::-2], numpy.array([(1, 2.5)], [("a", "i2"), ("b", ">f8")]),
                  numpy.array("2026-01-01", "M8[D]"), numpy.arange(30).reshape(5, 6)[1:, ::2],
                  numpy.zeros(2, [("größe", "f4")]), numpy.ones(2, [("高さ", "f4"), ("幅", "u1")]),
                  numpy.ones(3, [(f"field {n}", "f4") for n in range(600)])]
        c = self.cache(20)
        for i, a in enumerate(arrays):
            self.assertTrue(c.put_array(i, a))
            # By default, NumPy loads no long header.
            for b in (c.get_array(i), numpy.load(self.npy(c, i), allow_pickle=True)):
                a = numpy.asarray(a)
                self.assertEqual((b.shape, b.dtype), (a.shape, a.dtype))
                numpy.testing.assert_array_equal(a, b)
            self.assertFalse(c.get_array(i).flags.writeable)
            if a.size and a.dtype.names is None:
                self.assertTrue(c.get_array(i).flags.aligned)
        self.assertIsNone(c.get_array(19))
        with self.assertRaisesRegex(TypeError, "objects"):
            c.put_array(19, numpy.array([None]))
        with self.assertRaisesRegex(TypeError, "mask"):
            c.put_array(19, numpy.ma.masked_equal([1, 2], 2))
        with self.assertRaisesRegex(ValueError, "header"):
            c.put_array(19, numpy.zeros(1, [(f"field {n}", "f4") for n in range(60_000)]))
        self.assertIsNone(c.get_array(19))
        for bad in (b"data", b"\x93NUMPY\1\0v\0{", bytes(c.view(0))[:-1]):
            c = self.cache()
            c.put(0, bad)
            with self.assertRaisesRegex(ValueError, "entry 0 of the cache .*: "):
                c.get_array(0)

    def npy(self, c: leat.Cache, i: int) -> str:
        """Write an entry to a file."""
        data = c.get(i)
        assert data is not None
        Path(self.path("a.npy")).write_bytes(data)
        return self.path("a.npy")


class Limits(Cases):
    def test_max_bytes(self) -> None:
        most = first_record(10) + space(100) + 64 + 7
        c = self.cache(10, max_bytes=most)
        self.assertEqual(c.max_bytes, most)
        self.assertTrue(c.put(0, bytes(100)))
        with leat.Cache.attach(c.handle) as other:
            self.assertTrue(other.put(1, bytes(7)))
            self.assertFalse(c.frozen)
            with self.assertLogs("leat.cache", "WARNING") as logs:
                self.assertFalse(c.put(2, b""))
            self.assertIn("cache frozen: limit reached", logs.output[0])
            self.assertTrue(other.frozen)
            self.assertFalse(other.put(3, b""))
            self.assertEqual(other.get_or_fill(3, lambda: b"own"), b"own")
            self.assertNotIn(3, c)
        stats = c.stats()
        self.assertEqual((stats.refused_full, stats.refused_frozen, stats.bytes), (1, 2, most + 57))

    def test_bad_options(self) -> None:
        for error, options in (
                (ValueError, {"slots": 0}), (ValueError, {"slots": (1 << 40) + 1}),
                (TypeError, {"slots": 1.5}), (TypeError, {"slots": "3"}),
                (ValueError, {"max_bytes": 100}), (ValueError, {"max_bytes": "10X"}),
                (ValueError, {"max_bytes": -1}), (TypeError, {"max_bytes": 1e9}),
                (ValueError, {"verify": "sometimes"}), (ValueError, {"durability": "each"}),
                (ValueError, {"path": self.path("c"), "durability": "some"}),
                (ValueError, {"path": self.path("c"), "dir": self.dir}),
                (ValueError, {"path": self.path("c") + "/"}),
                (ValueError, {"path": self.path(".leat-cache-" + "0" * 32)}),
                (ValueError, {"path": self.path(".c.0123456789abcdef.leat-new")}),
                (leat.Error, {"dir": "/proc/self"}), (leat.Error, {"path": "/proc/self/c"})):
            with self.subTest(options), self.assertRaises(error):
                leat.Cache(**{"slots": 10, **options})
        self.assertEqual(os.listdir(self.dir), [])

    def test_sizes(self) -> None:
        from leat._units import parse_size
        for text, size in (("4096", 4096), ("500M", 500 << 20), (" 1.5 GiB ", 3 << 29),
                           ("2 kb", 2048), (7, 7), ("1T", 1 << 40)):
            self.assertEqual(parse_size(text, "x"), size)

    def test_largest_file_of_the_process(self) -> None:
        c = self.cache()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = os.fstat(c._fd).st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, before[1]))
        try:
            with self.assertLogs("leat.cache", "WARNING"):
                self.assertFalse(c.put(0, bytes(5000)))
            self.assertEqual(c.get_or_fill(1, lambda: bytes(6000)), bytes(6000))
            self.assertTrue(c.put(2, b"small"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertTrue(c.put(0, bytes(5000)))
        stats = c.stats()
        self.assertEqual((stats.stored, stats.refused_no_space, stats.dead_bytes), (2, 2, 0))
        self.assertFalse(stats.frozen)

    def test_full_disk(self) -> None:
        for call in ("os.pwritev", "leat._libc.allocate"):
            c = self.cache()
            tail = c._shared[TAIL]
            with mock.patch(call, side_effect=OSError(errno.ENOSPC, "full")):
                with self.assertLogs("leat.cache", "WARNING"):
                    self.assertFalse(c.put(0, b"data"))
                self.assertEqual(c.get_or_fill(0, lambda: b"own"), b"own")
            self.assertEqual((c._shared[TAIL], c.get(0)), (tail, None))
            self.assertTrue(c.put(0, b"data"))
            self.assertEqual(c.stats().refused_no_space, 2)

    def test_short_writes(self) -> None:
        real = os.pwritev

        def short(fd: int, parts: Any, at: int) -> int:
            for part in parts:
                if len(part):
                    return os.pwrite(fd, part[: (len(part) + 1) // 2], at)
            return real(fd, parts, at)

        c = self.cache()
        with mock.patch("os.pwritev", short):
            self.assertTrue(c.put(0, sample(0, 1000)))
            self.assertTrue(c.put(1, b""))
        self.assertEqual((c.get(0), c.get(1)), (sample(0, 1000), b""))

    def test_signal_during_an_allocation(self) -> None:
        real, calls = _libc._libc().fallocate, []

        def interrupted(*args: int) -> int:
            calls.append(args)
            if len(calls) % 2:
                ctypes.set_errno(errno.EINTR)
                return -1
            result: int = real(*args)
            return result

        c = self.cache()
        with mock.patch("leat._libc._libc", lambda: mock.Mock(fallocate=interrupted)):
            self.assertTrue(c.put(0, b"data"))
            self.assertEqual(len(calls), 2)
            with mock.patch("os.pwritev", side_effect=OSError(errno.ENOSPC, "full")):
                self.assertFalse(c.put(1, b"data"))
        self.assertEqual(len(calls), 4)

    def test_interrupted_put(self) -> None:
        c = self.cache()
        tail = c._shared[TAIL]
        for error in (KeyboardInterrupt, OSError(errno.EIO, "broken")):
            with mock.patch("os.pwritev", side_effect=error):
                with self.assertRaises((KeyboardInterrupt, OSError)):
                    c.put(0, b"data")
            self.assertEqual((c.get(0), c._shared[TAIL]), (None, tail))
            with leat.Cache.attach(c.handle) as other:  # the lock is free
                self.assertTrue(_cache_file.lock(other._lock_fd, LOCK_WRITE,
                                                 _cache_file.EXCLUSIVE))
        self.assertTrue(c.put(0, b"data"))


class Files(Cases):
    def test_named_cache_stays(self) -> None:
        with self.named(10, max_bytes="1M") as c:
            c.put(3, b"three")
            self.assertEqual(c.path, self.path("c"))
        self.assertEqual(os.stat(self.path("c")).st_mode & 0o777, 0o600)
        with self.named(10) as c:
            self.assertEqual((c.get(3), c.max_bytes, c.stats().stored), (b"three", 1 << 20, 1))
        with self.assertRaisesRegex(leat.Error, "it has 10 slots, expected 11"):
            self.named(11)
        with self.assertRaisesRegex(leat.Error, "max_bytes is 1048576, expected 2097152"):
            self.named(10, max_bytes="2M")
        self.assertEqual(os.listdir(self.dir), ["c"])

    def test_layout(self) -> None:
        with self.named(10) as c:
            c.put(3, b"three")
            uuid = c.uuid
        b = Path(self.path("c")).read_bytes()
        self.assertEqual(struct.unpack_from("<8sIIQQQII", b),
                         (b"LEATCCH1", 2, 0, 10, 4224, 0, 0, 0))
        self.assertEqual(b[48:64].hex(), uuid)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        self.assertEqual(b[64:80].hex(), boot)
        self.assertEqual(struct.unpack_from("<I", b, 124)[0], zlib.crc32(b[:124]))
        self.assertEqual(struct.unpack_from("<Q", b, 128)[0], 4224 + 128)
        self.assertEqual(struct.unpack_from("<10Q", b, 4096), (0, 0, 0, 4224) + (0,) * 6)
        self.assertEqual(struct.unpack_from("<8sQQQI", b, 4224),
                         (b"LEATREC1", 3, 5, 4224, zlib.crc32(b"three")))
        self.assertEqual(struct.unpack_from("<I", b, 4224 + 60)[0], zlib.crc32(b[4224:4224 + 60]))
        self.assertEqual(b[4224 + 64:], b"three")
        self.assertEqual(struct.unpack_from("<QQ", b, 448), (1, 128))

    def test_other_files_are_refused_and_unchanged(self) -> None:
        with self.named() as c:
            c.put(0, b"data")
        good = Path(self.path("c")).read_bytes()

        def changed(at: int, data: bytes, fix: bool = True) -> bytes:
            b = bytearray(good)
            b[at:at + len(data)] = data
            if fix and at < 124:
                struct.pack_into("<I", b, 124, zlib.crc32(b[:124]))
            return bytes(b)

        for why, data in (
                ("another kind", b"text"), ("another kind", b""), ("newer", changed(7, b"2")),
                ("newer", changed(8, b"\3")), ("cut off within", good[:4095]),
                ("damaged first page", changed(20, b"\1", False)), ("version 1", changed(8, b"\1")),
                ("slots", changed(16, b"\0")), ("slots", changed(24, b"\1")),
                ("cut off", good[:4200]), ("invalid", changed(40, b"\3")),
                ("invalid", changed(39, b"\x80")), ("invalid", changed(128, b"\1")),
                ("invalid", changed(128, bytes(8)))):
            Path(self.path("c")).write_bytes(data)
            with self.subTest(why), self.assertRaisesRegex(leat.Damaged, why):
                self.named()
            self.assertEqual(Path(self.path("c")).read_bytes(), data)

    def test_foreign_files(self) -> None:
        self.named().close()
        os.symlink(self.path("c"), self.path("link"))
        with self.assertRaisesRegex(leat.Error, "symbolic link"):
            leat.Cache(10, self.path("link"))
        os.chmod(self.path("c"), 0o622)
        with self.assertRaisesRegex(leat.Error, "other users may write"):
            self.named()
        os.mkfifo(self.path("pipe"))
        with self.assertRaises(leat.Damaged):
            leat.Cache(10, self.path("pipe"))
        os.mkdir(self.path("d"))
        with self.assertRaises(leat.Damaged):
            leat.Cache(10, self.path("d"))
        with self.assertRaises(FileNotFoundError):
            leat.Cache(10, self.path("none", "c"))

    def test_damaged_records_are_misses_and_replaced(self) -> None:
        for at, data in ((4224 + 64, b"X"), (4224 + 8, b"\1"), (4224 + 16, b"\xff"), (4224, b"X"),
                         (4096, b"\1"), (4096, struct.pack("<Q", 1 << 63)),
                         (4096, struct.pack("<Q", 1 << 40)), (4096, struct.pack("<Q", 64))):
            with self.subTest(at=at, data=data):
                with self.named() as c:
                    c.put(0, b"data")
                self.patch(at, data)
                with self.named() as c:
                    self.assertIsNone(c.get(0))
                    self.assertIsNone(c.view(0))
                    self.assertNotIn(0, c)
                    self.assertTrue(c.put(0, b"again"))
                    self.assertEqual((c.get(0), c.view(0)), (b"again", b"again"))
                    stats = c.stats()
                    self.assertEqual((stats.repaired, stats.bad), (1, 4))
                os.unlink(self.path("c"))

    def test_file_of_another_boot(self) -> None:
        with self.named() as c:
            c.put(0, b"data")
            c.put(1, b"lost")
        size = os.path.getsize(self.path("c"))
        with open(self.path("c"), "r+b") as f:
            page = bytearray(f.read(4096))
            page[64:80] = bytes(range(16))
            struct.pack_into("<I", page, 124, zlib.crc32(page[:124]))
            struct.pack_into("<Q", page, 128, 4224)
            f.seek(0)
            f.write(page)
        self.patch(4224 + 128 + 64, b"X")
        with self.named() as c:
            self.assertEqual((c._verify, c.get(0), c.get(1)), ("always", b"data", None))
            self.assertEqual(c._shared[TAIL], (size + 63) & -64)
            self.assertTrue(c.put(1, b"back"))
            self.assertEqual((c.get(0), c.get(1)), (b"data", b"back"))

    def test_tail_beyond_the_end(self) -> None:
        with self.named() as c:
            c.put(0, b"data")
            good = c._shared[TAIL]
            c._shared[TAIL] = good + 6400
            with self.named() as other:  # not alone
                self.assertEqual(other._shared[TAIL], good + 6400)
        with self.named() as c:
            self.assertEqual(c._shared[TAIL], good)
            self.assertTrue(c.put(1, b"one"))

    def test_copy_made_during_puts(self) -> None:
        with self.named() as c:
            tail = c._shared[TAIL]
            c.put(0, b"data")
            after = c._shared[TAIL]
        self.patch(128, struct.pack("<Q", tail))
        with self.named() as c:
            self.assertEqual((c._shared[TAIL], c.get(0)), (after, b"data"))

    def test_nameless_cache_leaves_nothing(self) -> None:
        with self.cache() as c:
            c.put(0, b"data")
            self.assertIsNone(c.path)
            self.assertEqual(os.listdir(self.dir), [])

    def test_hidden_names(self) -> None:
        """File systems without unnamed files."""
        real = os.open

        def without(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, "no unnamed files")
            return real(path, flags, *args, **kwargs)

        with mock.patch("os.open", without):
            c = self.cache()
            c.put(0, b"data")
            name, = os.listdir(self.dir)
            self.assertRegex(name, r"^\.leat-cache-[0-9a-f]{32}$")
            other = leat.Cache.attach(c.handle)
            c.close()
            self.assertEqual((os.listdir(self.dir), other.get(0)), ([name], b"data"))
            other.close()
            self.assertEqual(os.listdir(self.dir), [])
            # What a killed process leaves is swept, and nothing else.
            Path(self.path(name)).write_bytes(bytes(5000))
            Path(self.path(".leat-cache-" + "1" * 32)).write_bytes(b"text")
            c = self.cache()
            self.assertEqual(len(os.listdir(self.dir)), 2)
            self.assertFalse(os.path.exists(self.path(name)))
            c.close()
            os.unlink(self.path(".leat-cache-" + "1" * 32))
            Path(self.path(".c.0123456789abcdef.leat-new")).write_bytes(b"")
            Path(self.path(".d.0123456789abcdef.leat-new")).write_bytes(b"")
            with self.named() as c:
                c.put(0, b"data")
                c.preserve(self.path("p"))
            self.assertEqual(sorted(os.listdir(self.dir)),
                             [".d.0123456789abcdef.leat-new", "c", "p"])

    def test_local_file_systems_are_those_of_go(self) -> None:
        source = (ROOT / "internal/localdir/known_linux.go")
        texts = [p.read_text() for p in source.parent.glob("*.go")]
        found = {int(number, 16): name for text in texts for number, name in
                 re.findall(r'(0x[0-9a-f]+): \{"(\w+)", Local\}', text)}
        self.assertEqual(found, _libc.LOCAL)

    def test_default_directory(self) -> None:
        uid = os.geteuid()
        os.mkdir(self.path("open"), 0o777)
        os.mkdir(self.path("open", "leat"))
        os.chmod(self.path("open", "leat"), 0o777)
        Path(self.path("file")).write_text("")
        names = ("LEAT_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "SLURM_TMPDIR", "TMPDIR")
        for variables, want in (
                ({"LEAT_CACHE_DIR": "@/v/deep", "XDG_CACHE_HOME": "@/x"}, "v/deep"),
                ({"XDG_CACHE_HOME": "@/x", "HOME": "@/h"}, "x/leat"),
                ({"XDG_CACHE_HOME": "x", "HOME": "@/h"}, "h/.cache/leat"),
                ({"SLURM_TMPDIR": "@/s", "TMPDIR": "@/t"}, "s"),
                ({"HOME": "/proc/self", "TMPDIR": "@/t"}, f"t/leat-{uid}"),
                ({"XDG_CACHE_HOME": "@/open", "TMPDIR": "@/t"}, f"t/leat-{uid}"),
                ({"LEAT_CACHE_DIR": "/proc/self", "HOME": "@/h"}, ""),
                ({"HOME": "@/file", "TMPDIR": "@/file"}, "")):
            values = {name: variables.get(name, "").replace("@", self.dir) for name in names}
            with self.subTest(variables), mock.patch.dict(os.environ, values):
                if not want:
                    with self.assertRaises((leat.Error, OSError)):
                        _cache_file.default_directory()
                    continue
                self.assertEqual(_cache_file.default_directory(), self.path(want))

    def test_durability(self) -> None:
        for durability, flushes in (("none", 0), ("batch", 1), ("each", 6)):
            with mock.patch("os.fdatasync") as flush:
                c = self.named(durability=durability)
                flush.reset_mock()
                for i in range(3):
                    c.put(i, b"data")
                c.close()
                self.assertEqual(flush.call_count, flushes, durability)
            os.unlink(self.path("c"))


class Final(Cases):
    def test_freeze(self) -> None:
        c = self.named()
        c.put(0, b"data")
        c.freeze()
        c.freeze()
        self.assertTrue(c.frozen)
        self.assertFalse(c.put(1, b"late"))
        with self.named() as other:
            self.assertEqual((other.frozen, other.put(1, b"late"), other.get(0)),
                             (True, False, b"data"))

    def test_preserve_and_load(self) -> None:
        c = self.cache(100_000)
        entries = {i: sample(i, i % 500) for i in range(0, 100_000, 997)}
        for i, data in entries.items():
            c.put(i, data)
        with self.assertRaises(leat.Damaged):
            with self.named():
                leat.Cache.load(self.path("c"))
        self.assertEqual(c.preserve(self.path("p")), 0)
        self.assertTrue(c.stats().preserved)
        self.assertFalse(c.put(1, b"late"))
        with leat.Cache.load(self.path("p")) as p:
            for _ in range(2):
                self.assertEqual({i: p.get(i) for i in entries}, entries)
            self.assertIsNone(p.get(1))
            self.assertEqual((p.put(1, b"late"), p.put(0, b"late"), p.frozen), (False, False, True))
            self.assertEqual(p.get_or_fill(1, lambda: b"own"), b"own")
            p.freeze()
            self.assertEqual(p.preserve(self.path("q")), 0)
            stats = p.stats()
            self.assertEqual((stats.preserved, stats.refused_frozen, stats.refused_filled),
                             (True, 2, 1))
        with leat.Cache(100_000, self.path("q")) as q:
            self.assertEqual((q.get(997), q.put(1, b"late")), (entries[997], False))
        self.assertEqual(os.stat(self.path("p")).st_ino, os.stat(self.path("q")).st_ino)

    def test_existing_names(self) -> None:
        c = self.cache()
        c.put(0, b"data")
        Path(self.path("p")).write_text("text")
        with self.assertRaises(FileExistsError):
            c.preserve(self.path("p"))
        with self.assertRaises(IsADirectoryError):
            c.preserve(self.dir, overwrite=True)
        with self.assertRaises(FileNotFoundError):
            c.preserve(self.path("none", "p"))
        self.assertFalse(c.frozen)
        c.preserve(self.path("p"), overwrite=True)
        c.preserve(self.path("p"), overwrite=True)
        self.assertEqual(os.listdir(self.dir), ["p"])
        with leat.Cache.load(self.path("p")) as p:
            self.assertEqual(p.get(0), b"data")

    def test_damaged_entries_become_empty(self) -> None:
        with self.named() as c:
            for i in range(4):
                c.put(i, b"data")
        self.patch(4224 + 64, b"X")
        self.patch(4096 + 8 * 5, struct.pack("<Q", 4224 + 256))  # the record of slot 2
        with self.named() as c:
            self.assertEqual(c.preserve(self.path("p")), 2)
            self.assertEqual([c.get(i) for i in range(6)],
                             [None, b"data", b"data", b"data", None, None])

    def test_another_file_system(self) -> None:
        if os.stat("/dev/shm").st_dev == os.stat(self.dir).st_dev:
            self.skipTest("no second file system")
        path = f"/dev/shm/leat-test-{os.getpid()}"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        c = self.cache(1 << 20)
        c.put(1 << 19, b"data")
        c.preserve(path)
        with leat.Cache.load(path) as p:
            self.assertEqual((p.get(1 << 19), p.uuid == c.uuid), (b"data", False))
        self.assertLess(os.stat(path).st_blocks * 512, 1 << 20)

    def test_seal(self) -> None:
        with self.named() as c:
            c.put(1, b"one")
            c.put(0, b"zero")
            c.preserve(self.path("p"))
        b = Path(self.path("p")).read_bytes()
        index = struct.pack("<4Q", 0, 4224 + 128, 1, 4224)
        self.assertEqual(struct.unpack_from("<8sQQI", b, 320),
                         (b"PRESERVE", 2, 4224 + 256, zlib.crc32(index)))
        self.assertEqual(struct.unpack_from("<I", b, 380)[0], zlib.crc32(b[320:380]))
        self.assertTrue(struct.unpack_from("<Q", b, 128)[0] & FROZEN)


class Filling(Cases):
    @needs("numpy")
    def test_fill_by_an_index_without_hash(self) -> None:
        import numpy
        c = self.cache()
        self.assertEqual(c.get_or_fill(numpy.array(3), lambda: b"three"), b"three")
        self.assertEqual(c.get_or_fill(numpy.int8(3), lambda: b"other"), b"three")

    def test_one_thread_fills(self) -> None:
        c = self.cache()
        calls = []
        begin = threading.Barrier(8)
        release = threading.Event()

        def fill() -> bytes:
            calls.append(1)
            release.wait(60)
            return b"data"

        def work() -> None:
            begin.wait()
            got.append(c.get_or_fill(3, fill))

        got: list[bytes] = []
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        while not calls:
            pass
        release.set()
        for t in threads:
            t.join()
        self.assertEqual((got, len(calls), c.get(3)), ([b"data"] * 8, 1, b"data"))

    def test_errors_are_of_the_caller(self) -> None:
        c = self.cache()
        with self.assertRaises(ZeroDivisionError):
            c.get_or_fill(0, lambda: b"%d" % (1 // 0))
        with self.assertRaises(TypeError):
            c.get_or_fill(0, lambda: "text")  # type: ignore[arg-type, return-value]
        for wrong in (5, [1, 2]):  # of which bytes() makes bytes
            with self.assertRaises(TypeError):
                c.get_or_fill(0, lambda: wrong)  # type: ignore[arg-type, return-value]
        self.assertEqual(c.get_or_fill(0, lambda: bytearray(b"data")), b"data")

    def test_interrupt_at_the_end_of_a_fill(self) -> None:
        c = self.cache()
        real, interrupts = fcntl.fcntl, []
        unlock = _cache_file.lock_of(_cache_file.UNLOCKED, LOCK_FILL)

        def interrupted(fd: int, command: int, argument: bytes) -> Any:
            real(fd, command, argument)
            if argument == unlock and not interrupts:
                interrupts.append(argument)
                raise KeyboardInterrupt

        with mock.patch("fcntl.fcntl", interrupted), self.assertRaises(KeyboardInterrupt):
            c.get_or_fill(0, lambda: b"%d" % (1 // 0))
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(c.get_or_fill(0, lambda: b"data")),
                                  daemon=True)
        thread.start()
        thread.join(60)
        self.assertEqual(got, [b"data"])

    def test_fill_within_a_fill(self) -> None:
        c = self.cache()
        with self.assertRaisesRegex(leat.Error, "called by a function that fills"):
            c.get_or_fill(0, lambda: c.get_or_fill(1, bytes))
        c.put(1, b"there")
        self.assertEqual(c.get_or_fill(0, lambda: c.get_or_fill(1, bytes)), b"there")

    def test_put_during_a_fill_wins(self) -> None:
        c = self.cache()

        def fill() -> bytes:
            self.assertTrue(c.put(0, b"put"))
            return b"filled"

        self.assertEqual(c.get_or_fill(0, fill), b"put")
        self.assertEqual(c.stats().refused_filled, 1)

    def test_cache_closed_by_the_function(self) -> None:
        c = self.cache()

        def fill() -> bytes:
            c.close()
            return b"data"

        self.assertEqual(c.get_or_fill(0, fill), b"data")


class Handles(Cases):
    def test_bad_handles(self) -> None:
        c = self.cache()
        handle = c.handle
        prefix, boot, place, uuid = handle.split(":")
        for error, text in (
                (ValueError, ""), (ValueError, handle + "0"), (ValueError, handle.upper()),
                (ValueError, handle.replace("/", "/0")),
                (leat.Error, f"{prefix}:{'0' * 32}:{place}:{uuid}"),
                (leat.Error, f"{prefix}:{boot}:{place}:{'0' * 32}"),
                (leat.Error, f"{prefix}:{boot}:{os.getpid()}/0:{uuid}"),
                (leat.Error, f"{prefix}:{boot}:4194305/3:{uuid}")):
            with self.subTest(text), self.assertRaises(error):
                leat.Cache.attach(text)
        c.close()
        with self.assertRaises(leat.Error):
            leat.Cache.attach(handle)

    def test_pickles(self) -> None:
        for c in (self.cache(), self.named()):
            c.put(0, b"data")
            text = pickle.dumps(c)
            with pickle.loads(text) as same:
                self.assertTrue(same.put(1, b"one"))
                self.assertEqual((same.uuid, same.path, same.get(0), c.get(1)),
                                 (c.uuid, c.path, b"data", b"one"))
        c.close()
        with pickle.loads(text) as same:  # a named one stays
            self.assertEqual(same.get(1), b"one")
        with self.named() as c:
            text = pickle.dumps(c)
            os.rename(self.path("c"), self.path("moved"))
            with pickle.loads(text) as same:
                self.assertEqual(same.get(0), b"data")
            c.preserve(self.path("p"))
        with leat.Cache.load(self.path("p")) as p:
            text = pickle.dumps(p)
        with pickle.loads(text) as same:
            self.assertEqual((same.get(0), same.frozen), (b"data", True))


if __name__ == "__main__":
    unittest.main()
