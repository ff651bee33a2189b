"""Attention: scaled dot products, by the fused row where torch would take it, and multiple heads."""

from __future__ import annotations

import functools
import math
import threading
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.devices import meant
from .._core.arrays.kernels import cpp_name
from .._core.arrays.meta import Meta, meta
from .._core.errors import messages as errors, warn
from .._core.random import rng
from .._core.state import SETTINGS
from .._engine.entry.arguments import real as _real
from .._engine.entry.bind import composite, ops
from .._engine.graph.history import requires_grad_of
from .._engine.memory.tensor import Tensor
from .._ops.attention import has_kernel, is_long
from .layers import dropout as _dropout, linear as _linear
from .random import draw, inside_trace

_functional = functools.partial(composite, method=False, namespace="nn.functional")


# --- scaled dot products ------------------------------------------------------------------------


def _cpp(m: Meta) -> str:
    return cpp_name(np.empty(0, m.dtype.np))


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> None:
    q, k, v = query._m, key._m, value._m
    if not (q.dtype is k.dtype is v.dtype):
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{_cpp(q)} key.dtype: {_cpp(k)} and value.dtype: {_cpp(v)} instead."
        )
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{q.ndim} key.dim: {k.ndim} and value.dim: {v.ndim} instead."
        )
    if mask is not None:
        if mask._m.ndim < 2 and min(q.ndim, k.ndim, v.ndim) == 4:
            raise IndexError(errors.dim_out_of_range(-2, mask._m.ndim))
        d = mask._m.dtype
        if d not in (dtypes.bool_, dtypes.float32, q.dtype):
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                f"attn_mask.dtype: {_cpp(mask._m)} and  query.dtype: {_cpp(q)} instead."
            )
    if dropout_p > 1.0:  # torch treats a negative one as 0
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    if not q.dtype.is_floating_point and not q.dtype.is_complex:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: float != {_cpp(q)}")


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, gqa: bool) -> bool:
    """Return whether torch's CPU build would take its fused kernel."""
    q, k, v = query._m, key._m, value._m
    if dropout_p > 0.0 or not (q.ndim == k.ndim == v.ndim == 4) or not q.dtype.is_floating_point:
        return False
    if not (q.shape[0] == k.shape[0] == v.shape[0]) or not (q.shape[3] == k.shape[3] == v.shape[3]):
        return False
    if k.shape[1] != v.shape[1] or not k.shape[1]:
        return False
    if q.shape[1] != k.shape[1] and not (gqa and q.shape[1] % k.shape[1] == 0):
        return False
    if 0 in (q.shape[0], q.shape[2], k.shape[2], q.shape[3]) or k.shape[2] != v.shape[2]:
        return False
    if any(m.strides[3] != 1 and m.shape[3] != 1 for m in (q, k, v)):
        return False
    if mask is None:
        return True
    m = mask._m
    scores = (*q.shape[:3], k.shape[2])
    fits = m.ndim in (2, 4) and all(n in (1, s) for n, s in zip(m.shape[::-1], scores[::-1]))
    return fits and not requires_grad_of(mask)


def _by_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> bool:
    """Return whether a program computes this by the kernel of a GPU, if the scores fit one another.

    Its gradients add up in an order that differs from run to run.
    """
    q, k, v = query._m, key._m, value._m
    if mask is not None or dropout_p > 0.0 or meant(q.device) != "cuda" or not inside_trace():
        return False
    allowed = (SETTINGS.flash_sdp or SETTINGS.cudnn_sdp) and not SETTINGS.deterministic
    alike = q.shape[-1] == k.shape[-1] == v.shape[-1] and k.shape[-2] == v.shape[-2]
    return allowed and alike and has_kernel(q.dtype, q.shape[-2], k.shape[-2], q.shape[-1])


class _Instead(threading.local):
    """The function that computes attention in this thread instead, where sequences are split over devices."""

    call: Any = None


INSTEAD = _Instead()


