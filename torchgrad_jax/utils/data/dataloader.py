"""DataLoader: batches of a dataset, in the order that torch would give them in."""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from . import _draw
from ._utils.collate import default_collate as default_collate, default_convert as default_convert
from ._utils.worker import RUNNING, WorkerInfo, get_worker_info as get_worker_info
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)


class _Endless(Sampler[None]):
    """For datasets without indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Differs from torch: workers are threads, not processes. They see the dataset itself, not a copy, and
    share the process's random generators. `multiprocessing_context` is therefore refused, `pin_memory`
    means nothing, and batches are on the default device's side of the host as any other new tensor.

    Args:
        dataset: something with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: examples per batch; None gives single examples.
        shuffle: a new random order each time.
        sampler: the order of indices; anything that can be iterated over.
        batch_sampler: the indices of each batch.
        num_workers: threads that fetch ahead; 0 fetches when asked.
        collate_fn: makes a batch of a list of examples.
        pin_memory: accepted.
        drop_last: leave out the last batch where it is smaller.
        timeout: seconds to wait for a worker; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: refused, see above.
        generator: where orders are drawn from.
        prefetch_factor: batches that each worker fetches ahead; 2 if left out.
        persistent_workers: accepted; starting a thread costs next to nothing.
        pin_memory_device: accepted.
        in_order: accepted; batches always come in order.
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    drop_last: bool
    sampler: Any
    batch_sampler: Any

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None, num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None, generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_workers(
            num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context
        )
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.in_order, self.generator = in_order, generator
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
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
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            if self._iterable:
                sampler = _Endless()
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
        self._ready = True

    _FIXED = frozenset(
        ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and self.__dict__.get("_ready"):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    multiprocessing_context = None

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self.batch_sampler is not None else self.sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        # Drawn in any case, as torch does, and before the order is.
        seed = _draw.seed(self.generator)
        return _Threads(self, seed) if self.num_workers else _Single(self)

    def check_worker_number_rationality(self) -> None:
        """Nothing: threads beyond the number of cores only wait."""


def _check_workers(n: int, timeout: float, prefetch: Any, persistent: bool, context: Any) -> None:
    if n < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
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
    if context is not None:
        if n == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={n}"
            )
        raise NotImplementedError(
            "DataLoader(multiprocessing_context=...): workers are threads here"
        )


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    told = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in (False, None):
        raise ValueError(f"{told} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{told} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{told} batch_sampler option, but got batch_sampler={batch_sampler}")


class _Fetcher:
    """Makes a batch of what the sampler gave."""

    def __init__(self, loader: DataLoader[Any], dataset: Any) -> None:
        self.dataset, self.collate = dataset, loader.collate_fn
        self.batched, self.drop_last = loader._auto_collation, loader.drop_last
        self.examples = iter(dataset) if loader._iterable else None
        self.ended = False

    def __call__(self, index: Any) -> Any:
        if self.examples is not None:
            return self._next(index)
        if not self.batched:
            return self.collate(self.dataset[index])
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate(many(index) if many else [self.dataset[i] for i in index])

    def _next(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        assert self.examples is not None
        if not self.batched:
            return self.collate(next(self.examples))
        batch: list[Any] = []
        for _ in index:
            try:
                batch.append(next(self.examples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate(batch)


class _Single:
    """Batches made when they are asked for."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._length = loader
        self._indices = iter(loader._index_sampler)
        self._fetch = _Fetcher(loader, loader.dataset)
        self._count = _Count(loader)

    def __iter__(self) -> _Single:
        return self

    def __next__(self) -> Any:
        batch = self._fetch(next(self._indices))
        self._count.one()
        return batch

    def __len__(self) -> int:
        return len(self._length)


class _Count:
    """Warns when an iterable dataset turns out longer than it said."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.seen, self.told = loader, 0, None
        if loader._iterable and hasattr(loader.dataset, "__len__"):
            try:
                self.told = len(loader)
            except TypeError:
                self.told = None

    def one(self) -> None:
        self.seen += 1
        if self.told is not None and self.seen > self.told:
            warnings.warn(
                f"Length of IterableDataset {self.loader.dataset} was reported to be {self.told}"
                f"(when accessing len(dataloader)), but {self.seen} samples have been fetched. ",
                stacklevel=3,
            )


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()


class _Threads:
    """Batches made ahead by threads, handed out in the order in which they were ordered."""

    def __init__(self, loader: DataLoader[Any], seed: int) -> None:
        self._loader, self._seed = loader, seed
        self._indices = iter(loader._index_sampler)
        n = loader.num_workers
        self._orders: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(n)]
        self._alive = [True] * n
        self._waiting: list[queue.SimpleQueue[Any]] = []
        self._turn = 0
        self._count = _Count(loader)
        for i, orders in enumerate(self._orders):
            threading.Thread(target=_work, args=(loader, i, seed, orders), daemon=True).start()
        for _ in range(n * (loader.prefetch_factor or 1)):
            self._order()

    def _order(self) -> None:
        n = len(self._orders)
        for _ in range(n):
            i, self._turn = self._turn, (self._turn + 1) % n
            if self._alive[i]:
                break
        else:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._orders[i].put((index, answer))
        self._waiting.append(answer)

    def __iter__(self) -> _Threads:
        return self

    def __next__(self) -> Any:
        while self._waiting:
            answer = self._waiting.pop(0)
            try:
                worker, got = answer.get(timeout=self._loader.timeout or None)
            except queue.Empty:
                self.close()
                raise RuntimeError(
                    f"DataLoader timed out after {self._loader.timeout} seconds"
                ) from None
            if got is _END:
                self._alive[worker] = False
                self._order()
                continue
            self._order()
            if isinstance(got, _Failure):
                self.close()
                raise got.error
            self._count.one()
            return got
        self.close()
        raise StopIteration

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """Let the threads end."""
        for orders in self._orders:
            orders.put(None)
        self._orders = []
        self._waiting = []

    def __del__(self) -> None:
        if getattr(self, "_orders", None):
            self.close()


def _work(loader: DataLoader[Any], i: int, seed: int, orders: queue.SimpleQueue[Any]) -> None:
    RUNNING.info = WorkerInfo(i, loader.num_workers, seed + i, loader.dataset)
    fetch: _Fetcher | None = None
    failure: BaseException | None = None
    try:
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(i)
        fetch = _Fetcher(loader, loader.dataset)
    except Exception as e:  # told to whoever asks this worker for a batch
        failure = e
    while (order := orders.get()) is not None:
        index, answer = order
        if fetch is None:
            answer.put((i, _Failure(failure or RuntimeError("no worker"))))
            continue
        try:
            answer.put((i, fetch(index)))
        except StopIteration:
            answer.put((i, _END))
        except BaseException as e:
            answer.put((i, _Failure(e)))
