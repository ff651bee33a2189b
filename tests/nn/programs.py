"""What the programs of these tests share."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from tests.programs import attempt as attempt


def quietly(fn: Callable[[], Any]) -> Any:
    """What a function gives, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fn()


def numbers(m: Any, *shape: int, requires_grad: bool = False) -> Any:
    """Doubles that are all different and of both signs."""
    # Made on the host: each operation on tensors would be a kernel to compile for each shape.
    values = [math.sin(0.7310585 * i) for i in range(math.prod(shape))]
    x = m.tensor(values, dtype=m.float64).reshape(shape)
    return x.requires_grad_() if requires_grad else x


def gradients(module: Any) -> dict[str, Any]:
    """The gradients of a module's parameters by name."""
    return {k: p.grad for k, p in module.named_parameters()}


def weighted(out: Any) -> Any:
    """A sum in which every element counts differently."""
    flat = out.reshape(-1)
    return (flat * flat.new_tensor([float(i + 1) for i in range(flat.numel())])).sum()
