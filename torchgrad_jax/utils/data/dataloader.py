"""DataLoader: batches of a dataset, in the order that torch would give them in."""

from __future__ import annotations

import functools
import math
import multiprocessing
import multiprocessing.context
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..._core.errors import warn
from ...multiprocessing._forks import CONTEXT, warm_up
from ._iterators import (
    _BaseDataLoaderIter as _BaseDataLoaderIter,
    _DatasetKind as _DatasetKind,
    _MultiProcessingDataLoaderIter as _MultiProcessingDataLoaderIter,
    _sharding_worker_init_fn as _sharding_worker_init_fn,
    _SingleProcessDataLoaderIter as _SingleProcessDataLoaderIter,
)
from ._utils.collate import default_collate as default_collate, default_convert as default_convert
from ._utils.crew import context_of
from ._utils.worker import get_worker_info as get_worker_info
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]

T_co = TypeVar("T_co", covariant=True)
_T_co = T_co  # as PyTorch calls it


class _InfiniteConstantSampler(Sampler[None]):
    """For datasets without indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Differs from torch: worker processes are not forked from the program, which runs JAX and would leave them
    hanging, but from a process that has imported this package alone. What `__main__` defines goes to them by value;
    other modules they import themselves. A dataset that cannot be pickled, such as one with an open file, is copied
    for workers that are threads and work one at a time; a warning names what stands in the way. Workers compute on
    CPUs, and what they make arrives on the default device. `multiprocessing_context="fork"` is refused.

    Args:
        dataset: something with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: examples per batch; None gives single examples.
        shuffle: a new random order each time.
        sampler: the order of indices; anything that can be iterated over.
        batch_sampler: the indices of each batch.
        num_workers: processes that fetch ahead; 0 fetches when asked.
        collate_fn: makes a batch of a list of examples.
        pin_memory: whether to call `pin_memory` of what is in a batch, if there is an accelerator.
        drop_last: leave out the last batch where it is smaller.
        timeout: seconds to wait for a worker; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: "spawn" or "forkserver", or such a context of `multiprocessing`.
        generator: where orders are drawn from.
        prefetch_factor: batches that each worker fetches ahead; 2 if left out.
        persistent_workers: keep the workers from one pass to the next.
        pin_memory_device: accepted.
        in_order: whether batches come in the order of the sampler, or as they are ready.
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    _iterator: Any = None
    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self.in_order, self.generator = in_order, generator
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.__initialized = True
        self.check_worker_number_rationality()
        if num_workers and context_of(self.multiprocessing_context) is CONTEXT:
            warm_up()

    _FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and self.__initialized:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started; None where the program did not say."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, multiprocessing_context: Any) -> None:
        self.__multiprocessing_context = _checked_context(multiprocessing_context, self.num_workers)

    @functools.cached_property
    def _sent(self) -> list[Any]:
        """What was packed for workers, so that large arrays are not copied once more for those of the next pass."""
        return []

    def __getstate__(self) -> dict[str, Any]:
        return {n: v for n, v in self.__dict__.items() if n != "_sent"}

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self.batch_sampler is not None else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        n = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than cores."""
        if not self.num_workers:
            return
        limited = hasattr(os, "sched_getaffinity")
        n = len(os.sched_getaffinity(0)) if limited else os.cpu_count() or 1
        if self.num_workers > n:
            note = "" if limited else " (`cpuset` is not taken into account)"
            warn.to_user(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {n}{note}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary."
            )


def _check_workers(n: int, timeout: float, prefetch: Any, persistent: bool) -> None:
    if n < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if n == 0 and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if n > 0 and prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and n == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _checked_context(context: Any, workers: int) -> Any:
    """The context of `multiprocessing` that a program asked for."""
    if context is None:
        return None
    if workers <= 0:
        raise ValueError(
            f"multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={workers}"
        )
    if isinstance(context, str):
        valid = multiprocessing.get_all_start_methods()
        if context not in valid:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {valid!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        context = multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start "
            f"method, but got multiprocessing_context={context}"
        )
    if context.get_start_method() == "fork":
        raise NotImplementedError(
            "DataLoader(multiprocessing_context='fork'): a forked copy of a process that runs JAX hangs. Leave it out: "
            "workers are forked from a process that does not"
        )
    return context


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    complaint = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in (False, None):
        raise ValueError(f"{complaint} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{complaint} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{complaint} batch_sampler option, but got batch_sampler={batch_sampler}")
