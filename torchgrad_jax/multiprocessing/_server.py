"""The process that workers are forked from.

It has imported the package and nothing of the program, and it never opens JAX's devices: a forked copy of a process
that did would hang. A copy of this one opens a CPU of its own when an operator needs it. The server ends with the
program, however that ends, and its workers end with the server.

What a dataset needs besides takes seconds to import (torchvision, transformers). A copy of the server imports it and
serves in its place, so that this is done once and not by each worker of each pass: see `serve_with`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import threading

from .._core.jax import private
from ._child import begin

REQUEST = struct.Struct("=i")
"""How many of the descriptors are the child's standard streams."""
PID = struct.Struct("=qi")
"""What the server answers: a process id, and an error number where there is none."""
STATUS = struct.Struct("=i")
"""What it writes when a child has ended: its exit code."""
_PR_SET_PDEATHSIG = 1
YES = b"+"
"""What a copy of the server says that serves in its place."""
MOST_DESCRIPTORS = 250
ONE_THREAD = {"PJRT_NPROC": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""How libraries are told to compute on one thread."""


def main(fd: int, program: int) -> None:
    """Serve until the program is gone.

    Args:
        fd: a socket to the program.
        program: its process id.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    children: dict[int, int] = {}
    try:
        _serve(socket.socket(fileno=fd), program, children)
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    os._exit(0)


def serve_with(control: socket.socket, modules: list[str]) -> None:
    """In a copy of the server: import modules, and serve if that left a process that can be forked.

    Tells first whether it serves. It goes on without the program until its own children have ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(ONE_THREAD)  # of libraries that start theirs when they are imported
    before = _threads()
    for name in modules:
        with contextlib.suppress(Exception):  # the workers that need it say what is wrong with it
            importlib.import_module(name)
    served = not private.backends_are_open() and _threads() == before
    control.send(YES if served else b"-")
    if served:
        children: dict[int, int] = {}
        server = os.getppid()
        wakeup = _serve(control, server, children)
        while children and os.getppid() == server:
            select.select([wakeup], [], [], 1)
            _bury(wakeup, children)


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # only Linux counts those that Python did not start
        return threading.active_count()


def _woken_by_children() -> int:
    """A descriptor that is readable when a child has ended."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def _serve(control: socket.socket, parent: int, children: dict[int, int]) -> int:
    """Fork until nobody asks any more; the descriptor that tells of children."""
    gc.freeze()
    wakeup = _woken_by_children()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    while os.getppid() == parent:
        ready = dict(poll.poll(1000))
        if wakeup in ready:
            _bury(wakeup, children)
        if control.fileno() not in ready:
            continue
        try:
            data, fds, _, _ = socket.recv_fds(control, REQUEST.size, MOST_DESCRIPTORS)
        except OSError:
            break
        if not data:
            break
        _fork(control, wakeup, REQUEST.unpack(data)[0], fds, children)
    return wakeup


def _bury(wakeup: int, children: dict[int, int]) -> None:
    """Tell the program of the children that have ended."""
    with contextlib.suppress(BlockingIOError):
        os.read(wakeup, 4096)
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        teller = children.pop(pid, None)
        if teller is not None:
            with contextlib.suppress(OSError):
                os.write(teller, STATUS.pack(os.waitstatus_to_exitcode(status)))
            os.close(teller)


def _fork(control: socket.socket, wakeup: int, streams: int, fds: list[int], children: dict[int, int]) -> None:
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        pid, problem = -1, error.errno or 1
    else:
        problem = 0
    if pid == 0:
        code = 1
        try:
            control.close()
            os.close(wakeup)
            for teller in children.values():
                os.close(teller)
            code = _child(server, streams, fds)
        finally:
            os._exit(code)
    teller, *others = fds
    for fd in others:
        os.close(fd)
    if pid > 0:
        children[pid] = teller
    else:
        os.close(teller)
    control.sendall(PID.pack(pid, problem))


def _child(server: int, streams: int, fds: list[int]) -> int:
    """What a child does with the descriptors that the program sent; its exit code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _end_with_parent(server)
    os.close(fds[0])
    for i, fd in enumerate(fds[1 : 1 + streams], 3 - streams):
        os.dup2(fd, i)
        os.close(fd)
    job, *inherited = fds[1 + streams :]
    code = begin(job, inherited)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    return code


def _end_with_parent(server: int) -> None:
    """Let Linux end this process when the server is gone; elsewhere, the server ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
