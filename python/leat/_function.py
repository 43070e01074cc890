# mypy: ignore-errors
"""Serves blocks to leat over a connection: docs/format/function.md of leat's repository."""

import array
import base64
import hashlib
import importlib.machinery
import importlib.util
import json
import linecache
import math
import mmap
import os
import socket
import struct
import sys
import traceback
import types

PROTOCOL = 1
MAX_MESSAGE = 64 << 20
ALIGN = 64
LOADING = "LEAT_LOADING_FUNCTION"  # set while a function is loaded: leat.apply refuses to run then
SEARCH_PATH = "LEAT_FUNCTION_PATH"  # where the program that called leat.apply finds modules


class Failure(Exception):
    """An error that goes to leat as it is."""

    def __init__(self, kind, message, trace=None):
        super().__init__(message)
        self.kind, self.trace = kind, trace


class Connection:
    """Messages over a Unix stream socket."""

    def __init__(self, sock):
        self.sock = sock

    def receive(self):
        """Return the next message and a descriptor or None; (None, None) at the end of the
        connection.
        """
        try:
            data, ancillary, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4),
                                                      getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except ConnectionResetError:
            return None, None
        descriptor = None
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptor = array.array("i", content[:4])[0]
        if not data:
            return None, None
        while len(data) < 4:
            data += self._more(4 - len(data))
        size, = struct.unpack_from("<I", data)
        if not 2 <= size <= MAX_MESSAGE:
            raise Failure("Protocol", "a message of %d bytes" % size)
        if len(data) < 4 + size:
            parts, missing = [data], 4 + size - len(data)
            while missing:
                parts.append(self._more(missing))
                missing -= len(parts[-1])
            data = b"".join(parts)
        return json.loads(data[4:]), descriptor

    def _more(self, size):
        data = self.sock.recv(min(size, 1 << 20))
        if not data:
            raise EOFError("the connection ended within a message")
        return data

    def send(self, message):
        text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(text) > MAX_MESSAGE:
            raise Failure("ValueError",
                "the values that the function emitted have %d bytes, at most %d are allowed" % (
                len(text), MAX_MESSAGE))
        self.sock.sendall(struct.pack("<I", len(text)) + text)


class OutputMemory:
    """The file in memory that the output arrays of a block are in."""

    def __init__(self, descriptor, limit):
        self.descriptor, self.limit = descriptor, limit
        self.size = self.used = 0
        self.map = None
        self.places = {}

    def start(self):
        """Forget the arrays of the last block."""
        self.used = 0
        self.places.clear()

    def allocate(self, dtype, shape):
        import numpy
        size = dtype.itemsize * math.prod(shape)
        begin, end = self.used, self.used + size
        if end > self.limit:
            raise MemoryError(
                "the outputs of a block take %d MiB, and the run has memory for %d MiB" % (
                end >> 20, self.limit >> 20))
        if end > self.size:
            size = min(max(end, 2 * self.size), self.limit)
            os.ftruncate(self.descriptor, size)
            self.map, self.size = mmap.mmap(self.descriptor,
                                            size), size  # arrays keep the old mapping
        self.used = (end + ALIGN - 1) // ALIGN * ALIGN
        a = numpy.ndarray(shape, dtype, self.map, begin)
        self.places[id(a)] = begin, a
        return a

    def close(self):
        self.map = None
        self.places.clear()
        os.close(self.descriptor)


class File:
    """A file of an input."""

    def __init__(self, d):
        import numpy
        self.path, self.bands = d["path"], d["bands"]
        self.dtype = numpy.dtype(d["type"])
        part = {"complex64": "float32", "complex128": "float64"}.get(d["type"], d["type"])
        parse = int if self.dtype.kind in "iu" else float
        scalar = numpy.dtype(part).type
        self.nodata = [None if text is None else scalar(parse(text)) for text in d["nodata"]]
        self.mask_planes, self.mask = d.get("mask_planes", 0), d.get("mask")
        # What the function sees: real values if the job asks for them, else the pixels as they are.
        self.scaling, self.seen_dtype, self.seen_nodata = None, self.dtype, self.nodata
        if d.get("unscale"):
            self.scaling = [(float(s), float(o)) for s, o in zip(d["scale"], d["offset"])]
            if self.dtype.kind != "c":
                narrow = self.dtype.itemsize <= 2 or self.dtype == numpy.float32
                self.seen_dtype = numpy.dtype("f4" if narrow else "f8")
            nan = self.seen_dtype.type("nan").real
            self.seen_nodata = [None if v is None else nan for v in self.nodata]

    def unscale(self, pixels, valid):
        """Return pixels * scale + offset, NaN where a pixel is not valid.

        It is computed in float64 and rounded once, as expressions do.
        """
        import numpy
        out = numpy.empty(pixels.shape, self.seen_dtype)
        wide = numpy.complex128 if self.dtype.kind == "c" else numpy.float64
        with numpy.errstate(over="ignore", invalid="ignore"):
            for to, band, (scale, offset) in zip(out, pixels, self.scaling):
                values = numpy.multiply(band, scale, dtype=wide)
                values += offset
                to[...] = values
        out[~valid] = math.nan
        return out

    def valid(self, pixels, mask):
        """Return which pixels are valid; mask is an array of planes or None."""
        import numpy
        if self.dtype.kind in "fc":
            valid = pixels == pixels
        else:
            valid = numpy.ones(pixels.shape, bool)
        for i, nodata in enumerate(self.nodata):
            if nodata is not None and nodata == nodata:
                valid[i] &= (pixels[i].real if self.dtype.kind == "c" else pixels[i]) != nodata
            if mask is not None and self.mask is not None:
                valid[i] &= mask[self.mask[i]] != 0
        return valid


