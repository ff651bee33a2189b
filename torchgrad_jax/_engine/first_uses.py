"""On small CPU arrays NumPy does the first uses of kernels, where it gives the same bits; what comes again is compiled.

Compiling one costs as much as a thousand calls on a small array, and most kernels of a program's first steps,
or of a test-suite, are used once or twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._core import exact
from .._core.meta import Meta
from .._core.transfer import SMALL, put

_USES = 4


class FirstUses:
    """A compiled function of a storage's array, an offset and more, with NumPy in its place at first.

    Args:
        compiled: the function.
        host: the same for NumPy arrays; it may give a view of its arguments.
        out: what it returns.
    """

    __slots__ = ("_host", "_left", "_out", "call", "compiled")

    def __init__(self, compiled: Callable[..., Any], host: Callable[..., Any], out: Meta) -> None:
        self.compiled, self._host, self._out, self._left = compiled, host, out, _USES
        self.call: Callable[..., Any] = self._first
        """What to call now."""

    def _first(self, array: Any, offset: int, *more: Any) -> Any:
        if _watched() or not all(_on_the_host(x) for x in (array, *more)):
            return self.compiled(array, offset, *more)
        self._left -= 1
        if self._left <= 0:
            self.call = self.compiled
        found = self._host(np.asarray(array), offset, *map(np.asarray, more))
        return put(np.array(found, order="C"), self._out.device)


class Early:
    """A compiled function of arrays and numbers, with NumPy in its place at first.

    Args:
        kernel: the compiled function.
        settle: is told `kernel` once that is what to call.
    """

    __slots__ = ("_left", "_program", "_settle", "_tree", "kernel")

    def __init__(
        self, kernel: Any, settle: Callable[[Callable[..., Any]], None] | None = None
    ) -> None:
        self.kernel, self._settle, self._left = kernel, settle, _USES
        self._program: Any = None
        self._tree: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._left > 0:
            flat = jax.tree.leaves(args)
            if all(x.__class__ in _NUMBERS or _on_the_host(x) for x in flat):
                out = self._first(args, flat)
                if out is not None:
                    return jax.tree.unflatten(self._tree, out)
            elif not any(isinstance(x, jax.core.Tracer) for x in flat):
                self._count()
        return self.kernel(*args)

    def check(self, xs: Any) -> None:
        """What is to be checked before a step of it is written down: nothing."""

    def exact(self, *args: Any) -> bool:
        """Whether NumPy can do it, for arguments (or their shapes and dtypes) like these."""
        if self._program is None:
            traced = self.kernel.trace(*args)
            self._program, self._tree = exact.program(traced.jaxpr) or False, traced.out_tree
        return self._program is not False

    def _first(self, args: Any, flat: list[Any]) -> list[Any] | None:
        if self._left <= 0 or not self.exact(*args) or _watched():
            self._over()
            return None
        self._count()
        try:
            found = self._program(flat)
        except exact.Unsure:
            return None
        return [_put(x) for x in found]

    def _count(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._over()

    def _over(self) -> None:
        self._left = 0
        if self._settle is not None:
            self._settle(self.kernel)
            self._settle = None


def early(
    kernel: Any, device: Any, settle: Callable[[Callable[..., Any]], None] | None = None
) -> Any:
    """What to call first for a compiled function of tensors on `device`."""
    return Early(kernel, settle) if device.type == "cpu" else kernel


_NUMBERS = frozenset((bool, int, float, complex))


def _put(x: Any) -> Any:
    from .._core.devices import device

    return put(np.array(x, order="C"), device("cpu"))


def _watched() -> bool:
    """Whether somebody asked JAX to complain about what kernels give, or about arrays that come from NumPy."""
    config = jax.config
    guard = config.jax_transfer_guard_host_to_device
    return config.jax_debug_nans or config.jax_debug_infs or guard not in (None, "allow")


def _on_the_host(x: Any) -> bool:
    return (
        isinstance(x, jax.Array)
        and not isinstance(x, jax.core.Tracer)
        and x.size <= SMALL
        and not x.committed
        and isinstance(x.sharding, jax.sharding.SingleDeviceSharding)
        and next(iter(x.devices())).platform == "cpu"
    )


def fits(store: Meta, m: Meta) -> bool:
    """Whether NumPy can do the same: the storage is in the order of memory and of the view's dtype."""
    return (
        store.contiguous and store.dtype is m.dtype and store.device.type == "cpu" and m.numel > 0
    )


def reading(m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int], np.ndarray]:
    """The view `m` of an array at an offset."""

    def read(array: np.ndarray, offset: int) -> np.ndarray:
        x = _window(array.reshape(-1), m, offset)
        x = x.conj() if conj else x
        return -x if neg else x

    return read


def writing(m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray]:
    """An array whose view `m` at an offset is replaced."""

    def write(array: np.ndarray, offset: int, value: np.ndarray) -> np.ndarray:
        out = array.copy()
        value = value.conj() if conj else value
        _window(out.reshape(-1), m, offset)[...] = -value if neg else value
        return out

    return write


def _window(flat: np.ndarray, m: Meta, offset: int) -> np.ndarray:
    return as_strided(flat[offset:], m.shape, [s * flat.itemsize for s in m.strides])
