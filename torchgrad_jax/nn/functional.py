"""torch.nn.functional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._engine.entry.bind import NAMESPACES
from . import _reduction

_Reduction = _reduction  # under torch's name

if TYPE_CHECKING:  # for editors: where each function is declared
    from .._names.nn_functional import *  # noqa: F403

globals().update(NAMESPACES.get("nn.functional", {}))
__all__ = sorted(NAMESPACES.get("nn.functional", {}))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.functional.{name}")