class Input:
    def __init__(self, d):
        self.name, self.list = d["name"], d["list"]
        self.files = [File(f) for f in d["files"]]


class Output:
    def __init__(self, d):
        self.name, self.type, self.bands = d["name"], d["type"], d["bands"]
        text = d["nodata"]
        try:
            self.nodata = None if text is None else int(text)
        except ValueError:
            self.nodata = float(text)


class Run:
    """What all blocks of a connection have in common."""

    def __init__(self, setup, memory, encode_value):
        self.inputs = [Input(i) for i in setup["inputs"]]
        self.outputs = [Output(o) for o in setup["outputs"]]
        self.input_index = {i.name: n for n, i in enumerate(self.inputs)}
        self.output_index = {o.name: n for n, o in enumerate(self.outputs)}
        self.count, self.overlap = setup["blocks"]["count"], setup["overlap"]
        grid = setup["grid"]
        self.transform = tuple(grid["transform"]) if grid["transform"] else None
        self.width, self.height, self.crs = grid["width"], grid["height"], grid["crs"]
        self.worker, self.workers, self.slot = setup["worker"], setup["workers"], setup["slot"]
        self.params, self.emits = setup["params"], setup["emits"]
        self.state = types.SimpleNamespace()
        self.memory, self.encode_value = memory, encode_value


def encode_json(value, origin="the function emitted"):
    """Return a value that JSON can represent as it is; origin says in errors who gave it."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_number))
    except (TypeError, ValueError) as e:
        raise type(e)("the value that %s is not JSON: %s" % (origin, e)) from None


def _number(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("Object of type %s is not JSON serializable" % type(value).__name__)


def closes(function: object) -> bool:
    """Return whether a function is a class whose instances have a method close."""
    return isinstance(function, type) and callable(getattr(function, "close", None))


def check_class(function: object, name: str) -> None:
    """Raise a TypeError if a function is a class whose instances can't be called."""
    if isinstance(function, type) and not any("__call__" in c.__dict__ for c in function.__mro__):
        raise TypeError("%s is a class without a method __call__(self, block)" % name)


