"""torch._C._linalg: the functions of torch.linalg under the names that they say of themselves."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from .._engine.entry.bind import NAMESPACES as _NAMESPACES

globals().update({f"linalg_{name}": fn for name, fn in _NAMESPACES["linalg"].items()})


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch._C._linalg.{name}"))
