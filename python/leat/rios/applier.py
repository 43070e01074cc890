"""Applies a function to the blocks of rasters, under RIOS's names.

    from leat.rios import applier

    infiles, outfiles = applier.FilenameAssociations(), applier.FilenameAssociations()
    infiles.red, infiles.nir, outfiles.ndvi = "B4.tif", "B8.tif", "ndvi.img"

    def ndvi(info, inputs, outputs):
        red, nir = inputs.red.astype("f4"), inputs.nir.astype("f4")  # (bands, rows, columns)
        outputs.ndvi = (nir - red) / (nir + red)

    applier.apply(ndvi, infiles, outfiles)

docs/python/rios.md lists what differs from RIOS.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

from . import rioserrors
from ._controls import ApplierControls
from .const import (BOUNDS_FROM_REFERENCE, DEFAULT_AUTOCOLORTABLETYPE, DEFAULT_MINOVERVIEWDIM,
                    DEFAULT_OVERVIEWAGGREGRATIONTYPE, DEFAULT_OVERVIEWLEVELS,
                    DEFAULT_RESAMPLEMETHOD, DEFAULTDRIVERNAME, DEFAULTFOOTPRINT, DEFAULTOVERLAP,
                    DEFAULTWINDOWXSIZE, DEFAULTWINDOWYSIZE, INTERSECTION, UNION)
from .pixelgrid import PixelGridDefn, findCommonRegion, pixelGridFromFile
from .structures import (CW_AWSBATCH, CW_ECS, CW_NONE, CW_PBS, CW_SLURM, CW_SUBPROC, CW_THREADS,
                         ApplierBlockDefn, ApplierReturn, BlockAssociations, ConcurrencyStyle,
                         FilenameAssociations, OtherInputs, Timers)

__all__ = [
    "ApplierBlockDefn", "ApplierControls", "ApplierReturn", "BOUNDS_FROM_REFERENCE",
    "BlockAssociations", "CW_AWSBATCH", "CW_ECS", "CW_NONE", "CW_PBS", "CW_SLURM", "CW_SUBPROC",
    "CW_THREADS", "ConcurrencyStyle", "DEFAULTDRIVERNAME", "DEFAULTFOOTPRINT", "DEFAULTOVERLAP",
    "DEFAULTWINDOWXSIZE", "DEFAULTWINDOWYSIZE", "DEFAULT_AUTOCOLORTABLETYPE",
    "DEFAULT_MINOVERVIEWDIM", "DEFAULT_OVERVIEWAGGREGRATIONTYPE", "DEFAULT_OVERVIEWLEVELS",
    "DEFAULT_RESAMPLEMETHOD", "FilenameAssociations", "INTERSECTION", "OtherInputs",
    "PixelGridDefn", "Timers", "UNION", "apply", "findCommonRegion", "pixelGridFromFile",
    "rioserrors",
]


def apply(userFunction: Callable[..., Any], infiles: FilenameAssociations,
          outfiles: FilenameAssociations, otherArgs: Any = None,
          controls: Optional[ApplierControls] = None) -> ApplierReturn:
    """Call a function for each block of rasters, and write rasters.

    The function is called as userFunction(info, inputs, outputs), or with otherArgs as fourth
    argument if that is not None. info is a ReaderInfo. inputs has an array of shape (bands, rows,
    columns), or a list of arrays, under each name of infiles. The function sets an array, or a list
    of them, of the same rows and columns under each name of outfiles. The type of the first array
    is that of the output.

    Its exceptions are raised as they are; with compute workers, WorkerExceptionError is raised from
    them. ParameterError and other RiosErrors say what is wrong with files and controls, and
    leat.JobError what leat refuses.

    >>> import leat, tempfile
    >>> from leat.rios import applier
    >>> infiles, outfiles = applier.FilenameAssociations(), applier.FilenameAssociations()
    >>> def brightest(info, inputs, outputs, otherargs):
    ...     otherargs.value = max(otherargs.value, int(inputs.red.max()))
    >>> otherargs = applier.OtherInputs()
    >>> otherargs.value = 0
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     infiles.red = leat.demo(directory, size=64)["red"]
    ...     done = applier.apply(brightest, infiles, outfiles, otherargs)
    >>> otherargs.value > 0, done.workinggrid.getDimensions()
    (True, (64, 64))
    """
    from . import _run
    start = time.time()
    if controls is None:
        controls = ApplierControls()
    done = _run.run(userFunction, infiles, outfiles, otherArgs, controls)
    done.timings._add("walltime", start, time.time())
    return done
