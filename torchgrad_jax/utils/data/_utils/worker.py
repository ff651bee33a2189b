"""What a worker does, in a thread or in a process of its own, and who it is."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...._core.errors.carried import ExceptionWrapper
from ...._core.random.generator import OWN
from ...._functions.random import Generator, manual_seed
from .fetch import Fetcher


@dataclass(frozen=True, slots=True)
class RandomState:
    """Generators of a worker that is a thread: those of `random` and NumPy are shared by a whole process."""

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: Any = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker among several, its seed and its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: RandomState | None = None
    worker_method: str | None = "multiprocessing"


class _Running(threading.local):
    info: WorkerInfo | None = None


RUNNING = _Running()


def get_worker_info() -> WorkerInfo | None:
    """The worker that the caller runs in; None in the main thread."""
    return RUNNING.info


@dataclass(frozen=True)
class Job:
    """What all workers of a loader have to know."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int
    base_seed: int

    def fetcher(self) -> Fetcher:
        """Reads the dataset, from its start if it is a stream."""
        return Fetcher(self.dataset, self.iterable, self.batched, self.collate_fn, self.drop_last)


@dataclass(frozen=True)
class Ended:
    """An answer: the worker's part of a stream is at its end."""


AGAIN = "again"
"""An order: start over; answered by itself."""


def numpy_seed(base_seed: int, worker: int) -> list[int]:
    """The seed that torch gives NumPy's global generator in a worker."""
    words = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


_generate_state = numpy_seed


def introduce(job: Job, worker: int, *, thread: bool) -> None:
    """Seed what the worker draws from, and make `get_worker_info` know it."""
    seed = job.base_seed + worker
    rng = None
    if thread:
        OWN.generator = own = Generator().manual_seed(seed)
        numpys = np.random.default_rng(numpy_seed(job.base_seed, worker))
        rng = RandomState(random.Random(seed), own, numpys)
    else:
        random.seed(seed)
        manual_seed(seed)
        np.random.seed(numpy_seed(job.base_seed, worker))  # noqa: NPY002 - torch seeds the global one
    method = "thread" if thread else "multiprocessing"
    RUNNING.info = WorkerInfo(worker, job.num_workers, seed, job.dataset, rng, method)


def caught(worker: int) -> ExceptionWrapper:
    """The exception that is being handled, to be raised in the main thread."""
    return ExceptionWrapper(where=f"in DataLoader worker process {worker}")


def work(job: Job, worker: int, receive: Callable[[], Any], send: Callable[[Any, Any], None]) -> None:
    """Answer orders, (number, index) pairs, until None comes."""
    fetch: Fetcher | None = None
    trouble: ExceptionWrapper | None = None
    try:
        if job.worker_init_fn is not None:
            job.worker_init_fn(worker)
        fetch = job.fetcher()
    except Exception:  # whatever it is, told to whoever asks this worker for a batch
        trouble = caught(worker)
    ended = False
    while (order := receive()) is not None:
        if order == AGAIN:
            ended = False
            try:
                fetch, trouble = job.fetcher(), None
            except Exception:  # the same when it begins again
                trouble = caught(worker)
            send(AGAIN, None)
            continue
        if ended:
            continue
        number, index = order
        if trouble is not None or fetch is None:
            send(number, trouble)
            continue
        try:
            send(number, fetch(index))
        except StopIteration:
            ended = job.iterable
            send(number, Ended() if ended else caught(worker))
        except Exception:  # of the dataset's code: raised where the batch is asked for
            send(number, caught(worker))
