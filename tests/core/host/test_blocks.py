"""Kernels of few steps on many elements, which NumPy does block by block: which they are, and that they are right."""

import importlib.util
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import torchgrad_jax as torch
from torchgrad_jax._core.host import blocks, choice, code as host

SHAPE, SHAPES = (3, 1, blocks.BLOCK // 2 + 5), [(blocks.BLOCK + 1,), (2 * blocks.BLOCK,), (7, blocks.BLOCK // 3)]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e38, 0.5, -2.5]


def numbers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 5
    x.reshape(-1)[: len(SPECIAL)] = SPECIAL
    return np.asarray(jnp.asarray(x if np.dtype(dtype).kind == "f" else rng.integers(0, 2**7, shape)).astype(dtype))


def program(fn, *args):
    """NumPy's code, which leaves nothing to XLA."""

    def xla(*given):
        raise AssertionError("left to XLA")

    return host.program(jax.make_jaxpr(fn)(*args), xla, False)


ARITHMETIC = {
    "add": lambda x, y: x + y,
    "two results": lambda x, y: (x * y, -x),
    "one result twice": lambda x, y: (x * 3, x * 3),
    "an argument": lambda x, y: (x, x + y),
    "a number": lambda x, y: x * 2,
    "two steps": lambda x, y: abs(x) * 2,
    "negated": lambda x, y: -x,
    "absolute": lambda x, y: abs(x),
    "a comparison": lambda x, y: x < y,
    "both": lambda x, y: (x < y) & (y == y),
    "the larger": jnp.maximum,
    "at least": lambda x, y: jnp.maximum(x, 1),
    "a square": lambda x, y: x * x,
    "a number everywhere": lambda x, y: (jnp.full_like(x, 2), x + y),
}
OF_FLOATS = {
    "div": lambda x, y: x / y,
    "sqrt": lambda x, y: jnp.sqrt(x),
    "a cube": lambda x, y: lax.integer_pow(x, 3),
    "floor": lambda x, y: jnp.floor(x),
    "wider": lambda x, y: x.astype("float64"),
}
CASES = [(n, d, SHAPE) for n in ARITHMETIC for d in ("float32", "float64", "int32", "int64", "uint8")]
CASES += [(n, d, SHAPE) for n in OF_FLOATS for d in ("float32", "float64")]
CASES += [("two results", "float32", shape) for shape in SHAPES]


@pytest.mark.parametrize(("name", "dtype", "shape"), CASES)
def test_arithmetic_has_the_bits_of_xla(name, dtype, shape):
    fn, args = (ARITHMETIC | OF_FLOATS)[name], [numbers(shape, dtype, k) for k in range(2)]
    run = program(fn, *args)
    assert run is not None
    for found, expected in zip(run(*args), jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
        assert (found.shape, found.dtype, found.ctypes.data % 64) == (expected.shape, expected.dtype, 0)
        np.testing.assert_array_equal(found, expected)
        assert not any(np.shares_memory(found, x) for x in args)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.exp(x) / (1 + jnp.exp(-x)) * x + x,  # much to do
        lambda x: jnp.sin(x.astype("float64")),
        jnp.sin,
        lambda x: x * x + 1,  # XLA may round once
        lambda x: x.sum(),
        lambda x: x + jnp.arange(x.shape[0]).astype(x.dtype)[:, None],
        lambda x: jnp.where(x > 0, x, 2),
        lambda x: x.T + 1,
        lambda x: x.astype("bfloat16") + 1,
        lambda x: x.astype("int32") // 3,
        lambda x: lax.integer_pow(x, 9),
        lambda x: (x + 1, x[0] + 1),
    ],
)
def test_other_kernels_of_many_elements_are_left_to_xla(fn):
    assert program(fn, numbers((600, 601), "float32", 0)) is None


def test_few_elements_go_at_once_and_very_many_are_left_to_xla():
    few, more, most = (jnp.ones(n, np.float32) for n in (100, blocks.BLOCK + 1, choice.BLOCKS_END + 1))
    assert program(lambda x: x + 1, few)(few)[0].base is None
    assert program(lambda x: x + 1, more)(more)[0].base is not None
    assert program(lambda x: x + 1, most) is None


def test_arguments_may_lie_anywhere():
    x = numbers((300, 302), "float32", 0)
    run = program(lambda x, y: x + y, x, x)
    np.testing.assert_array_equal(run(x[:, ::-1][:, ::-1], np.asfortranarray(x))[0], x + x)


@pytest.mark.parametrize("n", [blocks.BLOCK - 3, blocks.BLOCK + 3, 3 * blocks.BLOCK + 1])
def test_any_size_has_the_bits_of_its_parts(oracle, n):
    """A new size, after others of the same operators, which have templates by then."""
    x = numbers((n,), "float32", 1)[len(SPECIAL) :]

    def run(t, x):
        x = t.tensor(x, requires_grad=True)
        y = ((x * x + 1).sqrt() * 3 - x).abs()
        y.sum().backward()
        return y.detach(), x.grad

    run(torch, x[:100]), run(torch, x[: n // 2])
    for ours, theirs, part in zip(run(torch, x), run(oracle, x), run(torch, x[-1000:])):
        np.testing.assert_array_equal(ours.numpy()[-1000:], part.numpy())
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("cores, end", [(1, 1 << 22), (2, 1 << 18), (16, 1 << 18)])
def test_they_end_sooner_where_xla_has_several_cores(cores, end, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    spec = importlib.util.spec_from_file_location(choice.__name__ + "_again", choice.__file__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, again)  # where dataclasses look
    spec.loader.exec_module(again)
    assert end == again.BLOCKS_END
    assert [again.is_for_blocks(n) for n in (blocks.BLOCK, blocks.BLOCK + 1, end, end + 1)] == [
        False,
        True,
        True,
        False,
    ]
