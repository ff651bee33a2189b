"""torch.nn.attention.varlen: attention within sequences that stand behind one another in one tensor.

The sequences are put side by side, padded to the longest, for `scaled_dot_product_attention`, and its result is packed
again. All steps are operators, so derivatives of any order, `vmap` and `compile` work, on every device and dtype.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..._core.arrays import dtypes
from ..._core.errors.messages import missing as _missing
from ..._core.state import GRAD, MODES
from ..._engine.entry.bind import METHODS as _METHODS, NAMESPACES as _NAMESPACES
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.tensor import Tensor

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]

_top = _NAMESPACES[""]
_functional = _NAMESPACES["nn.functional"]


class AuxRequest(NamedTuple):
    """What `varlen_attn` returns beside its result.

    Args:
        lse: the logarithms of the sums of exponentials.
    """

    lse: bool = False


class _Side(NamedTuple):
    """Queries, or keys and values, side by side."""

    index: Tensor
    """Of shape (N, max): where in the packed tensor the tokens of each sequence are."""
    lengths: Tensor
    """Of shape (N, 1): how many of them count."""
    places: Tensor
    """0 to max - 1."""


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Any:
    """Attention within each of several sequences.

    Args:
        query: of shape (tokens of all sequences, heads, features).
        key, value: the same for keys; with `block_table` of shape (pages, tokens of a page, heads, features).
        cu_seq_q: where each sequence begins among the queries, and where the last one ends: N + 1 numbers.
        cu_seq_k: the same among the keys; None with `block_table`.
        max_q, max_k: the lengths of the longest.
        return_aux: `AuxRequest(lse=True)` to get the logarithms of the sums of exponentials as well.
        scale: the factor of the scores, by default one over the root of the number of features.
        window_size: how many keys to the left and to the right of a query's own place it sees, -1 for all; (-1, 0) is
            causal. The last query stands at the last key.
        enable_gqa: whether there may be fewer heads of keys, each for several heads of queries.
        seqused_k: how many keys of each sequence count. Without a gradient.
        block_table: of shape (N, pages of a sequence): which pages its keys are in. Without a gradient.
        num_splits: accepted; XLA chooses how the work is split.

    Returns:
        A tensor like `query`, 0 for queries that see no key; and on demand the logarithms, of shape (heads, tokens).

    Raises:
        ValueError: the numbers of heads do not fit, or a sequence is longer than `max_q` or `max_k` says.

    Example:
        >>> import torchgrad_jax as torch
        >>> q = torch.randn(5, 2, 4)
        >>> begins = torch.tensor([0, 2, 5], dtype=torch.int32)
        >>> torch.nn.attention.varlen.varlen_attn(q, q, q, begins, begins, 3, 3).shape
        torch.Size([5, 2, 4])
    """
    if len(window_size) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window_size)}")
    _check_heads(query._m.shape[1], key._m.shape[-2], enable_gqa)
    _check_inference(seqused_k, block_table, (query, key, value))
    q_side = _side(cu_seq_q, max_q, "max_q")
    if block_table is not None:
        if seqused_k is None:
            raise ValueError("varlen_attn: block_table needs seqused_k, which says how many tokens of the pages count")
        k_side, key, value = _paged(block_table, seqused_k, key, value, max_k)
    else:
        if cu_seq_k is None:
            raise ValueError("varlen_attn: cu_seq_k is None, which is for keys in pages alone (block_table)")
        k_side = _side(cu_seq_k, max_k, "max_k")
        if seqused_k is not None:
            k_side = k_side._replace(lengths=_top["minimum"](k_side.lengths, seqused_k[:, None]))
    seen = _mask(q_side, k_side, window_size)
    queries, keys, values = (_side_by_side(x, side) for x, side in ((query, q_side), (key, k_side), (value, k_side)))
    out = _functional["scaled_dot_product_attention"](
        queries, keys, values, attn_mask=seen[:, None], scale=scale, enable_gqa=enable_gqa
    )
    out = _top["where"](seen.any(-1)[:, None, :, None], out, _top["zeros_like"](out))
    packed = _packed(out, cu_seq_q, query._m.shape[0])
    if return_aux is None or not return_aux.lse:
        return packed
    lse = _sums(queries, keys, seen, scale)
    return packed, _METHODS["t"](_packed(lse[..., None], cu_seq_q, query._m.shape[0])[..., 0])


def varlen_attn_out(out: Tensor, *args: Any, **options: Any) -> Any:
    """`varlen_attn` with its result written to a tensor.

    Args:
        out: where it goes.
        args, options: those of `varlen_attn`.
    """
    found = varlen_attn(*args, **options)
    result = found[0] if isinstance(found, tuple) else found
    if out._m.shape != result._m.shape:
        raise ValueError(f"varlen_attn_out: out has the shape {tuple(out._m.shape)}, and not {tuple(result._m.shape)}")
    _METHODS["copy_"](out, result)
    return (out, found[1]) if isinstance(found, tuple) else out


def _check_heads(queries: int, keys: int, enable_gqa: bool) -> None:
    if not enable_gqa and queries != keys:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={queries} and Hkv={keys}. Try "
            "setting enable_gqa=True for GQA."
        )
    if enable_gqa and queries % keys:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={queries} and Hkv={keys}."
        )


def _check_inference(seqused_k: Any, block_table: Any, tensors: tuple[Tensor, ...]) -> None:
    if MODES.bits & GRAD and any(map(requires_grad_of, tensors)):
        for name, given in (("seqused_k", seqused_k), ("block_table", block_table)):
            if given is not None:
                raise RuntimeError(f"{name} is an inference-only parameter.")


def _side(begins: Tensor, longest: int, name: str) -> _Side:
    lengths = (begins[1:] - begins[:-1])[:, None]
    known = MODES.run.at_once and MODES.fake is None and begins._m.device.type != "meta"
    if known and lengths.numel() and int(lengths.max()) > longest:
        raise ValueError(f"varlen_attn: a sequence has {int(lengths.max())} tokens, and {name} is {longest}")
    places = _top["arange"](longest, device=begins.device)
    return _Side(begins[:-1, None] + places, lengths, places)


def _paged(block_table: Tensor, used: Tensor, key: Tensor, value: Tensor, longest: int) -> Any:
    """Keys and values in pages as packed ones, and where each sequence's are."""
    size = key._m.shape[1]
    places = _top["arange"](longest, device=block_table.device)
    page = _METHODS["clamp"](places // size, max=max(block_table._m.shape[1] - 1, 0))
    index = block_table[:, page] * size + places % size
    side = _Side(index, used[:, None], places)
    return side, key.reshape(-1, *key._m.shape[2:]), value.reshape(-1, *value._m.shape[2:])


def _side_by_side(x: Tensor, side: _Side) -> Tensor:
    """Packed tokens as (N, heads, max, features). What stands behind the end of a sequence is some other token."""
    found = x[_METHODS["clamp"](side.index, 0, max(x._m.shape[0] - 1, 0))]
    return found.transpose(1, 2)


def _mask(q: _Side, k: _Side, window: tuple[int, int]) -> Tensor:
    """Of shape (N, max_q, max_k): which keys a query sees."""
    seen = (q.places < q.lengths)[:, :, None] & (k.places < k.lengths)[:, None, :]
    own = (q.places + (k.lengths - q.lengths))[:, :, None]  # the last query stands at the last key
    left, right = window
    if left >= 0:
        seen = seen & (k.places >= own - left)
    if right >= 0:
        seen = seen & (k.places <= own + right)
    return seen


def _packed(x: Tensor, begins: Tensor, tokens: int) -> Tensor:
    """(N, heads, max, features) as packed tokens, 0 behind the end of the last sequence."""
    token = _top["arange"](tokens, device=begins.device)
    sequence = _top["searchsorted"](begins[1:].contiguous(), token.to(begins.dtype), right=True)
    inside = sequence < x._m.shape[0]
    sequence = _METHODS["clamp"](sequence, max=max(x._m.shape[0] - 1, 0))
    place = _METHODS["clamp"](token - begins[sequence], 0, max(x._m.shape[2] - 1, 0))
    found = x.transpose(1, 2)[sequence, place]
    return _top["where"](inside[:, None, None], found, _top["zeros_like"](found))


def _sums(queries: Tensor, keys: Tensor, seen: Tensor, scale: float | None) -> Tensor:
    """The logarithms of the sums of exponentials, of shape (N, heads, max_q), in float32 at least."""
    wide = dtypes.float64 if queries.dtype is dtypes.float64 else dtypes.float32
    groups = queries._m.shape[1] // keys._m.shape[1]
    keys = keys.repeat_interleave(groups, 1) if groups > 1 else keys
    factor = 1 / math.sqrt(queries._m.shape[-1]) if scale is None else scale
    scores = _top["matmul"](queries.to(wide), keys.to(wide).transpose(-1, -2)) * factor
    return _top["logsumexp"](scores.masked_fill(~seen[:, None], -math.inf), -1)


__getattr__ = _missing(__name__)
