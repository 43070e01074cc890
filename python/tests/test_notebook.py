"""Tests of leat.apply in a notebook: a kernel of Jupyter runs the cells."""

from __future__ import annotations

import os
import pathlib
import queue
import subprocess
import sys
import time
from typing import Any
from unittest import mock

import leat

from .support import needs, slow
from .test_apply import SceneCase
from .test_apply_function import family

FUNCTION = """
import leat, sys
added = 5
def function(b):
    b.out = b.red + added
"""

HANGS = """
import os, time
def hangs(b):
    if b.number == 1:
        open(flag, "w").close()
        while True:
            time.sleep(1)
    b.out = b.red
"""


@needs("numpy", "rasterio", "ipykernel", "jupyter_client", "cloudpickle")
@slow("starts kernels of notebooks")
class Notebook(SceneCase):
    def setUp(self) -> None:
        from jupyter_client.manager import KernelManager
        super().setUp()
        os.mkdir(self.path("work"))
        os.mkdir(self.path("tmp"))
        env = {**os.environ, "IPYTHONDIR": self.path("ipython"), "JUPYTER_RUNTIME_DIR": self.path(),
               "PYTHONPATH": os.path.dirname(os.path.dirname(leat.__file__)),
               "PYDEVD_DISABLE_FILE_VALIDATION": "1", "TMPDIR": self.path("tmp")}
        with mock.patch.dict(os.environ, JUPYTER_RUNTIME_DIR=self.path()):
            self.kernel = KernelManager()
            spec = self.kernel.kernel_spec
            spec.argv = [sys.executable, "-B", "-m", "ipykernel_launcher", "-f",
                         "{connection_file}"]
            self.kernel.start_kernel(env=env, cwd=self.path("work"), stderr=subprocess.DEVNULL)
        self.addCleanup(self.kernel.shutdown_kernel, now=True)
        self.client = self.kernel.blocking_client()
        self.addCleanup(self.client.stop_channels)
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)
        self.cell(f"red, flag = {self.scene['red']!r}, {self.path('flag')!r}" + FUNCTION + HANGS)

    def start(self, code: str) -> None:
        self.message = self.client.execute(code)

    def end(self) -> dict[str, Any]:
        """Wait for the end of a cell, and return its outputs by type."""
        found: dict[str, Any] = {"stream": "", "error": None, "data": {}}
        while True:
            try:
                one = self.client.get_iopub_msg(timeout=120)
            except queue.Empty:
                self.fail("the cell does not end")
            if one["parent_header"].get("msg_id") != self.message:
                continue
            kind, content = one["msg_type"], one["content"]
            if kind == "stream":
                found["stream"] += content["text"]
            elif kind == "error":
                found["error"] = content["ename"], content["evalue"]
            elif kind == "execute_result":
                found["data"] = content["data"]
            elif kind == "status" and content["execution_state"] == "idle":
                return found

    def cell(self, code: str) -> dict[str, Any]:
        self.start(code)
        found = self.end()
        self.assertIsNone(found["error"], found)
        return found

    def kernel_family(self) -> list[int]:
        text = self.cell("print(__import__('os').getpid())")["stream"]
        return family(int(text))

    def test_function_of_a_cell(self) -> None:
        from .test_apply_function import pixels
        red = pixels(self.scene["red"])
        for workers in ("None", "0", "'threads'", "2"):
            with self.subTest(workers=workers):
                found = self.cell("leat.apply(function, dict(red=red), 'x.tif', window=64, "
                                  f"co=dict(BLOCKSIZE=64), workers={workers})")
                self.assertIn("192 x 192 pixels of uint16", found["data"]["text/plain"])
                self.assertIn("data:image/png;base64,iVBOR", found["data"]["text/html"])
                self.assertEqual(found["stream"], "")
                self.assertTrue((pixels(self.path("work", "x.tif")) == red + 5).all())
        self.assertEqual(os.listdir(self.path("work")), ["x.tif"])
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_progress_without_widgets(self) -> None:
        found = self.cell("sys.modules['ipywidgets'] = None\n"
                          "r = leat.apply(function, dict(red=red), 'x.tif', progress=True)")
        self.assertNotIn("Warning", found["stream"])
        self.assertRegex(found["stream"], r"1/1|1 of 1")

    def test_interrupt(self) -> None:
        before = set(os.listdir("/dev/shm"))
        for workers in ("0", "'threads'", "2"):
            with self.subTest(workers=workers):
                self.start(f"leat.apply(hangs, dict(red=red), 'x.tif', workers={workers}, jobs=1, "
                           "window=64, co=dict(BLOCKSIZE=64))".replace(
                               ", jobs=1" if workers == "2" else "\0", ""))
                self.wait(lambda: os.path.exists(self.path("flag")))
                os.unlink(self.path("flag"))
                self.kernel.interrupt_kernel()
                found = self.end()
                assert found["error"] is not None
                self.assertEqual(found["error"][0], "KeyboardInterrupt")
                self.wait(lambda: not self.kernel_family())
                self.assertEqual(os.listdir(self.path("tmp")), [])
                self.assertLessEqual(set(os.listdir(self.path("work"))), {".x.tif.leat-part"})
                self.assertEqual([n for n in set(os.listdir("/dev/shm")) - before if "leat" in n
                                  and "test" not in n], [])  # other tests use it too
                # The next run of the kernel works, and replaces what this one left.
                self.cell("import warnings; warnings.simplefilter('ignore')\n"
                          "leat.apply(function, dict(red=red), 'x.tif', workers=0)")
                self.assertEqual(os.listdir(self.path("work")), ["x.tif"])
                os.unlink(self.path("work", "x.tif"))

    def wait(self, condition: Any) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it does not come")
            time.sleep(0.05)


