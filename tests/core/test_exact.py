"""NumPy's programs give the bits of XLA's kernels, and are refused where they would not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import torchgrad_jax as tg
from torchgrad_jax._core import exact
from torchgrad_jax._core.division import divide
from torchgrad_jax.optim._cells import Cell

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.nan,
    np.inf,
    -np.inf,
    1.5,
    2.5,
    -2.5,
    3e30,
    -7.0,
    1e-30,
    0.1,
    3.0,
    -0.3,
]
FLOATS = ["float32", "float64"]
PLACES = jnp.array([[2], [0]])


def bits(x):
    x = np.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    whole = (
        x.view(f"u{x.dtype.itemsize}")
        if x.dtype.kind != "c"
        else x.view(f"u{x.dtype.itemsize // 2}")
    )
    real = x if x.dtype.kind != "c" else x.view(x.real.dtype)
    return np.where(np.isnan(real.astype(np.float64)), 0, whole)


def numbers(dtype, seed=0):
    rng = np.random.default_rng(seed)
    some = rng.standard_normal((4, 4)) * 3
    grid = np.concatenate([np.array(SPECIAL).reshape(4, 4), some])
    return jnp.asarray(rng.permutation(grid.reshape(-1)).reshape(8, 4)).astype(dtype)


def both(fn, *args):
    """What NumPy and what XLA make of it."""
    program = exact.program(jax.make_jaxpr(fn)(*args))
    assert program is not None
    return program(jax.tree.leaves(args)), jax.tree.leaves(jax.jit(fn)(*args))


def agree(fn, *args):
    for ours, theirs in zip(*both(fn, *args), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(bits(ours), bits(theirs))


ONE = {
    "mul": lambda x, y: x * y,
    "add": lambda x, y: x + y,
    "sub_chain": lambda x, y: x - y - x,
    "products": lambda x, y: x * y * x,
    "divide": divide,
    "divide_rows": lambda x, y: divide(x, y[:1]),
    "divide_number": lambda x, y: divide(x, 7),
    "div": lax.div,
    "square": lambda x, y: lax.square(x),
    "cube": lambda x, y: lax.integer_pow(x, 3),
    "seventh_power": lambda x, y: lax.integer_pow(x, 7),
    "sqrt": lambda x, y: jnp.sqrt(abs(x)),
    "scaled": lambda x, y: x * 2.5,
    "shifted": lambda x, y: x + 0.1,
    "compared": lambda x, y: (x < y, x >= y, x == y, jnp.isnan(x), jnp.isfinite(y)),
    "chosen": lambda x, y: jnp.where(x > y, x, -y),
    "sign": lambda x, y: jnp.sign(x),
    "rounded": lambda x, y: (jnp.floor(x), jnp.ceil(x), jnp.round(x)),
    "abs": lambda x, y: abs(x),
    "moved": lambda x, y: (x.T, x.reshape(-1)[::3], jnp.flip(x), jnp.tile(x, 2), x[1:3, ::2]),
    "joined": lambda x, y: (jnp.concatenate([x, y]), jnp.stack([x, y], 1), jnp.pad(x, 2)),
    "padded_inside": lambda x, y: lax.pad(x, x[0, 0], [(1, 2, 1), (0, 1, 2)]),
    "written": lambda x, y: x.at[jnp.array([2, 0])].set(y[:2]),
    "dropped": lambda x, y: x.at[jnp.array([2, 99])].set(y[:2], mode="drop"),
    "added_at": lambda x, y: jnp.where(x == x, 1, 0).at[jnp.array([2, 0]), 1:3].add(3),
    "short_sum": lambda x, y: lax.reduce_sum(x, axes=(0,)),
    "bit_pattern": lambda x, y: lax.bitcast_convert_type(x, f"i{x.dtype.itemsize}"),
    "halves": lambda x, y: (
        jnp.where(jnp.isfinite(x), x, 0).astype(jnp.float32).astype(jnp.bfloat16)
    ),
    "narrow_number": lambda x, y: x.astype(jnp.float32) * y.astype(jnp.float32)[0, 0],
    "truth": lambda x, y: (x.astype(bool), (x > 0) & ~(y > 0)),
    "dynamic": lambda x, y: (
        lax.dynamic_slice(x, (jnp.argmax(y > 0, 0)[0], 9), (2, 2)),
        lax.dynamic_update_slice(x, y[:2, 1:3], (jnp.argmax(y > 0, 0)[1], -5)),
    ),
    "complex_parts": lambda x, y: (
        lax.complex(x, y) - lax.complex(y, x),
        jnp.conj(lax.complex(x, y)),
    ),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(ONE))
def test_the_same_bits(name, dtype):
    x, y = numbers(dtype), numbers(dtype, 1)
    if name == "narrow_number":
        y = y[::-1]
    agree(ONE[name], x, y)


@pytest.mark.parametrize("index", [[2, 0, 9, -1], [0, 0], [7]])
@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_lookups(index, mode):
    x, at = numbers("float32"), jnp.array(index)
    at = jnp.clip(at, 0, 7) if mode == "promise_in_bounds" else at
    agree(lambda x, at: x.at[at].get(mode=mode), x, at)
    agree(lambda x, at: x.at[at, jnp.clip(at, 0, 3)].get(mode=mode), x, at)
    agree(lambda x, at: x.at[:, jnp.clip(at, 0, 3), None].get(mode=mode), x, at)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integers(dtype):
    x = jnp.arange(-60, 60).reshape(8, 15).astype(dtype)
    y = (x * 7 + 3).astype(dtype)
    agree(lambda x, y: (x * y + x - y, -x, abs(x), jnp.maximum(x, y), x & y, x ^ y, ~x), x, y)
    agree(
        lambda x, y: (lax.reduce_sum(x, axes=(0, 1)), lax.cumsum(x, 1), x.max(0), x.argmin(1)), x, y
    )
    agree(
        lambda x, y: (
            x.astype(jnp.float32),
            x.astype(jnp.float64),
            x.astype(bool),
            x.astype(jnp.int16),
        ),
        x,
        y,
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_round_once(dtype):
    x, y = numbers("float32").astype(dtype), numbers("float32", 1).astype(dtype)
    agree(lambda x, y: (x * y, x + y, x.T, x < y, x.astype(jnp.float32) * 3), x, y)
    for twice in (lambda x, y: x * y * y, lambda x, y: x + y + y, lambda x, y: (x + y) > y):
        assert exact.program(jax.make_jaxpr(twice)(x, y)) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(ONE.keys() - {"complex_parts"}))
def test_half_types_agree_where_they_are_not_refused(name, dtype):
    x, y = (numbers("float32", i).clip(-60, 60).astype(dtype) for i in range(2))
    x, y = (jnp.where(jnp.abs(a) < 0.01, 0.01, a).astype(dtype) for a in (x, y))
    if exact.program(jax.make_jaxpr(ONE[name])(x, y)) is not None:
        agree(ONE[name], x, y)


REFUSED = {
    "fused_multiply_add": lambda x, y: x * y + y,
    "fused_behind_a_minus": lambda x, y: y - -(x * y),
    "summed_products": lambda x, y: (x * y).sum(0),
    "reciprocal": lambda x, y: lax.div(x, jnp.full_like(x, 7)),
    "reciprocal_of_rows": lambda x, y: x / y[:1],
    "two_constants": lambda x, y: x * 0.1 * 0.3,
    "two_added_constants": lambda x, y: x + 0.1 + 0.3,
    "sum_with_zero": lambda x, y: x + 0.0,
    "sum_of_a_sum": lambda x, y: x.sum(0).sum(0),
    "mask_as_factor": lambda x, y: (x > 0).astype(x.dtype) * y,
    "approximated": lambda x, y: jnp.exp(x),
    "sine": lambda x, y: jnp.sin(x),
    "sorted": lambda x, y: jnp.sort(x),
    "prefixes": lambda x, y: lax.cumsum(x),
    "loop": lambda x, y: lax.fori_loop(0, 3, lambda i, v: v * v, x),
    "there_and_back": lambda x, y: x.astype(jnp.float32).astype(jnp.float64) + y,
    "complex_product": lambda x, y: lax.complex(x, y) * lax.complex(y, x),
    "long": lambda x, y: sum((x[i % 8] for i in range(60)), y[0]),
    "constants_that_leave_it_open": lambda x, y: (
        x[0, :3] + np.zeros(3) * lax.reduce_max(lax.full((2,), -0.0, x.dtype), axes=(0,))
    ),
    "subnormal_constants": lambda x, y: x + 1e-310,
    "large": lambda x, y: jnp.broadcast_to(x[0, 0], (200, 200)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    x = numbers("float64")
    assert exact.program(jax.make_jaxpr(REFUSED[name])(x, x)) is None


UNSURE = {
    "subnormal_arguments": (lambda x: x * 2, [1e-310, 1.0]),
    "subnormal_results": (lambda x: x * x, [1e-160, 1.0]),
    "subnormal_quotients": (lambda x: divide(x, 3), [3e-308]),
    "zeros_of_two_signs": (lambda x: jnp.maximum(x, -x), [0.0, 1.0]),
    "largest_zero": (lambda x: x.max(), [-0.0, 0.0]),
    "rounded_sums": (lambda x: lax.reduce_sum(x, axes=(0, 1)), [[0.1, 0.2], [0.3, 0.7]]),
    "rounded_products": (lambda x: x @ x, [[0.1, 0.2], [0.3, 0.7]]),
    "large_sums": (lambda x: lax.reduce_sum(x, axes=(0, 1)), [[1.0, 2.0**52], [3.0, 1.0]]),
    "integers_out_of_range": (lambda x: x.astype(jnp.int32), [3e9]),
    "nan_as_integer": (lambda x: x.astype(jnp.int64), [np.nan]),
    "places_hit_twice": (lambda x: x.at[x[:2].astype(jnp.int32)].set(x[1:3]), [1.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("name", UNSURE)
def test_values_that_leave_it_open(name):
    fn, values = UNSURE[name]
    x = jnp.asarray(values, jnp.float64)
    program = exact.program(jax.make_jaxpr(fn)(x))
    assert program is not None
    with pytest.raises(exact.Unsure):
        program([x])


def test_sums_and_products_of_few_digits_are_exact_in_any_order():
    x = jnp.arange(-24.0, 24).reshape(6, 8) / 4
    agree(lambda x: (lax.reduce_sum(x, axes=(0, 1)), lax.reduce_sum(x, axes=(1,))), x)
    agree(lambda x, y: x @ y, x, x.T)
    agree(lambda x, y: jnp.einsum("bij,bjk->bik", x, y), x.reshape(2, 3, 8), x.reshape(2, 8, 3))
    agree(lambda x: lax.reduce_sum(x, axes=(0,)), jnp.full((3, 2), -0.0))
    agree(lambda x: lax.reduce_sum(x, axes=(0,)), jnp.full((1, 2), -0.0))


@pytest.mark.parametrize("dtype", FLOATS)
def test_quotients_are_those_of_ieee_754(dtype):
    x = (np.arange(1, 2000) * 0.37).astype(dtype)
    t = tg.tensor(x, requires_grad=True)
    seven = np.asarray(7, dtype)
    halves = np.add(x[0:1998:2], x[1:1998:2]) / np.asarray(2, dtype)
    thirds = (x[0:-1:3][:666] + x[1::3][:666] + x[2::3][:666]) / np.asarray(3, dtype)
    hard = np.clip(x + np.asarray(3, dtype), 0, 6).astype(dtype) / np.asarray(6, dtype)
    for _ in range(12):  # first NumPy's, then XLA's
        assert np.array_equal((t / 7).detach(), x / seven)
        assert np.array_equal((t / tg.tensor(7.0)).detach(), x / seven)
        assert np.array_equal(t.detach().clone().div_(7), x / seven)
        assert np.array_equal(t[:1998].view(-1, 2).mean(1).detach(), halves)
        assert np.array_equal(tg.nn.functional.avg_pool1d(t.detach().view(1, -1), 3)[0], thirds)
        assert np.array_equal(tg.nn.functional.hardsigmoid(t.detach()), hard)
        assert np.array_equal(Cell(jnp.asarray(x)).div(Cell(jnp.asarray(seven))).value, x / seven)
        (g,) = tg.autograd.grad((t / 7).sum(), t)
        assert np.array_equal(g, np.full_like(x, 1 / seven))
    assert np.array_equal(tg.compile(lambda t: t / 7)(t).detach(), x / seven)
    assert np.array_equal(tg.func.vmap(lambda a: a / 7)(t).detach(), x / seven)
    assert np.array_equal(tg.func.jvp(lambda a: a / 7, (t,), (t,))[1].detach(), x / seven)


def test_division_has_all_derivatives():
    x, y = jnp.array([1.0, -2.0, 0.5]), jnp.array([3.0, 0.7, -2.0])
    for order in range(3):
        ours, theirs = divide, lax.div
        for _ in range(order):
            ours, theirs = (
                jax.grad(lambda a, b, f=f: jnp.sum(f(a, b)), argnums=order % 2)
                for f in (ours, theirs)
            )
        np.testing.assert_allclose(ours(x, y), theirs(x, y), rtol=1e-14)
    np.testing.assert_array_equal(jax.vmap(divide, (0, None))(x, y), x[:, None] / y[None])
    np.testing.assert_array_equal(divide(x, 4), x / 4)
    np.testing.assert_array_equal(divide(jnp.array([7, -7]), 2), [3, -3])
