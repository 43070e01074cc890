"""Grids of pixels, under RIOS's names: class PixelGridDefn, and what combines grids."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import numpy as np

from . import _gdal
from .const import BOUNDS_FROM_REFERENCE, INTERSECTION, UNION
from .rioserrors import ImageOpenError, IntersectionError, ParameterError

__all__ = ["PixelGridDefn", "findCommonRegion", "pixelGridFromFile", "removeSurrounding"]

_SAMPLES = 2001
"""Points of each edge of a grid that is reprojected."""


class PixelGridDefn:
    """PixelGridDefn is a grid of north-up pixels: bounds, pixel size and projection.

    Construct it from a transform in GDAL's order and numbers of rows and columns, or from bounds
    and pixel sizes. Bounds are outer edges of pixels, in units of the projection, which is WKT.

    >>> from leat.rios.pixelgrid import PixelGridDefn
    >>> grid = PixelGridDefn(geotransform=(500000, 10, 0, 7000000, 0, -10), nrows=30, ncols=40,
    ...                      projection="")
    >>> print(grid)
    xMin:500000,xMax:500400,yMin:6999700,yMax:7000000,xRes:10,yRes:10
    >>> grid.getDimensions()
    (30, 40)
    """

    def __init__(self, geotransform: Optional[Sequence[float]] = None, nrows: Optional[int] = None,
                 ncols: Optional[int] = None, projection: Optional[str] = None,
                 xMin: Optional[float] = None, xMax: Optional[float] = None,
                 yMin: Optional[float] = None, yMax: Optional[float] = None,
                 xRes: Optional[float] = None, yRes: Optional[float] = None) -> None:
        self.projection = projection or ""
        if geotransform is not None:
            if nrows is None or ncols is None:
                raise ParameterError("a grid with a geotransform needs nrows and ncols")
            x0, dx, skew_x, y0, skew_y, dy = geotransform
            if skew_x != 0 or skew_y != 0 or dx <= 0 or dy >= 0:
                raise ParameterError(f"the transform {tuple(geotransform)} is rotated or not north "
                                     "up")
            xMin, xMax, xRes = x0, x0 + ncols * dx, dx
            yMin, yMax, yRes = y0 + nrows * dy, y0, -dy
        if (xMin is None or xMax is None or yMin is None or yMax is None or xRes is None
                or yRes is None):
            raise ParameterError("a grid needs a geotransform, or xMin, xMax, yMin, yMax, xRes and "
                                 "yRes")
        self.xMin, self.xMax, self.yMin, self.yMax = xMin, xMax, yMin, yMax
        self.xRes, self.yRes = abs(xRes), abs(yRes)

    def __str__(self) -> str:
        names = ("xMin", "xMax", "yMin", "yMax", "xRes", "yRes")
        return ",".join(f"{name}:{getattr(self, name)}" for name in names)

    def getDimensions(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return (round((self.yMax - self.yMin) / self.yRes),
                round((self.xMax - self.xMin) / self.xRes))

    def makeGeoTransform(self) -> tuple[float, float, float, float, float, float]:
        """Return the transform of the grid, six numbers in GDAL's order."""
        return self.xMin, self.xRes, 0, self.yMax, 0, -self.yRes

    def equalPixSize(self, other: PixelGridDefn) -> bool:
        """Return whether pixels have the same size."""
        return self.xRes == other.xRes and self.yRes == other.yRes

    def equalProjection(self, other: PixelGridDefn) -> bool:
        """Return whether the projections are the same."""
        if self.projection == other.projection:
            return True
        if not self.projection or not other.projection:
            return False
        return bool(_gdal.reference(self.projection).IsSame(_gdal.reference(other.projection)))

    def equivalentProjection(self, otherspatialref: Any, pixtolerance: float) -> bool:
        """Return whether corners and centre have the same coordinates in another projection.

        They may differ by pixtolerance pixels.
        """
        osr = _gdal.module("osr")
        if not self.projection:
            return False
        transform = osr.CoordinateTransformation(_gdal.reference(self.projection), otherspatialref)
        xs, ys = (self.xMin, self.xMax), (self.yMin, self.yMax)
        points = [(x, y) for x in xs for y in ys] + [(sum(xs) / 2, sum(ys) / 2)]
        for x, y in points:
            there = transform.TransformPoint(x, y)
            if (abs(there[0] - x) > pixtolerance * self.xRes
                    or abs(there[1] - y) > pixtolerance * self.yRes):
                return False
        return True

    def isComparable(self, other: PixelGridDefn) -> bool:
        """Return whether pixel size and projection are the same."""
        return self.equalPixSize(other) and self.equalProjection(other)

    def alignedWith(self, other: PixelGridDefn) -> bool:
        """Return whether both are parts of one grid.

        Corners may differ by 0.001 of a pixel, divided by the length of the longest side in pixels.
        """
        if not self.isComparable(other):
            return False
        longest = max(1, *self.getDimensions(), *other.getDimensions())
        tolerance = 0.001 * min(self.xRes, self.yRes) / longest
        for a, b, size in ((self.xMin, other.xMin, self.xRes), (self.yMax, other.yMax, self.yRes)):
            rounding = 4 * np.spacing(max(abs(a), abs(b)))
            if abs(a - _snap(a, b, size)) > max(tolerance, rounding):
                return False
        return True

    def _combined(self, xMin: float, xMax: float, yMin: float, yMax: float) -> PixelGridDefn:
        return PixelGridDefn(projection=self.projection, xMin=xMin, xMax=xMax, yMin=yMin,
                             yMax=yMax, xRes=self.xRes, yRes=self.yRes)

    def _check(self, other: PixelGridDefn) -> None:
        if not self.isComparable(other):
            raise ParameterError("grids can only be combined if they have the same pixel size and "
                                 f"projection: {self} and {other}")

    def intersection(self, other: PixelGridDefn) -> PixelGridDefn:
        """Return the part that both grids have; IntersectionError if there is none."""
        self._check(other)
        both = self._combined(max(self.xMin, other.xMin), min(self.xMax, other.xMax),
                              max(self.yMin, other.yMin), min(self.yMax, other.yMax))
        if both.xMin >= both.xMax or both.yMin >= both.yMax:
            raise IntersectionError(f"the grids don't intersect: {self} and {other}")
        return both

    def union(self, other: PixelGridDefn) -> PixelGridDefn:
        """Return the smallest grid that contains both."""
        self._check(other)
        return self._combined(min(self.xMin, other.xMin), max(self.xMax, other.xMax),
                              min(self.yMin, other.yMin), max(self.yMax, other.yMax))

    def surrounds(self, other: PixelGridDefn) -> bool:
        """Return whether the other lies within this grid, whose projection it has."""
        return (self.xMin <= other.xMin and self.xMax >= other.xMax and self.yMin <= other.yMin
                and self.yMax >= other.yMax)

    def _bounds(self, target: Any) -> tuple[float, float, float, float]:
        """Return xMin, xMax, yMin and yMax in another spatial reference, with curved edges."""
        osr = _gdal.module("osr")
        transform = osr.CoordinateTransformation(_gdal.reference(self.projection), target)
        x, y = (np.linspace(self.xMin, self.xMax, _SAMPLES),
                np.linspace(self.yMin, self.yMax, _SAMPLES))
        edges = [np.column_stack((x, np.full_like(x, edge))) for edge in (self.yMin, self.yMax)]
        edges += [np.column_stack((np.full_like(y, edge), y)) for edge in (self.xMin, self.xMax)]
        points = np.array(transform.TransformPoints(np.concatenate(edges).tolist()))[:, :2]
        if not np.isfinite(points).all():
            raise ParameterError(f"the grid {self} has edges that can't be reprojected")
        (left, lower), (right, upper) = points.min(axis=0), points.max(axis=0)
        return float(left), float(right), float(lower), float(upper)

    def reproject(self, targetGrid: PixelGridDefn, snap: bool = True) -> PixelGridDefn:
        """Return the grid in projection and pixel size of another.

        If snap is set, its edges are the nearest edges of the other's pixels.
        """
        if self.equalProjection(targetGrid):
            xMin, xMax, yMin, yMax = self.xMin, self.xMax, self.yMin, self.yMax
        elif not self.projection or not targetGrid.projection:
            raise ParameterError("a grid without a projection can't be reprojected")
        else:
            xMin, xMax, yMin, yMax = self._bounds(_gdal.reference(targetGrid.projection))
        if snap:
            xMin, xMax = (_snap(v, targetGrid.xMin, targetGrid.xRes) for v in (xMin, xMax))
            yMin, yMax = (_snap(v, targetGrid.yMin, targetGrid.yRes) for v in (yMin, yMax))
        return targetGrid._combined(xMin, xMax, yMin, yMax)

    @staticmethod
    def roundAway(x: float) -> float:
        """Return the nearest whole number; halves are rounded away from 0."""
        return math.copysign(math.floor(abs(x) + 0.5), x)

    @staticmethod
    def getNumPix(gridMax: float, gridMin: float, gridRes: float) -> int:
        """Return the number of pixels between two edges."""
        return int(PixelGridDefn.roundAway((gridMax - gridMin) / gridRes))

    @staticmethod
    def snapToGrid(val: float, valOnGrid: float, res: float) -> float:
        """Return the edge of a pixel that is nearest to a coordinate; valOnGrid is one edge."""
        return valOnGrid + PixelGridDefn.roundAway((val - valOnGrid) / res) * res


