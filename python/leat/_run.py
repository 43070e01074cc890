"""Runs "leat apply" as a child process and reads its events."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from typing import Any, Callable, Optional, Sequence

from . import _binary
from .errors import BlockError, Claimed, Error, JobError, NoSpace

_GRACE = 60.0
"""Seconds that an interrupted run has to end by itself."""

_SOCKET_BYTES = 1 << 20
"""Size of the socket's buffer: a run that writes events does not wait for a long function."""


def _job_text(job: dict[str, Any]) -> bytes:
    """Return a job as JSON."""
    try:
        return json.dumps(job, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # such as the directory of the function's file
        near = error.object[max(error.start - 60, 0):error.end + 20]
        raise ValueError(f"the job has a text that is not UTF-8: {near!r}") from None


class Run:
    """Run is a run of leat apply in a child process, which has a session of its own.

    ^C in a terminal reaches this process alone, which then interrupts the run. The child ends when
    the socket of its events is closed, even if this process is killed.
    """

    def __init__(self, job: dict[str, Any], extra: Sequence[str] = (),
                 pass_fds: Sequence[int] = ()) -> None:
        ours, theirs = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._events = ours
        self._unread = b""
        self._child: Optional[subprocess.Popen[bytes]] = None
        self.error: Optional[dict[str, Any]] = None
        try:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            text = _job_text(job)
            self._child = subprocess.Popen(
                [_binary.binary(), "apply", "--job", "-", "--events", str(theirs.fileno()), *extra],
                stdin=subprocess.PIPE, pass_fds=(theirs.fileno(), *pass_fds),
                start_new_session=True)
            theirs.close()
            assert self._child.stdin is not None
            try:
                self._child.stdin.write(text)
                self._child.stdin.close()
            except BrokenPipeError:
                pass  # the events say why it ended
            self._selector.register(ours, selectors.EVENT_READ, self._read)
        except BaseException:
            theirs.close()
            self.stop()
            raise

    def watch(self, file: socket.socket, ready: Callable[[], None]) -> None:
        """Call ready from work when a socket can be read."""
        self._selector.register(file, selectors.EVENT_READ, ready)

    def unwatch(self, file: socket.socket) -> None:
        """End a watch."""
        self._selector.unregister(file)

    def work(self, handle: Callable[[dict[str, Any]], None]) -> None:
        """Pass all events to handle, and return when the run has ended."""
        self._handle, self._ended = handle, False
        while not self._ended:
            for key, _ in self._selector.select():
                if key.fileobj in self._selector.get_map():  # none before has ended its watch
                    key.data()
        child = self._child
        assert child is not None
        status = child.wait()
        if status != 0 and self.error is None:
            raise JobError(f"leat apply ended without a result: {_ending(status)}")

    def await_space(self, file: socket.socket) -> None:
        """Wait until a socket can be written, and receive events meanwhile, for work."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._events, selectors.EVENT_READ)
            selector.register(file, selectors.EVENT_WRITE)
            for key, _ in selector.select():
                if key.fileobj is self._events:
                    self._receive()

    def _receive(self) -> bool:
        """Receive a part of the events, and return False at their end."""
        try:
            data = self._events.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:  # await_space has received it
            return True
        self._unread += data
        return bool(data)

    def _read(self) -> None:
        self._ended = not self._receive()
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["event"] == "error":
                self.error = event
            self._handle(event)

    def stop(self) -> None:
        """End the run, if it has not ended, and wait for it. May be called again."""
        child, self._child = self._child, None
        try:
            if child is not None and child.poll() is None:
                self._interrupt(child)
        except BaseException:
            # A second ^C.
            assert child is not None
            child.kill()
            child.wait()
            raise
        finally:
            if child is not None and child.stdin is not None:
                try:
                    child.stdin.close()
                except BrokenPipeError:
                    pass
            self._selector.close()
            self._events.close()

    def _interrupt(self, child: "subprocess.Popen[bytes]") -> None:
        try:
            child.send_signal(signal.SIGINT)
            deadline = time.monotonic() + _GRACE
            self._events.settimeout(1)
            while time.monotonic() < deadline and child.poll() is None:
                try:
                    if not self._events.recv(1 << 16):
                        break
                except socket.timeout:
                    pass
            child.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def failure(event: dict[str, Any]) -> Error:
    """Return the error that the last event of a run describes."""
    kind = event["kind"]
    text = "\n".join(_text(one, kind != "in_use") for one in event.get("errors") or [event])
    block = event.get("block")
    if kind == "block" and block is not None:
        window = block.get("window")
        return BlockError(text, block=block["block"] if block["block"] >= 0 else None,
                          window=tuple(window) if window else None, worker=block.get("worker"),
                          host=block.get("host"), traceback=block.get("traceback", ""))
    kept = event.get("kept")
    if kept and kept["done_blocks"] > 0:
        text += (f"\n{kept['done_blocks']} of {kept['blocks']} blocks are kept: resume=True "
                 "computes the rest")
    if kind == "in_use":
        return Claimed(text, holder=event.get("holder"))
    return NoSpace(text) if kind == "no_space" else JobError(text)


def _text(error: dict[str, Any], translate: bool = True) -> str:
    """Return the text of an error, whose options become arguments except where the text has the
    command of another run."""
    text, hint = str(error["error"]), error.get("hint")
    text = in_python(text) if translate else text
    return f"{text}\nhint: {in_python(hint)}" if hint else text


_SHORT = {"-e": "function", "-i": "inputs", "-j": "jobs", "-o": "outputs", "-v": "vector",
          "--co": "co"}


def in_python(text: str) -> str:
    """Return a text of the command with its options as arguments: --no-mask as no_mask."""
    text = re.sub(r"(?<![\w-])(-[iov]|--co) ([A-Za-z_]\w*)="
                  r"([^\s,;]+?)(?=[:,;.)]?(?:\s|$))",
                  lambda found: f'{_SHORT[found[1]]}={{"{found[2]}": "{found[3]}"}}', text)
    text = re.sub(r'there is no option "([\w-]+)"',
                  lambda found: f"there is no argument {_argument(found[1])!r}", text)
    text = re.sub(r"did you mean ([a-z]+(?:-[a-z]+)*)\?",
                  lambda found: f"did you mean {_argument(found[1])}?", text)
    text = re.sub(r"(?m)^([a-z]+(?:-[a-z]+)+): (?=expected |the name |invalid )",
                  lambda found: _argument(found[1]) + ": ", text)
    text = re.sub(r"(?<![\w-])-[eijov](?![\w-])", lambda found: _SHORT[found[0]], text)
    text = re.sub(r"(?<![\w-])--python(?![\w-])", "function", text)
    return re.sub(r"(leat (?:info|zonal|stage|cache|jobs|help)(?: [a-z]+)* )?"
                  r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)",
                  lambda found: found[0] if found[1] else _argument(found[2]), text)


def _argument(option: str) -> str:
    return option.replace("-", "_")


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def info(path: str, *options: str) -> dict[str, Any]:
    """Return what leat info --json prints about one file."""
    done = subprocess.run([_binary.binary(), "info", "--json", *options, "--", path],
                          stdin=subprocess.DEVNULL, capture_output=True)
    lines = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(lines[0]) if lines else {}
    if done.returncode != 0 or "error" in found:
        text = found.get("error") or done.stderr.decode(errors="replace").strip()
        raise Error(f"open {text}" if text.startswith(path + ":") else f"open {path}: {text}")
    return found


def quicklook(path: str, side: int = 1024) -> bytes:
    """Return a small picture of a raster as PNG, whose longest side has at most side pixels."""
    done = subprocess.run([_binary.binary(), "info", "--preview", "-", f"--preview-size={side}",
                           "--", os.fspath(path)],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        raise Error(f"quicklook of {path}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
