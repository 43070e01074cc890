"""Names of files, blocks, concurrency and timings, under RIOS's names."""

from __future__ import annotations

import contextlib
import importlib
import os
import statistics
import threading
import time
from typing import Any, Iterator, NamedTuple, Optional, Union

__all__ = [
    "ApplierBlockDefn", "ApplierReturn", "BlockAssociations", "CW_AWSBATCH", "CW_ECS", "CW_NONE",
    "CW_PBS", "CW_SLURM", "CW_SUBPROC", "CW_THREADS", "ConcurrencyStyle", "FilenameAssociations",
    "OtherInputs", "Timers",
]

cloudpickle: Any
"""The module that sends functions to other processes, or None: pickle sends those with names."""
try:
    cloudpickle = importlib.import_module("cloudpickle")
except ImportError:
    cloudpickle = None

CW_NONE = "CW_NONE"
CW_THREADS = "CW_THREADS"
CW_ECS = "CW_ECS"
CW_PBS = "CW_PBS"
CW_SLURM = "CW_SLURM"
CW_AWSBATCH = "CW_AWSBATCH"
CW_SUBPROC = "CW_SUBPROC"

_KINDS = (CW_NONE, CW_THREADS, CW_ECS, CW_PBS, CW_SLURM, CW_AWSBATCH, CW_SUBPROC)

Key = Union[str, tuple[str, Optional[int]]]


