"""torch.distributed._tensor: the older name of torch.distributed.tensor."""

from __future__ import annotations

from typing import Any

from .. import tensor as _tensor


def __getattr__(name: str) -> Any:
    return getattr(_tensor, name)
