"""Methods of `Module` in files by subject."""

from __future__ import annotations

import inspect
from typing import TypeVar

C = TypeVar("C", bound=type)


def part_of_module(cls: C) -> C:
    """Let the methods of a base class go by the name of `Module`, as Python's messages show them."""
    for name, value in vars(cls).items():
        if inspect.isfunction(value):
            value.__qualname__ = f"Module.{name}"
    return cls
