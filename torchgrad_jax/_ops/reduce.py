"""Sums, means, products, moments, norms and logical reductions."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes
from .._core.arrays.division import averaged, divide
from .._core.arrays.dtypes import COMPLEX
from .._core.arrays.kernels import is_half, refuse, scalar_name
from .._core.arrays.matrices import require_inexact
from .._core.jax.custom_jvp import custom_jvp
from . import complexes
from .helpers import (
    anywhere,
    broadcast,
    convert,
    has_zeros,
    is_bool,
    is_complex,
    is_float,
    is_integral,
    numel_along,
    tangent_with_own_gradients,
)
from .registry import COMMON, FLOAT, Array, Compares, Dims, Dtype, Grad, Numbers, Out, Static, op, variant, with_rule

Shape = tuple[int, ...]


def _wide(x: Array) -> Array:
    """Half types accumulate in float32 and round once, as torch does on every device."""
    return x.astype(jnp.float32) if is_float(x) and x.dtype.itemsize < 4 else x


def _sum_dtype(x: Array, dtype: Any) -> Any:
    return dtype or (np.dtype(np.int64) if is_bool(x) or is_integral(x) else x.dtype)


def _expand(y: Array, dims: Shape, ndim: int) -> Array:
    """The reduced dimensions put back with size 1."""
    return lax.expand_dims(y, dims) if ndim else y


def _keep(y: Array, dims: Shape, ndim: int, keepdim: bool) -> Array:
    return _expand(y, dims, ndim) if keepdim else y


def _add_up(x: Array, dims: Shape) -> Array:
    if is_bool(x):  # only with dtype=torch.bool
        return lax.reduce_or(x, axes=dims)
    return _total(_wide(x), dims).astype(x.dtype)


def _total(x: Array, dims: Shape) -> Array:
    """The sum. That of a single -0 is 0, as if it were added to 0; XLA would leave such an addition out."""
    y = lax.reduce_sum(x, axes=dims)
    if numel_along(x, dims) == 1 and is_float(x):
        y += lax.stop_gradient(jnp.where(y == 0, 0 - y, jnp.zeros_like(y)))
    return y


def _dim_given(name: str) -> Any:
    """torch has one overload without `dim`, which is node 0, and one with it, node 1."""
    return lambda a: f"{name}Backward{int(a['dim'] is not None or a['keepdim'])}"


@op(name="sum", node=_dim_given("Sum"), out=Out.COMPUTED)
def sum_(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Array:
    """Sum of the elements, or of those along `dim`; integers and bool sum to int64."""
    dims = shapes.wrap_dims(dim, input.ndim)
    x = convert(input, _sum_dtype(input, dtype))
    return _keep(_add_up(x, dims), dims, x.ndim, keepdim)


@op(node="NansumBackward0", out=Out.CAST, compares=Compares.IN_GRADIENTS)
def nansum(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Array:
    """Sum that takes NaN for zero."""
    if is_complex(input):
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if dtype is not None and np.issubdtype(dtype, np.complexfloating):
        kind = dtypes.scalar_type_name(dtypes.from_np(dtype))
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{kind}'")
    dims = shapes.wrap_dims(dim, input.ndim)
    x = _without_nan(input) if is_float(input) else input
    return _keep(_add_up(convert(x, _sum_dtype(x, dtype)), dims), dims, x.ndim, keepdim)


@custom_jvp
def _without_nan(x: Array) -> Array:
    return jnp.where(x != x, jnp.zeros_like(x), x)


@_without_nan.defjvp
def _without_nan_jvp(primals: Any, tangents: Any) -> Any:
    """Tangents of what is missing count as little as it does; an infinite gradient becomes NaN there, as in torch."""

    def pushed(missing: Array, t: Array) -> Array:
        return jnp.where(missing, jnp.zeros_like(t), t)

    def back(missing: Array, g: Array) -> tuple[Array]:
        return (g * jnp.where(missing, 0, jnp.ones_like(g)),)

    (x,), (t,) = primals, tangents
    return _without_nan(x), tangent_with_own_gradients(pushed, back, x != x, t)


@op(node=_dim_given("Mean"), out=Out.CAST)
def mean(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Array:
    """Mean of the elements, or of those along `dim`."""
    if not (is_float(dtype or input) or is_complex(dtype or input)):
        which, got = ("Optional", jnp.empty(0, dtype)) if dtype else ("Input", input)
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {scalar_name(got)}"
        )
    dims = shapes.wrap_dims(dim, input.ndim)
    x = convert(input, dtype or input.dtype)
    wide = _wide(x)
    y = averaged(_total(wide, dims), numel_along(x, dims))
    return _keep(y.astype(x.dtype), dims, x.ndim, keepdim)


def _ruled(x: Array, dims: Shape, keepdim: bool, value: Any, tangent: Any) -> Array:
    """``value(x)`` over `dims` with derivative ``tangent(x, y, t)``, where y has kept dimensions.

    The rule gets the result itself, so that a node saves that instead of computing it again. Half
    types are widened for both functions.
    """

    # The rule may not compute anything of the array that is outside of it.
    dtype, n, widened = x.dtype, x.ndim, _wide(x).dtype != x.dtype

    def narrow(y: Array) -> Array:
        return _keep(y.astype(dtype) if widened else y, dims, n, keepdim)

    @custom_jvp
    def f(x: Array) -> Array:
        return narrow(value(_wide(x)))

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = f(x)
        full = y if keepdim else _expand(y, dims, x.ndim)
        return y, narrow(tangent(_wide(x), _wide(full), _wide(t)))

    return f(x)


def _safe_div(x: Array, y: Array) -> Array:
    """x / y, and 0 where y is 0, at every order of differentiation; y broadcasts."""
    zero = y == 0
    quotient = x / jnp.where(zero, jnp.ones_like(y), y)
    return jnp.where(zero, jnp.zeros_like(quotient), quotient)


def _zero_where(at: Array, x: Array) -> Array:
    return jnp.where(at, jnp.zeros_like(x), x)


# The values are zeros, but the derivatives are those of the products: a product of two zeros has a second one.
_seen_as_zero = with_rule(lambda x, at: _zero_where(at, x), lambda x, at, out, t, _: t)


def _product(x: Array, dims: Shape, keepdim: bool, of_all: bool) -> Array:
    def value(x: Array) -> Array:
        return lax.reduce_prod(x, axes=dims)

    def tangent(x: Array, y: Array, t: Array) -> Array:
        if not x.ndim:
            return t  # torch passes the gradient on as it is
        # result / x is cheap and what torch saves for; a zero needs the products of the others.
        zero = x == 0

        def by_division(x: Array, y: Array, t: Array) -> Array:
            return lax.reduce_sum(y / jnp.where(zero, jnp.ones_like(x), x) * t, axes=dims)

        def by_others(x: Array, y: Array, t: Array) -> Array:
            others = _products_of_others(x, dims)
            if of_all:  # torch counts the zeros: with two of them the gradient is 0
                several = lax.reduce_sum(zero.astype(np.int64), axes=dims) > 1
                others = _seen_as_zero(others, several)
            return lax.reduce_sum(others * t, axes=dims)

        return lax.cond(anywhere(zero), by_others, by_division, x, y, t)

    if not (is_float(x) or is_complex(x)):
        return _keep(value(x), dims, x.ndim, keepdim)
    return _ruled(x, dims, keepdim, value, tangent)


def _products_of_others(x: Array, dims: Shape) -> Array:
    """For each element the product of all others along `dims`: those before it times those after it."""
    kept = tuple(d for d in range(x.ndim) if d not in dims)
    order = (*kept, *sorted(dims))
    lines = lax.transpose(x, order)
    shape = lines.shape
    lines = lines.reshape(*(x.shape[d] for d in kept), numel_along(x, dims))
    one, last = jnp.ones((), x.dtype), len(kept)
    no_padding = [(0, 0, 0)] * last
    before = lax.cumprod(lax.pad(lines, one, [*no_padding, (1, -1, 0)]), last)
    after = lax.cumprod(lax.pad(lines, one, [*no_padding, (-1, 1, 0)]), last, reverse=True)
    return lax.transpose((before * after).reshape(shape), tuple(np.argsort(order)))


@op(
    node=lambda a: f"ProdBackward{int(a['dim'] is not None)}",
    numbers=Numbers(left_out=("dim",)),
    keeps=("input", "result"),
    from_inputs=has_zeros,
    out=Out.COMPUTED,
)
def prod(input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Array:
    """Product of the elements, or of those along `dim`; integers and bool give int64."""
    dims = shapes.wrap_dims(dim, input.ndim)
    x = convert(input, _sum_dtype(input, dtype))
    if is_bool(x):
        return _keep(lax.reduce_and(x, axes=dims), dims, x.ndim, keepdim)
    return _product(x, dims, keepdim, dim is None)


# --- moments ---


def _freedom(x: Array, dim: Any, correction: Any) -> tuple[Shape, float]:
    """Wrapped dimensions, and the degrees of freedom, which may be fewer than none."""
    if not (is_float(x) or is_complex(x)):
        raise RuntimeError("std and var only support floating point and complex dtypes")
    dims = shapes.wrap_dims(dim, x.ndim)
    return dims, numel_along(x, dims) - (1 if correction is None else correction)


def _mean(x: Array, dims: Shape) -> Array:
    return averaged(lax.reduce_sum(x, axes=dims), numel_along(x, dims))


def _first(x: Array, dims: Shape) -> Array:
    """The first number along `dims` as a constant, or 0 where it is not finite."""
    if not x.size:
        return jnp.zeros((), x.dtype)
    first = lax.slice(x, (0,) * x.ndim, [1 if d in dims else n for d, n in enumerate(x.shape)])
    return lax.stop_gradient(jnp.where(jnp.isfinite(first), first, jnp.zeros_like(first)))


def _running_mean(x: Array, dims: Shape) -> Array:
    """The mean as one that is brought up to date element by element.

    After an infinity the mean is NaN, and the mean of equal numbers is exact. The two parts of complex numbers have a
    mean each.
    """
    if is_complex(x):
        return lax.complex(_running_mean(lax.real(x), dims), _running_mean(lax.imag(x), dims))
    kept = [d for d in range(x.ndim) if d not in dims]
    rows = lax.transpose(x, (*kept, *sorted(dims)))
    rows = rows.reshape(*(x.shape[d] for d in kept), numel_along(x, dims))
    after = jnp.isinf(rows[..., :-1]).any(-1)
    first = _first(rows, (len(kept),))
    # The mean is corrected by an addition, so that the derivative is that of the mean and reads no values.
    start = jnp.where(after, jnp.nan, first[..., 0] if first.ndim else first)
    return start.astype(x.dtype) + _mean(rows - first, (len(kept),))


def _moment(x: Array, dims: Shape, dof: float, keepdim: bool, root: bool, whole: bool, online: bool) -> Array:
    """Variance or its root. The derivative holds the mean fixed, whose own terms cancel.

    Without degrees of freedom torch has a formula of its own for a `whole` tensor. Where dimensions are named it
    divides by the number of degrees, even if that is negative.
    """

    def deviation(x: Array) -> Array:
        return x - _expand(_mean(x, dims), dims, x.ndim)

    def value(x: Array) -> Array:
        d = deviation(x - _first(x, dims) if online else x)
        square = d * d if is_float(d) else jnp.real(d) ** 2 + jnp.imag(d) ** 2
        y = divide(lax.reduce_sum(square, axes=dims), max(dof, 0))
        return jnp.sqrt(y) if root else y

    def tangent(x: Array, y: Array, t: Array) -> Array:
        d = deviation(x)
        if dof <= 0 and whole:  # torch: NaN at the mean, and +inf on both sides of it
            slope = jnp.where(d == 0, jnp.asarray(jnp.nan, d.dtype), jnp.asarray(jnp.inf, d.dtype))
        else:
            slope = d * jnp.asarray(2.0 / dof if dof else math.inf, d.dtype)
        product = slope * t if is_float(d) else jnp.real(jnp.conj(slope) * t)
        out = lax.reduce_sum(product, axes=dims)
        return _safe_div(out * jnp.asarray(0.5, out.dtype), y.reshape(out.shape)) if root else out

    return _ruled(x, dims, keepdim, value, tangent)


def _moment_op(root: bool, with_mean: bool) -> Any:
    """std, var, std_mean and var_mean: one body."""

    def impl(input: Array, dim: Dims | None = None, *, correction: Static | None = None, keepdim: bool = False) -> Any:
        """With the `correction` subtracted from the number of elements in the denominator."""
        dims, dof = _freedom(input, dim, correction)
        # torch has two steps for the variance of all numbers, and one step, like `_running_mean`, for others.
        online = with_mean or is_half(input) or numel_along(input, dims) != input.size
        y = _moment(input, dims, dof, keepdim, root, dim is None or not input.ndim, online)
        if not with_mean:
            return y
        average = _running_mean(_wide(input), dims).astype(input.dtype)
        return y, _keep(average, dims, input.ndim, keepdim)

    return impl


for _label, _root_of, _pair in (
    ("std", True, False),
    ("var", False, False),
    ("std_mean", True, True),
    ("var_mean", False, True),
):
    op(
        _moment_op(_root_of, _pair),
        name=f"{_label}_correction",
        function=False,
        method=False,
        compares=Compares.IN_GRADIENTS,
        node="".join(p.capitalize() for p in _label.split("_")) + "Backward0",
    )


# --- logical ---


def _nonzero(x: Array) -> Array:
    return x if is_bool(x) else x != 0


def _logical(x: Array, dim: Any, keepdim: bool, reduce: Any) -> Array:
    # For torch () means no dimension here.
    dims = () if dim == () else shapes.wrap_dims(dim, x.ndim)
    y = reduce(_nonzero(x), axes=dims)
    y = y.astype(jnp.uint8) if x.dtype == jnp.uint8 else y
    return _keep(y, dims, x.ndim, keepdim)


@op(name="all", grad=Grad.NO)
def all_(input: Array, dim: Dims | None = None, keepdim: bool = False) -> Array:
    """Return whether all elements are nonzero."""
    return _logical(input, dim, keepdim, lax.reduce_and)


@op(name="any", grad=Grad.NO)
def any_(input: Array, dim: Dims | None = None, keepdim: bool = False) -> Array:
    """Return whether some element is nonzero."""
    return _logical(input, dim, keepdim, lax.reduce_or)


@op(grad=Grad.NO, out=False, method=False)
def count_nonzero(input: Array, dim: Dims | None = None) -> Array:
    """Number of nonzero elements."""
    dims = shapes.wrap_dims(dim, input.ndim)
    return lax.reduce_sum(_nonzero(input).astype(jnp.int64), axes=dims)


# --- logsumexp and norms ---


def _logsumexp(x: Array, dims: Shape, keepdim: bool) -> Array:
    """log(sum(exp(x))), shifted by the maximum; the slope is exp(x - result)."""

    def value(x: Array) -> Array:
        if not numel_along(x, dims):
            return jnp.log(lax.reduce_sum(x, axes=dims))
        top = lax.reduce_max(jnp.real(x), axes=dims)
        top = lax.stop_gradient(jnp.where(jnp.isinf(top), jnp.zeros_like(top), top)).astype(x.dtype)
        total = lax.reduce_sum(jnp.exp(x - _expand(top, dims, x.ndim)), axes=dims)
        return jnp.log(total) + top

    def tangent(x: Array, y: Array, t: Array) -> Array:
        return lax.reduce_sum(jnp.exp(x - y) * t, axes=dims)

    return _ruled(x, dims, keepdim, value, tangent)


@op(promote=FLOAT, out=Out.CAST)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False) -> Array:
    """Logarithm of the summed exponentials along `dim`."""
    return _logsumexp(input, shapes.wrap_dims(dim, input.ndim), keepdim)


def _norm_value(x: Array, p: float, dims: Shape) -> Array:
    a = complexes.size(x)
    if p == 0:
        return lax.reduce_sum((a != 0).astype(a.dtype), axes=dims)
    if p in (math.inf, -math.inf):
        return (lax.reduce_max if p > 0 else lax.reduce_min)(a, axes=dims)
    if p == 1:
        return lax.reduce_sum(a, axes=dims)
    if p == 2:
        return jnp.sqrt(lax.reduce_sum(a * a, axes=dims))
    return lax.reduce_sum(a ** jnp.asarray(p, a.dtype), axes=dims) ** jnp.asarray(1 / p, a.dtype)


def _norm_slope(x: Array, y: Array, p: float, dims: Shape) -> Array:
    """d(norm)/dx by torch's conventions: 0 at 0, shared evenly between ties of an infinite order.

    The next derivative is NaN where torch's is, since these zeros replace what was computed.
    """
    if p == 2:
        return _zero_where(y == 0, x / y.astype(x.dtype))
    a = jnp.abs(x)
    if is_complex(x):  # for complex numbers JAX takes the derivative of jnp.sign for zero
        unit = _safe_div(x, a.astype(x.dtype))
    else:  # torch: the sign of NaN is 0
        unit = jnp.where(jnp.isnan(x), jnp.zeros_like(x), jnp.sign(x))
    if p == 1:
        return unit
    if p in (math.inf, -math.inf):
        hit = ((a == y) | jnp.isnan(a)).astype(a.dtype)
        share = hit / _expand(lax.reduce_sum(hit, axes=dims), dims, x.ndim)
        return unit * share.astype(x.dtype)
    if p > 2:
        scaled = x * (a ** jnp.asarray(p - 2, a.dtype)).astype(x.dtype)
    else:
        power = _zero_where(a == 0, a ** jnp.asarray(p - 1, a.dtype))
        scaled = unit * power.astype(x.dtype)
    if p < 1:
        return scaled * (y ** jnp.asarray(1 - p, a.dtype)).astype(x.dtype)
    scale = _zero_where(y == 0, 1 / y ** jnp.asarray(p - 1, a.dtype))
    return scaled * scale.astype(x.dtype)


def _norm(x: Array, p: float, dims: Shape, keepdim: bool) -> Array:
    """Vector norm of order `p` over `dims`; real for complex input."""

    def tangent(x: Array, y: Array, t: Array) -> Array:
        if p == 0:
            return jnp.zeros(y.shape, y.dtype).reshape(_kept_out(x, dims))
        slope = _norm_slope(x, y, p, dims)
        if 1 < p < math.inf and p != 2:  # the slope at 0 is 0, also for an infinite gradient
            t = jnp.where(y == 0, jnp.zeros_like(t), t)
        product = jnp.real(jnp.conj(slope) * t) if is_complex(x) else slope * t
        return lax.reduce_sum(product, axes=dims)

    return _ruled(x, dims, keepdim, lambda x: _norm_value(x, p, dims), tangent)


def _kept_out(x: Array, dims: Shape) -> Shape:
    return tuple(n for d, n in enumerate(x.shape) if d not in dims)


def _check_order(x: Array, p: float, dim: Any, dims: Shape) -> None:
    empty = [d for d in dims if not x.shape[d]]
    if not (p < 0 or p == math.inf) or not empty:
        return
    if dim is None or dim == ():
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {float(p):g} norm on an empty tensor because "
            "the operation does not have an identity"
        )
    raise RuntimeError(
        f"linalg.vector_norm cannot compute the {float(p):g} norm on the dimension {empty[0]}"
        "because this dimension is empty and the operation does not have an identity"
    )


def _counts(_: Any, ord: Any = 2, **__: Any) -> tuple[int, ...]:
    """A "norm" that counts elements has no gradient."""
    return (0,) if not isinstance(ord, str) and ord == 0 else ()


@op(namespace="linalg", method=False, severed=_counts, keeps=("input", "result"))
def linalg_vector_norm(
    input: Array, ord: Static = 2, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Norm of order `ord` of the flattened tensor, or along `dim`."""
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    if isinstance(ord, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    require_inexact("linalg.vector_norm", input, half=True)
    dims = shapes.wrap_dims(dim, input.ndim)
    _check_order(input, ord, dim, dims)
    return _norm(_norm_input(input, dtype), ord, dims, keepdim)


def _norm_input(x: Array, dtype: Any) -> Array:
    if dtype is None:
        return x
    name = scalar_name(jnp.empty(0, dtype))
    if not (is_float(dtype) or is_complex(dtype)):
        raise RuntimeError(f"linalg.vector_norm: dtype should be floating point or complex, but got {name}")
    if is_complex(dtype) != is_complex(x):
        kind = "complex" if is_complex(x) else "real"
        raise RuntimeError(f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {name}")
    have, want = dtypes.from_np(x.dtype), dtypes.from_np(dtype)
    if dtypes.promote_types(have, want) is not want:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({scalar_name(x)}) should be convertible "
            f"without narrowing to the specified dtype ({name})"
        )
    return x.astype(dtype)


# torch computes distances by this overload, which takes an order and dimensions.
linalg_vector_norm_ = variant(
    "linalg_vector_norm", "_norm_of_differences", node="NormBackward1", namespace="", function=False, out=False
)


def _counts_differences(_: Any, p: Any = 2, **__: Any) -> tuple[int, ...]:
    return (0, 1) if p == 0 else ()


@op(
    promote=COMMON,
    out=False,
    severed=_counts_differences,
    keeps={"input": ("input", "other", "result"), "other": ("input", "other", "result")},
)
def dist(input: Array, other: Array, p: Static = 2) -> Array:
    """Norm of order `p` of the difference."""
    x, y = broadcast(input, other)
    if not (is_float(x) or is_complex(x)):
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {scalar_name(x)} instead."
        )
    return _norm(x - y, p, tuple(range(x.ndim)), keepdim=False)


