"""torch.distributed.algorithms.ddp_comm_hooks.default_hooks: hooks that average gradients."""

from __future__ import annotations

from ..._bucket_hooks import (
    allreduce_hook as allreduce_hook,
    bf16_compress_hook as bf16_compress_hook,
    bf16_compress_wrapper as bf16_compress_wrapper,
    fp16_compress_hook as fp16_compress_hook,
    fp16_compress_wrapper as fp16_compress_wrapper,
)

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]
