"""Tests of leat.pfio, and pfio's own tests where LEAT_PEERS has it."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import leat
from leat.pfio import MultiprocessFileCache

from .support import TestCase, needs, peer, slow
from .test_cache_processes import FORK

PYTHON = Path(leat.__file__).parents[1]

# pfio's package imports clients of stores, which its caches don't need.
WITHOUT_CLIENTS = """
import sys, types
pfio = types.ModuleType("pfio")
pfio.__path__ = [sys.argv[1] + "/pfio"]
sys.modules["pfio"] = pfio
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import pfio.cache
"""


class Cases(TestCase):
    def cache(self, length: int = 10, **options: Any) -> MultiprocessFileCache:
        cache = MultiprocessFileCache(length, dir=self.dir, **options)
        self.addCleanup(cache.close)
        return cache


class Drop(Cases):
    def test_entries(self) -> None:
        c = self.cache()
        self.assertEqual((len(c), c.multiprocess_safe, c.multithread_safe), (10, True, True))
        self.assertIs(c.put(3, b"three"), True)
        self.assertIs(c.put(3, b"other"), False)
        self.assertEqual((c.get(3), c.get(4)), (b"three", None))
        for i in (-1, 10):
            for call in (c.get, lambda i: c.put(i, b""), lambda i: c.get_and_cache(i, bytes)):
                with self.assertRaises(IndexError):
                    call(i)
        self.assertEqual(c.get_and_cache(5, lambda i: b"%d" % i), b"5")
        self.assertEqual(c.get_and_cache(5, lambda i: b"other"), b"5")
        c.close()
        self.assertEqual((c.get(3), c.put(4, b""), os.listdir(self.dir)), (None, False, []))

    def test_objects(self) -> None:
        c = self.cache(do_pickle=True)
        value = {"a": [1, 2]}
        self.assertIs(c.get_and_cache(0, lambda i: value), value)
        self.assertEqual((c.get(0), c.get_and_cache(0, bytes)), (value, value))
        self.assertTrue(c.put(1, None))
        self.assertIsNone(c.get(1))
        # A function may use the cache, as with pfio.
        self.assertEqual(c.get_and_cache(2, lambda i: c.get_and_cache(3, lambda j: (i, j))), (2, 3))

    def test_bad_arguments(self) -> None:
        for options in ({"length": 0}, {"length": -1}, {"length": 1 << 64},
                        {"cache_size_limit": -1}, {"cache_size_limit": "10"}):
            with self.assertRaises(ValueError):
                self.cache(**options)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "length: got float"):
            self.cache(2.5)  # type: ignore[arg-type]
        self.assertEqual(os.listdir(self.dir), [])

    def test_limit_is_that_of_pfio(self) -> None:
        c = self.cache(20, cache_size_limit=16 * 20 + 100)
        other = pickle.loads(pickle.dumps(c))
        self.assertEqual([c.put(0, bytes(60)), other.put(1, bytes(40)), c.put(2, b"")],
                         [True, True, True])
        self.assertEqual([other.put(3, b"x"), c.put(4, b""), c.get(1), c.get(3)],
                         [False, False, bytes(40), None])
        self.assertEqual(c.get_and_cache(5, lambda i: b"own"), b"own")
        other.close()
        for limit in (0, float("inf")):
            with self.cache(10, cache_size_limit=limit) as c:
                self.assertTrue(c.put(0, bytes(1000)))

    def test_full_disk_warns(self) -> None:
        c = self.cache()
        with mock.patch("os.pwritev", side_effect=OSError(28, "full")):
            with self.assertWarns(RuntimeWarning):
                self.assertFalse(c.put(0, b"data"))
        self.assertTrue(c.put(0, b"data"))

    def test_workers(self) -> None:
        c = self.cache(do_pickle=True)
        texts = FORK.SimpleQueue()

        def work() -> None:
            c.put(0, "child")
            for call in (lambda: c.preserve("p"), lambda: c.preload("p")):
                try:
                    call()
                except RuntimeError as e:
                    texts.put(str(e))
            c.close()
            texts.put(c.get(0))

        p = FORK.Process(target=work)
        p.start()
        p.join(60)
        self.assertEqual([texts.get() for _ in range(3)],
                         ["Cannot preserve a cache in a worker process",
                          "Cannot preload a cache in a worker process", "child"])
        self.assertEqual((c.get(0), len(os.listdir(self.dir))), ("child", 1))

    def test_killed_process_leaves_a_name_that_the_next_removes(self) -> None:
        def work() -> None:
            c = MultiprocessFileCache(10, dir=self.dir)
            c.put(0, b"data")
            os.kill(os.getpid(), 9)

        p = FORK.Process(target=work)
        p.start()
        p.join(60)
        self.assertEqual(len(os.listdir(self.dir)), 1)
        with self.cache():
            self.assertEqual(len(os.listdir(self.dir)), 1)
        self.assertEqual(os.listdir(self.dir), [])

    def test_default_directory(self) -> None:
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.dir}):
            with MultiprocessFileCache(1) as c:
                self.assertEqual(c.dir, self.path("pfio"))
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "", "HOME": self.dir}):
            with MultiprocessFileCache(1) as c:
                self.assertEqual(c.dir, self.path(".cache", "pfio"))


class Files(Cases):
    def test_preserve_and_preload(self) -> None:
        c = self.cache(do_pickle=True)
        for i in (7, 2):
            c.put(i, [i])
        self.assertFalse(c.preload("p"))
        self.assertIs(c.preserve("p"), True)
        self.assertIs(c.preserve("p"), False)
        self.assertIs(c.preserve("p", overwrite=True), True)
        self.assertEqual((c.put(0, "late"), c.get(7), c.preload("p")), (False, [7], False))
        c.close()
        c = self.cache(do_pickle=True)
        c.put(1, "gone")
        self.assertIs(c.preload("p"), True)
        self.assertEqual([c.get(i) for i in (1, 2, 7)], [None, [2], [7]])
        self.assertEqual((c.put(1, "late"), c.get_and_cache(1, str)), (False, "1"))
        self.assertIs(c.preserve("q"), True)
        self.assertIs(c.preserve("q"), False)
        self.assertIs(c.preserve("p", overwrite=True), True)
        again = pickle.loads(pickle.dumps(c))
        self.assertEqual(again.get(2), [2])
        again.close()
        c.close()
        self.assertEqual(sorted(os.listdir(self.dir)), ["p", "q"])

    def test_layout(self) -> None:
        c = self.cache(4)
        c.put(2, b"two")
        c.put(0, b"")
        c.put(1, b"one")
        c.preserve("p")
        self.assertEqual(Path(self.path("p")).read_bytes(),
                         struct.pack("<8q", 67, 0, 67, 3, 64, 3, 0, -1) + b"twoone")

    def test_other_files_are_refused(self) -> None:
        index = 32
        for why, data in (
                ("needs an index of 32 bytes, but has 5", b"short"),
                ("within the index", struct.pack("<4q", 16, 4, 0, -1) + b"data"),
                ("truncated", struct.pack("<4q", index, 9, 0, -1) + b"data"),
                ("invalid", struct.pack("<4q", index, -2, 0, -1) + b"data"),
                ("it has more slots, at most 3", struct.pack("<4q", 48, 4, 0, -1) + bytes(20)),
                ("share bytes", struct.pack("<4q", index, 4, index + 2, 4) + b"123456"),
                ("no entries, but 4 bytes", struct.pack("<4q", 0, -1, 0, -1) + b"data")):
            Path(self.path("p")).write_bytes(data)
            c = self.cache(2)
            with self.subTest(why), self.assertRaisesRegex(leat.Damaged, why):
                c.preload("p")
            self.assertTrue(c.put(0, b"data"))
            c.close()


class Peer(Cases):
    def pfio(self, script: str, *args: str) -> str:
        """Run a script with pfio's own caches."""
        command = [sys.executable, "-B", "-c", WITHOUT_CLIENTS + script, peer("pfio"), str(PYTHON)]
        result = subprocess.run([*command, *args], capture_output=True, text=True, cwd=self.dir)
        if result.returncode:
            raise AssertionError(result.stdout + result.stderr)
        return result.stdout

    def test_files_both_ways(self) -> None:
        self.pfio("""
c = pfio.cache.MultiprocessFileCache(100, do_pickle=True, dir=".")
for i in range(0, 100, 3):
    c.put(i, {"sample": i})
assert c.preserve("theirs")
c.close()
""")
        c = self.cache(100, do_pickle=True)
        self.assertTrue(c.preload("theirs"))
        for i in range(100):
            self.assertEqual(c.get(i), None if i % 3 else {"sample": i})
        with self.assertRaises(leat.Damaged):
            self.cache(101).preload("theirs")
        c = self.cache(100, do_pickle=True)
        for i in range(0, 100, 7):
            c.put(i, {"ours": i})
        self.assertTrue(c.preserve("ours"))
        self.pfio("""
for kind in pfio.cache.MultiprocessFileCache, pfio.cache.FileCache:
    c = kind(100, do_pickle=True, dir=".")
    assert c.preload("ours")
    for i in range(100):
        assert c.get(i) == (None if i % 7 else {"ours": i}), i
    c.close()
""")

    @slow("runs pfio's tests")
    @needs("pytest", "numpy")
    def test_their_tests(self) -> None:
        """All of the multiprocess cache, but for two that patch os.pread."""
        out = self.pfio("""
import pytest
from leat.pfio import MultiprocessFileCache
pfio.cache.MultiprocessFileCache = MultiprocessFileCache
chosen = "multiprocess and not test_enospc and not test_enoent"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", chosen,
                      sys.argv[1] + "/tests/cache_tests"]))
""")
        self.assertRegex(out, r"\b40 passed, \d+ deselected, 4 xfailed")
