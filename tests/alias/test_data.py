"""torch.utils.data against torch: orders, batches, and what is refused."""

import importlib
import os
import pickle
import threading
import warnings

import numpy as np
import pytest

import torchgrad_jax as tg
from tests.alias.loaded import Elsewhere, Failing, started
from tests.engine.helpers import Programs, attempt
from torchgrad_jax.utils import data as ours

PROGRAMS = Programs()


def data(m):
    return importlib.import_module(m.__name__ + ".utils.data")


def numbers(m, n=6):
    class Numbers(data(m).Dataset):
        def __getitem__(self, i):
            return i

        def __len__(self):
            return n

    return Numbers()


def stream(m, n=5):
    class Stream(data(m).IterableDataset):
        def __iter__(self):
            return iter(range(n))

    return Stream()


def batches(loader):
    return [b.tolist() if hasattr(b, "tolist") else b for b in loader]


@PROGRAMS
def orders(m):
    d, out = data(m), []
    for options in (
        {},
        {"shuffle": True},
        {"shuffle": True, "batch_size": None},
        {"shuffle": True, "batch_size": 4, "drop_last": True},
        {"shuffle": True, "generator": m.Generator().manual_seed(3)},
        {"sampler": d.RandomSampler(numbers(m), replacement=True, num_samples=40)},
        {"sampler": d.RandomSampler(numbers(m), num_samples=9)},
        {"sampler": d.WeightedRandomSampler([1.0, 2.0, 3.0], 5)},
        {"sampler": d.SubsetRandomSampler([4, 2, 1])},
        {"batch_sampler": d.BatchSampler(d.SequentialSampler(numbers(m)), 4, False)},
    ):
        m.manual_seed(0)
        loader = d.DataLoader(numbers(m), **options)
        # What the loader leaves of the stream of random numbers is looked at too.
        out.append([batches(loader), batches(loader), len(loader), m.rand(1)])
    return out


@PROGRAMS
def splits(m):
    d = data(m)
    m.manual_seed(1)
    parts = d.random_split(numbers(m, 10), [0.25, 0.25, 0.5])
    return [
        [p.indices for p in parts],
        [p.indices for p in d.random_split(numbers(m), [1, 5], m.Generator().manual_seed(2))],
        attempt(lambda: d.random_split(numbers(m), [1, 2])),
        attempt(lambda: d.random_split(numbers(m), [0.5, 0.6])),
    ]


@PROGRAMS
def streams(m):
    d = data(m)
    return [
        batches(d.DataLoader(stream(m), batch_size=2)),
        batches(d.DataLoader(stream(m), batch_size=2, drop_last=True)),
        batches(d.DataLoader(stream(m), batch_size=None)),
        list(d.ChainDataset([stream(m, 2), stream(m, 3)])),
        attempt(lambda: d.DataLoader(stream(m), shuffle=True)),
        attempt(lambda: d.DataLoader(stream(m), sampler=[1])),
    ]


@PROGRAMS
def datasets(m):
    d = data(m)
    x, y = m.arange(6.0).reshape(3, 2), m.tensor([0, 1, 2])
    both = d.TensorDataset(x, y)
    chain = d.ConcatDataset([numbers(m), numbers(m, 3)])
    return [
        both[1],
        len(both),
        chain[7],
        chain[-1],
        len(chain),
        len(numbers(m) + numbers(m)),
        d.StackDataset(a=numbers(m), b=numbers(m))[2],
        d.StackDataset(numbers(m), numbers(m))[2],
        d.Subset(numbers(m), [3, 1])[1],
        attempt(lambda: d.TensorDataset(x, y[:2])),
        attempt(lambda: d.ConcatDataset([])),
        attempt(lambda: chain[-10]),
        attempt(lambda: d.StackDataset()),
        attempt(lambda: d.Dataset()[0]),
        list(d.DistributedSampler(numbers(m, 7), num_replicas=3, rank=1)),
        list(d.DistributedSampler(numbers(m, 7), 3, 2, shuffle=False, drop_last=True)),
    ]


@PROGRAMS
def collating(m):
    c = data(m).default_collate
    return [
        c([m.ones(2), m.zeros(2)]),
        c([{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}]),
        c([(1, "x"), (2, "y")]),
        c([[1, 2], [3, 4]]),
        c([np.ones(2, np.float32), np.zeros(2, np.float32)]),
        c([np.float64(1.5), np.float64(2)]),
        c([True, False]),
        data(m).default_convert([np.ones(2), "text", {"k": np.zeros(1)}]),
        attempt(lambda: c([1j, 2j])),
        attempt(lambda: c([[1], [2, 3]])),
    ]


