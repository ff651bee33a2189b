"""Programs that load data, each in two passes, and what they print: batches, draws, what is left of random numbers.

`python -m tests.utils.loading.programs FILE` runs them all with torch, in a process without JAX, for torch forks.
"""

from __future__ import annotations

import collections
import importlib
import pickle
import random
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Point = collections.namedtuple("Point", "x y")
KINDS = {"main": 0, "two processes": 2, "three processes": 3, "two threads": 2}
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


def data(m: Any) -> Any:
    return importlib.import_module(m.__name__ + ".utils.data")


def seen(m: Any, x: Any) -> Any:
    """What a user can tell of a batch."""
    if isinstance(x, m.Tensor):
        values = x.detach().to(m.float64).tolist() if x.dtype == m.bfloat16 else x.detach().tolist()
        facts = [str(x.dtype).rpartition(".")[2], tuple(x.shape), x.stride(), x.requires_grad]
        return [type(x).__name__, facts, values]
    if isinstance(x, np.ndarray):
        return ["array", str(x.dtype), x.tolist()]
    if isinstance(x, dict):
        return [type(x).__name__, {k: seen(m, v) for k, v in x.items()}]
    if isinstance(x, list | tuple):
        return [type(x).__name__, [seen(m, v) for v in x]]
    if isinstance(x, Batch):
        return ["Batch", seen(m, x.parts)]
    return [type(x).__name__, x]


class OfTwo(Exception):
    """An error that can't be made of a message alone."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)


class Batch:
    """A batch of a class of the program's."""

    def __init__(self, parts: Any) -> None:
        self.parts = parts


def mapped(m: Any, item: Callable[[int], Any], n: int, lock: Any, **more: Any) -> Any:
    """A dataset of which `item` makes the examples; with a lock, it can't be sent to a process."""

    class Mapped(data(m).Dataset):
        def __init__(self) -> None:
            self.lock = lock
            vars(self).update(more)

        def __getitem__(self, i: Any) -> Any:
            return item(i)

        def __len__(self) -> int:
            return n

    return Mapped()


def passes(m: Any, loader: Any, n: int = 2) -> Any:
    """The batches of some passes, and what is left of random numbers."""
    found = [[seen(m, b) for b in loader] for _ in range(n)]
    return found, random.random(), np.random.rand(), m.rand(2).tolist()  # noqa: NPY002


def numbers(m: Any, lock: Any, n: int = 10) -> Any:
    return mapped(m, lambda i: i, n, lock)


def with_options(make: Callable[[Any, Any], dict[str, Any]]) -> Callable[..., Any]:
    """The program of a dataset of numbers and options of the loader."""

    def run(m: Any, workers: int, lock: Any) -> Any:
        dataset = numbers(m, lock)
        return passes(m, data(m).DataLoader(dataset, num_workers=workers, **make(m, dataset)))

    return run


SAMPLERS: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "shuffled": lambda m, d: {"shuffle": True, "batch_size": 3},
    "shuffled_by_a_generator": lambda m, d: {"shuffle": True, "generator": m.Generator().manual_seed(3)},
    "drawn_by_weights": lambda m, d: {"sampler": data(m).WeightedRandomSampler(range(1, 11), 7), "batch_size": 2},
    "batches_of_a_sampler": lambda m, d: {
        "batch_sampler": data(m).BatchSampler(data(m).RandomSampler(d, True, 9), 4, False)
    },
    "one_by_one": lambda m, d: {"batch_size": None, "sampler": data(m).SubsetRandomSampler([3, 1, 5])},
    "shard_of_a_rank": lambda m, d: {"sampler": data(m).DistributedSampler(d, 3, 1), "batch_size": 2},
}
PROGRAMS.update({name: with_options(make) for name, make in SAMPLERS.items()})


@program
def draws(m: Any, workers: int, lock: Any) -> Any:
    def item(i: int) -> Any:
        return i, random.random(), np.random.rand(), np.random.permutation(3), m.randn(2), m.randperm(4)  # noqa: NPY002

    loader = data(m).DataLoader(mapped(m, item, 8, lock), 2, shuffle=True, num_workers=workers)
    return passes(m, loader)


