"""Functions and expressions over the blocks of rasters: leat.apply."""

from __future__ import annotations

import array
import contextlib
import importlib
import operator
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings as python_warnings
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from . import _binary, _identity, _job, _run
from ._progress import Progress
from ._result import Raster, Result
from .errors import BlockError, Error, JobError

Function = Callable[[Any], Any]


def apply(function: Union[Function, str, Mapping[str, str]], inputs: Mapping[str, Any],
          outputs: Union[Mapping[str, Any], _job.Path, None] = None, *,
          workers: Union[int, str, None] = None, on: Optional[str] = None,
          overlap: int = 0, reference: Optional[_job.Path] = None,
          resample: Union[str, Mapping[str, str], None] = None, params: Any = None,
          resume: bool = False, progress: Union[bool, Callable[[int, int], None]] = False,
          merge: Optional[Callable[[Any, Any], Any]] = None,
          profile: Optional[Mapping[str, Any]] = None, **options: Any) -> Result:
    """Run a function, or an expression, over every block of rasters, and write rasters.

    function is called with a leat.Block for each block: b.red is the array of the input red, of
    shape (bands, rows, columns); b.out = array sets the output out. Or it is an expression over
    the inputs in leat's language, or a dict of expressions by output, which need no Python worker.
    A class in place of a function has an instance for each worker. What its method close returns
    is in the result's worker_values.

    inputs are paths or URLs by name; a list of paths is a list of arrays. outputs are paths by
    name, or dicts with "path" and keys of a rasterio profile; a path alone is the output "out".
    profile holds such keys for all outputs.

    workers: 0 calls the function in this thread, "threads" in a thread for each core, N in that
    many processes. None is a process for each core if other processes can import the function
    from a module, else 0. on starts workers on a cluster: "slurm", "pbs", "awsbatch".

    params is the function's b.params. Values that the function emits are in the result, or merge
    combines them: merge(a, b). overlap is the width of a margin in pixels. resume continues an
    unfinished run of the same job. progress=True shows the progress of the run; a function is
    called with the number of finished blocks and the number of all blocks.

    All other options of the command leat apply are keyword arguments, with _ in place of -:
    bbox=(0, 0, 9, 9), type="uint8", nodata=dict(out=0), co=dict(COMPRESS="ZSTD"), plan=True. Values
    for single inputs and outputs are dicts.

    JobError says what is wrong with the job, before an output is touched. BlockError says in which
    block the function failed. In this process, its __cause__ is the exception.

    >>> import leat, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     scene = leat.demo(directory, size=64)
    ...     result = leat.apply("(nir - red) / (nir + red)", inputs=scene,
    ...                         outputs=dict(ndvi=directory + "/ndvi.tif"))
    >>> result.blocks, result.outputs["ndvi"]["bands"][0]["type"]
    (1, 'float32')
    """
    if os.environ.get(_LOADING):
        raise JobError("leat.apply was called while a worker loaded this program for its function: "
                       "put the call under \"if __name__ == '__main__':\"")
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
    size = _whole(size, "size")
    done = subprocess.run([_binary.binary(), "demo", f"--size={size}", "--", directory],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        text = _run.in_python(done.stderr.decode(errors="replace").split("\nhint: see leat")[0])
        raise Error(f"demo: {text.strip().removeprefix('leat: ')}")
    return {"red": os.path.join(directory, "B04.tif"), "nir": os.path.join(directory, "B08.tif")}


class _Apply:
    """What one call of apply asks for."""

    def __init__(self, function: Any, inputs: Any, outputs: Any, overlap: int, reference: Any,
                 resample: Any, params: Any, resume: bool, profile: Any,
                 options: Mapping[str, Any]) -> None:
        self.function, self.params, self.resume = function, params, _flag(resume, "resume")
        self.outputs = _job.Outputs({} if outputs is None else outputs, profile)
        self.fields = _job.option_fields(options)
        self.fields.update(_job.option_fields({"reference": reference, "resample": resample}))
        _job.merge_options(self.fields, self.outputs.options, self.outputs.own)
        self.fields["input"] = _job.inputs_field(inputs)
        self.fields["output"] = self.outputs.paths
        if self.resume:
            self.fields["resume"] = True
        if not self.fields["input"] and not self.fields.get("vector"):
            raise JobError('inputs: there is none, expected at least one, such as '
                           '{"red": "B4.tif"}')
        if isinstance(function, str) or isinstance(function, Mapping):
            self._add_expressions(overlap)
        elif callable(function):
            if overlap:
                self.fields["overlap"] = _whole(overlap, "overlap")
        else:
            raise TypeError(f"function: got {type(function).__name__}, expected a function, an "
                            "expression, or a dict of expressions by output")

    def _add_expressions(self, overlap: int) -> None:
        if overlap:
            raise JobError("overlap: an expression finds out by itself how many pixels around a "
                           "block it needs; leave it out")
        if self.params is not None:
            raise JobError("params: an expression has no parameters; write them into its text")
        if not self.outputs.paths:
            raise JobError('outputs: there is none, expected at least one, such as '
                           '{"out": "ndvi.tif"}')
        if isinstance(self.function, str) and len(self.outputs.paths) > 1:
            raise JobError("function: there are several outputs, expected a dict with an "
                           "expression for each: " + ", ".join(self.outputs.paths))
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
        if workers is not None and not isinstance(workers, str):
            workers = _whole(workers, "workers")
        if not callable(progress):
            _flag(progress, "progress", ", or a function of two numbers")
        if merge is not None and not callable(merge):
            raise TypeError(f"merge: got {type(merge).__name__}, expected a function of two values")
        if merge is not None and "expression" in self.fields:
            raise JobError("merge: an expression emits no values; leave it out")
        with contextlib.ExitStack() as stack:
            fields = dict(self.fields)
            extra: list[str] = []
            local: Optional[_Local] = None
            if on is not None:
                fields["on"] = on
            if "expression" in fields:
                if workers is not None and (isinstance(workers, str) or workers < 1):
                    raise JobError(f"workers {workers!r}: expected a number above 0 for an "
                                   "expression, or None")
                if workers is not None:
                    fields["workers" if on is not None else "jobs"] = workers
            else:
                local = self._add_function(stack, fields, extra, workers, on)
            descriptors = () if local is None else local.descriptors()
            if self.outputs.grids and not fields.get("plan"):
                self.outputs.check_grids(
                    self._start({**fields, "plan": True}, extra, descriptors, None))
            return self._start(fields, extra, descriptors, local, progress, merge, warned)

    def _add_function(self, stack: contextlib.ExitStack, fields: dict[str, Any], extra: list[str],
                      workers: Union[int, str, None], on: Optional[str]) -> Optional["_Local"]:
        function = self.function
        name = _identity.by_name(function)
        if workers is None:
            if on is not None:
                if not fields.get("single-block-jobs"):
                    raise JobError(f"workers: on={on!r} needs a number of workers")
            elif name is None or _identity.in_main(function):
                workers = 0
        if workers == 0 or workers == "threads":
            if on is not None:
                raise JobError(f"workers={workers!r}: that is in this process; on={on!r} needs "
                               "a number above 0")
            try:
                importlib.import_module("numpy")
            except ImportError as e:
                raise JobError(f"function: blocks need NumPy, which is missing: {e}") from e
            from ._load import check_function, closes
            try:
                check_function(function, _identity.describe(function))
            except TypeError as e:
                raise JobError(f"function: {e}") from None
            local = _Local(function, self.params, threads=workers == "threads")
            stack.callback(local.close)
            if closes(function):
                extra += ["--function-closes"]
            extra += ["--function-socket", str(local.descriptors()[0])]
            extra += ["--function-version", self._version()]
            return local
        if workers is not None:
            if isinstance(workers, str) or workers < 1:
                raise JobError(f"workers {workers!r}: expected 0, 'threads' or a number above 0")
            fields["workers" if on is not None else "jobs"] = workers
        if name is None:
            name = stack.enter_context(self._file(on)) + ":function"
        fields["python"] = name
        fields.setdefault("python-executable", sys.executable)
        if self.params is not None:
            fields["python-params"] = _json_text(self.params)
        return None

    def _version(self) -> str:
        try:
            return _identity.digest(self.function, self.params)
        except JobError:
            if self.resume:
                raise
            return "unknown " + os.urandom(16).hex()  # equals no later one

    @contextlib.contextmanager
    def _file(self, on: Optional[str]) -> Iterator[str]:
        """Write a function that can't be imported to a file that workers can read."""
        text = _identity.source_by_value(self.function)
        directory = None
        if on is not None and on != "subprocess":
            paths = [p for p in self.outputs.paths.values() if "://" not in p]
            if not paths:
                raise JobError("function: workers on other machines can't read it: expected a "
                               "function of a module, or an output in a directory that they share")
            directory = os.path.dirname(os.path.abspath(paths[0]))
        # The file has the same name each time, so that a later run can resume.
        made = tempfile.mkdtemp(prefix=".leat-function-", dir=directory)
        try:
            path = os.path.join(made, "sent.py")
            pathlib.Path(path).write_text(text)
            yield path
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _start(self, fields: dict[str, Any], extra: Any, descriptors: Any,
               local: Optional["_Local"], progress: Any = False, merge: Any = None,
               warned: Optional[list[str]] = None) -> Any:
        return _Events(progress, merge, warned if warned is not None else []).run(
            fields, extra, descriptors, local)


def _whole(value: Any, what: str) -> int:
    """Return a whole number of any type."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what}: got {value!r}, expected a whole number") from None


def _flag(value: Any, what: str, more: str = "") -> bool:
    """Return a flag, which must be a bool of Python or NumPy."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise TypeError(f"{what}: got {value!r}, expected True or False{more}")
    return bool(value)


def _json_text(params: Any) -> str:
    import json
    try:
        return json.dumps(params, allow_nan=False)
    except (TypeError, ValueError) as e:
        raise JobError(f"params: workers in other processes get them as JSON: {e}; workers=0 and "
                       "workers='threads' take any value") from e


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
        self.worker_values: list[Any] = []

    def run(self, fields: dict[str, Any], extra: Any, descriptors: Any,
            local: Optional["_Local"]) -> Any:
        if "python" in fields:
            extra = [*extra, *("--python-path=" + p for p in _identity.search_path())]
        run = _run.Run(fields, extra, descriptors)
        try:
            if local is not None:
                local.serve(run)
            run.work(self.handle)
            if local is not None and local.shared is not None and self.done is not None:
                value = local.shared.close()
                if value is not None:
                    self.worker_values.append(value)
        finally:
            try:
                if local is not None:
                    local.shut_down()
            finally:
                run.stop()
                self.progress.close()
        if run.error is not None:
            raise_failure(run.error, local)
        if self.plan is not None:
            return self.plan
        if self.done is None:
            raise JobError("leat apply ended without a result")
        return Result(self.started, self.done, self.values, self.merged, self.worker_values,
                      list(self.warned))

    def handle(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "progress":
            self.progress.update(event["done_blocks"], event["blocks"], event["remaining_seconds"])
        elif kind == "warning":
            self.warned.append(_text(event["text"], event.get("hint")))
        elif kind == "emitted":
            self.emitted(event["value"])
        elif kind == "worker_value":
            self.worker_values.append(event["value"])
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


class _RemoteTraceback(Exception):
    """The traceback of a function in another process."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


def raise_failure(event: dict[str, Any], local: Optional["_Local"]) -> None:
    """Raise the error that the last event of a run describes."""
    error = _run.failure(event)
    cause: Optional[BaseException] = None
    if isinstance(error, BlockError):
        if local is not None:
            cause = local.failures.get(error.block, local.failures.get(None))
        if cause is None and error.traceback:
            cause = _RemoteTraceback(error.traceback)
    raise error from cause


def _text(text: str, hint: Optional[str]) -> str:
    return _run.in_python(f"{text}\nhint: {hint}" if hint else text)


class _Local:
    """Serves the function in this process: in the calling thread, or in a thread for each
    connection."""

    def __init__(self, function: Function, params: Any, threads: bool) -> None:
        from ._served import Shared
        self.function, self.params = function, params
        self.shared = None if threads else Shared()
        self.threads: Optional[list[threading.Thread]] = [] if threads else None
        self.control, self.theirs = socket.socketpair()
        self.connections: list[socket.socket] = []
        self.servers: list[Any] = []
        self.failures: dict[Optional[int], BaseException] = {}
        self.ended = False

    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors that the run gets."""
        return (self.theirs.fileno(),)

    def serve(self, run: _run.Run) -> None:
        """Serve the connections that a run makes while it works."""
        self.theirs.close()
        self.run = run
        run.watch(self.control, self.accept)

    def accept(self) -> None:
        """Accept a connection."""
        data, ancillary, _, _ = self.control.recvmsg(1, socket.CMSG_SPACE(4), 0)
        if not data:
            self.run.unwatch(self.control)
            return
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fd = array.array("i", content[:4])[0]
                os.set_inheritable(fd, False)
                self.connect(socket.socket(fileno=fd))

    def connect(self, connection: socket.socket) -> None:
        """Serve a connection."""
        from ._served import Served
        server = Served(connection, self.function, self.params, self.shared, self.failures)
        self.connections.append(connection)
        self.servers.append(server)
        if self.threads is not None:
            thread = threading.Thread(target=server.serve, name="leat.apply", daemon=True)
            self.threads.append(thread)
            thread.start()
            return

        # After a block sent ahead, leat takes the answer when it has written the events of the
        # block before, which this thread reads.
        server.connection.await_space = lambda: self.run.await_space(connection)

        def ready() -> None:
            if not server.step():
                self.run.unwatch(connection)
                server.end()

        self.run.watch(connection, ready)

    def shut_down(self) -> None:
        """End all connections; functions that run in threads are not interrupted."""
        for connection in [self.control, *self.connections]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _THREAD_SECONDS
        for thread in self.threads or ():
            thread.join(max(0, deadline - time.monotonic()))

    def close(self) -> None:
        """Close the sockets, and the memory of blocks; threads close theirs when they end."""
        for connection in [self.control, self.theirs, *self.connections]:
            connection.close()
        if self.threads is None:
            for server in self.servers:
                server.end()


_LOADING = "LEAT_LOADING_FUNCTION"
"""The variable that a worker sets while it loads a function."""

_THREAD_SECONDS = 2.0
"""How long the end of a run waits for functions in threads."""
