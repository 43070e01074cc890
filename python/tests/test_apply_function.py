"""Tests of leat.apply with functions: every kind of function and worker, errors, death."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from typing import Any, Callable
from unittest import mock

import leat
from leat import _identity

from .support import needs, slow
from .test_apply import SceneCase, children

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

NDVI = "(float32(nir) - float32(red)) / (float32(nir) + float32(red))"

BLOCKS = dict(window=64, co=dict(BLOCKSIZE=64))
"""Nine blocks."""


def ndvi(b: Any) -> None:
    red, nir = b.masked("red").astype("f4"), b.masked("nir").astype("f4")
    b.out = (nir - red) / (nir + red)


def raises(b: Any) -> None:
    if b.number == 4:
        raise ValueError("no data here")
    b.out = b.red


def exits(b: Any) -> None:
    sys.exit(3)


def exits_at_once(b: Any) -> None:
    os._exit(7)


def crashes(b: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def prints(b: Any) -> None:
    print("block", b.number)
    b.out = b.red


def prints_not(b: Any) -> None:
    b.out = b.red


def forks(b: Any) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    b.out = b.red


def uses_threads(b: Any) -> None:
    out = b.new("out", b.red.dtype)
    threads = [threading.Thread(target=np.copyto, args=(out[:, i::2], b.red[:, i::2]))
               for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def counts(b: Any) -> None:
    b.state.blocks = getattr(b.state, "blocks", 0) + 1
    b.emit([b.number, int(b.red.max()), b.params])
    b.out = b.red


class Model:
    def __init__(self, offset: int) -> None:
        self.offset = offset

    def predict(self, b: Any) -> None:
        b.out = b.red + self.offset

    @staticmethod
    def ndvi(b: Any) -> None:
        ndvi(b)


def pixels(path: str) -> Any:
    """Return the pixels of a raster, (bands, rows, columns)."""
    import rasterio
    with rasterio.open(path) as f:
        return f.read()


@needs("numpy", "rasterio")
class Functions(SceneCase):
    def apply(self, function: Any, name: str = "x.tif", **options: Any) -> leat.Result:
        return leat.apply(function, self.scene, self.path(name), **{**BLOCKS, **options})

    def test_same_bytes_for_all_workers(self) -> None:
        self.apply(NDVI, "e.tif")
        want = pathlib.Path(self.path("e.tif")).read_bytes()
        for workers in (0, "threads", 2):
            with self.subTest(workers=workers):
                result = self.apply(ndvi, workers=workers, nodata="nan")
                self.assertEqual(pathlib.Path(self.path("x.tif")).read_bytes(), want)
                self.assertEqual(result.blocks, 9)
        red, nir = (pixels(self.scene[n]).astype("f4") for n in ("red", "nir"))
        with np.errstate(all="ignore"):
            whole = (nir - red) / (nir + red)
        whole[(red == 0) | (nir == 0)] = np.nan
        np.testing.assert_array_equal(pixels(self.path("x.tif")), whole)

    @slow("starts workers")
    def test_same_bytes_on_subprocess(self) -> None:
        self.apply(NDVI, "e.tif")
        self.apply(ndvi, workers=2, on="subprocess", nodata="nan")
        self.assertEqual(pathlib.Path(self.path("x.tif")).read_bytes(),
                         pathlib.Path(self.path("e.tif")).read_bytes())

    @slow("fourteen runs")
    def test_every_kind_of_callable_in_this_process(self) -> None:
        seen = []

        def closure(b: Any) -> None:
            seen.append(b.number)
            b.out = b.red + 1

        red = pixels(self.scene["red"])
        for function, added in [
                (closure, 1), (lambda b: b.set("out", b.red + 2), 2), (Model(3).predict, 3),
                (functools.partial(lambda n, b: b.set("out", b.red + n), 4), 4), (prints, 0),
                (forks, 0), (uses_threads, 0)]:
            for workers in (0, "threads"):
                with self.subTest(function=_identity.describe(function), workers=workers):
                    with contextlib.redirect_stdout(None):
                        self.apply(function, workers=workers)
                    np.testing.assert_array_equal(pixels(self.path("x.tif")), red + added)
        self.assertEqual(sorted(seen), sorted(2 * list(range(9))))

    def test_calling_thread(self) -> None:
        where = set()
        self.apply(lambda b: (where.add(threading.get_ident()), b.set("out", b.red)), workers=0)
        self.assertEqual(where, {threading.get_ident()})

    @slow("starts a process for each core")
    def test_default_workers(self) -> None:
        where = set()

        def function(b: Any) -> None:
            where.add(os.getpid())
            b.out = b.red

        self.apply(function)
        self.assertEqual(where, {os.getpid()})
        result = self.apply(forks)  # its module can be imported: processes
        self.assertEqual(result.blocks, 9)

    @slow("seven runs")
    def test_values_and_state(self) -> None:
        want = [[i, None] for i in range(9)]
        for workers in (0, "threads", 2):
            with self.subTest(workers=workers):
                result = self.apply(counts, workers=workers, params={"a": 1})
                self.assertEqual([[v[0], None] for v in result.values], want)
                self.assertEqual(result.values[0][2], {"a": 1})
                total = self.apply(counts, workers=workers,
                                   merge=lambda a, b: [0, max(a[1], b[1]), None])
                self.assertEqual((total.values, total.merged[1]),
                                 ([], int(pixels(self.scene["red"]).max())))
        states = []
        self.apply(lambda b: (states.append(b.state), b.set("out", b.red)), workers=0)
        self.assertEqual(len(set(map(id, states))), 1)

    def test_large_values(self) -> None:
        """leat writes the values of a block before it takes the answer to the next one, and the
        thread that reads them answers."""
        text = "x" * (4 << 20)

        def function(b: Any) -> None:
            b.out = b.red
            b.emit(text if b.number % 50 >= 47 else b.number)
        result = self.apply(function, workers=0, jobs=1, window=16, co=dict(BLOCKSIZE=16))
        self.assertEqual(len(result.values), 144)
        for n, value in enumerate(result.values):
            self.assertEqual(value, text if n % 50 >= 47 else n)

    @slow("starts processes")
    def test_crs(self) -> None:
        """A block has the CRS as other libraries read it, or "" if there is none."""
        plain = self.path("plain.npy")
        np.save(plain, np.zeros((4, 4), "u1"))
        for path, want in ((self.scene["red"], "EPSG:32631"), (plain, "")):
            result = leat.apply(lambda b: b.emit(b.crs), dict(a=path), workers=0)
            self.assertEqual(result.values, [want])

    def test_values_without_outputs(self) -> None:
        for workers in (0, 2):
            result = leat.apply(total_of_red, self.scene, workers=workers, **BLOCKS,
                                merge=lambda a, b: a + b)
            self.assertEqual(result.merged, int(pixels(self.scene["red"]).sum()))
            self.assertEqual(result.paths, {})

    def test_parameters_of_any_kind_in_this_process(self) -> None:
        params = object()
        seen = []
        self.apply(lambda b: (seen.append(b.params), b.set("out", b.red)), workers=0, params=params)
        self.assertIs(seen[0], params)
        with self.assertRaisesRegex(leat.JobError, "params: workers in other processes get"):
            self.apply(ndvi, workers=2, params=params)

    def test_lists_and_overlap(self) -> None:
        shapes = set()

        def function(b: Any) -> None:
            shapes.add((len(b.t), b.t[0].shape, b.overlap))
            b.out = b.t[0]

        leat.apply(function, dict(t=[self.scene["red"]]), self.path("x.tif"), overlap=2, **BLOCKS)
        self.assertEqual(shapes, {(1, (1, 68, 68), 2)})

    @slow("starts three scripts")
    def test_main_of_a_script(self) -> None:
        text = """
            import leat, sys
            K = 5
            def function(b):
                b.out = b.red + K
            if __name__ == "__main__":
                for n in (None, 1):
                    print(leat.apply(function, dict(red=sys.argv[1]), "x.tif", workers=n).blocks)
        """
        out, err = self.script(text, self.scene["red"]).communicate(timeout=60)
        self.assertEqual((out, err), ("1\n1\n", ""))
        np.testing.assert_array_equal(pixels(self.path("x.tif")), pixels(self.scene["red"]) + 5)
        _, err = self.script(text.replace('__name__ == "__main__"', "True"),
                             self.scene["red"]).communicate(timeout=60)
        self.assertIn("if __name__ == '__main__'", err)

    @slow("starts processes")
    def test_main_of_a_spawned_process(self) -> None:
        out, err = self.script("""
            import leat, multiprocessing, sys
            class Odd(Exception):
                pass
            def function(b):
                b.out = b.red + 5
            def fails(b):
                raise Odd("boom")
            def run(workers):
                result = leat.apply(function, dict(red=sys.argv[1]), f"x{workers}.tif",
                                    workers=workers)
                try:
                    leat.apply(fails, dict(red=sys.argv[1]), f"y{workers}.tif", workers=workers)
                except leat.BlockError as e:
                    return result.blocks, str(e)
            if __name__ == "__main__":
                with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:
                    print(pool.map(run, (0, 2)))
        """, self.scene["red"], "spawn").communicate(timeout=60)
        self.assertEqual(err, "")
        failed = r"\(1, 'block 0 \(0,0 192x192\): (script\.)?Odd: boom'\)"
        self.assertRegex(out, rf"^\[{failed}, {failed}\]$")
        for workers in (0, 2):
            np.testing.assert_array_equal(pixels(self.path(f"x{workers}.tif")),
                                          pixels(self.scene["red"]) + 5)

    def test_module_of_the_program(self) -> None:
        # A module of the same name in the working directory is another one.
        os.mkdir(self.path("program"))
        for path, added in ((self.path("program", "twin.py"), 6), (self.path("twin.py"), 100)):
            pathlib.Path(path).write_text(f"def function(b):\n    b.out = b.red + {added}\n")
        child = self.script("""
            import leat, sys, twin
            leat.apply(twin.function, dict(red=sys.argv[1]), "x.tif", workers=1)
        """, self.scene["red"], name="program/script.py")
        self.assertEqual(child.communicate(timeout=60), ("", ""))
        np.testing.assert_array_equal(pixels(self.path("x.tif")), pixels(self.scene["red"]) + 6)

    @slow("eight runs")
    def test_profile_with_a_grid(self) -> None:
        whole = leat.open(self.scene["red"]).profile
        profile = {key: whole[key] for key in ("dtype", "width", "height", "crs", "transform")}
        for workers in (0, 1):
            self.apply(prints_not, workers=workers, profile=profile)
            with self.assertRaisesRegex(leat.JobError, "width is 100, and the job's grid has 192"):
                self.apply(prints_not, "y.tif", workers=workers, profile={**profile, "width": 100})
        self.assertEqual(self.left(), ["x.tif"])

    def test_notebook(self) -> None:
        # As IPython does it: __main__ without a file.
        main = types.ModuleType("__main__")
        with mock.patch.dict(sys.modules, {"__main__": main}):
            exec("def function(b):\n    b.out = b.red + K\nK = 7", main.__dict__)
            function = main.function
            self.assertIsNone(_identity.by_name(function))
            self.apply(function)
            np.testing.assert_array_equal(pixels(self.path("x.tif")), pixels(self.scene["red"]) + 7)
            with mock.patch.dict(sys.modules, {"cloudpickle": None}):
                with self.assertRaisesRegex(leat.JobError, "cloudpickle.*workers=0"):
                    self.apply(function, workers=2)

    @needs("cloudpickle")
    @slow("starts processes")
    def test_functions_without_a_name_travel_by_cloudpickle(self) -> None:
        offset = 11

        def closure(b: Any) -> None:
            b.out = b.red + offset

        before = set(os.listdir("/tmp"))
        for function, added in [
                (closure, 11), (lambda b: b.set("out", b.red + 2), 2), (Model(3).predict, 3),
                (functools.partial(lambda n, b: b.set("out", b.red + n), 4), 4)]:
            with self.subTest(function=_identity.describe(function)):
                self.apply(function, workers=2)
                np.testing.assert_array_equal(pixels(self.path("x.tif")),
                                              pixels(self.scene["red"]) + added)
        self.assertEqual([n for n in set(os.listdir("/tmp")) - before if "leat-function" in n], [])

    def test_names(self) -> None:
        module = ndvi.__module__
        self.assertEqual(_identity.by_name(ndvi), f"{module}:ndvi")
        self.assertEqual(_identity.by_name(Model.ndvi), f"{module}:Model.ndvi")
        for function in (Model(1).predict, lambda b: b, functools.partial(ndvi), len):
            self.assertIsNone(_identity.by_name(function))


def fails_once(b: Any) -> None:
    if b.number == 6 and not os.path.exists(b.params):
        open(b.params, "w").close()
        raise ValueError("once")
    b.out = b.red


def total_of_red(b: Any) -> None:
    b.emit(int(b.red.sum()))


@needs("numpy", "rasterio")
class Failures(SceneCase):
    def failed(self, function: Any, **options: Any) -> Any:
        with self.assertRaises(leat.BlockError) as caught:
            leat.apply(function, self.scene, self.path("x.tif"), **{**BLOCKS, **options})
        self.assertFalse(os.path.exists(self.path("x.tif")))
        return caught.exception

    @slow("starts processes")
    def test_exceptions(self) -> None:
        for workers in (0, "threads", 2):
            with self.subTest(workers=workers):
                e = self.failed(raises, workers=workers)
                self.assertIn("ValueError: no data here", str(e))
                self.assertEqual((e.block, e.window), (4, (64, 64, 64, 64)))
                self.assertIn('raise ValueError("no data here")', e.traceback)
                if workers == 2:
                    self.assertIn("raise ValueError", str(e.__cause__))
                    self.assertTrue(e.worker)
                else:
                    self.assertIsInstance(e.__cause__, ValueError)

    @slow("processes that end and crash")
    def test_exits(self) -> None:
        for workers in (0, 1):
            self.assertIn("sys.exit(3)", str(self.failed(exits, workers=workers)))
        e = self.failed(exits_at_once, workers=1)
        self.assertIn("exit status 7", str(e))
        self.assertIsNotNone(e.block)
        self.assertIn("SIGSEGV", str(self.failed(crashes, workers=1)))

    def test_outputs_count_as_memory(self) -> None:
        def many(b: Any) -> None:
            b.new("out", "f8", 900)[...] = 0
        out = self.path("x.tif")
        declared = dict(path=out, dtype="float64", count=900)
        with self.assertRaisesRegex(leat.JobError,
                                    "more than the memory allowed.*\nhint: .*memory"):
            leat.apply(many, self.scene, dict(out=declared), workers=0, memory="64M")
        for workers in (0, "threads"):
            with self.assertRaisesRegex(leat.BlockError, "the outputs of a block take .* MiB"):
                leat.apply(many, self.scene, out, workers=workers, memory="64M")
        self.assertFalse(os.path.exists(out))

    def test_claimed_output(self) -> None:
        holders: list[Any] = []

        def again(b: Any) -> None:
            try:
                leat.apply("red", self.scene, self.path("x.tif"))
            except leat.Claimed as e:
                holders.append(e.holder)
                self.assertIn("leat apply --job - --events ", str(e))  # the command of that run
            b.out = b.red
        leat.apply(again, self.scene, self.path("x.tif"), workers=0)
        self.assertEqual([str(h).split()[0] for h in holders], ["process"])

    def test_memory_after_failures(self) -> None:
        def descriptors() -> int:
            return len(os.listdir("/proc/self/fd"))

        gc.collect()
        before = descriptors()
        for workers in (0, "threads"):
            self.failed(raises, workers=workers)
        deadline = time.monotonic() + 60
        while descriptors() > before and time.monotonic() < deadline:
            time.sleep(0.1)  # threads end by themselves
            gc.collect()  # the frames of the exception have the blocks' arrays
        self.assertLessEqual(descriptors(), before)

    def test_wrong_outputs(self) -> None:
        self.assertIn("expected (bands, 64, 64)",
                      str(self.failed(lambda b: b.set("out", b.red[:, :3]), workers=0)))
        self.assertIn("beyond the range of uint8",
                      str(self.failed(lambda b: b.set("out", b.red), workers=0, type="uint8")))
        self.assertIn("the function set no output", str(self.failed(lambda b: None, workers=0)))

    def test_merge_that_fails(self) -> None:
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            leat.apply(counts, self.scene, self.path("x.tif"), workers=0,
                       merge=lambda a, b: 1 // 0, **BLOCKS)

    def test_mistakes(self) -> None:
        for options, pattern in [
                (dict(workers="many"), "workers 'many': expected 0, 'threads' or a number"),
                (dict(workers=-1), "workers -1"),
                (dict(on="slurm"), "needs a number of workers"),
                (dict(on="slurm", workers=0), "in this process"),
                (dict(scale=2), "only expressions have it"),
                (dict(overlap=-1), r"\Aoverlap -1: use 0 or more pixels\Z"),
                (dict(workers=1, python_executable="/nonexistent"), "Python can't be started")]:
            with self.subTest(options), self.assertRaisesRegex(leat.JobError, pattern):
                leat.apply(ndvi, self.scene, self.path("x.tif"), **options)
        with self.assertRaisesRegex(TypeError, "overlap: got 1.5, expected a whole number"):
            leat.apply(ndvi, self.scene, self.path("x.tif"), overlap=1.5)  # type: ignore[arg-type]
        self.assertEqual(self.left(), [])


@needs("numpy", "rasterio")
class Resume(SceneCase):
    def run_twice(self, first: Any, second: Any, workers: Any = 0, **options: Any) -> leat.Result:
        """Let the first function fail in a block, and resume with the second."""
        with self.assertRaises(leat.BlockError):
            leat.apply(first, self.scene, self.path("x.tif"), workers=workers, jobs=1, **BLOCKS,
                       **options)
        return leat.apply(second, self.scene, self.path("x.tif"), workers=workers, jobs=1,
                          resume=True, **BLOCKS, **options)

    def failing(self, offset: int = 0) -> Callable[[Any], None]:
        flag = self.path("flag")

        def function(b: Any) -> None:
            if b.number == 6 and not os.path.exists(flag):
                open(flag, "w").close()
                raise ValueError("once")
            b.emit(b.number)
            b.out = b.red + offset

        return function

    def test_resume(self) -> None:
        function = self.failing()
        result = self.run_twice(function, function, params={"a": [1]})
        self.assertGreater(result.resumed, 0)
        self.assertEqual(result.values, list(range(9)))
        np.testing.assert_array_equal(pixels(self.path("x.tif")), pixels(self.scene["red"]))

    @slow("starts processes twice")
    def test_resume_of_a_function_that_was_sent(self) -> None:
        # As cloudpickle sends a closure.
        text = pickle.dumps(fails_once)
        with mock.patch.object(_identity, "by_name", return_value=None), mock.patch.dict(
                sys.modules, {"cloudpickle": mock.Mock(dumps=mock.Mock(return_value=text))}):
            result = self.run_twice(fails_once, fails_once, 1, params=self.path("flag"))
        self.assertGreater(result.resumed, 0)

    def test_changed_function_is_refused(self) -> None:
        with self.assertRaisesRegex(leat.JobError, "can't be continued.*function"):
            self.run_twice(self.failing(), self.failing(1))

    def test_what_a_digest_covers(self) -> None:
        def make(code: str, **names: Any) -> Any:
            space = dict(names)
            exec(code, space)
            return space["f"]

        one = "def f(b):\n    return K + b"
        self.assertEqual(_identity.digest(make(one, K=1)), _identity.digest(make(one, K=1)))
        for other in (make(one, K=2), make(one.replace("+", "-"), K=1), make(one, K="1"),
                      make(one.replace("b)", "b, c=3)"), K=1)):
            self.assertNotEqual(_identity.digest(make(one, K=1)), _identity.digest(other))
        nested = "def g(b):\n    return {}\ndef f(b):\n    return g(b)"
        self.assertNotEqual(_identity.digest(make(nested.format(1))),
                            _identity.digest(make(nested.format(2))))
        a = np.arange(3)
        before = _identity.digest(make(one, K=a))
        a[0] = 5
        self.assertNotEqual(_identity.digest(make(one, K=a)), before)
        with self.assertRaisesRegex(leat.JobError, "can't be compared"):
            _identity.digest(make(one, K=threading.Lock()))
        recursive = make("def f(b):\n    return f(b - 1)")
        self.assertEqual(_identity.digest(recursive), _identity.digest(recursive))

    def test_a_digest_covers_classes(self) -> None:
        code = """
            import dataclasses, enum, functools
            class Base:
                def value(self): return {}
            @dataclasses.dataclass
            class Setting:
                factor: int = {}
                names: list = dataclasses.field(default_factory=lambda: [])
            class Kind(enum.Enum):
                ONE = {}
            @functools.lru_cache
            def cached(): return {}
            offset = {}
            class Model(Base):
                __slots__ = ("setting",)
                limit = {}
                def __init__(self): self.setting = Setting()
                def __call__(self, b): return self.value() * self.scale() + offset + self.limit
                @staticmethod
                def scale(): return {}
                @property
                def size(self): return {}
                @functools.cached_property
                def kind(self): return Kind.ONE, {}, cached()
            long = list(range(5000)) + [{}]
            def function(b): return Model().size + long[-1]
        """

        def make(*changed: int) -> Any:
            space: dict[str, Any] = {"__name__": "__main__"}
            numbers = [100 + 1 * (k in changed) for k in range(code.count("{}"))]
            exec(textwrap.dedent(code).format(*numbers), space)
            return space

        def digests(*changed: int) -> list[str]:
            space = make(*changed)
            return [_identity.digest(space[name]) for name in ("Model", "function")] + [
                _identity.digest(space["Model"]())]

        same = digests()
        self.assertEqual(digests(), same)
        for k in range(code.count("{}")):
            with self.subTest(number=k):
                other = digests(k)
                self.assertNotEqual(other[1], same[1])
                if k < code.count("{}") - 1:
                    self.assertNotEqual(other[0], same[0])
                    self.assertNotEqual(other[2], same[2])

    def test_changed_base_class_is_refused(self) -> None:
        def make(value: int) -> type:
            class Base:
                def value(self) -> int:
                    return value

            class Model(Base):
                def __call__(self, b: Any) -> None:
                    if b.number == 4 and self.value() == 1:
                        raise ValueError("not yet")
                    b.out = np.full((b.rows, b.columns), self.value(), "u1")
            return Model

        with self.assertRaisesRegex(leat.JobError, "can't be continued.*function"):
            self.run_twice(make(1), make(2))


HANGS = """
    import leat, os, sys, time
    def function(b):
        if b.number == 1:
            print("now", flush=True)
            while True:
                time.sleep(60)
        b.out = b.red
    if __name__ == "__main__":
        workers = int(sys.argv[2]) if sys.argv[2].isdigit() else sys.argv[2]
        leat.apply(function, dict(red=sys.argv[1]), "x.tif", workers=workers, jobs=1, window=64,
                   co=dict(BLOCKSIZE=64))
