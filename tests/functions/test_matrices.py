"""Factorizations that fail, matrices that are not finite, and tangents of matrices of which one half is read."""

import math

import pytest

import torchgrad_jax as tg
from tests.differential import numbers
from tests.expressions import table

PRELUDE = """
def doubles(rows):
    return torch.tensor(rows, dtype=torch.float64)
MATRICES = (
    [[4, 2, 1], [2, -3, 5], [1, 5, 9]], [[0] * 3] * 3, [[4, 2, 1], [2, 3, 5], [1, 5, 1]],
    [[4, 2, 1], [2, 5, 3], [1, 3, 9]], [[1] * 3] * 3, [[1, 2, 3], [2, nan, 1], [3, 1, 1]],
    [[4, 100, 7], [2, -3, 55], [1, 5, 9]],
)
whole, right = doubles([[3.1, 0.4, -1], [0.7, 2.6, 0.3], [-0.2, 1.1, 4.2]]), doubles([[1, -2], [0.5, 3], [-1.5, 0.25]])
moved = doubles([[0.5, -1.5, 2], [0.3, 0.2, -0.7], [1.9, 0.1, -0.4]])
pivots = torch.tensor([2, 2, 3], dtype=torch.int32)
singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
larger = torch.arange(1.0, 37.0, dtype=torch.float64).reshape(6, 6).sin()
def stacked(dtype=torch.float64):
    return torch.stack([torch.tensor(a, dtype=dtype) for a in MATRICES])
def tangents(fn):
    return torch.func.jvp(fn, (whole, right), (moved, right))
def solved(left, adjoint, of):
    given = {"A": whole, "B": right if left else right.mT.contiguous()}
    def solve(*moving):
        now = {**given, **dict(zip(of, moving))}
        return torch.linalg.lu_solve(now["A"], pivots, now["B"], left=left, adjoint=adjoint)
    xs = [given[name].clone().requires_grad_() for name in of]
    first = torch.autograd.grad(solve(*xs).square().sum(), xs, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), xs)
    ones = tuple(torch.ones_like(x) for x in xs)
    return [*[g.detach() for g in first], *second, torch.func.jvp(solve, tuple(x.detach() for x in xs), ones)[1]]
def matrix(value, row, column):
    a = torch.eye(3) * 2 + 0.1
    a[row, column] = value
    return a
def undefined(rows):
    a, ones = torch.tensor(rows), torch.ones(len(rows))
    wide = torch.cat([a, torch.ones(len(rows), 2)], 1)
    found = [torch.linalg.inv_ex(a)[0], *[torch.linalg.solve_ex(x, ones)[0] for x in (a, a.T)]]
    return found, [x.isnan().any() for x in torch.linalg.lu(torch.stack([wide, wide + 1]))[1:]]
"""
test_as_torch_does = table(__file__, "matrices.txt", prelude=[PRELUDE], look=numbers)

ENDLESS = {
    "eigh": tg.linalg.eigh,
    "eigvalsh": tg.linalg.eigvalsh,
    "svd": tg.linalg.svd,
    "svdvals": tg.linalg.svdvals,
    "svd of a batch": lambda a: tg.linalg.svd(tg.stack([tg.eye(3), a])),
    "eigvalsh of a batch": lambda a: tg.linalg.eigvalsh(tg.stack([tg.eye(3), a])),
    "pinv": tg.linalg.pinv,
    "pinv, hermitian": lambda a: tg.linalg.pinv(a, hermitian=True),
    "matrix_rank": tg.linalg.matrix_rank,
    "matrix_rank, hermitian": lambda a: tg.linalg.matrix_rank(a, hermitian=True),
    "cond": tg.linalg.cond,
    "nuclear norm": lambda a: tg.linalg.matrix_norm(a, "nuc"),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_matrices_come_to_an_end(name, value):
    """LAPACK has loops that go on forever for some of them; torch's gives NaN or refuses."""
    for at in [(1, 0), (1, 1), (2, 0)]:
        a = tg.eye(3) * 2 + 0.1
        a[at] = value
        for fn in (ENDLESS[name], tg.compile(ENDLESS[name])):
            with pytest.raises(RuntimeError, match="linalg"):
                fn(a)
