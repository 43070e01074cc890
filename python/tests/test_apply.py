"""Tests of leat.apply with expressions, of options, results and leat.open."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings
from typing import Any, Optional
from unittest import mock

import leat
from leat import _job, _run

from .support import TestCase, leat as run, needs, slow

NDVI = "(nir - red) / (nir + red)"


class SceneCase(TestCase):
    """SceneCase has a scene of two bands: self.scene."""

    shared: "tempfile.TemporaryDirectory[str]"
    scene: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = tempfile.TemporaryDirectory(prefix="leat-test-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.scene = leat.demo(cls.shared.name, size=192)

    def script(self, text: str, *args: str, name: str = "script.py",
               **options: Any) -> "subprocess.Popen[str]":
        """Start a Python script in the directory of the test."""
        path = self.path(name)
        pathlib.Path(path).write_text(textwrap.dedent(text))
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(leat.__file__))}
        child = subprocess.Popen([sys.executable, "-B", path, *args], cwd=self.dir, env=env,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 **options)
        self.addCleanup(lambda: (child.poll() is None and child.kill(), child.communicate()))
        return child

    def left(self) -> list[str]:
        """Return the names of files in the test's directory, without the script."""
        return sorted(set(os.listdir(self.dir)) - {"script.py"})


class Expressions(SceneCase):
    def test_same_bytes_as_the_command(self) -> None:
        result = leat.apply(NDVI, self.scene, dict(ndvi=self.path("a.tif")), workers=2,
                            co=dict(COMPRESS="ZSTD", LEVEL=3), names=dict(ndvi=["NDVI"]),
                            overviews=[2, 4])
        run("apply", "-q", "-i", "red=" + self.scene["red"], "-i", "nir=" + self.scene["nir"],
            "-o", "ndvi=" + self.path("b.tif"), "-e", NDVI, "--co", "COMPRESS=ZSTD", "--co",
            "LEVEL=3", "--names", "NDVI", "--overviews", "2,4")
        self.assertEqual(pathlib.Path(self.path("a.tif")).read_bytes(),
                         pathlib.Path(self.path("b.tif")).read_bytes())
        self.assertEqual(result.paths, {"ndvi": self.path("a.tif")})
        statistics = result.statistics["ndvi"][0]
        assert statistics is not None
        self.assertLess(statistics["min"], statistics["max"])
        self.assertEqual((result.blocks, result.resumed), (1, 0))
        self.assertEqual((result.values, result.merged), ([], None))
        self.assertIn("computing", result.timings)
        self.assertIn("192 x 192 pixels of float32", repr(result))

    def test_lists_of_files_even_of_one(self) -> None:
        for files in ([pathlib.Path(self.scene["red"])], [self.scene["red"], self.scene["nir"]]):
            result = leat.apply("mean(t)", dict(t=files), pathlib.Path(self.path("x.tif")))
            self.assertEqual(list(result.paths), ["out"])

    def test_dict_of_expressions(self) -> None:
        result = leat.apply(dict(a="red + 1", b="red > nir"), self.scene,
                            dict(a=self.path("a.tif"), b=self.path("b.tif")), type=dict(b="uint16"))
        self.assertEqual(result.outputs["b"]["bands"][0]["type"], "uint16")

    def test_plan(self) -> None:
        plan = leat.apply("red", self.scene, self.path("x.tif"), plan=True)
        self.assertEqual(plan["outputs"][0]["expression"], "red")
        self.assertEqual(self.left(), [])

    def test_two_runs_in_threads(self) -> None:
        results: dict[str, Any] = {}

        def work(name: str) -> None:
            results[name] = leat.apply(NDVI, self.scene, self.path(name + ".tif"))

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(results), ["a", "b"])

    def test_in_a_forked_child(self) -> None:
        leat.apply(NDVI, self.scene, self.path("a.tif"))
        pid = os.fork()
        if pid == 0:
            try:
                leat.apply(NDVI, self.scene, self.path("b.tif"))
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(self.left(), ["a.tif", "b.tif"])


class CRS:
    """CRS has the methods of those of rasterio and pyproj."""

    def __init__(self, code: Optional[int]) -> None:
        self.code = code

    def to_epsg(self) -> Optional[int]:
        return self.code

    def to_wkt(self) -> str:
        return "PROJCRS[…]"