def _check_renorm(x: Array, p: Any, maxnorm: Any) -> None:
    for name, value in (("p", p), ("maxnorm", maxnorm)):
        if isinstance(value, complex):
            raise RuntimeError(f"renorm: {name} must be real-valued")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if x.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {x.ndim} dimensions")
    require_inexact("linalg.vector_norm", x, half=True)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3))
def _scaled_down(x: Array, p: Any, dims: Shape, maxnorm: Any) -> Array:
    norm = _norm(_wide(x), p, dims, keepdim=True)
    over = norm > maxnorm
    # torch adds this number to a norm, so that it does not divide by 0.
    factor = jnp.where(over, maxnorm / (jnp.where(over, norm, 1) + 1e-7), 1)
    return (_wide(x) * factor).astype(x.dtype)


@_scaled_down.defjvp
def _scaled_down_jvp(p: Any, dims: Shape, maxnorm: Any, primals: Any, tangents: Any) -> Any:
    """The tangent is computed in double precision, as in torch. Slices that keep their values pass it on as it is."""
    (x,), (t,) = primals, tangents
    wide = jnp.complex128 if is_complex(x) else jnp.float64

    def slope(x: Array, t: Array) -> Array:
        over = _norm(x, p, dims, keepdim=True) > maxnorm
        safe = jnp.where(over, x, jnp.ones_like(x))
        norm, change = jax.jvp(lambda x: _norm(x, p, dims, keepdim=True), (safe,), (t,))
        invnorm = 1 / (norm + 1e-7)
        return jnp.where(over, maxnorm * invnorm * (t - safe * (invnorm * change)), t)

    return _scaled_down(x, p, dims, maxnorm), slope(x.astype(wide), t.astype(wide)).astype(x.dtype)


@op(inplace=True)
def renorm(input: Array, p: Static, dim: int, maxnorm: Static) -> Array:
    """Slices along `dim` whose norm is above `maxnorm` scaled down to it."""
    _check_renorm(input, p, maxnorm)
    axis = shapes.wrap_dim(dim, input.ndim)
    return _scaled_down(input, p, tuple(d for d in range(input.ndim) if d != axis), maxnorm)


@op(grad=Grad.NO)
def hash_tensor(input: Array, dim: Dims = (), *, keepdim: bool = False, mode: int = 0) -> Array:
    """The exclusive or of the elements' bits, as doubles or as 64-bit integers."""
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    refuse(input, "xor_sum_cpu", COMPLEX)
    dims = shapes.wrap_dims(dim or None, input.ndim)
    for d in dims:
        if input.ndim and not input.shape[d]:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    if is_float(input):
        bits = lax.bitcast_convert_type(input.astype(jnp.float64), jnp.uint64)
    else:
        bits = input.astype(jnp.int64).astype(jnp.uint64)
    return _keep(lax.reduce_xor(bits, axes=dims), dims, input.ndim, keepdim)
