"""torch.return_types: the named tuples that some functions return."""

from __future__ import annotations

from ._engine.return_types import RETURN_TYPES

globals().update(RETURN_TYPES)
__all__ = sorted(RETURN_TYPES)
