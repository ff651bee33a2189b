"""torch.linalg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._core.errors.messages import LinAlgError as LinAlgError, missing as _missing
from ._engine.entry.bind import NAMESPACES

if TYPE_CHECKING:  # for editors: where each function is declared
    from ._names.linalg import *  # noqa: F403

globals().update(NAMESPACES.get("linalg", {}))
__all__ = sorted([*NAMESPACES.get("linalg", {}), "LinAlgError"])

__getattr__ = _missing(__name__)
