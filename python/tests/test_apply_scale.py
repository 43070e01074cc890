"""Tests of unscale and input_scale: a function sees the values that expressions see."""

from __future__ import annotations

import math
from typing import Any

import leat

from .support import SHORT, TestCase, longer, needs, slow
from .test_apply import SceneCase
from .test_apply_function import pixels
from .test_block import Leat

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

TYPES = {"uint16": "float32", "int32": "float64"}
"""Types of files and of the arrays that functions see."""
if not SHORT:
    TYPES.update(uint8="float32", float64="float64")

BLOCKS = dict(window=64, co=dict(BLOCKSIZE=64))


def copies(b: Any) -> None:
    assert np.array_equal(b.valid("a"), ~np.isnan(b.a)), "valid and NaN differ"
    assert np.array_equal(b.masked("a").mask, np.isnan(b.a))
    b.out = b.a
    b.a[...] = 7  # a function may write to its inputs


@needs("numpy", "rasterio")
class Scale(SceneCase):
    stored: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.stored = {}
        for type in TYPES:
            cls.stored[type] = f"{cls.shared.name}/{type}.tif"
            leat.apply("red / 100", cls.scene, cls.stored[type], type=type, scale=0.37, offset=-0.1,
                       nodata=0)
        cls.stored["plain"] = f"{cls.shared.name}/plain.tif"
        leat.apply("red + 1", cls.scene, cls.stored["plain"], nodata=0, type="uint16")

    def same(self, files: Any, workers: Any = 0, **options: Any) -> str:
        leat.apply("a", dict(a=files), self.path("e.tif"), nodata="nan", **BLOCKS,
                   **{k: v for k, v in options.items() if k != "on"})
        leat.apply(copies, dict(a=files), self.path("x.tif"), nodata="nan", workers=workers,
                   **BLOCKS, **options)
        np.testing.assert_array_equal(pixels(self.path("x.tif")), pixels(self.path("e.tif")))
        return leat.open(self.path("x.tif")).dtypes[0]

    @longer
    def test_values_of_expressions(self) -> None:
        for type, want in TYPES.items():
            with self.subTest(type):
                self.assertEqual(self.same(self.stored[type], unscale=True), want)
        self.assertEqual(self.same(self.stored["uint16"], input_scale=dict(a=[0.001, 3])),
                         "float32")

    @slow("starts workers")
    def test_in_workers(self) -> None:
        self.same(self.stored["uint16"], 2, on="subprocess", unscale=True)
        self.same(self.stored["uint16"], 2, input_scale=dict(a=[0.001, 3]))

    def test_files_without_scale_keep_their_type(self) -> None:
        seen: dict[str, Any] = {}

        def function(b: Any) -> None:
            seen.update(types=[a.dtype.name for a in b.t], red=b.red.dtype.name,
                        nodata=b.nodata("t"), nodata_red=b.nodata("red"), repr=repr(b))
            b.out = b.red

        inputs = dict(t=[self.stored["uint16"], self.stored["plain"]],
                      red=self.stored["plain"])
        leat.apply(function, inputs, self.path("x.tif"), unscale=True)
        self.assertEqual((seen["types"], seen["red"]), (["float32", "uint16"], "uint16"))
        self.assertTrue(math.isnan(seen["nodata"]))
        self.assertEqual(seen["nodata_red"], 0)
        leat.apply(function, inputs, self.path("x.tif"), input_scale=dict(red=2))
        self.assertEqual((seen["types"], seen["red"]), (["uint16", "uint16"], "float32"))
        self.assertIn("red=float32", seen["repr"])

    def test_every_pixel_is_valid_without_masks(self) -> None:
        def function(b: Any) -> None:
            assert b.valid("a").all() and b.nodata("a") is None
            b.out = b.a

        leat.apply(function, dict(a=self.stored["uint16"]), self.path("x.tif"), unscale=True,
                   no_mask=True)
        leat.apply("a", dict(a=self.stored["uint16"]), self.path("e.tif"), unscale=True,
                   no_mask=True)
        self.assertEqual(leat.open(self.path("x.tif"), stats=True)["bands"][0]["statistics"],
                         leat.open(self.path("e.tif"), stats=True)["bands"][0]["statistics"])


@needs("numpy", "rasterio")
class ScaledBlock(TestCase):
    def test_bands_with_scales_of_their_own(self) -> None:
        pixels = np.array([[[1, 2, 0, 4]] * 3, [[5, 0, 7, 8]] * 3], "i2")
        mask = np.array([[[255, 255, 255, 0]] * 3], "u1")
        seen: dict[str, Any] = {}

        def function(b: Any) -> None:
            seen["a"], seen["valid"] = b.a, b.valid("a")
            assert b.a is b["a"]
            b.out = b.a

        leat_ = Leat(function, pixels, "0", mask=mask, more=dict(
            unscale=True, scale=["0.5", "2"], offset=["10", "-1"]))
        leat_.block()
        leat_.close()
        nan = math.nan
        np.testing.assert_array_equal(
            seen["a"], np.array([[[10.5, 11, nan, nan]] * 3, [[9, nan, 13, nan]] * 3], "f4"))
        self.assertEqual(seen["a"].dtype, np.float32)
        np.testing.assert_array_equal(seen["valid"], ~np.isnan(seen["a"]))
