"""Workers, how orders reach them, and how their answers come back."""

from __future__ import annotations

import contextlib
import copyreg
import multiprocessing
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

from ...._core.arrays import devices
from ...._engine.tensor.copying import _Holder
from .worker import Job, caught, introduce, work

PATIENCE = 5.0
"""Seconds that workers have to finish what they are at before they are ended."""

Answer = tuple[int, Any, Any]
"""Who answers, the order's number, and what was fetched."""


class Crew(Protocol):
    """Some workers."""

    def name(self, worker: int) -> str:
        """What errors call a worker."""
        ...

    def send(self, worker: int, order: Any) -> None:
        """Give a worker an order; None lets it end."""
        ...

    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker, without a number from one that ended; None where none came in time."""
        ...

    def close(self) -> None:
        """Let all workers end."""
        ...


class Threads:
    """Workers in this process: they start at once, and share the dataset and the memory."""

    def __init__(self, job: Job) -> None:
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._orders: list[queue.SimpleQueue[Any]] = []
        for i in range(job.num_workers):
            orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
            self._orders.append(orders)
            args = (job, i, orders, self._answers)
            threading.Thread(target=_in_a_thread, args=args, daemon=True).start()

    def name(self, worker: int) -> str:
        """What errors call a worker."""
        return f"thread {worker}"

    def send(self, worker: int, order: Any) -> None:
        """Give a worker an order; None lets it end."""
        self._orders[worker].put(order)

    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker; None where none came in time."""
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Let all workers end."""
        for orders in self._orders:
            orders.put(None)


def _in_a_thread(job: Job, worker: int, orders: Any, answers: Any) -> None:
    introduce(job, worker, thread=True)
    try:
        with contextlib.suppress(SystemExit):  # ends the worker, as it would a process
            work(job, worker, orders.get, lambda number, data: answers.put((worker, number, data)))
    finally:
        answers.put((worker, None, None))


class Processes:
    """Workers in processes of their own, started afresh: a forked copy of a process that runs JAX hangs."""

    def __init__(self, job: Job, context: Any) -> None:
        pickled = to_bytes(job)
        self._orders: list[Connection] = []
        self.processes: list[Any] = []
        self._answers: queue.SimpleQueue[tuple[int, tuple[bytes, list[bytes]] | None]] = queue.SimpleQueue()
        sources: dict[Connection, int] = {}
        self._ended = False
        try:
            with _on_the_host():
                for i in range(job.num_workers):
                    sources[self._start(context, pickled, i)] = i
        except BaseException:
            self.close()
            raise
        threading.Thread(target=_collect, args=(sources, self._answers), daemon=True).start()

    def _start(self, context: Any, pickled: bytes, worker: int) -> Connection:
        """Start a worker; where its answers are read."""
        theirs, orders = context.Pipe(duplex=False)
        answers, ours = context.Pipe(duplex=False)
        _widen(answers)
        args = (pickled, worker, theirs, ours)
        process = context.Process(target=_in_a_process, args=args, daemon=True)
        process.start()
        # The worker has the other ends alone, so that either side sees when the other one ends.
        theirs.close()
        ours.close()
        self._orders.append(orders)
        self.processes.append(process)
        return answers

    def name(self, worker: int) -> str:
        """What errors call a worker."""
        return f"pid(s) {self.processes[worker].pid}"

    def send(self, worker: int, order: Any) -> None:
        """Give a worker an order; None lets it end."""
        # One that is gone is noticed by its answers, which end.
        with contextlib.suppress(OSError):
            self._orders[worker].send_bytes(pickle.dumps(order))

    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker; None where none came in time."""
        try:
            worker, data = self._answers.get(timeout=timeout)
        except queue.Empty:
            return None
        if data is None:
            return worker, None, None
        pickled, arrays = data
        return worker, *pickle.loads(pickled, buffers=arrays)

    def close(self) -> None:
        """Let all workers end."""
        if self._ended:
            return
        self._ended = True
        for i, orders in enumerate(self._orders):
            self.send(i, None)
            orders.close()
        until = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.terminate()
                process.join(PATIENCE)


