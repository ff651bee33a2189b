"""Views and what in-place writes do to the graph: CopySlices, rebasing, and who may write where."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._core import errors, shapes
from .._core.meta import Meta, meta
from .._core.state import DUAL, GRAD, INFERENCE, MODES, OBSERVED, next_sequence_nr
from . import strided
from .node import Node, accumulator, node_class
from .tensor import (
    CREATED_CUSTOM,
    CREATED_DEFAULT,
    CREATED_INFERENCE,
    CREATED_MULTI,
    CREATED_NO_GRAD,
    Alias,
    Tensor,
    alias_of,
    extras,
)
from .trace import FRESH, PASSED, Call, Plan, ViewPlan

_CREATION_NAME = {
    CREATED_NO_GRAD: "no_grad", CREATED_MULTI: "multi", CREATED_INFERENCE: "inference",
    CREATED_CUSTOM: "custom", 5: "no_grad_multi",
}  # fmt: skip
CREATED_NO_GRAD_MULTI = 5


def make_view(
    src: Tensor, m: Meta, offset: int, *, creation: int = CREATED_DEFAULT, conj: bool = False,
    neg: bool = False, tracked: bool = True,
) -> Tensor:  # fmt: skip
    """A tensor reading `src`'s storage with another meta and offset.

    `tracked` views have a base that autograd knows; others (detach, .data) merely share storage.
    """
    al = src._al
    base = None
    if tracked:
        base = src if al is None or al.base is None else al.base
        if al is not None and al.base is not None and creation == CREATED_DEFAULT:
            creation = al.creation
    alias = Alias(offset, base, creation, src._vc.version)
    if al is not None:
        alias.conj, alias.neg = al.conj ^ conj, al.neg ^ neg
    else:
        alias.conj, alias.neg = conj, neg
    return alias_of(src, m, alias)


def storage_offset(t: Tensor) -> int:
    """Elements from the start of the storage to the tensor's first element."""
    return 0 if t._al is None else t._al.offset


def view_creation(mode: int, multi: bool) -> int:
    """Under which circumstances a view is being made."""
    if mode & INFERENCE:
        return CREATED_INFERENCE
    if not mode & GRAD:
        return CREATED_NO_GRAD_MULTI if multi else CREATED_NO_GRAD
    return CREATED_MULTI if multi else CREATED_DEFAULT


def apply_view(call: Call, leaves: Sequence[Any]) -> Any:
    """Make the view(s) that `call` describes of its first leaf; nothing is computed."""
    src = leaves[0]
    m = src._m
    mode = MODES.bits
    inference = src._x is not None and src._x.inference
    found = call.geometry(m, leaves)
    multi = isinstance(found, list)
    offset = storage_offset(src)
    outs = []
    for g in found if multi else (found,):
        dt = g.dtype or m.dtype
        scaled = offset * m.dtype.itemsize // dt.itemsize if dt is not m.dtype else offset
        out_meta = meta(g.shape, dt, m.device, g.strides)
        outs.append(
            make_view(
                src, out_meta, scaled + g.offset, creation=view_creation(mode, multi), conj=g.conj, neg=g.neg,
                tracked=not inference,
            )
        )  # fmt: skip
    requires = not inference and src._rg if src._al is None else requires_grad_of(src)
    if mode & GRAD and requires and outs and outs[0]._m.dtype.category >= 2:
        keys = (m, *[None if v is None else v.__class__ for v in leaves[1:]])
        plan = call.plans.get(keys)
        if plan is None:
            plan = call.plans[keys] = ViewPlan(call, keys, tuple(t._m for t in outs), multi)
        from .record import record

        record(plan.grad_plan(1), leaves, outs, mode)
        for t in outs:
            t._al.replay = plan.grad_plan(1).name
    if mode > GRAD or inference:
        _finish(call, leaves, outs, mode)
    return tuple(outs) if multi else outs[0]


