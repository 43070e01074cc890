"""Tests of leat.Cache when its processes die, the disk is full, or a DataLoader forks."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import unittest
from types import FrameType
from typing import Any, Callable

import leat

from .support import SHORT, TestCase, longer, needs, slow
from .support import leat as run_leat

PACKAGE = os.path.dirname(os.path.abspath(leat.__file__)) + os.sep
ALL = os.environ.get("LEAT_TEST_DIST") == "1"
STEP = 1 if ALL else 9 if SHORT else 3  # lines from one kill to the next


def data_of(i: int) -> bytes:
    return b"%d." % i * (i + 1) * 37


def die_at(line: int, work: Callable[[], Any]) -> bool:
    """Do work in a child that kills itself before the given line of the package that it executes.

    Return whether it came to that line.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            left = line

            def trace(frame: FrameType, event: str, arg: Any) -> Any:
                nonlocal left
                if not frame.f_code.co_filename.startswith(PACKAGE):
                    return None
                if event == "line":
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1
                return trace

            sys.settrace(trace)
            work()
            sys.settrace(None)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if status != 0:
        raise AssertionError(f"the child ended with status {status}")
    return False


class Kills(TestCase):
    def check(self, path: str, entries: int) -> None:
        """Have leat read the whole cache."""
        found = json.loads(run_leat("cache", "check", "--json", path))
        self.assertTrue(found["ok"])
        self.assertEqual(found["entries"], entries)

    def at_each_line(self, work: Callable[[leat.Cache, int], Any]) -> None:
        """Kill children at lines of work on a slot; the k-th is on slot k."""
        path, kills, visible = self.path("c"), 0, 0
        with leat.Cache(1000, path) as c:
            while die_at(kills * STEP, lambda: work(c, kills)):
                where = f"line {kills * STEP}"
                got = c.get(kills)
                self.assertIn(got, (None, data_of(kills)), where)
                visible += got is not None
                # No lock is left: others put this slot and the next ones.
                if got is None:
                    self.assertTrue(c.put(kills, data_of(kills)), where)
                self.assertEqual(c.get(kills), data_of(kills), where)
                kills += 1
            self.assertEqual(c.get(kills), data_of(kills))
            self.assertGreater(kills * STEP, 40)
            self.assertGreater(visible, 0)  # some are killed after the entry is there
            self.assertLess(visible, kills)
            with leat.Cache.attach(c.handle, verify="always") as other:
                for i in range(kills + 1):
                    self.assertEqual(other.get(i), data_of(i))
            self.assertEqual(c.stats().bad, 0)
            self.check(path, kills + 1)
        with leat.Cache(1000, path) as c:  # alone, so the tail may go back
            self.assertTrue(c.put(999, b"last"))
            self.check(path, kills + 2)

    @longer
    def test_put(self) -> None:
        self.at_each_line(lambda c, i: c.put(i, data_of(i)))

    @longer
    def test_get_or_fill(self) -> None:
        self.at_each_line(lambda c, i: c.get_or_fill(i, lambda: data_of(i)))

    @slow("forks for each line")
    def test_preserve(self) -> None:
        line, killed = 0, True
        while killed:
            path, final = self.path(f"c{line}"), self.path(f"p{line}")
            with leat.Cache(30, path) as c:
                for i in range(10):
                    c.put(i, data_of(i))
                killed = die_at(line, lambda: c.preserve(final))
                for i in range(10):
                    self.assertEqual(c.get(i), data_of(i), f"line {line}")
                if os.path.exists(final):
                    with leat.Cache.load(final) as p:
                        for i in range(10):
                            self.assertEqual(p.get(i), data_of(i), f"line {line}")
                elif not c.frozen:
                    self.assertTrue(c.put(10, data_of(10)))
                self.assertEqual(c.preserve(final, overwrite=True), 0)
                self.assertFalse(c.put(11, b"late"))
            if line % 24 == 0:
                with leat.Cache.load(final) as p:
                    entries = 10 + (10 in p)
                self.check(final, entries)
            os.unlink(path)
            os.unlink(final)
            line += 4 * STEP
        self.assertGreater(line, 40)
        run_leat("cache", "gc", self.dir)
        self.assertEqual(os.listdir(self.dir), [])

    def test_entry_dropped_after_it_was_read(self) -> None:
        """What one process has verified may be damaged later; another one then drops it."""
        with leat.Cache(100, self.path("c")) as c, leat.Cache(100, self.path("c")) as other:
            for i in (3, 4):
                other.put(i, data_of(i))
                self.assertEqual(c.get(i), data_of(i))
                self.assertEqual(c.get(i), data_of(i))  # from the mapping
            with open(self.path("c"), "r+b") as f:
                at = f.read().index(data_of(3))
                f.seek(at)
                f.write(b"damaged")
            self.assertEqual(other.preserve(self.path("p")), 1)
            self.assertEqual((c.get(3), c.view(3), 3 in c), (None, None, False))
            self.assertEqual(c.get(4), data_of(4))

    @slow("forks for each line")
    def test_create(self) -> None:
        line = 0
        while die_at(line, lambda: leat.Cache(10, self.path("new")).put(1, b"one")):
            with leat.Cache(10, self.path("new")) as c:
                c.put(1, b"one")
                self.assertEqual(c.get(1), b"one")
            os.unlink(self.path("new"))
            line += 4 * STEP
        os.unlink(self.path("new"))
        run_leat("cache", "gc", self.dir)
        self.assertEqual(os.listdir(self.dir), [])


