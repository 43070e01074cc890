"""Tests of the package as a whole: import, names, errors, the program, style, docstrings."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import unittest
from pathlib import Path

import leat
from leat import _binary

from .support import TestCase, leat as run

HAS_NUMPY = importlib.util.find_spec("numpy") is not None
PACKAGE = Path(leat.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
NAMES = [*leat.__all__, *(["Block"] if HAS_NUMPY else [])]


def modules() -> list[str]:
    """Return the names of all modules of the package."""
    names = []
    for path in SOURCES:
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        names.append(name[: -len(".__init__")] if name.endswith(".__init__") else name)
    return names


class Import(unittest.TestCase):
    def test_what_import_leat_loads(self) -> None:
        script = (f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
                  "before = set(sys.modules); import leat\n"
                  "print(*sorted(set(sys.modules) - before))")
        out = subprocess.run([sys.executable, "-I", "-c", script], check=True, text=True,
                             stdout=subprocess.PIPE).stdout.split()
        self.assertEqual([name for name in out if name not in ("leat", "__future__")], [])

    def test_all_names_exist(self) -> None:
        self.assertEqual(sorted(leat._modules), sorted([*leat.__all__, "Block"]))
        for name in NAMES:
            self.assertIsNotNone(getattr(leat, name), name)
            self.assertIn(name, dir(leat))
        with self.assertRaisesRegex(AttributeError, "no attribute 'missing'"):
            getattr(leat, "missing")

    def test_type_checkers_see_the_same_names(self) -> None:
        seen: set[str] = set()
        for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
            if isinstance(node, ast.If):
                for statement in ast.walk(node):
                    if isinstance(statement, ast.ImportFrom):
                        for alias in statement.names:
                            seen.add(alias.name)
                            self.assertEqual(leat._modules[alias.name], statement.module)
        self.assertEqual(seen, set(leat._modules))


class Errors(unittest.TestCase):
    def test_pickle_keeps_facts(self) -> None:
        e = leat.BlockError("failed", block=3, window=(0, 1, 2, 3), worker="w", host="h",
                            traceback="Traceback")
        e = pickle.loads(pickle.dumps(e))
        self.assertEqual((type(e), str(e), e.block, e.window, e.worker, e.host, e.traceback),
                         (leat.BlockError, "failed", 3, (0, 1, 2, 3), "w", "h", "Traceback"))
        self.assertEqual(pickle.loads(pickle.dumps(leat.Claimed("taken", holder="7"))).holder, "7")

    def test_unknown_facts_are_refused(self) -> None:
        with self.assertRaises(TypeError):
            leat.Closed("closed", block=1)


class Binary(TestCase):
    def setUp(self) -> None:
        super().setUp()
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))

    def test_version_of_the_program(self) -> None:
        self.assertIn(leat.__version__.encode(), run("version"))

    def test_another_version_is_refused(self) -> None:
        path = self.path("leat")
        Path(path).write_text('#!/bin/sh\necho \'{"version": "9.9.9"}\'\n')
        os.chmod(path, 0o755)
        os.environ["LEAT_BINARY"] = path
        with self.assertRaises(leat.VersionMismatch) as caught:
            _binary.binary()
        e = caught.exception
        self.assertEqual((e.path, e.found, e.expected), (path, "9.9.9", leat.__version__))

    def test_no_program(self) -> None:
        os.environ["LEAT_BINARY"] = self.path("missing")
        with self.assertRaisesRegex(leat.NoBinary, "missing"):
            _binary.binary()
        del os.environ["LEAT_BINARY"]
        os.environ["PATH"] = self.dir
        for path in _binary.candidates():
            if path.exists():
                self.assertEqual(_binary.find(), str(path))
                return
        with self.assertRaisesRegex(leat.NoBinary, "scripts|bin/leat"):
            _binary.find()


class Sources(unittest.TestCase):
    def test_style(self) -> None:
        for path in SOURCES + sorted(Path(__file__).parent.rglob("*.py")):
            text = path.read_text()
            ast.parse(text, str(path), feature_version=(3, 9))
            for number, line in enumerate(text.splitlines(), 1):
                self.assertLessEqual(len(line), 100, f"{path.name}:{number}")
            self.assertNotIn("\t", text, path.name)

    def test_public_names_have_docstrings(self) -> None:
        for name in NAMES:
            value = getattr(leat, name)
            self.assertTrue(inspect.getdoc(value), name)
            if inspect.isclass(value):
                for member, function in vars(value).items():
                    if not member.startswith("_") and callable(function):
                        self.assertTrue(inspect.getdoc(function), f"{name}.{member}")

    def test_public_names_have_examples(self) -> None:
        for name in NAMES:
            value = getattr(leat, name)
            if inspect.isclass(value) and issubclass(value, leat.Error):
                continue
            self.assertIn(">>>", inspect.getdoc(value) or "", name)
            for member in vars(value) if inspect.isclass(value) else ():
                function = getattr(value, member)
                if not member.startswith("_") and inspect.isroutine(function):
                    self.assertIn(">>>", inspect.getdoc(function) or "", f"{name}.{member}")

    def test_docstring_examples(self) -> None:
        for name in modules():
            try:
                module = importlib.import_module(name)
            except ImportError as e:
                self.assertTrue(e.name and not e.name.startswith("leat"), f"{name}: {e}")
                continue
            with self.subTest(module=name):
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
                for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
                    numpy = "import leat, numpy", "from leat.rios import"
                    if not HAS_NUMPY and any(text in (test.docstring or "") for text in numpy):
                        continue
                    output: list[str] = []
                    failed, _ = runner.run(test, out=output.append)
                    self.assertEqual(failed, 0, "".join(output))
