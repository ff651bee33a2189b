"""Functions that belong to one module only."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from ...autograd.function import Function
from .. import functional as F


def _window_sums(x: Any, before: int, after: int) -> Tensor:
    """Sums over the channels from `before` in front of each to `after` behind it."""
    channels = x.shape[1]
    padded = F.pad(x, (0, 0, 0, 0, before, after))
    out = padded.narrow(1, 0, channels)
    for i in range(1, before + after + 1):
        out = out + padded.narrow(1, i, channels)
    return out


def _scale(x: Any, size: int, alpha: float, k: float) -> Tensor:
    """Return what `_CrossMapLRN2d` divides by a power of."""
    near = int((size - 1) / 2)
    squares = x.pow(2)
    sums = _window_sums(squares, near, near)
    later = x.shape[1] - near - 1
    if later > 0:
        first = squares.narrow(1, 0, 1).expand(-1, later, -1, -1)
        sums = sums + F.pad(first, (0, 0, 0, 0, near + 1, 0))
    return sums * (alpha / size) + k


class _CrossMapLRN2d(Function):
    """``x * scale ** -beta`` with ``scale = k + alpha / size * s``, s a sum of squares.

    Two oddities of torch's are kept, so that numbers agree: the first channel stays in the sums of
    all later ones, and the gradient sums over a window that lies further in front.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> Tensor:
        if x.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {x.dim()}D instead.")
        out = _scale(x, size, alpha, k).pow(-beta) * x
        ctx.save_for_backward(x, out)
        ctx.options, ctx.size, ctx.beta = (size, alpha, k), size, beta
        ctx.factor = 2 * alpha * beta / size
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, out = ctx.saved_tensors
        scale = _scale(x, *ctx.options)  # saved, it would count as a constant in a second derivative
        before = int(ctx.size - (ctx.size - 1) / 2)
        ratio = _window_sums(g * out / scale, before, ctx.size - 1 - before)
        return scale.pow(-ctx.beta) * g - x * ratio * ctx.factor, None, None, None, None


def cross_map_lrn2d(input: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    """Return what `CrossMapLRN2d` computes."""
    return _CrossMapLRN2d.apply(input, size, alpha, beta, k)