@PROGRAMS
def refusals(m):
    d = data(m)
    n = numbers(m)
    return [
        attempt(lambda o=o: d.DataLoader(n, **o))
        for o in (
            {"sampler": d.SequentialSampler(n), "shuffle": True},
            {"num_workers": -1},
            {"timeout": -1},
            {"prefetch_factor": 2},
            {"persistent_workers": True},
            {"batch_sampler": d.BatchSampler(d.SequentialSampler(n), 2, False), "batch_size": 3},
            {"batch_size": None, "drop_last": True},
            {"batch_size": 0},
        )
    ] + [
        attempt(lambda: d.RandomSampler([])),
        attempt(lambda: d.RandomSampler([1], replacement=3)),
        attempt(lambda: d.WeightedRandomSampler([[1.0]], 1)),
        attempt(lambda: d.BatchSampler([1], 2, 3)),
        attempt(lambda: setattr(d.DataLoader([1]), "batch_size", 3)),
    ]


@PROGRAMS
def iterators(m):
    d = data(m)
    one = d.DataLoader(numbers(m), 4)
    late = d.DataLoader([1, 2], timeout=1)
    return [
        type(iter(one)),
        len(iter(one)),
        attempt(lambda: pickle.dumps(iter(one))),
        attempt(lambda: iter(late)),
        one._dataset_kind,
        batches(pickle.loads(pickle.dumps(d.DataLoader([1, 2])))),
        d.DataLoader(numbers(m), num_workers=2).prefetch_factor,
    ]


@PROGRAMS
def contexts_refused(m):
    n = numbers(m)
    return [
        attempt(lambda: data(m).DataLoader(n, num_workers=1, multiprocessing_context="thread")),
        attempt(lambda: data(m).DataLoader(n, num_workers=1, multiprocessing_context=3)),
        attempt(lambda: data(m).DataLoader(n, multiprocessing_context="spawn")),
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program, same):
    same(program)


class Where(ours.Dataset):
    """Tells who fetched each example."""

    def __getitem__(self, i):
        info = ours.get_worker_info()
        return i, info.id if info else -1, threading.current_thread() is threading.main_thread()

    def __len__(self):
        return 10


def test_workers_are_threads_and_keep_the_order():
    started = []
    loader = ours.DataLoader(Where(), 2, num_workers=2, worker_init_fn=started.append)
    got = list(loader)
    assert [b[0].tolist() for b in got] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [b[1].tolist() for b in got] == [[0, 0], [1, 1], [0, 0], [1, 1], [0, 0]]
    assert not any(b[2].any() for b in got)
    assert sorted(started) == [0, 1]
    assert ours.get_worker_info() is None


DRAWS = [
    0.7821398973464966,
    0.21315340548154382,
    0.8371640508861415,
    0.6938178539276123,
    0.7733861492043289,
    0.6702704958690073,
]


# What torch answered in what follows is written down: its workers fork, which a process that runs JAX does not survive.


def test_draws_in_workers():
    class Noisy(ours.Dataset):
        def __getitem__(self, i):
            return i, tg.rand(1), tg.randint(0, 9, (2,))

        def __len__(self):
            return 6

    tg.manual_seed(0)
    loader = ours.DataLoader(Noisy(), 2, shuffle=True, num_workers=2, persistent_workers=True)
    seen = [[[x.flatten().tolist() for x in b] for b in loader] for _ in range(2)]
    assert [b[0] for b in seen[0]] == [[0, 4], [3, 5], [2, 1]]
    assert [b[0] for b in seen[1]] == [[5, 0], [3, 2], [1, 4]]
    assert seen[0][0][1][0] == pytest.approx(DRAWS[0])
    assert seen[0][1][1][0] == pytest.approx(DRAWS[3])
    # Kept workers go on with their generators, and those of the program do not notice.
    assert seen[1][0][1] != seen[0][0][1]
    assert tg.rand(1).item() == pytest.approx(0.4900934100151062)


def told(error):
    text = str(error).strip().split("\n")
    return type(error).__name__, text[0], text[-1]


def test_errors_in_workers():
    class TwoArguments(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)

    class Broken(Where):
        def __getitem__(self, i):
            if i in (2, 3, 4):
                raise (KeyError("two"), ValueError("three"), TwoArguments(1, 2))[i - 2]
            return i

        def __len__(self):
            return 6

    loader = iter(ours.DataLoader(Broken(), 1, num_workers=2))
    assert [next(loader).item() for _ in range(2)] == [0, 1]
    where = "in DataLoader worker process"
    assert [told(attempt(lambda: next(loader))) for _ in range(3)] == [
        ("KeyError", f"Caught KeyError {where} 0.", "KeyError: 'two'"),
        ("ValueError", f"Caught ValueError {where} 1.", "ValueError: three"),
        ("RuntimeError", f"Caught TwoArguments {where} 0.", f"{__name__}.{TwoArguments.__qualname__}: (1, 2)"),
    ]
    assert next(loader).item() == 5
    assert list(loader) == []

    def refuse(worker):
        raise ZeroDivisionError("of all things")

    refused = ours.DataLoader(Where(), num_workers=1, worker_init_fn=refuse)
    kind, first, last = told(attempt(lambda: next(iter(refused))))
    assert (kind, first) == ("ZeroDivisionError", f"Caught ZeroDivisionError {where} 0.")
    assert last == "ZeroDivisionError: of all things"


