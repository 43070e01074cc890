"""Tests of leat.apply with a class, which has an instance for each worker."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import types
from typing import Any

import leat
from leat import _binary

from .support import needs, slow
from .test_apply import SceneCase

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

BLOCKS = dict(window=64, co=dict(BLOCKSIZE=64))
"""Nine blocks."""

WAYS: list[dict[str, Any]] = [dict(workers=0), dict(workers="threads", jobs=3), dict(workers=2),
                              dict(workers=2, on="subprocess")]


class Total:
    """Total adds an offset to red, and sums red and counts blocks."""

    def __init__(self, offset: int = 0) -> None:
        self.offset, self.blocks, self.sum = offset, [], np.uint64(0)

    def __call__(self, b: Any) -> None:
        self.blocks.append(b.number)
        self.sum += b.red.sum()
        if "out" in dir(b):
            b.out = b.red + np.uint16(self.offset)

    def close(self) -> Any:
        return {"blocks": self.blocks, "sum": self.sum}


class Plain:
    def __call__(self, b: Any) -> None:
        b.out = b.red


class Silent(Plain):
    def close(self) -> None:
        return None


class Fails(Plain):
    def __init__(self) -> None:
        raise ValueError("no model here")


class FailsAtTheEnd(Plain):
    def close(self) -> None:
        raise ValueError("no end here")


class NotJSON(Plain):
    def close(self) -> Any:
        return object()


class Dies(Plain):
    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class NotCalled:
    pass


async def coroutine(b: Any) -> None:
    b.out = b.red


def generator(b: Any) -> Any:
    b.out = b.red
    yield 1


async def asynchronous(b: Any) -> Any:
    b.out = b.red
    yield 1


class Coroutine:
    async def __call__(self, b: Any) -> None:
        b.out = b.red


@needs("numpy")
class Classes(SceneCase):
    def apply(self, function: Any, name: str = "x.tif", **options: Any) -> leat.Result:
        return leat.apply(function, dict(red=self.scene["red"]), self.path(name),
                          **{**BLOCKS, **options})

    def check(self, way: dict[str, Any]) -> None:
        result = self.apply(Total, params=5, **way)
        values = result.worker_values
        self.assertEqual(sorted(n for v in values for n in v["blocks"]), list(range(9)))
        if way["workers"] == 0:
            self.assertEqual(len(values), 1)
        leat.apply("red + 5", dict(red=self.scene["red"]), self.path("e.tif"), type="uint16",
                   nodata="none", no_mask=True, **BLOCKS)
        same = leat.apply("a == b", dict(a=self.path("x.tif"), b=self.path("e.tif")),
                          self.path("same.tif"), no_mask=True).statistics["out"][0]
        assert same is not None
        self.assertEqual(same["min"], 1)
        without = leat.apply(Total, dict(red=self.scene["red"]), window=64, **way)
        self.assertEqual(sum(v["sum"] for v in without.worker_values),
                         sum(v["sum"] for v in values))

    def test_in_this_process(self) -> None:
        for way in WAYS[:2]:
            with self.subTest(way):
                self.check(way)

    @slow("starts workers")
    def test_in_workers(self) -> None:
        for way in WAYS[2:]:
            with self.subTest(way):
                self.check(way)

    def test_one_instance_with_workers_0(self) -> None:
        made = []

        class Counted(Plain):
            def __init__(self) -> None:
                made.append(self)

        result = self.apply(Counted, workers=0, jobs=3)
        self.assertEqual((len(made), result.worker_values), (1, []))

    def test_close_without_a_value(self) -> None:
        self.assertEqual(self.apply(Silent, workers="threads").worker_values, [])

    @slow("a dozen runs that fail")
    def test_failures(self) -> None:
        for function, text, ways in (
                (Fails, "ValueError: no model here", WAYS),
                (FailsAtTheEnd, "ValueError: no end here", WAYS),
                (NotJSON, r"the value that close\(\) returned is not JSON", WAYS[:3])):
            for way in ways:
                if way["workers"] == 0 and function is not Fails:
                    with self.assertRaisesRegex((TypeError, ValueError), text.split(": ")[-1]):
                        self.apply(function, **way)
                    continue
                with self.subTest(function=function, way=way):
                    with self.assertRaisesRegex(leat.BlockError, text) as caught:
                        self.apply(function, "y.tif", **way)
                    self.assertIsNotNone(caught.exception.__cause__)
                    self.assertFalse(os.path.exists(self.path("y.tif")))
        with self.assertRaisesRegex(leat.Error, "SIGKILL"):
            self.apply(Dies, "y.tif", **WAYS[3])

    def test_not_resumed(self) -> None:
        for workers in (0, 1):
            with self.assertRaisesRegex(leat.JobError, "can't be resumed"):
                self.apply(Total, workers=workers, resume=True)

    def test_class_that_can_not_be_called(self) -> None:
        for workers in (0, 1):
            with self.assertRaisesRegex(leat.JobError, "without a method __call__"):
                self.apply(NotCalled, workers=workers)

    def test_function_whose_body_does_not_run(self) -> None:
        for function, kind in ((coroutine, "a coroutine function, with async def"),
                               (generator, "a generator function, with yield"),
                               (asynchronous, "an asynchronous generator function"),
                               (Coroutine, "a coroutine function"),
                               (Coroutine(), "a coroutine function")):
            for workers in (0, 1) if isinstance(function, types.FunctionType) else (0,):
                with self.assertRaisesRegex(leat.JobError, kind):
                    self.apply(function, workers=workers)

    def test_wrapped_function_whose_body_does_not_run(self) -> None:
        for function, kind in ((coroutine, "coroutine"), (generator, "generator"),
                               (asynchronous, "async_generator")):
            wrapped = functools.partial(function)
            for outputs in (self.path("x.tif"), None):
                with self.assertRaisesRegex(leat.BlockError, f"a {kind}, whose body has not run"):
                    leat.apply(wrapped, self.scene, outputs, workers=0)

    def test_command(self) -> None:
        with open(self.path("one.py"), "w") as f:
            f.write("class Offset:\n    def __init__(self, n):\n        self.n = n\n"
                    "    def __call__(self, b):\n        b.out = b.red + self.n\n"
                    "    def close(self):\n        print('closed')\n        return 1\n")
        done = subprocess.run(
            [_binary.binary(), "apply", "-q", "--python", self.path("one.py") + ":Offset",
             "--python-executable", sys.executable, "--python-params", "3", "-j", "1", "-i",
             "red=" + self.scene["red"], "-o", "out=" + self.path("x.tif")],
            capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", "closed\n"))