"""


def family(pid: int) -> list[int]:
    """Return all processes below pid."""
    below = []
    with contextlib.suppress(FileNotFoundError):
        for child in children(pid):
            below += [child, *family(child)]
    return below


@needs("numpy", "rasterio")
@slow("starts twenty processes that hang, and ends them")
class Ends(SceneCase):
    def hang(self, workers: str) -> "tuple[subprocess.Popen[str], list[int]]":
        """Start a run whose function hangs, and return it with all processes below it."""
        text = HANGS if workers != "1" else HANGS.replace(", jobs=1", "").replace(
            'print("now", flush=True)', 'os.write(2, b"now\\n")')
        child = self.script(text, self.scene["red"], workers)
        stream = child.stderr if workers == "1" else child.stdout
        assert stream is not None
        self.assertIn("now", stream.readline())
        return child, family(child.pid)

    def gone(self, pids: list[int]) -> None:
        deadline = time.monotonic() + 60
        while any(os.path.exists(f"/proc/{p}") for p in pids) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual([p for p in pids if os.path.exists(f"/proc/{p}")], [])

    def ends(self, workers: str, number: int, by: str) -> str:
        child, below = self.hang(workers)
        self.assertGreater(len(below), 0)
        if by == "run":
            os.kill(below[0], number)
        else:
            child.send_signal(number)
        err = child.communicate(timeout=60)[1]
        self.gone(below)
        self.assertEqual([n for n in self.left() if n != ".x.tif.leat-part"], [])
        return err

    def test_interrupt(self) -> None:
        for workers in ("0", "threads", "1"):
            with self.subTest(workers=workers):
                err = self.ends(workers, signal.SIGINT, "caller")
                self.assertIn("KeyboardInterrupt", err)

    def test_killed_caller(self) -> None:
        for workers in ("0", "1"):
            with self.subTest(workers=workers):
                self.ends(workers, signal.SIGKILL, "caller")

    def test_killed_run(self) -> None:
        err = self.ends("1", signal.SIGKILL, "run")
        self.assertIn("killed by SIGKILL", err)
