"""Curves as arithmetic are within 4 units in the last place of their values, for every kind of number."""

import math
import re
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from torchgrad_jax._core.host import compiled_curves
from torchgrad_jax._core.jax.own_kernels import jit

MANY = 1 << 18
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-3, 1e30, -1e30, 2.0**53]
ULPS = 4
CURVES: dict[str, tuple[Any, Any]] = {
    "sin": (lax.sin, np.sin),
    "cos": (lax.cos, np.cos),
    "tan": (lax.tan, np.tan),
    "asin": (lax.asin, np.arcsin),
    "acos": (lax.acos, np.arccos),
    "atan": (lax.atan, np.arctan),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
    "log": (lax.log, np.log),
    "log1p": (lax.log1p, np.log1p),
    "atan2": (lax.atan2, np.arctan2),
    "rem": (lax.rem, np.fmod),
}
"""What JAX compiles, and the same in numbers of 80 bits."""


def numbers(dtype: Any, seed: int = 0) -> list[np.ndarray]:
    """Small, usual and huge arguments, those next to the zeros of sine and cosine, and special ones in all pairs."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"i{np.dtype(dtype).itemsize}")
    low, high = (np.array(x, dtype).view(bits) for x in (np.finfo(dtype).tiny, np.inf))
    signs = rng.choice([-1, 1], MANY)
    edges = np.resize(SPECIAL, 4096) if seed == 0 else np.resize(np.repeat(SPECIAL, len(SPECIAL)), 4096)
    return [
        edges.astype(dtype),
        rng.uniform(-1, 1, MANY).astype(dtype),
        rng.uniform(-100, 100, MANY).astype(dtype),
        (rng.integers(1, 2**22, MANY) * (np.pi / 2) * signs).astype(dtype),
        (2.0 ** rng.uniform(-40, 0, MANY) * signs).astype(dtype),
        rng.integers(low, high, MANY, bits).view(dtype) * signs.astype(dtype),
    ]


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The difference in units in the last place of `want`, which is more exact; below the normal numbers it is 0."""
    dtype = got.dtype.type
    with np.errstate(all="ignore"):
        unit = np.maximum(np.spacing(np.abs(want.astype(dtype))), np.finfo(dtype).tiny * np.finfo(dtype).eps)
        apart = np.abs(got - want) / unit
        same = (got == want.astype(dtype)) | (np.isnan(got) & np.isnan(want))
    tiny = (np.abs(got) <= np.finfo(dtype).tiny) & (np.abs(want) <= np.finfo(dtype).tiny)
    return np.where(same | tiny, 0, apart)


def exact(fn: Any, *xs: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return fn(*[x.astype(np.longdouble) for x in xs])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CURVES)
def test_a_compiled_curve_is_within_4_ulps(name, dtype):
    fn, reference = CURVES[name]
    two = name in ("atan2", "rem")
    for xs in zip(numbers(dtype), numbers(dtype, 1)) if two else zip(numbers(dtype)):
        got, want = np.asarray(jit(fn)(*xs)), exact(reference, *xs)
        apart = ulps(got, want)
        k = apart.argmax() if not np.isnan(apart).any() else np.isnan(apart).argmax()
        assert apart[k] <= ULPS, [x[k] for x in xs] + [got[k], want[k]]
        zeros = (got == 0) & (want == 0)
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@np.vectorize
def log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def test_lgamma_is_within_4_ulps():
    """Also next to its zeros at 1 and 2. An array with a negative number in it and a short one take another way."""
    near = np.random.default_rng(0).integers(-4096, 4096, 1 << 15) * 2.0**-23
    for x in (*[abs(x) for x in numbers(np.float32)], (1 + near).astype(np.float32), (2 + near).astype(np.float32)):
        x = x[: 1 << 16]
        x = x[~(x < np.finfo(np.float32).tiny)]
        for some in (x, np.append(x, np.float32(-0.5)), x[:100]):
            got = np.asarray(jit(lax.lgamma)(some))
            assert ulps(got, log_gamma(some.astype(np.float64))).max() <= ULPS


@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormal_numbers_stay_what_they_are(name, dtype):
    x = np.resize(np.array([1, -1], dtype) * np.finfo(dtype).tiny / 4, 4096)
    np.testing.assert_array_equal(np.asarray(jit(CURVES[name][0])(x)), x)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_are_computed_in_float32(name):
    x = jax.numpy.linspace(0.1, 3, 5000).astype(name)
    for fn in (lax.sin, lax.atan, lax.rsqrt):
        wide = jit(fn)(x.astype("float32")).astype(name)
        np.testing.assert_array_equal(np.asarray(jit(fn)(x)), np.asarray(wide))


ARITHMETIC = {"constant", "broadcast_in_dim", "add", "subtract", "multiply", "divide", "sqrt", "compare", "select"}


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan", "atan2", "rsqrt"])
def test_no_program_for_a_cpu_calls_the_c_library(name):
    """What XLA is given for a few numbers is the curve itself, or JAX's form of it: for many it is neither."""
    fn = CURVES[name][0]

    def steps(n: int) -> set[str]:
        text = jit(fn).lower(*[np.ones(n, np.float32)] * (2 if name == "atan2" else 1)).as_text()
        return set(re.findall(r"(?:stablehlo|chlo)\.([a-z0-9_]+)", text)) - ARITHMETIC

    few, many = steps(8), steps(compiled_curves.FROM)
    assert few
    assert many.isdisjoint(few)


def test_numbers_of_32_bits_are_left_to_xla_where_it_was_told_to_have_no_others():
    x = np.ones(compiled_curves.FROM, np.float32)
    with jax.enable_x64(False):
        np.testing.assert_allclose(np.asarray(jit(lax.sin)(x)), np.sin(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("fn", "slope"),
    [(lax.sin, np.cos), (lax.asin, lambda x: 1 / np.sqrt(1 - x * x)), (lax.atan, lambda x: 1 / (1 + x * x))],
)
def test_derivatives_are_those_of_jax(fn, slope):
    x = np.linspace(-0.9, 0.9, 5000)
    np.testing.assert_allclose(jit(jax.vmap(jax.grad(fn)))(x), slope(x), rtol=1e-14)
