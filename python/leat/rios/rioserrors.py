"""Errors of the applier, under RIOS's names.

leat.rios raises some of them. The others exist for programs that import them.
"""

from __future__ import annotations

import sys

__all__ = [
    "ArrayShapeError", "AttributeTableColumnError", "AttributeTableTypeError",
    "ColorTableGenerationError", "ECSError", "FileOpenError", "GDALLayerNumberError",
    "GdalWarpError", "ImageOpenError", "IntersectionError", "JobMgrError", "KeysMismatch",
    "MismatchedListLengthsError", "OutsideImageBoundsError", "ParameterError", "PermissionError",
    "ProcessCancelledError", "RatBlockLengthError", "RatMismatchError", "ResampleNeededError",
    "RiosError", "SinglePassActionsError", "ThematicError", "TimeoutError", "TypeConversionError",
    "UnavailableError", "VectorAttributeError", "VectorGeometryTypeError", "VectorLayerError",
    "VectorProjectionError", "VectorRasterizationError", "WorkerExceptionError",
    "WrongControlsObject", "deprecationWarning",
]


class RiosError(Exception):
    """Base class of the errors of this module."""


class FileOpenError(RiosError):
    """A file can't be opened."""


class ArrayShapeError(RiosError):
    """The function set an output to an array of the wrong shape."""


class AttributeTableColumnError(RiosError):
    """An attribute table lacks a column."""


class AttributeTableTypeError(RiosError):
    """A column of an attribute table has another type."""


class ColorTableGenerationError(RiosError):
    """A colour table can't be generated."""


class ECSError(RiosError):
    """An error of AWS ECS."""


class GDALLayerNumberError(RiosError):
    """A file lacks a selected band."""


class GdalWarpError(RiosError):
    """Warping failed."""


class ImageOpenError(FileOpenError):
    """GDAL can't open a raster."""


class IntersectionError(RiosError):
    """The inputs have no common area."""


class JobMgrError(RiosError):
    """A job manager failed."""


class KeysMismatch(RiosError):
    """Keys are not those expected."""


class MismatchedListLengthsError(RiosError):
    """The function set a list of outputs whose length is not that of the list of files."""


class OutsideImageBoundsError(RiosError):
    """A block lies outside the raster."""


class ParameterError(RiosError):
    """A control or an argument has a value that is invalid, or that leat.rios can't honour."""


class PermissionError(RiosError):
    """A temporary file can't be written."""


class ProcessCancelledError(RiosError):
    """The user cancelled the run through the progress object."""


class RatBlockLengthError(RiosError):
    """A block of an attribute table has the wrong length."""


class RatMismatchError(RiosError):
    """Attribute tables are inconsistent."""


class ResampleNeededError(RiosError):
    """The inputs are on several grids, and the controls name no reference."""


class SinglePassActionsError(RiosError):
    """Statistics or pyramids can't be made in one pass."""


class ThematicError(RiosError):
    """A file can't be made thematic."""


class TimeoutError(RiosError):
    """Something took too long."""


class TypeConversionError(RiosError):
    """A type has no counterpart."""


class UnavailableError(RiosError):
    """Something that was asked for is not available here."""


class VectorAttributeError(RiosError):
    """A layer lacks an attribute."""


class VectorGeometryTypeError(RiosError):
    """A layer has geometries of an unexpected type."""


class VectorLayerError(RiosError):
    """A file of vectors, or a layer of it, can't be opened."""


class VectorProjectionError(RiosError):
    """Vectors are in another projection."""


class VectorRasterizationError(RiosError):
    """Rasterizing vectors failed."""


class WorkerExceptionError(RiosError):
    """The function failed in a compute worker; __cause__ says how."""


class WrongControlsObject(RiosError):
    """The controls are not an ApplierControls."""


_warned: set[tuple[str, str, int]] = set()


def deprecationWarning(msg: str, stacklevel: int = 2) -> None:
    """Print a message to standard error, with the file and line of the caller, once for each.

    stacklevel is the number of calls between this function and the line to show.
    """
    frame = sys._getframe(stacklevel)
    place = (msg, frame.f_code.co_filename, frame.f_lineno)
    if place not in _warned:
        _warned.add(place)
        print(f"{place[1]}:{place[2]}: deprecated: {msg}", file=sys.stderr)
