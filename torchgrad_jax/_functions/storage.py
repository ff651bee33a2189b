"""What changes a tensor's storage or size in place, and what asks about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.formats import preserve_format, strides_in
from .._core.arrays.meta import meta
from .._core.arrays.shapes import check_bytes, check_numel
from .._core.arrays.transfer import put
from .._core.errors.messages import NO_STORAGE, no_forward
from .._core.state import DUAL, GRAD, INFERENCE, MODES, UNDER_JAX
from .._engine.entry.bind import composite
from .._engine.graph.grad_plan import grad_plan
from .._engine.graph.history import (
    check_captured,
    check_inplace,
    edge_of,
    rebase_history,
    requires_grad_of,
    retain_at_node,
)
from .._engine.graph.node import Node, note_reshaped
from .._engine.graph.record import begin_node, end_node
from .._engine.graph.resize import resize
from .._engine.memory import strided
from .._engine.memory.concrete import concrete
from .._engine.memory.escapes import refuse_escape
from .._engine.memory.strided import storage_offset
from .._engine.memory.tensor import CREATED_DEFAULT, Alias, Storage, Tensor, born, check_counted, leave_storage
from .._engine.run.trace import Call
from .._engine.tensor.attributes import UntypedStorage
from .._ops.registry import Grad
from . import data as data_
from .arguments import check_shape, format_of, integer, shape_from, shape_of, unmatched, wrong
from .typed_storage import TypedStorage

# --- size -----------------------------------------------------------------------------------------


@composite(function=False)
def resize_(self: Tensor, *size: Any, memory_format: Any = None, **named: Any) -> Tensor:
    """Give the tensor another shape over the same storage, which grows (by zeros) where it has to."""
    shape = shape_from("resize_", size, named)
    return _resized(self, shape, memory_format, "resize_")


@composite(known_as={"input": "self"})
def resize_as_(self: Tensor, the_template: Any, *, memory_format: Any = None) -> Tensor:
    """`resize_` to another tensor's shape."""
    if not isinstance(the_template, Tensor):
        raise wrong("resize_as_", "the_template", "Tensor", the_template, 1)
    kind = None if memory_format is preserve_format else memory_format
    return _resized(self, the_template._m.shape, kind, "resize_as_")


def _resized(self: Tensor, shape: tuple[int, ...], memory_format: Any, fn: str) -> Tensor:
    if requires_grad_of(self) and not MODES.bits & INFERENCE:
        raise RuntimeError("cannot resize variables that require grad")
    kind = format_of(fn, memory_format)
    if kind is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    check_numel([n if n >= 0 else 2**64 + n for n in shape])  # torch counts without signs
    check_shape(shape, self._m.dtype.itemsize)
    if MODES.transforms:
        check_captured(self, fn)
    if resize(self, shape, None if kind is None else strides_in(kind, shape)):
        self._vc.version += 1
        check_counted(self)
    return self


# --- storage --------------------------------------------------------------------------------------


