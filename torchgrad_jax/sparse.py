"""torch.sparse: out of scope (docs/non_goals.md); every function says so."""

from __future__ import annotations

from typing import Any

from ._core.errors import no_such_name as _no_such_name
from ._functions.unsupported import module_of

globals().update(module_of("sparse"))
__all__ = sorted(module_of("sparse"))


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.sparse.{name}"))
