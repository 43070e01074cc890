"""Tests of leat.Cache that one thread closes while others use it."""

from __future__ import annotations

import os
import signal
import threading
import time
import unittest
from typing import Any, Callable

import leat

from .support import TestCase


class ClosedByAnotherThread(TestCase):
    def race(self, use: Callable[[leat.Cache, int], None], **options: Any) -> None:
        """Close caches while threads use them; files that are opened meanwhile take their
        descriptors."""
        wrong: list[Any] = []
        other = self.path("other")
        with open(other, "wb") as f:
            f.write(b"?" * (1 << 20))
        for number in range(8):
            cache = leat.Cache(1000, path=self.path(f"{number}.cache"), **options)
            for i in range(0, 1000, 2):
                cache.put(i, b"%d" % i)
            cache.close()
            cache = leat.Cache(1000, path=self.path(f"{number}.cache"), **options)
            begun = threading.Barrier(4)

            def work(start: int, cache: leat.Cache = cache) -> None:
                begun.wait(60)
                try:
                    for i in range(start, 1000):
                        use(cache, i)
                except leat.Closed:
                    pass
                except BaseException as e:
                    wrong.append(e)

            threads = [threading.Thread(target=work, args=(k * 200,)) for k in range(3)]
            for thread in threads:
                thread.start()
            begun.wait(60)
            if number % 2:
                time.sleep(0.002)
            cache.close()
            files = [os.open(other, os.O_RDWR) for _ in range(4)]
            for thread in threads:
                thread.join(60)
                self.assertFalse(thread.is_alive())
            for fd in files:
                os.close(fd)
            self.assertEqual(wrong, [])
        with open(other, "rb") as f:
            self.assertEqual(f.read(), b"?" * (1 << 20))

    def test_gets(self) -> None:
        def get(cache: leat.Cache, i: int) -> None:
            want = None if i % 2 else b"%d" % i
            if cache.get(i) != want:
                raise ValueError(i)
            if (i in cache) != (want is not None):
                raise ValueError(i)
            view = cache.view(i)
            if (None if view is None else bytes(view)) != want:
                raise ValueError(i)
            cache.stats()
        self.race(get, verify="never")

    def test_puts_and_fills(self) -> None:
        def put(cache: leat.Cache, i: int) -> None:
            cache.put(i, b"%d" % i)
            if cache.get_or_fill(i, lambda: b"%d" % i) != b"%d" % i:
                raise ValueError(i)
        self.race(put)

    def test_freeze(self) -> None:
        self.race(lambda cache, i: cache.freeze())

    def test_close_in_a_signal_handler(self) -> None:
        """A handler that closes the cache interrupts a call of its own thread."""
        cache = leat.Cache(1000)
        for i in range(0, 1000, 2):
            cache.put(i, b"%d" % i)
        before = signal.signal(signal.SIGALRM, lambda *_: cache.close())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with self.assertRaises(leat.Closed):
                while True:
                    for i in range(1000):
                        i in cache
                        cache.stats()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        cache.close()

    def test_close_in_a_signal_handler_during_puts(self) -> None:
        """The interrupted put holds the lock of its process, and ends before the cache closes."""
        for number in range(5):
            path = self.path(f"{number}.cache")
            cache = leat.Cache(100_000, path)
            stored = 0
            before = signal.signal(signal.SIGALRM, lambda *_: cache.close())
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                with self.assertRaises(leat.Closed):
                    for i in range(100_000):
                        cache.put(i, b"%d" % i)
                        stored += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self.assertTrue(cache.closed)
            self.assertEqual(cache._lock_fd, -1)
            with leat.Cache(100_000, path) as again:
                self.assertIn(again.stats().stored - stored, (0, 1))

    def test_exceptions_of_signals(self) -> None:
        """A call that a signal ends does not keep close() in another thread waiting."""
        class Stop(Exception):
            pass

        def stop(*_: Any) -> None:
            raise Stop

        cache = leat.Cache(10)
        before = signal.signal(signal.SIGALRM, stop)
        try:
            for i in range(500):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 20e-6 + i * 1e-7)
                    while True:
                        5 in cache
                except Stop:
                    pass
        finally:
            signal.signal(signal.SIGALRM, before)
        closer = threading.Thread(target=cache.close, daemon=True)
        closer.start()
        closer.join(60)
        self.assertFalse(closer.is_alive())


if __name__ == "__main__":
    unittest.main()