def known_view(call: Call, m: Meta, leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """What `fast_view` needs to make this view again, when it is an ordinary single one."""
    found = call.geometry(m, leaves)
    if isinstance(found, list) or found.dtype is not None or found.conj or found.neg:
        return None
    return meta(found.shape, m.dtype, m.device, found.strides), found.offset, call, tuple(leaves[1:])


def fast_view(known: tuple[Any, ...], src: Tensor, mode: int) -> Tensor:
    """`apply_view` for a view made before from the same meta, with no rare mode on (mode 0 or 1)."""
    m, offset, call, tail = known
    al = src._al
    t = object.__new__(Tensor)
    t._st = src._st
    t._vc = vc = src._vc
    t._m = m
    t._onr = 0
    t._g = t._acc = t._x = None
    if al is None:
        t._al = alias = Alias(offset, src, CREATED_DEFAULT if mode else CREATED_NO_GRAD, vc.version)
        requires = src._rg
    else:
        base = al.base
        creation = CREATED_DEFAULT if mode else CREATED_NO_GRAD
        if base is None:
            base = src
        elif mode:
            creation = al.creation
        t._al = alias = Alias(al.offset + offset, base, creation, vc.version)
        alias.conj, alias.neg = al.conj, al.neg
        requires = src._rg or requires_grad_of(src)
    if mode and requires and m.dtype.category >= 2:
        keys = (src._m, *[v.__class__ for v in tail])
        plan = call.plans.get(keys)
        if plan is None:
            plan = call.plans[keys] = ViewPlan(call, keys, (m,), False)
        gp = plan.grads.get(1) or plan.grad_plan(1)
        n = object.__new__(gp.node_class)
        n.gp = gp
        fn = src._fn if al is None else grad_fn_of(src)
        n.edges = ((fn, src._onr) if fn is not None else (accumulator(src), 0),)
        n.saved, n.vers = gp.save(src, *tail)
        n.seq = next_sequence_nr()
        n.extras = None
        t._fn, t._rg = n, True
        alias.replay = gp.name
    else:
        t._fn, t._rg = None, False
    return t


def _finish(call: Call, leaves: Sequence[Any], outs: Sequence[Tensor], mode: int) -> None:
    src = leaves[0]
    if src._x is not None and src._x.inference:  # a view of a normal tensor stays one
        for t in outs:
            extras(t).inference = True
    if mode & DUAL:
        from .dual import push_view_tangents

        push_view_tangents(call, leaves, outs)
    if mode & OBSERVED and MODES.anomaly is not None:
        MODES.anomaly.op_ran(call, leaves, outs)


# --- which node a view belongs to now -------------------------------------------------------------


def requires_grad_of(t: Tensor) -> bool:
    """A view requires grad when it or its base does."""
    if t._rg:
        return True
    base = t._al.base if t._al is not None else None
    return base is not None and base._rg and t._m.dtype.category >= 2


def grad_fn_of(t: Tensor) -> Any:
    """A tensor's node; a view whose base was written to gets a fresh one from the base."""
    al = t._al
    if al is None or al.base is None:
        return t._fn
    now = t._vc.version
    if al.seen == now:
        return t._fn
    base = al.base
    if t._fn is None and not base._rg:
        return None
    if not base._rg:
        return t._fn
    if al.creation != CREATED_DEFAULT:
        raise RuntimeError(_forbidden(t, indirect=True))
    _regenerate(t)
    return t._fn


def _forbidden(t: Tensor, indirect: bool) -> str:
    producer = type(t._fn).__name__ if t._fn is not None else "(unknown)"
    return errors.forbidden_view_write(producer, t._onr, _CREATION_NAME[t._al.creation], indirect)


def _regenerate(t: Tensor) -> None:
    """Make the view's node anew: as_strided of the base as it is now."""
    from .record import edge_of

    al, base = t._al, t._al.base
    gp, numbers = _as_strided_grad_plan(base, t)
    node = object.__new__(gp.node_class)
    node.gp = gp
    node.edges = (edge_of(base),)
    node.saved = numbers
    node.vers = (0,) * len(numbers)
    node.seq = next_sequence_nr()
    node.extras = None
    old, nr = t._fn, t._onr
    t._fn, t._onr, t._rg = node, 0, True
    al.seen = t._vc.version
    _move_retained(t, old, nr)


@functools.cache
def _as_strided_call(base: Meta, view: Meta, conj: bool, neg: bool, name: str) -> Call:
    def run(leaves: Sequence[Any]) -> Any:
        return strided.view_from(strided.to_flat(leaves[0], base), view, leaves[1], conj, neg)

    call = Call("as_strided", run, node_name=name, argnames=("self", "storage_offset"))
    call.grad_facts = (False, 1)
    return call


@functools.cache
def _outreaching_call(src: Meta, view: Meta, relative: int) -> Call:
    """`as_strided` to elements that the source does not have; they get and give no gradient."""
    low = min(relative, 0)
    ends = (shapes.storage_extent(src.shape, src.strides), relative + shapes.storage_extent(view.shape, view.strides))

    def run(leaves: Sequence[Any]) -> Any:
        flat = jnp.zeros(max(ends) - low, src.dtype.np)
        flat = strided.scatter(flat, src.shape, src.strides, -low, leaves[0], add=True)
        return strided.gather(flat, view.shape, view.strides, relative - low)

    call = Call("as_strided", run, node_name="AsStridedBackward0", argnames=("self", "storage_offset"))
    call.grad_facts = (False, 1)
    return call


def _relative(base: Tensor, t: Tensor) -> int:
    mine, theirs = t._m.dtype.itemsize, base._m.dtype.itemsize
    return storage_offset(t) - storage_offset(base) * theirs // mine


def _as_strided_grad_plan(base: Tensor, t: Tensor) -> tuple[Any, tuple[Any, ...]]:
    al = t._al
    plain = t._m.dtype is base._m.dtype and not al.conj and not al.neg
    name = "AsStridedBackward0" if plain else (al.replay or "AsStridedBackward0")
    call = _as_strided_call(base._m, t._m, al.conj, al.neg, name)
    keys = (base._m, int)
    plan = call.plans.get(keys)
    if plan is None:
        plan = call.plans[keys] = ViewPlan(call, keys, (t._m,), False)
    gp = plan.grad_plan(1)
    return gp, (_relative(base, t),) if gp.saved_in else ()


# --- in-place writes ------------------------------------------------------------------------------


def check_inplace(t: Tensor, recording: bool = True) -> None:
    """Refuse writes that autograd cannot follow: to leaves, to views of leaves, to some views."""
    al = t._al
    if al is not None and al.base is not None:
        if al.creation != CREATED_DEFAULT and (recording or requires_grad_of(t)):
            raise RuntimeError(_forbidden(t, indirect=False))
        if requires_grad_of(t) and grad_fn_of(al.base) is None:
            raise RuntimeError(errors.LEAF_VIEW_IN_PLACE)
    elif t._rg and t._fn is None:
        raise RuntimeError(errors.LEAF_IN_PLACE)


def rebase_history(t: Tensor, node: Node) -> None:
    """Attach a tensor that was just written to to the node of that write."""
    al = t._al
    if al is None or al.base is None:
        old, nr = t._fn, t._onr
        t._fn, t._onr, t._rg = node, 0, True
        _move_retained(t, old, nr)
        return
    base = al.base
    from .record import edge_of

    gp = copy_slices_plan(node.gp, base._m, t._m, al.conj, al.neg)
    outer = object.__new__(gp.node_class)
    outer.gp = gp
    first = edge_of(base)
    rest = node.edges[1:] if node.gp.edge_leaves[:1] == (0,) else node.edges
    outer.edges = (first, *rest)
    outer.saved = (_relative(base, t), *node.saved)
    outer.vers = (0, *node.vers)
    outer.seq = next_sequence_nr()
    outer.extras = None
    if MODES.bits & OBSERVED and MODES.anomaly is not None:
        MODES.anomaly.node_recorded(outer)
    old, nr = base._fn, base._onr
    base._fn, base._onr, base._rg = outer, 0, True
    _move_retained(base, old, nr)
    if base._al is not None:
        base._al.seen = base._vc.version
    _regenerate(t)


def _move_retained(t: Tensor, old: Any, nr: int) -> None:
    """Hooks that retain_grad put on the old node follow the tensor to its new one."""
    x = t._x
    if x is not None and x.retains:
        if old is not None and old.extras is not None:
            old.extras.retains.pop(nr, None)
        t._fn._extras().retains[t._onr] = weakref.ref(t)


_COPY_SLICES: dict[Any, Any] = {}


def copy_slices_plan(inner: Any, base: Meta, view: Meta, conj: bool, neg: bool) -> CopySlicesPlan:
    """The gradient plan of a write `inner` to a part of `base`."""
    key = (inner, base, view, conj, neg)
    found = _COPY_SLICES.get(key)
    if found is None:
        found = _COPY_SLICES[key] = CopySlicesPlan(inner, base, view, conj, neg)
    return found


class _CopySlicesOuts:
    """The part of a Plan that the engine asks for: the one output is the base."""

    def __init__(self, base: Meta, inner: Plan) -> None:
        self.outs = (base,)
        self.diff = (0,)
        self.single = True
        self.call = inner.call
        self.keys = (base,)


class CopySlicesPlan:
    """Gradient of writing to a view, seen from its base.

    The base's incoming gradient is cut where the view lies; that piece goes through the write's own
    gradient; what comes back for the overwritten values is put in its place.
    """

    def __init__(self, inner: Any, base: Meta, view: Meta, conj: bool, neg: bool) -> None:
        self.inner, self.base, self.view, self.conj, self.neg = inner, base, view, conj, neg
        self.plan = _CopySlicesOuts(base, inner.plan)
        self.name = "CopySlices"
        self.node_class = node_class("CopySlices")
        self.has_self = bool(inner.mask & 1)
        others = [i for i in inner.inputs if i != 0]
        self.inputs = tuple(range(1 + len(others)))  # position 0: the base
        self.mask = (1 << len(self.inputs)) - 1
        rest = inner.edge_leaves[1:] if inner.edge_leaves[:1] == (0,) else inner.edge_leaves
        self.edge_leaves = (0, *[1 + others.index(i) if i in others else -1 for i in rest])
        self.edge_grads = self.edge_leaves
        self.saved_in = (0, *[1 + i for i in inner.saved_in])
        self.saved_out = inner.saved_out
        self.saves_tensors = True  # the write itself is freed, whatever it saved
        self.vjps: dict[Any, Any] = {}
        self.calls: dict[Any, Any] = {}
        self.fused = 0

    def describe(self, cts: tuple[Meta | None, ...]) -> tuple[tuple[Meta, int, int], ...]:
        """Layouts of the gradients: the base's was copied and then written to once."""
        piece = meta(self.view.shape, self.view.dtype, self.view.device, self.view.strides)
        # What the write passes on is a copy of its piece, not the gradient that came to the base.
        rest = [(m, FRESH if kind == PASSED else kind, v) for m, kind, v in self.inner.describe((piece,))]
        if self.has_self:
            rest.pop(0)
        b = self.base
        return ((b if b.dense else meta(b.shape, b.dtype, b.device)), FRESH, 2), *rest

    def fn(self, cts: Sequence[Any], saved: Sequence[Any], wanted: Sequence[int] | None = None) -> list[Any]:
        """Gradients of the base and of the write's other inputs."""
        offset, rest = saved[0], saved[1:]
        (g,) = cts
        if g is None:
            g = jnp.zeros(self.base.shape, self.base.dtype.np)
        flat = strided.to_flat(g, self.base)
        piece = strided.view_from(flat, self.view, offset, self.conj, self.neg)
        grads = list(self.inner.fn([piece], rest))
        mine = grads.pop(0) if self.has_self else jnp.zeros(self.view.shape, self.view.dtype.np)
        new = strided.from_flat(
            strided.view_into(flat, self.view, offset, self.conj, self.neg, mine), self.base
        )
        out = [new, *grads]
        return out if wanted is None else [out[w] for w in wanted]

    def vjp(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None = None) -> Any:
        """Compiled ``(ct, *saved) -> gradients``."""
        found = self.vjps.get(wanted)
        if found is None:

            def copy_slices_vjp(*args: Any) -> Any:
                return self.fn(args[:1], args[1:], wanted)

            found = self.vjps[wanted] = jax.jit(copy_slices_vjp)
        return found

    def call(self, which: int, present: tuple[bool, ...]) -> Any:
        """One gradient as an op of its own."""
        found = self.calls.get(which)
        if found is None:

            def run(leaves: Sequence[Any]) -> Any:
                return self.fn(leaves[:1], leaves[1:], (which,))[0]

            call = Call("copy_slices_backward", run, node_name="CopySlicesBackward0")
            found = self.calls[which] = (call, self.saved_in, self.saved_out, (True,))
        return found


def as_strided_view(
    src: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None
) -> Tensor:
    """`as_strided`: any window of the storage, seen from `src` by autograd."""
    from .record import record

    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    at = storage_offset(src) if offset is None else offset
    if at < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {at}")
    store = src._st.meta
    item = src._m.dtype.itemsize
    available = strided.elements(store) * store.dtype.itemsize // item
    need = at + shapes.storage_extent(size, stride) if 0 not in size else 0
    if need > available:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {at}, and itemsize {item} "
            f"requiring a storage size of {need * item} are out of bounds for storage of size {available * item}"
        )
    mode = MODES.bits
    m = meta(size, src._m.dtype, src._m.device, stride)
    inference = src._x is not None and src._x.inference
    out = make_view(src, m, at, creation=view_creation(mode, False), tracked=not inference)
    if mode & GRAD and not inference and requires_grad_of(src) and m.dtype.category >= 2:
        relative = at - storage_offset(src)
        span = shapes.storage_extent(src._m.shape, src._m.strides)
        if relative < 0 or relative + shapes.storage_extent(size, stride) > span:
            call = _outreaching_call(src._m, m, relative)
        else:
            call = _as_strided_call(src._m, m, False, False, "AsStridedBackward0")
        keys = (src._m, int)
        plan = call.plans.get(keys)
        if plan is None:
            plan = call.plans[keys] = ViewPlan(call, keys, (m,), False)
        record(plan.grad_plan(1), (src, relative), (out,), mode)
    if src._x is not None and src._x.inference:
        extras(out).inference = True
    if mode & DUAL:
        from .dual import set_tangent, tangent_of

        tangent = tangent_of(src)
        if tangent is not None:
            MODES.bits = mode & ~DUAL
            try:
                relative = at - storage_offset(src)
                set_tangent(out, as_strided_view(tangent, size, stride, storage_offset(tangent) + relative))
            finally:
                MODES.bits = mode
    return out
