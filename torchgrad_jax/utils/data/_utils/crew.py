"""Workers, how orders reach them, and how their answers come back."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import queue
import random
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ...._core.errors import warn
from ...._core.random.generator import OWN
from ...._core.signals import contextmanager, restore
from ...._functions.random import Generator
from ...._settings import set_num_threads
from ....multiprocessing import _carrying, _forks, _surroundings
from ....multiprocessing._memory import POSSIBLE
from ....multiprocessing._parcel import Parcel
from ....multiprocessing._queue import Queue
from . import collate, copies
from .worker import Job, Worker, caught, introduce

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


def crew_of(job: Job, chosen: Any, kept: list[Any]) -> Crew:
    """Workers for a job: processes, or threads where it cannot be sent to processes and nobody asked for these.

    Args:
        job: what they are to do.
        chosen: the context of `multiprocessing` that the program asked for; None where it did not.
        kept: what the last call for this loader left here, so that large arrays are not copied again.
    """
    context = context_of(chosen)
    if context is not None:
        try:
            kept[:] = [Parcel(job)]
        except Exception as error:  # whatever pickling the program's objects raises
            if context is not _forks.CONTEXT:
                raise
            _warn_of_threads(job, error)
        else:
            return Processes(kept[0], job.num_workers, context)
    return Threads(job)


def context_of(chosen: Any) -> Any:
    """The context that starts the processes of workers; None where they can only be threads."""
    if chosen is not None:
        return chosen
    method = multiprocessing.get_start_method(allow_none=True)
    if method in ("spawn", "forkserver"):
        return multiprocessing.get_context(method)
    return _forks.CONTEXT if POSSIBLE else None


_WARNED: set[str] = set()


def _warn_of_threads(job: Job, error: Exception) -> None:
    what = copies.obstacle(job, error)
    if what not in _WARNED:
        _WARNED.add(what)
        warn.to_user(
            f"The workers of this DataLoader are threads, since {what} cannot be sent to a process. Each has a copy of "
            "the dataset, and they work one at a time, while the program waits for a batch. They become processes, "
            "and faster, if the dataset opens it in each worker, where it is first used or in worker_init_fn."
        )


# --- threads --------------------------------------------------------------------------------------


class _Turns:
    """Lets one worker work at a time, and only while the program waits: they share the generators of a process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0
        self._states: dict[int, Any] = {}
        """By thread, those of its worker."""
        self._at_work: int | None = None
        self._outside: Any = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A worker's turn: the generators are its own."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._waiting and self._at_work is None)
            self._begin(me)
        try:
            yield
        finally:
            with self._changed:
                self._finish(me)

    def _begin(self, me: int) -> None:
        self._at_work, self._outside = me, _states()
        if me in self._states:
            _restore(self._states[me])

    def _finish(self, me: int) -> None:
        if self._at_work == me:  # and the program did not give up waiting
            self._states[me] = _states()
            _restore(self._outside)
            self._at_work = None
            self._changed.notify_all()

    @contextmanager
    def given(self, until: float | None) -> Iterator[None]:
        """Inside, workers get their turns; after it none is at work."""
        me = threading.get_ident()
        with self._changed:
            inner = self._at_work == me  # a worker that has workers of its own
            if inner:
                self._finish(me)
            self._waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1
                left = None if until is None else max(until - time.monotonic(), 0.0)
                if self._waiting == 0 and not self._changed.wait_for(lambda: self._at_work is None, left):
                    _restore(self._outside)
                    self._at_work = None
                if inner:
                    self._changed.wait_for(lambda: self._at_work is None)
                    self._begin(me)

    def forget(self, me: int) -> None:
        """A worker has ended."""
        with self._changed:
            self._states.pop(me, None)


_TURNS = _Turns()


def _states() -> Any:
    return random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002 - the global one


def _restore(states: Any) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002


