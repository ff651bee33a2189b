"""Functions with state that no attribute shows (iterators, random generators, files) run eagerly, with a warning."""

import array
import collections
import csv
import datetime
import functools
import io
import itertools
import os
import queue
import random
import re
import sys
import threading
import types
import warnings
from time import perf_counter

import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax._bridge.compile.stance import POLICY
from torchgrad_jax._bridge.compile.watch.notes import Notes

RUNS = 6


def _generator():
    n = 0
    while True:
        yield n
        n += 1


def _taken_by_a_loop(iterator):
    def f(x):
        for i in iterator:
            return x * i
        return x

    return f


def _counted_by(iterator, value):
    def f(x):
        for item in iterator:
            return x * value(item)
        return x

    return f


def _drawn_from(draw):
    return lambda x: x * draw()


def _advanced(iterator):
    return lambda x: x * next(iterator)


def _first_of(iterator):
    return lambda x: x * next(iterator)[0]


def _as_float(draw):
    return lambda x: x * float(draw())


def _loaded():
    return iter(torch.utils.data.DataLoader([torch.ones(()) * i for i in range(9)]))


def _written(file):
    def f(x):
        file.write("a")
        return x, file.getvalue()

    return f


def _put(q):
    def f(x):
        q.put(1)
        return x * q.qsize()

    return f


def _appended(held):
    def f(x):
        held.append(len(held))
        return x + sum(held)

    return f


def _added(held):
    def f(x):
        held.add(len(held))
        return x * len(held)

    return f


def _stored(table):
    def f(x):
        table[len(table)] = 1.0
        return x * sum(table.values())

    return f


def _in_place(held):
    def f(x):
        held[0] += 1
        return x * int(held[0])

    return f


STATES = {
    "count": lambda: _advanced(itertools.count()),
    "count of floats": lambda: _advanced(itertools.count(0.5, 0.25)),
    "cycle": lambda: _advanced(itertools.cycle([1.0, 2.0, 3.0])),
    "iterator of a list": lambda: _advanced(iter(list(range(99)))),
    "reversed": lambda: _advanced(reversed(range(99))),
    "map": lambda: _advanced(map(abs, range(99))),
    "chain": lambda: _advanced(itertools.chain([1, 2, 3], range(9))),
    "generator": lambda: _advanced(_generator()),
    "loop over a range": lambda: _taken_by_a_loop(iter(range(99))),
    "loop over a generator": lambda: _taken_by_a_loop(_generator()),
    "loop over a cycle": lambda: _taken_by_a_loop(itertools.cycle([1, 2])),
    "no description": lambda: _first_of(itertools.pairwise(range(99))),
    "matches": lambda: _counted_by(re.finditer("a", "abacabada" * 3), lambda m: m.start() + 1),
    "rows of a file": lambda: _counted_by(csv.reader(io.StringIO("1\n22\n3\n4\n5\n6\n7")), lambda r: int(r[0])),
    "pairs": lambda: _counted_by(itertools.pairwise(range(99)), sum),
    "calls": lambda: _counted_by(iter([9, 8, 7, 6, 5, 4, 3, 2, 1].pop, 77), float),
    "memory": lambda: _counted_by(iter(memoryview(bytes(range(1, 9)))), float),
    "map over matches": lambda: _taken_by_a_loop(map(len, itertools.pairwise(range(99)))),
    "next of a partial": lambda: _drawn_from(functools.partial(next, itertools.count())),
    "bound next": lambda: _drawn_from(itertools.count().__next__),
    "Random": lambda: _drawn_from(random.Random(0).random),
    "gauss": lambda: _drawn_from(functools.partial(random.Random(0).gauss, 0, 1)),
    "numpy generator": lambda: _as_float(np.random.default_rng(0).random),
    "numpy's old generator": lambda: _as_float(np.random.RandomState(0).rand),
    "text": lambda: _written(io.StringIO()),
    "queue": lambda: _put(queue.Queue()),
    "simple queue": lambda: _put(queue.SimpleQueue()),
    "list": lambda: _appended([]),
    "deque": lambda: _appended(collections.deque(maxlen=3)),
    "set": lambda: _added(set()),
    "dict": lambda: _stored({}),
    "ordered dict": lambda: _stored(collections.OrderedDict()),
    "array": lambda: _in_place(np.zeros(2)),
    "array of Python's": lambda: _in_place(array.array("i", [0])),
    "bytes": lambda: _in_place(bytearray(2)),
    "loader": lambda: _advanced(_loaded()),
}


def listed(x):
    if isinstance(x, torch.Tensor):
        return x.tolist()
    return [listed(v) for v in x] if isinstance(x, tuple) else x


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "errors suppressed"])
@pytest.mark.parametrize("name", STATES)
def test_the_same_as_eager_with_one_warning(name, lenient):
    x = torch.ones(2)
    eager = STATES[name]()
    expected = [listed(eager(x)) for _ in range(RUNS)]
    fast = torch.compile(STATES[name]())
    with torch._dynamo.config.patch(suppress_errors=lenient), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = [listed(fast(x)) for _ in range(RUNS)]
    assert found == expected
    texts = [str(w.message) for w in told]
    assert len(texts) == 1
    assert re.search(r"test_hidden_state.py:\d+\) is not compiled.* runs eagerly", texts[0])
    assert told[0].filename == __file__
    assert fast.counts["eager"] >= RUNS - 4


