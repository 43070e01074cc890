"""Tests of leat.apply within forks, pools and loaders, with caches, and on small file systems."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from typing import Any

import leat

from .support import needs, slow
from .test_apply import SceneCase
from .test_apply_function import BLOCKS, pixels

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]


def adds(b: Any) -> None:
    b.out = b.red + np.uint16(b.params or 0)


def killed(b: Any) -> None:
    if b.number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    b.out = b.red


def caches(b: Any) -> None:
    """Take the maximum of a block from a cache, which one process fills for each block."""
    cache = leat.Cache(b.total, b.params)
    value = cache.get_or_fill(b.number, lambda: str(int(b.red.max())).encode())
    cache.close()
    b.emit(int(value))
    b.out = b.red


def run(task: "tuple[str, str, int, Any]") -> tuple[int, int]:
    """Run a job in a process of a pool; return its process and the number of blocks."""
    red, out, offset, workers = task
    result = leat.apply(adds, dict(red=red), out, params=offset, workers=workers, **BLOCKS)
    return os.getpid(), result.blocks


class Scenes:
    """Scenes is a data set for loaders, whose items are runs."""

    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, i: int) -> tuple[int, int]:
        return run(self.tasks[i])


@needs("numpy", "rasterio")
@slow("starts pools of processes")
class Pools(SceneCase):
    def tasks(self, workers: Any) -> list[Any]:
        return [(self.scene["red"], self.path(f"{i}.tif"), i, workers) for i in range(2)]

    def check(self, done: list[tuple[int, int]]) -> None:
        self.assertEqual([blocks for _, blocks in done], [9] * 2)
        self.assertNotIn(os.getpid(), [pid for pid, _ in done])
        for i in range(2):
            np.testing.assert_array_equal(pixels(self.path(f"{i}.tif")),
                                          pixels(self.scene["red"]) + i)
            os.unlink(self.path(f"{i}.tif"))
        self.assertEqual(self.left(), [])

    def test_pools(self) -> None:
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                self.check(pool.map(run, self.tasks(0)))

    def test_executors(self) -> None:
        for method in ("fork", "spawn"):
            context: Any = multiprocessing.get_context(method)
            with self.subTest(method):
                with concurrent.futures.ProcessPoolExecutor(2, context) as executor:
                    self.check(list(executor.map(run, self.tasks(1))))

    def test_fork_after_a_run(self) -> None:
        run(self.tasks(0)[0])
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.check(pool.map(run, self.tasks(0)))

    def test_fork_within_a_function(self) -> None:
        def function(b: Any) -> None:
            if b.number == 0:
                pid = os.fork()
                if pid == 0:
                    try:
                        leat.apply(adds, dict(red=red), inner, workers=0, params=1, **BLOCKS)
                        os._exit(0)
                    finally:
                        os._exit(1)
                assert os.waitpid(pid, 0)[1] == 0
            b.out = b.red

        red, inner = self.scene["red"], self.path("inner.tif")
        leat.apply(function, dict(red=red), self.path("x.tif"), workers=0, **BLOCKS)
        np.testing.assert_array_equal(pixels(inner), pixels(red) + 1)
        np.testing.assert_array_equal(pixels(self.path("x.tif")), pixels(red))

    @needs("torch")
    def test_data_loader(self) -> None:
        import torch.utils.data
        scenes: Any = Scenes(self.tasks(0))
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                loader = torch.utils.data.DataLoader(scenes, batch_size=None, num_workers=2,
                                                     multiprocessing_context=method)
                self.check([(int(pid), int(blocks)) for pid, blocks in loader])


@needs("numpy", "rasterio")
class Caches(SceneCase):
    def test_function_with_a_cache(self) -> None:
        want = None
        for workers, name in ((0, "a"), ("threads", "b"), (2, "c"), (2, "a")):
            with self.subTest(workers=workers, cache=name):  # the last one finds all entries
                values = leat.apply(caches, dict(red=self.scene["red"]), self.path("x.tif"),
                                    workers=workers, params=self.path(name), **BLOCKS).values
                want = want or values
                self.assertEqual(values, want)
                with leat.Cache(9, self.path(name)) as cache:
                    self.assertEqual([int(cache.get(i) or b"0") for i in range(9)], want)
                    self.assertEqual(cache.stats().stored, 9)

    @slow("starts processes")
    @needs("cloudpickle")
    def test_cache_without_a_name_in_a_closure(self) -> None:
        with leat.Cache(9) as cache:
            def function(b: Any) -> None:
                b.out = b.red
                cache.put(b.number, str(int(b.red.sum())).encode())

            for workers in (0, "threads", 2):
                leat.apply(function, dict(red=self.scene["red"]), self.path("x.tif"),
                           workers=workers, **BLOCKS)
                total = sum(int(cache.get(i) or b"0") for i in range(9))
                self.assertEqual(total, int(pixels(self.scene["red"]).sum()))


@needs("numpy", "rasterio")
@slow("processes that are killed")
class Killed(SceneCase):
    def test_killed_python(self) -> None:
        for options in (dict(workers=1), dict(workers=2, on="subprocess")):
            with self.subTest(options):
                with self.assertRaises(leat.BlockError) as caught:
                    leat.apply(killed, dict(red=self.scene["red"]), self.path("x.tif"), **BLOCKS,
                               **options)
                self.assertIn("killed by SIGKILL", str(caught.exception))
                self.assertEqual(caught.exception.block, 4)
                self.assertEqual(self.left(), [".x.tif.leat-part"])
                # A function that is not killed computes the rest.
                leat.apply("red", dict(red=self.scene["red"]), self.path("x.tif"), **BLOCKS)
                os.unlink(self.path("x.tif"))
                self.assertEqual(self.left(), [])


MOUNTED = """
import json, os, subprocess, sys
import leat
import numpy as np

def function(b):
    rng = np.random.default_rng(b.number)
    b.out = rng.random((1, b.rows, b.columns))

if __name__ == "__main__":
    size, where, red, workers = sys.argv[1:]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "leat-test", where], check=True)
    out = (where if where != "/dev/shm" else os.path.dirname(red)) + "/x-%s.tif" % workers
    try:
        result = leat.apply(function, dict(red=red), out, workers=int(workers), window=64,
                            co=dict(BLOCKSIZE=64))
        print(json.dumps([result.blocks]))
    except leat.Error as e:
        print(json.dumps([type(e).__name__, str(e), os.listdir(where)]))
"""


@needs("numpy")
@slow("mounts file systems")
class Disks(SceneCase):
    def mounted(self, size: str, where: str, workers: int) -> Any:
        """Run the script with a file system of its own."""
        path = self.path("script.py")
        with open(path, "w") as f:
            f.write(MOUNTED)
        probe = subprocess.run(["unshare", "-m", "true"], capture_output=True)
        if os.getuid() != 0 or probe.returncode:
            self.skipTest("only root can mount a small file system")
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(leat.__file__))}
        done = subprocess.run(
            ["unshare", "-m", sys.executable, "-B", path, size, where, self.scene["red"],
             str(workers)], env=env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_full_disk(self) -> None:
        os.mkdir(self.path("small"))
        for workers in (0, 2):
            with self.subTest(workers=workers):
                kind, text, left = self.mounted("128k", self.path("small"), workers)
                self.assertEqual(kind, "NoSpace", text)
                self.assertIn("no space left", text)
                self.assertNotIn(f"x-{workers}.tif", left)

    def test_small_shared_memory(self) -> None:
        for workers in (0, 2):
            with self.subTest(workers=workers):
                self.assertEqual(self.mounted("64k", "/dev/shm", workers), [9])
