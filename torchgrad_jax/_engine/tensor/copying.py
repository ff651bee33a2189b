"""Copies of tensors: deep ones, shallow ones, and those that went through pickle. The graph is never copied."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..._core.arrays import devices, dtypes
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.transfer import put
from ..._core.jax.abstract import AbstractArray
from ..._core.state import INFERENCE, MODES
from ..graph.history import grad_fn_of, requires_grad_of
from ..graph.hooks import warn_if_has_hooks
from ..graph.record import no_grad
from ..memory.concrete import concrete
from ..memory.strided import is_direct, read, storage_offset
from ..memory.tensor import Alias, Storage, Tensor, Version, alias_of, keep_placed, make, mark_inference, placement_of
from .subclass import retyped


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Any:
    """A leaf with its own storage; tensors that share a storage go on sharing one."""
    if id(self) in memo:
        return memo[id(self)]
    if grad_fn_of(self) is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    _check_class(self)
    with no_grad():
        out = retyped(_copied(self, memo), type(self))
        out._rg = requires_grad_of(self)
        memo[id(self)] = out
        MODES.run.uses.look_at_grad(self)
        if self._g is not None:
            MODES.run.uses.assign_grad(out)
            out._g = copy.deepcopy(self._g, memo)
        _set_state(out, copy.deepcopy(_state(self), memo))
    return out


def _check_class(self: Any) -> None:
    """As in torch, a class of its own must say how its tensors are made again."""
    kind = type(self)
    if kind is not Tensor and type(self.new_empty([])) is not kind:
        raise RuntimeError(
            "The default implementation of __deepcopy__() for non-wrapper subclasses only works for subclass types "
            "that implement new_empty() and for which that function returns another instance of the same subclass. "
            "You should either properly implement new_empty() for your subclass or override __deepcopy__() if it is "
            "intended behavior for new_empty() to return an instance of a different type."
        )


def _copied(t: Tensor, memo: dict[int, Any]) -> Tensor:
    m, al = t._m, t._al
    if al is not None and (al.conj or al.neg):
        out = make(read(t), m if m.dense else meta(m.shape, m.dtype, m.device))
        if MODES.bits & INFERENCE:
            mark_inference(out)
        return out
    st = memo.get(id(t._st))
    own = st is None
    if st is None:
        # The copy is a constant of the run, so the run depends on these values.
        if not MODES.run.inside(t):
            MODES.run.uses.look_at_values(t)
        st = memo[id(t._st)] = Storage(t._st.array, t._st.meta)
        st.version = int(m.device.type != "meta")
        if (there := placement_of(t._st)) is not None:
            keep_placed(st, there)
    return on_storage(st, m, storage_offset(t), direct=is_direct(t), own=own)


def on_storage(
    st: Storage, m: Meta, offset: int, *, direct: bool, own: bool, conj: bool = False, neg: bool = False
) -> Tensor:
    """A leaf on a storage, whose version counter it is where it is the storage's `own` tensor."""
    t = make(st.array, st.meta)
    out = alias_of(t, m, None, st if own else Version(int(m.device.type != "meta")))
    out._st = st
    if not direct:
        out._al = Alias(offset, None, 0, 0)
        out._al.conj, out._al.neg = conj, neg
    if MODES.bits & INFERENCE:
        mark_inference(out)
    return out


# --- what users attach to tensors -----------------------------------------------------------------


def _slots(kind: type) -> list[str]:
    """Names of the slots that subclasses of Tensor added."""
    names: list[str] = []
    for cls in kind.__mro__:
        if cls is Tensor:
            break
        found = cls.__dict__.get("__slots__", ())
        names += [found] if isinstance(found, str) else found
    return [n for n in names if n not in ("__dict__", "__weakref__")]


