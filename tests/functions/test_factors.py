"""Factorizations that fail, and tangents of matrices of which one half is read."""

from __future__ import annotations

import itertools
import warnings

import pytest

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = pytest.mark.long(program.test())

MATRICES = {
    "indefinite": [[4.0, 2.0, 1.0], [2.0, -3.0, 5.0], [1.0, 5.0, 9.0]],
    "zero": [[0.0] * 3] * 3,
    "in the last minor": [[4.0, 2.0, 1.0], [2.0, 3.0, 5.0], [1.0, 5.0, 1.0]],
    "definite": [[4.0, 2.0, 1.0], [2.0, 5.0, 3.0], [1.0, 3.0, 9.0]],
    "of rank one": [[1.0] * 3] * 3,
    "with a nan": [[1.0, 2.0, 3.0], [2.0, float("nan"), 1.0], [3.0, 1.0, 1.0]],
    "with another upper half": [[4.0, 100.0, 7.0], [2.0, -3.0, 55.0], [1.0, 5.0, 9.0]],
}
WHOLE = [[3.1, 0.4, -1.0], [0.7, 2.6, 0.3], [-0.2, 1.1, 4.2]]
TANGENT = [[0.5, -1.5, 2.0], [0.3, 0.2, -0.7], [1.9, 0.1, -0.4]]
RIGHT = [[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]]


def stacked(m, dtype="float64"):
    return m.stack([m.tensor(a, dtype=getattr(m, dtype)) for a in MATRICES.values()])


@program
def which_minor_has_no_factor(m):
    return [
        m.linalg.cholesky_ex(stacked(m, dtype), upper=upper).info
        for dtype in ("float32", "float64", "complex128")
        for upper in (False, True)
    ]


@program
def one_by_one_and_batched(m):
    a = stacked(m)
    each = [m.linalg.cholesky_ex(x).info for x in a]
    return each, m.vmap(lambda x: m.linalg.cholesky_ex(x).info)(a)


@program
def which_minor_of_a_larger_matrix(m):
    x = m.arange(1.0, 37.0, dtype=m.float64).reshape(6, 6).sin()
    a = x @ x.mT + 0.5 * m.eye(6, dtype=m.float64)
    return [
        m.linalg.cholesky_ex(a.index_put((m.tensor(k), m.tensor(k)), m.tensor(-3.0, dtype=m.float64))).info
        for k in (0, 3, 5)
    ]


@program
def what_singular_factors_say(m):
    singular = m.tensor([[1.0, 2.0], [2.0, 4.0]])
    return [
        complaint(lambda: m.linalg.lu_factor_ex(singular, check_errors=True)),
        complaint(lambda: m.linalg.lu_factor_ex(m.stack([m.eye(2), singular]), check_errors=True)),
        complaint(lambda: m.linalg.lu_factor(singular)),
        complaint(lambda: m.linalg.inv_ex(singular, check_errors=True)),
        complaint(lambda: m.linalg.solve_ex(singular, m.ones(2), check_errors=True)),
        complaint(lambda: m.linalg.cholesky_ex(-singular, check_errors=True)),
    ]


HALVES = {
    "cholesky": lambda m, a, b: m.linalg.cholesky(a @ a.mT),
    "cholesky of what is not symmetric": lambda m, a, b: m.linalg.cholesky(a),
    "its upper factor": lambda m, a, b: m.linalg.cholesky(a, upper=True),
    "cholesky_ex": lambda m, a, b: m.linalg.cholesky_ex(a)[0],
    "eigh": lambda m, a, b: m.linalg.eigh(a)[1].abs(),
    "eigh of the upper half": lambda m, a, b: m.linalg.eigh(a, "U")[1].abs(),
    "eigvalsh": lambda m, a, b: m.linalg.eigvalsh(a),
    "cholesky_solve": lambda m, a, b: m.cholesky_solve(b, a),
    "upper cholesky_solve": lambda m, a, b: m.cholesky_solve(b, a, upper=True),
    "triangular_solve": lambda m, a, b: m.triangular_solve(b, a)[0],
    "lower triangular_solve": lambda m, a, b: m.triangular_solve(b, a, upper=False)[0],
    "its matrix": lambda m, a, b: m.triangular_solve(b, a)[1],
    "unit triangular_solve": lambda m, a, b: m.triangular_solve(b, a, unitriangular=True)[0],
    "solve_triangular": lambda m, a, b: m.linalg.solve_triangular(a, b, upper=True),
    "lu_solve": lambda m, a, b: m.linalg.lu_solve(a, m.tensor([2, 2, 3], dtype=m.int32), b),
}


def halves(name):
    def tangents(m):
        a, b, ta, tb = (m.tensor(x, dtype=m.float64) for x in (WHOLE, RIGHT, TANGENT, RIGHT))
        with warnings.catch_warnings():  # torch's formulas call the deprecated function too
            warnings.simplefilter("ignore")
            return m.func.jvp(lambda a, b: HALVES[name](m, a, b), (a, b), (ta, tb))

    tangents.__name__ = name
    return tangents


@pytest.mark.long(
    "cholesky",
    "cholesky of what is not symmetric",
    "its upper factor",
    "cholesky_ex",
    "cholesky_solve",
    "upper cholesky_solve",
    "lu_solve",
)
@pytest.mark.parametrize("name", HALVES)
def test_tangents_through_the_half_that_is_not_read(name, same):
    same(halves(name))


@program
def a_transposed_system_moves_as_its_equation_says(m):
    """torch forgets to transpose the change of the matrix, which does not show where that is the identity."""
    a, b = m.tensor(WHOLE).triu(), m.tensor(RIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return m.func.jvp(lambda a, b: m.triangular_solve(b, a, transpose=True)[0], (a, b), (m.eye(3), b))


@program
def solutions_from_factors_follow_one_of_their_inputs(m):
    """The factors alone, the right side alone, and both: gradients, second gradients and tangents."""
    found = []
    pivots = m.tensor([2, 2, 3], dtype=m.int32)
    for left, adjoint, of in itertools.product((True, False), (True, False), ("A", "B", "AB")):
        a, b = m.tensor(WHOLE, dtype=m.float64), m.tensor(RIGHT, dtype=m.float64)
        given = {"A": a, "B": b if left else b.mT.contiguous()}

        def solve(*moving, given=given, of=of, left=left, adjoint=adjoint):
            now = {**given, **dict(zip(of, moving))}
            return m.linalg.lu_solve(now["A"], pivots, now["B"], left=left, adjoint=adjoint)

        xs = [given[name].clone().requires_grad_() for name in of]
        first = m.autograd.grad(solve(*xs).square().sum(), xs, create_graph=True)
        second = m.autograd.grad(sum(g.square().sum() for g in first), xs)
        ones = tuple(m.ones_like(x) for x in xs)
        tangent = m.func.jvp(solve, tuple(x.detach() for x in xs), ones)[1]
        found += [*[g.detach() for g in first], *second, tangent]
    return found
