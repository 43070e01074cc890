"""Makes a job of leat from files and controls."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from typing import Any, Optional

import numpy as np

from . import _gdal, const
from ._compute import Layout, Source, blocks_of, names_of
from ._controls import ApplierControls
from .pixelgrid import PixelGridDefn, findCommonRegion, pixelGridFromFile
from .rioserrors import (GDALLayerNumberError, GdalWarpError, ImageOpenError, ParameterError,
                         ResampleNeededError, VectorLayerError)
from .structures import FilenameAssociations

_TILE = 512
"""The side of leat's tiles of formats that GDAL writes, in pixels."""

_MAX_FACTOR = 512
"""The largest level of overviews whose pixels must be within one block."""

_BLOCK_PIXELS = 1 << 24
"""Outputs get smaller tiles if blocks would have more pixels."""

_METHODS = ("NEAREST", "AVERAGE", "MODE")

_SAME_FOR_ALL = ("thematic", "overviews", "overview_method", "no_stats", "no_histogram")
"""Options that leat has for all outputs together."""

_GTIFF_OPTIONS = {"ZLEVEL": "LEVEL", "ZSTD_LEVEL": "LEVEL", "DEFLATE_LEVEL": "LEVEL"}


class Job:
    """Job holds the arguments of leat.apply for files and controls."""

    def __init__(self, infiles: FilenameAssociations, outfiles: FilenameAssociations,
                 controls: ApplierControls) -> None:
        self.infiles, self.outfiles, self.controls = infiles, outfiles, controls
        controls._checkNames([*vars(infiles), *vars(outfiles)])
        self.files = names_of(infiles)
        self.targets = names_of(outfiles)
        self.inputs: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.datasets: dict[str, Any] = {}
        """GDAL's raster datasets by path; None for vectors."""
        for _, _, path in self.files:
            if path not in self.datasets:
                self.datasets[path] = self.open(path)
        self.temporary = _Temporary(controls.tempdir)
        """The directory of temporary files."""
        self.grid = self.working_grid()
        self.outputs: dict[tuple[str, Optional[int]], str] = {}
        self.paths: dict[str, str] = {}
        self.align = 1
        self.centres: dict[str, bool] = {}
        """Whether finish makes the overviews of an output from the pixels at centres of cells."""
        self.tiles: dict[str, Optional[int]] = {}
        """Side of the tiles of outputs by name; None if leat.rios may choose it."""
        try:
            self.sources = self.add_inputs()
            self.add_outputs()
            self.add_grid()
        except BaseException:
            self.temporary.remove()
            raise

    def open(self, path: str) -> Any:
        """Return the dataset of a raster, or None if the file has vectors."""
        dataset = _gdal.open_file(path)
        if dataset is None and _gdal.open_file(path, vector=True) is None:
            if not os.path.exists(path) and "://" not in path and not path.startswith("/vsi"):
                raise ImageOpenError(f"input {path}: there is no such file")
            raise ImageOpenError(f"input {path}: GDAL can't open it as raster or as vectors")
        return dataset

    def option(self, name: str, image: str) -> Any:
        """Return a control as it holds for an image."""
        return self.controls.getOptionForImagename(name, image)

    # The grid.

    def working_grid(self) -> PixelGridDefn:
        """Return the grid of blocks and outputs."""
        c = self.controls
        grids = {path: _grid_of(path, dataset) for path, dataset in self.datasets.items()
                 if dataset is not None}
        if c.referenceImage is not None and c.referencePixgrid is not None:
            raise ParameterError("setReferenceImage and setReferencePixgrid: expected one of them")
        self.crs_file: Optional[str] = None
        if c.referenceImage is not None:
            path = c.referenceImage
            if path in vars(self.infiles):
                path = [p for name, _, p in self.files if name == path][-1]  # the last of a list
            reference = grids[path] if path in grids else pixelGridFromFile(path)
            self.crs_file = path
        elif c.referencePixgrid is not None:
            g = c.referencePixgrid
            reference = PixelGridDefn(projection=g.projection, xMin=g.xMin, xMax=g.xMax,
                                      yMin=g.yMin, yMax=g.yMax, xRes=g.xRes, yRes=g.yRes)
        elif grids:
            self.crs_file, reference = next(iter(grids.items()))
            for path, grid in grids.items():
                if not grid.alignedWith(reference):
                    raise ResampleNeededError(
                        f"input {path} is on another grid ({grid}) than {self.crs_file} "
                        f"({reference}): set a reference image or pixgrid to resample inputs")
        else:
            raise ParameterError("no input is a raster: set a reference image or pixgrid")
        if c.footprint not in (const.INTERSECTION, const.UNION, const.BOUNDS_FROM_REFERENCE):
            raise ParameterError(f"footprint {c.footprint!r}: expected INTERSECTION, UNION or "
                                 "BOUNDS_FROM_REFERENCE")
        extents = list(grids.values())
        if c.filesforextent is not None:
            extents = [pixelGridFromFile(path) for path in c.filesforextent]
        return findCommonRegion(extents, reference, c.footprint)

    def add_grid(self) -> None:
        """Add the options of grid and blocks."""
        c = self.controls
        overlap = _whole("overlap", c.overlap, 0)
        window = (_whole("windowxsize", c.windowxsize, 1), _whole("windowysize", c.windowysize, 1))
        rows, columns = self.grid.getDimensions()
        self.layout = Layout(self.sources, self.outputs, self.infiles, self.outfiles, self.grid,
                             window, overlap)
        self.options["overlap"] = overlap
        self.options["window"] = "%dx%d" % self.block_size(window, columns, rows)

    def block_size(self, window: tuple[int, int], columns: int, rows: int) -> tuple[int, int]:
        """Return columns and rows of leat's blocks, which hold whole windows.

        If they would be large, outputs whose tiles have no given side get smaller ones.
        """
        choices = [256, 128, 64, 32, 16] if None in self.tiles.values() else [_TILE]
        size = 0, 0
        for tile in choices:
            align = self.align
            for side in self.tiles.values():
                align = math.lcm(align, side or tile)
            size = (blocks_of(window[0], columns, align), blocks_of(window[1], rows, align))
            if size[0] * size[1] <= _BLOCK_PIXELS:
                break
        for name, side in self.tiles.items():
            if side is None:
                self.options.setdefault("co", {}).setdefault(name, {})["BLOCKSIZE"] = tile
        return size

    def grid_text(self) -> str:
        """Return leat's option for the grid."""
        crs = self.crs_file
        if not self.grid.projection:
            crs = "none"
        elif crs is None or "," in crs or self.datasets.get(crs, False) is None:
            crs = self.temporary.file(".wkt")
            with open(crs, "w") as file:
                file.write(self.grid.projection)
        values = [float(v) for v in (*_whole_pixels(self.grid), self.grid.xRes, self.grid.yRes)]
        return ",".join([crs, *map(repr, values)])

    # Inputs.

    def add_inputs(self) -> list[Source]:
        """Add inputs, and return where the arrays of their files are."""
        sources: list[Source] = []
        for name, value in vars(self.infiles).items():
            files = [(number, path) for n, number, path in self.files if n == name]
            if isinstance(value, (list, tuple)) and any(
                    self.datasets[path] is None for _, path in files):
                for number, path in files:  # leat has no lists of vectors
                    sources += self.add_input(self.unused(f"{name}_{number}"), name,
                                              [(number, path)], False)
            elif files:
                sources += self.add_input(name, name, files, isinstance(value, (list, tuple)))
        if not self.files:
            self.inputs["grid"] = self.empty()  # leat needs an input
        return sources

    def empty(self) -> str:
        """Return the path of a raster on the grid whose pixels are 0."""
        rows, columns = self.grid.getDimensions()
        gdal = _gdal.module("gdal")
        target = self.temporary.file(".vrt")
        dataset = gdal.GetDriverByName("VRT").Create(target, columns, rows, 1, gdal.GDT_Byte)
        dataset.SetGeoTransform(self.grid.makeGeoTransform())
        dataset.SetProjection(self.grid.projection)
        return target

    def unused(self, name: str) -> str:
        """Return a name that no input has."""
        while name in vars(self.infiles) or name in self.inputs or name in self.options.get(
                "vector", {}):
            name += "_"
        return name

    def add_input(self, leat_name: str, name: str, files: list[tuple[Optional[int], str]],
                  is_list: bool) -> list[Source]:
        """Add an input of leat, which is one file or a list of rasters."""
        if self.datasets[files[0][1]] is None:
            return [self.add_vector(leat_name, name, *files[0])]
        paths = [path for _, path in files]
        layers = self.option("layerselection", name)
        if layers is not None:
            for path in paths:
                count = self.datasets[path].RasterCount
                for layer in layers:
                    if not 1 <= layer <= count:
                        raise GDALLayerNumberError(f"input {path}: layer {layer} is out of range, "
                                                   f"expected 1 to {count}")
            self.set("bands", leat_name, ",".join(str(int(layer)) for layer in layers))
        nodata = self.option("inputnodata", name)
        if nodata is not None:
            values = nodata if isinstance(nodata, (list, tuple, np.ndarray)) else [nodata]
            self.set("input_nodata", leat_name, ",".join(
                "none" if v is None else _number(v) for v in values))
        on_grid = [self.on_grid(name, path, nodata) for path in paths]
        self.inputs[leat_name] = on_grid if is_list else on_grid[0]
        return [Source(name, number, leat_name, i if is_list else None, path, None)
                for i, (number, path) in enumerate(files)]

    def on_grid(self, name: str, path: str, nodata: Any) -> str:
        """Return the path of a raster, or of a file that describes it resampled onto the grid.

        GDAL resamples it, with the approximation of gdalwarp, while leat reads that file.
        """
        dataset = self.datasets[path]
        grid = _grid_of(path, dataset)
        if grid.alignedWith(self.grid):
            return path
        if not grid.projection or not self.grid.projection:
            raise ParameterError(f"input {path}: it has no projection, or the grid has none, so it "
                                 "can't be resampled")
        values = [dataset.GetRasterBand(i + 1).GetNoDataValue()
                  for i in range(dataset.RasterCount)]
        if nodata is not None:
            values = (list(nodata) if isinstance(nodata, (list, tuple, np.ndarray))
                      else [nodata] * len(values))
        known = None
        if any(v is not None for v in values):
            known = " ".join("none" if v is None else _number(v) for v in values)
        method = self.option("resampleMethod", name)
        gdal = _gdal.module("gdal")
        target = self.temporary.file(".vrt")
        options = gdal.WarpOptions(
            format="VRT", outputBounds=_whole_pixels(self.grid), xRes=self.grid.xRes,
            yRes=self.grid.yRes, srcSRS=grid.projection, dstSRS=self.grid.projection,
            resampleAlg=method, srcNodata=known, dstNodata=known,
            overviewLevel="AUTO" if self.controls.allowOverviewsGdalwarp else "NONE")
        try:
            made = gdal.Warp(target, os.path.abspath(path) if os.path.exists(path) else path,
                             options=options)
        except RuntimeError as e:
            raise GdalWarpError(f"input {path}: {e}") from e
        if made is None:
            raise GdalWarpError(f"input {path}: {gdal.GetLastErrorMsg()}")
        return target

    def add_vector(self, leat_name: str, name: str, number: Optional[int], path: str) -> Source:
        """Add an input of vectors."""
        dataset = _gdal.open_file(path, vector=True)
        assert dataset is not None
        layer = self.option("vectorlayer", name)
        if isinstance(layer, str):
            if dataset.GetLayerByName(layer) is None:
                raise VectorLayerError(f"input {path}: there is no layer {layer!r}")
        elif not 0 <= layer < dataset.GetLayerCount():
            raise VectorLayerError(f"input {path}: there is no layer {layer}, expected 0 to "
                                   f"{dataset.GetLayerCount() - 1}")
        self.set("vector", leat_name, path)
        attribute = self.option("burnattribute", name)
        burn = attribute if attribute is not None else _number(self.option("burnvalue", name))
        self.set("burn", leat_name, burn)
        null = self.option("vectornull", name)
        self.set("null", leat_name, _number(null))
        self.set("vector_type", leat_name, np.dtype(self.option("vectordatatype", name)).name)
        where = self.option("filtersql", name)
        if where is not None and where.split()[:1] and where.split()[0].upper() == "SELECT":
            self.set("sql", leat_name, where)
        else:
            self.set("layer", leat_name, str(layer))
            if where is not None:
                self.set("where", leat_name, where)
        if self.option("alltouched", name):
            self.options.setdefault("all_touched", []).append(leat_name)
        return Source(name, number, leat_name, None, path, [null])

    def set(self, option: str, name: str, value: Any) -> None:
        """Set an option of leat for one input or output."""
        self.options.setdefault(option, {})[name] = value

    # Outputs.

    def add_outputs(self) -> None:
        """Add outputs and their options."""
        same: dict[str, dict[str, Any]] = {option: {} for option in _SAME_FOR_ALL}
        for name, number, path in self.targets:
            leat_name = name if number is None else f"{name}_{number}"
            taken = {*self.inputs, *self.options.get("vector", {}), *self.paths}
            while leat_name in taken or (number is not None and leat_name in vars(self.outfiles)):
                leat_name += "_out"
            self.outputs[name, number] = leat_name
            self.paths[leat_name] = path
            for option, value in self.output_options(leat_name, name).items():
                same[option][name] = value
        for option, values in same.items():
            different = sorted({repr(value) for value in values.values()})
            if len(different) > 1:
                raise ParameterError(
                    f"{_SETTERS[option]}: outputs have the values {', '.join(different)}, and leat "
                    "has one value for all outputs of a run: call apply once for each value")
            for value in list(values.values())[:1]:
                if value not in (None, False):
                    self.options[option] = value

    def output_options(self, leat_name: str, name: str) -> dict[str, Any]:
        """Set the options of one output, and return those that all outputs have together."""
        driver = self.option("drivername", name)
        gtiff = driver.lower() == "gtiff"
        options = self.option("creationoptions", name)
        if options is None:
            options = const.default_creation_options(driver)
        if gtiff:
            self.add_gtiff(leat_name, options)
        else:
            self.set("format", leat_name, driver)
            self.tiles[leat_name] = _TILE
            if options:
                self.set("co", leat_name, dict(_split(option) for option in options))
        ignore = self.option("statsIgnore", name)
        self.set("nodata", leat_name, "none" if ignore is None else _number(ignore))
        layers = self.option("layernames", name)
        if layers is not None:
            for layer in layers:
                if "," in layer or "=" in layer:
                    raise ParameterError(f"setLayerNames: the name {layer!r} has a comma or an "
                                         "equals sign, which leat's names can't have")
            self.set("names", leat_name, ",".join(layers))
        thematic = bool(self.option("thematic", name))
        if self.option("callBeforeClose", name) is not None and any(
                "://" in path for target, _, path in self.targets if target == name):
            raise ParameterError(f"setCallBeforeClose: output {name} is in a store, where GDAL "
                                 "can't change it")
        table = self.option("autoColorTableType", name)
        if thematic and table is not None:
            raise ParameterError(f"setAutoColorTableType: output {name} would get a colour table "
                                 f"of type {table!r}, and leat makes none; None turns it off")
        return {**self.overviews(name), "thematic": thematic,
                **self.statistics(name)}

    def add_gtiff(self, leat_name: str, options: list[str]) -> None:
        """Set the creation options of an output that leat itself writes."""
        co: dict[str, Any] = {}
        sides = set()
        for option in options:
            key, value = _split(option)
            key = key.upper()
            if key in ("BLOCKXSIZE", "BLOCKYSIZE", "BLOCKSIZE"):
                sides.add(value)
            elif key == "TILED":
                if value.upper() not in ("YES", "TRUE", "ON", "1"):
                    raise ParameterError(f"setCreationOptions: {option}: leat always writes tiles")
            elif key == "BIGTIFF":
                co[key] = "YES" if value.upper() == "YES" else "IF_NEEDED"
                if value.upper() == "NO":
                    raise ParameterError(f"setCreationOptions: {option}: leat writes BigTIFF where "
                                         "it is needed")
            elif key == "INTERLEAVE" or key == "COMPRESS":
                co[key] = value.upper()
            elif key != "NUM_THREADS":
                co[_GTIFF_OPTIONS.get(key, key)] = value
        if len(sides) > 1:
            raise ParameterError(f"setCreationOptions: BLOCKXSIZE and BLOCKYSIZE differ "
                                 f"({', '.join(sorted(sides))}): leat's tiles are square")
        side = sides.pop() if sides else None
        if side is not None:
            co["BLOCKSIZE"] = side
        if side is not None and not side.isdecimal():
            raise ParameterError(f"setCreationOptions: BLOCKXSIZE={side}: expected a number")
        self.tiles[leat_name] = int(side) if side is not None else None
        self.set("co", leat_name, co)

    def overviews(self, name: str) -> dict[str, Any]:
        """Return the options of overviews."""
        self.centres[name] = False
        if self.option("omitPyramids", name):
            return {"overviews": "none", "overview_method": None}
        rows, columns = self.grid.getDimensions()
        least = self.option("overviewMinDim", name)
        levels = []
        for level in self.option("overviewLevels", name):
            if min(rows, columns) // level <= least:
                break
            levels.append(level)
        for level in levels:
            if level < 2 or level & (level - 1):
                raise ParameterError(f"setOverviewLevels: level {level}: leat's levels are powers "
                                     "of two")
            self.align = math.lcm(self.align, min(level, _MAX_FACTOR))
        if not levels:
            return {"overviews": "none", "overview_method": None}
        kind = self.option("overviewAggType", name)
        if kind is None:
            kind = const.DEFAULT_OVERVIEWAGGREGRATIONTYPE
        if kind.upper() not in _METHODS:
            raise ParameterError(f"setOverviewAggregationType: {kind!r}: expected one of "
                                 f"{', '.join(_METHODS)}")
        method = kind.lower()
        # RIOS takes the pixel at the centre of a cell; GDAL, in a second pass, takes another.
        centre = method == "nearest" and self.option("singlePassPyramids", name) is not False
        if centre and self.all_gtiff():
            method = "center"
        elif centre:
            self.centres[name] = True
        return {"overviews": ",".join(map(str, levels)), "overview_method": method}

    def all_gtiff(self) -> bool:
        """Return whether leat itself writes all outputs."""
        return all(self.option("drivername", name).lower() == "gtiff" for name, _, _ in
                   self.targets)

    def statistics(self, name: str) -> dict[str, Any]:
        """Return the options of statistics.

        leat writes no histograms of thematic outputs: finish counts the pixels of each class.
        """
        no_stats = bool(self.option("omitBasicStats", name))
        no_histogram = bool(self.option("omitHistogram", name))
        if no_stats and not no_histogram:
            raise ParameterError(f"setOmitBasicStats: output {name} would have a histogram without "
                                 "statistics, which leat does not write: omit both or none")
        thematic = bool(self.option("thematic", name))
        return {"no_stats": no_stats,
                "no_histogram": (no_histogram or thematic) and not no_stats}


