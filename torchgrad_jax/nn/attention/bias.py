"""torch.nn.attention.bias: causal masks of `scaled_dot_product_attention` for queries and keys of two lengths."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

from ..._core.arrays import dtypes
from ..._core.errors import warn
from ..._engine.entry.bind import ops
from ..._engine.memory.tensor import Tensor
from ..._functions.create import ones, zeros
from .. import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner in which the diagonal of a mask that is no square begins, or ends."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A mask that `scaled_dot_product_attention` takes as `attn_mask`, known by its kind instead of its elements.

    Args:
        variant: where its diagonal is.
        seq_len_q: how many queries there are.
        seq_len_kv: how many keys and values.

    Raises:
        AssertionError: `variant` is no `CausalVariant`.

    Warns:
        UserWarning: some queries would see no key.
    """

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        return zeros(int(variant), seq_len_q, seq_len_kv).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warn.to_user("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!")

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask with its elements, true where a query sees a key."""
        shift = 0
        if self.variant is CausalVariant.LOWER_RIGHT:
            shift = self.seq_len_kv - self.seq_len_q
        every = ones(self.seq_len_q, self.seq_len_kv, dtype=dtypes.bool_, device=device)
        return ops.tril(every, shift)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return repr(self._materialize())

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Attention with the mask; anything else is done to a tensor of no particular elements."""
        if func is not F.scaled_dot_product_attention:
            return super().__torch_function__(func, types, args, kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args)), **(kwargs or {})}
        mask = given["attn_mask"]
        if not isinstance(mask, CausalBias):
            return super().__torch_function__(func, types, args, kwargs)
        if given.get("is_causal"):
            raise ValueError("CausalBias should not be used with causal=True")
        if mask.variant is CausalVariant.UPPER_LEFT or mask.seq_len_q == mask.seq_len_kv:
            return func(**{**given, "attn_mask": None, "is_causal": True})
        return func(**{**given, "attn_mask": mask._materialize(given["query"].device)})


def causal_upper_left(*size: int) -> CausalBias:
    """The mask in which query 0 sees key 0, query 1 the keys 0 and 1, and so on.

    Example:
        >>> causal_upper_left(2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    queries, keys = _two("causal_upper_left", size)
    return CausalBias(CausalVariant.UPPER_LEFT, queries, keys)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask in which the last query sees all keys, the one before it all but the last, and so on.

    Example:
        >>> causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    queries, keys = _two("causal_lower_right", size)
    return CausalBias(CausalVariant.LOWER_RIGHT, queries, keys)


def _two(name: str, size: tuple[int, ...]) -> tuple[int, ...]:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size
