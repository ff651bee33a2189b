"""Histograms of values that are all the same, of none, and over ranges of no extent."""

from __future__ import annotations

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())

INF, NAN = float("inf"), float("nan")
CONSTANTS = (0.0, 1.0, -3.0, 1e8, 16777216.0, 8388608.0, 1e30)


@program
def constants(m):
    return [
        [*m.histogram(m.full((3,), v), bins), m.histc(m.full((3,), v), bins)] for v in CONSTANTS for bins in (1, 2, 5)
    ]


@program
def ranges_of_no_extent(m):
    ones = m.ones(4)
    return [
        [*m.histogram(x, 4, range=r, density=d)]
        for x in (ones, ones[:0])
        for r in (None, (1.0, 1.0), (2.0, 2.0), (0.0, 0.0))
        for d in (False, True)
    ]


@program
def neighbours_in_float32(m):
    x = m.tensor([1e8, 1e8 + 8])
    return [*m.histogram(x, 4), m.histc(x, 4)]


@program
def weights(m):
    x, w = m.tensor([1.0, 1.0, 3.0, NAN]), m.tensor([0.5, 2.0, 0.0, 1.0])
    return [[*m.histogram(x, 4, range=(0.0, 4.0), weight=w, density=d)] for d in (False, True)] + [
        [*m.histogram(x[:2], 3, weight=w[:2] * 0, density=True)]
    ]


@program
def edges(m):
    x = m.tensor([0.0, 1.0, 1.0, 2.0, INF, NAN])
    return [[*m.histogram(x, m.tensor(e))] for e in ([0.0, 1.0, 1.0, 2.0], [1.0, 1.0], [0.0, INF])]


@program
def what_is_refused(m):
    x = m.ones(4)
    calls = [
        lambda: m.histogram(x, m.tensor([0.0])),
        lambda: m.histogram(x, m.tensor([])),
        lambda: m.histogram(x, 4, range=(0.0, INF)),
        lambda: m.histogram(x, 4, range=(NAN, 1.0)),
        lambda: m.histogram(x, 4, range=(1.0,)),
        lambda: m.histogram(x, 4, range=(2.0, 1.0)),
        lambda: m.histogram(x, 4, weight=x.double()),
        lambda: m.histogram(x, 0),
        lambda: m.histogram(x * INF, 4),
        lambda: m.histc(x, 4, 2, 1),
    ]
    return [complaint(call) for call in calls]


POINTS = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [4.0, 1.0], [3.9, 4.9]]
GRIDS = {
    "counts": lambda m, x, w: m.histogramdd(x, [2, 3]),
    "one count": lambda m, x, w: m.histogramdd(x, 2, weight=w),
    "a range": lambda m, x, w: m.histogramdd(x, [2, 3], range=[0.0, 4.0, 0.0, 5.0], density=True),
    "edges": lambda m, x, w: m.histogramdd(x, [x.new_tensor([0, 2, 4]), x.new_tensor([0, 1, 9])], weight=w),
    "several dimensions": lambda m, x, w: m.histogramdd(x[None], 2, weight=w[None]),
}


@program
def points_in_two_dimensions(m):
    found = {}
    for name, count in GRIDS.items():
        for dtype in (m.float32, m.float64):
            x = m.tensor(POINTS, dtype=dtype)
            hist, edges = count(m, x, x[:, 0] + 1)
            found[f"{name} {dtype}"] = [hist, *edges]
    return found


@program
def points_far_out_in_float32(m):
    """The edges are numbers that float32 has, which few are there."""
    found = []
    for start in (1e9, 16777216.0, 3e4):
        x = m.tensor([[start, 1.0], [start + 64, 2.0], [start + 128, 3.0], [start + 200, 1.5]])
        for bins in ([3, 2], [7, 1], 5):
            hist, edges = m.histogramdd(x, bins)
            found += [hist, *edges]
    return found


@program
def points_that_are_refused(m):
    x = m.tensor([[0.0, INF], [1.0, 2.0]])
    calls = [lambda: m.histogramdd(x, 2), lambda: m.histogramdd(x[1:], [2, 0]), lambda: m.histogramdd(x[1:], [2])]
    return [complaint(call) for call in calls], *m.histogramdd(x[:0], 2)


@pytest.mark.long
def test_points_in_a_compiled_function():
    x = tg.tensor(POINTS)
    for name, count in GRIDS.items():
        hist, edges = count(tg, x, x[:, 0] + 1)
        compiled, same_edges = tg.compile(lambda x, count=count: count(tg, x, x[:, 0] + 1))(x)
        assert tg.allclose(hist, compiled), name
        assert all(tg.allclose(a, b) for a, b in zip(edges, same_edges)), name
    with pytest.raises(RuntimeError, match="dimension 0's range"):
        tg.compile(lambda x: tg.histogramdd(x, 2)[0])(x * INF).tolist()
