"""Changing the size of a tensor in place: its window on the storage, and the storage when it must grow."""

from __future__ import annotations

import gc
import inspect
import sys
from typing import Any

import numpy as np

from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.transfer import put
from ..._core.jax.abstract import AbstractArray
from ..._core.state import MODES, UNDER_JAX
from ..memory import strided
from ..memory.escapes import refuse_escape
from ..memory.shared import check_resizable, is_shared
from ..memory.tensor import Alias, Tensor, born
from .node import note_reshaped


def resize(t: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> bool:
    """Give `t` another shape (contiguous unless strides are given); whether anything changed.

    Elements keep their places in the storage; where the storage has to grow, the new ones are 0.
    The version counter is left alone.
    """
    old = t._m
    if old.shape == shape and (strides is None or old.strides == strides):
        return False
    if MODES.bits & UNDER_JAX:
        refuse_escape([born(t)], [], "resize")
    MODES.run.uses.replace_memory(t)
    m = meta(shape, old.dtype, old.device, strides)
    offset = 0 if t._al is None else t._al.offset
    need = offset + m.extent
    own = t._st.meta
    size = need * m.dtype.itemsize
    if size > own.extent * own.dtype.itemsize:
        # The end of a view as another dtype may be amid an element: then the storage is one of that dtype.
        dtype = m.dtype if size % own.dtype.itemsize else own.dtype
        _grow(t, size // dtype.itemsize, dtype)
    if (t._al is None or t._al.base is None) and old.shape != shape:
        note_reshaped(t)
    _window(t, m, offset)
    return True


def _window(t: Tensor, m: Meta, offset: int) -> None:
    """Let `t` look at its storage as `m`, keeping what autograd knows of it as a view."""
    al = t._al
    t._m = m
    if (
        al is None
        and offset == 0
        and m.dense
        and not is_shared(t._st)
        and t._st.meta.contiguous
        and m.numel == t._st.meta.numel
        and _alone(t)
    ):
        st = t._st
        if m.device.type == "meta":
            st.array = AbstractArray(m.shape, m.dtype.np)
        else:
            st.array = strided.from_flat(st.array.reshape(-1), m)
        st.meta = m
        return
    if al is None:
        al = t._al = Alias(offset, None, 0, 0)
    al.array, al.stamp = None, -1


def _grow(t: Tensor, need: int, dtype: Any) -> None:
    """Append zeros to the storage; the tensors that share it must be known, as their windows change."""
    st = t._st
    check_resizable(st)
    base = t._al.base if t._al is not None else None
    sharing = [x for x in (t, base) if x is not None] if _alone(t, base) else _sharing(st)
    m = meta((need,), dtype, st.meta.device)
    if m.device.type == "meta":
        array: Any = AbstractArray(m.shape, m.dtype.np)
    else:
        array = put(_longer(st, need, dtype.np), m.device)
    for x in sharing:
        if x is not t and x._al is None:
            x._al = Alias(0, None, 0, 0)
    st.array, st.meta = array, m
    st.stamp += 1


def _sharing(st: Any) -> list[Tensor]:
    """The tensors on a storage, asked of the garbage collector: nothing else keeps a list of them."""
    found = []
    for x in gc.get_referrers(st):
        if isinstance(x, Tensor):
            if x._st is st:
                found.append(x)
        elif not inspect.isframe(x):
            raise NotImplementedError(
                "resize_: the storage has to grow, but a value of it was saved for backward, which cannot follow; "
                "clone() the tensor first"
            )
    return found


def _longer(st: Any, need: int, dtype: np.dtype) -> np.ndarray:
    """The elements of a storage in the order of memory, and zeros."""
    flat = np.zeros(need, dtype)
    old = np.asarray(strided.reinterpret(strided.to_flat(st.array, st.meta), dtype))
    flat[: old.size] = old
    return flat


def _alone(t: Tensor, base: Any = None) -> bool:
    """Return whether no tensor or node but `t` (and the base it is a view of) holds the storage."""
    known = sum((x._st is t._st) + (x._vc is t._st) for x in (t, base) if x is not None)
    return sys.getrefcount(t._st) - 1 <= known
