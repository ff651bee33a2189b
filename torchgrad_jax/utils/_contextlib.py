"""Context managers that are decorators too, for classes that programs derive from them."""

from __future__ import annotations

from typing import Any

from ..autograd._decorators import DecoratorContext


class _DecoratorContextManager(DecoratorContext):
    """Base of context managers that may decorate functions, each call of which enters a fresh one."""


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for those without arguments, which may decorate without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        if orig_func is None:
            return made
        cls.__init__(made)
        return made(orig_func)
