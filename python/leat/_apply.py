"""Functions and expressions over the blocks of rasters: leat.apply."""

from __future__ import annotations

import os
import subprocess
import warnings as python_warnings
from typing import Any, Callable, Mapping, Optional, Union

from . import _binary, _job, _run
from ._progress import Progress
from ._result import Raster, Result
from .errors import Error, JobError


def apply(function: Union[str, Mapping[str, str]], inputs: Mapping[str, Any],
          outputs: Union[Mapping[str, Any], _job.Path, None] = None, *,
          workers: Union[int, str, None] = None, on: Optional[str] = None,
          overlap: int = 0, reference: Optional[_job.Path] = None,
          resample: Union[str, Mapping[str, str], None] = None, params: Any = None,
          resume: bool = False, progress: Union[bool, Callable[[int, int], None]] = False,
          merge: Optional[Callable[[Any, Any], Any]] = None,
          profile: Optional[Mapping[str, Any]] = None, **options: Any) -> Result:
    """Run an expression over every block of rasters, and write rasters.

    function is an expression over the inputs in leat's language, or a dict of expressions by
    output.

    inputs are paths or URLs by name; a list of paths is a list of arrays. outputs are paths by
    name, or dicts with "path" and keys of a rasterio profile; a path alone is the output "out".
    profile has the keys for all outputs.

    workers is the number of threads that compute, or with on that of workers on a cluster: "slurm",
    "pbs", "awsbatch". resume goes on from what an earlier run of the same job left. progress shows
    how far the run is, or is called with the numbers of done and of all blocks.

    All other options of the command leat apply are keyword arguments, with _ for -: bbox=(0, 0, 9,
    9), type="uint8", nodata=dict(out=0), co=dict(COMPRESS="ZSTD"), plan=True. Values for single
    inputs and outputs are dicts.

    JobError says what is wrong with the job, before an output is touched. BlockError says in which
    block the run failed.

    >>> import leat, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     scene = leat.demo(directory, size=64)
    ...     result = leat.apply("(nir - red) / (nir + red)", inputs=scene,
    ...                         outputs=dict(ndvi=directory + "/ndvi.tif"))
    >>> result.blocks, result.outputs["ndvi"]["bands"][0]["type"]
    (1, 'float32')
    """
    job = _Apply(function, inputs, outputs, overlap, reference, resample, params, resume, profile,
                 options)
    warned: list[str] = []
    try:
        result: Result = job.run(workers, on, progress, merge, warned)
        return result
    finally:
        for text in warned:
            python_warnings.warn(text, stacklevel=2)


def open(path: _job.Path, stats: bool = False) -> Raster:
    """Return a description of a raster, from its header alone.

    stats computes the statistics of the bands from all pixels.

    >>> import leat, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     red = leat.open(leat.demo(directory, size=64)["red"])
    >>> red
    <Raster ...B04.tif: 64 x 64 pixels, 1 band of uint16, EPSG:32631>
    """
    return Raster(_run.info(_job.path_text(path, "path"), *(["--stats"] if stats else [])))