class Server:
    """Serves one connection.

    function is what computes a block, or a class of such functions; None loads the one that leat
    names. encode_value makes JSON of a value that a function emits.
    """

    def __init__(self, sock: object, function: object = None,
                 encode_value: object = encode_json) -> None:
        self.connection, self.function, self.encode_value = Connection(sock), function, encode_value
        self.run = None
        self.instance = None  # of the function, if that is a class
        self.memories = {}
        self.descriptor = None

    def serve(self) -> None:
        """Serve until the connection ends."""
        try:
            while self.step():
                pass
        finally:
            self.end()

    def step(self) -> bool:
        """Answer one message, and return whether the connection goes on."""
        answers = {"load": self.load, "setup": self.setup, "block": self.block, "close": self.close}
        try:
            message, self.descriptor = self.connection.receive()
            if message is None:
                return False
            kind = message.get("type")
            interrupt = None
            try:
                if kind not in answers:
                    raise Failure("Protocol", "a message of the type %r" % (kind,))
                answer = answers[kind](message)
            except Failure as e:
                answer = _error(e.kind, str(e), e.trace)
            except KeyboardInterrupt as e:
                answer, interrupt = _error("KeyboardInterrupt", "interrupted"), e
            except BaseException as e:
                answer = _error_of(e)
            finally:
                if self.descriptor is not None:
                    os.close(self.descriptor)
                    self.descriptor = None
            try:
                self.connection.send(answer)
            except Failure as e:
                self.connection.send(_error(e.kind, str(e)))
            if interrupt is not None:
                raise interrupt
            return answer["type"] != "closed"
        except (ConnectionError, EOFError):
            return False

    def end(self) -> None:
        """Forget the run and its memory."""
        self.memories.clear()
        if self.run is not None:
            self.run.memory.close()
            self.run = None

    def _take_descriptor(self):
        if self.descriptor is None:
            raise Failure("Protocol", "a message came without its descriptor")
        descriptor, self.descriptor = self.descriptor, None
        return descriptor

    def load(self, message):
        if message["protocol"] != PROTOCOL:
            raise Failure("Protocol",
                "leat %s has version %s of the function protocol, this package version %d" % (
                message.get("version", ""), message["protocol"], PROTOCOL))
        answer = {"type": "loaded", "protocol": PROTOCOL, "pid": os.getpid(),
                  "python": sys.version.split()[0]}
        wanted = message.get("function")
        if wanted is not None:
            try:
                import numpy
            except ImportError as e:
                raise Failure("ImportError", "%s has no NumPy, which functions need: %s" %
                              (sys.executable, e)) from None
            answer["numpy"] = numpy.__version__
            self.function, answer["file"], answer["sha256"] = load(wanted)
            answer["closes"] = closes(self.function)
        elif self.function is None:
            raise Failure("Protocol", "no function is named, and this server has none")
        return answer

    def setup(self, message: dict) -> dict:
        memory = OutputMemory(self._take_descriptor(), message["max_output_bytes"])
        if self.run is not None:
            self.run.memory.close()
        self.run = Run(message, memory, self.encode_value)
        self.prepare()
        if isinstance(self.function, type):
            self.instance = self.make_instance()
        return {"type": "ready"}

    def prepare(self) -> None:
        """Change what blocks see of the run; for subclasses."""

    def make_instance(self) -> object:
        """Return an instance of the function, which is a class."""
        return self.function() if self.run.params is None else self.function(self.run.params)

    def block(self, message: dict) -> dict:
        from ._block import Block
        import numpy
        run = self.run
        if run is None:
            raise Failure("Protocol", "a block came before the setup")
        m = message["memory"]
        if m.get("new"):
            descriptor = self._take_descriptor()
            private = m.get("private", False)
            flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
            try:
                self.memories[m["number"]] = mmap.mmap(descriptor, m["bytes"], flags,
                                                       mmap.PROT_READ | mmap.PROT_WRITE,
                                                       offset=m["begin"]), private
            finally:
                os.close(descriptor)
        memory, private = self.memories[m["number"]]
        rows = message["window"][3] + 2 * run.overlap
        columns = message["window"][2] + 2 * run.overlap
        places = iter(message["arrays"])
        arrays, masks = [], []
        for i in run.inputs:
            pixels, planes = [], []
            for f in i.files:
                offset, mask = next(places)
                pixels.append(numpy.ndarray((len(f.bands), rows, columns), f.dtype, memory, offset))
                planes.append(None if mask < 0
                    else numpy.ndarray((f.mask_planes, rows, columns), "u1", memory, mask))
            arrays.append(pixels)
            masks.append(planes)
        run.memory.start()
        b = Block(run, message["number"], message["window"], arrays, masks)
        try:
            (self.function if self.instance is None else self.instance)(b)
        finally:
            if private:
                memory.madvise(mmap.MADV_DONTNEED)
        outputs = []
        for o in run.outputs:
            a = b._outputs.get(o.name)
            if a is None:
                outputs.append(None)
                continue
            outputs.append(
                {"offset": run.memory.places[id(a)][0], "type": a.dtype.name, "bands": a.shape[0],
                            "rows": a.shape[1], "columns": a.shape[2]})
        answer = {"type": "done", "outputs": outputs}
        if b._values:
            answer["values"] = b._values
        return answer

    def close(self, message: dict) -> dict:
        answer = {"type": "closed"}
        if self.instance is not None and closes(self.function):
            answer["value"] = close_instance(self.instance)
        return answer


def close_instance(instance: object) -> object:
    """Return the value of an instance's close as JSON has it; None if it returns none."""
    value = instance.close()
    return None if value is None else encode_json(value, "close() returned")


def serve(sock, function=None, encode_value=encode_json):
    """Serve the connection until it ends, by this function or the one that leat names; then close
    it.
    """
    with sock:
        Server(sock, function, encode_value).serve()


def _error(kind, message, trace=None):
    answer = {"type": "error", "kind": kind, "message": message}
    if trace:
        answer["traceback"] = trace
    return answer


