"""torch.signal.windows."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from .._engine.entry.bind import NAMESPACES

globals().update(NAMESPACES["signal.windows"])
__all__ = sorted(NAMESPACES["signal.windows"])

__getattr__ = _missing(__name__)
