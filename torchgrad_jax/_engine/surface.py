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
    """Every row of the table as a function over tensors, by row name, for the engine: nobody overrides these."""

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], Any]] = {}
        """By name what makes each, which happens when it is first asked for."""

    def declare(self, name: str, maker: Callable[[], Any]) -> None:
        """Say what makes the function of a name."""
        self._makers[name] = maker

    def __getattr__(self, name: str) -> Any:
        maker = self._makers.get(name)
        if maker is None:
            raise AttributeError(f"no op {name!r} is declared")
        fn = self.__dict__[name] = maker()
        return fn

    def __dir__(self) -> list[str]:
        return list(self._makers)


ops: Any = Ops()


PREFIXED = ("fft", "linalg", "special")
"""Namespaces whose functions carry its name in theirs: `torch.linalg.norm` is `torch._C._linalg.linalg_norm`."""


def named(fn: Any, namespace: str, name: str) -> Any:
    """The function, which says what torch's says of its name and module; pickle looks for it there."""
    package = __name__.partition(".")[0]
    if namespace in PREFIXED:
        fn.__name__ = fn.__qualname__ = f"{namespace}_{name}"
        fn.__module__ = f"{package}._C._{namespace}"
    elif namespace:
        fn.__module__ = f"{package}.{namespace}"
    return fn


def public_name(namespace: str, fn: Any) -> str:
    """The name of a function in its namespace."""
    return fn.__name__.removeprefix(f"{namespace}_") if namespace in PREFIXED else fn.__name__


def enter(space: dict[str, Any], name: str, fn: Any) -> None:
    """Register a name that must not be there yet."""
    if name in space:
        raise ValueError(f"{name!r} is declared twice")
    space[name] = fn