class Threads:
    """Workers in this process, each with a copy of the dataset."""

    def __init__(self, job: Job) -> None:
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._orders: list[queue.SimpleQueue[Any]] = []
        for i in range(job.num_workers):
            orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
            self._orders.append(orders)
            args = (*copies.copied(job), i, orders, self._answers, _surroundings.modes())
            threading.Thread(target=_in_a_thread, args=args, daemon=True).start()

    def name(self, worker: int) -> str:
        """What errors call a worker."""
        return f"thread {worker}"

    def send(self, worker: int, order: Any) -> None:
        """Give a worker an order; None lets it end."""
        self._orders[worker].put(order)

    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker; None where none came in time."""
        with contextlib.suppress(queue.Empty):
            return self._answers.get_nowait()
        until = None if timeout is None else time.monotonic() + timeout
        with _TURNS.given(until):
            try:
                return self._answers.get(timeout=timeout)
            except queue.Empty:
                return None

    def close(self) -> None:
        """Let all workers end."""
        for orders in self._orders:
            orders.put(None)


def _in_a_thread(job: Job, files: list[Any], worker: int, orders: Any, answers: Any, modes: Any) -> None:
    OWN.generator = Generator()
    _surroundings.set_modes(modes)
    try:
        with contextlib.suppress(SystemExit):  # ends the worker, as it would a process
            first = orders.get()
            if first is None:
                return
            with _TURNS.taken():
                introduce(job, worker, "thread")
                made = Worker(job, worker)
            while first is not None:
                with _TURNS.taken():
                    answer = made.answer(first)
                if answer is not None:
                    answers.put((worker, *answer))
                first = orders.get()
    finally:
        _TURNS.forget(threading.get_ident())
        for file in files:
            file.close()
        answers.put((worker, None, None))


# --- processes ------------------------------------------------------------------------------------


class Processes:
    """Workers in processes of their own."""

    def __init__(self, parcel: Parcel, num_workers: int, context: Any) -> None:
        self._ended, self._owner = False, os.getpid()
        self._answers = Queue()
        self._orders: list[Queue] = []
        self.processes: list[Any] = []
        self._running: dict[int, int] = {}
        """By sentinel, the workers that have not ended, and those that have, of which nobody was told yet."""
        self._gone: list[int] = []
        self._dead: set[int] = set()
        try:
            with contextlib.nullcontext() if context is _forks.CONTEXT else _on_the_host():
                for i in range(num_workers):
                    self._start(context, parcel, i)
        except BaseException:
            self.close()
            raise
        self._answers.only_reads()

    def _start(self, context: Any, parcel: Parcel, worker: int) -> None:
        orders = Queue()
        process = context.Process(target=in_a_process, args=(parcel, worker, orders, self._answers), daemon=True)
        process.start()
        # The worker has the other end alone, so that it sees when the program is gone.
        orders.only_writes()
        self._orders.append(orders)
        self.processes.append(process)
        self._running[process.sentinel] = worker

    def name(self, worker: int) -> str:
        """What errors call a worker."""
        return f"pid(s) {self.processes[worker].pid}"

    def send(self, worker: int, order: Any) -> None:
        """Give a worker an order; None lets it end."""
        if worker in self._dead:
            self._gone.append(worker)
        with contextlib.suppress(OSError):  # one that is gone is noticed by its sentinel
            self._orders[worker].put(order)

    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker; None where none came in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            left = 0.0 if self._gone else left
            ready = multiprocessing.connection.wait([self._answers.fileno(), *self._running], left)
            # A worker that has ended may have answered before.
            with contextlib.suppress(queue.Empty, EOFError):
                return _carrying.loads(self._answers.receive(block=False))
            self._gone += [self._running.pop(s) for s in ready if s in self._running]  # type: ignore[index]
            if self._gone:
                self._dead.add(self._gone[-1])
                return self._gone.pop(), None, None
            if not ready:
                return None

    def close(self) -> None:
        """Let all workers end."""
        if self._ended or self._owner != os.getpid():  # a fork of the program that started them
            return
        self._ended = True
        for orders in self._orders:
            with contextlib.suppress(OSError):
                orders.put(None)
            orders.cancel_join_thread()
            orders.close()
        self._answers.cancel_join_thread()
        self._answers.close()
        until = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(PATIENCE)


@contextmanager
def _on_the_host() -> Iterator[None]:
    """Processes started inside compute on CPUs: an accelerator belongs to the process that trains."""
    before = os.environ.get("JAX_PLATFORMS")

    def put_back() -> None:
        if before is None:
            os.environ.pop("JAX_PLATFORMS", None)
        else:
            os.environ["JAX_PLATFORMS"] = before

    try:
        os.environ["JAX_PLATFORMS"] = "cpu"
        yield
    finally:
        restore(put_back)


def in_a_process(parcel: Any, worker: int, orders: Queue, answers: Queue) -> None:
    """What the process of a worker does."""
    orders.only_reads()
    answers.only_writes()
    _carrying.IN_WORKER.append(True)
    # A program that is interrupted, or gone, says so itself.
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError, ConnectionResetError, EOFError):
        set_num_threads(1)
        collate.PLACES.append(answers.pool)
        made = _made(parcel, worker)
        while (order := orders.get()) is not None:
            answer = made(order)
            if answer is not None:
                _tell(answers, worker, *answer)
    answers.join_thread()


def _made(parcel: Any, worker: int) -> Any:
    """Return what answers orders."""
    try:
        job = parcel.open()
    except Exception:  # of the program's classes: told instead of a batch
        trouble = caught(worker)
        return lambda order: (order[0], trouble) if isinstance(order, tuple) else (order, None)
    introduce(job, worker)
    return Worker(job, worker).answer


def _tell(answers: Queue, worker: int, number: Any, data: Any) -> None:
    try:
        answers.put((worker, number, data))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception:  # whatever stands in the way of sending it, told instead
        answers.put((worker, number, caught(worker)))
