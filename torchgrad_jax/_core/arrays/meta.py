"""Everything about a tensor that shapes a compiled kernel, interned so that keys compare by identity."""

from __future__ import annotations

import math
from typing import Any

from ..jax.caches import LAYOUTS, Interned
from . import shapes
from .devices import device
from .dtypes import dtype
from .formats import memory_format, suggested


class Meta:
    """Shape, strides, dtype and device of a tensor; one object per distinct value.

    Offsets are left out on purpose: rows of one matrix share their Meta and so their kernels.
    """

    __slots__ = (
        "__weakref__", "contiguous", "dense", "device", "dtype", "extent", "ndim", "numel", "overlaps", "shape", "size",
        "strides", "suggests",
    )  # fmt: skip

    shape: tuple[int, ...]
    size: shapes.Size
    strides: tuple[int, ...]
    dtype: dtype
    device: device
    ndim: int
    numel: int
    contiguous: bool
    dense: bool  # the elements have no gaps, and none comes twice
    extent: int  # elements of storage that it spans
    overlaps: bool  # a stride of 0 over more than one element, so torch refuses writes
    suggests: memory_format  # the memory format that torch sees in these strides

    def __repr__(self) -> str:
        return f"Meta({list(self.shape)}, {self.dtype}, strides={list(self.strides)}, {self.device})"

    def like(self, **changes: Any) -> Meta:
        """The Meta with some fields replaced; a new shape without strides is contiguous."""
        shape = changes.get("shape", self.shape)
        strides = changes.get("strides", None if "shape" in changes else self.strides)
        return meta(shape, changes.get("dtype", self.dtype), changes.get("device", self.device), strides)


_INTERNED = LAYOUTS.cache(Interned)
_KNOWN = _INTERNED.young


def meta(shape: tuple[int, ...], dt: dtype, dev: device, strides: tuple[int, ...] | None = None) -> Meta:
    """The one Meta for these facts; strides None means contiguous."""
    key = (shape, strides, dt, dev)
    found = _KNOWN.get(key) or _INTERNED.older(key)
    if found is not None:
        return found
    if strides is None:
        m = meta(shape, dt, dev, shapes.contiguous_strides(shape))
    else:
        m = Meta()
        m.shape, m.strides, m.dtype, m.device = shape, strides, dt, dev
        m.ndim, m.numel, m.size = len(shape), math.prod(shape), shapes.Size(shape)
        m.contiguous = shapes.is_contiguous(shape, strides)
        m.dense = m.contiguous or shapes.is_dense(shape, strides)
        m.extent = shapes.storage_extent(shape, strides)
        shapes.check_bytes(shape, None if m.contiguous else strides, m.extent, dt.itemsize)
        shapes.check_numel(shape)
        m.overlaps = shapes.has_overlap(shape, strides)
        m.suggests = suggested(shape, strides)
    return _INTERNED.put(key, m)


class View:
    """Geometry of a view: shape, strides, offset relative to its source, and reinterpretation.

    With another dtype, strides and offset count elements of that dtype.
    """

    __slots__ = ("conj", "dtype", "neg", "offset", "shape", "strides")

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int = 0,
        dtype: dtype | None = None,
        conj: bool = False,
        neg: bool = False,
    ) -> None:
        self.shape, self.strides, self.offset = shape, strides, offset
        self.dtype, self.conj, self.neg = dtype, conj, neg