def demo(directory: _job.Path, size: int = 1024) -> dict[str, str]:
    """Make a scene to try things out, and return the paths of its bands, red and nir.

    size is the number of rows and of columns. The pixels are the same on each machine. The
    directory also gets the classes of the pixels (SCL.tif), and the NDVI with a report.

    >>> import leat, os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sorted(os.path.basename(path) for path in leat.demo(directory, size=64).values())
    ['B04.tif', 'B08.tif']
    """
    directory = _job.path_text(directory, "directory")
    done = subprocess.run([_binary.binary(), "demo", f"--size={int(size)}", "--", directory],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        raise Error(f"demo {directory}: {done.stderr.decode(errors='replace').strip()}")
    return {"red": os.path.join(directory, "B04.tif"), "nir": os.path.join(directory, "B08.tif")}


class _Apply:
    """What one call of apply asks for."""

    def __init__(self, function: Any, inputs: Any, outputs: Any, overlap: int, reference: Any,
                 resample: Any, params: Any, resume: bool, profile: Any,
                 options: Mapping[str, Any]) -> None:
        self.function, self.params, self.resume = function, params, bool(resume)
        self.outputs = _job.Outputs({} if outputs is None else outputs, profile)
        self.fields = _job.option_fields(options)
        self.fields.update(_job.option_fields({"reference": reference, "resample": resample}))
        _job.merge_options(self.fields, self.outputs.options)
        self.fields["input"] = _job.inputs_field(inputs)
        self.fields["output"] = self.outputs.paths
        if self.resume:
            self.fields["resume"] = True
        if isinstance(function, str) or isinstance(function, Mapping):
            self._add_expressions(overlap)
        else:
            raise TypeError(f"function: got {type(function).__name__}, want an expression, or a "
                            "dict of expressions by output")

    def _add_expressions(self, overlap: int) -> None:
        if overlap:
            raise JobError("overlap: an expression finds out by itself how many pixels around a "
                           "block it needs; leave it out")
        if self.params is not None:
            raise JobError("params: an expression has no parameters; write them into its text")
        if isinstance(self.function, str):
            self.fields["expression"] = [self.function]
            if len(self.outputs.paths) == 1:
                self.fields["expression"] = {next(iter(self.outputs.paths)): self.function}
        else:
            self.fields["expression"] = {str(k): str(v) for k, v in self.function.items()}

    def run(self, workers: Union[int, str, None], on: Optional[str],
            progress: Union[bool, Callable[[int, int], None]],
            merge: Optional[Callable[[Any, Any], Any]], warned: list[str]) -> Any:
        """Run the job and return the result, or with plan=True the plan."""
        if self.outputs.grids and not self.fields.get("plan"):
            self.outputs.check_grids(self._start({**self.fields, "plan": True}))
        fields = dict(self.fields)
        if on is not None:
            fields["on"] = on
        if "expression" in fields:
            if workers is not None and (isinstance(workers, str) or workers < 1):
                raise JobError(f"workers {workers!r}: want a number above 0 for an expression, "
                               "or None")
            if workers is not None:
                fields["workers" if on is not None else "jobs"] = workers
        return self._start(fields, progress, merge, warned)

    def _start(self, fields: dict[str, Any], progress: Any = False, merge: Any = None,
               warned: Optional[list[str]] = None) -> Any:
        return _Events(progress, merge, warned if warned is not None else []).run(fields)


class _Events:
    """Follows the events of a run."""

    def __init__(self, progress: Any, merge: Any, warned: list[str]) -> None:
        self.progress, self.merge, self.warned = Progress(progress), merge, warned
        self.started: dict[str, Any] = {}
        self.done: Optional[dict[str, Any]] = None
        self.plan: Optional[dict[str, Any]] = None
        self.values: list[Any] = []
        self.merged: Any = None
        self.merges = 0

    def run(self, fields: dict[str, Any]) -> Any:
        run = _run.Run(fields)
        try:
            run.work(self.handle)
        finally:
            run.stop()
            self.progress.close()
        if run.error is not None:
            raise _run.failure(run.error)
        if self.plan is not None:
            return self.plan
        if self.done is None:
            raise JobError("leat apply ended without a result")
        return Result(self.started, self.done, self.values, self.merged, list(self.warned))

    def handle(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "progress":
            self.progress.update(event["done_blocks"], event["blocks"], event["remaining_seconds"])
        elif kind == "warning":
            self.warned.append(_text(event["text"], event.get("hint")))
        elif kind == "emitted":
            self.emitted(event["value"])
        elif kind == "started":
            self.started = event
        elif kind == "plan":
            self.plan = event
        elif kind == "done":
            self.done = event
            self.warned += event["warnings"]
            for output in event["outputs"]:
                self.warned += [f"{output['path']}: {text}" for text in output["warnings"]]

    def emitted(self, value: Any) -> None:
        if self.merge is None:
            self.values.append(value)
            return
        self.merged = value if self.merges == 0 else self.merge(self.merged, value)
        self.merges += 1


def _text(text: str, hint: Optional[str]) -> str:
    return _run.in_python(f"{text}\nhint: {hint}" if hint else text)

