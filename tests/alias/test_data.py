"""torch.utils.data against torch: orders, batches, and what is refused."""

import importlib
import pickle
import warnings

import numpy as np
import pytest

import torchgrad_jax as tg
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


def test_what_is_refused():
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(ours.DataLoader([1], num_workers=1, prefetch_factor=0))
    with pytest.raises(NotImplementedError, match=r"fork.*hangs"):
        ours.DataLoader([1], num_workers=1, multiprocessing_context="fork")
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
