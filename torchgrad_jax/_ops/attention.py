"""Scaled dot-product attention: the fused row of torch's CPU build and the pieces of its plain path."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._core.kernels import scalar_name, widen
from .helpers import is_bool, is_float
from .registry import Array, Dtype, Grad, op


def _matmul(x: Array, y: Array) -> Array:
    return jnp.matmul(x, y, precision=lax.Precision.HIGHEST)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Array, dim: int) -> Array:
    top = lax.stop_gradient(jnp.max(x, dim, keepdims=True, initial=-jnp.inf))
    empty = jnp.isneginf(top)
    e = jnp.exp(x - jnp.where(empty, 0, top))
    total = jnp.sum(e, dim, keepdims=True, dtype=x.dtype)
    return e / jnp.where(empty, 1, total)


@_softmax.defjvp
def _softmax_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    y = _softmax(primals[0], dim)
    scaled = y * tangents[0]
    return y, scaled - y * jnp.sum(scaled, dim, keepdims=True, dtype=y.dtype)


@op(out=False, method=False, node="SafeSoftmaxBackward0")
def _safe_softmax(input: Array, dim: int, dtype: Dtype | None = None) -> Array:
    """Softmax, but zeros instead of NaN where everything is -inf."""
    x = input if dtype is None else input.astype(dtype)
    if not is_float(x):
        raise NotImplementedError(
            f"\"softmax_lastdim_kernel_impl\" not implemented for '{scalar_name(x)}'"
        )
    return _softmax(widen(x), dim).astype(x.dtype)


@op(out=False, method=False, function=False, grad=Grad.NO)
def _attention_bias(mask: Array, dtype: Dtype) -> Array:
    """What a bool mask adds to the scores: 0 where attention is allowed, -inf elsewhere."""
    return jnp.where(mask, jnp.zeros((), dtype), jnp.array(-jnp.inf, dtype))


@op(out=False, method=False, function=False, grad=Grad.NO)
def _causal_bias(query: Array, key: Array) -> Array:
    """The same for a causal mask between two sequences, aligned at their starts."""
    shape = (query.shape[-2], key.shape[-2])
    return _attention_bias(_causal(shape), query.dtype)


def _causal(shape: tuple[int, ...]) -> Array:
    rows, cols = (lax.broadcasted_iota(jnp.int32, shape, len(shape) - 2 + i) for i in (0, 1))
    return cols <= rows


def _scores(q: Array, k: Array, bias: Array | None, causal: bool, scale: float) -> Array:
    s = _matmul(q, jnp.swapaxes(k, -1, -2)) * jnp.array(scale, q.dtype)
    if bias is not None:
        if is_bool(bias):
            s = jnp.where(jnp.broadcast_to(bias, s.shape), s, -jnp.inf)
        else:
            s = s + jnp.broadcast_to(bias.astype(s.dtype), s.shape)
    return jnp.where(_causal(s.shape), s, -jnp.inf) if causal else s


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _attend(
    q: Array, k: Array, v: Array, bias: Array | None, causal: bool, scale: float
) -> tuple[Array, Array]:
    half = q.dtype
    q, k, v = widen(q), widen(k), widen(v)
    s = _scores(q, k, bias, causal, scale)
    top = jnp.max(s, -1, keepdims=True)
    empty = jnp.isneginf(top)
    e = jnp.exp(s - jnp.where(empty, 0, top))
    total = jnp.where(empty, 1, jnp.sum(e, -1, keepdims=True, dtype=s.dtype))
    out = _matmul(e / total, v)
    lse = jnp.where(empty, 0, top) + jnp.log(total)
    return out.astype(half), lse[..., 0]


@_attend.defjvp
def _attend_jvp(causal: bool, scale: float, primals: Any, tangents: Any) -> Any:
    # The weights are rebuilt from the log-sum-exp, so that only that and the output are saved.
    q, k, v, bias = primals
    tq, tk, tv, tbias = tangents
    out, lse = _attend(q, k, v, bias, causal, scale)
    q, k, v, tq, tk, tv, y = (widen(a) for a in (q, k, v, tq, tk, tv, out))
    p = jnp.exp(_scores(q, k, bias, causal, scale) - lse[..., None])
    kt, tkt = jnp.swapaxes(k, -1, -2), jnp.swapaxes(tk, -1, -2)
    ts = (_matmul(tq, kt) + _matmul(q, tkt)) * jnp.array(scale, q.dtype)
    if bias is not None and is_float(bias):
        ts = ts + jnp.broadcast_to(tbias.astype(ts.dtype), ts.shape)
    pts = p * ts
    t_lse = jnp.sum(pts, -1, dtype=pts.dtype)
    t_out = _matmul(pts, v) - t_lse[..., None] * y + _matmul(p, tv)
    return (out, lse), (t_out.astype(out.dtype), t_lse)


@op(name="_flash_attention_rows", node="ScaledDotProductFlashAttentionForCpuBackward0", out=False,
    method=False, function=False)  # fmt: skip
def _scaled_dot_product_flash_attention_for_cpu(
    query: Array, key: Array, value: Array, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Array | None = None, scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Output and log-sum-exp of attention over (batch, heads, length, features).

    The latter is differentiable, because the backward is written in terms of it.
    """
    if dropout_p > 0.0:
        raise RuntimeError(
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"
        )
    many = query.shape[1] // max(key.shape[1], 1)
    k, v = (jnp.repeat(a, many, axis=1) if many > 1 else a for a in (key, value))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    bias = attn_mask
    if bias is not None and bias.ndim < 4:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    return _attend(query, k, v, bias, is_causal, factor)
