"""Gradients of convolutions with respect to their input or weight, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.errors.messages import missing as _missing
from ..autograd import grad as _grad
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from . import functional as F
from ._top import torch

_OPTIONS = """

    Args:
        {first}: {what}.
        {second}: {other}.
        grad_output: the gradient of the result.
        stride: by how much the kernel moves.
        padding: how much is added on each side.
        dilation: distance between the places that the kernel reads.
        groups: number of parts of the channels that do not mix.
    """


def _of(run: Callable[..., Any], x: Any, weight: Any, wanted: Any, g: Any, options: Any) -> Any:
    """The gradient of a convolution with respect to one of its arguments."""
    recording = is_grad_enabled()
    with enable_grad():
        out = run(x, weight, None, *options)
        followed = recording and any(t.requires_grad for t in (x, weight, g) if t is not wanted)
        return _grad(out, wanted, g, create_graph=followed)[0]


def _fresh(size: Any, like: Any) -> Any:
    return torch.zeros(tuple(size), dtype=like.dtype, device=like.device).requires_grad_()


def _declare(n: int) -> None:
    run = getattr(F, f"conv{n}d")

    def wrt_input(
        input_size: Any,
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        if input_size is None:
            raise ValueError(f"grad.conv{n}d_input requires specifying an input_size")
        x = _fresh(input_size, grad_output)
        return _of(run, x, weight, x, grad_output, (stride, padding, dilation, groups))

    def wrt_weight(
        input: Any,
        weight_size: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        w = _fresh(weight_size, grad_output)
        return _of(run, input, w, w, grad_output, (stride, padding, dilation, groups))

    for fn, part, labels in (
        (wrt_input, "input", ("input_size", "the shape of the input", "weight", "the weight")),
        (wrt_weight, "weight", ("input", "the input", "weight_size", "the shape of the weight")),
    ):
        fn.__name__ = fn.__qualname__ = f"conv{n}d_{part}"
        first, what, second, other = labels
        fn.__doc__ = f"The gradient of `conv{n}d` with respect to its {part}." + _OPTIONS.format(
            first=first, what=what, second=second, other=other
        )
        globals()[fn.__name__] = fn


for _n in (1, 2, 3):
    _declare(_n)


__getattr__ = _missing(__name__)
