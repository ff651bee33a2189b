"""Sums, means, products, moments, norms and logical reductions."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core import dtypes, shapes
from .helpers import broadcast, convert, expanded_gradient, is_bool, is_complex, is_float, is_integral
from .registry import COMMON, FLOAT, Array, Dims, Dtype, Grad, Static, op

Shape = tuple[int, ...]


def _torch_name(x: Any) -> str:
    return dtypes.scalar_type_name(dtypes.from_np(x.dtype))


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


def _numel(x: Array, dims: Shape) -> int:
    return math.prod(x.shape[d] for d in dims)


def _add_up(x: Array, dims: Shape) -> Array:
    if is_bool(x):  # only with dtype=torch.bool
        return lax.reduce_or(x, axes=dims)
    return lax.reduce_sum(_wide(x), axes=dims).astype(x.dtype)


def _dim_given(name: str) -> Any:
    """torch has one overload without `dim`, which is node 0, and one with it, node 1."""
    return lambda a: f"{name}Backward{int(a['dim'] is not None or a['keepdim'])}"


@op(name="sum", node=_dim_given("Sum"), grad_view=expanded_gradient)
def sum_(
    input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Sum of the elements, or of those along `dim`; integers and bool sum to int64."""
    dims = shapes.wrap_dims(dim, input.ndim)
    x = convert(input, _sum_dtype(input, dtype))
    return _keep(_add_up(x, dims), dims, x.ndim, keepdim)


@op(node="NansumBackward0")
def nansum(
    input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Sum that takes NaN for zero."""
    if is_complex(input):
        raise RuntimeError("nansum on CPU does not support complex inputs")
    dims = shapes.wrap_dims(dim, input.ndim)
    x = jnp.where(jnp.isnan(input), jnp.zeros_like(input), input) if is_float(input) else input
    return _keep(_add_up(convert(x, _sum_dtype(x, dtype)), dims), dims, x.ndim, keepdim)


@op(node=_dim_given("Mean"))
def mean(
    input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Mean of the elements, or of those along `dim`."""
    if not (is_float(dtype or input) or is_complex(dtype or input)):
        which, got = ("Optional", jnp.empty(0, dtype)) if dtype else ("Input", input)
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {_torch_name(got)}"
        )
    dims = shapes.wrap_dims(dim, input.ndim)
    x = convert(input, dtype or input.dtype)
    wide = _wide(x)
    y = lax.reduce_sum(wide, axes=dims) / jnp.asarray(_numel(x, dims), wide.dtype)
    return _keep(y.astype(x.dtype), dims, x.ndim, keepdim)


def _product(x: Array, dims: Shape) -> Array:
    @jax.custom_jvp
    def f(x: Array) -> Array:
        return lax.reduce_prod(_wide(x), axes=dims).astype(x.dtype)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = f(x)
        # result / x is cheap and what torch saves for; a zero needs the products of the others,
        # which JAX forms without dividing, to any order.
        zero = x == 0
        some = lax.reduce_or(zero, axes=tuple(range(x.ndim)))

        def by_division(x: Array, y: Array, t: Array) -> Array:
            rest = _expand(y, dims, x.ndim) / jnp.where(zero, jnp.ones_like(x), x)
            return lax.reduce_sum(rest * t, axes=dims)

        def by_tree(x: Array, y: Array, t: Array) -> Array:
            return jax.jvp(lambda x: lax.reduce_prod(x, axes=dims), (x,), (t,))[1]

        return y, lax.cond(some, by_tree, by_division, x, y, t)

    if not x.ndim:
        return x
    return f(x) if is_float(x) or is_complex(x) else lax.reduce_prod(x, axes=dims)


