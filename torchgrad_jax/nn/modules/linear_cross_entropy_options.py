"""torch.nn.modules.linear_cross_entropy_options: how torch would compute the cross entropy of a linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._core.arrays import dtypes

_POLICIES = ("auto", "accurate", "balanced", "compact")
_ACC_DTYPES = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How torch would cut the batch into chunks to save memory.

    Differs from torch: XLA decides how a product and its loss share memory, so that the result is
    the same with and without options, and all derivatives exist.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        method, _, factor = (self.chunking_method or "auto").partition(":")
        whole = factor.isdigit() and int(factor) > 0
        if self.chunking_method not in (None, "auto", "aspect_ratio") and not (method == "aspect_ratio" and whole):
            raise ValueError(
                f"invalid chunking_method: {self.chunking_method!r}; it is None, 'auto', 'aspect_ratio' or "
                "'aspect_ratio:2'"
            )
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}; it is one of {', '.join(_POLICIES)}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in _ACC_DTYPES:
            raise ValueError(f"acc_dtype must be None or one of {_ACC_DTYPES}, got {self.acc_dtype!r}")
