"""NaN and infinities in parameters of draws and in matrices give torch's errors and numbers, and nothing hangs."""

from __future__ import annotations

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

NAN, INF = float("nan"), float("inf")
VALUES = {
    "eigh": lambda m, a: m.linalg.eigh(a),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a),
    "svd": lambda m, a: m.linalg.svd(a),
    "svdvals": lambda m, a: m.linalg.svdvals(a),
    "svd of a batch": lambda m, a: m.linalg.svd(m.stack([m.eye(3), a])),
    "eigvalsh of a batch": lambda m, a: m.linalg.eigvalsh(m.stack([m.eye(3), a])),
    "pinv": lambda m, a: m.linalg.pinv(a),
    "pinv, hermitian": lambda m, a: m.linalg.pinv(a, hermitian=True),
    "matrix_rank": lambda m, a: m.linalg.matrix_rank(a),
    "matrix_rank, hermitian": lambda m, a: m.linalg.matrix_rank(a, hermitian=True),
    "cond": lambda m, a: m.linalg.cond(a),
    "nuclear norm": lambda m, a: m.linalg.matrix_norm(a, "nuc"),
}


def matrix(m, value, row, column):
    a = m.eye(3) * 2 + 0.1
    a[row, column] = value
    return a


@program
def decompositions_refuse_nan(m):
    """All but the number that LAPACK gives the failure."""
    return {
        f"{name} at {at}": complaint(lambda fn=fn, at=at: fn(m, matrix(m, NAN, *at)))[0:2][0]
        for name, fn in VALUES.items()
        for at in [(1, 0), (1, 1)]
    }


@program
def a_triangle_that_is_not_read_may_hold_anything(m):
    return [m.linalg.eigvalsh(matrix(m, v, 0, 1)) for v in (NAN, INF)]


PIVOTS = {
    "nan": [[NAN, 1.0], [2.0, 3.0]],
    "nan, second": [[4.0, 1.0, 2.0], [1.0, NAN, 3.0], [2.0, 5.0, 6.0]],
    "nan below infinity": [[INF, 1.0], [NAN, 2.0]],
    "infinities in a column": [[INF, 1.0, 2.0], [INF, 2.0, 5.0], [1.0, 4.0, 7.0]],
    "infinity alone": [[INF, 1.0], [2.0, 3.0]],
    "last": [[1.0, 2.0], [3.0, NAN]],
}


@program.long
def no_number_is_left_of_what_a_pivot_makes_undefined(m):
    solve, ones = m.linalg.solve_ex, m.ones(3)
    found = {}
    for name, rows in PIVOTS.items():
        a = m.tensor(rows)
        wide = m.cat([a, m.ones(len(rows), 2)], 1)
        solved = [m.linalg.inv_ex(a)[0], *[solve(x, ones[: len(rows)])[0] for x in (a, a.T)]]
        found[name] = solved, [m.isnan(x).any() for x in m.linalg.lu(m.stack([wide, wide + 1]))[1:]]
    return found


@program
def the_sign_of_a_determinant_that_is_nan_is_zero(m):
    return m.linalg.slogdet(matrix(m, NAN, 1, 1))


@program
def draws_around_infinity(m):
    m.manual_seed(0)
    found = []
    for v in (INF, -INF):
        found += [m.normal(v, 1.0, (3,)), m.normal(v, 1.0, (20,), dtype=m.float64)]
        found += [m.zeros(3).cauchy_(v, 1), m.zeros(3).normal_(v), m.zeros(3).log_normal_(v, 1)]
    return found


@program
def bounds_of_slopes_are_finite(m):
    rrelu, x = m.nn.functional.rrelu, -m.ones(3)
    pairs = [(0.1, v) for v in (NAN, INF, -INF)] + [(v, 0.1) for v in (NAN, INF, -INF)]
    return [complaint(lambda p=p, t=t: rrelu(x, *p, t)) for p in pairs for t in (True, False)]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("value", [INF, -INF])
def test_infinite_matrices_come_to_an_end(name, value):
    """LAPACK has loops that go on forever for some of them; torch's gives NaN or refuses."""
    for at in [(1, 0), (1, 1), (2, 0)]:
        for fn in (VALUES[name], tg.compile(VALUES[name])):
            with pytest.raises(RuntimeError, match="linalg"):
                fn(tg, matrix(tg, value, *at))


@program.long
def derivatives_of_digamma_at_infinity(m):
    x = m.tensor([INF, -INF, NAN, 0.0, -1.0])
    return [m.polygamma(n, x.to(d)) for n in range(6) for d in (m.float32, m.float64)]


@program.long
def infinite_matrices_have_no_cholesky_factor(m):
    infinite = [m.full((n, n), INF) for n in (2, 3)] + [m.diag(m.tensor([INF, 1.0]))]
    return [int(m.linalg.cholesky_ex(a).info) for a in infinite]


@program.long
def zeta_at_its_poles_and_beyond(m):
    q = m.tensor([-2.5, -2, -1, 0, -0.0, 0.5, 1, 2, 30, NAN, INF, -INF, 1e10, 1e-10])
    return [m.special.zeta(m.tensor(x), q) for x in (-2.0, 0.5, 1.0, 1.5, 3.0, NAN, INF, -INF)]