class _Temporary(contextlib.AbstractContextManager["_Temporary"]):
    """A directory for temporary files, made for the first one."""

    def __init__(self, place: str) -> None:
        self.place, self.directory, self.count = place, "", 0

    def file(self, ending: str) -> str:
        """Return the path of a new file."""
        if not self.directory:
            self.directory = tempfile.mkdtemp(prefix="leat-rios-", dir=os.path.abspath(self.place))
        self.count += 1
        return os.path.join(self.directory, f"{self.count}{ending}")

    def remove(self) -> None:
        """Remove the directory."""
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = ""

    def __exit__(self, *error: Any) -> None:
        self.remove()


_SETTERS = {"overviews": "setOverviewLevels, setOverviewMinDim and setOmitPyramids",
            "overview_method": "setOverviewAggregationType", "thematic": "setThematic",
            "no_stats": "setOmitBasicStats", "no_histogram": "setOmitHistogram"}


def _grid_of(path: str, dataset: Any) -> PixelGridDefn:
    try:
        return PixelGridDefn(geotransform=dataset.GetGeoTransform(), nrows=dataset.RasterYSize,
                             ncols=dataset.RasterXSize, projection=dataset.GetProjection())
    except ParameterError as e:
        raise ParameterError(f"input {path}: {e}") from None