def test_streams_of_workers():
    class Part(ours.IterableDataset):
        def __iter__(self):
            info = ours.get_worker_info()
            return iter(range(info.id, 11, info.num_workers))

    three = ours.DataLoader(Part(), 2, num_workers=3, prefetch_factor=1)
    assert batches(three) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    two = ours.DataLoader(Part(), 2, num_workers=2, drop_last=True)
    assert batches(two) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]]
    single = ours.DataLoader(Part(), None, num_workers=2, persistent_workers=True)
    assert [batches(single), batches(single)] == [list(range(11))] * 2


def test_workers_introduce_themselves():
    seen = []

    def start(i):
        info = ours.get_worker_info()
        seen.append([info.id, info.num_workers, info.dataset, tg.initial_seed() - info.seed])
        seen.append(str(attempt(lambda: setattr(info, "id", 3))))
        tg.manual_seed(info.seed + 7)
        seen.append(tg.initial_seed() - info.seed)

    dataset, before = Where(), tg.initial_seed()
    list(ours.DataLoader(dataset, 3, num_workers=1, worker_init_fn=start))
    assert seen == [[0, 1, dataset, 0], "cannot assign to field 'id'", 7]
    assert ours.get_worker_info() is None
    assert tg.initial_seed() == before


def test_batches_as_they_are_ready():
    go = threading.Event()

    class Waiting(Where):
        def __getitem__(self, i):
            if i == 0:
                go.wait(60)
            return i

        def __len__(self):
            return 4

    loader = iter(ours.DataLoader(Waiting(), 1, num_workers=2, in_order=False))
    got = [next(loader).item()]
    go.set()
    assert got[0] == 1
    assert sorted(got + [b.item() for b in loader]) == [0, 1, 2, 3]


def test_a_worker_that_takes_too_long_and_one_that_leaves():
    go = threading.Event()

    class Waiting(Where):
        def __getitem__(self, i):
            go.wait(60)
            raise SystemExit

    late = iter(ours.DataLoader(Waiting(), 1, num_workers=1, timeout=0.05))
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0.05 seconds$"):
        next(late)
    go.set()
    with pytest.raises(RuntimeError, match=r"^DataLoader worker \(thread 0\) exited unexpectedly$"):
        next(iter(ours.DataLoader(Waiting(), 1, num_workers=1)))


def test_workers_as_processes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of more workers than cores
        loader = ours.DataLoader(
            Elsewhere(),
            2,
            num_workers=2,
            worker_init_fn=started,
            multiprocessing_context="spawn",
            persistent_workers=True,
        )
    tg.manual_seed(0)
    first, second = list(loader), list(loader)
    assert [b["i"].tolist() for b in first] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [b["worker"].tolist() for b in first] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    pids = {pid for b in first + second for pid in b["pid"].tolist()}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert all(b["started"].tolist() == [True, True] for b in first)
    assert all(b["large"].shape == (2, 3000) for b in first)
    assert [b["large"].tolist()[1][-1] for b in second] == [1.0, 3.0, 5.0, 7.0]
    # The seeds that torch 2.13 gives its workers for this one.
    draws = [b[k].tolist()[0] for b in first[:2] for k in ("torch", "python", "numpy")]
    assert draws == pytest.approx(DRAWS, abs=1e-6)


def test_processes_that_fail():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = iter(ours.DataLoader(Failing(), 1, num_workers=2, multiprocessing_context="spawn", timeout=100))
    assert next(loader).item() == 0
    with pytest.raises(LookupError, match=r"(?s)^Caught LookupError in DataLoader worker process 1\.\nOrig.*one"):
        next(loader)
    with pytest.raises(RuntimeError, match=r"in DataLoader worker process 0(?s:.*)two"):
        next(loader)
    with pytest.raises(RuntimeError, match=r"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly$"):
        next(loader)
    assert [b.item() for b in loader] == [4]


def test_what_is_refused():
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(ours.DataLoader(Where(), num_workers=1, prefetch_factor=0))
    with pytest.raises(NotImplementedError, match=r"fork.*hangs"):
        ours.DataLoader(Where(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(AttributeError, match=r"torch\.utils\.data\.nothing"):
        ours.nothing


def test_an_iterable_dataset_that_is_longer_than_it_says_is_told():
    class Long(ours.IterableDataset):
        def __iter__(self):
            return iter(range(4))

        def __len__(self):
            return 2

    loader = ours.DataLoader(Long())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [b.item() for b in loader] == [0, 1, 2, 3]
        assert not caught  # nobody asked for the length
        assert len(loader) == 2
        assert [b.item() for b in loader] == [0, 1, 2, 3]
    assert "was reported to be 2" in str(caught[0].message)
    assert tg.utils.data is ours
