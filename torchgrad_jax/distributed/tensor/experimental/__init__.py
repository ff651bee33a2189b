"""torch.distributed.tensor.experimental: functions of what each device has."""

from __future__ import annotations

from collections.abc import Iterator

from ...._core.errors.messages import missing as _missing
from ...._core.signals import contextmanager
from ._context_parallel import (
    context_parallel as context_parallel,
    context_parallel_unshard as context_parallel_unshard,
    set_rotate_method as set_rotate_method,
)
from ._func_map import local_map as local_map

__all__ = ["context_parallel", "implicit_replication", "local_map"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors among `DTensor`s count as replicated, as they do everywhere here."""
    yield


__getattr__ = _missing(__name__)