@pytest.mark.parametrize("cache", [functools.cache, functools.lru_cache(2)], ids=["unbounded", "two"])
def test_a_program_knows_what_a_cache_holds(cache):
    held = {"factor": 2.0}
    scale = cache(lambda n: n * held["factor"])
    table = cache(lambda n: torch.arange(float(n)) * held["factor"])

    def f(x):
        return x * scale(1) + table(len(x))

    fast = torch.compile(f)
    x = torch.ones(2)
    assert [fast(x).tolist() for _ in range(3)] == [[2.0, 4.0]] * 3
    traced = fast.counts["traced"]
    held["factor"] = 3.0  # which the caches do not know
    assert fast(x).tolist() == f(x).tolist() == [2.0, 4.0]
    scale(5), table(1)
    assert fast(x).tolist() == f(x).tolist() == [2.0, 4.0]
    assert fast.counts == {"traced": traced, "run": 5, "eager": 0}, fast.reasons  # what is kept hides the factor
    scale.cache_clear()
    assert fast(x).tolist() == f(x).tolist() == [3.0, 5.0]
    table.cache_clear()
    assert f(x).tolist() == [3.0, 6.0]  # computes what was lost: as many results as before
    assert fast(x).tolist() == [3.0, 6.0]


def test_a_program_is_for_what_its_thread_sees_of_local_state():
    local = threading.local()
    local.factor, found = 2.0, []

    def f(x):
        return x * local.factor * (10.0 if hasattr(local, "more") else 1.0)

    fast = torch.compile(f)

    def other():
        local.factor = 3.0
        found.append(fast(torch.ones(1)).item())
        local.more = True
        found.append(fast(torch.ones(1)).item())

    for _ in range(2):
        assert fast(torch.ones(1)).item() == 2.0
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [3.0, 30.0] * 2
    assert fast.counts["eager"] == 0


class _Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 2
        return self.n


MODULE = types.ModuleType("a_module_of_the_users")
MODULE.n = 0


def _by_globals(x):
    globals()["_N"] += 2
    return x * globals()["_N"]


def _by_vars(x):
    vars(MODULE)["n"] += 2
    return x * MODULE.n


def _by_dict(x):
    MODULE.__dict__["n"] += 2
    return x * getattr(MODULE, "n")  # noqa: B009 - another way to look


def _by_setattr(x):
    setattr(MODULE, "n", getattr(MODULE, "n") + 2)  # noqa: B009, B010
    return x * vars(MODULE)["n"]


def _by_sys_modules(x):
    sys.modules["a_module_of_the_users"].n += 2
    return x * sys.modules["a_module_of_the_users"].n


def _by_import(x):
    import a_module_of_the_users as module

    module.n += 2
    return x * module.n


_N = 0
LOOKED_UP = [_by_globals, _by_vars, _by_dict, _by_setattr, _by_sys_modules, _by_import]


@pytest.mark.parametrize("fn", LOOKED_UP)
def test_numbers_are_carried_however_they_are_looked_up(fn, monkeypatch):
    monkeypatch.setitem(sys.modules, "a_module_of_the_users", MODULE)
    monkeypatch.setattr(MODULE, "n", 0)
    monkeypatch.setitem(globals(), "_N", 0)
    fast = torch.compile(fn)
    x = torch.ones(2)
    assert [fast(x).tolist()[0] for _ in range(RUNS)] == [2.0 * i for i in range(1, RUNS + 1)]
    assert fast.counts["eager"] == 0
    assert fast.counts["traced"] <= 3


def test_iterators_that_tell_nothing_are_refused_whole():
    pairs = itertools.pairwise(range(9))
    fast = torch.compile(_counted_by(pairs, sum), fullgraph=True)
    assert fast(torch.ones(1)).item() == 1
    with pytest.raises(RuntimeError, match="it reaches a pairwise from outside, whose state nothing tells"):
        fast(torch.ones(1))
    assert next(pairs) == (1, 2)


NUMBERS = {
    "iterator of the user's": (lambda: _taken_by_a_loop(_Slotted()), 0),
    "counter": (lambda: _counted(collections.Counter()), 1),
    "defaultdict": (lambda: _counted(collections.defaultdict(int)), 1),
    "counter that has begun": (lambda: _counted(collections.Counter(a=0)), 0),
}
"""Each function, and how many of its calls run eagerly: those that put a new key into a table."""


def _counted(table):
    def f(x):
        table["a"] += 2
        return x * table["a"]

    return f


