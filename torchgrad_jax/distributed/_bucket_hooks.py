"""Hooks that average gradients: as they are, or as numbers of 16 bits while they travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.arrays.dtypes import bfloat16, dtype as DType, float16
from .._engine.memory.tensor import Tensor
from ..futures import Future
from ._buckets import GradBucket
from ._collectives import all_reduce
from ._groups import member_of


def averaged(process_group: Any, tensor: Tensor) -> Future[Tensor]:
    """A future of the average of all processes' tensors; each is divided before the sum, against overflow."""
    pg = member_of(process_group)
    work: Any = all_reduce(tensor.div_(pg.size()), group=pg, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients, as without a hook.

    Args:
        process_group: which processes; all if it is None.
        bucket: the gradients.
    """
    return averaged(process_group, bucket.buffer())


def _compressed(dtype: DType, process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    found = averaged(process_group, buffer.to(dtype))
    return found.then(lambda done: buffer.copy_(done.value()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients as float16."""
    return _compressed(float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Average the gradients as bfloat16; torch's needs GPUs."""
    return _compressed(bfloat16, process_group, bucket)


def _wrapper(dtype: DType, hook: Callable[[Any, Any], Future[Tensor]]) -> Any:
    def wrapped(hook_state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(hook_state, bucket).then(lambda done: buffer.copy_(done.value()))

    return wrapped


def fp16_compress_wrapper(hook: Callable[[Any, Any], Future[Tensor]]) -> Any:
    """A hook that gives another one the gradients as float16, and casts its result back."""
    return _wrapper(float16, hook)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Future[Tensor]]) -> Any:
    """A hook that gives another one the gradients as bfloat16, and casts its result back."""
    return _wrapper(bfloat16, hook)