@_functional
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` over (..., heads, length, features)."""
    scale = _real("scaled_dot_product_attention", "scale", scale)
    _check(query, key, value, attn_mask, dropout_p)
    if INSTEAD.call is not None and not dropout_p:
        return INSTEAD.call(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    by_kernel = _by_kernel(query, key, value, attn_mask, dropout_p)
    if not by_kernel and _fused(query, key, value, attn_mask, dropout_p, enable_gqa):
        return ops._flash_attention_rows(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
    masked = (attn_mask, dropout_p, is_causal)
    scores = _scores_of_fused_row(query, key, value, *masked, enable_gqa)
    if scores is not None:
        if enable_gqa:
            key, value = _repeated(query, key, value)
        return _by_fused_row(query, key, value, *masked, scale, scores, by_kernel)
    dtype = query._m.dtype
    if dtype.itemsize < 4:  # halves are summed in float32
        query, key, value = (t.to(dtypes.float32) for t in (query, key, value))
        if attn_mask is not None and attn_mask._m.dtype is dtype:
            attn_mask = attn_mask.to(dtypes.float32)
        return _plain(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa).to(dtype)
    return _plain(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _scores_of_fused_row(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, gqa: bool
) -> tuple[int, ...] | None:
    """The shape of the scores, if the fused row is used where PyTorch would not use it.

    It is used in programs: by blocks if there are many scores, and with factors of half precision if these are given.
    Eager code has the nodes and the memory of PyTorch's plain path, which keeps all scores and computes in float32.
    """
    q, k, v = query._m, key._m, value._m
    if not inside_trace() or not q.dtype.is_floating_point or dropout_p == 1.0:
        return None
    if mask is not None and (is_causal or mask._m.ndim < 2):
        return None
    leads = [m.shape[:-2] for m in (q, k, v)]
    if gqa and q.ndim > 2:  # keys and values are repeated for the heads of their group
        divide = [bool(lead) and bool(lead[-1]) and q.shape[-3] % lead[-1] == 0 for lead in leads]
        leads = [(*lead[:-1], q.shape[-3]) if d else lead for lead, d in zip(leads, divide)]
    leads += [] if mask is None else [mask._m.shape[:-2]]
    try:
        scores = (*np.broadcast_shapes(*leads), q.shape[-2], k.shape[-2])
    except ValueError:
        return None  # the plain path raises the error
    fits = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    wanted = q.dtype.itemsize < 4 or is_long(math.prod(scores))
    return scores if fits and wanted and 0 not in scores else None


def _by_fused_row(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    scores: tuple[int, ...],
    by_kernel: bool,
) -> Tensor:
    """Attention of any number of dimensions by a row which takes four of them: of the platform's kernel, or fused."""
    lead = scores[:-2]
    four = (math.prod(lead[:-1]), lead[-1] if lead else 1)

    def shaped(t: Tensor) -> Tensor:
        return t.expand(*lead, *t._m.shape[-2:]).reshape(*four, *t._m.shape[-2:])

    q, k, v = map(shaped, (query, key, value))
    if by_kernel:
        out, _ = ops._attention_kernel(q, k, v, is_causal, scale)
        return out.reshape(*lead, *out._m.shape[-2:])
    kept = None
    if dropout_p > 0.0:
        m = meta(scores, dtypes.bool_, query._m.device)
        kept = shaped(draw(m, lambda m: rng.dropout_mask(m.shape, dropout_p)))
    if mask is not None:
        few = (1,) * (4 - mask._m.ndim) + mask._m.shape
        mask = shaped(mask) if len(lead) > 2 else mask.reshape(few)
    out, _ = ops._flash_attention_rows(q, k, v, max(dropout_p, 0.0), is_causal, attn_mask=mask, kept=kept, scale=scale)
    return out.reshape(*lead, *out._m.shape[-2:])


@functools.partial(composite, method=False)
def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention over (batch, heads, length, features), and its log-sum-exp."""
    out, lse = ops._flash_attention_rows(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    return out, lse.detach()


def _plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    factor = 1.0 / math.sqrt(query._m.shape[-1]) if scale is None else scale
    # Half of the factor goes to each side, which keeps the products small.
    root = math.sqrt(abs(factor))
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    q = ops.mul_number(query, -root if factor < 0 else root)
    if is_causal:
        attn_mask = ops._causal_bias(query, key)
    elif attn_mask is not None and attn_mask._m.dtype is dtypes.bool_:
        attn_mask = ops._attention_bias(attn_mask, query._m.dtype)
    if enable_gqa:
        key, value = _repeated(query, key, value)
    scores = q.matmul(ops.mul_number(ops.transpose(key, -2, -1), root))
    if attn_mask is not None:
        scores = ops.add(scores, attn_mask)
    weights = ops._safe_softmax(scores, -1)
    if dropout_p > 0.0:
        weights = _dropout(weights, dropout_p)
    return weights.matmul(value)


def _repeated(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values once for each head of their group of query heads."""
    heads = [t._m.shape[-3] if t._m.ndim > 2 else 1 for t in (query, key, value)]
    if any(not h or heads[0] % h for h in heads[1:]):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return tuple(
        t if h == heads[0] else t.repeat_interleave(heads[0] // h, -3) for t, h in zip((key, value), heads[1:])
    )  # type: ignore[return-value]


# --- many heads ---------------------------------------------------------------------------------


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> bool:
    """Return whether the inputs have a batch dimension, after torch's checks on ranks."""
    n = query._m.ndim
    if n not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor")
    kind = "batched (3-D)" if n == 3 else "unbatched (2-D)"
    if key._m.ndim != n or value._m.ndim != n:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key._m.ndim}-D and "
            f"{value._m.ndim}-D tensors respectively"
        )
    if padding is not None and padding._m.ndim != n - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
            f"{padding._m.ndim}-D tensor instead"
        )
    if mask is not None and mask._m.ndim not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask._m.ndim}-D "
            "tensor instead"
        )
    if n == 2 and mask is not None and mask._m.ndim == 3:
        expected = (heads, query._m.shape[0], key._m.shape[0])
        if tuple(mask._m.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got torch.Size({list(mask._m.shape)})"
            )
    return n == 3


def _additive(mask: Tensor | None, name: str, dtype: dtypes.dtype, other: dtypes.dtype | None = None) -> Tensor | None:
    """The numbers that a mask adds to the scores; a bool mask is True where attention is not allowed."""
    if mask is None:
        return None
    d = mask._m.dtype
    if d is not dtypes.bool_ and not d.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and d is not other:
        warn.to_user(f"Support for mismatched {name} and attn_mask is deprecated. Use same type for both instead.")
    return mask if d is not dtypes.bool_ else ops._attention_bias(mask.logical_not(), dtype)


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values by one packed weight; shared inputs share one product."""
    size = query._m.shape[-1]
    if key is value:
        if query is key:
            packed = _linear(query, weight, bias)
            packed = packed.unflatten(-1, (3, size)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return packed[0], packed[1], packed[2]
        wq, wkv = weight.split([size, size * 2])
        bq, bkv = (None, None) if bias is None else bias.split([size, size * 2])
        q, packed = _linear(query, wq, bq), _linear(key, wkv, bkv)
        packed = packed.unflatten(-1, (2, size)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return q, packed[0], packed[1]
    ws = weight.chunk(3)
    bs = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(_linear(x, w, b) for x, w, b in zip((query, key, value), ws, bs))


def _projected_apart(
    inputs: tuple[Tensor, Tensor, Tensor], weights: tuple[Tensor | None, ...], bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs through a projection each."""
    given = [w for w in weights if w is not None]
    for name, w in zip("qkv", weights):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    size = inputs[0]._m.shape[-1]
    for name, x, w in zip(("query", "key", "value"), inputs, given):
        expected = (size, x._m.shape[-1])
        if tuple(w._m.shape) != expected:
            raise AssertionError(
                f"expecting {name} weights shape of {expected}, but got torch.Size({list(w._m.shape)})"
            )
    bs = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(_linear(x, w, b) for x, w, b in zip(inputs, given, bs))


def _split_heads(t: Tensor, static: Tensor | None, name: str, rows: int, width: int) -> Tensor:
    """(length, batch, features) -> (batch * heads, length, width), or the given static one."""
    if static is None:
        return t.view(t._m.shape[0], rows, width).transpose(0, 1)
    for dim, n in ((0, rows), (2, width)):
        if static._m.shape[dim] != n:
            raise AssertionError(f"expecting {name}.size({dim}) of {n}, but got {static._m.shape[dim]}")
    return static


def _shaped_mask(mask: Tensor | None, rows: int, length: int, source: int) -> Tensor | None:
    """An attention mask with a leading dimension for the heads."""
    if mask is None:
        return None
    expected = (length, source) if mask._m.ndim == 2 else (rows, length, source)
    if mask._m.ndim not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask._m.ndim} is not supported")
    if tuple(mask._m.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask._m.ndim}D attn_mask is torch.Size({list(mask._m.shape)}), but should be "
            f"{expected}."
        )
    return mask.unsqueeze(0) if mask._m.ndim == 2 else mask


def _widened(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else ops.constant_pad_nd(mask, (0, 1), 0)


@_functional
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of several heads over (length, batch, features), with its projections."""
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        # Inputs that are one tensor stay one tensor, since the packed projection looks for shared inputs
        seen = {id(t): t.unsqueeze(1) for t in (query, key, value)}
        query, key, value = (seen[id(t)] for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    (length, batch, size), source = query._m.shape, key._m.shape[0]
    dtype = query._m.dtype
    key_padding_mask = _additive(
        key_padding_mask, "key_padding_mask", dtype, None if attn_mask is None else attn_mask._m.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # `is_causal` is enough
    else:
        attn_mask = _additive(attn_mask, "attn_mask", dtype)
        is_causal = is_causal and key_padding_mask is None
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    width, rows = size // num_heads, batch * num_heads
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _projected_apart((query, key, value), weights, in_proj_bias)
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _shaped_mask(attn_mask, rows, length, source)
    if bias_k is not None and bias_v is not None:
        for name, static in (("key", static_k), ("value", static_v)):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k = ops.cat((k, bias_k.repeat((1, batch, 1))))
        v = ops.cat((v, bias_v.repeat((1, batch, 1))))
        attn_mask, key_padding_mask = _widened(attn_mask), _widened(key_padding_mask)
    elif bias_k is not None or bias_v is not None:
        given, missing = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AssertionError(f"{given} is set but {missing} is None")
    q = q.view(length, rows, width).transpose(0, 1)
    k = _split_heads(k, static_k, "static_k", rows, width)
    v = _split_heads(v, static_v, "static_v", rows, width)
    if add_zero_attn:
        k, v = (ops.cat((t, t.new_zeros((rows, 1, width))), 1) for t in (k, v))
        attn_mask, key_padding_mask = _widened(attn_mask), _widened(key_padding_mask)
    source = k._m.shape[1]
    attn_mask = _merged(attn_mask, key_padding_mask, batch, num_heads, source)
    p = dropout_p if training else 0.0
    if need_weights:
        return _with_weights(
            q,
            k,
            v,
            attn_mask,
            p,
            is_causal,
            out_proj_weight,
            out_proj_bias,
            (length, batch, num_heads),
            batched,
            average_attn_weights,
        )
    if attn_mask is not None:
        one = attn_mask._m.shape[0] == 1 and attn_mask._m.ndim == 3
        attn_mask = attn_mask.unsqueeze(0) if one else attn_mask.view(batch, num_heads, -1, source)
    q, k, v = (t.view(batch, num_heads, t._m.shape[1], width) for t in (q, k, v))
    out = scaled_dot_product_attention(q, k, v, attn_mask, p, is_causal)
    out = out.permute(2, 0, 1, 3).reshape(batch * length, size)
    out = _linear(out, out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out._m.shape[1])
    return (out if batched else out.squeeze(1)), None


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, expected: int, heads: int, apart: bool) -> None:
    size = query._m.shape[2]
    if size != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {size}")
    if size // heads * heads != size:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {heads}")
    k, v = key._m.shape, value._m.shape
    if apart and k[:2] != v[:2]:
        raise AssertionError(
            f"key's sequence and batch dims torch.Size({list(k[:2])}) do not match value's torch.Size({list(v[:2])})"
        )
    if not apart and k != v:
        raise AssertionError(f"key shape torch.Size({list(k)}) does not match value shape torch.Size({list(v)})")


def _merged(mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, source: int) -> Tensor | None:
    """The attention mask and the padding mask of the keys as one."""
    if padding is None:
        return mask
    for dim, n in enumerate((batch, source)):
        if padding._m.shape[dim] != n:
            raise AssertionError(f"Expected key_padded_mask.shape[{dim}] to be {n}, but got {padding._m.shape[dim]}")
    padding = padding.view(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(batch * heads, 1, source)
    return padding if mask is None else mask + padding


def _with_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    p: float,
    is_causal: bool,
    out_weight: Tensor,
    out_bias: Tensor | None,
    sizes: tuple[int, int, int],
    batched: bool,
    average: bool,
) -> tuple[Tensor, Tensor]:
    """Attention computed step by step, because its weights are asked for."""
    length, batch, heads = sizes
    width, source = q._m.shape[2], k._m.shape[1]
    if is_causal and mask is None:
        raise AssertionError("FIXME: is_causal not implemented for need_weights")
    scaled = q * math.sqrt(1.0 / float(width))
    turned = k.transpose(-2, -1)
    scores = ops.bmm(scaled, turned) if mask is None else ops.baddbmm(mask, scaled, turned)
    weights = scores.softmax(-1)
    if p > 0.0:
        weights = _dropout(weights, p)
    out = ops.bmm(weights, v).transpose(0, 1).reshape(length * batch, heads * width)
    out = _linear(out, out_weight, out_bias)
    out = out.view(length, batch, out._m.shape[1])
    weights = weights.view(batch, heads, length, source)
    if average:
        weights = weights.mean(dim=1)
    return (out, weights) if batched else (out.squeeze(1), weights.squeeze(0))