@pytest.mark.parametrize("name", NUMBERS)
def test_counts_in_tables_are_carried(name):
    x = torch.ones(2)
    make, as_written = NUMBERS[name]
    fast = torch.compile(make())
    assert [fast(x).tolist()[0] for _ in range(RUNS)] == [2.0 * i for i in range(1, RUNS + 1)]
    assert fast.counts["eager"] == as_written
    assert fast.counts["traced"] <= 3


CLOCKS = {
    "from time import": lambda x: (x, perf_counter()),
    "now": lambda x: (x, datetime.datetime.now().timestamp()),
    "urandom": lambda x: (x, os.urandom(8)),
}


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.filterwarnings("ignore:torch.compile. .* is not compiled")
def test_what_is_new_each_time(name):
    fast = torch.compile(CLOCKS[name])
    found = [fast(torch.ones(1))[1] for _ in range(RUNS)]
    assert len(set(found)) == RUNS


def test_a_file_is_written_once_per_call(tmp_path):
    path = tmp_path / "log"

    def f(x):
        with open(path, "a") as file:
            file.write("line\n")
        return x * 2

    fast = torch.compile(f)
    with pytest.warns(UserWarning, match=r"open\(\) was called at .*test_hidden_state"):
        [fast(torch.ones(1)) for _ in range(RUNS)]
    assert path.read_text() == "line\n" * RUNS


@pytest.mark.parametrize("make", [itertools.count, io.StringIO])
def test_what_is_reached_by_name_is_refused_though_it_is_not_used(make):
    held = {"it": make()}
    kind = type(held["it"]).__name__
    fast = torch.compile(lambda x: x * len(held))
    with pytest.warns(UserWarning, match=f"it reaches a {kind} from outside, whose state nothing tells") as told:
        assert [fast(torch.ones(1)).item() for _ in range(RUNS)] == [1] * RUNS
    assert len(told) == 1
    assert fast.counts == {"traced": 0, "run": 0, "eager": RUNS}


class Renumbered:
    """A key of a dict that has another hash when its number changes; that of a text differs in each process."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return isinstance(other, Renumbered) and self.number == other.number


def test_a_dict_that_does_not_find_its_own_key_is_refused_and_stays_as_it_is():
    key = Renumbered(1)
    held = {key: 2.0, 4: 1.0}
    key.number = 2
    assert key not in held
    before = list(held.items())
    fast = torch.compile(lambda x: x * sum(held.values()))
    with pytest.warns(UserWarning, match="it reaches a dict with a key whose hash has changed"):
        assert [fast(torch.ones(1)).item() for _ in range(RUNS)] == [3] * RUNS
    assert list(held.items()) == before


@pytest.mark.parametrize("held", [{"a": 1.0}, [1.0], {1.0}], ids=["dict", "list", "set"])
def test_an_interrupt_while_a_container_is_looked_at_leaves_it_as_it_is(held, monkeypatch):
    fact = Notes.fact

    def interrupted(notes, found):
        if found.object is held:
            raise KeyboardInterrupt
        fact(notes, found)

    before = type(held)(held)
    fast = torch.compile(lambda x: x * len(list(held)))
    with monkeypatch.context() as patched:
        patched.setattr(Notes, "fact", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fast(torch.ones(1))
    assert held == before
    assert fast(torch.ones(1)).item() == 1


def test_what_no_name_of_the_function_leads_to_costs_nothing():
    held = types.SimpleNamespace(it=itertools.count(), rng=random.Random(0), file=io.StringIO(), n=3)
    fast = torch.compile(lambda x: x * held.n)
    assert [fast(torch.ones(1)).item() for _ in range(RUNS)] == [3] * RUNS
    assert fast.counts == {"traced": 1, "run": RUNS, "eager": 0}


def test_nothing_is_advanced_twice_when_tracing_fails():
    it, rng = itertools.count(), random.Random(0)

    def f(x):
        a = rng.random()
        n = next(it)
        return (x * a + n) if x.sum() > 0 else x

    fast = torch.compile(f)
    of = "a (count|Random) from outside"
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match=f"it reaches {of}"):
        found = [fast(torch.ones(())).item() for _ in range(RUNS)]
    again = random.Random(0)
    np.testing.assert_allclose(found, [again.random() + i for i in range(RUNS)], rtol=1e-6)
    assert next(it) == RUNS


@pytest.mark.parametrize(("make", "kind"), [(itertools.count, "count"), (_generator, "generator")])
def test_programs_in_place_of_torch_get_a_log_line(make, kind, caplog, monkeypatch):
    monkeypatch.setattr(POLICY, "graph_breaks", True)  # as `python -m torchgrad_jax` has it
    fast = torch.compile(_advanced(make()))
    with caplog.at_level("WARNING", "torchgrad_jax.compile"):
        assert [fast(torch.ones(())).item() for _ in range(RUNS)] == [float(i) for i in range(RUNS)]
    (line,) = caplog.messages
    assert "is not compiled from now on, but runs eagerly" in line
    assert f"it reaches a {kind} from outside, whose state nothing tells" in line
