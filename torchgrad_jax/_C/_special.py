"""torch._C._special: the functions of torch.special under the names that they say of themselves."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from .._engine.entry.bind import NAMESPACES as _NAMESPACES

globals().update({f"special_{name}": fn for name, fn in _NAMESPACES["special"].items()})

__getattr__ = _missing(__name__)
