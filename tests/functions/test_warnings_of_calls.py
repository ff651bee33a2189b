"""Calls that warn: deprecated indices, memory that may only be read, transposes of tensors that are no matrices."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.differential import caught_warnings
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def _told(m: Any, fn: Callable[[], Any], always: bool = True) -> list[list[str]]:
    """Classes and texts of the warnings of a call, also of those that are given once."""
    with caught_warnings(m, always) as caught:
        fn()
    texts = [re.sub(r" \(Triggered internally.*", "", str(w.message), flags=re.S) for w in caught]
    return [[w.category.__name__, text] for w, text in zip(caught, texts)]


def _read_only(kind: Any = np.float32) -> np.ndarray:
    array = np.ones(3, kind)
    array.flags.writeable = False
    return array


@program
def sequences_that_count_as_tuples_of_indices(m):
    """Each time."""
    x = m.arange(12.0).view(3, 4)
    indices: tuple[Any, ...] = (
        [slice(0, 1)], [None], range(2), [None, 0], [0, 1], [[0, 1], [0, 1]], [...], [m.tensor(0), 1],
        [m.tensor([0]), m.tensor([1])], [True, False, True], [slice(None), 1], [slice(None), [0, 1]], [0, slice(1)],
        [np.array([0])], [range(2)], [0] * 33, [], [()], [[]], [range(2), 0], (slice(0, 1),),
    )  # fmt: skip
    found: list[Any] = [_told(m, lambda i=i: x[i]) for i in indices]
    found += [_told(m, lambda i=i: x[i], False) for i in ([None], [None], range(2))]
    return found, _told(m, lambda: x.__setitem__([slice(0, 1)], 1.0), False)


@program
def arrays_and_buffers_that_may_only_be_read(m):
    shared = [
        lambda: m.from_numpy(_read_only()),
        lambda: m.from_numpy(np.ones(3)),
        lambda: m.tensor(_read_only()),
        lambda: m.frombuffer(b"1234", dtype=m.uint8),
        lambda: m.frombuffer(bytearray(b"1234"), dtype=m.uint8),
    ]
    found: list[Any] = [_told(m, fn) for fn in shared]
    for fn in (shared[0], shared[3]):
        _told(m, fn, False)
        found.append(_told(m, fn, False))
    return found


@program
def transposes_of_other_than_matrices(m):
    cube, row, number = m.ones(2, 3, 4), m.ones(2), m.ones(())
    looks = [
        lambda: cube.T,
        lambda: row.T,
        lambda: number.T,
        lambda: number.H,
        lambda: number.mT,
        lambda: number.mH,
        lambda: m.adjoint(number),
        lambda: m.ones(2, 2).T,
        lambda: cube.mT,
    ]
    found: list[Any] = [_told(m, fn) for fn in looks]
    _told(m, looks[0], False)
    return found, _told(m, looks[1], False), m.adjoint(number), cube.T.shape


@program
def numerical_gradients_with_no_step(m):
    """Numbers that are none are compared, and nothing is said of how they came about."""
    x = m.ones(2, dtype=m.float64, requires_grad=True)
    check = m.autograd.gradcheck
    found = [
        _told(m, lambda o=o: check(lambda x: x * 2, (x,), eps=0, raise_exception=False, **o))
        for o in ({}, {"fast_mode": True})
    ]
    return found, complaint(lambda: check(lambda x: x * 2, (x,), eps=0))[0]


@program.long
def moments_of_too_few_elements(m):
    """Without results there are no degrees of freedom either."""
    return [
        _told(m, lambda n=name, s=shape, h=how: getattr(m, n)(m.ones(s), **h))
        for name in ("std", "var", "std_mean", "var_mean")
        for shape in ((0,), (0, 3), (3, 0), (1,), (2, 0, 2))
        for how in ({}, {"dim": 0}, {"dim": -1}, {"dim": 0, "correction": 0})
    ]
