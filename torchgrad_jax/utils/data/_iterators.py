"""One pass over a dataset: batches made when they are asked for, or ahead by workers."""

from __future__ import annotations

import itertools
import time
from typing import Any, Self

from ..._core.errors import warn
from ..._core.errors.carried import ExceptionWrapper
from ...accelerator import is_available
from ...autograd.profiler import record_function
from . import _draw
from ._utils.crew import Crew, Processes, Threads, context_of
from ._utils.worker import AGAIN, Ended, Job


class _BaseDataLoaderIter:
    """What both kinds share: the order of indices, and the count of batches."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._iterable = loader._dataset_kind == 1
        self._reported_length = loader._IterableDataset_len_called
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        if loader.pin_memory and loader.pin_memory_device:
            warn.to_user(
                "pin_memory_device is deprecated, the current accelerator will be used as the device,"
                f"ignore pin_memory_device='{loader.pin_memory_device}'."
            )
        if loader.pin_memory and not is_available():
            warn.to_user(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't "
                "be used."
            )
        self._sampler_iter = iter(self._index_sampler)
        # Drawn in any case, as torch does, and before the first index is.
        self._base_seed = _draw.seed(loader.generator)
        self._num_yielded = 0
        self._job = Job(
            dataset=loader.dataset,
            iterable=self._iterable,
            batched=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            worker_init_fn=loader.worker_init_fn,
            num_workers=loader.num_workers,
            base_seed=self._base_seed,
        )

    def __iter__(self) -> Self:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._reported_length = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            data = self._next_data()
            self._num_yielded += 1
            if self._iterable and self._reported_length is not None and self._num_yielded > self._reported_length:
                self._warn_of_length()
            return data

    def _warn_of_length(self) -> None:
        said = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._reported_length}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            said += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warn.to_user(said)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches made when they are asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        for name in ("timeout", "num_workers"):
            if getattr(loader, name) != 0:
                raise AssertionError(f"{type(self).__name__} requires {name} == 0")
        self._fetch = self._job.fetcher()

    def _next_data(self) -> Any:
        return self._fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches made ahead by workers, handed out in the order in which they were ordered."""

    _crew: Crew | None = None

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._timeout, self._in_order = loader.timeout, loader.in_order
        self._ahead: int = loader.prefetch_factor
        self._persistent_workers = loader.persistent_workers
        context = context_of(loader.multiprocessing_context)
        self._crew = Threads(self._job) if context is None else Processes(self._job, context)
        self._workers = getattr(self._crew, "processes", [])
        self._reset(loader, first_iter=True)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        n = self._num_workers
        self._sent = self._due = 0
        # Who is at which order, and what came before its turn.
        self._who: dict[int, int] = {}
        self._arrived: dict[int, Any] = {}
        self._alive = [True] * n
        # Workers that ended on their own, of which nobody was told yet.
        self._lost: set[int] = set()
        self._turns = itertools.cycle(range(n))
        if not first_iter:
            self._start_over()
        for _ in range(self._ahead * n):
            self._order()

    def _start_over(self) -> None:
        assert self._crew is not None
        for i in range(self._num_workers):
            self._crew.send(i, AGAIN)
        waiting = self._num_workers
        while waiting:  # what was still under way from the pass before is dropped
            _, number, _ = self._receive()
            waiting -= number == AGAIN or number is None

    def _order(self) -> None:
        """Order the next batch, if there is one, from the next worker whose turn it is."""
        try:
            index = self._next_index()
        except StopIteration:
            return
        for _ in range(self._num_workers):
            worker = next(self._turns)
            if self._alive[worker] and (self._in_order or self._has_room(worker)):
                break
        else:
            return
        assert self._crew is not None
        self._crew.send(worker, (self._sent, index))
        self._who[self._sent] = worker
        self._sent += 1

    def _has_room(self, worker: int) -> bool:
        at_it = sum(w == worker for w in self._who.values())
        return at_it < self._ahead * self._num_workers // sum(self._alive)

    def _receive(self) -> tuple[int, Any, Any]:
        """The next answer, of whomever; without a number from a worker that ended on its own."""
        assert self._crew is not None
        until = time.monotonic() + self._timeout if self._timeout else None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            answer = self._crew.receive(left)
            if answer is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            worker, number, _ = answer
            if number is not None:
                return answer
            if self._alive[worker]:
                self._alive[worker] = False
                self._lost.add(worker)
                return answer

    def _next_data(self) -> Any:
        while True:
            self._skip_what_nobody_makes()
            if self._due in self._arrived:
                data = self._arrived.pop(self._due)
                return self._hand_out(self._due, data)
            if self._due == self._sent:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            worker, number, data = self._receive()
            if number is None:
                continue
            if isinstance(data, Ended):
                self._alive[worker] = False
                if not self._persistent_workers:
                    assert self._crew is not None
                    self._crew.send(worker, None)
                self._order()
            elif number == self._due or not self._in_order:
                return self._hand_out(number, data)
            else:
                self._arrived[number] = data

    def _skip_what_nobody_makes(self) -> None:
        while self._due < self._sent and self._due not in self._arrived:
            worker = self._who.get(self._due)
            if worker is not None and self._alive[worker]:
                return
            self._who.pop(self._due, None)
            self._due += 1
            if worker in self._lost:
                assert self._crew is not None
                self._lost.discard(worker)
                name = self._crew.name(worker)
                raise RuntimeError(f"DataLoader worker ({name}) exited unexpectedly")

    def _hand_out(self, number: int, data: Any) -> Any:
        self._who.pop(number, None)
        if number == self._due:
            self._due += 1
        self._order()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _shutdown_workers(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()

    def __del__(self) -> None:
        self._shutdown_workers()
