"""Tests of leat.rios against NumPy and GDAL."""

from __future__ import annotations

import importlib
import os
import pickle
import threading
from typing import Any
from unittest import mock

from .rios_support import SIZE, X, Y, RiosCase, gdal, needs_rios, np, wkt
from .support import slow


def rios(name: str) -> Any:
    """Return a module of leat.rios."""
    return importlib.import_module("leat.rios." + name)


def scene(bands: int = 2, rows: int = 300, columns: int = 400, seed: int = 1,
          dtype: str = "uint16") -> Any:
    """Return random pixels from 1 to 999."""
    return np.random.RandomState(seed).randint(1, 1000, (bands, rows, columns)).astype(dtype)


def copy(info: Any, inputs: Any, outputs: Any) -> None:
    """Write the input a to the output o."""
    outputs.o = inputs.a


def tally(info: Any, inputs: Any, outputs: Any, other: Any) -> None:
    """Sum pixels, and list the blocks: a function that other processes can import."""
    other.total += int(inputs.a.sum(dtype="i8"))
    other.blocks.append(info.getBlockCount())
    outputs.o = inputs.a + np.uint16(other.plus)


def fails(info: Any, inputs: Any, outputs: Any) -> None:
    """Raise an error in the last block."""
    if info.isLastBlock():
        raise KeyError("mine")
    outputs.o = inputs.a