def _collect(sources: dict[Connection, int], answers: Any) -> None:
    """Read what workers send as it comes, so that none of them waits for a full pipe; None at its end."""
    while sources:
        for source in wait(list(sources)):
            assert isinstance(source, Connection)
            try:
                answers.put((sources[source], _receive(source)))
            except (EOFError, OSError):
                answers.put((sources.pop(source), None))
                source.close()


@contextlib.contextmanager
def _on_the_host() -> Iterator[None]:
    """Processes started inside compute on CPUs: an accelerator belongs to the process that trains."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAX_PLATFORMS"]
        else:
            os.environ["JAX_PLATFORMS"] = before


def _in_a_process(pickled: bytes, worker: int, orders: Connection, answers: Connection) -> None:
    def send(number: Any, data: Any) -> None:
        try:
            _send(answers, (number, data))
        except BrokenPipeError:
            raise
        except Exception:  # whatever stands in the way of sending it, told instead
            _send(answers, (number, caught(worker)))

    def receive() -> Any:
        try:
            return pickle.loads(orders.recv_bytes())
        except (EOFError, OSError):  # the main process is gone
            return None

    # A program that is interrupted, or gone, says so itself.
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        try:
            job = pickle.loads(pickled)
        except Exception:  # of the program's classes: told instead of a first batch
            trouble = caught(worker)
            while (order := receive()) is not None:
                send(order[0] if isinstance(order, tuple) else order, trouble)
            return
        introduce(job, worker, thread=False)
        work(job, worker, receive, send)


# --- tensors on their way -------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Pickles what `multiprocessing` can send, and tensors so that those on the default device of one process
    become tensors on that of the other."""

    def __init__(self, file: BytesIO, apart: Callable[[pickle.PickleBuffer], Any] | None) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL, buffer_callback=apart)
        known: dict[Any, Any] = getattr(ForkingPickler, "_extra_reducers", {})
        self.dispatch_table = {**copyreg.dispatch_table, **known, _Holder: _reduce_storage}


def _reduce_storage(holder: _Holder) -> Any:
    rebuild, args = holder.__reduce__()
    if holder.storage.meta.device != devices.default_device():
        return rebuild, args
    return _rebuild_here, args[:-1]


def _rebuild_here(values: Any, dtype: str, shape: Any, strides: Any) -> Any:
    from ...._engine.tensor.copying import _rebuild_holder

    return _rebuild_holder(values, dtype, shape, strides, str(devices.default_device()))


def to_bytes(obj: Any) -> bytes:
    """An object for another process, with what `multiprocessing` can send besides."""
    file = BytesIO()
    _Pickler(file, None).dump(obj)
    return file.getvalue()


def _send(connection: Connection, obj: Any) -> None:
    """Send an object: its pickle and, so that they are not copied once more, its arrays one by one."""
    file, arrays = BytesIO(), list[memoryview]()

    def apart(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # neither in C's nor in Fortran's order
            return True
        if raw.nbytes >= _WORTH_IT:
            arrays.append(raw)
        return raw.nbytes < _WORTH_IT

    _Pickler(file, apart).dump(obj)
    connection.send_bytes(pickle.dumps((len(arrays), file.getvalue())))
    for array in arrays:
        connection.send_bytes(array)


_WORTH_IT = 1 << 14
"""Bytes from which on an array is sent by itself."""


def _receive(connection: Connection) -> tuple[bytes, list[bytes]]:
    """What `_send` sent, for `pickle.loads`."""
    n, pickled = pickle.loads(connection.recv_bytes())
    return pickled, [connection.recv_bytes() for _ in range(n)]


def _widen(connection: Connection) -> None:
    """Let a pipe hold a megabyte where the system can: fewer and larger pieces."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(connection.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)


def context_of(chosen: Any) -> Any:
    """The context in which workers are processes, or None where they are threads.

    They are processes where the program asked for a way to start them that is safe: with
    `multiprocessing_context` or `set_start_method`.
    """
    if chosen is not None:
        return chosen
    method = multiprocessing.get_start_method(allow_none=True)
    return multiprocessing.get_context(method) if method in ("spawn", "forkserver") else None
