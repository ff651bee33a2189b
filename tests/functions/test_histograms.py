"""Histograms of values that are all the same, of none, and over ranges of no extent."""

from __future__ import annotations

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

INF, NAN = float("inf"), float("nan")
CONSTANTS = (0.0, 1.0, -3.0, 1e8, 16777216.0, 8388608.0, 1e30)


@program
def constants(m):
    return [
        [*m.histogram(m.full((3,), v), bins), m.histc(m.full((3,), v), bins)]
        for v in CONSTANTS
        for bins in (1, 2, 5)
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
        lambda: m.histogram(x, m.tensor([0.0])), lambda: m.histogram(x, m.tensor([])),
        lambda: m.histogram(x, 4, range=(0.0, INF)), lambda: m.histogram(x, 4, range=(NAN, 1.0)),
        lambda: m.histogram(x, 4, range=(1.0,)), lambda: m.histogram(x, 4, range=(2.0, 1.0)),
        lambda: m.histogram(x, 4, weight=x.double()), lambda: m.histogram(x, 0),
        lambda: m.histogram(x * INF, 4), lambda: m.histc(x, 4, 2, 1),
    ]  # fmt: skip
    return [complaint(call) for call in calls]
