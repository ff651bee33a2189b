"""Normalisation over batches, layers and groups.

A node saves the statistics that its row returns. torch has no derivative of the statistics of batches and layers,
so second derivatives are those of the inputs alone.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.division import divide
from .._core.arrays.kernels import is_half, scalar_name, widen
from .._core.arrays.layouts import following, following_unless_contiguous
from .._core.errors import messages as errors
from .._core.host import forms_of_images
from .._core.jax.custom_jvp import custom_jvp
from .helpers import from_zero, is_float
from .inner import inner_op
from .registry import Array, Dims, NoGradient, Scalar, TorchKernel, op, variant

Shape = tuple[int, ...]


def _affine(y: Array, weight: Array | None, bias: Array | None) -> Array:
    if weight is not None:
        y = y * widen(weight).astype(y.dtype)
    return from_zero(y) if bias is None else y + widen(bias).astype(y.dtype)


@functools.partial(custom_jvp, nondiff_argnums=(3, 4, 5, 6))
def _normalize(
    x: Array, weight: Array | None, bias: Array | None, axes: Shape, eps: float, stats: Shape, dtype: Any
) -> tuple[Array, Array, Array, Array]:
    """The affine map of x standardised over `axes`, the mean, 1 / std, and the biased variance.

    weight and bias have x's rank; mean and 1 / std come with shape `stats` and `dtype`.
    """
    centred, mean, invstd, var = _moments(x, axes, eps)
    out = _affine(centred * invstd, weight, bias).astype(x.dtype)
    return (out, mean.reshape(stats).astype(dtype), invstd.reshape(stats).astype(dtype), var.reshape(stats))


def _moments(x: Array, axes: Shape, eps: float) -> tuple[Array, Array, Array, Array]:
    """The centred input, the mean, 1 / std and the variance, which are NaN for an empty input.

    The rounding error of the mean is subtracted again. Without that, equal numbers would come out as multiples of
    eps**-0.5 instead of 0.
    """
    y = widen(x)
    count = math.prod(y.shape[a] for a in axes)
    mean = divide(jnp.sum(y, axes, keepdims=True, dtype=y.dtype), max(count, 1))
    centred = y - mean
    rest = jnp.sum(centred, axes, keepdims=True, dtype=y.dtype) / max(count, 1)
    rest = jnp.where(jnp.isfinite(rest), rest, 0)
    var = jnp.sum(centred * centred, axes, keepdims=True, dtype=y.dtype) / count
    var = jnp.maximum(var - rest * rest, 0)
    mean = mean + rest
    return y - mean, mean, lax.rsqrt(var + eps), var


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3, 4))
def _statistics(x: Array, axes: Shape, eps: float, stats: Shape, dtype: Any) -> tuple[Array, Array, Array]:
    """The mean, 1 / std and the variance, which gradients read and which depend on no parameter."""
    _, mean, invstd, var = _moments(x, axes, eps)
    return (mean.reshape(stats).astype(dtype), invstd.reshape(stats).astype(dtype), var.reshape(stats))


@_statistics.defjvp
def _statistics_jvp(axes: Shape, eps: float, stats: Shape, dtype: Any, primals: Any, tangents: Any) -> Any:
    mean, invstd, var = _statistics(*primals, axes, eps, stats, dtype)
    moved = _standardised_tangent(primals[0], tangents[0], mean, invstd, axes)[1:]
    return (mean, invstd, var), _as_statistics(moved, var, stats, dtype)


def _standardised_tangent(x: Array, tx: Array, mean: Array, invstd: Array, axes: Shape) -> tuple[Array, ...]:
    """From rounded statistics: x standardised, 1 / std, and the tangent with its mean and its projection on x."""
    y, t = widen(x), widen(tx)
    keep = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    m, s = (widen(a).reshape(keep).astype(y.dtype) for a in (mean, invstd))
    count = max(math.prod(x.shape[a] for a in axes), 1)
    hat = (y - m) * s
    t_mean = jnp.sum(t, axes, keepdims=True, dtype=t.dtype) / count
    t_proj = jnp.sum(hat * t, axes, keepdims=True, dtype=t.dtype) / count
    return hat, s, t_mean, t_proj


def _as_statistics(moved: Any, var: Array, stats: Shape, dtype: Any) -> tuple[Array, Array, Array]:
    s, t_mean, t_proj = moved
    t_invstd, t_var = -(s * s) * t_proj, 2 * t_proj / s
    return (
        t_mean.reshape(stats).astype(dtype),
        t_invstd.reshape(stats).astype(dtype),
        t_var.reshape(stats).astype(var.dtype),
    )


@_normalize.defjvp
def _normalize_jvp(axes: Shape, eps: float, stats: Shape, dtype: Any, primals: Any, tangents: Any) -> Any:
    # The gradient reads the mean and 1 / std that the op returns, which torch saves.
    x, weight, bias = primals
    tx, tw, tb = tangents
    out, *_ = _normalize(x, weight, bias, axes, eps, stats, dtype)
    mean, invstd, var = _statistics(x, axes, eps, stats, dtype)
    hat, s, t_mean, t_proj = _standardised_tangent(x, tx, mean, invstd, axes)
    t_out = (widen(tx) - t_mean - hat * t_proj) * s
    if weight is not None:
        t_out = t_out * widen(weight).astype(hat.dtype) + hat * widen(tw).astype(hat.dtype)
    if bias is not None:
        t_out = t_out + widen(tb).astype(hat.dtype)
    moved = _as_statistics((s, t_mean, t_proj), var, stats, dtype)
    return (out, mean, invstd, var), (t_out.astype(out.dtype), *moved)


def _check_dtypes(label: str, input: Array, *params: Array | None) -> np.dtype:
    """The dtype of the returned statistics: float32 when halves come with float32 parameters."""
    if not is_float(input):
        kind = scalar_name(input)
        raise NotImplementedError(f"\"{label}\" not implemented for '{kind}'")
    given = [p for p in params if p is not None]
    if not given or given[0].dtype == input.dtype:
        for p in given:
            if p.dtype != input.dtype:
                raise RuntimeError(f"expected scalar type {scalar_name(input)} but found {scalar_name(p)}")
        return input.dtype
    if any(p.dtype != jnp.float32 for p in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if not is_half(input):
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    return np.dtype(np.float32)


def _per_channel(p: Array | None, ndim: int) -> Array | None:
    return None if p is None else p.reshape(1, -1, *(1,) * (ndim - 2))


@inner_op(
    name="_native_batch_norm",
    node="NativeBatchNormBackward0",
    nondiff=(1, 2, 3, 4),
    layout=following_unless_contiguous,
    no_gradient={NoGradient.REFUSED: ("running_mean", "running_var"), NoGradient.NOTHING: ("input", "weight")},
    from_inputs=True,
    kernel=TorchKernel(writes={"running_mean": 3, "running_var": 4}),
    keeps=dict.fromkeys(
        ("input", "weight", "bias"), ("input", "running_mean", "running_var", "weight", "result1", "result2")
    ),
    host=forms_of_images.normed_channels,
)
def native_batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: Scalar,
    eps: float,
) -> tuple[Array, ...]:
    """Output, mean and 1 / std; in training with running statistics also their new values."""
    if input.ndim < 2:
        raise IndexError(errors.dim_out_of_range(1, input.ndim))
    _check_batch_norm(input, weight, bias, running_mean, running_var, training)
    stat = _check_dtypes("batch_norm", input, weight, bias, running_mean, running_var)
    w, b = _per_channel(weight, input.ndim), _per_channel(bias, input.ndim)
    if not training:
        wide = widen(input)
        rm, rv = (widen(_per_channel(p, input.ndim)).astype(wide.dtype) for p in (running_mean, running_var))
        y = _affine((wide - rm) * lax.rsqrt(rv + eps), w, b).astype(input.dtype)
        return y, jnp.zeros((0,), stat), jnp.zeros((0,), stat)
    axes = tuple(a for a in range(input.ndim) if a != 1)
    y, mean, invstd, var = _normalize(input, w, b, axes, eps, (input.shape[1],), stat)
    if running_mean is None or running_var is None:
        return y, mean, invstd
    count = math.prod(input.shape[a] for a in axes)
    unbiased = var * (count / (count - 1)) if count > 1 else var * jnp.nan
    kept = 1 - momentum
    return (
        y,
        mean,
        invstd,
        (mean.astype(var.dtype) * momentum + running_mean.astype(var.dtype) * kept).astype(running_mean.dtype),
        (unbiased * momentum + running_var.astype(var.dtype) * kept).astype(running_var.dtype),
    )


# torch has further names for this computation, whose nodes are called after them.
for _form, _node in (
    ("_legit", "NativeBatchNormLegitBackward0"),
    ("_legit_no_stats", "NativeBatchNormLegitBackward1"),
    ("_with_update", "BatchNormWithUpdateBackward0"),
):
    variant("_native_batch_norm", f"_batch_norm{_form}", node=_node)


def _check_batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
) -> None:
    n = input.shape[1]
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, p in given.items():
        if p is not None and p.size != n:
            raise RuntimeError(f"{name} should contain {n} elements not {p.size}")
        if p is None and not training and name.startswith("running"):
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if running_mean is not None and running_var is not None and running_mean.dtype != running_var.dtype:
        names = [scalar_name(p) for p in (running_mean, running_var)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")


@inner_op(
    name="_native_layer_norm",
    node="NativeLayerNormBackward0",
    nondiff=(1, 2),
    no_gradient={NoGradient.NOTHING: ("input", "weight", "bias")},
    from_inputs=True,
    keeps=dict.fromkeys(("input", "weight", "bias"), ("bias", "input", "weight", "result1", "result2")),
    host=forms_of_images.normed_rows,
)
def native_layer_norm(
    input: Array, normalized_shape: Dims, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, ...]:
    k = len(normalized_shape)
    shape = list(normalized_shape)
    if not k:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and list(p.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(p.shape)} and normalized_shape = {shape}"
            )
    if list(input.shape[-k:]) != shape or input.ndim < k:
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(input.shape)}"
        )
    stat = _check_dtypes("LayerNormKernelImpl", input, weight, bias)
    lead = input.ndim - k
    stats = input.shape[:lead] + (1,) * k
    w, b = (None if p is None else p.reshape((1,) * lead + p.shape) for p in (weight, bias))
    return _normalize(input, w, b, tuple(range(lead, input.ndim)), eps, stats, stat)[:3]


@op(
    node="NativeGroupNormBackward0",
    layout=following(),
    out=False,
    method=False,
    keeps=dict.fromkeys(("input", "weight", "bias"), ("input", "weight", "result1", "result2")),
    host=forms_of_images.normed_groups,
)
def native_group_norm(
    input: Array, weight: Array | None, bias: Array | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Array, ...]:
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p.shape != (C,):
            # torch prints the shape of the weight here, whichever of the two is wrong
            shown = [0] if weight is None else list(weight.shape)
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {shown} and input of shape {list(input.shape)}"
            )
    stat = _check_dtypes("GroupNormKernelImpl", input, weight, bias)
    per = C // group
    w, b = (None if p is None else p.reshape(1, group, per, 1) for p in (weight, bias))
    if b is None:  # torch adds nothing here; its other norms add 0
        b = jnp.full((1,) * 4, -0.0, input.dtype)
    x = input.reshape(N, group, per, HxW)
    y, mean, invstd, _ = _normalize(x, w, b, (2, 3), eps, (N, group), stat)
    return y.reshape(input.shape), mean, invstd
