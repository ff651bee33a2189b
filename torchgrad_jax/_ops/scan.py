"""Running sums, products, extrema and log-sums along a dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes
from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import cpp_name, refuse
from .._core.arrays.meta import Meta
from .._core.jax.custom_jvp import custom_jvp
from .helpers import anywhere, convert, from_zero, has_zeros, is_bool, is_complex, is_float, is_integral
from .ordering import along, permuting
from .registry import Array, Dtype, Grad, InPlace, Out, op


def _on_axis(x: Array, dim: int, scan: Callable[[Array, int], Any], ruled: bool = False) -> Any:
    """Run `scan` over the wrapped dimension; a 0-dim tensor is scanned as one element.

    A `ruled` scan does that itself, so that its rule sees the very result, which a node saves.
    """
    axis = shapes.wrap_dim(dim, x.ndim)
    if x.ndim or ruled:
        return scan(x, axis)
    return jax.tree.map(lambda y: y.reshape(()), scan(x.reshape(1), 0))


def _ruled(x: Array, value: Callable[..., Array], tangent: Callable[..., Array]) -> Array:
    """``value(x)`` with derivative ``tangent(x, y, t)``, both of at least one dimension."""

    @custom_jvp
    def f(x: Array) -> Array:
        return value(x.reshape(x.shape or (1,))).reshape(x.shape)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = f(x)
        lifted = [v.reshape(x.shape or (1,)) for v in (x, y, t)]
        return y, tangent(*lifted).reshape(x.shape)

    return f(x)


def _running_sum(x: Array, axis: int) -> Array:
    total = lax.cumsum(x, axis)
    return from_zero(total) if is_float(x) or is_complex(x) else total


def _accumulating(x: Array, dtype: Any, scan: Callable[[Array, int], Array]) -> Any:
    """`x` in its result dtype, and `scan` made to keep half types in float32 throughout."""
    if dtype is None and (is_bool(x) or is_integral(x)):
        dtype = jnp.int64
    if dtype is not None and dtype != x.dtype:
        x = convert(x, dtype)
    target = x.dtype
    half = is_float(x) and target.itemsize < 4
    wide = jnp.float32 if half else jnp.int32 if is_bool(x) else target

    def run(x: Array, axis: int) -> Array:
        return scan(x.astype(wide), axis).astype(target)

    return x, run


def _no_bool(name: str) -> Callable[[Meta, Meta, Any], bool]:
    """In place the sums have no wider dtype to go to, so bool is refused. One element or none needs no kernel."""

    def check(me: Meta, result: Meta, _: Any) -> bool:
        if me.dtype is dtypes.bool_ and me.ndim and me.numel:
            raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
        if me.dtype.category != result.dtype.category and me.dtype is not dtypes.bool_:
            names = [cpp_name(np.zeros(0, m.dtype.np)) for m in (me, result)]
            raise RuntimeError(
                f"Bad in-place call: input tensor dtype {names[0]} and output tensor dtype {names[1]} should match"
            )
        return True

    return check


def _no_bool_result(name: str, x: Array, dtype: Any) -> None:
    if dtype is not None and dtype == np.bool_ and x.ndim and x.size:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")


@op(inplace=InPlace(check=_no_bool("cumsum")), out=Out.COMPUTED)
def cumsum(input: Array, dim: int, *, dtype: Dtype | None = None) -> Array:
    """Running sum along `dim`; integers and bool sum to int64."""
    _no_bool_result("cumsum", input, dtype)
    x, run = _accumulating(input, dtype, _running_sum)
    shapes.wrap_dim(dim, x.ndim)
    return _on_axis(x, dim, run) if x.ndim else x  # torch copies a single number, so -0 stays -0


def _running_product(x: Array, axis: int) -> Array:
    def value(x: Array) -> Array:
        return lax.cumprod(x, axis)

    def tangent(x: Array, y: Array, t: Array) -> Array:
        if x.shape[axis] == 1:
            return t
        zero = x == 0

        # Dividing by x is cheap and what torch saves the result for; JAX's own rule does not divide.
        def by_division(x: Array, y: Array, t: Array) -> Array:
            return y * lax.cumsum(t / jnp.where(zero, jnp.ones_like(x), x), axis)

        def by_scan(x: Array, y: Array, t: Array) -> Array:
            return jax.jvp(value, (x,), (t,))[1]

        return lax.cond(anywhere(zero), by_scan, by_division, x, y, t)

    if not (is_float(x) or is_complex(x)) or not x.size:
        return value(x.reshape(x.shape or (1,))).reshape(x.shape)
    return _ruled(x, value, tangent)


@op(inplace=InPlace(check=_no_bool("cumprod")), out=Out.COMPUTED, keeps=("input", "result"), from_inputs=has_zeros)
def cumprod(input: Array, dim: int, *, dtype: Dtype | None = None) -> Array:
    """Running product along `dim`; integers and bool give int64."""
    _no_bool_result("cumprod", input, dtype)
    x, run = _accumulating(input, dtype, _running_product)
    return _on_axis(x, dim, run, ruled=True)


def _running_extremum(largest: bool) -> Callable[[Array, int], tuple[Array, Array]]:
    def scan(x: Array, axis: int) -> tuple[Array, Array]:
        def find(x: Array) -> tuple[Array, Array]:
            key = x.astype(jnp.uint8) if is_bool(x) else x
            best = (lax.cummax if largest else lax.cummin)(key, axis)
            # An equal element or a NaN becomes the new extremum, so the index is that of the last one.
            takes = (key == best) | jnp.isnan(key) if is_float(key) else key == best
            places = lax.broadcasted_iota(np.int64, x.shape, axis)
            index = lax.cummax(jnp.where(takes, places, 0), axis)
            if not is_float(x):
                return best.astype(x.dtype), index
            return along(x, index, axis), index  # of two zeros the one at this index

        return permuting(x, axis, find)

    return scan


def _extremum_scan(x: Array, dim: int, largest: bool) -> Any:
    if is_complex(x) and not x.size:
        shapes.wrap_dim(dim, x.ndim)
        return x, jnp.zeros(x.shape, jnp.int64)
    refuse(x, "cummax_cpu" if largest else "cummin_cpu", COMPLEX)
    return _on_axis(x, dim, _running_extremum(largest))


@op(returns=("values", "indices"), nondiff=(1,), keeps=("input",), grad=Grad.REAL)
def cummax(input: Array, dim: int) -> tuple[Array, Array]:
    """Running maximum along `dim` and the index of its latest occurrence."""
    return _extremum_scan(input, dim, largest=True)


@op(returns=("values", "indices"), nondiff=(1,), keeps=("input",), grad=Grad.REAL)
def cummin(input: Array, dim: int) -> tuple[Array, Array]:
    """Running minimum along `dim` and the index of its latest occurrence."""
    return _extremum_scan(input, dim, largest=False)


def _logsumexp_scan(x: Array, axis: int) -> Array:
    if not is_complex(x):
        return lax.cumlogsumexp(x, axis)

    # These are added one after the other, since the branch of the imaginary part depends on the order.
    def step(total: Array, each: Array) -> tuple[Array, Array]:
        ahead = jnp.real(total) >= jnp.real(each)
        large, small = jnp.where(ahead, total, each), jnp.where(ahead, each, total)
        total = large + jnp.log1p(jnp.exp(small - large))
        return total, total

    rows = jnp.moveaxis(x, axis, 0)
    rest = lax.scan(step, rows[0], rows[1:])[1]
    return jnp.moveaxis(jnp.concatenate([rows[:1], rest]), 0, axis)


def _running_logsumexp(x: Array, axis: int, forward: bool = False) -> Array:
    if not x.size:
        return x

    def tangent(x: Array, y: Array, t: Array) -> Array:
        # Each tangent is exp(y_before - y) of the one before plus exp(x - y) of its own. Infinite
        # totals count as unchanged, so that only what is infinite itself gets NaN, as in torch.
        n = y.shape[axis]
        ends = lax.slice_in_dim(y, 0, 1, axis=axis), lax.slice_in_dim(y, 0, n - 1, axis=axis)
        before = jnp.concatenate(ends, axis=axis)
        stuck = jnp.isinf(y) & (before == y)
        none = jnp.zeros_like(y)
        carry = jnp.exp(jnp.where(stuck, none, before) - jnp.where(stuck, none, y))

        def join(a: Any, b: Any) -> Any:
            return a[0] * b[0], b[0] * a[1] + b[1]

        own = jnp.exp(x - y)
        if forward:  # torch's forward mode gives -inf a weight of 0 in a total of -inf
            own = jnp.where(x == -jnp.inf, none, own)
        out = lax.associative_scan(join, (carry, own * t), axis=axis)[1]
        # torch's forward mode subtracts the largest element first.
        if forward and not is_complex(x):
            top = jnp.max(x, axis=axis, keepdims=True)
            scale = jnp.where(top == jnp.inf, none, none + 1)
            out = out * jnp.where(jnp.isnan(top), top, scale)
            # XLA does add this 0, so that no -0 is left.
            out = out + lax.stop_gradient(jnp.minimum(jnp.abs(y), none))
        return out

    return _ruled(x, lambda x: _logsumexp_scan(x, axis), tangent)


def _logcumsumexp_forward(input: Array, dim: int) -> Array:
    forward = bool(input.ndim)  # torch has no such weight for a single number
    x, run = _accumulating(input, None, functools.partial(_running_logsumexp, forward=forward))
    return _on_axis(x, dim, run, ruled=True)


@op(forward=_logcumsumexp_forward, keeps=("input", "result"))
def logcumsumexp(input: Array, dim: int) -> Array:
    """Logarithm of the running sum of exponentials along `dim`."""
    refuse(input, "logcumsumexp_out_cpu", BOOL, INTEGRAL)
    if not input.ndim:  # its gradient is passed on as it is
        shapes.wrap_dim(dim, 0)
        return _ruled(input, jnp.copy, lambda x, y, t: t)
    x, run = _accumulating(input, None, _running_logsumexp)
    return _on_axis(x, dim, run, ruled=True)
