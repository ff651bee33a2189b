"""What NumPy does without code for it: sums of two small arrays, and reading and writing views.

Reading a view of a small array looks at the memory in another way and copies nothing, where XLA would compile for
50 ms. Whether NumPy can find an array where it is, and whether it is small, is asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..._core.arrays import sums, transfer
from ..._core.arrays.meta import Meta
from ..._core.host import choice
from ..._core.host.space import silently
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit

_add = KERNELS.shared(jit(sums.plus))
_add_small = silently(np.add)


def add(x: Any, y: Any) -> Any:
    """The sum of two arrays of one shape and dtype, such as two gradients."""
    if x.dtype.kind != "c" and transfer.stays(x.dtype) and is_small(x) and is_small(y):
        return np.asarray(_add_small(x, y))
    return _add(x, y)


add_in_xla = _add
"""The sum of two arrays of which one is too large for NumPy."""


def by_what_is_given(compiled: Callable[..., Any], host: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a storage's array, an offset and perhaps another array: NumPy's where it can read both.

    Args:
        compiled: XLA's.
        host: the same for NumPy's arrays.
    """

    def call(array: Any, offset: int, *value: Any) -> Any:
        if is_here(array) and all(map(is_here, value)):
            return host(np.asarray(array), offset, *map(np.asarray, value))
        return compiled(array, offset, *value)

    return call


def is_small(x: Any) -> bool:
    """Return whether NumPy may compute with an array: it is one of NumPy's, or a small one that was put nowhere."""
    return is_here(x) and (x.__class__ is np.ndarray or x.size <= choice.LARGEST)


def is_here(x: Any) -> bool:
    """Whether NumPy can read an array where it is: it is one of NumPy's, or one of JAX's that was put nowhere."""
    return x.__class__ is np.ndarray or (
        isinstance(x, jax.Array)
        and not isinstance(x, jax.core.Tracer)
        and not x.committed
        and jax.default_backend() == "cpu"
    )


def fits(store: Meta, m: Meta, touched: int) -> bool:
    """Return whether NumPy can read or write a view, by which it touches so many elements.

    The storage has no gaps, and the view's dtype. One that is not row by row is rearranged first.
    """
    work = touched if store.contiguous else max(touched, store.numel)
    return choice.EXECUTOR != "xla" and work <= choice.LARGEST and (store.contiguous or store.dense) and _fits(store, m)


def is_read_in_place(store: Meta, m: Meta) -> bool:
    """Return whether NumPy finds the elements of a view where they lie in the memory of a storage on the CPU."""
    return store.contiguous and _fits(store, m)


def _fits(store: Meta, m: Meta) -> bool:
    return store.dtype is m.dtype and store.device.type == "cpu" and m.numel > 0


def reading(store: Meta, m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int], np.ndarray]:
    """The view `m` of an array at an offset; a few elements of many are copied, since a view would keep all of them."""
    order, window = _order(store), windows(m)

    def read(array: np.ndarray, offset: int) -> np.ndarray:
        x = window(array if order is None else array.transpose(order), offset)
        x = x.copy() if array.size > choice.LARGEST else x
        x = x.conj() if conj else x
        return -x if neg else x

    return read


def writing(store: Meta, m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray]:
    """An array whose view `m` at an offset is replaced."""
    order, window = _order(store), windows(m)

    def write(array: np.ndarray, offset: int, value: np.ndarray) -> np.ndarray:
        out = (array if order is None else array.transpose(order)).copy()
        value = value.conj() if conj else value
        window(out, offset)[...] = -value if neg else value
        return out if order is None else np.ascontiguousarray(out.transpose(np.argsort(order)))

    return write


def _order(store: Meta) -> tuple[int, ...] | None:
    """The dimensions of a storage as they are in memory; None where they are row by row."""
    return None if store.contiguous else tuple(sorted(range(store.ndim), key=lambda d: (-store.strides[d], d)))


def window(array: np.ndarray, m: Meta, offset: int) -> np.ndarray:
    """The view `m` at an offset of an array that is in the order of memory, or would be."""
    return windows(m)(array, offset)


def windows(m: Meta) -> Callable[[np.ndarray, int], np.ndarray]:
    """`window` for one `m`."""
    make, shape, size = np.ndarray, m.shape, m.dtype.itemsize
    strides = tuple([s * size for s in m.strides])

    def window(array: np.ndarray, offset: int) -> np.ndarray:
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        return make(shape, array.dtype, array, offset * size, strides)

    return window
