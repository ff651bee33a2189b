"""torch.nn.attention.flex_attention: names to ask for; attention with masks is `scaled_dot_product_attention`."""

from __future__ import annotations

from typing import Any

from ..._core.errors import no_such_name as _no_such_name

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_INSTEAD = "is not supported: give torch.nn.functional.scaled_dot_product_attention an attn_mask"


class BlockMask:
    """Refused: nothing here makes one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"BlockMask {_INSTEAD}")


class AuxRequest(BlockMask):
    """Refused, as `BlockMask`."""


def create_block_mask(mask_mod: Any, *args: Any, **kwargs: Any) -> BlockMask:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"create_block_mask {_INSTEAD}")


def flex_attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"flex_attention {_INSTEAD}")


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.nn.attention.flex_attention.{name}"))
