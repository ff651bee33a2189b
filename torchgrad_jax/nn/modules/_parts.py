"""Classes in parts whose errors name the whole: methods of `Module`, and constructors that several layers share."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def part_of_module(cls: C) -> C:
    """Let the methods of a base class go by the name of `Module`, as Python's messages show them."""
    for name, value in vars(cls).items():
        if inspect.isfunction(value):
            value.__qualname__ = f"Module.{name}"
    return cls


class Named:
    """Errors about arguments name the class itself, not the one in its file that its constructor is shared with."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        shared: Any = cls.__init__
        if "__init__" not in cls.__dict__ and cls.__module__ == getattr(shared, "__module__", None):
            own = FunctionType(shared.__code__, shared.__globals__, "__init__", shared.__defaults__, shared.__closure__)
            own.__qualname__ = f"{cls.__qualname__}.__init__"
            own.__annotations__, own.__doc__ = shared.__annotations__, shared.__doc__
            own.__kwdefaults__, own.__module__ = shared.__kwdefaults__, shared.__module__
            type.__setattr__(cls, "__init__", own)
