"""torch.cuda.nvtx as in a build of torch without CUDA: names that raise when they are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._core.signals import contextmanager


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Refused: marks are for NVIDIA's profiler; `torch.profiler.record_function` marks for this one.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_push = range_pop = range_start = range_end = mark = _refuse


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Refused, as `range_push` is."""
    range_push(msg.format(*args, **kwargs))
    yield