@program
def seeds_of_worker_init_fn(m: Any, workers: int, lock: Any) -> Any:
    """PyTorch's recipe for reproducible loaders."""

    def begin(worker: int) -> None:
        seed = m.initial_seed() % 2**32
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)

    dataset = mapped(m, lambda i: (random.randint(0, 99), np.random.randint(0, 99)), 8, lock)  # noqa: NPY002
    generator = m.Generator()
    generator.manual_seed(0)
    return passes(
        m,
        data(m).DataLoader(
            dataset, 2, num_workers=workers, worker_init_fn=begin, generator=generator, persistent_workers=workers > 0
        ),
    )


@program
def a_stream_narrowed_in_each_worker(m: Any, workers: int, lock: Any) -> Any:
    """PyTorch's example of an IterableDataset."""

    class Stream(data(m).IterableDataset):
        def __init__(self, start: int, end: int) -> None:
            self.start, self.end, self.lock = start, end, lock

        def __iter__(self) -> Any:
            return iter(range(self.start, self.end))

    def begin(worker: int) -> None:
        info = data(m).get_worker_info()
        dataset = info.dataset
        start, end = dataset.start, dataset.end
        share = -(-(end - start) // info.num_workers)
        dataset.start = start + worker * share
        dataset.end = min(dataset.start + share, end)

    stream = Stream(3, 7)
    found = passes(m, data(m).DataLoader(stream, num_workers=workers, worker_init_fn=begin))
    return found, stream.start, stream.end


@program
def streams_in_parts(m: Any, workers: int, lock: Any) -> Any:
    class Stream(data(m).IterableDataset):
        def __init__(self) -> None:
            self.lock, self.passes = lock, 0

        def __iter__(self) -> Any:
            self.passes += 1
            info = data(m).get_worker_info()
            first, step = (info.id, info.num_workers) if info else (0, 1)
            return iter((i, self.passes, m.rand(1)) for i in range(first, 11, step))

    options = {"persistent_workers": True, "prefetch_factor": 1} if workers else {}
    loader = data(m).DataLoader(Stream(), 2, num_workers=workers, drop_last=True, **options)
    return passes(m, loader)


@program
def containers(m: Any, workers: int, lock: Any) -> Any:
    def item(i: int) -> Any:
        return {
            "tensor": m.full((2, 3), float(i)),
            "array": np.full((2,), i, np.float16),
            "pair": (i, [float(i), "text"]),
            "point": Point(m.tensor(i), np.float32(i)),
            "flag": i % 2 == 0,
            "bytes": b"x",
            "large": m.full((5000,), i, dtype=m.int64),
        }

    return passes(m, data(m).DataLoader(mapped(m, item, 5, lock), 2, num_workers=workers))


@program
def tensors_as_they_are(m: Any, workers: int, lock: Any) -> Any:
    whole = m.arange(24.0).reshape(4, 6)

    def item(i: int) -> Any:
        return [
            whole.T,
            whole[1:, ::2],
            m.ones(3, dtype=m.bfloat16) * i,
            m.tensor([True, False]),
            m.tensor(1 + 2j),
            m.zeros(0, 3),
            m.tensor(i),
            m.ones(2, requires_grad=True),
            m.nn.Parameter(m.ones(2)),
            m.arange(10000.0).reshape(100, 100).T,
            np.arange(6).reshape(2, 3).T,
            [None, "text", {1: (i,)}],
        ]

    return passes(m, data(m).DataLoader(mapped(m, item, 3, lock), None, num_workers=workers, collate_fn=lambda x: x), 1)


@program
def storages_that_are_shared(m: Any, workers: int, lock: Any) -> Any:
    def item(i: int) -> Any:
        whole = m.full((20000,), float(i))
        return whole[:10], whole, whole.reshape(100, 200)[3]

    found = []
    for part, whole, row in data(m).DataLoader(
        mapped(m, item, 2, lock), None, num_workers=workers, collate_fn=lambda x: x
    ):
        whole.add_(1)
        found.append([part.tolist(), row.sum().item(), whole.untyped_storage().nbytes()])
    return found


@program
def collate_functions(m: Any, workers: int, lock: Any) -> Any:
    """Padding, and Mixup, which draws of NumPy's generator."""

    def collate(items: Any) -> Any:
        share = np.random.beta(0.4, 0.4)  # noqa: NPY002
        padded = m.nn.utils.rnn.pad_sequence(items, batch_first=True)
        return Batch({"mixed": padded * share + padded.flip(0) * (1 - share), "share": share})

    dataset = mapped(m, lambda i: m.arange(float(i + 1)), 7, lock)
    return passes(m, data(m).DataLoader(dataset, 3, shuffle=True, num_workers=workers, collate_fn=collate))


@program
def images(m: Any, workers: int, lock: Any) -> Any:
    """Operators on as many elements as XLA is for."""
    pictures = m.arange(3 * 160 * 160.0).reshape(3, 160, 160) / 76800

    def item(i: int) -> Any:
        picture = (pictures - 0.5) / 0.25 + 0.1 * m.randn(3, 1, 1)
        picture = m.flip(picture, (2,)) if m.rand(1).item() < 0.5 else picture
        small = m.nn.functional.interpolate(picture[None], size=(4, 4), mode="bilinear", antialias=True)
        return small[0].float(), i

    return passes(m, data(m).DataLoader(mapped(m, item, 4, lock), 2, num_workers=workers))


@program
def many_at_once(m: Any, workers: int, lock: Any) -> Any:
    class Many(data(m).Dataset):
        def __init__(self) -> None:
            self.lock, self.rows = lock, m.arange(60000.0).reshape(10, 6000)

        def __getitems__(self, indices: list[int]) -> Any:
            return [(self.rows[i, :3], self.rows[i].sum()) for i in indices]

        def __len__(self) -> int:
            return 10

    parts = data(m).random_split(Many(), [4, 6])
    return passes(m, data(m).DataLoader(parts[1], 4, num_workers=workers))


@program
def state_of_a_dataset(m: Any, workers: int, lock: Any) -> Any:
    dataset = mapped(m, lambda i: i, 6, lock, calls=0)

    class Counted(type(dataset)):
        def __getitem__(self, i: int) -> Any:
            self.calls += 1
            return i, self.calls

    counted = Counted()
    found = passes(m, data(m).DataLoader(counted, 2, num_workers=workers, persistent_workers=workers > 0))
    return found, counted.calls if workers else None


@program
def settings(m: Any, workers: int, lock: Any) -> Any:
    """What a program sets holds in its workers, too."""
    dataset = mapped(m, lambda i: (m.ones(2), m.is_grad_enabled(), m.ones(1, requires_grad=True).mul(2)), 2, lock)
    m.set_default_dtype(m.float64)
    try:
        with m.no_grad():
            return passes(m, data(m).DataLoader(dataset, None, num_workers=workers), 1)
    finally:
        m.set_default_dtype(m.float32)


@program
def errors(m: Any, workers: int, lock: Any) -> Any:
    def item(i: int) -> Any:
        if i in (1, 2, 3):
            raise (KeyError("one"), ValueError("two"), OfTwo(1, 2))[i - 1]
        return i

    found, loader = [], iter(data(m).DataLoader(mapped(m, item, 5, lock), 1, num_workers=workers))
    for _ in range(5):
        try:
            found.append(next(loader).item())
        except Exception as error:
            lines = str(error).strip().split("\n")
            found.append([type(error).__name__, lines[0], lines[-1].rpartition(".")[2]])
    return found


def run(m: Any, name: str, kind: str) -> Any:
    """What a program gives with workers of one kind."""
    random.seed(5)
    np.random.seed(6)  # noqa: NPY002
    m.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of more workers than cores, and of threads
        return PROGRAMS[name](m, KINDS[kind], threading.Lock() if kind == "two threads" else None)


if __name__ == "__main__":
    import torch

    found = {
        (name, n): run(torch, name, kind) for name in PROGRAMS for kind, n in KINDS.items() if "thread" not in kind
    }
    with open(sys.argv[1], "wb") as file:
        pickle.dump(found, file)
