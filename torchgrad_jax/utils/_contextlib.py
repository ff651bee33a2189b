"""torch.utils._contextlib: the base of context managers that decorate."""

from __future__ import annotations

from ..autograd._decorators import DecoratorContext as _DecoratorContextManager

__all__ = ["_DecoratorContextManager"]