def _state(t: Tensor) -> Any:
    """Attributes, as `object.__getstate__` gives them but for those of Tensor itself."""
    slots = {n: getattr(t, n) for n in _slots(type(t)) if hasattr(t, n)}
    return (t.__dict__, slots) if slots else t.__dict__


def _set_state(t: Tensor, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    if attributes:
        t.__dict__.update(attributes)
    for name, value in slots.items():
        setattr(t, name, value)


# --- pickle and copy.copy -------------------------------------------------------------------------


def reduce_ex(self: Tensor, protocol: Any) -> Any:
    """How to make the tensor again: its storage, where in it, and what users attached to it."""
    warn_if_has_hooks(self)
    if not MODES.run.inside(self):
        MODES.run.uses.rely_on_memory(self)
    m, al, kind = self._m, self._al, type(self)
    custom = getattr(kind, "__getstate__", None) is not getattr(Tensor, "__getstate__", None)
    state = self.__getstate__() if custom else _state(self)
    place = (m.shape, m.strides, storage_offset(self), al is not None and (al.conj, al.neg))
    return rebuild, (
        None if kind is Tensor else kind,
        _Holder(self._st),
        None if is_direct(self) else (m.dtype.name, *place),
        requires_grad_of(self),
        state or None,
    )


def rebuild(kind: type | None, holder: _Holder, place: Any, requires_grad: bool, state: Any) -> Any:
    """Inverse of `reduce_ex`."""
    st = holder.storage
    if place is None:
        out = on_storage(st, st.meta, 0, direct=True, own=False)
    else:
        dtype, shape, strides, offset, bits = place
        m = meta(shape, dtypes.BY_NAME[dtype], st.meta.device, strides)
        conj, neg = bits or (False, False)
        out = on_storage(st, m, offset, direct=False, own=False, conj=conj, neg=neg)
    out._rg = requires_grad
    if kind is not None:
        out = retyped(out, kind)
        if kind.__setstate__ is not Tensor.__setstate__:
            out.__setstate__({} if state is None else state)
            return out
    if state is not None:
        _set_state(out, state)
    return out


class _Holder:
    """A storage in a pickle: each tensor brings its own, as in torch, while `copy.copy` shares it."""

    __slots__ = ("storage",)

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __reduce__(self) -> Any:
        m = self.storage.meta
        if m.device.type == "meta":
            return _rebuild_holder, (None, m.dtype.name, m.shape, m.strides, "meta")
        whole = make(self.storage.array, m)
        whole._st = whole._vc = self.storage
        values = concrete(whole)
        return _rebuild_holder, (values, m.dtype.name, m.shape, m.strides, str(m.device))


def _rebuild_holder(values: np.ndarray | None, dtype: str, shape: Any, strides: Any, device: str) -> _Holder:
    dev = devices.resolve(device)
    if values is None:
        empty = AbstractArray(shape, dtypes.BY_NAME[dtype].np)
        return _Holder(Storage(empty, meta(shape, dtypes.BY_NAME[dtype], dev, strides)))
    array = put(values, dev)
    return _Holder(Storage(array, meta(shape, dtypes.BY_NAME[dtype], dev, strides)))


def setstate(self: Tensor, state: Any) -> None:
    """Set `requires_grad` and the hooks, the first and the last of three entries."""
    if grad_fn_of(self) is not None:
        raise RuntimeError("__setstate__ can be only called on leaf Tensors")
    if isinstance(state, tuple) and len(state) in (4, 5):
        raise NotImplementedError("__setstate__(): states of torch before version 0.4 are not supported")
    requires_grad, _, hooks = state
    self.requires_grad = requires_grad
    self._backward_hooks = hooks


def install() -> None:
    """Put the protocols of copying on Tensor."""
    members = {"__deepcopy__": deepcopy, "__reduce_ex__": reduce_ex, "__setstate__": setstate}
    for name, fn in members.items():
        fn.__name__, fn.__qualname__ = name, f"Tensor.{name}"
        setattr(Tensor, name, fn)
