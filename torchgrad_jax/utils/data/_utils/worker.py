"""What a worker does, in a process or in a thread, and who it is."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...._core.errors.remote_errors import ExceptionWrapper
from ...._functions.random import Generator, manual_seed
from .. import graph_settings
from . import fetch


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker among several, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


class Running(threading.local):
    """Who a thread is."""

    info: WorkerInfo | None = None


RUNNING = Running()
_worker_info: WorkerInfo | None = None
"""Set by loaders of other packages, in worker processes."""


def get_worker_info() -> WorkerInfo | None:
    """The worker that the caller runs in; None in the program itself."""
    return RUNNING.info or _worker_info


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """An answer: the worker's part of a stream is at its end."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """An order: start over; answered by itself."""

    seed: int | None = None


class ManagerWatchdog:
    """Whether the process that this one was forked from, and with it the program, still runs."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()

    def is_alive(self) -> bool:
        """Return whether it does."""
        return os.getppid() == self.manager_pid


@dataclass(frozen=True)
class Job:
    """What all workers of a loader have to know."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int
    base_seed: int
    shared_seed: int | None = None

    def fetcher(self) -> fetch._BaseDatasetFetcher:
        """Read the dataset, from its start if it is a stream."""
        kind = fetch._IterableDatasetFetcher if self.dataset_kind else fetch._MapDatasetFetcher
        return kind(self.dataset, self.auto_collation, self.collate_fn, self.drop_last)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seed that torch gives NumPy's global generator in a worker."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


def introduce(job: Job, worker: int, method: str = "multiprocessing") -> None:
    """Seed what the worker draws from, and make `get_worker_info` know it."""
    seed = job.base_seed + worker
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_generate_state(job.base_seed, worker))  # noqa: NPY002 - torch seeds the global one
    RUNNING.info = WorkerInfo(worker, job.num_workers, seed, job.dataset, None, method)


def caught(worker: int) -> ExceptionWrapper:
    """The exception that is being handled, to be raised in the program."""
    return ExceptionWrapper(where=f"in DataLoader worker process {worker}")


class Worker:
    """A worker at its work, whose orders are answered one by one."""

    def __init__(self, job: Job, worker: int) -> None:
        self._job, self._worker = job, worker
        self._ended = False
        self._trouble: ExceptionWrapper | None = None
        self._seed_pipes(job.shared_seed)
        try:
            if job.worker_init_fn is not None:
                job.worker_init_fn(worker)
            self._fetcher = job.fetcher()
        except Exception:  # whatever it is, raised where a batch of this worker is asked for
            self._trouble = caught(worker)

    def answer(self, order: Any) -> Any:
        """The answer to an order; None where there is none to give."""
        if isinstance(order, _ResumeIteration):
            self._start_over(order.seed)
            return order, None
        if self._ended:
            return None
        number, index = order
        return number, self._fetched(index)

    def _seed_pipes(self, seed: int | None) -> None:
        """Data pipes are seeded alike in all workers."""
        if seed is not None:
            graph_settings.apply_random_seed(self._job.dataset, Generator().manual_seed(seed))

    def _start_over(self, seed: int | None) -> None:
        self._ended = False
        self._seed_pipes(seed)
        try:
            self._fetcher, self._trouble = self._job.fetcher(), None
        except Exception:  # the same when it begins again
            self._trouble = caught(self._worker)

    def _fetched(self, index: Any) -> Any:
        if self._trouble is not None:
            return self._trouble
        try:
            return self._fetcher.fetch(index)
        except StopIteration:
            self._ended = bool(self._job.dataset_kind)
            return _IterableDatasetStopIteration(self._worker) if self._ended else caught(self._worker)
        except Exception:  # of the dataset's code: raised where the batch is asked for
            return caught(self._worker)
