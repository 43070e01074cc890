"""What the function learns about its block: class ReaderInfo, under RIOS's names."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Optional

import numpy as np

from .pixelgrid import PixelGridDefn
from .structures import ApplierBlockDefn

__all__ = ["ReaderInfo"]


class Coord(NamedTuple):
    """A point on the map."""

    x: float
    y: float


class ReaderInfo:
    """ReaderInfo describes the working grid and the current block.

    The getters of a function's first argument:

    >>> def slope(info, inputs, outputs):
    ...     x, y = info.getBlockCoordArrays()   # of shape (rows, columns), centres of pixels
    ...     size, _ = info.getPixelSize()       # in units of the projection
    """

    def __init__(self, workingGrid: PixelGridDefn, windowxsize: int, windowysize: int,
                 overlap: int, loggingstream: Any = None) -> None:
        self.workingGrid = workingGrid
        self.windowxsize, self.windowysize, self.overlap = windowxsize, windowysize, overlap
        self.loggingstream = sys.stdout if loggingstream is None else loggingstream
        self.ysize, self.xsize = workingGrid.getDimensions()
        self.xtotalblocks = -(-self.xsize // windowxsize)
        self.ytotalblocks = -(-self.ysize // windowysize)
        self._block = ApplierBlockDefn(0, 0, 0, 0)
        self._files: dict[int, tuple[Any, str, list[Any]]] = {}

    def _enter(self, block: ApplierBlockDefn,
               files: list[tuple[Any, str, list[Any]]]) -> None:
        """Describe another block, whose arrays have these names of files and nodata values."""
        self._block = block
        self._files = {id(entry[0]): entry for entry in files}

    @property
    def blockwidth(self) -> int:
        """Columns of this block without margin."""
        return self._block.ncols

    @property
    def blockheight(self) -> int:
        """Rows of this block without margin."""
        return self._block.nrows

    @property
    def blocktl(self) -> Coord:
        """Upper left corner of this block without margin."""
        return Coord(*self._corner(self._block.left, self._block.top))

    @property
    def blockbr(self) -> Coord:
        """Lower right corner of this block without margin."""
        return Coord(*self._corner(self._block.left + self._block.ncols,
                                   self._block.top + self._block.nrows))

    def _corner(self, column: int, row: int) -> tuple[float, float]:
        x0, dx, _, y0, _, dy = self.getTransform()
        return x0 + column * dx, y0 + row * dy

    @property
    def xblock(self) -> int:
        """Number of this block across the grid, from 0."""
        return self._block.left // self.windowxsize

    @property
    def yblock(self) -> int:
        """Number of this block down the grid, from 0."""
        return self._block.top // self.windowysize

    def getWindowSize(self) -> tuple[int, int]:
        """Return the size of blocks in pixels: columns, rows."""
        return self.windowxsize, self.windowysize

    def getOverlapSize(self) -> int:
        """Return the width of the margin around the block in pixels."""
        return self.overlap

    def getTotalSize(self) -> tuple[int, int]:
        """Return the size of the working grid in pixels: columns, rows."""
        return self.xsize, self.ysize

    def getTransform(self) -> tuple[float, float, float, float, float, float]:
        """Return the transform of the working grid, six numbers in GDAL's order."""
        return self.workingGrid.makeGeoTransform()

    def getProjection(self) -> str:
        """Return the projection of the working grid as WKT."""
        return self.workingGrid.projection

    def getTotalBlocks(self) -> tuple[int, int]:
        """Return the number of blocks across and down the working grid."""
        return self.xtotalblocks, self.ytotalblocks

    def getBlockSize(self) -> tuple[int, int]:
        """Return the size of this block without margin: columns, rows.

        At the right and lower edges it is smaller than the window.
        """
        return self._block.ncols, self._block.nrows

    def getBlockCount(self) -> tuple[int, int]:
        """Return the position of this block among the blocks: across and down, from 0."""
        return self.xblock, self.yblock

    def getBlockCoordArrays(self) -> tuple[Any, Any]:
        """Return x and y of the centre of each pixel, with the margin.

        Both are arrays of float64 of shape (rows, columns).
        """
        x0, dx, _, y0, _, dy = self.getTransform()
        columns = np.arange(self._block.ncols + 2 * self.overlap) + (self._block.left
                                                                     - self.overlap + 0.5)
        rows = np.arange(self._block.nrows + 2 * self.overlap) + (self._block.top
                                                                  - self.overlap + 0.5)
        x, y = np.meshgrid(x0 + columns * dx, y0 + rows * dy)
        return x, y

    def getPixelSize(self) -> tuple[float, float]:
        """Return width and height of pixels in units of the projection, both above 0."""
        return self.workingGrid.xRes, self.workingGrid.yRes

    def getPixRowColBlock(self, x: float, y: float) -> tuple[Optional[int], Optional[int]]:
        """Return row and column of the pixel of this block's arrays in which a point lies.

        The arrays have the margin. Both are None for a point outside.
        """
        x0, dx, _, y0, _, dy = self.getTransform()
        column = int(np.floor((x - x0) / dx)) - self._block.left + self.overlap
        row = int(np.floor((y - y0) / dy)) - self._block.top + self.overlap
        if (0 <= column < self._block.ncols + 2 * self.overlap
                and 0 <= row < self._block.nrows + 2 * self.overlap):
            return row, column
        return None, None

    def getPixColRow(self, x: int, y: int) -> tuple[int, int]:
        """Return column and row in the working grid of column x and row y of this block.

        It ignores the margin.
        """
        return self._block.left + x, self._block.top + y

    def isFirstBlock(self) -> bool:
        """Return whether this is the upper left block."""
        return self._block.left == 0 and self._block.top == 0

    def isLastBlock(self) -> bool:
        """Return whether this is the lower right block."""
        return (self._block.left + self.windowxsize >= self.xsize
                and self._block.top + self.windowysize >= self.ysize)

    def getFilenameFor(self, block: Any) -> str:
        """Return the name of the file of an array of inputs; KeyError if it is not one of them."""
        return self._file(block)[1]

    def getNoDataValueFor(self, block: Any, band: int = 1) -> Any:
        """Return the nodata value of a band, from 1, of an array of inputs; None without one.

        It has the type of the array. KeyError means that the array is not one of inputs.
        """
        values = self._file(block)[2]
        if not 1 <= band <= len(values):
            raise IndexError(f"band {band} is out of range: the block has {len(values)} bands")
        return values[band - 1]

    def _file(self, block: Any) -> tuple[Any, str, list[Any]]:
        if id(block) not in self._files:
            raise KeyError("the array is not one of the function's inputs; a part or a copy of "
                           "one is another array")
        return self._files[id(block)]

    def getPercent(self) -> int:
        """Return how much of the working grid precedes this block, in percent."""
        across, down = self.getBlockCount()
        return 100 * (down * self.xtotalblocks + across) // (self.xtotalblocks * self.ytotalblocks)