class Errors(SceneCase):
    def refused(self, kind: type, pattern: str, *args: Any, **options: Any) -> Any:
        args = args or ("red", self.scene, self.path("x.tif"))
        with self.assertRaisesRegex(kind, pattern) as caught:
            leat.apply(*args, **options)
        self.assertEqual(self.left(), [])
        return caught.exception

    def test_mistakes_touch_nothing(self) -> None:
        self.refused(leat.JobError, r"no argument 'refrence'\nhint: did you mean reference\?",
                     refrence="red")
        self.refused(leat.JobError, r'no argument \'tile_size\'\nhint: use co={"BLOCKSIZE": "N"}',
                     tile_size=256)
        for name in ("a b", "1", "a/b", "-x", "@x"):
            self.refused(leat.JobError, f'^output: the name "{name}": expected letters[^\n]*$',
                         "red", self.scene, {name: self.path("x.tif")})
        self.refused(leat.JobError, "hint: use window for the size of blocks", block_size=256)
        self.refused(leat.JobError, "type uint9: use one of", type="uint9")
        self.refused(leat.JobError, "did you mean red", "rad", self.scene, self.path("x.tif"))
        self.refused(leat.JobError, "(?s)no_such.*expected true", no_such=1, plan=[1])
        self.refused(leat.JobError, "no such file", "a", dict(a="missing.tif"), self.path("x.tif"))
        self.refused(ValueError, r"inputs\['a'\]: the path is empty", "a", dict(a=""))
        self.refused(ValueError, r"outputs\['out'\]: the path is empty", "a", self.scene, "")
        for out in ("x\udcff.tif", b"x\xff.tif", pathlib.Path("x\udcff.tif")):
            self.refused(ValueError, r"outputs\['out'\]: 'x\\udcff.tif' is not UTF-8: use another",
                         "a", self.scene, dict(out=out))
        self.refused(ValueError, r"inputs\['a'\]: '\\ud800' is not UTF-8", "a", dict(a=["\ud800"]))
        self.refused(ValueError, "preview: .* is not UTF-8", preview="x\udcff.png")
        self.refused(leat.JobError, "the list is empty", "a", dict(a=[]), self.path("x.tif"))
        self.refused(leat.JobError, "plan: expected true or false", plan=[1])
        self.refused(leat.JobError, "without a comma", names=dict(out=["a,b"]))
        self.refused(leat.JobError, "finds out by itself", overlap=1)
        self.refused(leat.JobError, "no parameters", params=3)
        self.refused(leat.JobError, "above 0 for an expression", workers=0)
        self.refused(leat.JobError, "emits no values", merge=max)
        self.refused(leat.JobError, r"type is given for all outputs, and in outputs\['a'\]", "red",
                     self.scene, dict(a=dict(path=self.path("x.tif"), dtype="uint8")), type="int16")
        self.refused(TypeError, "merge: got int, expected a function", merge=3)
        self.refused(TypeError, "resume: got 'yes', expected True or False", resume="yes")
        self.refused(TypeError, "progress: got 3, expected True or False, or a function",
                     progress=3)
        self.refused(TypeError, "its result has what the command prints", verbose=True)
        self.refused(TypeError, "profile: got str, expected a dict", profile="GTiff")
        self.refused(TypeError, "workers: got 1.5, expected a whole number", workers=1.5)
        self.refused(TypeError, "it is 'inputs' here", input="a")
        self.refused(TypeError, "expected a dict of paths", "a", "a.tif", self.path("x.tif"))
        self.refused(TypeError, "expected a function", 3, self.scene, self.path("x.tif"))
        self.refused(TypeError, "bbox: got object", bbox=object())
        self.refused(TypeError, "expected a path or a URL", "a", dict(a=3), self.path("x.tif"))

    def test_mistakes_name_arguments(self) -> None:
        out = self.path("x.tif")
        for want, call in {
            'outputs: there is none, expected at least one, such as {"out": "ndvi.tif"}':
                lambda: leat.apply("red", self.scene),
            'inputs: there is none, expected at least one, such as {"red": "B4.tif"}':
                lambda: leat.apply("1", {}, out),
            "function: there are several outputs, expected a dict with an expression for each: "
            "a, b":
                lambda: leat.apply("red", self.scene, dict(a=out, b=self.path("y.tif"))),
            "hint: use another name or directory (outputs)":
                lambda: leat.apply("red", self.scene, "/nonexistent/x.tif"),
            "jobs and readers: use 1 or more":
                lambda: leat.apply("red", self.scene, out, jobs=-1),
            "demo: size -1": lambda: leat.demo(self.dir, size=-1),
        }.items():
            with self.subTest(want), self.assertRaises(leat.Error) as caught:
                call()
            self.assertIn(want, str(caught.exception))
        self.assertEqual(_run.in_python("give -o NAME=FILE.tif or -i red=a.tif; see -e, --no-mask"),
                         'give outputs={"NAME": "FILE.tif"} or inputs={"red": "a.tif"}; see '
                         "function, no_mask")

    def test_hints_have_the_words_of_python(self) -> None:
        for path in ("d/Z*.tif", "s3://b/t*.tif", "items.json#B04", "f"):
            self.assertEqual(_run.in_python(f"-i a={path}: no file"),
                             'inputs={"a": "' + path + '"}: no file')
        self.assertEqual(_run.in_python("see --no-mask; leat info --formats lists them"),
                         "see no_mask; leat info --formats lists them")
        self.assertEqual(_run.in_python("-v x: expected NAME=FILE"), "vector x: expected NAME=FILE")
        self.assertEqual(_run.in_python("see --no-mask and --co: a--b -o x"),
                         "see no_mask and co: a--b outputs x")

    def test_block_error(self) -> None:
        e = self.refused(leat.BlockError, "no nodata value", "log(0.0 - red)",
                         self.scene, self.path("x.tif"), nodata="none")
        self.assertEqual((e.block, e.window), (0, (0, 0, 192, 192)))
        self.assertTrue(e.host)

    def test_warnings(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = leat.apply("red - 5000", dict(red=self.scene["red"]), self.path("x.tif"),
                                type="uint8")
        self.assertEqual(len(result.warnings), len(caught))
        self.assertGreater(len(caught), 0)
        self.assertIn("beyond the range of uint8", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)


class Profiles(SceneCase):
    def test_profile_of_rasterio(self) -> None:
        profile = dict(driver="GTiff", dtype="float32", nodata=-9999.0, width=192, height=192,
                       count=1, crs="EPSG:32631", blockxsize=64,
                       transform=leat.open(self.scene["red"]).transform,
                       blockysize=64, tiled=True, compress="lzw", interleave="band", predictor=None)
        leat.apply(NDVI, self.scene, self.path("x.tif"), profile=profile)
        made = leat.open(self.path("x.tif"))
        layout = made["layout"]
        self.assertEqual((made.dtypes, made.nodata), (("float32",), -9999))
        self.assertEqual((layout["tile_width"], layout["compression"]), (64, "lzw"))
        self.assertEqual(made.profile["transform"], profile["transform"])
        # Its own profile makes the same file again, and one of an output goes before.
        leat.apply(NDVI, self.scene, dict(out=dict(path=self.path("y.tif"), dtype="float64")),
                   profile=made.profile)
        self.assertEqual(leat.open(self.path("y.tif")).dtypes, ("float64",))

    def test_refused(self) -> None:
        for profile, pattern in [(dict(dtyp="uint8"), "unknown key 'dtyp'.*did you mean 'dtype'"),
                                 (dict(width=100), "width is 100, and the job's grid has 192"),
                                 (dict(transform=(1, 0, 0, 0, -1, 0)), "transform is"),
                                 (dict(crs="EPSG:4326"), "crs is EPSG:4326"),
                                 (dict(count=3), "the expression gives 1 band, not 3"),
                                 (dict(blockxsize=256, blockysize=128), "tiles are square"),
                                 (dict(compress="jpeg2000"), "(?i)COMPRESS")]:
            with self.subTest(profile), self.assertRaisesRegex(leat.JobError, pattern):
                leat.apply("red", self.scene, self.path("x.tif"), profile=profile)
            self.assertEqual(self.left(), [])

    def test_values_of_options(self) -> None:
        self.assertEqual(_job.plain({"a": (1, 2.5, float("nan")), "b": pathlib.Path("x")}, "t"),
                         {"a": [1, 2.5, "nan"], "b": "x"})
        of_geotiff = dict(driver="PNG", compress=None, interleave="band", tiled=True,
                          blockxsize=256)
        self.assertEqual(_job.Outputs("x.png", of_geotiff).options, {"format": {"out": "PNG"}})
        self.assertEqual(_job.plain(CRS(32631), "crs"), "EPSG:32631")
        self.assertEqual(_job.plain(CRS(None), "crs"), "PROJCRS[…]")


class Results(SceneCase):
    def test_open(self) -> None:
        red = leat.open(pathlib.Path(self.scene["red"]), stats=True)
        self.assertEqual((red.shape, red.crs, red.nodata), ((1, 192, 192), "EPSG:32631", 0))
        self.assertTrue(red["bands"][0]["statistics"]["computed"])
        missing = self.path("missing.tif")
        with self.assertRaisesRegex(leat.Error, f"^open {missing}: no such file[^:]*$"):
            leat.open(missing)

    def test_html(self) -> None:
        result = leat.apply(NDVI, self.scene, self.path("x.tif"))
        text = result._repr_html_()
        self.assertIn("data:image/png;base64,iVBOR", text)
        self.assertIn("<td>computing</td>", text)
        self.assertIn("iVBOR", leat.open(self.path("x.tif"))._repr_html_())
        self.assertIn('width="192" style="max-width:100%;height:auto;background:', text)
        self.assertNotIn("pixelated", text)
        small = leat.apply(NDVI, self.scene, self.path("s.tif"), srcwin=(0, 0, 4, 3))
        self.assertRegex(small._repr_html_(), 'width="200" [^>]*;image-rendering:pixelated"')
        os.unlink(self.path("x.tif"))
        self.assertIn("no quicklook: ", result._repr_html_())

    def test_files_about_the_run(self) -> None:
        leat.apply("red", dict(red=self.scene["red"]), self.path("x.tif"),
                   trace=self.path("t.json"), preview=self.path("p.png"),
                   report=self.path("r.html"), stac=self.path("i.json"), datetime="2024-01-01")
        with open(self.path("r.html")) as f:
            self.assertNotIn("--job", f.read())  # says nothing of what the program asked for
        self.assertEqual(self.left(), ["i.json", "p.png", "r.html", "t.json", "x.tif"])
        with open(self.path("t.json")) as f:
            names = {one.get("name") for one in json.load(f)["traceEvents"]}
        self.assertLess({"reading", "computing", "encoding"}, names)

    @needs("matplotlib")
    def test_plot(self) -> None:
        import matplotlib
        matplotlib.use("Agg")
        axes = leat.apply(NDVI, self.scene, self.path("x.tif")).plot()
        self.assertEqual(axes.get_title(), "out")
        self.assertEqual(axes.images[0].get_extent()[0], 300000)

    def test_progress(self) -> None:
        seen: list[tuple[int, int]] = []
        leat.apply(NDVI, self.scene, self.path("x.tif"), window=64, co=dict(BLOCKSIZE=64),
                   progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[-1], (9, 9))
        child = self.script("""
            import leat, sys
            sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None  # as if it were not installed
            leat.apply("red", dict(red=sys.argv[1]), "x.tif", progress=True)""", self.scene["red"])
        self.assertEqual(child.communicate()[1], "1 of 1 blocks (100 %)\n")

    def test_progress_by_tqdm(self) -> None:
        bar = mock.Mock(n=0)
        modules = {"tqdm": mock.Mock(), "tqdm.auto": mock.Mock(tqdm=mock.Mock(return_value=bar))}
        with mock.patch.dict(sys.modules, modules):
            leat.apply(NDVI, self.scene, self.path("x.tif"), progress=True)
        bar.update.assert_called_with(1)
        bar.close.assert_called_once_with()


HEAVY = "red" + "".join(f" + sin(red * {i})" for i in range(60))

LONG = f"""
    import leat, sys
    def show(done, total):
        print(done, flush=True)
    leat.apply({HEAVY!r}, dict(red=sys.argv[1]), "x.tif", window=64, co=dict(BLOCKSIZE=64), jobs=1,
               progress=show)
"""


def children(pid: int) -> list[int]:
    """Return the processes whose parent is pid."""
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(one) for one in f.read().split()]


