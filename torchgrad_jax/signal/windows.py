"""torch.signal.windows."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from .._engine.entry.bind import NAMESPACES

globals().update(NAMESPACES["signal.windows"])
__all__ = sorted(NAMESPACES["signal.windows"])


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.signal.windows.{name}"))
