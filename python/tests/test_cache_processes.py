"""Tests of leat.Cache by several processes: forks, spawned ones, and kills."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import random
import signal
import threading
import time
import unittest
from multiprocessing import process
from typing import Any, Callable
from unittest import mock

import leat
from leat import _cache_file, _cache_format, _cache_write

from .support import TestCase, slow

FORK = multiprocessing.get_context("fork")
Process = process.BaseProcess


def data_of(i: int) -> bytes:
    """Return the data that all processes put in slot i."""
    return random.Random(i).randbytes(i * 37 % 3000)


def put_all(cache: leat.Cache, seed: int) -> int:
    """Put all entries in another order, and check what is there; return how many it stored."""
    order = list(range(len(cache)))
    random.Random(seed).shuffle(order)
    stored = 0
    for i in order:
        stored += cache.put(i, data_of(i))
        if cache.get(i) != data_of(i):
            raise AssertionError(f"entry {i} is another one")
    return stored


def fill_all(cache: leat.Cache, seed: int) -> int:
    """Fill all entries in another order; return how many it filled."""
    order = list(range(len(cache)))
    random.Random(seed).shuffle(order)
    filled = []
    for i in order:
        if cache.get_or_fill(i, lambda: filled.append(i) or data_of(i)) != data_of(i):
            raise AssertionError(f"entry {i} is another one")
    return len(filled)


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait for a condition, at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited for a minute")
        time.sleep(0.001)


class Cases(TestCase):
    def cache(self, slots: int = 10) -> leat.Cache:
        cache = leat.Cache(slots, dir=self.dir)
        self.addCleanup(cache.close)
        return cache

    def fork(self, work: Callable[[], Any]) -> Process:
        """Start work in a forked process."""
        p = FORK.Process(target=work)
        p.start()
        self.addCleanup(p.kill)
        return p

    def check(self, p: Process, code: int = 0) -> None:
        p.join(60)
        self.assertEqual(p.exitcode, code)


class Forks(Cases):
    def test_parent_and_child_share(self) -> None:
        c = self.cache(300)
        children = [self.fork(lambda k=k: put_all(c, k)) for k in range(3)]
        stored = put_all(c, 9)
        for p in children:
            self.check(p)
        self.assertLess(stored, 301)
        self.assertEqual(c.stats().stored, 300)
        for i in range(300):
            self.assertEqual(c.get(i), data_of(i))

    def test_each_entry_is_filled_once(self) -> None:
        c = self.cache(200)
        with concurrent.futures.ProcessPoolExecutor(4, mp_context=FORK) as pool:
            filled = list(pool.map(fill_all, [c] * 4, range(4)))
        self.assertEqual((sum(filled), c.stats().stored), (200, 200))

    def test_child_keeps_no_locks_of_its_parent(self) -> None:
        c = self.cache()
        ready, asleep, end = FORK.Event(), FORK.Event(), FORK.Event()
        self.addCleanup(end.set)

        def fill_and_fork() -> bytes:
            if os.fork() == 0:  # a child that outlives its parent
                asleep.set()
                end.wait(60)
                os._exit(0)
            ready.set()
            time.sleep(60)
            return b"never"

        p = self.fork(lambda: c.get_or_fill(0, fill_and_fork))
        self.assertTrue(ready.wait(60) and asleep.wait(60))
        p.kill()
        self.assertEqual(c.get_or_fill(0, lambda: b"next"), b"next")

    def test_forks_during_puts_of_threads(self) -> None:
        c = self.cache(2000)
        stop = threading.Event()

        def put() -> None:
            for i in range(1000):
                c.put(i, data_of(i))
            stop.set()

        thread = threading.Thread(target=put)
        thread.start()
        k = 1000
        while not stop.is_set() or k == 1000:
            self.check(self.fork(lambda: c.put(k, data_of(k)) or os._exit(1)))
            k += 1
        thread.join()
        for i in range(k):
            self.assertEqual(c.get(i), data_of(i))

    def test_interrupt_while_a_fork_waits_for_a_put(self) -> None:
        """The fork goes on without the lock. The child does not use its parent's locks."""
        c, other = self.cache(), self.cache()

        slot, mutex = _cache_format.LOCK_FILL + 1, c._mutex
        self.assertTrue(_cache_file.lock(c._lock_fd, slot, _cache_file.EXCLUSIVE))
        c._mutex = mock.Mock(acquire=mock.Mock(side_effect=KeyboardInterrupt))
        with mock.patch("sys.unraisablehook") as hook:
            pid = os.fork()
            if pid == 0:
                alone = not _cache_file.lock(c._lock_fd, slot, _cache_file.EXCLUSIVE)
                os._exit(not (alone and c.put(0, b"child") and other.put(0, b"child")))
        c._mutex = mutex
        _, status = os.waitpid(pid, 0)
        self.assertEqual((status, hook.call_count), (0, 1))
        self.assertEqual((c.get(0), other.get(0)), (b"child", b"child"))
        self.assertTrue(c.put(1, b"parent") and other.put(1, b"parent"))

    def test_child_waits_for_a_process_that_closes(self) -> None:
        """One that closes the cache has the lock of all others alone for a moment."""
        c = self.cache()
        real, refused = _cache_file.lock, []

        def busy(fd: int, at: int, kind: int) -> bool:
            if at == _cache_format.LOCK_HOLD and len(refused) < 3:
                refused.append(at)
                return False
            return real(fd, at, kind)

        def work() -> None:
            with open(f"/proc/self/fd/{c._lock_fd}", "r+b") as other:
                os._exit(real(other.fileno(), _cache_format.LOCK_HOLD, _cache_file.EXCLUSIVE))

        real(c._lock_fd, _cache_format.LOCK_HOLD, _cache_file.UNLOCKED)
        with mock.patch("leat._cache_file.lock", busy), mock.patch("leat._cache.lock", busy):
            p = self.fork(work)
        self.check(p)

    def test_cache_closed_in_one_of_them(self) -> None:
        c = self.cache()
        c.put(0, b"data")
        self.check(self.fork(c.close))
        self.assertEqual(c.get(0), b"data")
        closed = FORK.Event()
        p = self.fork(lambda: os._exit(not (closed.wait(60) and c.get(0) == b"data"
                                            and c.put(1, b"one"))))
        c.close()
        closed.set()
        self.check(p)

    def test_hidden_name_goes_with_the_last(self) -> None:
        c = leat.Cache.__new__(leat.Cache)
        c._create(self.dir, 10, 0, "first", True)
        ready, begin = FORK.Event(), FORK.Event()
        p = self.fork(lambda: ready.set() or begin.wait(60) and c.close())
        self.assertTrue(ready.wait(60))
        c.close()
        self.assertEqual(len(os.listdir(self.dir)), 1)
        begin.set()
        self.check(p)
        self.assertEqual(os.listdir(self.dir), [])

    def test_child_that_could_not_open_the_file_again(self) -> None:
        """It has its parent's locks, and must not give them up."""
        c = leat.Cache.__new__(leat.Cache)
        c._create(self.dir, 10, 0, "first", True)
        self.addCleanup(c.close)

        def work() -> None:
            try:
                c.put(0, b"data")
            except leat.Error:
                c.close()
                os._exit(7)

        with mock.patch("leat._cache_file.reopen", side_effect=OSError(24, "too many open files")):
            self.check(self.fork(work), 7)
        self.assertEqual(len(os.listdir(self.dir)), 1)
        with open(f"/proc/self/fd/{c._lock_fd}", "r+b") as other:
            self.assertFalse(_cache_file.lock(other.fileno(), _cache_format.LOCK_HOLD,
                                              _cache_file.EXCLUSIVE))
        self.assertTrue(c.put(0, b"data"))

    def test_pool_of_forkserver(self) -> None:
        self.start("forkserver")

    @slow("starts interpreters")
    def test_pool_of_spawn(self) -> None:
        self.start("spawn")

    def start(self, method: str) -> None:
        c = self.cache(100)
        named = leat.Cache(100, self.path("c"))
        self.addCleanup(named.close)
        with multiprocessing.get_context(method).Pool(2) as pool:
            for cache in (c, named):
                stored = pool.starmap(put_all, [(cache, 1), (cache, 2)])
                self.assertEqual(sum(stored), 100)
                self.assertEqual([cache.get(i) for i in range(100)], list(map(data_of, range(100))))