@needs_rios
class Blocks(RiosCase):
    @slow("starts leat several times")
    def test_windows_and_margins(self) -> None:
        a = scene()
        whole = np.pad(a, ((0, 0), (3, 3), (3, 3)), constant_values=9)
        path = self.raster("a.tif", a, nodata=9)
        for driver, ending, window in (("HFA", "img", (256, 256)), ("GTiff", "tif", (100, 70)),
                                       ("GTiff", "tif", (64, 512))):
            seen: list[Any] = []

            def function(info: Any, inputs: Any, outputs: Any) -> None:
                across, down = info.getBlockCount()
                columns, rows = info.getBlockSize()
                left, top = across * window[0], down * window[1]
                part = whole[:, top:top + rows + 6, left:left + columns + 6]
                seen.append((across, down))
                self.assertEqual((columns, rows), (min(window[0], 400 - left),
                                                   min(window[1], 300 - top)))
                np.testing.assert_array_equal(inputs.a, part)
                self.assertTrue(inputs.a.flags.owndata and inputs.a.flags.c_contiguous)
                self.assertEqual(info.getOverlapSize(), 3)
                self.assertEqual(info.getWindowSize(), window)
                x, y = info.getBlockCoordArrays()
                self.assertEqual(x.shape, inputs.a.shape[1:])
                self.assertEqual((x[0, 0], y[0, 0]), (X + (left - 3 + .5) * SIZE,
                                                      Y - (top - 3 + .5) * SIZE))
                self.assertEqual((x[-1, -1], y[-1, -1]), (X + (left + columns + 3 - .5) * SIZE,
                                                          Y - (top + rows + 3 - .5) * SIZE))
                self.assertEqual(info.getPixRowColBlock(x[5, 7], y[5, 7]), (5, 7))
                self.assertEqual(info.getPixRowColBlock(x[0, 0] - SIZE, y[0, 0]), (None, None))
                self.assertEqual(info.getPixRowColBlock(x[-1, -1], y[-1, -1] - SIZE / 2),
                                 (None, None))
                self.assertEqual(info.getPixColRow(3, 4), (left + 3, top + 4))
                self.assertEqual(info.isFirstBlock(), (across, down) == (0, 0))
                outputs.o = inputs.a + inputs.a[:, ::-1, ::-1]
                self.assertEqual(info.getPercent(), 100 * (down * total[0] + across)
                                 // (total[0] * total[1]))
                self.assertEqual(info.getTotalBlocks(), total)

            total = (-(-400 // window[0]), -(-300 // window[1]))
            out = self.path("o." + ending)
            self.apply(function, {"a": path}, {"o": out}, setOverlap=3, setWindowSize=window,
                       setOutputDriverName=driver)
            self.assertEqual(sorted(seen), sorted((i, j) for i in range(total[0])
                                                  for j in range(total[1])))
            made = self.read(out)
            for across, down in seen:
                left, top = across * window[0], down * window[1]
                right, bottom = min(left + window[0], 400), min(top + window[1], 300)
                part = whole[:, top:bottom + 6, left:right + 6]
                np.testing.assert_array_equal(
                    made[:, top:bottom, left:right],
                    (part + part[:, ::-1, ::-1])[:, 3:-3, 3:-3])

    def test_blocks_are_in_order(self) -> None:
        path, other = self.raster("a.tif", scene(1)), rios("structures").OtherInputs()
        other.total, other.blocks, other.plus = 0, [], 1
        done = self.apply(tally, {"a": path}, {"o": self.path("o.tif")}, other,
                          setOutputDriverName="GTiff", setWindowSize=(512, 64))
        self.assertEqual(other.blocks, [(0, j) for j in range(5)])
        self.assertEqual(other.total, scene(1).sum())
        self.assertIs(done.otherArgsList[0], other)
        np.testing.assert_array_equal(self.read(self.path("o.tif")), scene(1) + 1)

    @slow("starts leat several times")
    def test_lists_and_equal_names(self) -> None:
        a, b = scene(1, seed=1), scene(3, seed=2)
        paths = [self.raster("a.tif", a), self.raster("b.tif", b, nodata=5)]

        def function(info: Any, inputs: Any, outputs: Any) -> None:
            self.assertEqual([info.getFilenameFor(one) for one in inputs.x], paths)
            self.assertEqual([info.getNoDataValueFor(one) for one in inputs.x], [None, 5])
            self.assertEqual(inputs["x", 1].shape[0], 3)
            for wrong in (np.zeros(3), inputs.x[0][0]):
                with self.assertRaises(KeyError):
                    info.getFilenameFor(wrong)
            with self.assertRaises(IndexError):
                info.getNoDataValueFor(inputs.x[0], 2)
            outputs.x = [inputs.x[0], inputs.x[1] * np.float32(2)]
            outputs.y = inputs.one[0][:, :, ::1]

        outs = [self.path("x0.img"), self.path("x1.tif")]
        with self.assertRaisesRegex(Exception, "x1.tif"):
            self.apply(function, {"x": paths, "one": paths[:1]},
                       {"x": outs, "y": self.path("y.img")})
        outs[1] = self.path("x1.img")
        self.apply(function, {"x": paths, "one": paths[:1]}, {"x": outs, "y": self.path("y.img")})
        np.testing.assert_array_equal(self.read(outs[0]), a)
        np.testing.assert_array_equal(self.read(outs[1]), b * np.float32(2))
        np.testing.assert_array_equal(self.read(self.path("y.img")), a)

    @slow("starts leat several times")
    def test_no_outputs(self) -> None:
        other = rios("structures").OtherInputs()
        other.sum = 0

        def function(info: Any, inputs: Any, outputs: Any, other: Any) -> None:
            self.assertLessEqual(info.getBlockSize(), (90, 50))
            other.sum += int(inputs.a.sum(dtype="i8"))

        self.apply(function, {"a": self.raster("a.tif", scene())}, {}, other,
                   setWindowSize=(90, 50))
        self.assertEqual(other.sum, scene().sum())

    @slow("starts leat several times")
    def test_bands_and_types(self) -> None:
        a = scene(3)
        path = self.raster("a.tif", a)
        for dtype in ("uint8", "int16", "uint32", "int32", "float32", "float64", "bool"):
            with self.subTest(dtype):
                out = self.path("o.tif")
                self.apply(lambda i, n, o: setattr(o, "o", (n.a % 100).astype(dtype)), {"a": path},
                           {"o": out}, selectInputImageLayers=[3, 1], setOutputDriverName="GTiff",
                           setOmitHistogram=True)
                np.testing.assert_array_equal(self.read(out), (a[[2, 0]] % 100).astype(dtype))


@needs_rios
class Grids(RiosCase):
    @slow("starts leat several times")
    def test_footprints(self) -> None:
        a, b = scene(1, 60, 80), scene(1, 50, 70, 2)
        paths = {"a": self.raster("a.tif", a), "b": self.raster("b.tif", b, 20, 30, nodata=7)}
        whole = {"a": np.zeros((90, 90), "u2"), "b": np.full((90, 90), 7, "u2")}
        whole["a"][:60, :80], whole["b"][30:80, 20:90] = a[0], b[0]
        applier = rios("applier")
        for footprint, window, reference in (
                (applier.INTERSECTION, (20, 30, 60, 30), None),
                (applier.UNION, (0, 0, 90, 80), None),
                (applier.BOUNDS_FROM_REFERENCE, (20, 30, 70, 50), "b"),
                (applier.BOUNDS_FROM_REFERENCE, (0, 0, 80, 60), paths["a"])):
            left, top, width, height = window
            for name in paths:
                out = self.path("o.img")
                options = {} if reference is None else {"setReferenceImage": reference}
                done = self.apply(lambda i, n, o: setattr(o, "o", getattr(n, name)), paths,
                                  {"o": out}, setFootprintType=footprint, **options)
                np.testing.assert_array_equal(
                    self.read(out)[0], whole[name][top:top + height, left:left + width])
                self.assertEqual(done.workinggrid.getDimensions(), (height, width))
                self.assertEqual(gdal().Open(out).GetGeoTransform(),
                                 (X + left * SIZE, SIZE, 0, Y - top * SIZE, 0, -SIZE))

    @slow("starts leat several times")
    def test_files_for_extent(self) -> None:
        paths = {"a": self.raster("a.tif", scene(1, 60, 80))}
        extent = self.raster("e.tif", scene(1, 20, 10), 5, 6)
        done = self.apply(copy, paths, {"o": self.path("o.img")}, setFilesForExtent=[extent])
        self.assertEqual(done.workinggrid.getDimensions(), (20, 10))
        np.testing.assert_array_equal(self.read(self.path("o.img")),
                                      scene(1, 60, 80)[:, 6:26, 5:15])

    @slow("starts leat several times")
    def test_grids_that_differ_are_refused(self) -> None:
        errors = rios("rioserrors")
        a = self.raster("a.tif", scene(1, 60, 80))
        for name, other, error in (
                ("shifted", self.raster("s.tif", scene(1, 60, 80), .3), errors.ResampleNeededError),
                ("larger pixels", self.raster("l.tif", scene(1, 60, 80), size=20),
                 errors.ResampleNeededError),
                ("another CRS", self.raster("c.tif", scene(1, 60, 80), epsg=28356),
                 errors.ResampleNeededError),
                ("no common area", self.raster("f.tif", scene(1, 60, 80), 500),
                 errors.IntersectionError),
                ("missing", self.path("m.tif"), errors.ImageOpenError)):
            with self.subTest(name), self.assertRaises(error):
                self.apply(copy, {"a": a, "b": other}, {"o": self.path("o.img")})
            self.assertFalse(os.path.exists(self.path("o.img")))

    @slow("starts leat several times")
    def test_resampling(self) -> None:
        a, fine = self.raster("a.tif", scene(1, 60, 80)), scene(1, 140, 180, 3)
        b = self.raster("b.tif", fine, -5, -5, nodata=0, size=5)
        zone = self.raster("z.tif", scene(1, 60, 80, 4), epsg=32755, nodata=0)
        for method in ("near", "bilinear", "cubic", "average"):
            for path in (b, zone):
                seen = self.path("seen.img")

                def function(info: Any, inputs: Any, outputs: Any) -> None:
                    self.assertEqual(info.getFilenameFor(inputs.b), path)
                    outputs.o = inputs.b

                self.apply(function, {"a": a, "b": path}, {"o": seen}, setReferenceImage="a",
                           setFootprintType=rios("const").BOUNDS_FROM_REFERENCE,
                           setResampleMethod=(method, "b"), setWindowSize=(64, 32))
                want = gdal().Warp("", path, format="MEM", resampleAlg=method, dstSRS=wkt(),
                                   outputBounds=(X, Y - 600, X + 800, Y), xRes=10, yRes=10)
                np.testing.assert_array_equal(self.read(seen)[0], want.ReadAsArray())
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith("leat-rios")], [])

    def test_pixel_grids(self) -> None:
        defn = rios("pixelgrid").PixelGridDefn
        a = defn(geotransform=(X, 10, 0, Y, 0, -10), nrows=30, ncols=40, projection=wkt())
        b = defn(projection=wkt(), xMin=X + 100, xMax=X + 600, yMin=Y - 200, yMax=Y + 50, xRes=10,
                 yRes=10)
        self.assertTrue(a.alignedWith(b) and a.isComparable(b))
        both, either = a.intersection(b), a.union(b)
        self.assertEqual((both.getDimensions(), either.getDimensions()), ((20, 30), (35, 60)))
        self.assertTrue(either.surrounds(a) and not a.surrounds(b))
        shifted = defn(geotransform=(X + 3, 10, 0, Y, 0, -10), nrows=5, ncols=5, projection=wkt())
        self.assertFalse(a.alignedWith(shifted))
        self.assertEqual(shifted.reproject(a).xMin, X)
        other = defn(geotransform=(X, 10, 0, Y, 0, -10), nrows=30, ncols=40, projection=wkt(28356))
        self.assertFalse(a.isComparable(other))
        with self.assertRaises(rios("rioserrors").ParameterError):
            a.union(other)
        with self.assertRaises(rios("rioserrors").ParameterError):
            defn(geotransform=(0, 10, 1, 0, 0, -10), nrows=1, ncols=1)
        there = other.reproject(a)
        self.assertTrue(there.alignedWith(a))

    @slow("starts leat several times")
    def test_resampled_inputs_end_with_the_grid(self) -> None:
        fine = scene(1, 200, 240, 3)
        a = self.raster("a.tif", scene(1, 60, 80))
        b = self.raster("b.tif", fine, -10.5, -10.5, nodata=7)
        margins = []

        def function(info: Any, inputs: Any, outputs: Any) -> None:
            margins.append(inputs.b[0, :2])
            outputs.o = inputs.b

        self.apply(function, {"a": a, "b": b}, {"o": self.path("o.img")}, setReferenceImage="a",
                   setFootprintType=rios("const").BOUNDS_FROM_REFERENCE, setOverlap=2)
        self.assertTrue((margins[0] == 7).all())
        half = self.raster("h.tif", fine[:, :40, :50], 4.5, 7.5)
        self.apply(copy, {"r": a, "a": half}, {"o": self.path("o.img")}, setReferenceImage="r",
                   setFootprintType=rios("const").UNION)
        want = gdal().Warp("", half, format="MEM", outputBounds=(X, Y - 600, X + 800, Y),
                           xRes=10, yRes=10)
        np.testing.assert_array_equal(self.read(self.path("o.img"))[0], want.ReadAsArray())

    @slow("starts leat several times")
    def test_nodata_of_one_band_of_a_resampled_input(self) -> None:
        pixels = np.tile(scene(1, 60, 80) % 9, (2, 1, 1))
        b = self.raster("b.img", pixels, 3.5, 3.5, driver="HFA")
        dataset = gdal().Open(b, 1)
        dataset.GetRasterBand(1).SetNoDataValue(5)
        dataset = None
        a = self.raster("r.tif", scene(1, 60, 80))
        self.apply(copy, {"r": a, "a": b}, {"o": self.path("o.img")}, setReferenceImage="r",
                   setResampleMethod="average",
                   setFootprintType=rios("const").BOUNDS_FROM_REFERENCE)
        made = self.read(self.path("o.img"))
        self.assertEqual((made[0, 0, 0], made[1, 0, 0]), (5, 0))
        self.assertTrue((made[0] != made[1]).any())

    @slow("starts leat several times")
    def test_reference_grids(self) -> None:
        defn = rios("pixelgrid").PixelGridDefn
        grid = defn(projection=wkt(), xMin=X, xMax=X + 795, yMin=Y - 602, yMax=Y, xRes=10, yRes=10)
        bounds = rios("const").BOUNDS_FROM_REFERENCE

        def ramp(info: Any, inputs: Any, outputs: Any) -> None:
            x, y = info.getBlockCoordArrays()
            outputs.o = np.stack((x, y))

        a = self.raster("a.tif", scene(1, 60, 80))
        self.apply(copy, {"a": a}, {"o": self.path("o.img")}, setReferencePixgrid=grid,
                   setFootprintType=bounds)
        np.testing.assert_array_equal(self.read(self.path("o.img")), scene(1, 60, 80))
        for overlap in (0, 2):  # no inputs
            self.apply(ramp, {}, {"o": self.path("o.img")}, setReferencePixgrid=grid,
                       setFootprintType=bounds, setOverlap=overlap)
            made = self.read(self.path("o.img"))
            self.assertEqual(made.shape, (2, 60, 80))
            self.assertEqual((made[0, 0, 0], made[1, 59, 79]), (X + 5, Y - 595))
        b = self.raster("b.tif", scene(1, 30, 40), size=20)
        done = self.apply(lambda info, inputs, outputs: None, {"x": [a, b]}, {},
                          setReferenceImage="x")  # the last of a list
        self.assertEqual(done.workinggrid.getDimensions(), (30, 40))

    @slow("starts leat several times")
    def test_grid_of_vectors_alone(self) -> None:
        with self.assertRaises(rios("rioserrors").ParameterError):
            self.apply(copy, {"a": self.vector([("POLYGON((500000 6999900,500300 6999900,500300 "
                                                 "7000000,500000 6999900))", 7)])},
                       {"o": self.path("o.img")})

    def vector(self, features: list[tuple[str, int]]) -> str:
        """Write a GeoPackage with the attribute class."""
        ogr, osr = importlib.import_module("osgeo.ogr"), importlib.import_module("osgeo.osr")
        path = self.path("v.gpkg")
        dataset = ogr.GetDriverByName("GPKG").CreateDataSource(path)
        sr = osr.SpatialReference()
        sr.ImportFromEPSG(28355)
        layer = dataset.CreateLayer("areas", sr)
        layer.CreateField(ogr.FieldDefn("class", ogr.OFTInteger))
        for text, number in features:
            feature = ogr.Feature(layer.GetLayerDefn())
            feature.SetGeometry(ogr.CreateGeometryFromWkt(text))
            feature["class"] = number
            layer.CreateFeature(feature)
        dataset.FlushCache()
        return path

    @slow("starts leat several times")
    def test_vectors(self) -> None:
        def box(left: int, top: int, right: int, bottom: int) -> str:
            x0, x1 = X + left * SIZE - 1, X + right * SIZE - 1
            y0, y1 = Y - top * SIZE - 1, Y - bottom * SIZE - 1
            return (f"POLYGON(({x0} {y0},{x1} {y0},{x1} {y1},{x0} {y1},{x0} {y0}))")

        v = self.vector([(box(10, 5, 30, 25), 7), (box(20, 15, 50, 40), 9)])
        a = self.raster("a.tif", scene(1, 60, 80))
        areas = np.zeros((60, 80), "i4")
        areas[5:25, 10:30], areas[15:40, 20:50] = 7, 9
        only = np.where(areas == 7, 7, 0)
        only[5:25, 10:30] = 7
        touched = np.zeros((60, 80), "u1")
        touched[5:26, 9:30], touched[15:41, 19:50] = 1, 1
        for controls, want in (
                ({}, (areas > 0).astype("u1")),
                ({"setBurnValue": 5, "setVectorNull": 2}, np.where(areas > 0, 5, 2).astype("u1")),
                ({"setBurnAttribute": ("class", "v"), "setVectorDatatype": np.int16},
                 areas.astype("i2")),
                ({"setBurnAttribute": "class", "setFilterSQL": "class < 9", "setVectorlayer":
                  "areas"}, only.astype("u1")),
                ({"setFilterSQL": "SELECT * FROM areas WHERE class = 7", "setBurnValue": 3},
                 np.where(only == 7, 3, 0).astype("u1")),
                ({"setAlltouched": (True, "v")}, touched)):
            for name in ("v", "list"):
                if name == "list" and any(isinstance(c, tuple) for c in controls.values()):
                    continue

                def function(info: Any, inputs: Any, outputs: Any) -> None:
                    one = inputs.v if name == "v" else inputs.list[0]
                    self.assertEqual(info.getFilenameFor(one), v)
                    self.assertEqual(info.getNoDataValueFor(one), controls.get("setVectorNull", 0))
                    outputs.o = one

                self.apply(function, {"a": a, name: v if name == "v" else [v]},
                           {"o": self.path("o.img")}, **controls)
                made = self.read(self.path("o.img"))[0]
                self.assertEqual(made.dtype, want.dtype)
                np.testing.assert_array_equal(made, want, str(controls))


@needs_rios
class Outputs(RiosCase):
    @slow("starts leat several times")
    def test_nodata_statistics_and_overviews(self) -> None:
        a = scene(1, 700, 1100)
        a[0, :50] = 0
        path = self.raster("a.tif", a)
        for driver, ending in (("HFA", "img"), ("GTiff", "tif")):
            out = self.path("o." + ending)
            for dtype in ("uint16", "float32"):
                self.apply(lambda i, n, o: setattr(o, "o", n.a.astype(dtype)), {"a": path},
                           {"o": out}, setOutputDriverName=driver, setLayerNames=["grey"],
                           setThematic=False)
                dataset = gdal().Open(out)
                band = dataset.GetRasterBand(1)
                self.assertEqual((dataset.GetDriver().ShortName, band.GetNoDataValue()),
                                 (driver, 0))
                self.assertEqual(band.GetDescription(), "grey")
                valid = a[a > 0].astype("f8")
                items = band.GetMetadata()
                for key, want in (("MINIMUM", valid.min()), ("MAXIMUM", valid.max()),
                                  ("MEAN", valid.mean()), ("STDDEV", valid.std())):
                    self.assertAlmostEqual(float(items["STATISTICS_" + key]) / want, 1, 9)
                counts = np.array(items["STATISTICS_HISTOBINVALUES"].strip("|").split("|"), "i8")
                self.assertEqual(counts.sum(), valid.size)
                if dtype == "float32":
                    want = np.histogram(valid, 256, (valid.min(), valid.max()))[0]
                    np.testing.assert_array_equal(counts, want)
                self.assertEqual(band.GetOverviewCount(), 1)
                rows = np.minimum(np.arange(175) * 4 + 2, 699)
                columns = np.minimum(np.arange(275) * 4 + 2, 1099)
                np.testing.assert_array_equal(band.GetOverview(0).ReadAsArray(),
                                              a[0][np.ix_(rows, columns)])
                dataset = band = None
            for controls, corner in (({"setOverviewAggregationType": "AVERAGE"}, None),
                                     ({"setSinglePassPyramids": False}, a[0, ::4, ::4])):
                self.apply(copy, {"a": path}, {"o": out}, setOutputDriverName=driver,
                           setStatsIgnore=(None, "o"), **controls)
                dataset = gdal().Open(out)
                band = dataset.GetRasterBand(1)
                self.assertIsNone(band.GetNoDataValue())
                made = band.GetOverview(0).ReadAsArray()
                if corner is None:
                    mean = a[0].reshape(175, 4, 275, 4).mean((1, 3))
                    corner = np.floor(mean + .5)
                np.testing.assert_array_equal(made, corner)
                dataset = band = None
            self.apply(copy, {"a": path}, {"o": out}, setOutputDriverName=driver,
                       setCalcStats=(False, "o"), setThematic=True)
            dataset = gdal().Open(out)
            band = dataset.GetRasterBand(1)
            self.assertEqual((band.GetOverviewCount(), band.GetMetadataItem("LAYER_TYPE")),
                             (0, "thematic"))
            self.assertIsNone(band.GetMetadataItem("STATISTICS_MEAN"))

    @slow("starts leat several times")
    def test_histograms_of_classes(self) -> None:
        a = scene(1, 300, 400) // 2
        a[0, :20] = 0
        path = self.raster("a.tif", a)
        counts = np.bincount(a[a > 0])
        for driver, ending in (("HFA", "img"), ("GTiff", "tif")):
            for dtype in ("uint16", "int32", "float32"):
                with self.subTest(driver, dtype=dtype):
                    out = self.path("o." + ending)
                    self.apply(lambda i, n, o: setattr(o, "o", n.a.astype(dtype)), {"a": path},
                               {"o": out}, setOutputDriverName=driver, setThematic=True)
                    dataset = gdal().Open(out)
                    band = dataset.GetRasterBand(1)
                    items = {key[11:]: value for key, value in band.GetMetadata().items()}
                    made = np.array(items["HISTOBINVALUES"].strip("|").split("|"), "i8")
                    np.testing.assert_array_equal(made, counts)
                    self.assertEqual((items["HISTOMIN"], items["HISTOBINFUNCTION"],
                                      items["MODE"]), ("0", "direct", str(counts.argmax())))
                    self.assertEqual(float(items["MEDIAN"]), np.median(a[a > 0]))
                    np.testing.assert_array_equal(band.ReadAsArray(), a[0])
                    if driver == "HFA":
                        table = band.GetDefaultRAT()
                        self.assertEqual(table.GetRowCount(), len(counts))
                    dataset = band = None

    @slow("starts leat several times")
    def test_call_before_close(self) -> None:
        a = self.raster("a.tif", scene(1, 60, 80))

        def mark(dataset: Any, key: str, value: str) -> None:
            dataset.SetMetadataItem(key, value)

        for out in ("o.img", "o.tif"):
            self.apply(copy, {"a": a}, {"o": self.path(out)}, setCallBeforeClose=(
                mark, ("KEY", "value"), "o"),
                setOutputDriverName="GTiff" if out == "o.tif" else "HFA")
            self.assertEqual(gdal().Open(self.path(out)).GetMetadataItem("KEY"), "value")
            np.testing.assert_array_equal(self.read(self.path(out)), scene(1, 60, 80))

    @slow("starts leat several times")
    def test_what_leat_refuses(self) -> None:
        errors = rios("rioserrors")
        a = self.raster("a.tif", scene(1, 600, 600))
        gtiff = {"setOutputDriverName": "GTiff"}
        for controls, text in (
                ({"setOverviewLevels": [2, 3]}, "powers of two"),
                ({"setOverviewAggregationType": "GAUSS"}, "AVERAGE"),
                ({"setOmitBasicStats": True}, "histogram"),
                ({"setAutoColorTableType": "rainbow", "setThematic": True}, "colour table"),
                ({"setCreationOptions": ["TILED=NO"], **gtiff}, "tiles"),
                ({"setCreationOptions": ["BLOCKXSIZE=256", "BLOCKYSIZE=128"], **gtiff}, "square"),
                ({"setCreationOptions": ["COMPRESS"]}, "NAME=VALUE"),
                ({"setFootprintType": 5}, "footprint"),
                ({"setOverlap": -1}, "overlap"),
                ({"setWindowXsize": 0}, "windowxsize"),
                ({"setLayerNames": ["a,b"]}, "comma"),
                ({"setStatsIgnore": "none"}, "number"),
                ({"selectInputImageLayers": [2]}, "layer 2")):
            with self.subTest(text), self.assertRaisesRegex(errors.RiosError, text):
                self.apply(copy, {"a": a}, {"o": self.path("o.tif" if "setOutputDriverName" in
                                                           controls else "o.img")}, **controls)
        for controls, error in (({"setStatsIgnore": (3, "zz")}, ValueError),):
            with self.assertRaises(error):
                self.apply(copy, {"a": a}, {"o": self.path("o.img")}, **controls)
        self.assertEqual(os.listdir(self.dir), ["a.tif"])

    def test_unknown_resampling_is_refused(self) -> None:
        controls = rios("applier").ApplierControls()
        for method in ("near", "nearest", "CubicSpline", "q3"):
            controls.setResampleMethod(method, "a")
        for method in ("zz", "", "ne"):
            with self.assertRaisesRegex(rios("rioserrors").ParameterError,
                                        f"{method!r}: expected one of near, "):
                controls.setResampleMethod(method, "a")

    @slow("starts leat several times")
    def test_different_settings_for_outputs_are_refused(self) -> None:
        a = self.raster("a.tif", scene(1, 300, 300))

        def both(info: Any, inputs: Any, outputs: Any) -> None:
            outputs.o = outputs.p = inputs.a

        with self.assertRaisesRegex(rios("rioserrors").ParameterError, "setThematic"):
            self.apply(both, {"a": a}, {"o": self.path("o.img"), "p": self.path("p.img")},
                       setThematic=(True, "o"))

    @slow("starts leat several times")
    def test_wrong_arrays(self) -> None:
        errors, a = rios("rioserrors"), self.raster("a.tif", scene(1, 60, 80))
        for function, error in (
                (lambda i, n, o: None, KeyError),
                (lambda i, n, o: setattr(o, "o", n.a[0]), errors.ArrayShapeError),
                (lambda i, n, o: setattr(o, "o", n.a[:, 1:]), errors.ArrayShapeError),
                (lambda i, n, o: setattr(o, "missing", n.a), KeyError)):
            with self.assertRaises(error):
                self.apply(function, {"a": a}, {"o": self.path("o.img")})
        with self.assertRaises(errors.MismatchedListLengthsError):
            self.apply(lambda i, n, o: setattr(o, "o", [n.a]), {"a": a},
                       {"o": [self.path("o.img"), self.path("p.img")]})
        self.assertEqual(os.listdir(self.dir), ["a.tif"])


@needs_rios
class Workers(RiosCase):
    def other(self) -> Any:
        """Return other arguments for tally."""
        other = rios("structures").OtherInputs()
        other.total, other.blocks, other.plus = 0, [], 3
        return other

    def check(self, kind: str, workers: int) -> None:
        """Run tally in workers, and check what they return."""
        applier = rios("applier")
        a, other = scene(1, 300, 300), self.other()
        style = applier.ConcurrencyStyle(numReadWorkers=1, numComputeWorkers=workers,
                                         computeWorkerKind=kind)
        done = self.apply(tally, {"a": self.raster("a.tif", a)}, {"o": self.path("o.tif")}, other,
                          setConcurrencyStyle=style, setWindowSize=(64, 64),
                          setOutputDriverName="GTiff",
                          setCreationOptions=["BLOCKXSIZE=64", "BLOCKYSIZE=64"])
        self.assertEqual(other.total, 0)
        self.assertEqual(sum(one.total for one in done.otherArgsList), a.sum())
        self.assertLessEqual(len(done.otherArgsList), workers)
        self.assertEqual(done.timings.makeSummaryDict()["userfunction"]["N"], 25)
        np.testing.assert_array_equal(self.read(self.path("o.tif")), a + 3)

    def test_no_other_arguments(self) -> None:
        applier = rios("applier")
        style = applier.ConcurrencyStyle(numComputeWorkers=1, computeWorkerKind=applier.CW_THREADS)
        done = self.apply(copy, {"a": self.raster("a.tif", scene(1, 60, 80))},
                          {"o": self.path("o.img")}, setConcurrencyStyle=style)
        self.assertEqual(done.otherArgsList, [])

    def test_threads(self) -> None:
        self.check(rios("structures").CW_THREADS, 2)

    @slow("starts leat several times")
    def test_processes(self) -> None:
        self.check(rios("structures").CW_SUBPROC, 2)

    @slow("starts leat several times")
    def test_one_block_in_a_process(self) -> None:
        applier, other = rios("applier"), self.other()
        done = self.apply(tally, {"a": self.raster("a.tif", scene(1, 60, 80))},
                          {"o": self.path("o.img")}, other, setConcurrencyStyle=applier.
                          ConcurrencyStyle(numComputeWorkers=1,
                                           computeWorkerKind=applier.CW_SUBPROC))
        self.assertEqual([one.blocks for one in done.otherArgsList], [[(0, 0)]])

    @slow("starts leat several times")
    def test_errors(self) -> None:
        applier, errors = rios("applier"), rios("rioserrors")
        a = self.raster("a.tif", scene(1, 600, 300))
        with self.assertRaises(KeyError) as caught:
            self.apply(fails, {"a": a}, {"o": self.path("o.img")})
        self.assertEqual(caught.exception.args, ("mine",))
        for kind in (applier.CW_THREADS, applier.CW_SUBPROC):
            style = applier.ConcurrencyStyle(numComputeWorkers=1, computeWorkerKind=kind)
            with self.assertRaisesRegex(errors.WorkerExceptionError, "mine"):
                self.apply(fails, {"a": a}, {"o": self.path("o.img")}, setConcurrencyStyle=style)
        style = applier.ConcurrencyStyle(numComputeWorkers=1, computeWorkerKind=applier.CW_ECS)
        with self.assertRaises(errors.UnavailableError):
            self.apply(fails, {"a": a}, {"o": self.path("o.img")}, setConcurrencyStyle=style)
        for options in ({"numComputeWorkers": 2}, {"computeWorkerKind": "CW_OTHER"},
                        {"computeWorkerKind": applier.CW_THREADS},
                        {"computeWorkerKind": applier.CW_THREADS, "numComputeWorkers": 1,
                         "computeWorkersRead": True}, {"numReadWorkers": -1}):
            with self.assertRaises(ValueError):
                applier.ConcurrencyStyle(**options)
        with self.assertRaises(errors.WrongControlsObject):
            applier.apply(fails, applier.FilenameAssociations(), applier.FilenameAssociations(),
                          controls=3)
        self.assertEqual(sorted(n for n in os.listdir(self.dir) if not n.startswith(".")),
                         ["a.tif"])

    @slow("starts leat several times")
    def test_progress(self) -> None:
        class Progress(rios("cuiprogress").SilentProgress):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.calls: list[int] = []
                self.resets, self.cancelled = 0, False

            def setProgress(self, progress: int) -> None:
                self.calls.append(progress)

            def reset(self) -> None:
                self.resets += 1

            def wasCancelled(self) -> bool:
                return bool(self.cancelled)

        a, progress = self.raster("a.tif", scene(1, 600, 300)), Progress()
        self.apply(copy, {"a": a}, {"o": self.path("o.img")}, setProgress=progress)
        self.assertEqual((progress.calls[0], progress.calls[-1], progress.resets), (0, 100, 1))
        self.assertEqual(progress.calls, sorted(set(progress.calls)))
        # Only the first block is computed before the run is cancelled.
        applier, cancelled = rios("applier"), threading.Event()
        style = applier.ConcurrencyStyle(numComputeWorkers=1, computeWorkerKind=applier.CW_THREADS)

        def waits(info: Any, inputs: Any, outputs: Any) -> None:
            if not info.isFirstBlock():
                cancelled.wait()
            copy(info, inputs, outputs)

        progress.cancelled = True
        with mock.patch("leat._apply._THREAD_SECONDS", 0):
            with self.assertRaises(rios("rioserrors").ProcessCancelledError):
                self.apply(waits, {"a": a}, {"o": self.path("p.img")}, setProgress=progress,
                           setConcurrencyStyle=style)
        cancelled.set()
        self.assertFalse(os.path.exists(self.path("p.img")))


@needs_rios
class Names(RiosCase):
    def test_associations(self) -> None:
        structures = rios("structures")
        files = structures.FilenameAssociations()
        files.x, files.y = "p", ["q", "r"]
        self.assertEqual(list(files), [("x", None, "p"), ("y", 0, "q"), ("y", 1, "r")])
        self.assertEqual((len(files), files["y", 1], files["y"], files["x", None]),
                         (3, "r", ["q", "r"], "p"))
        self.assertTrue("x" in files and ("y", 0) in files)
        for key in ("z", ("y", 5), ("z", None), ("x", 0)):
            self.assertNotIn(key, files)
            with self.assertRaises(KeyError):
                files[key]
        blocks = structures.BlockAssociations(files)
        blocks["y", 1], blocks["x", None] = 3, 4
        self.assertEqual((vars(blocks), len(blocks)), ({"x": 4, "y": [None, 3]}, 3))
        for key in ("z", ("y", 5), ("z", None)):
            with self.assertRaises(KeyError):
                blocks[key] = 1
        with self.assertRaises(AttributeError):
            blocks.z
        copy = pickle.loads(pickle.dumps(files))
        self.assertEqual(list(copy), list(files))

    def test_timers(self) -> None:
        timers = rios("structures").Timers()
        with mock.patch("time.time", side_effect=[0, 1, 10, 13, 20, 22]):
            for _ in range(3):
                with timers.interval("reading"):
                    pass
        self.assertEqual(timers.getDurationsForName("reading"), [1, 3, 2])
        self.assertIsNone(timers.getDurationsForName("other"))
        self.assertEqual(timers.makeSummaryDict()["reading"],
                         {"tot": 6, "min": 1, "max": 3, "lower": 1.5, "median": 2, "upper": 2.5,
                          "N": 3})
        other = pickle.loads(pickle.dumps(timers))
        other.merge(timers)
        self.assertEqual(len(other.getDurationsForName("reading")), 6)
        self.assertRegex(other.formatReport(), r"reading +12\.0")
        self.assertRegex(other.formatReport(level=1), r"reading +12\.000 +6 +1\.000 ")

    def test_setters_and_getters(self) -> None:
        controls = rios("applier").ApplierControls
        setters = [n for n in dir(controls) if n.startswith(("set", "select"))]
        self.assertEqual(len(setters), 42)
        getters = [n for n in dir(rios("readerinfo").ReaderInfo) if n.startswith(("get", "is"))]
        self.assertEqual(len(getters), 17)
        text = open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "python",
                                 "rios.md")).read()
        for name in setters + getters:
            self.assertIn(f"`{name}`", text)

    def test_environment(self) -> None:
        const = rios("const")
        self.addCleanup(importlib.reload, const)
        with mock.patch.dict(os.environ, RIOS_DFLT_DRIVER="GTiff", RIOS_DFLT_BLOCKXSIZE="64",
                             RIOS_DFLT_OVERVIEWLEVELS="2,4", RIOS_DFLT_CREOPT_GTiff="COMPRESS=LZW"):
            importlib.reload(const)
            self.assertEqual((const.DEFAULTDRIVERNAME, const.DEFAULTWINDOWXSIZE,
                              const.DEFAULT_OVERVIEWLEVELS), ("GTiff", 64, [2, 4]))
            self.assertEqual(const.default_creation_options("GTiff"), ["COMPRESS=LZW"])
        with mock.patch.dict(os.environ, RIOS_DFLT_DRIVEROPTIONS="None"):
            importlib.reload(const)
            self.assertEqual(const.default_creation_options("HFA"), [])
            self.assertIn("COMPRESS=DEFLATE", const.default_creation_options("GTiff"))


@needs_rios
class Progress(RiosCase):
    def test_what_progress_objects_print(self) -> None:
        import contextlib
        import io
        module = rios("cuiprogress")
        for name, want in (("SilentProgress", ""), ("CUIProgressBar", "\n"),
                           ("LogProgressBar", "0%\n50%\n100%\n\n")):
            out, bar = io.StringIO(), getattr(module, name)()
            with contextlib.redirect_stdout(out):
                bar.setTotalSteps(200)
                for step in (0, 100, 101, 200):
                    bar.setProgress(step)
                bar.reset()
            self.assertEqual(out.getvalue(), want, name)
            self.assertFalse(bar.wasCancelled())
