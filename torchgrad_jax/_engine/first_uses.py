"""On small CPU arrays NumPy does the first uses of kernels, where it gives the same bits; what comes again is compiled.

Compiling one costs as much as a thousand calls on a small array, and most kernels of a program's first steps,
or of a test-suite, are used once or twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._core import exact
from .._core.caches import KERNELS
from .._core.meta import Meta
from .._core.transfer import SMALL, put

_USES = 4
Settle: TypeAlias = Callable[[Callable[..., Any]], None]
Owner: TypeAlias = Callable[[], Any]


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
            KERNELS.compiled()
        found = self._host(np.asarray(array), offset, *map(np.asarray, more))
        return put(np.array(found, order="C"), self._out.device)


class Early:
    """A compiled function of arrays and numbers, with NumPy in its place at first.

    Args:
        kernel: the compiled function.
        settle: is told `kernel` once that is what to call.
        owner: gives the entry of a cache that the kernel belongs to, or None.
    """

    __slots__ = ("_counted", "_left", "_owner", "_program", "_settle", "_tree", "kernel")

    def __init__(
        self, kernel: Any, settle: Settle | None = None, owner: Owner | None = None
    ) -> None:
        self.kernel, self._settle, self._owner, self._left = kernel, settle, owner, _USES
        self._counted = False
        self._program: Any = None
        self._tree: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._left > 0:
            flat = jax.tree.leaves(args)
            if all(x.__class__ in _NUMBERS or _on_the_host(x) for x in flat):
                out = self._first(args, flat)
                if out is not None:
                    return jax.tree.unflatten(self._tree, out)
                self._compiles()
            elif not any(isinstance(x, jax.core.Tracer) for x in flat):
                self._count()
                self._compiles()
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
        settle, self._settle = self._settle, None
        if settle is not None:
            settle(self.kernel)
            self._compiles()

    def _compiles(self) -> None:
        """Count the kernel, once, where it is about to be compiled."""
        counted, self._counted = self._counted, True
        if not counted:
            KERNELS.compiled(None if self._owner is None else self._owner())


def early(
    kernel: Any, device: Any, settle: Settle | None = None, owner: Owner | None = None
) -> Any:
    """What to call first for a compiled function of tensors on `device`."""
    if device.type == "cpu":
        return Early(kernel, settle, owner)
    if device.type != "meta":
        KERNELS.compiled(None if owner is None else owner())
    return kernel


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
