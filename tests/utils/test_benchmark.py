"""torch.utils.benchmark: reports about given times are torch's, and the timer measures."""

import importlib
import pickle
import time

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, attempt
from torchgrad_jax.utils import benchmark as ours

PROGRAMS = Programs()


def measured(m, times, stmt="a + b", setup="pass", runs=10, **names):
    b = importlib.import_module(m.__name__ + ".utils.benchmark")
    return b.Measurement(runs, [t * runs for t in times], b.TaskSpec(stmt, setup, **names))


def sample(m):
    return [
        measured(m, [1e-6, 1.1e-6, 1.05e-6, 1.2e-6]),
        measured(m, [1e-3], label="L", setup="x = 1"),
        measured(m, [0.5, 0.6, 0.7], sub_label="s", description="d", num_threads=2),
        measured(m, [1e-9, 3e-9, 1e-8, 2e-9, 5e-9], label="L", sub_label="S", setup="x = 1\ny = 2"),
        measured(m, [1.2345678e-5] * 10, env="E", description="D"),
        measured(m, [1e-5, 1.5e-5, 2e-5, 1e-5, 3e-5], label="a", stmt="a\nb"),
    ]


@PROGRAMS
def told(m):
    return [repr(x).partition("\n")[2].partition("\n  WARNING")[0] for x in sample(m)]


@PROGRAMS
def numbers(m):
    names = ("median", "mean", "iqr", "significant_figures", "title", "times", "env", "num_threads", "sub_label")
    told = [([getattr(x, n) for n in names], x.meets_confidence()) for x in sample(m)]
    return [*told, attempt(lambda: sample(m)[0].nothing)]


@PROGRAMS
def merged(m):
    once = sample(m)[0]
    twice = importlib.import_module(m.__name__ + ".utils.benchmark").Measurement.merge([once, once])
    return [len(twice), twice[0].times, twice[0].number_per_run]


def compared(m):
    b = importlib.import_module(m.__name__ + ".utils.benchmark")
    return b.Compare(
        [
            measured(
                m, [t * k / n, t * k / n * 1.1, t * k / n * 0.9], label="lab", sub_label=s, description=d, num_threads=n
            )
            for s, t in (("x", 1e-6), ("yy", 2e-5))
            for d, k in (("one", 1), ("two", 3.3))
            for n in (1, 4)
            if (s, n) != ("yy", 4) or d == "one"
        ]
    )


def words(table):
    return [line.split() for line in str(table).replace("-", "").splitlines()]


@PROGRAMS
def tables(m):
    shown = compared(m)
    out = [words(shown)]
    shown.trim_significant_figures()
    shown.extend_results([measured(m, [2e-4], label="other", description="n")])
    return [*out, words(shown)]


@PROGRAMS
def timers(m):
    b = importlib.import_module(m.__name__ + ".utils.benchmark")
    return [
        b.Timer("\n    x = 1\n    if x:\n        y = 2\n    ").timeit(1).stmt,
        [b.Timer("w", globals={"w": 1}, num_threads=2, label="q").timeit(2).title],
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program, same):
    same(program)


def test_doubtful_times_are_told():
    assert "60.0% of the median" in repr(measured(tg, [1e-3, 1.6e-3, 1e-3, 1.6e-3, 1e-3]))
    assert "WARNING" not in repr(measured(tg, [1e-3, 1.01e-3, 1e-3, 1.01e-3, 1e-3]))


def test_the_best_time_is_green_and_slow_ones_are_red():
    shown = compared(tg)
    assert "\033" not in str(shown)
    shown.colorize()
    best, worst = (next(line for line in str(shown).splitlines() if line.startswith(name)) for name in ("  x ", "  yy"))
    assert best.count("\033[92m") == 2
    assert worst.count("\033[91m") == 2
    shown.colorize(rowwise=True)
    row = next(line for line in str(shown).splitlines() if line.startswith("  yy"))
    assert (row.count("\033[92m"), row.count("\033[91m")) == (1, 1)


def test_environments_have_rows_of_their_own():
    table = ours.Compare([measured(tg, [2e-4], label="L", env=e, description="n") for e in ("old", "newer")])
    assert [line.split()[0] for line in str(table).splitlines()[3:5]] == ["(old)", "(newer)"]


def test_statements_are_timed():
    slow = ours.Timer("sleep(0.002)", globals={"sleep": time.sleep})
    m = slow.timeit(3)
    assert (m.number_per_run, len(m.times)) == (3, 1)
    assert m.median >= 0.002
    seen = []
    m = slow.blocked_autorange(lambda n, t: seen.append((n, t)), min_run_time=0.02)
    assert [t for _, t in seen] == m.raw_times
    assert sum(m.raw_times) >= 0.02
    m = slow.adaptive_autorange(10.0, min_run_time=0.01)
    assert len(m.times) > 3
    assert pickle.loads(pickle.dumps(m)) == m


def test_results_are_waited_for():
    ready = []

    class Array:
        def block_until_ready(self):
            ready.append(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours.jax, "live_arrays", lambda: [Array(), Array()])
        assert ours.timer() > 0
    assert ready == [1, 1]


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="Python"):
        ours.Timer("x", language="c++")
    with pytest.raises(NotImplementedError, match="Python"):
        ours.Timer("x", global_setup="int x;")
    with pytest.raises(NameError):
        ours.Timer("undefined").timeit(1)
    with pytest.raises(AttributeError, match=r"torch\.utils\.benchmark\.Fuzzer"):
        ours.Fuzzer
