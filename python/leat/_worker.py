"""The process that leat starts for a function."""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import TYPE_CHECKING

from ._function import serve

if TYPE_CHECKING:
    import ctypes

# Options of mallopt(3). NumPy frees and allocates arrays of a block's size again and again: by
# default, glibc returns them to the system each time, and the next one costs a page fault for each
# 4 KiB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_BYTES = 1 << 30
_MMAP_BYTES = 256 << 20
_MMAP_BYTES_BEFORE_2_35 = 32 << 20  # the maximum there

_MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


def main(descriptor: int) -> None:
    """Serve in a process that leat has started, or in processes forked from it."""
    os.set_inheritable(descriptor, False)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    import faulthandler
    faulthandler.enable()
    connection = socket.socket(fileno=descriptor)
    if sys.platform == "linux":
        import ctypes
        libc = ctypes.CDLL(None)
        _die_with_parent(libc)
        _keep_memory(libc)
    if "fork" in sys.argv[2:]:
        from ._fork_server import fork_processes
        connection = fork_processes(connection)
    gc.enable()  # it is disabled while Python starts
    serve(connection, None)


def _die_with_parent(libc: "ctypes.CDLL") -> None:
    """Make forked processes end with the process that forked them, as leat makes this one."""
    import _thread
    import signal
    prctl, main_thread, parent = libc.prctl, _thread.get_ident(), 0

    def before() -> None:
        nonlocal parent
        parent = os.getpid()

    def after() -> None:
        nonlocal main_thread
        thread = _thread.get_ident()
        # PR_SET_PDEATHSIG, which fork clears. The signal comes when the thread that forked ends,
        # and threads other than the main one may end before the process.
        if thread == main_thread:
            prctl(1, signal.SIGKILL, 0, 0, 0)
            # The parent may have ended before. It is 0 if it is in another namespace.
            if os.getppid() not in (parent, 0):
                os._exit(1)
        main_thread = thread

    os.register_at_fork(before=before, after_in_child=after)


def _keep_memory(libc: "ctypes.CDLL") -> None:
    """Let malloc reuse the memory of large arrays, unless the user has set it up."""
    if any(name in os.environ for name in (*_MALLOC_VARIABLES, "GLIBC_TUNABLES")):
        return
    try:
        mallopt = libc.mallopt
    except AttributeError:  # musl
        return
    if (mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
            or mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES_BEFORE_2_35)):
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