class ConcurrencyStyle:
    """ConcurrencyStyle says where the function runs.

    >>> from leat.rios import applier
    >>> controls = applier.ApplierControls()
    >>> controls.setConcurrencyStyle(applier.ConcurrencyStyle(
    ...     numReadWorkers=1, numComputeWorkers=1, computeWorkerKind=applier.CW_THREADS))

    computeWorkerKind is CW_NONE (the calling thread), CW_THREADS, CW_SUBPROC (processes of this
    machine), CW_SLURM or CW_PBS. numComputeWorkers is the number of threads, processes or jobs.
    numReadWorkers is the number of leat's readers; 0 is leat's default. On a cluster,
    singleBlockComputeWorkers is leat's single_block_jobs, which ignores numComputeWorkers, and
    computeBarrierTimeout is how long, in seconds, jobs may wait for each other. apply refuses
    computeWorkerExtraParams of processes and jobs. The other arguments have no effect.
    """

    def __init__(self, numReadWorkers: int = 0, numComputeWorkers: int = 0,
                 computeWorkerKind: str = CW_NONE,
                 computeWorkerExtraParams: Optional[dict[str, Any]] = None,
                 computeWorkersRead: Optional[bool] = None, singleBlockComputeWorkers: bool = False,
                 haveSharedTemp: bool = True, readBufferInsertTimeout: Optional[float] = 10,
                 readBufferPopTimeout: Optional[float] = 10,
                 computeBufferInsertTimeout: Optional[float] = 10,
                 computeBufferPopTimeout: Optional[float] = 20,
                 computeBarrierTimeout: Optional[float] = 600) -> None:
        if computeWorkerKind not in _KINDS:
            raise ValueError(f"computeWorkerKind {computeWorkerKind!r}: expected one of "
                             f"{', '.join(_KINDS)}")
        for name, number in (("numReadWorkers", numReadWorkers),
                             ("numComputeWorkers", numComputeWorkers)):
            if not isinstance(number, int) or number < 0:
                raise ValueError(f"{name} {number!r}: expected a number from 0")
        if computeWorkerKind == CW_NONE and numComputeWorkers > 0:
            raise ValueError(f"numComputeWorkers {numComputeWorkers}: expected 0, or a "
                             "computeWorkerKind other than CW_NONE")
        if (computeWorkerKind != CW_NONE and numComputeWorkers == 0
                and not singleBlockComputeWorkers):
            raise ValueError(f"numComputeWorkers 0: expected at least 1 for {computeWorkerKind}")
        if computeWorkerKind == CW_THREADS and computeWorkersRead:
            raise ValueError("computeWorkersRead: expected False or None for CW_THREADS")
        self.computeWorkerKind = computeWorkerKind
        self.numComputeWorkers = numComputeWorkers
        self.singleBlockComputeWorkers = singleBlockComputeWorkers
        self.computeWorkerExtraParams = computeWorkerExtraParams
        self.computeWorkersRead = computeWorkersRead
        self.numReadWorkers = numReadWorkers
        self.haveSharedTemp = haveSharedTemp
        self.computeBarrierTimeout = computeBarrierTimeout
        self.computeBufferPopTimeout = computeBufferPopTimeout
        self.computeBufferInsertTimeout = computeBufferInsertTimeout
        self.readBufferPopTimeout = readBufferPopTimeout
        self.readBufferInsertTimeout = readBufferInsertTimeout

    def __repr__(self) -> str:
        return f"ConcurrencyStyle({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class FilenameAssociations:
    """FilenameAssociations holds names of files: each attribute is a path or a list of paths.

    >>> from leat.rios.structures import FilenameAssociations
    >>> infiles = FilenameAssociations()
    >>> infiles.dem, infiles.scenes = "dem.tif", ["may.tif", "june.tif"]
    >>> list(infiles)
    [('dem', None, 'dem.tif'), ('scenes', 0, 'may.tif'), ('scenes', 1, 'june.tif')]
    >>> infiles["scenes", 1], infiles["dem"], len(infiles)
    ('june.tif', 'dem.tif', 3)

    The function gets a block, or a list of blocks, under the same name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there are no files under the name {name!r}")

    def __getitem__(self, key: Key) -> Any:
        name, number = key if isinstance(key, tuple) else (key, None)
        files = vars(self)
        if name not in files:
            raise KeyError(key)
        if number is None:
            return files[name]
        if not isinstance(files[name], (list, tuple)) or not 0 <= number < len(files[name]):
            raise KeyError(key)
        return files[name][number]

    def __contains__(self, key: Key) -> bool:
        try:
            self[key]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[tuple[str, Optional[int], Any]]:
        for name, value in vars(self).items():
            if isinstance(value, (list, tuple)):
                for number, file in enumerate(value):
                    yield name, number, file
            else:
                yield name, None, value

    def __len__(self) -> int:
        return sum(1 for _ in self)


class BlockAssociations:
    """BlockAssociations holds the arrays of a block, or lists of arrays, as attributes.

    An array has the shape (bands, rows, columns). Constructed from FilenameAssociations, it has the
    same names and lists, with None for each array, and can be indexed by (name, None) for a single
    array and (name, number) for one of a list.
    """

    def __init__(self, fnameAssoc: Optional[FilenameAssociations] = None) -> None:
        if fnameAssoc is not None:
            for name, value in vars(fnameAssoc).items():
                setattr(self, name,
                        [None] * len(value) if isinstance(value, (list, tuple)) else None)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no block under the name {name!r}")

    def __setitem__(self, key: Key, value: Any) -> None:
        name, number = key if isinstance(key, tuple) else (key, None)
        self[key]  # KeyError if there is none
        if number is None:
            setattr(self, name, value)
        else:
            vars(self)[name][number] = value

    def __getitem__(self, key: Key) -> Any:
        name, number = key if isinstance(key, tuple) else (key, None)
        blocks = vars(self)
        if name not in blocks:
            raise KeyError(key)
        if number is None:
            return blocks[name]
        if not isinstance(blocks[name], list) or not 0 <= number < len(blocks[name]):
            raise KeyError(key)
        return blocks[name][number]

    def __len__(self) -> int:
        return sum(len(v) if isinstance(v, list) else 1 for v in vars(self).values())


class OtherInputs:
    """OtherInputs takes any attributes, for the function to use and to change.

    >>> from leat.rios.structures import OtherInputs
    >>> otherargs = OtherInputs()
    >>> otherargs.total = 0.0

    With compute workers, each gets a copy, and ApplierReturn.otherArgsList lists the copies.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no argument {name!r}")


class ApplierBlockDefn(NamedTuple):
    """Place of a block in the working grid, in pixels: offsets of row and column, rows, columns."""

    top: int
    left: int
    nrows: int
    ncols: int


