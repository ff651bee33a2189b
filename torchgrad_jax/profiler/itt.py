"""torch.profiler.itt: ranges for Intel's tools, which are not emitted here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any


def is_available() -> bool:
    """False."""
    return False


def _refuse() -> Any:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg: str) -> int:
    """Refused.

    Args:
        msg: what the range would be called.
    """
    return _refuse()


def range_pop() -> int:
    """Refused."""
    return _refuse()


def mark(msg: str) -> int:
    """Refused.

    Args:
        msg: what the mark would be called.
    """
    return _refuse()


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Generator[None, None, None]:
    """Refused.

    Args:
        msg: what the range would be called, with `args` and `kwargs` formatted into it.
    """
    range_push(msg.format(*args, **kwargs))
    yield


__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]
