"""Processes that are forked from a server: a start method for `multiprocessing`, and the default of loaders.

    process = CONTEXT.Process(target=work, args=(queue,))

A process starts within milliseconds, has the package imported, and runs nothing of the program but what it is given:
the program's script needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.context
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from multiprocessing import popen_fork, process, util
from typing import Any

from . import _child, _memory, _server, _surroundings
from ._parcel import Parcel
from ._queue import Event, Queue


class _Server:
    """The program's connection to its server, which is started when it is first needed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._owner = self.pid = 0
        self._control: socket.socket | None = None
        self._copy: _Copy | None = None
        self._unfit: set[str] = set()
        """Modules with which there can be no copy: one of them opens JAX's devices, for example."""

    def ensure(self) -> socket.socket:
        """The socket to a server that belongs to this process and runs."""
        with self.lock:
            if self._control is not None and self._owner == os.getpid() and self._is_alive():
                return self._control
            if self._control is not None:
                self._control.close()
            self._copy = None
            ours, theirs = socket.socketpair()
            with theirs:
                self.pid = _start(theirs.fileno())
            self._control, self._owner = ours, os.getpid()
            return ours

    def _is_alive(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:  # the program waits for any child by itself, or is a fork of the one that it was
            return self._owner == os.getpid() and _runs(self.pid)

    def _with(self, modules: set[str]) -> socket.socket:
        """A socket to the server, or to a copy of it that has imported modules."""
        control = self.ensure()
        needed = {m for m in modules - self._unfit if m.partition(".")[0] not in _THERE}
        if not needed:
            return control
        imports, copy = _surroundings.imports(), self._copy
        if copy is not None and (copy.imports != imports or copy.has_ended()):
            copy = None
        if copy is None or not needed <= copy.modules:
            new = _Copy(needed | (copy.modules if copy else set()), imports)
            if new.control is None:
                self._unfit |= needed - (copy.modules if copy else set())
            else:
                copy = new
        self._copy = copy
        return control if copy is None or copy.control is None else copy.control

    def fork(self, streams: int, descriptors: list[int], modules: set[str]) -> int:
        """The process id of a new child with these descriptors, which needs these modules."""
        if len(descriptors) > _server.MOST_DESCRIPTORS:
            raise ValueError(f"a process can be given {_server.MOST_DESCRIPTORS} descriptors, not {len(descriptors)}")
        with self.lock:
            control = self._with(modules)
            socket.send_fds(control, [_server.REQUEST.pack(streams)], descriptors)
            answer = control.recv(_server.PID.size, socket.MSG_WAITALL)
        if len(answer) < _server.PID.size:
            raise RuntimeError("the process that workers are forked from ended unexpectedly")
        pid, problem = _server.PID.unpack(answer)
        if problem:
            raise OSError(problem, os.strerror(problem))
        return pid

    def stop(self) -> None:
        """Let the server end its children and itself, and wait for it."""
        with self.lock:
            control, self._control, self._copy = self._control, None, None
            if control is None or self._owner != os.getpid():
                return
            control.close()
            until = time.monotonic() + 5
            while self._is_alive():
                if time.monotonic() > until:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.002)


_THERE = {"__main__", "builtins", "torchgrad_jax", "torch", "jax", "jaxlib", "numpy", "cloudpickle"}
_THERE |= sys.stdlib_module_names
"""Packages that the server has, or that import fast."""


class _Copy:
    """A copy of the server that has imported modules of the program.

    Attributes:
        modules: which.
        imports: where the program found them.
        control: a socket to it; None where it cannot be forked, because a module has opened JAX's devices, for example.
    """

    def __init__(self, modules: set[str], imports: Any) -> None:
        self.modules, self.imports = modules, imports
        ours, theirs = socket.socketpair()
        with theirs:
            process = Process(target=_server.serve_with, args=(theirs, sorted(modules)), daemon=True)
            self._popen = _Popen(process, set())
        # It says nothing, too, where importing a module ended it.
        self.control = ours if ours.recv(1) == _server.YES else None
        if self.control is None:
            ours.close()

    def has_ended(self) -> bool:
        """Return whether it was to serve and does not."""
        return self.control is not None and self._popen.poll() is not None

    def __del__(self) -> None:
        if self.control is not None:
            self.control.close()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


