"""Tests that each option of leat apply can be given to leat.apply, or is left out for a reason."""

from __future__ import annotations

import inspect

import leat
from leat import _job

from .support import leat as program
from .test_apply import SceneCase

LEFT_OUT = {
    "help": "Python has its own help",
    "profile": "the argument of this name is a rasterio profile; config files are for shells",
    "unfinished": "it lists files and runs no job",
}


def options() -> list[str]:
    """Return the names of all options of leat apply."""
    lines = program("__complete", "apply", "--").decode().splitlines()
    return [line.split("\t")[0][2:] for line in lines if line.startswith("--")]


class Options(SceneCase):
    def test_all_options_are_arguments(self) -> None:
        names = options()
        self.assertGreater(len(names), 60)
        arguments = set(inspect.signature(leat.apply).parameters)
        rest: list[str] = []
        for name in names:
            argument = name.replace("-", "_")
            ways = [argument in arguments and name not in LEFT_OUT, argument in _job._OTHERS,
                    argument in _job._IN_RESULT, name in LEFT_OUT]
            self.assertLessEqual(sum(ways), 1, name)
            if not any(ways):
                rest.append(name)
        # A value that is wrong for each option: leat reports all of them at once.
        wrong = {name.replace("-", "_"): {"=": "1"} for name in rest}
        with self.assertRaises(leat.JobError) as caught:
            leat.apply("red", self.scene, self.path("x.tif"), **wrong)  # type: ignore[arg-type]
        found = {line.split(": ")[0] for line in str(caught.exception).splitlines()
                 if ": " in line}
        self.assertEqual(sorted(set(wrong) - found), [])

    def test_tables_name_options(self) -> None:
        names = {name.replace("-", "_") for name in options()}
        for table in (_job._OTHERS, _job._IN_RESULT, {n.replace("-", "_") for n in LEFT_OUT}):
            self.assertLessEqual(set(table), names)

    def test_all_mistakes_at_once(self) -> None:
        with self.assertRaises(leat.JobError) as caught:
            leat.apply("red", self.scene, self.path("x.tif"), tile_size=3, bboxx=(0, 0, 1, 1))
        for part in ("tile_size", "bboxx", "bbox"):
            self.assertIn(part, str(caught.exception))