class Kills(Cases):
    def kill_at(self, name: str, c: leat.Cache, after: bool) -> None:
        """Kill a child in a put, before or after it calls a function."""
        module, function = name.rsplit(".", 1)
        target = {"os": os, "leat._cache_write": _cache_write, "leat._libc": leat._libc}[module]
        real = getattr(target, function)

        def work() -> None:
            def killer(*args: Any, **kwargs: Any) -> Any:
                if after:
                    real(*args, **kwargs)
                os.kill(os.getpid(), signal.SIGKILL)

            with mock.patch(name, killer):
                c.put(0, b"killed")

        self.check(self.fork(work), -signal.SIGKILL)

    def test_killed_writers(self) -> None:
        for name, after in (("leat._libc.allocate", False), ("leat._libc.allocate", True),
                            ("leat._cache_write.encode_record", False), ("os.pwritev", False),
                            ("os.pwritev", True)):
            with self.subTest(name=name, after=after):
                c = self.cache()
                self.kill_at(name, c, after)
                self.assertIsNone(c.get(0))
                self.assertTrue(c.put(0, b"zero"))
                self.assertTrue(c.put(1, b"one"))
                with leat.Cache.attach(c.handle) as other:
                    self.assertEqual((other.get(0), other.get(1)), (b"zero", b"one"))
                self.assertEqual(c.preserve(self.path(f"{name}{after}")), 0)

    def test_killed_filler(self) -> None:
        c = self.cache()
        begun = FORK.Event()
        p = self.fork(lambda: c.get_or_fill(0, lambda: begun.set() or time.sleep(60) or b"never"))
        self.assertTrue(begun.wait(60))
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(c.get_or_fill(0, lambda: b"next")))
        thread.start()
        p.kill()
        thread.join()
        self.assertEqual(got, [b"next"])

    def test_stopped_writer(self) -> None:
        """Readers don't wait for a writer; a frozen cache does not make writers wait."""
        c = self.cache()
        c.put(0, b"zero")
        begun = FORK.Event()

        def work() -> None:
            with c._mutex:
                c._acquire()
                begun.set()
                time.sleep(60)

        p = self.fork(work)
        self.assertTrue(begun.wait(60))
        self.assertEqual(c.get(0), b"zero")
        with leat.Cache.attach(c.handle) as other:
            self.assertEqual(other.get(0), b"zero")
        c._shared[_cache_format.TAIL] |= _cache_format.FROZEN
        self.assertFalse(c.put(1, b"late"))
        p.kill()

    def test_waiting_writers_announce_themselves(self) -> None:
        c = self.cache()
        self.assertTrue(_cache_file.lock(c._lock_fd, _cache_format.LOCK_WRITE, _cache_file.SHARED))
        with leat.Cache.attach(c.handle) as other:
            thread = threading.Thread(target=other.put, args=(0, b"data"))
            thread.start()
            wait_until(lambda: c._shared[_cache_format.WAIT])
            ahead = c._shared[_cache_format.WAIT] - time.monotonic_ns()
            self.assertLess(ahead, 10_000_001)
            self.assertIsNone(c.get(0))
            _cache_file.lock(c._lock_fd, _cache_format.LOCK_WRITE, _cache_file.UNLOCKED)
            thread.join()
        self.assertEqual((c.get(0), c._shared[_cache_format.WAIT]), (b"data", 0))

    @slow("kills writers at random for seconds")
    def test_writers_killed_at_random(self) -> None:
        c = self.cache(3000)
        rng = random.Random(5)
        for k in range(40):
            children = [self.fork(lambda seed=seed: put_all(c, seed)) for seed in (k, k + 1000)]
            time.sleep(rng.random() * 0.05)
            for p in children:
                p.kill()
            for p in children:
                p.join()
        put_all(c, 1)
        self.assertEqual([c.get(i) for i in range(3000)], [data_of(i) for i in range(3000)])
        self.assertEqual((c.stats().bad, c.preserve(self.path("p"))), (0, 0))


if __name__ == "__main__":
    unittest.main()