@needs("nbconvert", "nbformat")
@slow("converts a notebook")
class Converted(SceneCase):
    def test_result_in_a_page(self) -> None:
        import nbformat
        from nbconvert import HTMLExporter
        result = leat.apply(dict(a="red + 1", b="nir > red"), self.scene,
                            dict(a=self.path("a<b>.tif"), b=self.path("b.tif")))
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell("result", outputs=[nbformat.v4.new_output(
            "execute_result", {"text/html": result._repr_html_(), "text/plain": repr(result)})])]
        page, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
        for one in result._repr_html_().split('src="')[1:]:
            self.assertIn(one.split('"')[0], page)
        self.assertEqual(result._repr_html_().count("data:image/png;base64,iVBOR"), 2)
        self.assertIn("a&lt;b&gt;.tif", page)
        self.assertIn("<td>computing</td>", page)
        self.assertLess(len(result._repr_html_()), 1 << 20)


@needs("tqdm")
@slow("runs in a terminal")
class Terminal(SceneCase):
    def test_tqdm_in_a_terminal(self) -> None:
        import pty
        ours, theirs = pty.openpty()
        child = self.script("""
            import leat, sys
            leat.apply("red", dict(red=sys.argv[1]), "x.tif", progress=True, window=64,
                       co=dict(BLOCKSIZE=64))
            print(file=sys.stderr, flush=True)""", self.scene["red"])
        child.communicate(timeout=60)
        path = pathlib.Path(self.path("script.py"))
        done = subprocess.Popen([sys.executable, "-B", str(path), self.scene["red"]], cwd=self.dir,
                                env={**os.environ, "PYTHONPATH": os.path.dirname(
                                    os.path.dirname(leat.__file__))}, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while True:
                shown += os.read(ours, 4096)
        except OSError:  # the terminal's other end is closed
            pass
        os.close(ours)
        self.assertEqual(done.wait(60), 0)
        self.assertIn(b"9/9", shown)
        self.assertIn(b"\r", shown)
        self.assertNotIn(b"Warning", shown)