@op(node=lambda a: f"ProdBackward{int(a['dim'] is not None)}")
def prod(
    input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Product of the elements, or of those along `dim`; integers and bool give int64."""
    dims = shapes.wrap_dims(dim, input.ndim)
    x = convert(input, _sum_dtype(input, dtype))
    y = lax.reduce_and(x, axes=dims) if is_bool(x) else _product(x, dims)
    return _keep(y, dims, x.ndim, keepdim)


# --- moments ---


def _moments(x: Array, dim: Any, correction: Any) -> tuple[Shape, float]:
    """Wrapped dimensions and the degrees of freedom."""
    if not (is_float(x) or is_complex(x)):
        raise RuntimeError("std and var only support floating point and complex dtypes")
    dims = shapes.wrap_dims(dim, x.ndim)
    return dims, max(_numel(x, dims) - (1 if correction is None else correction), 0)


def _mean(x: Array, dims: Shape) -> Array:
    return lax.reduce_sum(x, axes=dims) / jnp.asarray(_numel(x, dims), x.dtype)


def _variance(x: Array, dims: Shape, dof: float) -> Array:
    """torch's derivative is that of the mean held fixed, whose own terms cancel."""

    def deviation(x: Array) -> Array:
        return x - _expand(_mean(x, dims), dims, x.ndim)

    @jax.custom_jvp
    def f(x: Array) -> Array:
        d = deviation(x)
        square = d * d if is_float(d) else jnp.real(d) ** 2 + jnp.imag(d) ** 2
        return lax.reduce_sum(square, axes=dims) / jnp.asarray(dof, square.dtype)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        d = deviation(x)
        if dof == 0:  # 0/0 at the mean, otherwise torch says +inf on both sides of it
            slope = jnp.where(d == 0, jnp.asarray(jnp.nan, d.dtype), jnp.asarray(jnp.inf, d.dtype))
        else:
            slope = d * jnp.asarray(2.0 / dof, d.dtype)
        product = slope * t if is_float(d) else jnp.real(jnp.conj(slope) * t)
        return f(x), lax.reduce_sum(product, axes=dims)

    return f(x)


def _root(v: Array) -> Array:
    """Square root with slope 0 at 0: torch's gradient of std there."""

    @jax.custom_jvp
    def f(v: Array) -> Array:
        return jnp.sqrt(v)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        y = f(primals[0])
        flat = y == 0
        slope = jnp.where(flat, jnp.zeros_like(y), 0.5 / jnp.where(flat, jnp.ones_like(y), y))
        return y, slope * tangents[0]

    return f(v)


def _real_dtype(x: Array) -> Any:
    return jnp.real(x).dtype if is_complex(x) else x.dtype


def _moment_op(root: bool, with_mean: bool) -> Any:
    """std, var, std_mean and var_mean: one body."""

    def impl(
        input: Array, dim: Dims | None = None, *, correction: Static | None = None,
        keepdim: bool = False,
    ) -> Any:  # fmt: skip
        dims, dof = _moments(input, dim, correction)
        x = _wide(input)
        y = _variance(x, dims, dof)
        y = (_root(y) if root else y).astype(_real_dtype(input))
        y = _keep(y, dims, x.ndim, keepdim)
        if not with_mean:
            return y
        return y, _keep(_mean(x, dims).astype(input.dtype), dims, x.ndim, keepdim)

    return impl


for _label, _root_of, _pair in (
    ("std", True, False), ("var", False, False), ("std_mean", True, True), ("var_mean", False, True),
):  # fmt: skip
    op(
        _moment_op(_root_of, _pair), name=f"{_label}_correction", function=False, method=False,
        node="".join(p.capitalize() for p in _label.split("_")) + "Backward0",
        doc="With the `correction` subtracted from the number of elements in the denominator.",
    )  # fmt: skip


# --- logical ---


def _nonzero(x: Array) -> Array:
    return x if is_bool(x) else x != 0


def _logical(x: Array, dim: Any, keepdim: bool, reduce: Any) -> Array:
    dims = () if dim == () else shapes.wrap_dims(dim, x.ndim)  # here torch takes () at its word
    y = reduce(_nonzero(x), axes=dims)
    y = y.astype(jnp.uint8) if x.dtype == jnp.uint8 else y
    return _keep(y, dims, x.ndim, keepdim)


@op(name="all", grad=Grad.NO)
def all_(input: Array, dim: Dims | None = None, keepdim: bool = False) -> Array:
    """Whether all elements are nonzero."""
    return _logical(input, dim, keepdim, lax.reduce_and)


@op(name="any", grad=Grad.NO)
def any_(input: Array, dim: Dims | None = None, keepdim: bool = False) -> Array:
    """Whether some element is nonzero."""
    return _logical(input, dim, keepdim, lax.reduce_or)


@op(grad=Grad.NO, out=False)
def count_nonzero(input: Array, dim: Dims | None = None) -> Array:
    """Number of nonzero elements."""
    dims = shapes.wrap_dims(dim, input.ndim)
    return lax.reduce_sum(_nonzero(input).astype(jnp.int64), axes=dims)


# --- logsumexp and norms ---


def logsumexp_of(x: Array, dims: Shape) -> Array:
    """log(sum(exp(x))), shifted by the maximum; the slope is exp(x - result)."""

    @jax.custom_jvp
    def f(x: Array) -> Array:
        if not _numel(x, dims):
            return jnp.log(lax.reduce_sum(x, axes=dims))
        top = lax.reduce_max(jnp.real(x), axes=dims)
        top = lax.stop_gradient(jnp.where(jnp.isinf(top), jnp.zeros_like(top), top))
        total = lax.reduce_sum(jnp.exp(x - _expand(top.astype(x.dtype), dims, x.ndim)), axes=dims)
        return jnp.log(total) + top.astype(x.dtype)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = f(x)
        return y, lax.reduce_sum(jnp.exp(x - _expand(y, dims, x.ndim)) * t, axes=dims)

    return f(x)


@op(promote=FLOAT)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False) -> Array:
    """Logarithm of the summed exponentials along `dim`."""
    dims = shapes.wrap_dims(dim, input.ndim)
    y = logsumexp_of(_wide(input), dims).astype(input.dtype)
    return _keep(y, dims, input.ndim, keepdim)


