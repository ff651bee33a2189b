"""Which shapes of index and source fit an input, and recurrences whose degree is no number."""

from __future__ import annotations

from functools import partial

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

# Shapes of an input, of an index into it and of a source, and a dimension.
SHAPES = (
    ((2, 3), (2,), (2, 3), 0),
    ((2, 3), (2,), (2, 2), 1),
    ((2, 3), (), (), 0),
    ((2, 3), (1,), (2,), 1),
    ((2, 3), (1,), (3,), 0),
    ((2, 3), (1,), (1, 2), 0),
    ((2, 3), (2, 3), (2, 3), 5),
    ((), (1,), (1,), 0),
    ((), (1,), (), 0),
    ((), (), (), 0),
    ((3,), (1,), (), 0),
    ((3,), (2,), (3,), 0),
    ((3,), (1,), (1, 1), 0),
    ((2, 0), (1,), (1, 0), 0),
    ((2, 3), (2, 3), (2, 3), 0),
)


def wrote(m, name, x, index, source, dim):
    """The shape of the result, or the complaint."""
    given = m.zeros(x), dim, m.zeros(index, dtype=m.int64), m.ones(source)
    return complaint(lambda: getattr(m, name)(*given))


@program
def slices_that_fit(m):
    return {f"{name} {shapes}": wrote(m, name, *shapes) for name in ("index_add", "index_copy") for shapes in SHAPES}


@program
def an_index_of_no_dimension(m):
    x, zero = m.zeros(2), m.tensor(0)
    return m.scatter(x, 0, zero, m.ones(2)), m.scatter_add(x, 0, zero, m.ones(3))


@program
def a_dimension_that_stack_lacks(m):
    return [
        complaint(lambda: m.stack([m.zeros(()), m.zeros(1)], 1)),
        complaint(lambda: m.stack([m.zeros(()), m.zeros(1)], 0)),
    ]


@program.long
def degrees_that_are_no_numbers(m):
    n = m.tensor([float("inf"), -float("inf"), float("nan"), 3.0, -1.0])
    return m.special.chebyshev_polynomial_t(0.5, n), m.special.laguerre_polynomial_l(0.5, n)


@program
def masks_without_dimensions_among_indices(m):
    """One value fills everything or nothing."""
    out, x, one = [], m.arange(3.0), m.tensor([7.0])
    for value in (True, False):
        at = (m.tensor(value),)
        out += [m.index_put(x, at, one), x.clone().index_put_(at, m.tensor(7))]
        out += [m.index_put(m.zeros(2, 0), at, one), m.index_put(m.zeros(0), at, one)]
        out.append(complaint(lambda at=at: m.index_put(m.zeros(()), at, one)))
        out.append(complaint(lambda at=at: m.index_put(x, at, m.ones(3))[0:0])[0])
    return out


@program
def shapes_that_are_refused(m):
    x, zero = m.zeros(()), m.tensor(0)
    return [
        *[complaint(lambda d=d: m.take_along_dim(x, zero, d)) for d in (0, -1, 1)],
        complaint(lambda: m.block_diag([m.ones(2)])),
        complaint(lambda: m.block_diag(m.ones(2), 3)),
        *[complaint(lambda n=n: m.unsafe_chunk(x, n)) for n in (0, 1, 2)],
    ]


@program
def masks_and_counts(m):
    """Texts that say which size is whose, and what is not looked at where there is nothing to count."""
    shapes = ((2,), (3,), (2, 3), (0,))
    yes = {s: m.ones(s, dtype=m.bool) for s in shapes}
    return [
        *[complaint(partial(m.masked_scatter, m.zeros(a), yes[b], m.ones(9))) for a in shapes for b in shapes],
        *[complaint(partial(m.mv, m.ones(a), m.ones(b))) for a in ((), (2,), (2, 3)) for b in ((), (2,))],
        *[m.bincount(m.tensor([], dtype=m.int64), w, 2) for w in (None, m.ones(0), m.ones(3))],
    ]


@program.long
def one_flag_as_an_index_does_not_cast(m):
    """A mask fills, which casts; a single flag is an index, for which dtypes and shapes have to fit."""
    out = []
    for kind in (m.bool, m.float32, m.int64, m.uint8):
        for of_value in (m.bool, m.float32, m.int64):
            for index in (m.tensor(True), m.tensor(False), True, False, m.tensor([True, False])):
                for value in (m.tensor(3), m.tensor([3]), m.tensor([1, 0, 2])):
                    x = m.arange(2).to(kind)
                    out.append(complaint(partial(x.__setitem__, index, value.to(of_value))))
                    out.append(x)
    return out
