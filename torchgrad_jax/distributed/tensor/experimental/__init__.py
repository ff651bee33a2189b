"""torch.distributed.tensor.experimental: functions of what each device has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...._core.errors.messages import no_such_name as _no_such_name
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


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.distributed.tensor.experimental.{name}"))
