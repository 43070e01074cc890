"""Messages of the function protocol: docs/format/function.md of leat's repository."""

from __future__ import annotations

import array
import json
import socket
import struct
from typing import Any, Callable, Optional, Union

PROTOCOL = 2
MAX_MESSAGE = 64 << 20

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
         "float32", "float64", "complex64", "complex128")
"""The types of pixels, in the order of their codes."""

BLOCK = struct.Struct("<BB2xI5q")
"""A block: letter, whether leat still uses the outputs of the block before, number of the memory,
number of the block, window. The places of the arrays follow."""

DONE = struct.Struct("<B7x")
"""The answer to a block: letter. The places of the outputs follow, then a list of JSON."""

OUTPUT = struct.Struct("<q4I")
"""The place of an output: offset, code of the type, bands, rows, columns."""

LETTER_BLOCK = ord("b")
LETTER_DONE = ord("d")

_SPACE = socket.CMSG_SPACE(4)
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_LENGTH = struct.Struct("<I")
_BUFFER_BYTES = 64 << 10


class Failure(Exception):
    """Failure is an error that goes to leat as it is."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Connection:
    """Connection exchanges messages over a Unix stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._into = [self._buffer]
        self.await_space: Optional[Callable[[], None]] = None
        """Waits until the socket takes more of a message; None: sending waits."""

    def expect_blocks(self, size: int) -> None:
        """Read at most one message of a block at a time: the next one may follow already."""
        self._into = [self._buffer[:_LENGTH.size + size]]

    def receive(self) -> tuple[Optional[memoryview], Optional[int]]:
        """Return the next message, which is valid until the next call, and its descriptor or None;
        (None, None) at the end of the connection.
        """
        try:
            have, ancillary, _, _ = self._sock.recvmsg_into(self._into, _SPACE, _FLAGS)
        except ConnectionResetError:
            return None, None
        descriptor: Optional[int] = None
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptor = array.array("i", content[:4])[0]
        if not have:
            return None, None
        while have < 4:
            have += self._more(self._buffer[have:4])
        end = 4 + _LENGTH.unpack_from(self._buffer)[0]
        if not 6 <= end <= 4 + MAX_MESSAGE:
            raise Failure("Protocol", f"a message of {end - 4} bytes")
        if have >= end:
            return self._buffer[4:end], descriptor
        whole = self._buffer
        if end > len(whole):
            whole = memoryview(bytearray(end))
            whole[:have] = self._buffer[:have]
        while have < end:
            have += self._more(whole[have:end])
        return whole[4:end], descriptor

    def _more(self, into: memoryview) -> int:
        size = self._sock.recv_into(into)
        if not size:
            raise EOFError("the connection ended within a message")
        return size

    def send(self, message: Union[bytes, dict[str, Any]]) -> None:
        """Send a message: bytes, or an object as JSON."""
        if isinstance(message, dict):
            message = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(message) > MAX_MESSAGE:
            raise Failure("ValueError", f"the values that the function emitted have {len(message)} "
                                        f"bytes, at most {MAX_MESSAGE} are allowed")
        rest = memoryview(_LENGTH.pack(len(message)) + message)
        if self.await_space is None:
            self._sock.sendall(rest)
            return
        while rest:
            try:
                rest = rest[self._sock.send(rest, socket.MSG_DONTWAIT):]
            except BlockingIOError:
                self.await_space()
