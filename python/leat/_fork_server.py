"""Forks the processes of a function from one that has imported NumPy: docs/format/function.md of
leat's repository."""

from __future__ import annotations

import array
import contextlib
import gc
import os
import socket
import struct
import sys

_REQUEST = struct.Struct("<B3xi")
"""A request: letter, process."""

_REPLY = struct.Struct("<ii")
"""An answer: error number, value."""

_SPACE = socket.CMSG_SPACE(8)
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def fork_processes(control: socket.socket) -> socket.socket:
    """Fork a process for each connection that leat requests; return the connection in it."""
    try:
        from . import _block, _function_run, _memory  # noqa: F401
    except ImportError:
        pass  # without NumPy: loading a function says so
    gc.freeze()
    while True:
        request, ancillary, _, _ = control.recvmsg(_REQUEST.size, _SPACE, _FLAGS)
        if not request:
            os._exit(0)
        letter, pid = _REQUEST.unpack(request)
        descriptors = array.array("i")
        for _, _, content in ancillary:
            descriptors.frombytes(content)
        error = value = 0
        try:
            if letter == ord("s"):
                value = int(len(os.listdir("/proc/self/task")) == 1)  # else a fork is not safe
            elif letter == ord("f"):
                value = os.fork()
            else:
                value = os.waitpid(pid, 0)[1]
        except OSError as e:
            error = e.errno or 1
        if letter == ord("f") and not error:
            if value == 0:
                control.close()
                return _begin(*descriptors)
            with contextlib.suppress(OSError):  # it has ended
                os.setpgid(value, value)  # here too: leat may kill the group at once
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(_REPLY.pack(error, value))


def _begin(connection: int, output: int) -> socket.socket:
    """Begin a forked process, which writes to output."""
    os.setpgid(0, 0)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()  # else all processes would have the same random numbers
    return socket.socket(fileno=connection)
