"""torch.signal.windows: windows composed of differentiable functions of evenly spaced numbers.

A function here says how a window is computed, and has the options of that window alone; `_window` makes the public
function, which has the arguments of all windows, too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import dtypes
from .._engine.entry.bind import NAMESPACES, ops
from .._engine.memory.tensor import Tensor
from .._engine.tensor.attributes import strided_layout
from .arguments import register
from .create import from_host

torch = NAMESPACES[""]

Values = Callable[[], Tensor]
"""What computes a window; called for windows of several elements only."""


class _Points(NamedTuple):
    """Where a window is computed."""

    count: int
    period: int
    """After how many steps the window begins again: one step less where it is symmetric."""
    options: dict[str, Any]

    def spaced(self, start: float, step: float, highest: float = math.inf) -> Tensor:
        """Evenly spaced numbers."""
        return torch["linspace"](start, min(highest, start + (self.count - 1) * step), self.count, **self.options)

    def constants(self, values: Sequence[float]) -> Tensor:
        """Numbers in the dtype of the window, and on its device."""
        device = torch["empty"](0, device=self.options["device"])._m.device
        return from_host(np.asarray(values, self.options["dtype"].np), device)


def _window(compute: Callable[..., Values]) -> Callable[..., Values]:
    """Publish a window; `compute` is given the points and the window's own options, and complains about these."""
    name = compute.__name__

    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: Any = None,
        layout: Any = strided_layout,
        device: Any = None,
        requires_grad: bool = False,
        **own: Any,
    ) -> Tensor:
        options = {"dtype": _checked(name, M, dtype, layout), "device": device, "requires_grad": requires_grad}
        values = compute(_Points(M, M - 1 if sym else M, options), sym=sym, **own)
        return values() if M > 1 else torch["ones"](M, **options)

    window.__doc__ = compute.__doc__
    length, *shared, _ = inspect.signature(window).parameters.values()
    own = [p for p in inspect.signature(compute).parameters.values() if p.name not in ("points", "sym")]
    window.__signature__ = inspect.Signature([length, *own, *shared])  # type: ignore[attr-defined]
    register(name, window, namespace="signal.windows")
    return compute


def _checked(name: str, length: int, dtype: Any, layout: Any) -> Any:
    """The dtype of a window, once the arguments of all windows are known to be good."""
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if layout is not strided_layout:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout!r}")
    dt = dtype or dtypes.get_default_dtype()
    if dt not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dt!r}")
    return dt


@_window
def general_cosine(points: _Points, *, a: Iterable[Any], sym: bool) -> Values:
    """A sum of cosines with alternating signs and the given weights."""

    def values() -> Tensor:
        if not isinstance(a, Iterable):
            raise TypeError("Coefficients must be a list/tuple")
        weights = [(-1) ** i * w for i, w in enumerate(a)]
        if not weights:
            raise ValueError("Coefficients cannot be empty")
        k = points.spaced(0, 2 * math.pi / points.period)
        waves = ops.cos(ops.mul(ops.unsqueeze(points.constants(range(len(weights))), -1), k))
        return torch["sum"](ops.mul(ops.unsqueeze(points.constants(weights), -1), waves), 0)

    return values


@_window
def general_hamming(points: _Points, *, alpha: float = 0.54, sym: bool) -> Values:
    """A raised cosine."""
    return general_cosine(points, a=[alpha, 1.0 - alpha], sym=sym)


@_window
def hamming(points: _Points, *, sym: bool) -> Values:
    """The raised cosine that cancels the first side lobe."""
    return general_hamming(points, sym=sym)


@_window
def hann(points: _Points, *, sym: bool) -> Values:
    """The raised cosine that starts and ends at 0."""
    return general_hamming(points, alpha=0.5, sym=sym)


@_window
def blackman(points: _Points, *, sym: bool) -> Values:
    """Three cosines with low side lobes."""
    return general_cosine(points, a=[0.42, 0.5, 0.08], sym=sym)


@_window
def nuttall(points: _Points, *, sym: bool) -> Values:
    """Four cosines with very low side lobes."""
    return general_cosine(points, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym)


@_window
def cosine(points: _Points, *, sym: bool) -> Values:
    """Half a sine wave."""

    def values() -> Tensor:
        step = math.pi / (points.period + 1)
        return ops.sin(points.spaced(0.5 * step, step))

    return values


@_window
def exponential(points: _Points, *, center: float | None = None, tau: float = 1.0, sym: bool) -> Values:
    """Exponential decay to both sides of the centre."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = points.period / 2.0 if center is None else center
    return lambda: ops.exp(ops.neg(ops.abs(points.spaced(-middle / tau, 1 / tau))))


@_window
def gaussian(points: _Points, *, std: float = 1.0, sym: bool) -> Values:
    """A bell curve of the given standard deviation."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def values() -> Tensor:
        step = 1 / (std * math.sqrt(2))
        k = points.spaced(-points.period / 2.0 * step, step)
        return ops.exp(ops.neg(ops.mul(k, k)))

    return values


@_window
def kaiser(points: _Points, *, beta: float = 12.0, sym: bool) -> Values:
    """Bessel's window."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values() -> Tensor:
        number = points.constants([beta])
        k = points.spaced(-beta, 2.0 * beta / points.period, highest=beta)
        inner = ops.sqrt(ops.sub(ops.mul(number, number), ops.mul(k, k)))
        return ops.true_divide(torch["i0"](inner), torch["i0"](number))

    return values


@_window
def bartlett(points: _Points, *, sym: bool) -> Values:
    """A triangle that starts and ends at 0."""
    return lambda: ops.rsub(ops.abs(points.spaced(-1, 2 / points.period)), 1)