@composite(function=False)
def set_(self: Tensor, source: Any = None, storage_offset: Any = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Make the tensor look at another tensor's storage, whole or in part."""
    if source is not None and not isinstance(source, Tensor | UntypedStorage | TypedStorage):
        raise unmatched("set_")
    recording = bool(MODES.bits & GRAD)
    if MODES.transforms:
        check_captured(self, "set_.source_Tensor" if isinstance(source, Tensor) else "set_")
    if recording:
        check_inplace(self, requires_grad_of(self))
    given = source if isinstance(source, Tensor) else None
    tracked = recording and any(t is not None and requires_grad_of(t) for t in (self, given))
    if MODES.bits & DUAL and any(t is not None and MODES.tangents.tangent_of(t) is not None for t in (self, given)):
        raise NotImplementedError(no_forward("set_"))
    old = self._m
    st, m, offset = _source(source, old)
    if m.dtype is not old.dtype:
        names = [_short(d) for d in (m.dtype, old.dtype)]
        raise RuntimeError(f"Could not set tensor of type {names[0]} to a tensor of type {names[1]}")
    if size is not None:
        offset = integer("set_", "storage_offset", storage_offset, 2)
        shape = shape_of("set_", size, 3)
        check_numel(shape)
        m = meta(shape, m.dtype, m.device, None if stride is None else shape_of("set_", stride, 4, "stride"))
    _check_window(st, m, offset)
    node = _forgetful(self, given) if tracked else None
    own = self._al
    base = None if own is None else own.base
    whole = m is st.meta and not offset and base is None
    alias = None if whole else Alias(offset, base, CREATED_DEFAULT, 0)
    # It is still a view of the same storage.
    if own is not None and alias is not None and base is not None:
        alias.creation, alias.replay, alias.seen = own.creation, own.replay, own.seen
    if MODES.bits & UNDER_JAX:
        refuse_escape([born(self)], [st.array])
    leave_storage(self)
    if node is None and base is None and m.shape != old.shape:
        note_reshaped(self)
    self._st, self._m, self._al = st, m, alias
    self._acc = None  # an older graph keeps its accumulating node, and a new graph gets another one
    self._vc.version += 1
    check_counted(self)
    if node is not None:
        if base is not None:
            rest = node.edges[1:]
            rebase_history(self, node)
            base._fn.edges = (base._fn.edges[0], *rest)
        else:
            end_node(node, (self,), MODES.bits)
            if self._x is not None and self._x.retains is not None:
                retain_at_node(self)
    return self


_SET = Call(
    "set_", lambda leaves: leaves[0], node_name="NotImplemented", argnames=("self", "source"), grad=Grad.MISSING
)


def _forgetful(self: Tensor, source: Tensor | None) -> Node:
    """The node of a tensor that got other memory; it passes no gradient on."""
    leaves = (self, source)
    keys = tuple(None if t is None else t._m for t in leaves)
    plan = _SET.view_plan(keys, (self._m,))
    mask = sum(1 << i for i, t in enumerate(leaves) if t is not None and requires_grad_of(t))
    node = begin_node(grad_plan(plan, mask), leaves, MODES.bits)
    node.edges = tuple(edge_of(t) if requires_grad_of(t) else None for t in leaves if t is not None)
    return node


def _source(source: Any, old: Any) -> tuple[Storage, Any, int]:
    if source is None:
        m = meta((0,), old.dtype, old.device)
        return Storage(put(np.zeros(0, old.dtype.np), old.device), m), m, 0
    if isinstance(source, UntypedStorage | TypedStorage):
        dt = source.dtype if isinstance(source, TypedStorage) else old.dtype
        if dt is not old.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {_short(old.dtype)} or an UntypedStorage, but got type "
                f"{dtypes.scalar_type_name(dt)} for argument 1 'storage'"
            )
        st = source.untyped()._storage
        return st, meta((source.nbytes() // dt.itemsize,), dt, st.meta.device), 0
    if source._al is not None and (source._al.conj or source._al.neg):
        raise NotImplementedError("set_() with a conjugated or negated view is not supported; use resolve_conj()")
    return source._st, source._m, storage_offset(source)


def _check_window(st: Storage, m: Any, offset: int) -> None:
    need, have = offset + m.extent, st.meta.extent * st.meta.dtype.itemsize // m.dtype.itemsize
    check_bytes(m.shape, m.strides, need, m.dtype.itemsize)
    if offset < 0 or need > have:
        raise RuntimeError(
            f"setStorage: sizes {list(m.shape)}, strides {list(m.strides)}, storage offset {offset} are "
            f"out of bounds for storage of {have} elements, which set_() does not enlarge"
        )


def _short(d: dtypes.dtype) -> str:
    from .._core.arrays.kernels import cpp_name

    return cpp_name(np.zeros(0, d.np))


@composite(function=False)
def is_set_to(self: Tensor, tensor: Any) -> bool:
    """Return whether both look at the same storage in the same way."""
    if not isinstance(tensor, Tensor):
        raise wrong("is_set_to", "tensor", "Tensor", tensor, 1)
    return self._st is tensor._st and self._m is tensor._m and storage_offset(self) == storage_offset(tensor)


# --- Python functions, element by element ---------------------------------------------------------


def _overwrite(self: Tensor, values: list[Any]) -> Tensor:
    """Store Python results without telling the version counter, as torch does."""
    m = self._m
    stored = [data_.number_as(v, m.dtype) if m.dtype.category < dtypes.FLOATING else v for v in values]
    host = data_.convert(np.array(stored, np.complex128 if m.dtype.is_complex else None).reshape(m.shape), m.dtype)
    strided.check_writable(self)
    strided.write(self, put(host, m.device), bump=False)
    return self


def _refuse_grad(fn: str, *tensors: Tensor) -> None:
    if any(requires_grad_of(t) for t in tensors):
        raise RuntimeError(f"Can't call {fn}() on Variable that requires grad. Use var.detach().{fn}() instead.")


@composite(function=False)
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by what a Python function makes of it; slow, and on the CPU only."""
    _refuse_grad("apply_", self)
    if self._m.device.type != "cpu":
        raise TypeError("apply_ is only implemented on CPU tensors")
    return _overwrite(self, [callable(v) for v in concrete(self, NO_STORAGE).reshape(-1).tolist()])


def _mapped(fn: str, self: Tensor, others: tuple[Any, ...], callable: Callable[..., Any]) -> Tensor:
    for i, other in enumerate(others):
        if not isinstance(other, Tensor):
            raise wrong(fn, "other" if len(others) == 1 else "xy"[i], "Tensor", other, i + 1)
    _refuse_grad(fn, self, *others)
    if self._m.device.type != "cpu":
        raise TypeError(f"{fn} is only implemented on CPU tensors")
    for other in others:
        if other._m.dtype is not self._m.dtype:
            names = [t._m.dtype.type_name for t in (self, other)]
            raise TypeError(f"{fn}: expected torch.{names[0]} for 'other' (got torch.{names[1]})")
    columns = [np.broadcast_to(concrete(t, NO_STORAGE), self._m.shape).reshape(-1).tolist() for t in (self, *others)]
    return _overwrite(self, [callable(*row) for row in zip(*columns)])


@composite(function=False)
def map_(self: Tensor, tensor: Any, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by a Python function of it and of another tensor's element."""
    return _mapped("map_", self, (tensor,), callable)


@composite(function=False)
def map2_(self: Tensor, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """`map_` with two other tensors."""
    return _mapped("map2_", self, (x, y), callable)
