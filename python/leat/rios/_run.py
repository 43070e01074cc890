"""Runs a job of leat.rios: where the function is called, and what the run returns."""

from __future__ import annotations

from typing import Any, Callable, Optional

import leat

from ._compute import Caller, Collector, compute_remote, send
from ._controls import ApplierControls
from ._finish import finish
from ._job import Job
from .rioserrors import (ParameterError, ProcessCancelledError, UnavailableError,
                         WorkerExceptionError, WrongControlsObject)
from .structures import (CW_NONE, CW_PBS, CW_SLURM, CW_SUBPROC, CW_THREADS, ApplierReturn,
                         FilenameAssociations, SinglePassManager)

_STAGES = {"read": "reading", "encode": "encoding", "write": "writing", "overviews": "pyramids",
           "publish": "closing"}
"""Names of leat's stages in the timings."""

_CLUSTERS = {CW_SLURM: "slurm", CW_PBS: "pbs"}


def run(function: Callable[..., Any], infiles: FilenameAssociations,
        outfiles: FilenameAssociations, other: Any, controls: ApplierControls) -> ApplierReturn:
    """Run the function over all blocks."""
    if not isinstance(controls, ApplierControls):
        raise WrongControlsObject(f"controls: got {type(controls).__name__}, expected "
                                  "ApplierControls")
    job = Job(infiles, outfiles, controls)
    options = dict(job.options)
    overlap = options.pop("overlap")
    done = ApplierReturn()
    done.workinggrid = job.grid
    names = {name for name, _, _ in job.targets}
    made = {option: {name: not controls.getOptionForImagename(option, name) for name in names}
            for option in ("omitPyramids", "omitBasicStats", "omitHistogram")}
    done.singlePassMgr = done.singlepassMgr = SinglePassManager(*made.values())
    progress = _Progress(controls.progress) if controls.progress is not None else None
    with job.temporary:
        options["grid"] = job.grid_text()
        where = _Where(job, function, other, controls, done)
        try:
            result = leat.apply(where.function, job.inputs, job.paths, overlap=overlap,
                                progress=progress or False, **where.options, **options)
        except leat.BlockError as e:
            where.fail(e)
            raise
        finally:
            if progress is not None:
                progress.close()
    done.result = result
    where.finish(result)
    for name, one in result.timings.items():
        if name in _STAGES:
            done.timings._addSummary(_STAGES[name], {
                "tot": one["total_seconds"], "median": one["median_seconds"], "N": one["count"],
                "min": one.get("min_seconds", 0), "lower": one.get("lower_quartile_seconds", 0),
                "upper": one.get("upper_quartile_seconds", 0),
                "max": one.get("max_seconds", 0)})
    for name, number, path in job.targets:
        finish(path, job.centres[name], not controls.getOptionForImagename("omitHistogram", name),
               bool(controls.getOptionForImagename("thematic", name)),
               controls.getOptionForImagename("callBeforeClose", name))
    return done


class _Where:
    """The function and options with which leat.apply calls that of the user."""

    def __init__(self, job: Job, function: Callable[..., Any], other: Any,
                 controls: ApplierControls, done: ApplierReturn) -> None:
        self.other, self.done = other, done
        self.collector: Optional[Collector] = None
        self.caller: Optional[Caller] = None
        self.options: dict[str, Any] = {}
        style = controls.concurrency
        self.kind = style.computeWorkerKind
        if style.numReadWorkers > 0:
            self.options["readers"] = style.numReadWorkers
        if self.kind in (CW_NONE, CW_THREADS):
            threads = self.kind == CW_THREADS
            self.caller = Caller(job.layout, function, other, controls.loggingstream,
                                 copies=threads)
            self.function: Any = self.caller
            self.options["workers"] = "threads" if threads else 0
            self.options["jobs"] = style.numComputeWorkers if threads else 1
            return
        if self.kind not in (CW_SUBPROC, *_CLUSTERS):
            raise UnavailableError(f"computeWorkerKind {self.kind}: leat.rios has CW_THREADS, "
                                   "CW_SUBPROC, CW_SLURM and CW_PBS; leat.apply runs functions on "
                                   "AWS Batch")
        if style.computeWorkerExtraParams:
            raise ParameterError(f"computeWorkerExtraParams: {self.kind} takes none in leat.rios; "
                                 "variables such as LEAT_BATCH_OPTIONS set options of jobs")
        self.function = compute_remote
        self.options.update(workers=style.numComputeWorkers, params=send(job.layout, function,
                                                                         other))
        self.collector = Collector(done.timings)
        self.options["merge"] = self.collector
        if self.kind in _CLUSTERS:
            self.options["on"] = _CLUSTERS[self.kind]
            # A copy of a block would change the other arguments twice.
            self.options["no_copies"] = True
            if style.singleBlockComputeWorkers:
                self.options["single_block_jobs"] = True
                del self.options["workers"]  # a job for each block, as in RIOS
            elif style.computeBarrierTimeout is not None:
                self.options["barrier"] = f"{style.computeBarrierTimeout:g}s"

    def fail(self, error: leat.BlockError) -> None:
        """Raise what RIOS raises for an error in a block."""
        cause = error.__cause__
        if cause is None:
            return
        if self.kind == CW_NONE:
            raise cause
        raise WorkerExceptionError(str(error)) from cause

    def finish(self, result: Any) -> None:
        """Set what the workers return."""
        if self.caller is not None:
            self.done.timings.merge(self.caller.timings)
            self.done.otherArgsList = self.caller.others if self.caller.copies else [self.other]
            if self.other is None and self.caller.copies:
                self.done.otherArgsList = []
        elif self.collector is not None:
            if result.merged is not None and result.merged is not self.collector:
                self.collector.add(result.merged)  # of a single block
            self.done.otherArgsList = ([] if self.other is None
                                       else self.collector.others(self.other))


class _Progress:
    """Passes the progress of a run to a progress object of RIOS."""

    def __init__(self, progress: Any) -> None:
        self.progress, self.percent = progress, -1
        progress.setTotalSteps(100)
        self.show(0)

    def __call__(self, done: int, total: int) -> None:
        self.show(100 * done // max(1, total))
        if getattr(self.progress, "wasCancelled", bool)():
            raise ProcessCancelledError("the run was cancelled")

    def show(self, percent: int) -> None:
        if percent != self.percent:
            self.percent = percent
            self.progress.setProgress(percent)

    def close(self) -> None:
        self.progress.reset()
