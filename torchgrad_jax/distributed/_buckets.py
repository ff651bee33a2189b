"""What a hook of DistributedDataParallel gets: the gradients that are exchanged together."""

from __future__ import annotations

import enum
import itertools

from .._engine.memory.tensor import Tensor


class BuiltinCommHookType(enum.IntEnum):
    """Names of hooks that `DistributedDataParallel` brings along: see `_register_builtin_comm_hook`."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2


class GradBucket:
    """Gradients of some parameters, one after another in one tensor.

    Args:
        index: the number of the bucket.
        count: how many buckets there are.
        buffer: the tensor.
        parameters: whose gradients they are.
    """

    __module__ = "torch.distributed"

    def __init__(self, index: int, count: int, buffer: Tensor, parameters: list[Tensor]) -> None:
        self._index, self._count, self._buffer, self._parameters = index, count, buffer, parameters

    def index(self) -> int:
        """The number of the bucket; those that are sent first have the lowest."""
        return self._index

    def is_last(self) -> bool:
        """Return whether it is the last one of a backward."""
        return self._index == self._count - 1

    def buffer(self) -> Tensor:
        """All gradients in one tensor."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the tensor."""
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The gradient of each parameter, as a view of the tensor."""
        ends = list(itertools.accumulate(p.numel() for p in self._parameters))
        starts = [0, *ends[:-1]]
        return [self._buffer[a:b].view(p.shape) for p, a, b in zip(self._parameters, starts, ends)]