def _safe_div(x: Array, y: Array) -> Array:
    """x / y, and 0 where y is 0, at every order of differentiation."""
    zero = y == 0
    return jnp.where(zero, jnp.zeros_like(x), x / jnp.where(zero, jnp.ones_like(y), y))


def _norm_value(x: Array, p: float, dims: Shape) -> Array:
    a = jnp.abs(x)
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
    """d(norm)/dx by torch's conventions: 0 at 0, shared evenly between ties of an infinite order."""
    y = jnp.broadcast_to(_expand(y, dims, x.ndim), x.shape)
    if p == 2:
        return _safe_div(x, y.astype(x.dtype))
    a = jnp.abs(x)
    # Not jnp.sign for complex numbers: JAX takes its derivative for zero there.
    unit = _safe_div(x, a.astype(x.dtype)) if is_complex(x) else jnp.sign(x)
    if p == 1:
        return unit
    if p in (math.inf, -math.inf):
        hit = ((a == y) | jnp.isnan(a)).astype(a.dtype)
        share = hit / _expand(lax.reduce_sum(hit, axes=dims), dims, x.ndim)
        return unit * share.astype(x.dtype)
    zero = a == 0
    power = jnp.where(zero, jnp.ones_like(a), a) ** jnp.asarray(p - 1, a.dtype)
    power = jnp.where(zero, jnp.zeros_like(a), power)
    if p < 1:
        scale = power * y ** jnp.asarray(1 - p, a.dtype)
    else:
        scale = _safe_div(power, y ** jnp.asarray(p - 1, a.dtype))
    return unit * scale.astype(x.dtype)


def norm_of(x: Array, p: float, dims: Shape) -> Array:
    """Vector norm of order `p` over `dims`; real for complex input."""

    @jax.custom_jvp
    def f(x: Array) -> Array:
        return _norm_value(x, p, dims)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = f(x)
        if p == 0:
            return y, jnp.zeros_like(y)
        slope = _norm_slope(x, y, p, dims)
        product = jnp.real(jnp.conj(slope) * t) if is_complex(x) else slope * t
        return y, lax.reduce_sum(product, axes=dims)

    return f(x)


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


@op(namespace="linalg", method=False)
def linalg_vector_norm(
    input: Array, ord: Static = 2, dim: Dims | None = None, keepdim: bool = False, *,
    dtype: Dtype | None = None,
) -> Array:  # fmt: skip
    """Norm of order `ord` of the flattened tensor, or along `dim`."""
    if isinstance(ord, str):
        raise TypeError(
            "linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str"
        )
    if isinstance(ord, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    if not (is_float(input) or is_complex(input)):
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {_torch_name(input)}"
        )
    dims = shapes.wrap_dims(dim, input.ndim)
    _check_order(input, ord, dim, dims)
    x = _norm_input(input, dtype)
    y = norm_of(_wide(x), ord, dims).astype(_real_dtype(x))
    return _keep(y, dims, x.ndim, keepdim)


def _norm_input(x: Array, dtype: Any) -> Array:
    if dtype is None:
        return x
    name = _torch_name(jnp.empty(0, dtype))
    if not (is_float(dtype) or is_complex(dtype)):
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got {name}"
        )
    if is_complex(dtype) != is_complex(x):
        kind = "complex" if is_complex(x) else "real"
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {name}"
        )
    if jnp.promote_types(x.dtype, dtype) != dtype:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({_torch_name(x)}) should be convertible "
            f"without narrowing to the specified dtype ({name})"
        )
    return x.astype(dtype)


@op(promote=COMMON, out=False)
def dist(input: Array, other: Array, p: Static = 2) -> Array:
    """Norm of order `p` of the difference."""
    x, y = broadcast(input, other)
    if not (is_float(x) or is_complex(x)):
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. "
            f"Got {_torch_name(x)} instead."
        )
    out = norm_of(_wide(x - y), p, tuple(range(x.ndim)))
    return out.astype(_real_dtype(x))
