"""The controls of apply: class ApplierControls, under RIOS's names."""

from __future__ import annotations

import sys
from typing import Any, Callable, Iterable, Optional, Sequence, Union

import numpy as np

from . import const
from .rioserrors import ParameterError
from .structures import ConcurrencyStyle

_RESAMPLING = ("near", "bilinear", "cubic", "cubicspline", "lanczos", "average", "rms", "mode",
               "max", "min", "med", "q1", "q3", "sum")
"""The methods of GDAL, which takes some longer names too, such as nearest."""


class ApplierControls:
    """ApplierControls holds the settings of apply.

    >>> from leat.rios import applier
    >>> controls = applier.ApplierControls()
    >>> controls.setOverlap(1)
    >>> controls.setOutputDriverName("GTiff")
    >>> controls.setStatsIgnore(255, imagename="classes")

    imagename and vectorname are names of infiles or outfiles: the control holds for that image
    alone. Without one, it holds for all others. docs/python/rios.md lists the controls that leat
    honours differently, and those that have no effect.
    """

    def __init__(self) -> None:
        self.optionsByImage: dict[str, dict[str, Any]] = {}
        # The grid and its blocks.
        self.overlap: int = const.DEFAULTOVERLAP
        self.windowysize: int = const.DEFAULTWINDOWYSIZE
        self.windowxsize: int = const.DEFAULTWINDOWXSIZE
        self.filesforextent: Optional[list[str]] = None
        self.footprint: int = const.DEFAULTFOOTPRINT
        self.referencePixgrid: Any = None
        self.referenceImage: Optional[str] = None
        # Inputs.
        self.inputnodata: Any = None
        self.layerselection: Optional[list[int]] = None
        self.resampleMethod: str = const.DEFAULT_RESAMPLEMETHOD
        self.allowOverviewsGdalwarp: bool = False
        self.tempdir: str = "."
        # Vectors.
        self.vectorlayer: Union[int, str] = 0
        self.vectordatatype: Any = np.uint8
        self.vectornull: Any = 0
        self.burnattribute: Optional[str] = None
        self.burnvalue: Any = 1
        self.alltouched: bool = False
        self.filtersql: Optional[str] = None
        # Outputs.
        self.drivername: str = const.DEFAULTDRIVERNAME
        self.creationoptions: Optional[list[str]] = None
        self.layernames: Optional[list[str]] = None
        self.statsIgnore: Any = 0
        self.thematic: bool = False
        self.autoColorTableType: Optional[str] = const.DEFAULT_AUTOCOLORTABLETYPE
        self.callBeforeClose: Any = None
        # Statistics and overviews of outputs.
        self.calcStats: bool = True
        self.approxStats: bool = False
        self.omitBasicStats: bool = False
        self.omitHistogram: bool = False
        self.omitPyramids: bool = False
        self.overviewAggType: Optional[str] = None
        self.overviewLevels: list[int] = const.DEFAULT_OVERVIEWLEVELS
        self.overviewMinDim: int = const.DEFAULT_MINOVERVIEWDIM
        self.singlePassBasicStats: Optional[bool] = None
        self.singlePassHistogram: Optional[bool] = None
        self.singlePassPyramids: Optional[bool] = None
        # The run.
        self.concurrency: ConcurrencyStyle = ConcurrencyStyle()
        self.jobName: Optional[str] = None
        self.loggingstream: Any = sys.stdout
        self.progress: Any = None

    def setOptionForImagename(self, option: str, imagename: Optional[str], value: Any) -> None:
        """Set a control, by the name of its attribute, for one image or, with None, for all."""
        if imagename is None:
            setattr(self, option, value)
        else:
            self.optionsByImage.setdefault(option, {})[imagename] = value

    def getOptionForImagename(self, option: str, imagename: Optional[str]) -> Any:
        """Return a control, by the name of its attribute, as it holds for an image."""
        own = self.optionsByImage.get(option, {})
        if imagename is not None and imagename in own:
            return own[imagename]
        return getattr(self, option)

    def _checkNames(self, names: Iterable[str]) -> None:
        """Raise ValueError if a control is set for an image that does not exist."""
        known = set(names)
        for option, own in self.optionsByImage.items():
            for name in own:
                if name not in known:
                    raise ValueError(f"control {option}: neither infiles nor outfiles have the "
                                     f"name {name!r}; they have {', '.join(sorted(known))}")

    # The grid and its blocks.

    def setOverlap(self, overlap: int) -> None:
        """Set the width in pixels of the margin around each block; default 0.

        Pixels of the margin outside a file have its nodata value, or 0 without one.
        """
        self.overlap = overlap

    def setWindowXsize(self, windowxsize: int) -> None:
        """Set the width of blocks in pixels; default 256."""
        self.windowxsize = windowxsize

    def setWindowYsize(self, windowysize: int) -> None:
        """Set the height of blocks in pixels; default 256."""
        self.windowysize = windowysize

    def setWindowSize(self, windowxsize: int, windowysize: int) -> None:
        """Set width and height of blocks in pixels."""
        self.windowxsize, self.windowysize = windowxsize, windowysize

    def setFootprintType(self, footprint: int) -> None:
        """Set the extent of the grid: INTERSECTION, UNION or BOUNDS_FROM_REFERENCE."""
        self.footprint = footprint

    def setFilesForExtent(self, filesforextent: Sequence[str]) -> None:
        """Set the files whose extents count for the footprint, instead of the inputs."""
        self.filesforextent = list(filesforextent)

    def setReferenceImage(self, referenceImage: str) -> None:
        """Set the name of the input, or the file, whose grid is used; others are resampled."""
        self.referenceImage = referenceImage

    def setReferencePixgrid(self, referencePixgrid: Any) -> None:
        """Set the grid, a PixelGridDefn, onto which inputs are resampled."""
        self.referencePixgrid = referencePixgrid

    # Inputs.

    def setInputNoDataValue(self, nodataValue: Any, imagename: Optional[str] = None) -> None:
        """Set the nodata value of inputs, or a list by band, instead of that in the file."""
        self.setOptionForImagename("inputnodata", imagename, nodataValue)

    def setResampleMethod(self, resampleMethod: str, imagename: Optional[str] = None) -> None:
        """Set how inputs are resampled: near (default), bilinear, cubic and the others of leat.

        Another name is a ParameterError, even if no input is resampled.
        """
        if isinstance(resampleMethod, str) and not resampleMethod.lower().startswith(_RESAMPLING):
            raise ParameterError(f"setResampleMethod: {resampleMethod!r}: expected one of "
                                 f"{', '.join(_RESAMPLING)}")
        self.setOptionForImagename("resampleMethod", imagename, resampleMethod)

    def selectInputImageLayers(self, layerselection: Sequence[int],
                               imagename: Optional[str] = None) -> None:
        """Set the numbers, from 1, of the bands to read, in this order."""
        self.setOptionForImagename("layerselection", imagename, list(layerselection))

    def setAllowOverviewsGdalwarp(self, allowOverviewsGdalwarp: bool) -> None:
        """Set whether inputs may be resampled from their overviews; default False."""
        self.allowOverviewsGdalwarp = allowOverviewsGdalwarp

    def setTempdir(self, tempdir: str) -> None:
        """Set the directory for small files that describe resampling; default the current one."""
        self.tempdir = tempdir

    # Vectors.

    def setBurnValue(self, burnvalue: Any, vectorname: Optional[str] = None) -> None:
        """Set the value of pixels in features; default 1."""
        self.setOptionForImagename("burnvalue", vectorname, burnvalue)

    def setBurnAttribute(self, burnattribute: Optional[str],
                         vectorname: Optional[str] = None) -> None:
        """Set the attribute of features that holds the value of their pixels."""
        self.setOptionForImagename("burnattribute", vectorname, burnattribute)

    def setVectorNull(self, vectornull: Any, vectorname: Optional[str] = None) -> None:
        """Set the value of pixels in no feature; default 0."""
        self.setOptionForImagename("vectornull", vectorname, vectornull)

    def setFilterSQL(self, filtersql: Optional[str], vectorname: Optional[str] = None) -> None:
        """Set the condition (SQL WHERE) that features must satisfy, or a SELECT statement."""
        self.setOptionForImagename("filtersql", vectorname, filtersql)

    def setAlltouched(self, alltouched: bool, vectorname: Optional[str] = None) -> None:
        """Set whether a feature covers all pixels that it touches, not only those whose centre is
        in it."""
        self.setOptionForImagename("alltouched", vectorname, alltouched)

    def setVectorDatatype(self, vectordatatype: Any, vectorname: Optional[str] = None) -> None:
        """Set the NumPy type of arrays of vectors; default uint8."""
        self.setOptionForImagename("vectordatatype", vectorname, vectordatatype)

    def setVectorlayer(self, vectorlayer: Union[int, str],
                       vectorname: Optional[str] = None) -> None:
        """Set the layer of vectors, by number from 0 or by name; default 0."""
        self.setOptionForImagename("vectorlayer", vectorname, vectorlayer)

    # Outputs.

    def setOutputDriverName(self, drivername: str, imagename: Optional[str] = None) -> None:
        """Set GDAL's name of the format of outputs; default HFA, or $RIOS_DFLT_DRIVER."""
        self.setOptionForImagename("drivername", imagename, drivername)

    def setCreationOptions(self, creationoptions: Optional[Sequence[str]],
                           imagename: Optional[str] = None) -> None:
        """Set the creation options of outputs, a list of strings NAME=VALUE."""
        options = None if creationoptions is None else list(creationoptions)
        self.setOptionForImagename("creationoptions", imagename, options)

    def setStatsIgnore(self, statsIgnore: Any, imagename: Optional[str] = None) -> None:
        """Set the nodata value of outputs; default 0. None means no nodata value."""
        self.setOptionForImagename("statsIgnore", imagename, statsIgnore)

    def setThematic(self, thematicFlag: bool, imagename: Optional[str] = None) -> None:
        """Set whether the pixels of outputs are classes; default False."""
        self.setOptionForImagename("thematic", imagename, thematicFlag)

    def setLayerNames(self, layerNames: Optional[Sequence[str]],
                      imagename: Optional[str] = None) -> None:
        """Set the names of the bands of outputs."""
        names = None if layerNames is None else list(layerNames)
        self.setOptionForImagename("layernames", imagename, names)

    def setCallBeforeClose(self, func: Callable[..., Any], args: Sequence[Any] = (),
                           imagename: Optional[str] = None) -> None:
        """Set a function that gets each finished output as an open GDAL dataset, then args."""
        self.setOptionForImagename("callBeforeClose", imagename, (func, tuple(args)))

    def setAutoColorTableType(self, autoColorTableType: Optional[str],
                              imagename: Optional[str] = None) -> None:
        """Set a type of colour table for thematic outputs. leat makes none: apply refuses it."""
        self.setOptionForImagename("autoColorTableType", imagename, autoColorTableType)

    # Statistics and overviews of outputs.

    def setCalcStats(self, calcStats: bool, imagename: Optional[str] = None) -> None:
        """Set whether outputs have overviews, statistics and histograms; default True."""
        for option in ("omitPyramids", "omitBasicStats", "omitHistogram"):
            self.setOptionForImagename(option, imagename, not calcStats)

    def setOmitPyramids(self, omitPyramids: bool, imagename: Optional[str] = None) -> None:
        """Set whether to omit the overviews of outputs; default False."""
        self.setOptionForImagename("omitPyramids", imagename, omitPyramids)

    def setOmitBasicStats(self, omitBasicStats: bool, imagename: Optional[str] = None) -> None:
        """Set whether to omit statistics; default False. Only together with setOmitHistogram."""
        self.setOptionForImagename("omitBasicStats", imagename, omitBasicStats)

    def setOmitHistogram(self, omitHistogram: bool, imagename: Optional[str] = None) -> None:
        """Set whether to omit the histograms of outputs; default False."""
        self.setOptionForImagename("omitHistogram", imagename, omitHistogram)

    def setOverviewLevels(self, overviewLevels: Sequence[int],
                          imagename: Optional[str] = None) -> None:
        """Set the levels of overviews, which are powers of two; default 4, 8, 16 ... 512."""
        self.setOptionForImagename("overviewLevels", imagename, list(overviewLevels))

    def setOverviewMinDim(self, overviewMinDim: int, imagename: Optional[str] = None) -> None:
        """Set the smallest side of overviews in pixels; default 128."""
        self.setOptionForImagename("overviewMinDim", imagename, overviewMinDim)

    def setOverviewAggregationType(self, overviewAggType: Optional[str],
                                   imagename: Optional[str] = None) -> None:
        """Set how overviews are made: NEAREST, AVERAGE or MODE."""
        self.setOptionForImagename("overviewAggType", imagename, overviewAggType)

    def setSinglePassPyramids(self, singlePassPyramids: Optional[bool],
                              imagename: Optional[str] = None) -> None:
        """Set which pixel of a cell NEAREST takes: with False the upper left one, as GDAL does.

        Otherwise it takes the pixel at the centre.
        """
        self.setOptionForImagename("singlePassPyramids", imagename, singlePassPyramids)

    def setSinglePassBasicStats(self, singlePassBasicStats: Optional[bool],
                                imagename: Optional[str] = None) -> None:
        """Has no effect: leat always computes statistics in one pass."""
        self.setOptionForImagename("singlePassBasicStats", imagename, singlePassBasicStats)

    def setSinglePassHistogram(self, singlePassHistogram: Optional[bool],
                               imagename: Optional[str] = None) -> None:
        """Has no effect: leat decides whether a histogram needs a second pass."""
        self.setOptionForImagename("singlePassHistogram", imagename, singlePassHistogram)

    def setApproxStats(self, approxStats: bool, imagename: Optional[str] = None) -> None:
        """Has no effect: leat's statistics are exact and need no second pass."""
        self.setOptionForImagename("approxStats", imagename, approxStats)

    # The run.

    def setProgress(self, progress: Any) -> None:
        """Set a progress object, such as cuiprogress.CUIProgressBar(); default none."""
        self.progress = progress

    def setConcurrencyStyle(self, concurrencyStyle: ConcurrencyStyle) -> None:
        """Set where the function runs; default in the calling thread."""
        self.concurrency = concurrencyStyle

    def setJobName(self, jobName: Optional[str]) -> None:
        """Set a name of the job, which has no effect."""
        self.jobName = jobName
