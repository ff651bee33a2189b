"""make_tensor: random tensors for tests."""

from __future__ import annotations

import math
from typing import Any

from .._core.arrays import dtypes
from .._core.errors import warn
from .._engine.entry.bind import NAMESPACES
from .._engine.memory.tensor import Tensor

_RANGES = {"uint8": (0, 10), "uint16": (0, 10), "uint32": (0, 10), "uint64": (0, 10), "bool": (0, 2)}


def _within(dtype: dtypes.dtype, low: float | None, high: float | None, inexact: bool) -> tuple[float, float]:
    """Bounds of the numbers: those given, cut to what the dtype has, or the usual ones."""
    if low is not None and high is not None and low == high and inexact:
        warn.to_user(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    usual = _RANGES.get(dtype.name, (-9, 9) if inexact else (-9, 10))
    least, most = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(least) or math.isnan(most):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if least > most or (least == most and not inexact):
        raise ValueError(f"`low` must be less than `high`, but got {least} >= {most}")
    if dtype.name == "bool":
        lowest, highest = 0.0, 2.0
    elif inexact:
        lowest, highest = dtypes.finfo(dtype).min, dtypes.finfo(dtype).max
    else:  # the upper bound is not one of the numbers
        lowest, highest = dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max + 1
    if not inexact and (least >= highest or most < lowest):
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{least}, {most}), but {dtype} only supports "
            f"[{lowest:.0f}, {highest:.0f})"
        )
    return min(max(least, lowest), highest), min(max(most, lowest), highest)


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Make a tensor of uniformly random numbers.

    Args:
        *shape: its shape.
        dtype: its dtype.
        device: its device.
        low: least value (inclusive); by default -9, or 0 for unsigned and bool.
        high: greatest value (exclusive); by default 9 for floating types, 10 for integers, 2 for bool.
        requires_grad: whether it requires a gradient.
        noncontiguous: whether its elements have gaps between them.
        exclude_zero: replace zeros by the smallest positive number of the type, or 1.
        memory_format: its memory format.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.testing.make_tensor(2, 3, dtype=torch.float32, device="cpu").shape
        torch.Size([2, 3])
    """
    torch = NAMESPACES[""]
    if not isinstance(dtype, dtypes.dtype) or dtype.name.startswith(("q", "bits")):
        raise TypeError(
            f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To request support, file "
            "an issue at: https://github.com/pytorch/pytorch/issues"
        )
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and "
            f"{memory_format=}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    inexact = dtype.is_floating_point or dtype.is_complex
    least, most = _within(dtype, low, high, inexact)
    apart = noncontiguous and math.prod(shape) > 1
    if apart:
        shape = (*shape[:-1], 2 * shape[-1])
    if inexact:
        out = torch["empty"](shape, dtype=dtype, device=device)
        if dtype.is_complex:
            _uniform(torch["view_as_real"](out), least, most)
        else:
            _uniform(out, least, most)
    else:
        out = torch["randint"](math.ceil(least), math.ceil(most), shape, dtype=dtype, device=device)
    if apart:
        out = out[..., 1::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = dtypes.finfo(dtype).tiny if inexact else 1
    if requires_grad:
        out.requires_grad_()
    return out


def _uniform(t: Tensor, low: float, high: float) -> None:
    if t.dtype.itemsize == 1:  # nothing is drawn in eight bits
        t.copy_(NAMESPACES[""]["empty"](t.shape, device=t.device).uniform_(low, high))
        return
    if high - low > dtypes.finfo(t.dtype).max:  # the distance would overflow
        t.uniform_(low / 2, high / 2).mul_(2)
        return
    t.uniform_(low, high)