class Timers:
    """Timers measures named intervals. Several threads may use it, and it can be pickled.

    >>> from leat.rios.structures import Timers
    >>> timers = Timers()
    >>> with timers.interval("loading"):
    ...     pass
    >>> len(timers.getDurationsForName("loading"))
    1
    """

    def __init__(self) -> None:
        self.pairs: dict[str, list[tuple[float, float]]] = {}
        self.lock = threading.Lock()
        self._totals: dict[str, dict[str, float]] = {}

    @contextlib.contextmanager
    def interval(self, intervalName: str) -> Iterator[None]:
        """Return a context manager that measures the block under it."""
        start = time.time()
        try:
            yield
        finally:
            self._add(intervalName, start, time.time())

    def _add(self, name: str, start: float, end: float) -> None:
        with self.lock:
            self.pairs.setdefault(name, []).append((start, end))

    def _addSummary(self, name: str, summary: dict[str, float]) -> None:
        """Add times that leat measured, of which only the summary is known."""
        self._totals[name] = summary

    def getDurationsForName(self, intervalName: str) -> Optional[list[float]]:
        """Return the durations of a name in seconds, or None if there are none.

        Of leat's own stages (reading, writing, pyramids), only summaries are known.
        """
        pairs = self.pairs.get(intervalName)
        return None if pairs is None else [end - start for start, end in pairs]

    def merge(self, other: Timers) -> None:
        """Add the intervals of another Timers to this one."""
        with self.lock:
            for name, pairs in other.pairs.items():
                self.pairs.setdefault(name, []).extend(pairs)

    def makeSummaryDict(self) -> dict[str, dict[str, float]]:
        """Return a dict by name of dicts with tot, min, lower, median, upper, max and N.

        All are seconds but N, the number of intervals; lower and upper are quartiles.
        """
        summary = dict(self._totals)
        for name in self.pairs:
            d = sorted(self.getDurationsForName(name) or [])
            quartiles = (statistics.quantiles(d, n=4, method="inclusive") if len(d) > 1
                         else [d[0]] * 3)
            summary[name] = {"tot": sum(d), "min": d[0], "max": d[-1], "lower": quartiles[0],
                             "median": quartiles[1], "upper": quartiles[2], "N": len(d)}
        return summary

    def formatReport(self, level: int = 0) -> str:
        """Return a table of the times; level=1 adds the distribution of each."""
        summary = self.makeSummaryDict()
        columns = ["tot"] if level == 0 else ["tot", "N", "min", "lower", "median", "upper", "max"]
        lines = [f"{'seconds':<24}" + "".join(f"{name:>10}" for name in columns)]
        for name, one in summary.items():
            texts = [f"{one[c]:.0f}" if c == "N" else f"{one[c]:.3f}" for c in columns]
            lines.append(f"{name:<24}" + "".join(f"{text:>10}" for text in texts))
        return "\n".join(lines)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = threading.Lock()


class SinglePassManager:
    """SinglePassManager says what was made while blocks were computed: all that was not omitted."""

    def __init__(self, pyramids: dict[str, bool], statistics: dict[str, bool],
                 histograms: dict[str, bool]) -> None:
        self._statistics, self._histograms, self._pyramids = statistics, histograms, pyramids
        self.directPyramidsSupported = dict.fromkeys(pyramids, True)

    def doSinglePassPyramids(self, symbolicName: str) -> bool:
        """Return whether an output has overviews."""
        return self._pyramids[symbolicName]

    def doSinglePassStatistics(self, symbolicName: str) -> bool:
        """Return whether an output has statistics."""
        return self._statistics[symbolicName]

    def doSinglePassHistogram(self, symbolicName: str) -> bool:
        """Return whether an output has a histogram."""
        return self._histograms[symbolicName]


class ApplierReturn:
    """ApplierReturn is what apply returns."""

    timings: Timers
    """Times of the stages of the run."""
    otherArgsList: list[Any]
    """The otherArgs that apply got or, with compute workers, the copy of each worker."""
    workinggrid: Any
    """Grid of the blocks and outputs, a PixelGridDefn."""
    singlePassMgr: SinglePassManager
    """What was made while the blocks were computed."""
    singlepassMgr: SinglePassManager
    """The same."""
    result: Any
    """What leat.apply returned: leat.Result. RIOS does not have it."""

    def __init__(self) -> None:
        self.timings = Timers()
        self.otherArgsList = []
        self.workinggrid = None
        self.singlepassMgr = self.singlePassMgr = SinglePassManager({}, {}, {})
        self.result = None


def file_text(value: Any, what: str) -> str:
    """Return the text of a path."""
    try:
        text = os.fspath(value)
    except TypeError:
        raise TypeError(f"{what}: got {type(value).__name__}, expected a path or a list of "
                        "paths") from None
    return os.fsdecode(text)
