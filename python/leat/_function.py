"""Serves blocks to leat over a connection: docs/format/function.md of leat's repository."""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from ._load import Function, check_returned, closes, load
from ._messages import (BLOCK, DONE, LETTER_BLOCK, LETTER_DONE, PROTOCOL, Connection, Failure)

if TYPE_CHECKING:
    from ._block import Block
    from ._function_run import FunctionRun
    from ._memory import InputMemory

Answer = Union[bytes, dict[str, Any]]


def encode_json(value: Any, origin: str = "the function emitted") -> Any:
    """Return a value that JSON can represent as it is; errors name its origin."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_number))
    except (TypeError, ValueError) as e:
        text = str(e)
        if text.startswith("Out of range float values"):
            text = "it has a number that is NaN or infinite; None can stand for it"
        raise type(e)(f"the value that {origin} is not JSON: {text}") from None


def _number(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


class Server:
    """Server serves one connection.

    function is what computes a block, or a class of such functions; None loads the one that leat
    names. encode_value makes JSON of a value that a function emits.
    """

    def __init__(self, sock: socket.socket, function: Optional[Function],
                 encode_value: Callable[[Any], Any] = encode_json) -> None:
        self.connection, self.function, self.encode_value = Connection(sock), function, encode_value
        self.run: Optional[FunctionRun] = None
        self.instance: Any = None
        """Instance of the function, if that is a class."""
        self.new_block: Optional[type[Block]] = None
        self.memories: dict[int, InputMemory] = {}
        self.descriptor: Optional[int] = None
        self.failed_last = False
        """Whether the last answer was an error."""
        self.answers: dict[Any, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "load": self.load, "setup": self.setup, "memory": self.memory, "close": self.close}

    def serve(self) -> None:
        """Serve until the connection ends."""
        try:
            while self.step():
                pass
        finally:
            self.end()

    def step(self) -> bool:
        """Answer one message, and return whether the connection goes on."""
        try:
            message, self.descriptor = self.connection.receive()
            if message is None:
                return False
            answer: Answer
            interrupt: Optional[KeyboardInterrupt] = None
            try:
                answer = self.block(message) if message[0] == LETTER_BLOCK else self.other(message)
            except Failure as e:
                answer = _error(e.kind, str(e))
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
                self.failed_last = not isinstance(answer, bytes) and answer["type"] == "error"
            except Failure as e:
                self.connection.send(_error(e.kind, str(e)))
                self.failed_last = True
            if interrupt is not None:
                raise interrupt
            return isinstance(answer, bytes) or answer["type"] != "closed"
        except (ConnectionError, EOFError):
            return False

    def end(self) -> None:
        """Forget the run and its memory."""
        self.memories.clear()
        if self.run is not None:
            self.run.memory.close()
            self.run = None

    def _take_descriptor(self) -> int:
        if self.descriptor is None:
            raise Failure("Protocol", "a message came without its descriptor")
        descriptor, self.descriptor = self.descriptor, None
        return descriptor

    def other(self, text: memoryview) -> dict[str, Any]:
        """Answer a message that is not a block."""
        try:
            message = json.loads(bytes(text))
            kind = message.get("type")
        except (ValueError, AttributeError):
            raise Failure("Protocol", "a message that is not a JSON object") from None
        if kind not in self.answers:
            raise Failure("Protocol", f"a message of the type {kind!r}")
        return self.answers[kind](message)

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Load the function."""
        if message["protocol"] != PROTOCOL:
            raise Failure("Protocol", f"leat {message.get('version', '')} has version "
                          f"{message['protocol']} of the function protocol, this package version "
                          f"{PROTOCOL}")
        answer = {"type": "loaded", "protocol": PROTOCOL, "pid": os.getpid(),
                  "python": sys.version.split()[0]}
        wanted = message.get("function")
        if wanted is not None:
            try:
                import numpy
            except ImportError as e:
                raise Failure("ImportError", f"{sys.executable} has no NumPy, which functions "
                                             f"need: {e}") from None
            answer["numpy"] = numpy.__version__
            self.function, answer["file"], answer["sha256"] = load(wanted)
            answer["closes"] = closes(self.function)
        elif self.function is None:
            raise Failure("Protocol", "no function is named, and this server has none")
        return answer

    def setup(self, message: dict[str, Any]) -> dict[str, Any]:
        """Begin a run."""
        from ._block import Block
        from ._function_run import FunctionRun
        from ._memory import OutputMemory
        memory = OutputMemory(self._take_descriptor(), message["max_output_bytes"])
        if self.run is not None:
            self.run.memory.close()
        self.run, self.new_block = FunctionRun(message, memory, self.encode_value), Block
        self.prepare()
        if isinstance(self.function, type):
            self.instance = self.make_instance()
        self.connection.expect_blocks(BLOCK.size + self.run.places.size)
        return {"type": "ready", "ahead": True}

    def prepare(self) -> None:
        """Change what blocks see of the run; for subclasses."""

    def make_instance(self) -> Any:
        """Return an instance of the function, which is a class."""
        make: Any = self.function
        return make() if self.run is None or self.run.params is None else make(self.run.params)

    def memory(self, message: dict[str, Any]) -> dict[str, Any]:
        """Map memory of inputs."""
        from ._memory import InputMemory
        descriptor = self._take_descriptor()
        try:
            self.memories[message["number"]] = InputMemory(
                descriptor, message["bytes"], message["begin"], message.get("private", False))
        finally:
            os.close(descriptor)
        return {"type": "mapped"}

    def block(self, message: memoryview) -> Answer:
        """Compute a block."""
        run, new = self.run, self.new_block
        function = self.function if self.instance is None else self.instance
        if run is None or function is None or new is None:
            raise Failure("Protocol", "a block came before the setup")
        if len(message) != BLOCK.size + run.places.size:
            raise Failure("Protocol", f"a block of {len(message)} bytes, expected "
                                      f"{BLOCK.size + run.places.size}")
        _, ahead, memory_number, number, *window = BLOCK.unpack_from(message)
        if ahead and self.failed_last:
            raise Failure("Skipped", "the block before failed")
        memory = self.memories.get(memory_number)
        if memory is None:
            raise Failure("Protocol", f"a block in memory {memory_number}, which is not mapped")
        places = run.places.unpack_from(message, BLOCK.size)
        run.memory.start(ahead != 0)
        b = new(run, number, window, memory, places)
        try:
            check_returned(function(b))
        except BaseException as e:
            self.failed(number, e)
            raise
        finally:
            memory.drop_written()
        parts = [_DONE, *(run.memory.place(b._outputs.get(o.name)) for o in run.outputs)]
        if b._values:
            parts.append(json.dumps(b._values, separators=(",", ":"), allow_nan=False).encode())
        b._end()  # not after an exception, for debuggers
        return b"".join(parts)

    def failed(self, number: Optional[int], error: BaseException) -> None:
        """Handle an exception of the function on a block; for subclasses."""

    def close(self, message: dict[str, Any]) -> dict[str, Any]:
        """End the connection."""
        answer: dict[str, Any] = {"type": "closed"}
        if self.instance is not None and closes(self.function):
            answer["value"] = close_instance(self.instance)
        return answer


