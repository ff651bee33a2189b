"""The same view of another tensor: `_view_func` and its relatives."""

from __future__ import annotations

from typing import Any

from .._core.arrays.meta import meta
from .._core.state import MODES
from .._engine.entry.bind import composite
from .._engine.graph.views import make_view, view_creation
from .._engine.memory.strided import storage_offset
from .._engine.memory.tensor import Tensor


@composite(function=False)
def _view_func(self: Tensor, new_base: Tensor) -> Any:
    """The same view of `new_base`; None unless that has the base's geometry in its storage."""
    base = _base(self)
    if base is None or not _alike(base, new_base):
        return None
    if self._m.dtype is not base._m.dtype and new_base._m.dtype is not base._m.dtype:
        return None
    return _view_of_new_base(self, base, new_base)


@composite(function=False)
def _view_func_unsafe(self: Tensor, new_base: Tensor) -> Any:
    """This view, of `new_base`, whatever that is like."""
    base = _base(self)
    return None if base is None else _view_of_new_base(self, base, new_base)


@composite(function=False)
def _rev_view_func_unsafe(self: Tensor, new_view: Tensor) -> Any:
    """The base of which `new_view` would be this view. As in torch, it is unknown outside of torch's transforms."""
    if _base(self) is not None:
        raise RuntimeError("No _rev_view_func() found")
    return None


def _base(t: Tensor) -> Tensor | None:
    return None if t._al is None else t._al.base


def _alike(base: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have their elements at the same places."""
    a, b = base._m, other._m
    return (
        (a.shape, a.strides) == (b.shape, b.strides)
        and storage_offset(base) == storage_offset(other)
        and _bits(base) == _bits(other)
    )


def _bits(t: Tensor) -> tuple[bool, bool]:
    return (False, False) if t._al is None else (t._al.conj, t._al.neg)


def _view_of_new_base(t: Tensor, base: Tensor, new: Tensor) -> Tensor:
    """The view of `new` that `t` is of `base`. Its node is made when somebody asks for it."""
    m, al = t._m, t._al
    dtype = m.dtype if m.dtype is not base._m.dtype else new._m.dtype
    theirs, mine = base._m.dtype.itemsize, m.dtype.itemsize
    start = storage_offset(new) * theirs // mine
    offset = storage_offset(t) - storage_offset(base) * theirs // mine + start
    (conj, neg), before = _bits(base), al
    out = make_view(
        new,
        meta(m.shape, dtype, new._m.device, m.strides),
        offset,
        creation=view_creation(MODES.bits, False),
        conj=before.conj ^ conj,
        neg=before.neg ^ neg,
    )
    if al.chain and storage_offset(new) == storage_offset(base):
        out._al.chain = al.chain
    out._al.replay, out._al.seen = al.replay, -1
    return out
