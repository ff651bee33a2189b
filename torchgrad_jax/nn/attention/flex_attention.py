"""torch.nn.attention.flex_attention: attention whose scores a function of the program changes.

Functions of a program see one score and its place; `vmap` runs them over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from ..._bridge.vmap import vmap as _vmap
from ..._core.arrays import dtypes
from ..._core.errors.messages import missing as _missing
from ..._engine.entry.bind import METHODS as _METHODS, NAMESPACES as _NAMESPACES
from ..._engine.memory.tensor import Tensor

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_top = _NAMESPACES[""]
Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """True: every query sees every key."""
    return _top["ones"]((), dtype=dtypes.bool_, device=batch.device)


def _joined(masks: tuple[Any, ...], start: bool) -> Mask:
    if not all(callable(mask) for mask in masks):
        raise RuntimeError(f"All inputs should be callable mask_mods: {masks}")

    def mask(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        out = _top["full"]((), start, dtype=dtypes.bool_, device=b.device)
        for each in masks:
            found = each(b, h, q, kv)
            out = out & found if start else out | found
        return out

    return mask


def and_masks(*mask_mods: Mask) -> Mask:
    """Return what all masks let through."""
    return _joined(mask_mods, True)


def or_masks(*mask_mods: Mask) -> Mask:
    """Return what one of the masks lets through."""
    return _joined(mask_mods, False)


def _everywhere(fn: Any, first: bool, sizes: tuple[int, ...], device: Any, *scores: Tensor) -> Tensor:
    """A function of a place, and of a score if it is given one, at all places."""
    for given in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        fn = _vmap(fn, in_dims=(0, *given) if first else given)
    return fn(*scores, *[_top["arange"](n, device=device) for n in sizes])


def create_mask(mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """A tensor of what a mask lets through, of shape (B, H, Q_LEN, KV_LEN)."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    found = _everywhere(mod_fn, False, sizes, device)
    return _METHODS["expand"](found, sizes)