def _whole_pixels(grid: PixelGridDefn) -> tuple[float, float, float, float]:
    """Return xMin, yMin, xMax and yMax of the whole pixels of a grid; its upper left corner stays.

    A reference grid may have other bounds.
    """
    rows, columns = grid.getDimensions()
    x0, dx, _, y0, _, dy = grid.makeGeoTransform()
    x1, y1 = x0 + columns * dx, y0 + rows * dy
    return (x0, grid.yMin if abs(grid.yMin - y1) < 1e-6 * grid.yRes else y1,
            grid.xMax if abs(grid.xMax - x1) < 1e-6 * grid.xRes else x1, y0)


def _split(option: str) -> tuple[str, str]:
    key, equals, value = str(option).partition("=")
    if not equals or not key:
        raise ParameterError(f"setCreationOptions: {option!r}: expected NAME=VALUE")
    return key, value


def _number(value: Any) -> str:
    """Return the text of a number."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, (bool, int)):
        return str(int(number))
    if not isinstance(number, float):
        raise ParameterError(f"{value!r}: expected a number")
    return str(int(number)) if number.is_integer() and abs(number) < 2 ** 53 else repr(number)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = least - 1
    if number < least or number != value:
        raise ParameterError(f"{name} {value!r}: expected a whole number from {least}")
    return number
