"""torch.signal.windows: windows composed of differentiable functions of evenly spaced numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._engine.entry.bind import NAMESPACES, ops
from .._engine.memory.tensor import Tensor
from .._engine.tensor.attributes import strided_layout
from .arguments import register
from .create import from_host

torch = NAMESPACES[""]


def _window(fn: Any) -> Any:
    return register(fn.__name__, fn, namespace="signal.windows")


Options = tuple[Any, Any, Any, bool]
"""dtype, layout, device, requires_grad."""


def _checked(name: str, length: int, dtype: Any, layout: Any) -> Any:
    """The dtype of a window, once the arguments are known to be good."""
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if layout is not strided_layout:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout!r}")
    dt = dtype or dtypes.get_default_dtype()
    if dt not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dt!r}")
    return dt


def _span(start: float, end: float, length: int, dt: Any, options: Options) -> Tensor:
    return torch["linspace"](start, end, length, dtype=dt, device=options[2], requires_grad=options[3])


def _constant(length: int, dt: Any, options: Options) -> Tensor | None:
    """Windows of no element and of one, which are alike."""
    if length > 1:
        return None
    return torch["ones"](length, dtype=dt, device=options[2], requires_grad=options[3])


@_window
def general_cosine(
    M: Any,
    *,
    a: Iterable[Any],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with alternating signs and the given weights."""
    options = (dtype, layout, device, requires_grad)
    dt = _checked("general_cosine", M, dtype, layout)
    few = _constant(M, dt, options)
    if few is not None:
        return few
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    step = 2 * math.pi / (M - 1 if sym else M)
    k = _span(0, (M - 1) * step, M, dt, options)
    signed = from_host(np.asarray([(-1) ** i * w for i, w in enumerate(weights)], dt.np), k._m.device)
    order = from_host(np.arange(len(weights), dtype=dt.np), k._m.device)
    waves = ops.cos(ops.mul(ops.unsqueeze(order, -1), k))
    return torch["sum"](ops.mul(ops.unsqueeze(signed, -1), waves), 0)


@_window
def general_hamming(
    M: Any,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine."""
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@_window
def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The raised cosine that cancels the first side lobe."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@_window
def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The raised cosine that starts and ends at 0."""
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@_window
def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Three cosines with low side lobes."""
    _checked("blackman", M, dtype, layout)
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@_window
def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Four cosines with very low side lobes."""
    return general_cosine(
        M,
        a=[0.3635819, 0.4891775, 0.1365995, 0.0106411],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


@_window
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a sine wave."""
    options = (dtype, layout, device, requires_grad)
    dt = _checked("cosine", M, dtype, layout)
    few = _constant(M, dt, options)
    if few is not None:
        return few
    step = math.pi / (M if sym else M + 1)
    return ops.sin(_span(0.5 * step, (0.5 + (M - 1)) * step, M, dt, options))


@_window
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Exponential decay to both sides of the centre."""
    options = (dtype, layout, device, requires_grad)
    dt = _checked("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    few = _constant(M, dt, options)
    if few is not None:
        return few
    if center is None:
        center = (M - 1 if sym else M) / 2.0
    step = 1 / tau
    k = _span(-center * step, (-center + (M - 1)) * step, M, dt, options)
    return ops.exp(ops.neg(ops.abs(k)))


@_window
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A bell curve of the given standard deviation."""
    options = (dtype, layout, device, requires_grad)
    dt = _checked("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    few = _constant(M, dt, options)
    if few is not None:
        return few
    start = -(M - 1 if sym else M) / 2.0
    step = 1 / (std * math.sqrt(2))
    k = _span(start * step, (start + (M - 1)) * step, M, dt, options)
    return ops.exp(ops.neg(ops.mul(k, k)))


@_window
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Bessel's window."""
    options = (dtype, layout, device, requires_grad)
    dt = _checked("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    few = _constant(M, dt, options)
    if few is not None:
        return few
    number = from_host(np.asarray(beta, dt.np), torch["zeros"](0, device=device)._m.device)
    step = 2.0 * beta / (M - 1 if sym else M)
    k = _span(-beta, min(beta, -beta + (M - 1) * step), M, dt, options)
    inner = ops.sqrt(ops.sub(ops.mul(number, number), ops.mul(k, k)))
    return ops.true_divide(torch["i0"](inner), torch["i0"](number))


@_window
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided_layout,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that starts and ends at 0."""
    options = (dtype, layout, device, requires_grad)
    dt = _checked("bartlett", M, dtype, layout)
    few = _constant(M, dt, options)
    if few is not None:
        return few
    step = 2 / (M - 1 if sym else M)
    k = _span(-1, -1 + (M - 1) * step, M, dt, options)
    return ops.rsub(ops.abs(k), 1)
