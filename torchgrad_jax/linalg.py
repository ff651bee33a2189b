"""torch.linalg."""

from __future__ import annotations

from typing import Any

from ._core.errors.messages import LinAlgError as LinAlgError, no_such_name as _no_such_name
from ._engine.entry.bind import NAMESPACES

globals().update(NAMESPACES.get("linalg", {}))
__all__ = sorted([*NAMESPACES.get("linalg", {}), "LinAlgError"])


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.linalg.{name}"))
