"""Which modules define classes and functions, also while the alias gives those of this package torch's names."""

from __future__ import annotations

from typing import Any

_OWN_NAMES: dict[int, tuple[Any, str]] = {}
"""By identity: what has torch's name for its module now, and the name of the module that it had before."""


def home_of(x: Any) -> str:
    """The module that a class or function says it belongs to; for one of this package, always its own module."""
    renamed = _OWN_NAMES.get(id(x))
    return renamed[1] if renamed is not None else getattr(x, "__module__", None) or ""


def rename_home(x: Any, module: str) -> None:
    """Let a class or function of this package say that it belongs to a module of torch."""
    _OWN_NAMES[id(x)] = (x, x.__module__)
    x.__module__ = module


def restore_homes() -> None:
    """Undo every `rename_home`."""
    for x, module in _OWN_NAMES.values():
        x.__module__ = module
    _OWN_NAMES.clear()
