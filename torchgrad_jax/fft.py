"""torch.fft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core.errors.messages import no_such_name as _no_such_name
from ._engine.entry.bind import NAMESPACES

if TYPE_CHECKING:  # for editors: where each function is declared
    from ._names.fft import *  # noqa: F403

globals().update(NAMESPACES.get("fft", {}))
__all__ = sorted(NAMESPACES.get("fft", {}))


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.fft.{name}"))
