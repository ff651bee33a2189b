"""Scaled dot-product attention: the fused row of torch's CPU build and the pieces of its plain path."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core import control
from .._core.custom_jvp import custom_jvp
from .._core.kernels import is_half, scalar_name, widen
from .._core.products import precision
from .helpers import is_bool, is_float
from .inner import inner_op
from .registry import Array, Dtype, Grad, op


@functools.partial(custom_jvp, nondiff_argnums=(1,))
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


@inner_op(grad=Grad.NO)
def _attention_bias(mask: Array, dtype: Dtype) -> Array:
    """What a bool mask adds to the scores: 0 where attention is allowed, -inf elsewhere."""
    return jnp.where(mask, jnp.zeros((), dtype), jnp.array(-jnp.inf, dtype))


@inner_op(grad=Grad.NO)
def _causal_bias(query: Array, key: Array) -> Array:
    """The same for a causal mask between two sequences, aligned at their starts."""
    shape = (query.shape[-2], key.shape[-2])
    return _attention_bias(_causal(shape), query.dtype)


def _causal(shape: tuple[int, ...], first: Any = 0) -> Array:
    rows, cols = (lax.broadcasted_iota(jnp.int32, shape, len(shape) - 2 + i) for i in (0, 1))
    return cols <= rows + first


_AT_ONCE = 1 << 22
"""Of about so many scores each block of a long sequence consists; no array holds those of all its queries."""

Pair = tuple[Array, Array]


def is_long(scores: int) -> bool:
    """Whether so many scores are computed for one block of queries after the other."""
    return scores > 2 * _AT_ONCE


def _by_rows(fn: Callable[..., Pair], q: Array, k: Array, *others: Array | None) -> Pair:
    """``fn(first_row, q, *others)``, for many scores over one block of rows of the query after the other.

    For 1000 queries and 300 at a time these are three equal blocks and one of 100 rows. Other arrays with as many rows
    are split, too: bools, which have no gradient, are cut where they are, and all else is stacked. A backward pass
    computes the scores of a block once more, so that nothing of their size is kept.
    """
    arrays, n = (q, *others), q.shape[-2]
    scores = math.prod(q.shape[:-1]) * k.shape[-2]
    if not is_long(scores):
        return fn(0, *arrays)
    rows = min(max(16, _AT_ONCE * n // scores), n)
    split = [a is not None and a.shape[-2] == n for a in arrays]
    whole = [is_bool(a) if a is not None else False for a in arrays]
    blocks, even = n // rows, n // rows * rows

    def cut(a: Any, first: Any, size: int) -> Array:
        return lax.dynamic_slice_in_dim(a, first, size, a.ndim - 2)

    @functools.partial(control.checkpoint, static_argnums=2)
    def block(first: Any, parts: list[Array], size: int) -> Pair:
        left = iter(parts)
        given = zip(arrays, split, whole)
        return fn(
            first, *(a if not s else cut(a, first, size) if w else next(left) for a, s, w in given)
        )

    def stacked(a: Array) -> Array:
        parts = a[..., :even, :].reshape(*a.shape[:-2], blocks, rows, a.shape[-1])
        return jnp.moveaxis(parts, -3, 0)

    def joined(a: Array) -> Array:
        return jnp.moveaxis(a, 0, -3).reshape(*a.shape[1:-2], even, a.shape[-1])

    parts = [a for a, s, w in zip(arrays, split, whole) if s and not w and a is not None]
    firsts = jnp.arange(blocks, dtype=jnp.int32) * rows
    found = control.map_(lambda at: block(*at, rows), (firsts, [stacked(a) for a in parts]))
    ends = [[joined(a)] for a in found]
    if even < n:
        last = block(even, [a[..., even:, :] for a in parts], n - even)
        ends = [[*a, b] for a, b in zip(ends, last)]
    out, lse = (jnp.concatenate(a, -2) for a in ends)
    return out, lse


def _product_for(x: Array) -> Any:
    """Matrix products of arrays that were `x.dtype`; halves are multiplied as halves, and add up in float32."""
    if is_half(x):
        return functools.partial(_half_product, np.dtype(x.dtype))
    return functools.partial(jnp.matmul, precision=precision(x.dtype))


def _linear_product_for(x: Array) -> Any:
    """The same for factors of which one is a tangent: such a product can be transposed.

    Products of float16 stay float32, because gradients overflow in float16. The factors are rounded here, so that the
    gradients of one block of rows after the other add up in float32.
    """
    if x.dtype != jnp.bfloat16:
        return functools.partial(jnp.matmul, precision=precision(x.dtype))

    def product(a: Array, b: Array) -> Array:
        rounded = (a.astype(x.dtype), b.astype(x.dtype))
        return jnp.matmul(*rounded, precision=precision(x.dtype)).astype(jnp.float32)

    return product


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _half_product(dtype: Any, a: Array, b: Array) -> Array:
    return jnp.matmul(
        a.astype(dtype), b.astype(dtype), precision=precision(dtype), preferred_element_type=jnp.float32
    )  # fmt: skip


@_half_product.defjvp
def _half_product_jvp(dtype: Any, primals: Any, tangents: Any) -> Any:
    (a, b), (ta, tb) = primals, tangents
    product = _linear_product_for(jnp.zeros(0, dtype))
    return _half_product(dtype, a, b), product(ta, b) + product(a, tb)


def _scores(
    first: Any, q: Array, k: Array, bias: Array | None, causal: bool, scale: float, product: Any
) -> Array:
    s = product(q, jnp.swapaxes(k, -1, -2)) * jnp.array(scale, q.dtype)
    if bias is not None:
        if is_bool(bias):
            s = jnp.where(jnp.broadcast_to(bias, s.shape), s, -jnp.inf)
        else:
            s = s + jnp.broadcast_to(bias.astype(s.dtype), s.shape)
    return jnp.where(_causal(s.shape, first), s, -jnp.inf) if causal else s


def _dropped(weights: Array, kept: Array | None, p: float) -> Array:
    """Weights of which some are left out and the others made larger."""
    return weights if kept is None else jnp.where(kept, weights * (1.0 / (1.0 - p)), 0)


@functools.partial(custom_jvp, nondiff_argnums=(5, 6, 7))
def _attend(
    q: Array, k: Array, v: Array, bias: Array | None, kept: Array | None, p: float, causal: bool, scale: float
) -> tuple[Array, Array]:  # fmt: skip
    keys, values = widen(k), widen(v)
    product = _product_for(q)

    def rows(first: Any, q: Array, bias: Array | None, kept: Array | None) -> Pair:
        s = _scores(first, widen(q), keys, bias, causal, scale, product)
        top = jnp.max(s, -1, keepdims=True)
        empty = jnp.isneginf(top)
        e = jnp.exp(s - jnp.where(empty, 0, top))
        total = jnp.where(empty, 1, jnp.sum(e, -1, keepdims=True, dtype=s.dtype))
        out = product(_dropped(e, kept, p), values) / total
        return out.astype(q.dtype), jnp.where(empty, 0, top) + jnp.log(total)

    out, lse = _by_rows(rows, q, k, bias, kept)
    return out, lse[..., 0]


@_attend.defjvp
def _attend_jvp(p: float, causal: bool, scale: float, primals: Any, tangents: Any) -> Any:
    # The weights are rebuilt from the log-sum-exp, so that only that and the output are saved.
    q, k, v, bias, kept = primals
    tq, tk, tv, tbias, _ = tangents
    tbias = tbias if bias is not None and is_float(bias) else None
    out, lse = _attend(q, k, v, bias, kept, p, causal, scale)
    product, linear = _product_for(q), _linear_product_for(q)
    k, v, tk, tv = (widen(a) for a in (k, v, tk, tv))
    kt, tkt = jnp.swapaxes(k, -1, -2), jnp.swapaxes(tk, -1, -2)

    def rows(first: Any, *per_row: Array | None) -> Pair:
        q, tq, y, lse = (widen(a) for a in per_row[:4] if a is not None)
        bias, tbias, kept = per_row[4:]
        w = jnp.exp(_scores(first, q, k, bias, causal, scale, product) - lse)
        ts = (linear(tq, kt) + linear(q, tkt)) * jnp.array(scale, q.dtype)
        if tbias is not None:
            ts = ts + jnp.broadcast_to(tbias.astype(ts.dtype), ts.shape)
        tw = w * ts
        t_lse = jnp.sum(tw, -1, keepdims=True, dtype=tw.dtype)
        t_out = linear(_dropped(tw, kept, p), v) - t_lse * y + linear(_dropped(w, kept, p), tv)
        return t_out, t_lse

    t_out, t_lse = _by_rows(rows, q, k, tq, out, lse[..., None], bias, tbias, kept)
    return (out, lse), (t_out.astype(out.dtype), t_lse[..., 0])


@inner_op(name="_flash_attention_rows", node="ScaledDotProductFlashAttentionForCpuBackward0")
def _scaled_dot_product_flash_attention_for_cpu(
    query: Array, key: Array, value: Array, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Array | None = None, kept: Array | None = None, scale: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Output and log-sum-exp of attention over (batch, heads, length, features).

    The latter is differentiable, because the backward is written in terms of it. `kept` says which weights dropout
    leaves.
    """
    if dropout_p > 0.0 and kept is None:
        raise RuntimeError(
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"
        )
    many = query.shape[1] // max(key.shape[1], 1)
    k, v = (jnp.repeat(a, many, axis=1) if many > 1 else a for a in (key, value))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    bias = attn_mask
    if bias is not None and bias.ndim < 4:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    return _attend(query, k, v, bias, kept, dropout_p, is_causal, factor)
