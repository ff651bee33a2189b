"""Context managers that are decorators too, for classes that programs derive from them."""

from ..autograd._decorators import DecoratorContext
from ..autograd.grad_mode import _NoParamDecoratorContextManager as _NoParamDecoratorContextManager


class _DecoratorContextManager(DecoratorContext):
    """Base of context managers that may decorate functions, each call of which enters a fresh one."""
