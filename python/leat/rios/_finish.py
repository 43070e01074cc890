"""Completes finished outputs through GDAL, where RIOS makes what leat makes differently."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator, Optional

import numpy as np

from . import _gdal
from .rioserrors import FileOpenError

_STRIP_PIXELS = 1 << 22
"""Pixels of the strips of rows in which a band is read."""

_LAYOUT = b"GDAL_STRUCTURAL_METADATA_SIZE"

_EXACT = ("Byte", "Int8", "UInt16", "Int16")
"""GDAL's types for which leat counts histograms exactly."""

_MAX_CLASSES = 1 << 26
"""Limit of the classes in a histogram of a thematic output."""


def finish(path: str, centre: bool, histogram: bool, thematic: bool,
           call: Optional[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
    """Complete an output.

    centre: its overviews take the pixels at the centre of cells. histogram: it has one, which is
    recounted for types for which leat's is not exact, and by class if thematic is set. call is a
    function that gets the dataset, and its further arguments.
    """
    if "://" in path:
        return  # it is in a store, and remains as leat wrote it
    dataset = _gdal.open_file(path)
    if dataset is None:
        raise FileOpenError(f"{path}: GDAL can't open the output")
    gdal = _gdal.module("gdal")
    kind = gdal.GetDataTypeName(dataset.GetRasterBand(1).DataType)
    histogram = histogram and (thematic or kind not in _EXACT)
    if not (centre or histogram or call is not None):
        return
    dataset = None
    _forget_layout(path)
    dataset = _gdal.open_file(path, update=True)
    if dataset is None:
        raise FileOpenError(f"{path}: GDAL can't open the output to change it")
    for number in range(1, dataset.RasterCount + 1):
        band = dataset.GetRasterBand(number)
        if centre:
            _centre_overviews(band)
        if histogram:
            (_count_classes if thematic else _count)(band)
    if call is not None:
        function, args = call
        function(dataset, *args)
    dataset.FlushCache()


def _forget_layout(path: str) -> None:
    """Remove what a GeoTIFF says about its layout, which GDAL is about to change.

    Otherwise GDAL warns each time it opens the file.
    """
    with open(path, "r+b") as file:
        head = file.read(64)
        at = head.find(_LAYOUT)
        if head[:2] in (b"II", b"MM") and at > 0:
            file.seek(at)
            file.write(_LAYOUT.lower())


def _strips(band: Any, unit: int) -> Iterator[tuple[int, Any]]:
    """Yield the first row and the pixels of strips of whole units of rows."""
    rows = max(unit, _STRIP_PIXELS // band.XSize // unit * unit)
    for row in range(0, band.YSize, rows):
        yield row, band.ReadAsArray(0, row, band.XSize, min(rows, band.YSize - row))


def _centre_overviews(band: Any) -> None:
    """Set the pixels of overviews to those at the centre of cells, or the last before an edge."""
    overviews = []
    for i in range(band.GetOverviewCount()):
        overview = band.GetOverview(i)
        factor = 1
        while -(-band.XSize // factor) > overview.XSize:
            factor *= 2
        overviews.append((overview, factor))
    if not overviews:
        return
    for row, pixels in _strips(band, max(factor for _, factor in overviews)):
        for overview, factor in overviews:
            count = -(-pixels.shape[0] // factor)
            rows = np.minimum(np.arange(count) * factor + factor // 2, pixels.shape[0] - 1)
            columns = np.minimum(np.arange(overview.XSize) * factor + factor // 2, band.XSize - 1)
            overview.WriteArray(pixels[np.ix_(rows, columns)], 0, row // factor)


def _count_classes(band: Any) -> None:
    """Count the pixels of each class from 0. A band with negative values gets no histogram."""
    least, most = (band.GetMetadataItem("STATISTICS_" + end) for end in ("MINIMUM", "MAXIMUM"))
    if least is None or most is None or float(least) < 0 or float(most) >= _MAX_CLASSES:
        return
    bins = math.ceil(float(most)) + 1
    counts = np.zeros(bins, np.int64)
    nodata = band.GetNoDataValue()
    for _, pixels in _strips(band, 1):
        valid = np.isfinite(pixels)
        if nodata is not None:
            valid &= pixels != nodata
        classes = np.floor(pixels[valid] + 0.5) if pixels.dtype.kind == "f" else pixels[valid]
        counts += np.bincount(classes.astype(np.int64), minlength=bins)
    if counts.sum() == 0:
        return
    median = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    for name, value in (("HISTOMIN", "0"), ("HISTOMAX", str(bins - 1)),
                        ("HISTONUMBINS", str(bins)), ("HISTOBINFUNCTION", "direct"),
                        ("MEDIAN", str(median)), ("MODE", str(int(counts.argmax()))),
                        ("HISTOBINVALUES", "|".join(map(str, counts)) + "|")):
        band.SetMetadataItem("STATISTICS_" + name, value)


def _count(band: Any) -> None:
    """Recount the histogram of a band, in the same bins."""
    text = band.GetMetadataItem("STATISTICS_HISTOBINVALUES")
    low, high = (band.GetMetadataItem("STATISTICS_HISTO" + end) for end in ("MIN", "MAX"))
    if not text or low is None or high is None:
        return
    bins = text.strip("|").count("|") + 1
    least, most = float(low), float(high)
    width = (most - least) / bins or 1.0
    counts = np.zeros(bins, np.int64)
    nodata = band.GetNoDataValue()
    for _, pixels in _strips(band, 1):
        valid = np.isfinite(pixels)
        if nodata is not None:
            valid &= pixels != pixels.dtype.type(nodata)
        index = np.floor((pixels[valid].astype(np.float64) - least) / width)
        counts += np.bincount(np.clip(index, 0, bins - 1).astype(np.int64), minlength=bins)
    band.SetMetadataItem("STATISTICS_HISTOBINVALUES", "|".join(map(str, counts)) + "|")
