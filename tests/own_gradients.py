"""Custom Functions that many tests apply: one tensor, which is saved, and a gradient of their own."""

from collections.abc import Callable
from typing import Any


def saving_input(torch: Any, name: str, value: Callable[[Any], Any], gradient: Callable[[Any, Any], Any]) -> Any:
    """A subclass of `torch.autograd.Function` that computes ``value(x)``; its backward gives ``gradient(x, g)``."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return value(x)

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient(x, g)

    base = torch.autograd.Function
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(base)(name, (base,), methods)