def close_instance(instance: Any) -> Any:
    """Return the value of an instance's close as JSON represents it; None if there is none."""
    value = instance.close()
    return None if value is None else encode_json(value, "close() returned")


_DONE = DONE.pack(LETTER_DONE)


def serve(sock: socket.socket, function: Optional[Function],
          encode_value: Callable[[Any], Any] = encode_json) -> None:
    """Serve a connection until it ends, by this function or the one that leat names."""
    with sock:
        Server(sock, function, encode_value).serve()


def _error(kind: str, message: str, trace: Optional[str] = None) -> dict[str, Any]:
    answer = {"type": "error", "kind": kind, "message": message}
    if trace:
        answer["traceback"] = trace
    return answer


def _error_of(e: BaseException) -> dict[str, Any]:
    """Return the message about an exception of the function."""
    kind = type(e).__name__
    module = type(e).__module__
    if module not in ("builtins", "__main__", "__mp_main__"):
        kind = module + "." + kind
    try:
        sentence = isinstance(e, KeyError) and len(e.args) == 1 and " " in str(e.args[0])
        text = str(e.args[0]) if sentence else str(e)
    except Exception:
        text = "(str() of it fails)"
    if isinstance(e, SystemExit):
        text = f"the function called sys.exit({'' if e.code is None else e.code})"
    trace: Optional[str]
    try:
        te = _trim(traceback.TracebackException.from_exception(e), set())
        trace = "".join(te.format())
    except Exception:
        trace = None
    return _error(kind, text, trace)


_OWN = {os.path.join(os.path.dirname(__file__), name + ".py")
        for name in ("_function", "_function_run", "_block", "_convert", "_load", "_memory",
                     "_served")}


def _trim(te: traceback.TracebackException, seen: set[int]) -> traceback.TracebackException:
    """Leave out the frames that say nothing about the function: those of this package at both
    ends, and of the import system."""
    seen.add(id(te))
    te.stack = traceback.StackSummary.from_list(
        [f for f in te.stack
         if f.filename not in _OWN and not f.filename.startswith("<frozen importlib")])
    for other in (te.__cause__, te.__context__):
        if other is not None and id(other) not in seen:
            _trim(other, seen)
    return te
