"""Scaled dot-product attention: the fused row of torch's CPU build, cuDNN's kernel, the pieces of the plain path."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays.kernels import is_half, scalar_name, widen
from .._core.jax.custom_jvp import custom_jvp
from .._core.jax.products import precision
from .._core.jax.sizes import of_sizes
from .._core.jax.target import platform
from .._core.state import MODES
from .helpers import is_bool, is_float, tangent_with_own_gradients
from .inner import inner_op
from .registry import Array, Dtype, Grad, op

Pair = tuple[Any, Any]
Share = tuple[Array, Array, Array]


def _factor(n: int) -> float:
    """Return what products of vectors with n elements are multiplied by."""
    return 1.0 / math.sqrt(n)


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
        raise NotImplementedError(f"\"softmax_lastdim_kernel_impl\" not implemented for '{scalar_name(x)}'")
    return _softmax(widen(x), dim).astype(x.dtype)


@inner_op(grad=Grad.NO)
def _attention_bias(mask: Array, dtype: Dtype) -> Array:
    """Return what a bool mask adds to the scores: 0 where attention is allowed, -inf elsewhere."""
    return jnp.where(mask, jnp.zeros((), dtype), jnp.array(-jnp.inf, dtype))


@inner_op(grad=Grad.NO)
def _causal_bias(query: Array, key: Array) -> Array:
    """The same for a causal mask between two sequences, aligned at their starts."""
    shape = (query.shape[-2], key.shape[-2])
    return _attention_bias(_causal(shape), query.dtype)


def _causal(shape: tuple[int, ...], first: Any = 0) -> Array:
    """Return whether each row attends to each column; the row 0 is the row `first`, counted from the column 0."""
    rows, cols = (lax.broadcasted_iota(jnp.int32, shape, len(shape) - 2 + i) for i in (0, 1))
    return cols <= rows + first


_LONG = 1 << 23
"""With more scores than these, one block is computed at a time, and no array holds all of them."""
_ON_CPU, _ELSEWHERE = 1 << 19, 1 << 23
"""About so many scores are in a block: as many as a cache holds, or enough for an accelerator to be busy."""


def is_long(scores: int) -> bool:
    """Return whether so many scores are computed one block after the other."""
    return scores > _LONG


def _edge(heads: int) -> int:
    """Return how many queries, and how many keys, are in a block of so many heads: a power of two."""
    scores = _ON_CPU if platform() == "cpu" else _ELSEWHERE
    return min(max(64, 1 << (math.isqrt(scores // heads).bit_length() - 1)), 1024)


def _edge_for(q: Array, k: Array) -> int | None:
    """The edge of the blocks in which the scores of these are computed, None for all at once."""
    heads = math.prod(q.shape[:-2])
    return _edge(heads) if is_long(heads * q.shape[-2] * k.shape[-2]) else None


def _cut(a: Array | None, first: Any, size: int, axis: int) -> Any:
    """A block of an array along one axis; what is the same for all along that axis stays."""
    if a is None or a.shape[axis] in (1, size):
        return a
    return lax.dynamic_slice_in_dim(a, first, size, a.ndim + axis)


def _stacked(a: Array | None, size: int, axis: int) -> Any:
    """All whole blocks of an array along one axis, one after the other."""
    if a is None:
        return None
    blocks, at = a.shape[axis] // size, a.ndim + axis
    even = lax.slice_in_dim(a, 0, blocks * size, axis=at)
    return jnp.moveaxis(even.reshape(*a.shape[:at], blocks, size, *a.shape[at + 1 :]), at, 0)


def _firsts(n: int, edge: int) -> Array:
    return jnp.arange(n // edge, dtype=jnp.int32) * edge


def _over_rows(rows: Callable[..., Pair], n: int, edge: int | None, tangents: tuple[Array | None, ...] = ()) -> Pair:
    """``rows(first, size, *tangents)`` for one block of queries after the other, and the results put together.

    Tangents are split before the loop, so that its transpose puts the gradient of a block to those of the others
    instead of adding arrays of all queries. Other arrays are cut inside. A backward pass computes the scores of a block
    once more, so that nothing of their size is kept.
    """
    if edge is None or edge >= n:
        return rows(0, n, *tangents)
    block = jax.checkpoint(rows, static_argnums=1)
    split = [t if t is not None and t.shape[-2] == n else None for t in tangents]

    def given(parts: Any) -> list[Any]:
        return [t if part is None else part for t, part in zip(tangents, parts)]

    stacked = [_stacked(t, edge, -2) for t in split]
    found = lax.map(lambda at: block(at[0], edge, *given(at[1])), (_firsts(n, edge), stacked))
    joined = [jnp.moveaxis(a, 0, -3) for a in found]
    out, lse = (a.reshape(*a.shape[:-3], -1, a.shape[-1]) for a in joined)
    if rest := n % edge:
        ends = [None if t is None else t[..., n - rest :, :] for t in split]
        last = block(n - rest, rest, *given(ends))
        out, lse = (jnp.concatenate(pair, -2) for pair in zip((out, lse), last))
    return out, lse


def _over_keys(
    part: Callable[..., Any],
    join: Callable[..., Any],
    start: Any,
    n: int,
    edge: int | None,
    last_row: Any,
    tangents: tuple[tuple[Array | None, int], ...] = (),
) -> Any:
    """Return what ``part(first, size, *tangents)`` gives for one block of keys after the other, joined.

    Args:
        part: gives one block's share.
        join: of two shares makes one.
        start: the share of no keys.
        n: how many keys there are.
        edge: how many are in a block, None for all at once.
        last_row: keys behind this one have no share, as causal attention has it; None for any other.
        tangents: each with the axis along which it is split.
    """
    if edge is None or edge >= n:
        return part(0, n, *(t for t, _ in tangents))
    split = [t if t is not None and t.shape[axis] == n else None for t, axis in tangents]

    @functools.partial(jax.checkpoint, static_argnums=2)
    def grown(share: Any, first: Any, size: int, parts: list[Array | None]) -> Any:
        def take(share: Any, parts: Any) -> Any:
            given = [t if part is None else part for (t, _), part in zip(tangents, parts)]
            return join(share, part(first, size, *given))

        if last_row is None:
            return take(share, parts)
        return lax.cond(first <= last_row, take, lambda share, _: share, share, parts)

    stacked = [_stacked(t, edge, axis) for t, (_, axis) in zip(split, tangents)]
    share, _ = lax.scan(lambda share, at: (grown(share, at[0], edge, at[1]), None), start, (_firsts(n, edge), stacked))
    if rest := n % edge:
        ends = [_cut(t, n - rest, rest, axis) for t, (_, axis) in zip(split, tangents)]
        share = grown(share, n - rest, rest, ends)
    return share


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
    return jnp.matmul(a.astype(dtype), b.astype(dtype), precision=precision(dtype), preferred_element_type=jnp.float32)


@_half_product.defjvp
def _half_product_jvp(dtype: Any, primals: Any, tangents: Any) -> Any:
    (a, b), (ta, tb) = primals, tangents
    product = _linear_product_for(jnp.zeros(0, dtype))
    return _half_product(dtype, a, b), product(ta, b) + product(a, tb)


def _scores(corner: Pair, q: Array, k: Array, bias: Array | None, causal: bool, scale: float, product: Any) -> Array:
    """The scores of a block; `corner` has the numbers of its first query and first key."""
    s = product(q, jnp.swapaxes(k, -1, -2)) * jnp.array(scale, q.dtype)
    if bias is not None:
        if is_bool(bias):
            s = jnp.where(jnp.broadcast_to(bias, s.shape), s, -jnp.inf)
        else:
            s = s + jnp.broadcast_to(bias.astype(s.dtype), s.shape)
    return jnp.where(_causal(s.shape, corner[0] - corner[1]), s, -jnp.inf) if causal else s


def _dropped(weights: Array, kept: Array | None, p: float) -> Array:
    """Weights after dropout, which makes some of them 0 and the others larger."""
    return weights if kept is None else jnp.where(kept, weights * (1.0 / (1.0 - p)), 0)


def _finite(top: Array) -> Array:
    """The largest score of a row, and 0 for a row that may attend to nothing."""
    return jnp.where(jnp.isneginf(top), 0, top)


def _joined_softmax(a: Share, b: Share) -> Share:
    """The largest score, the sum of exponentials and the weighted sum of values, over the keys of both."""
    top = jnp.maximum(a[0], b[0])
    ours, theirs = (jnp.exp(t - _finite(top)) for t in (a[0], b[0]))
    return top, a[1] * ours + b[1] * theirs, a[2] * ours + b[2] * theirs


@functools.partial(custom_jvp, nondiff_argnums=(5, 6, 7))
def _attend(
    q: Array, k: Array, v: Array, bias: Array | None, kept: Array | None, p: float, causal: bool, scale: float
) -> tuple[Array, Array]:
    n, edge, product = k.shape[-2], _edge_for(q, k), _product_for(q)

    def rows(first: Any, size: int) -> Pair:
        queries, *masks = (_cut(a, first, size, -2) for a in (q, bias, kept))

        def part(key: Any, many: int) -> Share:
            keys, values = (widen(_cut(a, key, many, -2)) for a in (k, v))
            bias, kept = (_cut(a, key, many, -1) for a in masks)
            s = _scores((first, key), widen(queries), keys, bias, causal, scale, product)
            top = jnp.max(s, -1, keepdims=True)
            e = jnp.exp(s - _finite(top))
            total = jnp.sum(e, -1, keepdims=True, dtype=s.dtype)
            return top, total, product(_dropped(e, kept, p), values)

        none = jnp.zeros((*queries.shape[:-1], 1), widen(q).dtype)
        start = (none - jnp.inf, none, jnp.zeros((*queries.shape[:-1], v.shape[-1]), none.dtype))
        last = first + size - 1 if causal else None
        top, total, out = _over_keys(part, _joined_softmax, start, n, edge, last)
        total = jnp.where(jnp.isneginf(top), 1, total)
        return (out / total).astype(q.dtype), _finite(top) + jnp.log(total)

    out, lse = _over_rows(rows, q.shape[-2], edge)
    return out, lse[..., 0]


@_attend.defjvp
def _attend_jvp(p: float, causal: bool, scale: float, primals: Any, tangents: Any) -> Any:
    # The weights are rebuilt from the log-sum-exp, so that only that and the output are saved.
    q, k, v, bias, kept = primals
    tq, tk, tv, tbias, _ = tangents
    tbias = tbias if bias is not None and is_float(bias) else None
    out, lse = _attend(q, k, v, bias, kept, p, causal, scale)
    n, edge = k.shape[-2], _edge_for(q, k)
    product, linear = _product_for(q), _linear_product_for(q)

    def rows(first: Any, size: int, tq: Array, tbias: Array | None) -> Pair:
        queries, y, total, *masks = (_cut(a, first, size, -2) for a in (q, out, lse[..., None], bias, kept))
        queries, tq, y = widen(queries), widen(tq), widen(y)

        def part(key: Any, many: int, tk: Array, tv: Array, tbias: Array | None) -> Pair:
            keys, values = (widen(_cut(a, key, many, -2)) for a in (k, v))
            bias, kept = (_cut(a, key, many, -1) for a in masks)
            w = jnp.exp(_scores((first, key), queries, keys, bias, causal, scale, product) - total)
            ts = linear(tq, jnp.swapaxes(keys, -1, -2)) + linear(queries, jnp.swapaxes(tk, -1, -2))
            ts = ts * jnp.array(scale, ts.dtype)
            if tbias is not None:
                ts = ts + jnp.broadcast_to(tbias.astype(ts.dtype), ts.shape)
            tw = w * ts
            t_out = linear(_dropped(tw, kept, p), values) + linear(_dropped(w, kept, p), tv)
            return t_out, jnp.sum(tw, -1, keepdims=True, dtype=tw.dtype)

        def join(a: Pair, b: Pair) -> Pair:
            return a[0] + b[0], a[1] + b[1]

        start = (jnp.zeros(y.shape, total.dtype), jnp.zeros(total.shape, total.dtype))
        along = ((widen(tk), -2), (widen(tv), -2), (tbias, -1))
        last = first + size - 1 if causal else None
        t_out, t_lse = _over_keys(part, join, start, n, edge, last, along)
        return t_out - t_lse * y, t_lse

    t_out, t_lse = _over_rows(rows, q.shape[-2], edge, (tq, tbias))
    return (out, lse), (t_out.astype(out.dtype), t_lse[..., 0])


@inner_op(name="_flash_attention_rows", node="ScaledDotProductFlashAttentionForCpuBackward0")
def _scaled_dot_product_flash_attention_for_cpu(
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Array | None = None,
    kept: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """Output and log-sum-exp of attention over (batch, heads, length, features).

    The latter is differentiable, because the backward is written in terms of it. `kept` says which weights dropout
    leaves.
    """
    if dropout_p > 0.0 and kept is None:
        raise RuntimeError("scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0")
    many = query.shape[1] // max(key.shape[1], 1)
    k, v = (jnp.repeat(a, many, axis=1) if many > 1 else a for a in (key, value))
    factor = of_sizes(_factor, query.shape[-1]) if scale is None else scale
    bias = attn_mask
    if bias is not None and bias.ndim < 4:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    return _attend(query, k, v, bias, kept, dropout_p, is_causal, factor)


# --- cuDNN's kernel -------------------------------------------------------------------------------


def has_kernel(dtype: Any, queries: int, keys: int, features: int) -> bool:
    """Return whether JAX's platform has a kernel for attention between so many queries and keys, forward and backward.

    Few scores are computed as fast, and closer, by a product, a softmax and a product.
    """
    fits = dtype.itemsize == 2 and features <= 128 and features % 8 == 0
    return fits and queries % 2 == keys % 2 == 0 and min(queries, keys) >= 256 and _has_cudnn()


def _has_cudnn() -> bool:
    first = jax.local_devices()[0] if MODES.target is None else MODES.target.devices[0]
    if MODES.target is None and "cuda" not in str(getattr(first.client, "platform_version", "")):
        return False
    return float(getattr(first, "compute_capability", 0) or 0) >= 8.0


def _behind(*arrays: Array) -> tuple[Array, ...]:
    """These with the heads behind the sequence, as JAX has them, or before it again."""
    return tuple(jnp.swapaxes(a, 1, 2) for a in arrays)


def _by_cudnn(
    causal: bool, scale: float, q: Array, k: Array, v: Array
) -> tuple[Array, Callable[..., Any], list[Array]]:
    """The result of JAX's function, its backward function, and of what that one keeps the log-sum-exp of each row.

    JAX gives the log-sum-exp as a result, too, but rounded to the dtype of the inputs, which its kernel cannot read.
    """
    attend = functools.partial(jax.nn.dot_product_attention, scale=scale, is_causal=causal, implementation="cudnn")
    out, back = jax.vjp(attend, *_behind(q, k, v))
    return out, back, [a for a in jax.tree.leaves(back) if a.shape == q.shape[:-1] and a.dtype == jnp.float32]


def _forward_by_cudnn(causal: bool, scale: float, q: Array, k: Array, v: Array) -> Pair:
    out, _, (lse,) = _by_cudnn(causal, scale, q, k, v)
    return _behind(out)[0], lse


def _gradients_by_cudnn(
    causal: bool, scale: float, q: Array, k: Array, v: Array, out: Array, lse: Array, slope: Array
) -> tuple[Array, ...]:
    """The backward kernel, which reads the result and the log-sum-exp: those that are there take the place of its own.

    So nothing reads what the forward kernel gives, with which JAX's function begins, and that kernel is left out.
    """
    own, back, (own_lse,) = _by_cudnn(causal, scale, q, k, v)
    out, slope = _behind(out, slope)
    kept, tree = jax.tree.flatten(back)
    known = [out if a is own else lse if a is own_lse else a for a in kept]
    return _behind(*jax.tree.unflatten(tree, known)(slope))


def _forward_by_blocks(causal: bool, scale: float, q: Array, k: Array, v: Array) -> Pair:
    out, lse = _attend(q, k, v, None, None, 0.0, causal, scale)
    return out, lse.astype(jnp.float32)


def _by_blocks(causal: bool, scale: float, q: Array, k: Array, v: Array) -> Array:
    return _forward_by_blocks(causal, scale, q, k, v)[0]


def _gradients_by_blocks(
    causal: bool, scale: float, q: Array, k: Array, v: Array, out: Array, lse: Array, slope: Array
) -> tuple[Array, ...]:
    return jax.vjp(functools.partial(_by_blocks, causal, scale), q, k, v)[1](slope)


def _on_cuda(kernel: Callable[..., Any], blocks: Callable[..., Any], *given: Array) -> Any:
    return lax.platform_dependent(*given, cuda=kernel, default=blocks)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _by_kernel(causal: bool, scale: float, q: Array, k: Array, v: Array) -> Pair:
    kernel, blocks = (functools.partial(f, causal, scale) for f in (_forward_by_cudnn, _forward_by_blocks))
    return _on_cuda(kernel, blocks, q, k, v)


@_by_kernel.defjvp
def _by_kernel_jvp(causal: bool, scale: float, primals: Any, tangents: Any) -> Any:
    """Gradients are the kernel's; tangents are those of the blocks, because the kernel has none.

    Nothing is differentiated by way of the log-sum-exp: second derivatives are those of the blocks, too.
    """
    out, lse = _by_kernel(causal, scale, *primals)
    tangent = tangent_with_own_gradients(
        lambda kept, *given: jax.jvp(functools.partial(_by_blocks, causal, scale), kept[:3], given)[1],
        lambda kept, slope: _gradients_by_kernel(causal, scale, *kept, slope),
        (*primals, out, lse),
        *tangents,
    )
    return (out, lse), (tangent, jnp.zeros_like(lse))


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _gradients_by_kernel(causal: bool, scale: float, *given: Array) -> tuple[Array, ...]:
    kernel, blocks = (functools.partial(f, causal, scale) for f in (_gradients_by_cudnn, _gradients_by_blocks))
    return _on_cuda(kernel, blocks, *given)


@_gradients_by_kernel.defjvp
def _gradients_by_kernel_jvp(causal: bool, scale: float, primals: Any, tangents: Any) -> Any:
    out, lse = primals[3:5]

    def of_inputs(q: Array, k: Array, v: Array, slope: Array) -> tuple[Array, ...]:
        return _gradients_by_blocks(causal, scale, q, k, v, out, lse, slope)

    slopes = jax.jvp(of_inputs, (*primals[:3], primals[5]), (*tangents[:3], tangents[5]))[1]
    return _gradients_by_kernel(causal, scale, *primals), slopes


@inner_op(name="_attention_kernel", node="ScaledDotProductCudnnAttentionBackward0")
def _scaled_dot_product_cudnn_attention(
    query: Array, key: Array, value: Array, is_causal: bool, scale: float | None
) -> Pair:
    """Output and log-sum-exp of attention over (batch, heads, length, features), by the platform's kernel.

    Tangents, and derivatives of the backward pass, are those of the blocks.
    """
    factor = of_sizes(_factor, query.shape[-1]) if scale is None else scale
    return _by_kernel(is_causal, factor, query, key, value)
