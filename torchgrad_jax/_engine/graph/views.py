"""Making views: tensors that read another tensor's storage."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

from ..._core import events
from ..._core.arrays import shapes
from ..._core.arrays.meta import Meta, meta
from ..._core.errors import messages as errors
from ..._core.state import (
    CUT,
    DUAL,
    FAKE,
    FUNCTION_MODE,
    GRAD,
    INFERENCE,
    MODES,
    OBSERVED,
    PACKING,
    TRANSFORM,
    UNDER_JAX,
    WINDOWS,
)
from ..memory import strided
from ..memory.derivative_stops import stop_derivative
from ..memory.escapes import refuse_escape
from ..memory.strided import storage_offset
from ..memory.tensor import (
    CREATED_DEFAULT,
    CREATED_INFERENCE,
    CREATED_MULTI,
    CREATED_NO_GRAD,
    Alias,
    Extras,
    Tensor,
    Version,
    alias_of,
    born,
    check_counted,
    check_shareable,
    mark_inference,
    uncounted,
)
from ..run.trace import Call, Plan
from .grad_plan import GradPlan, grad_plan
from .history import (
    check_captured,
    check_inplace,
    complain_first,
    grad_fn_of,
    outreaching_call,
    requires_grad_of,
    window_plan,
)
from .node import accumulator, new_node, note_reshaped
from .record import begin_node, end_node, faked, no_grad, record


def make_view(
    src: Tensor,
    m: Meta,
    offset: int,
    *,
    creation: int = CREATED_DEFAULT,
    conj: bool = False,
    neg: bool = False,
    tracked: bool = True,
) -> Tensor:
    """A tensor reading `src`'s storage with another meta and offset.

    `tracked` views have a base that autograd knows; others (detach, .data) merely share storage.
    """
    al = src._al
    base = None
    if tracked:
        if src._x is not None:
            check_shareable(src)
        base = src if al is None or al.base is None else al.base
        if al is not None and al.base is not None and creation == CREATED_DEFAULT:
            creation = al.creation
    alias = Alias(offset, base, creation, src._vc.version)
    if al is not None:
        alias.conj, alias.neg = al.conj ^ conj, al.neg ^ neg
        if al.chain:
            alias.chain = (*al.chain, _step("AsStridedBackward0", m, alias))
    else:
        alias.conj, alias.neg = conj, neg
    return alias_of(src, m, alias)


def _step(name: str, m: Meta, al: Alias) -> tuple[Any, ...]:
    return (name, m, al.offset, al.conj, al.neg)


def _shifted(chain: tuple[Any, ...], m: Meta, al: Alias) -> tuple[Any, ...]:
    """The views to one that got another window in place: no step of its own where the last one can take it over."""
    name, last, offset, *_ = chain[-1]
    if name == "AsStridedBackward0" or (last == m and offset == al.offset):
        chain = chain[:-1]
    else:
        name = "AsStridedBackward0"
    return (*chain, _step(name, m, al))


def chain_to(src: Tensor, name: str, out: Tensor) -> tuple[Any, ...]:
    """The views from the base to `out`, made of `src` by an op that is more than `as_strided`."""
    al = src._al
    before = al.chain if al is not None else ()
    if al is not None and al.base is not None and not before:
        before = (_step("AsStridedBackward0", src._m, al),)
    return (*before, _step(name, out._m, out._al))


def view_creation(mode: int, multi: bool) -> int:
    """Under which circumstances a view is being made."""
    if mode & INFERENCE:
        return CREATED_INFERENCE
    if not mode & GRAD:
        return CREATED_NO_GRAD
    if multi and MODES.transposed is not None:
        multi = not MODES.transforming_levels.along_tangents_alone()
    return CREATED_MULTI if multi else CREATED_DEFAULT


def apply_view(call: Call, leaves: Sequence[Any]) -> Any:
    """Make the view(s) that `call` describes of its first leaf; nothing is computed."""
    if MODES.bits & OBSERVED and MODES.observers:
        return events.op(call.name, "op", leaves, lambda: _apply_view(call, leaves))
    return _apply_view(call, leaves)


def _apply_view(call: Call, leaves: Sequence[Any]) -> Any:
    if MODES.bits & FAKE:
        leaves = faked(call.name, leaves)
    try:
        views = _described(call, leaves[0]._m, leaves)
    except Exception:
        complain_first(leaves)
        raise
    return _make_views(views, call, leaves, MODES.bits)


class Views(NamedTuple):
    """The view, or the views, that a call makes of its first leaf: `x.t()` one, and `x.unbind()` several."""

    metas: tuple[Meta, ...]
    offsets: tuple[int, ...]
    """Of each, in its own elements, from the start of the leaf."""
    read_as: tuple[tuple[bool, bool], ...] | None
    """Of each, whether elements are conjugated and negated, where they are read as something else."""
    several: bool


def _described(call: Call, m: Meta, leaves: Sequence[Any]) -> Views:
    geometry = call.geometry(m, leaves)
    several = isinstance(geometry, list)
    each = geometry if several else [geometry]
    metas = tuple([meta(g.shape, g.dtype or m.dtype, m.device, g.strides) for g in each])
    changes = any(g.dtype is not None or g.conj or g.neg for g in each)
    read_as = tuple([(g.conj, g.neg) for g in each]) if changes else None
    return Views(metas, tuple([g.offset for g in each]), read_as, several)


def _make_views(views: Views, call: Call, leaves: Sequence[Any], mode: int) -> Any:
    """Make the views that a call describes of its first leaf, and record them."""
    src = leaves[0]
    inference = src._x is not None and src._x.inference
    start, creation, outs = storage_offset(src) * src._m.dtype.itemsize, view_creation(mode, views.several), []
    for m, offset, (conj, neg) in zip(views.metas, views.offsets, views.read_as or repeat((False, False))):
        at = start // m.dtype.itemsize + offset
        out = make_view(src, m, at, creation=creation, conj=conj, neg=neg, tracked=not inference)
        if views.read_as and not inference:
            out._al.chain = chain_to(src, call.node_name, out)  # type: ignore[union-attr] - a view has one
        outs.append(out)
    requires = not inference and requires_grad_of(src)
    if mode & GRAD and requires and outs and outs[0]._m.dtype.category >= 2:
        keys = (src._m, *[None if v is None else v.__class__ for v in leaves[1:]])
        gp = _recorded(call.view_plan(keys, views.metas, views.several), leaves, outs, mode)
        for out in outs:
            out._al.replay = gp.name  # type: ignore[union-attr]
    if mode > GRAD or inference:
        _finish(call, leaves, outs, mode)
    return tuple(outs) if views.several else outs[0]


def _recorded(plan: Plan, leaves: Sequence[Any], outs: Sequence[Tensor], mode: int) -> GradPlan:
    """Record views of the first leaf, and return with which gradient."""
    gp = plan.grads.get(1) or grad_plan(plan, 1)
    record(gp, leaves, outs, mode)
    return gp


def apply_view_inplace(call: Call, leaves: Sequence[Any]) -> Tensor:
    """Change how a tensor sees its own storage (``t_``, ``squeeze_`` ...): no element is touched."""
    if MODES.bits & OBSERVED and MODES.observers:
        return events.op(call.name + "_", "op", leaves, lambda: _apply_view_inplace(call, leaves))
    return _apply_view_inplace(call, leaves)


def _apply_view_inplace(call: Call, leaves: Sequence[Any]) -> Tensor:
    me = leaves[0]
    mode = MODES.bits
    requires = requires_grad_of(me)
    if MODES.transforms:
        check_captured(me, call.name + "_")
    if mode & GRAD and requires:
        check_inplace(me)
    tangent = MODES.tangents.moved_tangent(call, leaves) if mode & DUAL else None
    geometry = _geometry_inplace(call, leaves)
    m = meta(geometry.shape, me._m.dtype, me._m.device, geometry.strides)
    node = None
    if mode & GRAD and requires:
        keys = (me._m, *[None if v is None else v.__class__ for v in leaves[1:]])
        plan = call.view_plan(keys, (m,))
        node = begin_node(grad_plan(plan, 1), leaves, mode)
    if MODES.run.batch is not None:
        MODES.run.batch.record_move(me, call, leaves)
    return _become_view(me, m, storage_offset(me) + geometry.offset, node, tangent)


def _geometry_inplace(call: Call, leaves: Sequence[Any]) -> Any:
    """Errors that name the function name its in-place form."""
    try:
        return call.geometry(leaves[0]._m, leaves)
    except RuntimeError as e:
        named, said = f"{call.name}()", str(e)
        if not said.startswith(named):
            raise
        raise RuntimeError(f"{call.name}_(){said.removeprefix(named)}") from None


def _become_view(me: Tensor, m: Meta, offset: int, node: Any, tangent: Tensor | None) -> Tensor:
    """Give a tensor another view of its own storage; `node` is the record of that, if there is one."""
    mode = MODES.bits
    if mode & UNDER_JAX:
        refuse_escape([born(me)], [])
    MODES.run.uses.alter(me)
    al = me._al
    me._vc.version += 1
    alias = Alias(offset, None, CREATED_DEFAULT, me._vc.version)
    if al is not None:
        alias.base, alias.creation, alias.conj, alias.neg, alias.replay = (
            al.base,
            al.creation,
            al.conj,
            al.neg,
            al.replay,
        )
        if al.chain:
            alias.chain = _shifted(al.chain, m, alias)
    if node is None:  # unrecorded
        if alias.base is not None:
            alias.seen = al.seen  # type: ignore[union-attr] - the node is made again when looked at
        elif m.shape != me._m.shape:
            note_reshaped(me)
    me._m, me._al = m, alias
    check_counted(me)
    if node is not None:  # the hooks stay with the node before, that of retain_grad included
        end_node(node, (me,), mode)
    if tangent is not None:
        MODES.tangents.set_tangent(me, tangent)
    return me


def known_view(call: Call, m: Meta, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """What `fast_view` needs to make this view, or these views, again; the last is None where there is one slice."""
    views = _described(call, m, leaves)
    if views.several or views.read_as:
        return None, 0, call, tuple(leaves[1:]), views
    return views.metas[0], views.offsets[0], call, tuple(leaves[1:]), None


VIEW_MODES = GRAD | TRANSFORM | INFERENCE | PACKING | FUNCTION_MODE | WINDOWS
"""Modes in which views that were made before are made by `fast_view`."""


def fast_view(known: tuple[Any, ...], src: Tensor, mode: int) -> Any:
    """`apply_view` for views made before from the same meta, in no run that notes what it makes (see `VIEW_MODES`).

    `src` carries nothing special, or is an inference tensor in inference mode.
    """
    m, offset, call, tail, views = known
    if views is not None or src._x.__class__ is Extras:
        return _make_views(views or Views((m,), (offset,), None, False), call, (src, *tail), mode)
    creation = CREATED_DEFAULT if mode == GRAD else view_creation(mode, False)
    al = src._al
    t = object.__new__(Tensor)
    t._st = src._st
    t._vc = vc = src._vc
    t._m = m
    t._onr = 0
    t._g = t._acc = t._x = None
    if al is None:
        t._al = alias = Alias(offset, src, creation, vc.version)
        requires = src._rg
    else:
        base = al.base
        if base is None:
            base = src
        elif creation == CREATED_DEFAULT:
            creation = al.creation
        t._al = alias = Alias(al.offset + offset, base, creation, vc.version)
        alias.conj, alias.neg = al.conj, al.neg
        if al.chain:
            alias.chain = (*al.chain, _step("AsStridedBackward0", m, alias))
        requires = src._rg or requires_grad_of(src)
    t._fn, t._rg = None, False
    if mode & GRAD and requires and m.dtype.category >= 2:
        keys = (src._m, *map(type, tail))
        plan = call.plans.get(keys) or call.view_plan(keys, (m,))
        gp = plan.grads.get(1) or grad_plan(plan, 1)
        alias.replay = gp.name
        if mode & PACKING and gp.saves_tensors:
            record(gp, (src, *tail), (t,), mode)
            return t
        fn = src._fn if al is None else grad_fn_of(src)
        if fn is not None:
            edge: Any = (fn, src._onr)
        else:  # a view that requires grad through its base alone has no accumulator of its own
            edge = (accumulator(src), 0) if src._rg else None
        t._fn, t._rg = new_node(gp, (edge,), *gp.save(src, *tail)), True
    return t


def _finish(call: Call, leaves: Sequence[Any], outs: Sequence[Tensor], mode: int) -> None:
    src = leaves[0]
    if src._x is not None and src._x.inference:  # a view of a normal tensor stays one
        for t in outs:
            mark_inference(t)
            t._vc = t._vc if uncounted(src) else Version()
    if mode & CUT and not mode & GRAD:
        for t in outs:
            stop_derivative(t)
    if mode & DUAL:
        MODES.tangents.push_view_tangents(call, leaves, outs)
    if mode & OBSERVED and MODES.anomaly is not None:
        MODES.anomaly.op_ran(call, leaves, outs)


def _window_start(src: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> int:
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    at = storage_offset(src) if offset is None else offset
    if at < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {at}")
    item, available = src._m.dtype.itemsize, strided.room(src)
    need = at + shapes.storage_extent(size, stride) if 0 not in size else 0
    if need > available:
        raise RuntimeError(errors.window_out_of_bounds(size, stride, at, item, need, available))
    return at


def as_strided_view(src: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Tensor:
    """`as_strided`: any window of the storage, seen from `src` by autograd."""
    try:
        at = _window_start(src, size, stride, offset)
    except RuntimeError:
        complain_first((src,))
        raise
    mode = MODES.bits
    m = meta(size, src._m.dtype, src._m.device, stride)
    inference = src._x is not None and src._x.inference
    out = make_view(src, m, at, creation=view_creation(mode, False), tracked=not inference)
    if mode & GRAD and not inference and requires_grad_of(src) and m.dtype.category >= 2:
        relative = at - storage_offset(src)
        _recorded(window_plan(src._m, m, relative, "AsStridedBackward0"), (src, relative), (out,), mode)
    if src._x is not None and src._x.inference:
        mark_inference(out)
        out._vc = out._vc if uncounted(src) else Version()
    if mode & DUAL:
        tangent = MODES.tangents.tangent_of(src)
        if tangent is not None:
            MODES.bits = mode & ~DUAL
            try:
                relative = at - storage_offset(src)
                end = relative + shapes.storage_extent(size, stride)
                if relative < 0 or end > src._m.extent:
                    call = outreaching_call(src._m, m, relative, "AsStridedBackward0")
                    again = MODES.tangents.apply(call, (tangent, relative))
                else:
                    place = storage_offset(tangent) + relative
                    again = as_strided_view(tangent, size, stride, place)
                MODES.tangents.set_tangent(out, again)
            finally:
                MODES.bits = mode
    return out


def reinterpreted_view(src: Tensor, m: Meta, relative: int, conj: bool, neg: bool) -> Tensor:
    """A view of another dtype, conjugated or negated: `relative` elements of its own dtype from the start of `src`."""
    mode = MODES.bits
    start = storage_offset(src) * src._m.dtype.itemsize // m.dtype.itemsize
    creation = view_creation(mode, False)
    out = make_view(src, m, start + relative, creation=creation, conj=conj, neg=neg)
    out._al.chain = chain_to(src, "AsStridedBackward0", out)
    if mode & GRAD and requires_grad_of(src):
        plan = window_plan(src._m, m, relative, "AsStridedBackward0", conj, neg)
        _recorded(plan, (src, relative), (out,), mode)
    return out


def as_strided_inplace(me: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Tensor:
    """`as_strided_`: the tensor itself becomes any window of its storage."""
    mode = MODES.bits
    requires = mode & GRAD and requires_grad_of(me)
    if MODES.transforms:
        check_captured(me, "as_strided_")
    if requires:
        check_inplace(me)
    with no_grad():
        window = as_strided_view(me, size, stride, offset)
    tangent = MODES.tangents.tangent_of(window) if mode & DUAL else None
    at, node = storage_offset(window), None
    if requires:
        relative = at - storage_offset(me)
        plan = window_plan(me._m, window._m, relative, "AsStridedBackward1")
        node = begin_node(grad_plan(plan, 1), (me, relative), mode)
    return _become_view(me, window._m, at, node, tangent)
