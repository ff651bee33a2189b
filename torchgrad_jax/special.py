"""torch.special."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._core.errors.messages import missing as _missing
from ._engine.entry.bind import NAMESPACES

if TYPE_CHECKING:  # for editors: where each function is declared
    from ._names.special import *  # noqa: F403

globals().update(NAMESPACES.get("special", {}))
__all__ = sorted(NAMESPACES.get("special", {}))

__getattr__ = _missing(__name__)
