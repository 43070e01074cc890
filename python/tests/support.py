"""What tests share."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import unittest
from typing import Any, Callable, Optional, TypeVar

T = TypeVar("T")

SHORT = os.environ.get("LEAT_TEST_SHORT") == "1"
"""Whether only quick tests run: go test -short."""


LEFT_OUT = os.environ.get("LEAT_TEST_LEFT_OUT") == "1" and not SHORT
"""Whether only tests run that -short leaves out, or leaves out a part of: make test-rest."""


def slow(reason: str) -> Callable[[T], T]:
    """Return a decorator for tests that -short leaves out: @slow("starts twenty processes")."""
    skip = unittest.skipIf(SHORT, "-short: " + reason)
    return lambda test: skip(longer(test))


def longer(test: T) -> T:
    """Mark a test that does less if SHORT is set."""
    setattr(test, "longer", True)
    return test


def needs(*modules: str) -> Callable[[T], T]:
    """Return a decorator for tests that need modules: @needs("numpy").

    It imports none of them: each process whose function is in a module of tests would do so.
    """
    for name in modules:
        if importlib.util.find_spec(name.split(".")[0]) is None:
            return unittest.skip(f"no {name} for this Python")
    return lambda test: test


def peer(name: str) -> str:
    """Return the checkout of a peer below LEAT_PEERS, or skip the test."""
    peers = os.environ.get("LEAT_PEERS")
    if not peers:
        raise unittest.SkipTest("LEAT_PEERS does not name a directory of peers' checkouts")
    path = os.path.join(peers, name)
    if not os.path.isdir(path):
        raise unittest.SkipTest(f"LEAT_PEERS has no {name}: see scripts/peers")
    return path


def leat(*args: str, input: Optional[bytes] = None, code: int = 0, **options: Any) -> bytes:
    """Run the leat program, check its exit code, and return what it printed."""
    from leat import _binary
    result = subprocess.run([_binary.binary(), *args], input=input, capture_output=True, **options)
    if result.returncode != code:
        raise AssertionError(f"leat {' '.join(args)}: exit code {result.returncode}, "
                             f"expected {code}\n{result.stdout.decode()}{result.stderr.decode()}")
    return result.stdout


class TestCase(unittest.TestCase):
    """TestCase is unittest's, with a directory that ends with the test: self.dir."""

    dir: str

    def setUp(self) -> None:
        self.dir = tempfile.mkdtemp(prefix="leat-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, *names: str) -> str:
        """Return a path in the test's directory."""
        return os.path.join(self.dir, *names)
