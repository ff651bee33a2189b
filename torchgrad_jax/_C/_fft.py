"""torch._C._fft: the functions of torch.fft under the names that they say of themselves."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from .._engine.entry.bind import NAMESPACES as _NAMESPACES

globals().update({f"fft_{name}": fn for name, fn in _NAMESPACES["fft"].items()})


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch._C._fft.{name}"))
