"""Arguments of `embedding_bag`: what is refused, and what their dtypes and shapes mean."""

from __future__ import annotations

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

MODES = ("sum", "mean", "max")


def result_or_error(call):
    """What a call gives, or the class and the first line of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]


def bag(m, indices, offsets=None, **options):
    table = m.arange(12.0).reshape(4, 3)
    return result_or_error(lambda: m.nn.functional.embedding_bag(indices, table, offsets, **options))


def raw(m, indices, offsets, mode=0, shares=None, last=False):
    table = m.arange(12.0).reshape(4, 3)
    return result_or_error(lambda: m.embedding_bag(table, indices, offsets, False, mode, False, shares, last)[0])


@program
def dtypes_of_indices_and_offsets(m):
    kinds = (m.int16, m.int32, m.int64, m.bool, m.float32, m.float64, m.complex64)
    return [bag(m, m.tensor([0, 1, 1, 0], dtype=i), m.tensor([0, 1], dtype=o)) for i in kinds for o in kinds]


@program
def bags_in_rows(m):
    """They have no offsets, and so none of them is the last one."""
    indices, shares = m.tensor([[0, 1], [2, 3]]), m.tensor([[1.0, 2.0], [3.0, 4.0]])
    rows = [bag(m, indices, mode=mode, include_last_offset=last) for mode in MODES for last in (False, True)]
    shared = bag(m, indices, mode="sum", per_sample_weights=shares, include_last_offset=True)
    none = [bag(m, m.zeros(n, 2 - n, dtype=m.int64)) for n in (0, 2)]
    return [*rows, shared, *none]


@program
def shapes_of_offsets(m):
    indices = m.tensor([0, 1, 2, 3])
    offsets = [m.tensor(0), m.tensor([[0, 2]]), m.tensor([1]), m.tensor([0, 5]), m.tensor([0, 4, 4])]
    of_the_row = [raw(m, indices, o) for o in offsets]
    ends = [m.tensor([0]), m.tensor([0, 4]), m.zeros(0, dtype=m.int64)]
    return [
        *[bag(m, indices, o) for o in offsets],
        *of_the_row,
        *[bag(m, indices[:0] if o.numel() == 1 else indices, o, include_last_offset=True) for o in ends],
    ]


@program
def shares_of_samples(m):
    indices, offsets = m.tensor([0, 1, 2, 3]), m.tensor([0, 2])
    shares = [m.ones(shape) for shape in ((4,), (3,), (5,), (2, 2), ())] + [m.ones(4).double(), m.ones(4).int()]
    return [
        *[bag(m, indices, offsets, mode=mode, per_sample_weights=s) for mode in MODES for s in shares],
        *[raw(m, indices, offsets, mode, s) for mode in range(4) for s in shares],
    ]


WRONG_ORDER = {
    (0, -1, 2): "offsets[1] of -1 after 0",
    (0, 3, 2): "offsets[2] of 2 after 3",
    (0, 9, 2, 1): "offsets[2] of 2 after 9",
}
"""Torch reads outside of its memory here, and then gives any numbers, an error or a crash."""


@pytest.mark.parametrize("offsets", WRONG_ORDER, ids=str)
@pytest.mark.parametrize("way", [lambda f: f, tg.compile, tg.vmap], ids=["eager", "compiled", "vmap"])
def test_offsets_that_do_not_ascend_are_refused(offsets, way):
    table, indices = tg.ones(4, 3), tg.tensor([0, 1, 2, 3])
    given = tg.tensor([offsets, offsets] if way is tg.vmap else offsets)
    run = way(lambda o: tg.nn.functional.embedding_bag(indices, table, o))
    with pytest.raises(RuntimeError) as error:
        run(given)
    assert str(error.value) == f"offsets has to be in ascending order, but got {WRONG_ORDER[offsets]}"
