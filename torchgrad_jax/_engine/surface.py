"""What the package shows: its functions, methods and operators by name, filled as they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMESPACES: dict[str, dict[str, Callable[..., Any]]] = {}
"""Public functions by namespace ("" is the top level) and name."""
METHODS: dict[str, Callable[..., Any]] = {}
"""Methods to install on Tensor."""
OPERATORS: dict[str, Callable[..., Any]] = {}
"""Dunder methods to install on Tensor."""
COMPOSITES: dict[str, Any] = {}
"""Functions over tensors registered with `composite`, by public name and namespace."""


class Ops:
    """Every row of the table as a function over tensors, by row name."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no op {name!r} is declared")


ops: Any = Ops()


def enter(space: dict[str, Any], name: str, fn: Any) -> None:
    """Register a name that must not be there yet."""
    if name in space:
        raise ValueError(f"{name!r} is declared twice")
    space[name] = fn
