"""One pass over a dataset: batches made when they are asked for, or ahead by workers."""

from __future__ import annotations

import functools
import itertools
import time
from typing import Any, Self

from ..._core.errors import warn
from ..._core.errors.remote_errors import ExceptionWrapper
from ..._functions.random import Generator
from ...accelerator import current_accelerator, is_available
from ...autograd.profiler import record_function
from ...distributed import get_rank, get_world_size, is_initialized
from . import _draw, _utils, graph_settings
from ._utils import fetch
from ._utils.crew import Crew, crew_of
from ._utils.pin_memory import pin_memory
from ._utils.worker import Job, _IterableDatasetStopIteration, _ResumeIteration, get_worker_info
from .datapipes.datapipe import IterDataPipe, MapDataPipe


class _DatasetKind:
    """What a loader reads: examples by index, or a stream of them."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> fetch._BaseDatasetFetcher:
        """Return what makes batches of a dataset."""
        made = fetch._IterableDatasetFetcher if kind == _DatasetKind.Iterable else fetch._MapDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


def _sharding_worker_init_fn(worker_init_fn: Any, world_size: int, rank_id: int, worker_id: int) -> None:
    """For a worker: tell the data pipes which part is its own, then call the program's function."""
    info = get_worker_info()
    assert info is not None
    own = worker_id * world_size + rank_id
    graph_settings.apply_sharding(info.dataset, info.num_workers * world_size, own)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _BaseDataLoaderIter:
    """What both kinds share: the order of indices, and the count of batches."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._shared_seed: int | None = None
        self._share_seed(loader)
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers, self._persistent_workers = loader.num_workers, loader.persistent_workers
        several = is_initialized()
        self._world_size, self._rank = (get_world_size(), get_rank()) if several else (1, 0)
        self._set_pinning(loader)
        self._timeout, self._collate_fn = loader.timeout, loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        # Drawn in any case, as torch does, and before the first index is.
        self._base_seed = _draw.seed(loader.generator)
        self._num_yielded = 0

    def _set_pinning(self, loader: Any) -> None:
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
        self._pin_memory = loader.pin_memory and is_available()
        device = current_accelerator() if self._pin_memory else None
        self._pin_memory_device = None if device is None else device.type

    def _share_seed(self, loader: Any) -> None:
        """Seed the data pipes of the program as those of all workers will be."""
        if isinstance(self._dataset, IterDataPipe):
            self._shared_seed = _draw.seed(loader.generator)
            graph_settings.apply_random_seed(self._dataset, Generator().manual_seed(self._shared_seed))

    def _fetcher(self) -> fetch._BaseDatasetFetcher:
        kind, batched = self._dataset_kind, self._auto_collation
        return _DatasetKind.create_fetcher(kind, self._dataset, batched, self._collate_fn, self._drop_last)

    def __iter__(self) -> Self:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._share_seed(loader)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        with record_function(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            data = self._next_data()
            self._num_yielded += 1
            said = self._IterableDataset_len_called
            if self._dataset_kind == _DatasetKind.Iterable and said is not None and self._num_yielded > said:
                self._warn_of_length()
            return data

    def _warn_of_length(self) -> None:
        said = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._IterableDataset_len_called}"
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
        if isinstance(self._dataset, IterDataPipe | MapDataPipe):
            graph_settings.apply_sharding(self._dataset, self._world_size, self._rank)
        self._dataset_fetcher = self._fetcher()

    def _next_data(self) -> Any:
        data = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(data, self._pin_memory_device) if self._pin_memory else data


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches made ahead by workers, handed out in the order in which they were ordered."""

    _crew: Crew | None = None

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._in_order, self._prefetch_factor = loader.in_order, loader.prefetch_factor
        self._crew = crew_of(self._job(loader), loader.multiprocessing_context, loader._sent)
        self._workers = getattr(self._crew, "processes", [])
        self._reset(loader, first_iter=True)

    def _job(self, loader: Any) -> Job:
        begin = loader.worker_init_fn
        if isinstance(self._dataset, IterDataPipe | MapDataPipe):
            begin = functools.partial(_sharding_worker_init_fn, begin, self._world_size, self._rank)
        return Job(
            dataset_kind=self._dataset_kind,
            dataset=self._dataset,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            worker_init_fn=begin,
            num_workers=self._num_workers,
            base_seed=self._base_seed,
            shared_seed=self._shared_seed,
        )

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
        for _ in range(self._prefetch_factor * n):
            self._order()

    def _start_over(self) -> None:
        assert self._crew is not None
        again = _ResumeIteration(self._shared_seed)
        for i in range(self._num_workers):
            self._crew.send(i, again)
        waiting = self._num_workers
        while waiting:  # what was still under way from the pass before is dropped
            _, number, _ = self._receive()
            waiting -= isinstance(number, _ResumeIteration) or number is None

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
        return at_it < self._prefetch_factor * self._num_workers // sum(self._alive)

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
            if isinstance(data, _IterableDatasetStopIteration):
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
        return pin_memory(data, self._pin_memory_device) if self._pin_memory else data

    def _shutdown_workers(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()

    def __del__(self, utils: Any = _utils) -> None:
        if utils.python_exit_status is False:  # when a program ends, so do its workers
            self._shutdown_workers()