def _error_of(e):
    """Return the message about an exception of the function."""
    kind = type(e).__name__
    module = type(e).__module__
    if module not in ("builtins", "__main__"):
        kind = module + "." + kind
    try:
        text = str(e.args[0]) if isinstance(e, KeyError) and len(e.args) == 1 and " " in str(
            e.args[0]) else str(e)
    except Exception:
        text = "(its text can't be made)"
    if isinstance(e, SystemExit):
        text = "the function called sys.exit(%s)" % ("" if e.code is None else e.code)
    own = [__file__.replace("_function.py", name)
           for name in ("_function.py", "_block.py", "_served.py")]

    def trim(te, seen):
        # Frames of this package at both ends, and those of the import system, say nothing about the
        # function.
        if te is None or id(te) in seen:
            return te
        seen.add(id(te))
        te.stack = traceback.StackSummary.from_list(
            [f for f in te.stack if f.filename not in own and
                                                     not f.filename.startswith(
                                                         "<frozen importlib")])
        trim(te.__cause__, seen)
        trim(te.__context__, seen)
        return te
    try:
        te = trim(traceback.TracebackException.from_exception(e), set())
        trace = "".join(te.format())
    except Exception:
        trace = None
    return _error(kind, text, trace)


def load(wanted):
    """Return the function that leat names, and the file and sum of its source."""
    directory = wanted.get("directory", "")
    first = [directory] if directory else []
    caller = os.environ.pop(SEARCH_PATH, None)
    if caller is not None:
        first = (first if wanted.get("file") else []) + caller.split(os.pathsep)
    sys.path[:] = first + [p for p in sys.path if p not in first]
    if wanted.get("file"):
        path, name = wanted["file"], os.path.splitext(os.path.basename(wanted["file"]))[0]
        if name in sys.modules:
            name = "leat_function_" + name
        spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, path))
    else:
        name = wanted["module"]
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise Failure("ModuleNotFoundError", "there is no module %s in %s or %s" % (
                name, ", ".join(first), sys.executable))
        path = spec.origin
        if not path or not os.path.isfile(path):
            raise Failure("ImportError", "the module %s has no file of its own" % name)
        if not path.endswith(".py"):
            raise Failure("ImportError", "the module %s is %s, expected a .py file" % (name, path))
        loader = _Loader(name, path)
        spec = importlib.util.spec_from_file_location(
            name, path, loader=loader, submodule_search_locations=spec.submodule_search_locations)
    if wanted.get("source"):
        source = base64.b64decode(wanted["source"])
        # Tracebacks have lines of this source, whatever the machine has under the path.
        lines = importlib.util.decode_source(source).splitlines(keepends=True)
        linecache.cache[path] = len(source), None, lines, path
    else:
        try:
            with open(path, "rb") as f:
                source = f.read()
        except OSError as e:
            raise Failure(type(e).__name__, "%s: %s" % (path, e.strerror)) from None
    digest = hashlib.sha256(source).hexdigest()
    if wanted.get("sha256") and wanted["sha256"] != digest:
        raise Failure("SourceChanged",
            "%s is not the file with which the run began: it was changed, or differs on this "
                      "machine" % path)
    spec.loader.source = source
    module = sys.modules.get(name) if not wanted.get("file") else None
    if module is None or getattr(module, "__file__", None) != path:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        os.environ[LOADING] = "1"
        try:
            spec.loader.exec_module(module)
        finally:
            del os.environ[LOADING]
    function = module
    done = []
    for part in wanted["name"].split("."):
        try:
            function = getattr(function, part)
        except AttributeError:
            names = sorted(n for n in dir(function) if not n.startswith("_")
                           and callable(getattr(function, n, None)))
            raise Failure("AttributeError", "%s has no function %s%s" % (
                ".".join([path] + done), part, "; it has " + ", ".join(names[:20]) if names
                else "")) from None
        done.append(part)
    if not callable(function):
        raise Failure("TypeError", "%s in %s is a %s, expected a function of one argument" % (
            wanted["name"], path, type(function).__name__))
    check_class(function, "%s in %s" % (wanted["name"], path))
    return function, path, digest


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs the source whose sum was computed, and leaves no compiled file."""

    source = None

    def get_code(self, fullname):
        return compile(self.source, self.path, "exec", dont_inherit=True)


def main(descriptor):
    """Serve in a process that leat has started."""
    parent = os.getppid()
    os.set_inheritable(descriptor, False)
    sys.stdout.reconfigure(line_buffering=True)
    import faulthandler
    faulthandler.enable()
    if sys.platform == "linux":
        import ctypes
        import signal
        import _thread
        prctl = ctypes.CDLL(None).prctl
        main_thread = _thread.get_ident()

        def die_with_parent():
            # PR_SET_PDEATHSIG, which fork clears. It is about the thread that forked, and others
            # than the main one may end before the process.
            if _thread.get_ident() == main_thread:
                prctl(1, signal.SIGKILL, 0, 0, 0)
        os.register_at_fork(after_in_child=die_with_parent)
    if os.getppid() != parent:
        os._exit(1)
    serve(socket.socket(fileno=descriptor))
