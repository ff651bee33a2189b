"""Factorizations that NumPy code gives to LAPACK are those of XLA, up to as many products as the rule names."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from torchgrad_jax._core.host import choice, code as host, one_thread

LINALG = lax.linalg


def matrices(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return jnp.asarray(x.astype(dtype))


def positive(dtype, n):
    x = matrices(dtype, n, n)
    return x @ x.conj().T / n + jnp.eye(n, dtype=dtype)


def code(fn, *args):
    def xla(*flat):
        raise AssertionError("left to XLA")

    return host.program(jax.make_jaxpr(fn)(*args), xla, False)


def factorizes_as_xla(fn, *args, tolerance=1e-4):
    program = code(fn, *args)
    assert program is not None
    for ours, theirs in zip(program(*args), jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        largest = np.abs(np.nan_to_num(theirs)).max()
        np.testing.assert_allclose(ours, theirs, atol=float(largest) * tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 4, 40])
def test_factorizations_are_those_of_xla(dtype, n):
    factorizes_as_xla(LINALG.lu, matrices(dtype, n, n))
    factorizes_as_xla(LINALG.lu, matrices(dtype, n, n + 3))
    factorizes_as_xla(lambda x: LINALG.lu_pivots_to_permutation(LINALG.lu(x)[1], n + 2), matrices(dtype, n + 2, n))
    factorizes_as_xla(lambda x: LINALG.cholesky(x, symmetrize_input=False), positive(dtype, n))
    factorizes_as_xla(lambda x: LINALG.qr(x, full_matrices=False), matrices(dtype, n + 2, n))
    factorizes_as_xla(lambda x: LINALG.qr(x), matrices(dtype, n, n + 2))
    factorizes_as_xla(lambda x: LINALG.eigh(x, symmetrize_input=False)[1], positive(dtype, n))
    for full in (False, True):
        factorizes_as_xla(lambda x, full=full: LINALG.svd(x, full_matrices=full)[1], matrices(dtype, n, n + 2))
    factorizes_as_xla(lambda x: LINALG.svd(x, compute_uv=False), matrices(dtype, n + 2, n))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_was_decomposed_comes_together_again(dtype):
    x, positive_x = matrices(dtype, 9, 6), positive(dtype, 7)
    u, s, vh = code(lambda x: LINALG.svd(x, full_matrices=False), x)(x)
    np.testing.assert_allclose(u * s @ vh, x, atol=1e-12)
    vectors, values = code(lambda x: LINALG.eigh(x, lower=False, symmetrize_input=False), positive_x)(positive_x)
    np.testing.assert_allclose(vectors * values @ vectors.conj().T, positive_x, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("transposed", "conjugated"), [(False, False), (True, False), (True, True)])
def test_triangular_systems(dtype, left, lower, transposed, conjugated):
    options = {"left_side": left, "lower": lower, "transpose_a": transposed, "conjugate_a": conjugated}
    a, b = matrices(dtype, 5, 5) + 3 * jnp.eye(5, dtype=dtype), matrices(dtype, *((5, 2) if left else (2, 5)))
    for unit in (False, True):
        factorizes_as_xla(lambda a, b, unit=unit: LINALG.triangular_solve(a, b, unit_diagonal=unit, **options), a, b)


def test_batches():
    x = matrices("float32", 2, 3, 4, 4)
    factorizes_as_xla(LINALG.lu, x)
    factorizes_as_xla(lambda a, b: LINALG.triangular_solve(a, b, left_side=True), x, x)
    factorizes_as_xla(lambda x: LINALG.svd(x, compute_uv=False), x)
    factorizes_as_xla(lambda x: LINALG.cholesky(x @ x.swapaxes(-1, -2)), x)


def test_where_a_factorization_fails_it_is_nan():
    factorizes_as_xla(LINALG.cholesky, jnp.array([[1.0, 2.0], [2.0, 1.0]]))
    factorizes_as_xla(LINALG.lu, jnp.zeros((3, 3)))


def test_a_choice_of_what_to_do_is_made_when_it_comes():
    def branch(k, x):
        return lax.switch(k, [lambda x: x + 1, lambda x: x * x, lambda x: LINALG.lu(x)[0]], x)

    x = matrices("float64", 3, 3)
    for k in (-1, 0, 1, 2, 9):
        factorizes_as_xla(branch, jnp.asarray(k, "int64"), x)
        factorizes_as_xla(jax.grad(lambda x, k: branch(k, x).sum()), x, jnp.asarray(k, "int64"))


def test_a_system_that_says_how_it_is_solved():
    def solve(a, b):
        return lax.custom_linear_solve(
            lambda x: a @ x, b, lambda _, y: LINALG.triangular_solve(a, y[:, None], left_side=True, lower=True)[:, 0]
        )

    a = jnp.tril(matrices("float64", 4, 4)) + 4 * jnp.eye(4)
    factorizes_as_xla(solve, a, jnp.arange(4.0))


def test_large_matrices_and_many_tiny_ones_are_xlas():
    assert code(LINALG.lu, jnp.zeros((choice._SIDE, choice._SIDE))) is not None
    assert code(LINALG.lu, jnp.zeros((choice._SIDE + 1, choice._SIDE + 1))) is None


@pytest.mark.parametrize("shape", [(2000, 3), (3, 2000), (1500, 100)])
def test_a_long_matrix_takes_as_long_as_it_has_products(shape):
    """So least squares compile nothing for a new number of rows."""
    m, n = shape
    factorizes_as_xla(LINALG.lu, matrices("float64", m, n))
    factorizes_as_xla(lambda x: LINALG.qr(x, full_matrices=False), matrices("float64", m, n))
    factorizes_as_xla(lambda x: LINALG.svd(x, full_matrices=False, compute_uv=False), matrices("float64", m, n))
    a = positive("float64", n if n < m else m)
    b = matrices("float64", len(a), max(m, n))
    factorizes_as_xla(lambda a, b: LINALG.triangular_solve(a, b, left_side=True, lower=True), a, b)
    assert code(lambda x: LINALG.svd(x, full_matrices=True), jnp.zeros((2000, 3))) is None


def test_pivots_and_eigenvalues_of_a_batch_are_no_matrices():
    batch = jnp.zeros((20_000, 40, 40))
    for fn in (LINALG.lu, LINALG.eigh, LINALG.svd):
        (eqn,) = [e for e in choice.all_steps(jax.make_jaxpr(fn)(batch)) if e.primitive.name in choice.EXCEPTIONS]
        assert choice.saves(eqn)
    assert code(LINALG.lu, jnp.zeros((100, 2, 2))) is None
    assert code(LINALG.lu, jnp.zeros((100, 40, 40))) is not None


def test_the_number_of_threads_is_what_it_was():
    lapack: Any = importlib.import_module("scipy.linalg._flapack")

    found = one_thread._threads(lapack)
    if found is None:
        pytest.skip("SciPy has another BLAS")
    asked, set_to = found._asked, found._set
    before = asked()
    try:
        set_to(2)
        counts = []
        one_thread.alone(lambda: counts.append(asked()), lapack)()
        with pytest.raises(KeyError):
            one_thread.alone(lambda: {}["x"], lapack)()
        assert (counts, asked()) == ([1], 2)
    finally:
        set_to(before)


def test_calls_that_overlap_leave_the_number_of_threads_as_it_was():
    """The second begins while the first has set it to 1, and ends after it."""
    now = [8]
    threads = one_thread._Threads(lambda: now[0], lambda n: now.__setitem__(0, n))
    first, second = threads, threads
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert now == [1]
    second.__exit__(None, None, None)
    assert now == [8]