_PROGRAM = """\
import os, sys
sys.path[:] = {path!r}
os.environ.update({environ!r})
from torchgrad_jax.multiprocessing import _warm
from torchgrad_jax.multiprocessing._server import main
main({fd}, {program})
"""
_OF_SERVER = {"JAX_PLATFORMS": "cpu", **_server.ONE_THREAD}
"""Workers compute on one thread of the CPU each: an accelerator belongs to the program that trains."""


def _start(fd: int) -> int:
    path = [p for p in sys.path if p != _surroundings.shim()]
    text = _PROGRAM.format(path=path, environ=_OF_SERVER, fd=fd, program=os.getpid())
    args = [sys.executable, *util._args_from_interpreter_flags(), "-c", text]  # type: ignore[attr-defined]
    # The server ignores Ctrl-C, and does not see it before it does.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return util.spawnv_passfds(os.fsencode(sys.executable), args, [fd])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


SERVER = _Server()
atexit.register(SERVER.stop)


def warm_up() -> None:
    """Begin to start the server, without waiting for it, where it is likely to be needed."""
    if not process.current_process().daemon:
        with contextlib.suppress(OSError):  # said when workers are started
            SERVER.ensure()


class _Popen(popen_fork.Popen):
    method = "forkserver"
    DupFd = _child.Inherited

    def __init__(self, process_obj: Any, modules: set[str] | None = None) -> None:
        self._descriptors: list[int] = []
        self._modules = modules
        super().__init__(process_obj)

    def duplicate_for_child(self, fd: int) -> int:
        """For what is pickled for the child and needs a descriptor."""
        self._descriptors.append(fd)
        return len(self._descriptors) - 1

    def _launch(self, process_obj: Any) -> None:
        multiprocessing.context.set_spawning_popen(self)  # type: ignore[arg-type]
        try:
            surroundings = _surroundings.taken(process_obj._name)
            job = Parcel(process_obj)
            rest = pickle.dumps((surroundings, job), pickle.HIGHEST_PROTOCOL)
            parts = pickle.dumps((*_surroundings.imports(), rest), pickle.HIGHEST_PROTOCOL)
        finally:
            multiprocessing.context.set_spawning_popen(None)
        first = _memory.Segment(len(parts))
        first.bytes[: len(parts)] = memoryview(parts)
        read, write = os.pipe()
        streams = _standard_streams()
        try:
            fds = [write, *streams, first.fd, *self._descriptors]
            self.pid = SERVER.fork(len(streams), fds, job.modules if self._modules is None else self._modules)
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        # A semaphore is there for as long as the object that made it.
        self.sentinel, self._kept = read, (job, process_obj._args, process_obj._kwargs)
        self.finalizer = util.Finalize(self, os.close, (read,))

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            waits = None if flag == 0 else 0
            look = select.poll()
            look.register(self.sentinel, select.POLLIN)
            if not look.poll(waits):
                return None
            told = os.read(self.sentinel, _server.STATUS.size)
            # Nothing is told by a server that was killed: its children were, too.
            self.returncode = _server.STATUS.unpack(told)[0] if told else -signal.SIGKILL
            self._kept = None
        return self.returncode


def _standard_streams() -> list[int]:
    """The program's output and errors as they are now."""
    for fd in (1, 2):
        try:
            os.fstat(fd)
        except OSError:
            return []
    return [1, 2]


class Process(process.BaseProcess):
    """A process that is forked from the server."""

    _start_method = "forkserver"

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Popen(process_obj)


class ForkServerContext(multiprocessing.context.BaseContext):
    """A context of `multiprocessing` whose processes are forked from the server."""

    _name = "forkserver"
    Process = Process

    def Queue(self, maxsize: int = 0) -> Any:
        """A queue; one of limited size is Python's."""
        return Queue() if maxsize <= 0 else super().Queue(maxsize)

    def Event(self) -> Any:
        """A flag."""
        return Event()


CONTEXT = ForkServerContext()
