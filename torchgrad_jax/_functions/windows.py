"""Window functions, each value rounded as often as torch's chain of operations rounds it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes
from .._core.arrays.kernels import cpp_name
from .._engine.memory.tensor import Tensor
from . import data as data_
from .arguments import factory, flag, integer, options, real, unmatched
from .create import from_host
from .sequences import refuse


def _window(fn: str, length: Any, periodic: Any, opts: tuple[Any, ...], shape_: Shaped) -> Tensor:
    n = integer(fn, "window_length", length, 1)
    flag(fn, "periodic", periodic, 2)
    dt, dev = options(fn, *opts)
    dt = dt or dtypes.get_default_dtype()
    if dt.category < dtypes.FLOATING:
        raise RuntimeError(f"{fn} expects floating point dtypes, got: {_type_options(dt, dev, opts[-1])}")
    if dt.is_complex:
        raise RuntimeError(f"{fn} does not support complex dtypes, got: {dt!r}")
    if n < 0:
        raise RuntimeError(f"{fn} requires non-negative window_length, got window_length={n}")
    if n < 2:
        return from_host(np.ones(n, dt.np), dev, opts[-1])
    full = n + 1 if periodic else n
    refuse("arange_cpu", dt)
    values = shape_(_Rounded(dt, np.arange(full)), full).values[:n]
    return from_host(np.ascontiguousarray(values), dev, opts[-1])


def _type_options(dt: dtypes.dtype, dev: devices.device, requires_grad: bool) -> str:
    flagged = "true" if requires_grad else "false (default)"
    return (
        f"TensorOptions(dtype={cpp_name(np.zeros(0, dt.np))}, device={dev}, layout=Strided (default), "
        f"requires_grad={flagged}, pinned_memory=false, memory_format=(nullopt))"
    )


class _Rounded:
    """Values of one dtype whose every operation rounds to it, as a chain of torch's functions does."""

    def __init__(self, dt: dtypes.dtype, values: np.ndarray) -> None:
        self.dt = dt
        self.wide = np.float64 if dt is dtypes.float64 else np.float32
        self.values = data_.convert(values, dt)

    def _with(self, wide: np.ndarray) -> _Rounded:
        return _Rounded(self.dt, wide)

    def __mul__(self, number: float) -> _Rounded:
        return self._with(self.values.astype(self.wide) * self.wide(number))

    def __add__(self, number: float) -> _Rounded:
        return self._with(self.values.astype(self.wide) + self.wide(number))

    def __sub__(self, other: _Rounded) -> _Rounded:
        return self._with(self.values.astype(self.wide) - other.values.astype(self.wide))

    def cos(self) -> _Rounded:
        return self._with(np.cos(self.values.astype(np.float64)))


Shaped = Callable[[_Rounded, int], _Rounded]


def _raised(alpha: float, beta: float) -> Shaped:
    return lambda i, n: (i * (2 * math.pi / (n - 1))).cos() * -beta + alpha


@factory
def hann_window(
    window_length: Any,
    periodic: Any = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """Half a cosine wave raised to start and end at 0."""
    opts = (dtype, layout, device, pin_memory, requires_grad)
    return _window("hann_window", window_length, periodic, opts, _raised(0.5, 0.5))


@factory
def hamming_window(
    window_length: Any,
    periodic: Any = True,
    alpha: Any = 0.54,
    beta: Any = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """A raised cosine: alpha minus beta times a cosine."""
    opts = (dtype, layout, device, pin_memory, requires_grad)
    a, b = real("hamming_window", "alpha", alpha, 3), real("hamming_window", "beta", beta, 4)
    return _window("hamming_window", window_length, periodic, opts, _raised(a, b))


def _blackman(i: _Rounded, n: int) -> _Rounded:
    x = i * (math.pi / (n - 1))
    return (x * 4).cos() * 0.08 - (x * 2).cos() * 0.5 + 0.42


@factory
def blackman_window(
    window_length: Any,
    periodic: Any = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """A sum of two cosines with low side lobes."""
    opts = (dtype, layout, device, pin_memory, requires_grad)
    return _window("blackman_window", window_length, periodic, opts, _blackman)


def _bartlett(i: _Rounded, n: int) -> _Rounded:
    rising = i * (2 / (n - 1))
    falling = rising * -1 + 2
    rising.values[(n - 1) // 2 + 1 :] = falling.values[(n - 1) // 2 + 1 :]
    return rising


@factory
def bartlett_window(
    window_length: Any,
    periodic: Any = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """A triangle that starts and ends at 0."""
    opts = (dtype, layout, device, pin_memory, requires_grad)
    return _window("bartlett_window", window_length, periodic, opts, _bartlett)


@factory
def kaiser_window(window_length: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Bessel's window: ``kaiser_window(window_length, periodic=True, beta=12.0)``."""
    named = {k: kwargs.pop(k) for k in ("periodic", "beta") if k in kwargs}
    given = {**dict(zip(("periodic", "beta"), args)), **named}
    if len(args) + len(named) != len(given) or len(args) > 2 or ("beta" in given and "periodic" not in given):
        raise unmatched("kaiser_window")
    beta = real("kaiser_window", "beta", given.get("beta", 12.0), 3)
    return _kaiser_window(window_length, given.get("periodic", True), beta, **kwargs)


def _kaiser_window(
    length: Any,
    periodic: Any,
    beta: float,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    def shaped(i: _Rounded, n: int) -> _Rounded:
        x = i.values.astype(np.float64) * (2 / (n - 1)) - 1
        return _Rounded(i.dt, np.i0(beta * np.sqrt(np.maximum(0, 1 - x * x))) / np.i0(beta))

    return _window("kaiser_window", length, periodic, (dtype, layout, device, pin_memory, requires_grad), shaped)
