"""What the tests of leat.rios share: rasters and vectors made by GDAL, and runs of apply."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Optional

from .support import TestCase, needs

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

needs_rios = needs("numpy", "osgeo.gdal")
"""A decorator for tests of leat.rios."""

X, Y, SIZE = 500000, 7000000, 10
"""Origin of the grid of rasters and size of its pixels, in metres of EPSG:28355."""


def gdal() -> Any:
    """Return GDAL's module."""
    return importlib.import_module("osgeo.gdal")


def wkt(epsg: int = 28355) -> str:
    """Return the WKT of a CRS."""
    osr = importlib.import_module("osgeo.osr")
    sr = osr.SpatialReference()
    sr.ImportFromEPSG(epsg)
    return str(sr.ExportToWkt())


class RiosCase(TestCase):
    """RiosCase is TestCase with rasters and runs."""

    def raster(self, name: str, pixels: Any, column: float = 0, row: float = 0,
               nodata: Optional[float] = None, size: float = SIZE, driver: str = "GTiff",
               epsg: int = 28355) -> str:
        """Write an array (bands, rows, columns), placed in pixels of the common grid."""
        path = self.path(name)
        types = {"uint8": 1, "uint16": 2, "int16": 3, "int32": 5, "float32": 6, "float64": 7}
        dataset = gdal().GetDriverByName(driver).Create(
            path, pixels.shape[2], pixels.shape[1], pixels.shape[0], types[pixels.dtype.name])
        dataset.SetGeoTransform((X + column * SIZE, size, 0, Y - row * SIZE, 0, -size))
        dataset.SetProjection(wkt(epsg))
        for i, band in enumerate(pixels):
            dataset.GetRasterBand(i + 1).WriteArray(band)
            if nodata is not None:
                dataset.GetRasterBand(i + 1).SetNoDataValue(nodata)
        dataset.FlushCache()
        return path

    def read(self, path: str) -> Any:
        """Return the pixels of a file as an array (bands, rows, columns)."""
        pixels = gdal().Open(path).ReadAsArray()
        return pixels if pixels.ndim == 3 else pixels[np.newaxis]

    def apply(self, function: Callable[..., Any], inputs: dict[str, Any], outputs: dict[str, Any],
              other: Any = None, applier: Any = None, **controls: Any) -> Any:
        """Run apply; controls are arguments of setters, a tuple if there are several."""
        if applier is None:
            applier = importlib.import_module("leat.rios.applier")
        infiles, outfiles = applier.FilenameAssociations(), applier.FilenameAssociations()
        for files, values in ((infiles, inputs), (outfiles, outputs)):
            for name, value in values.items():
                setattr(files, name, value)
        c = applier.ApplierControls()
        c.setTempdir(self.dir)
        for name, value in controls.items():
            getattr(c, name)(*(value if isinstance(value, tuple) else (value,)))
        return applier.apply(function, infiles, outfiles, other, c)
