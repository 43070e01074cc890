"""Tests of the processes that call functions."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

import leat

from .support import TestCase

FORKS = """
import ctypes, os, signal, sys, threading, time
from leat._worker import _die_with_parent

class Libc:
    libc = ctypes.CDLL(None)

    def prctl(self, *arguments):  # after the end of the parent
        while os.getppid() == parent:
            time.sleep(.01)
        return self.libc.prctl(*arguments)

def fork():
    global parent
    parent = os.getpid()
    if os.fork() == 0:
        os.write(1, b"the child survives")
        os._exit(0)
    os.kill(parent, signal.SIGKILL)

_die_with_parent(Libc())
if sys.argv[1] == "thread":
    thread = threading.Thread(target=lambda: os.fork() or fork())
    thread.start()
    thread.join()
else:
    fork()
"""


@unittest.skipUnless(sys.platform == "linux", "only Linux has PR_SET_PDEATHSIG")
class Forks(TestCase):
    def test_parent_that_ends_before_its_child_asks_for_the_signal(self) -> None:
        """A forked process ends, also the child of one that a thread has forked."""
        path = os.path.dirname(os.path.dirname(leat.__file__))
        for thread in ("main", "thread"):
            with self.subTest(thread):
                # From Python 3.12, a fork beside threads is a DeprecationWarning.
                command = [sys.executable, "-W", "ignore", "-c", FORKS, thread]
                made = subprocess.run(command, capture_output=True,
                                      env={**os.environ, "PYTHONPATH": path})
                self.assertEqual((made.stdout, made.stderr), (b"", b""))