class FlexKernelOptions(TypedDict, total=False):
    """How torch makes its kernels of `flex_attention`; XLA makes those here, and `kernel_options` changes nothing."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


class AuxRequest(NamedTuple):
    """What `flex_attention` returns beside its result.

    Args:
        lse: the logarithms of the sums of exponentials.
        max_scores: the highest scores.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for with an `AuxRequest`, of shape (B, Hq, L), and None for what was not."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class BlockMask:
    """A mask, and which blocks of it let nothing, something and everything through.

    Differs from torch: it is made by `create_block_mask`, and no computation is spared where a block is empty.
    """

    def __init__(
        self, mask_mod: Mask, blocks: tuple[Tensor, Tensor], sizes: tuple[int, int], block: tuple[int, int]
    ) -> None:
        some, every = blocks
        self.mask_mod, self.seq_lengths, self.BLOCK_SIZE = mask_mod, sizes, block
        self.kv_num_blocks, self.kv_indices = _ordered(some)
        self.full_kv_num_blocks, self.full_kv_indices = _ordered(every)
        self.q_num_blocks, self.q_indices = _ordered(_METHODS["transpose"](some, -2, -1))
        self.full_q_num_blocks, self.full_q_indices = _ordered(_METHODS["transpose"](every, -2, -1))
        self._dense = _METHODS["to"](some | every, dtypes.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the mask: batch, heads, queries, keys."""
        return (self._dense.size(0), self._dense.size(1), *self.seq_lengths)

    def numel(self) -> int:
        """Return how many elements the mask has."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """1 for each block that lets something through."""
        return self._dense

    def sparsity(self) -> float:
        """The share of the mask, in percent, that lies in blocks that let nothing through."""
        seen = int(self._dense.sum()) * math.prod(self.BLOCK_SIZE)
        return 100 * (1 - seen / self.numel())

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks of each row there are, and their numbers, those first."""
    counts = _METHODS["to"](blocks, dtypes.int32)
    order = _top["argsort"](counts, dim=-1, descending=True, stable=True)
    return (_METHODS["sum"](counts, dim=-1, dtype=dtypes.int32), _METHODS["to"](order, dtypes.int32))


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """A mask with the blocks that it lets something through.

    Args:
        mask_mod: whether the query at a place sees the key at a place, of batch, head, query and key.
        B: the size of the batch, None where all are alike.
        H: the number of heads, None where all are alike.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        device: where the tensors of the mask are.
        BLOCK_SIZE: the size of a block, or its sizes for queries and keys.
        _compile: XLA compiles it in any case.
        separate_full_blocks: whether blocks that let everything through are apart.
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    short = [-n % s for n, s in zip((Q_LEN, KV_LEN), size)]
    pad = _NAMESPACES["nn.functional"]["pad"]
    padded = pad(mask, (0, short[1], 0, short[0]))
    rows, columns = (n // s for n, s in zip(padded.shape[2:], size))
    tiles = padded.reshape(*padded.shape[:2], rows, size[0], columns, size[1])
    seen = _METHODS["sum"](tiles, dim=(3, 5))
    every = (seen == math.prod(size)) & separate_full_blocks
    return BlockMask(mask_mod, ((seen > 0) & ~every, every), (Q_LEN, KV_LEN), (size[0], size[1]))


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool, block_mask: Any) -> None:
    if any(x.dim() != 4 for x in (query, key, value)):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            "Expected query, key, and value to have the same dtype, "
            f"but got query.dtype: {query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if query.size(-3) != key.size(-3) and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.size(-3)} and "
            f"Hkv={key.size(-3)}. Try setting enable_gqa=True for GQA."
        )
    if query.size(-3) % key.size(-3):
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={query.size(-3)} and "
            f"Hkv={key.size(-3)}."
        )
    if block_mask is not None and not isinstance(block_mask, BlockMask):
        raise ValueError(f"block_mask must be a BlockMask, not {type(block_mask).__name__}")
    if block_mask is not None and block_mask.seq_lengths != (query.size(-2), key.size(-2)):
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={query.size(-2)} and "
            f"kv_len={key.size(-2)}. Create one of these lengths."
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with scores that `score_mod` changes, where `block_mask` lets queries see keys.

    Args:
        query: of shape (B, Hq, L, E).
        key: of shape (B, Hkv, S, E).
        value: of shape (B, Hkv, S, Ev).
        score_mod: a score from a score, its batch, head, query and key.
        block_mask: made by `create_block_mask`.
        scale: what scores are multiplied by; one over the root of E where it is not given.
        enable_gqa: whether there may be fewer heads of keys than of queries.
        return_lse: whether the logarithms of the sums of exponentials are returned, too; `return_aux` is newer.
        kernel_options: how a GPU kernel would be made, which nothing here reads.
        return_aux: what else is returned, as an `AuxOutput`.

    Differs from torch: there are gradients and highest scores on every device, and all scores are in memory at
    once.
    """
    _check(query, key, value, enable_gqa, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. "
            "return_lse is deprecated, please use return_aux=AuxRequest(lse=True) instead."
        )
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = (_METHODS["repeat_interleave"](x, groups, dim=1) for x in (key, value))
    wide = dtypes.float64 if query.dtype is dtypes.float64 else dtypes.float32
    scores = _METHODS["to"](query @ _METHODS["transpose"](key, -2, -1), wide)
    scores = scores * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    sizes = tuple(scores.shape)
    if score_mod is not None:
        scores = _METHODS["to"](_everywhere(score_mod, True, sizes, query.device, scores), wide)
    if block_mask is not None:
        seen = _everywhere(block_mask.mask_mod, False, sizes, query.device)
        scores = _top["where"](_METHODS["expand"](seen, sizes), scores, -math.inf)
    weights = _top["_safe_softmax"](scores, -1)
    out = _METHODS["to"](weights, query.dtype) @ value
    if return_lse:
        return out, _METHODS["logsumexp"](scores, -1)
    if return_aux is None:
        return out
    return out, AuxOutput(
        _METHODS["logsumexp"](scores, -1) if return_aux.lse else None,
        _METHODS["amax"](scores, -1) if return_aux.max_scores else None,
    )


__getattr__ = _missing(__name__)