class FullDisk(TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small file system")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "leat-test", self.dir],
                                 capture_output=True)
        if mounted.returncode:
            self.skipTest(f"mount: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.dir], check=True)

    def fill_it(self, c: leat.Cache) -> dict[int, bytes]:
        """Put until the disk is full, in slots on many pages of the index; return what was put."""
        stored, refused = {}, 0
        for k in range(5000):
            i = k * 199 % len(c)
            data = data_of(k % 50) if refused % 2 == 0 else b"small"
            if c.put(i, data):
                stored[i] = data
            else:
                refused += 1
            if refused == 20:
                break
        self.assertEqual(refused, 20)
        return stored

    def test_puts_are_refused_until_there_is_space(self) -> None:
        with open(self.path("other"), "wb") as f:
            f.write(bytes(400_000))
        with leat.Cache(100_000, self.path("c")) as c:
            stored = self.fill_it(c)
            self.assertGreater(len(stored), 5)
            self.assertEqual((c.stats().refused_no_space, c.stats().dead_bytes, c.frozen),
                             (20, 0, False))
            with leat.Cache.attach(c.handle) as other:  # holes are read too
                for i in range(0, len(c), 97):
                    self.assertEqual(other.get(i), stored.get(i))
                for i, data in stored.items():
                    self.assertEqual(other.get(i), data)
            own, kept = bytes(20_000), bytes(30_000)
            self.assertEqual(c.get_or_fill(99_999, lambda: own), own)
            self.assertIsNone(c.get(99_999))
            os.unlink(self.path("other"))
            time.sleep(0.2)  # for which a process considers the disk full
            self.assertEqual(c.get_or_fill(99_999, lambda: kept), kept)
            self.assertEqual(c.get(99_999), kept)
            found = json.loads(run_leat("cache", "check", "--json", self.path("c")))
            self.assertEqual((found["ok"], found["entries"]), (True, len(stored) + 1))

    def test_processes_fill_it_together(self) -> None:
        fork = multiprocessing.get_context("fork")
        with leat.Cache(100_000, self.path("c")) as c:
            children = [fork.Process(target=self.fill_it, args=(c,)) for _ in range(3)]
            for p in children:
                p.start()
            for p in children:
                p.join(60)
                self.assertEqual(p.exitcode, 0)
            found = json.loads(run_leat("cache", "check", "--json", self.path("c")))
            self.assertTrue(found["ok"])
            self.assertGreater(found["entries"], 5)
            self.assertEqual((c.stats().bad, c.frozen), (0, False))


class Loader(TestCase):
    """torch's DataLoader with workers of every start method."""

    @unittest.skipUnless(ALL, "in make test-all: imports torch")
    @needs("torch")
    def test_epochs(self) -> None:
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                reads = self.path(method)
                with leat.Cache(64, dir=self.dir) as cache:
                    self.run_epochs(cache, method, reads)
                    self.assertEqual(cache.stats().stored, 64)
                # Each sample was read once by all workers of all epochs.
                self.assertEqual(os.path.getsize(reads), 64)

    def run_epochs(self, cache: leat.Cache, method: str, reads: str) -> None:
        import torch.utils.data
        loader: Any = torch.utils.data.DataLoader(
            Samples(cache, reads), batch_size=8, shuffle=True, num_workers=3,
            multiprocessing_context=method)
        for _ in range(3):
            seen = []
            for numbers, sums in loader:
                for i, total in zip(numbers.tolist(), sums.tolist()):
                    self.assertEqual(total, sum(data_of(i)))
                    seen.append(i)
            self.assertEqual(sorted(seen), list(range(64)))


class Samples:
    """Samples is a data set whose samples come from a cache."""

    def __init__(self, cache: leat.Cache, reads: str) -> None:
        self.cache, self.reads = cache, reads

    def __len__(self) -> int:
        return len(self.cache)

    def __getitem__(self, i: int) -> tuple[int, int]:
        return i, sum(self.cache.get_or_fill(i, lambda: self.read(i)))

    def read(self, i: int) -> bytes:
        fd = os.open(self.reads, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, b"x")
        os.close(fd)
        return data_of(i)


if __name__ == "__main__":
    unittest.main()
