"""Completes finished outputs by GDAL: what RIOS makes and leat does not make in this way."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import numpy as np

from . import _gdal
from .rioserrors import FileOpenError

_STRIP_PIXELS = 1 << 22
"""Pixels of the strips of rows in which a band is read."""

_LAYOUT = b"GDAL_STRUCTURAL_METADATA_SIZE"

_EXACT = ("Byte", "Int8", "UInt16", "Int16")
"""GDAL's types of which leat counts histograms exactly."""


def finish(path: str, centre: bool, histogram: bool,
           call: Optional[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
    """Complete an output.

    centre: its overviews take the pixels at the centre of cells. histogram: it has one, which is
    counted anew for types of which leat's is not exact. call is a function that gets the dataset,
    and its further arguments.
    """
    if "://" in path:
        return  # it is in a store, and remains as leat wrote it
    dataset = _gdal.open_file(path)
    if dataset is None:
        raise FileOpenError(f"{path}: GDAL can't open the output")
    gdal = _gdal.module("gdal")
    histogram = histogram and gdal.GetDataTypeName(
        dataset.GetRasterBand(1).DataType) not in _EXACT
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
            _count(band)
    if call is not None:
        function, args = call
        function(dataset, *args)
    dataset.FlushCache()


def _forget_layout(path: str) -> None:
    """Take back what a GeoTIFF says of its layout, which GDAL is about to change.

    Else GDAL warns of that at each opening.
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


def _count(band: Any) -> None:
    """Count the histogram of a band anew, in the same bins."""
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
