"""Data pipes: chains of them, their order, and what they refuse."""

import importlib
import pickle
import warnings

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def parts(m):
    importlib.import_module(m.__name__ + ".utils.data.datapipes")
    data = m.utils.data
    return data, data.datapipes.iter, data.datapipes.map


def even(x):
    return x % 2 == 0


def plus(x, y):
    return x + y


def told(fn):
    """What a call warns of, and what it gives or raises."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        text = complaint(fn)
    return [str(w.message) for w in seen], text


@program
def chains(m):
    data, it, _ = parts(m)
    numbers = it.IterableWrapper(range(7))
    batched = numbers.filter(even).map(str).batch(3)
    chunk = next(iter(batched))
    return (
        list(batched), type(chunk).__name__, chunk.as_str(" "), list(chunk.raw_iterator()),
        list(batched.unbatch()), list(numbers.batch(3, drop_last=True)), len(numbers.batch(3)),
        len(numbers.batch(3, drop_last=True)), repr(batched), str(batched), "map" in dir(batched),
        list(numbers.batch(2).batch(2).unbatch(unbatch_level=-1)), list(numbers.batch(2).batch(2).unbatch()),
        isinstance(batched, data.IterDataPipe), isinstance(batched, data.IterableDataset),
    )  # fmt: skip


@program
def columns(m):
    _, it, _ = parts(m)
    rows = it.IterableWrapper([(1, 2, 3), (4, 5, 6)])
    return (
        list(rows.map(plus, input_col=[0, 2])),
        list(rows.map(plus, input_col=[2, 0], output_col=-1)),
        list(rows.map(even, input_col=1)),
        list(rows.map(even, input_col=1, output_col=[0])),
        list(rows.filter(even, input_col=0)),
        list(
            it.IterableWrapper([{"a": 1, "b": 2}]).map(plus, input_col=["a", "b"], output_col="c")
        ),
        told(lambda: rows.map(plus, output_col=1)),
        told(lambda: rows.map(plus)),
        told(lambda: rows.map(even, input_col=[0, 1])),
        told(lambda: rows.map(even, input_col=1, output_col=[1, 2])),
        told(lambda: rows.map(3)),
        told(lambda: rows.map(lambda x: x)),
        told(lambda: list(rows.filter(len))),
    )


@program
def several(m):
    _, it, _ = parts(m)
    a, b = it.IterableWrapper(range(3)), it.IterableWrapper("xyzw")
    return (
        list(a.concat(b)), len(a.concat(b)), list(a.mux(b)), len(a.mux(b)), list(a.zip(b)), len(a.zip(b)),
        told(lambda: it.Concater()), told(lambda: it.Concater(a, [1])), told(lambda: it.Zipper(a, [1])),
        told(lambda: len(a.zip(b.filter(even)))), told(lambda: len(it.IterableWrapper(iter("a")))),
        told(lambda: list(it.IterableWrapper(c for c in "a"))),
    )  # fmt: skip


@program
def groups(m):
    _, it, _ = parts(m)
    numbers = it.IterableWrapper([1, 2, 3, 5, 4, 7, 9, 6])
    return (
        list(numbers.groupby(even)), list(numbers.groupby(even, keep_key=True, group_size=2)),
        list(numbers.groupby(even, buffer_size=3)), list(numbers.groupby(even, keep_key=True, buffer_size=2)),
        told(lambda: list(numbers.groupby(even, buffer_size=4, group_size=4))),
        list(numbers.groupby(even, buffer_size=4, group_size=4, guaranteed_group_size=2)),
        list(numbers.groupby(even, buffer_size=4, group_size=4, drop_remaining=True)),
        told(lambda: numbers.groupby(even, group_size=0)), told(lambda: numbers.batch(0)),
        told(lambda: list(numbers.unbatch())), told(lambda: list(numbers.unbatch(unbatch_level=-2))),
    )  # fmt: skip


@program
def shuffled(m):
    data, it, maps = parts(m)
    m.manual_seed(0)
    pipe = it.IterableWrapper(range(10)).shuffle()
    small = it.IterableWrapper(range(10)).shuffle(buffer_size=3).set_seed(5)
    keyed = maps.SequenceWrapper("abcdef").shuffle()
    drawn = list(pipe), list(pipe), list(small), list(keyed), list(keyed.set_shuffle(False))
    batches = [b.tolist() for b in data.DataLoader(pipe, batch_size=4)]
    again = [b.tolist() for b in data.DataLoader(pipe, batch_size=4, shuffle=False)]
    once_more = [
        b.tolist()
        for b in data.DataLoader(pipe, batch_size=4, shuffle=True, generator=m.Generator())
    ]
    plain = it.IterableWrapper(range(3))
    added = told(lambda: data.DataLoader(plain, shuffle=True))
    return (
        drawn,
        batches,
        again,
        once_more,
        added,
        m.rand(1),
        told(lambda: pipe.shuffle(buffer_size=0)),
    )


@program
def shares_and_samples(m):
    data, it, _ = parts(m)
    importlib.import_module(m.__name__ + ".utils.data.graph_settings")
    pipe = it.IterableWrapper(range(10)).sharding_filter()
    whole = list(pipe)
    data.graph_settings.apply_sharding(pipe.map(str), 3, 1)
    from_both = it.IterableWrapper(range(12)).sharding_filter()
    kinds = importlib.import_module(
        m.__name__ + ".utils.data.datapipes.iter.sharding"
    ).SHARDING_PRIORITIES
    from_both.apply_sharding(2, 1, kinds.DISTRIBUTED)
    from_both.apply_sharding(3, 2, kinds.MULTIPROCESSING)
    return (
        whole, list(pipe), len(pipe), list(from_both), told(lambda: pipe.apply_sharding(2, 2)),
        told(lambda: from_both.apply_sharding(2, 0)), list(it.Sampler(it.IterableWrapper("abc"))),
    )  # fmt: skip


@program
def one_iterator_at_a_time(m):
    _, it, _ = parts(m)
    pipe = it.IterableWrapper([1, 2, 3])
    first = iter(pipe)
    next(first)
    second = iter(pipe)
    return next(second), told(lambda: next(first)), list(pipe)


@program
def of_the_user(m):
    data, it, _ = parts(m)
    name = "torchgrad_jax_test_repeat"

    @data.functional_datapipe(name)
    class Repeat(data.IterDataPipe):
        def __init__(self, source, times):
            self.source, self.times, self.passes = source, times, 0

        def reset(self):
            self.passes += 1

        def __iter__(self):
            for x in self.source:
                if x == 9:
                    raise ValueError("nine")
                yield from [x] * self.times

    class Count(data.IterDataPipe):
        def __iter__(self):
            self.n = 0
            return self

        def __next__(self):
            self.n += 1
            if self.n > 3:
                raise StopIteration
            return self.n

    try:
        pipe = getattr(it.IterableWrapper([1, 2]), name)(2)
        twice = list(pipe), list(pipe), pipe.passes
        taken = told(lambda: data.functional_datapipe(name)(Repeat))
        failing = told(lambda: list(getattr(it.IterableWrapper([9]), name)(2)))
    finally:
        del data.IterDataPipe.functions[name]
    return (
        twice,
        taken,
        failing[1][1].split(" object at")[0],
        list(Count()),
        told(lambda: pipe.nothing),
    )


@program
def by_key(m):
    data, _, maps = parts(m)
    letters, numbers = maps.SequenceWrapper("abcde"), maps.SequenceWrapper(range(3))
    both = letters.concat(numbers)
    return (
        both[6], len(both), told(lambda: both[8]), letters.zip(numbers)[2], told(lambda: letters.zip(numbers)[4]),
        letters.batch(2)[2], len(letters.batch(2)), told(lambda: letters.batch(2, drop_last=True)[2]),
        letters.map(str.upper)[1], maps.SequenceWrapper({"k": 1})["k"], list(data.DataLoader(letters, batch_size=2)),
        told(lambda: maps.Zipper()), told(lambda: maps.Zipper([1])),
    )  # fmt: skip


@program
def pickled(m):
    _, it, _ = parts(m)
    pipe = it.IterableWrapper(range(6)).shuffle().set_seed(3).map(even).batch(2)
    return list(pickle.loads(pickle.dumps(pipe)))


def test_what_is_refused():
    from torchgrad_jax.utils.data import DataLoader, functional_datapipe
    from torchgrad_jax.utils.data.datapipes.iter import Collator, IterableWrapper

    pipe = IterableWrapper(range(3))
    assert [b.tolist() for b in pipe.batch(2).collate()] == [[0, 1], [2]]
    for call in (
        lambda: DataLoader(pipe, num_workers=2),
        lambda: functional_datapipe("frames", enable_df_api_tracing=True),
        lambda: Collator(pipe, {"a": str}),
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(AttributeError, match="Forker"):
        _ = tg.utils.data.datapipes.iter.Forker