_snap = PixelGridDefn.snapToGrid


def removeSurrounding(gridList: Sequence[PixelGridDefn]) -> list[PixelGridDefn]:
    """Return the grids without those that surround all others in longitude and latitude.

    An intersection does not depend on them, and they may be too large to be reprojected.
    """
    left = list(gridList)
    if len(left) < 2 or not all(grid.projection for grid in left):
        return left
    osr = _gdal.module("osr")
    geographic = osr.SpatialReference()
    geographic.ImportFromEPSG(4326)
    geographic.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    bounds = []
    for grid in left:
        x0, x1, y0, y1 = grid._bounds(geographic)
        bounds.append(PixelGridDefn(xMin=x0, xMax=x1, yMin=y0, yMax=y1, xRes=1, yRes=1))
    while len(left) > 1:
        for i, one in enumerate(bounds):
            others = bounds[:i] + bounds[i + 1:]
            if all(one.surrounds(other) for other in others):
                del left[i], bounds[i]
                break
        else:
            break
    return left


def findCommonRegion(gridList: Sequence[PixelGridDefn], refGrid: PixelGridDefn,
                     combine: int = INTERSECTION) -> PixelGridDefn:
    """Return the intersection or union of grids in the pixels of a reference grid.

    With BOUNDS_FROM_REFERENCE it is the reference grid itself.
    """
    if combine == BOUNDS_FROM_REFERENCE:
        return refGrid
    if combine not in (INTERSECTION, UNION):
        raise ParameterError(f"footprint {combine!r}: expected INTERSECTION, UNION or "
                             "BOUNDS_FROM_REFERENCE")
    grids = list(gridList)
    if combine == INTERSECTION and not all(grid.equalProjection(refGrid) for grid in grids):
        grids = removeSurrounding(grids)
    region = None
    for grid in grids:
        if not grid.isComparable(refGrid) or not grid.alignedWith(refGrid):
            grid = grid.reproject(refGrid)
        if region is None:
            region = grid
        else:
            region = (region.intersection(grid) if combine == INTERSECTION else region.union(grid))
    if region is None:
        return refGrid
    # The same pixels as those of the reference, to the last bit.
    return refGrid._combined(_snap(region.xMin, refGrid.xMin, refGrid.xRes),
                             _snap(region.xMax, refGrid.xMin, refGrid.xRes),
                             _snap(region.yMin, refGrid.yMin, refGrid.yRes),
                             _snap(region.yMax, refGrid.yMin, refGrid.yRes))


def pixelGridFromFile(filename: str) -> PixelGridDefn:
    """Return the grid of a raster file."""
    dataset = _gdal.open_file(str(filename))
    if dataset is None:
        raise ImageOpenError(f"GDAL can't open the raster {filename}")
    return PixelGridDefn(geotransform=dataset.GetGeoTransform(), nrows=dataset.RasterYSize,
                         ncols=dataset.RasterXSize, projection=dataset.GetProjection())
