"""torch.special: what torch composes, and names of functions that other families compose."""

from __future__ import annotations

import math
from typing import Any

from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor
from .._ops.registry import Out

_special = {"namespace": "special", "method": False, "out": Out.CAST}


@composite(name="ndtr", **_special)
def ndtr(input: Tensor) -> Tensor:
    """The distribution function of the standard normal."""
    scaled = ops.mul_number(input, math.sqrt(0.5))
    return ops.mul_number(ops.add_number(ops.erf(scaled), 1), 0.5)


@composite(name="polygamma", **_special)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The `n`-th derivative of digamma."""
    return ops.polygamma(input, n)


@composite(name="softmax", namespace="special", method=False)
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """`torch.softmax`."""
    return NAMESPACES[""]["softmax"](input, dim, dtype=dtype)


@composite(name="log_softmax", namespace="special", method=False)
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """`torch.log_softmax`."""
    return NAMESPACES[""]["log_softmax"](input, dim, dtype=dtype)