@slow("runs for seconds, so that there is time to end them")
class Ends(SceneCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.scene = leat.demo(cls.shared.name, size=1024)

    def start(self) -> "tuple[subprocess.Popen[str], int]":
        """Start a long run, and return it with leat's process when a block is done."""
        child = self.script(LONG, self.scene["red"])
        assert child.stdout is not None
        while child.stdout.readline().strip() in ("", "0"):
            self.assertIsNone(child.poll(), "it ended")
        return child, children(child.pid)[0]

    def gone(self, pid: int) -> None:
        deadline = time.monotonic() + 60
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_interrupt_and_resume(self) -> None:
        child, pid = self.start()
        child.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", child.communicate(timeout=60)[1])
        self.gone(pid)
        self.assertEqual(self.left(), [".x.tif.leat-part"])
        result = leat.apply(HEAVY, dict(red=self.scene["red"]), self.path("x.tif"), window=64,
                            co=dict(BLOCKSIZE=64), resume=True)
        self.assertGreater(result.resumed, 0)
        self.assertEqual(self.left(), ["x.tif"])

    def test_killed_caller(self) -> None:
        child, pid = self.start()
        child.kill()
        self.gone(pid)
        self.assertEqual(self.left(), [".x.tif.leat-part"])

    def test_killed_run(self) -> None:
        child, pid = self.start()
        os.kill(pid, signal.SIGKILL)
        self.assertIn("leat apply ended without a result: killed by SIGKILL",
                      child.communicate(timeout=60)[1])


if __name__ == "__main__":
    unittest.main()
