"""GDAL's Python modules, and the files that they open."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Iterator, Optional

from .rioserrors import UnavailableError


def module(name: str) -> Any:
    """Return a module of osgeo: gdal, osr or ogr."""
    try:
        return importlib.import_module("osgeo." + name)
    except ImportError as e:
        raise UnavailableError(f"leat.rios needs GDAL's Python module osgeo.{name}: {e}") from e


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Return a context in which GDAL prints no errors and warnings."""
    gdal = module("gdal")
    gdal.PushErrorHandler("CPLQuietErrorHandler")
    try:
        yield
    finally:
        gdal.PopErrorHandler()


def open_file(path: str, vector: bool = False, update: bool = False) -> Optional[Any]:
    """Return an open GDAL dataset, or None if GDAL can't open the file as such."""
    gdal = module("gdal")
    flags = gdal.OF_VECTOR if vector else gdal.OF_RASTER
    with quiet():
        try:
            return gdal.OpenEx(path, flags | (gdal.OF_UPDATE if update else 0))
        except RuntimeError:
            return None


def reference(wkt: str) -> Any:
    """Return the spatial reference of a WKT, whose axes are x and y."""
    osr = module("osr")
    sr = osr.SpatialReference()
    if wkt:
        sr.ImportFromWkt(wkt)
    sr.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return sr
