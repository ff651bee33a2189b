"""torch._VF: the functions of torch under the name that its own modules call them by."""

from __future__ import annotations

from typing import Any

from ._core.errors.messages import no_such_name as _no_such_name
from ._engine.entry.bind import NAMESPACES as _NAMESPACES


def __getattr__(name: str) -> Any:
    found = _NAMESPACES[""].get(name)
    if found is None:
        raise AttributeError(_no_such_name(f"torch._VF.{name}"))
    return found
