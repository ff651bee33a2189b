"""torch.masked: functions of the elements that a mask keeps."""

from __future__ import annotations

from typing import Any

from ._core.errors import no_such_name as _no_such_name
from ._engine.bind import NAMESPACES

globals().update(NAMESPACES["masked"])
__all__ = sorted(n for n in NAMESPACES["masked"] if not n.startswith("_"))


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.masked.{name}"))
