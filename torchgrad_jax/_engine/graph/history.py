"""Which node a tensor belongs to now, and what in-place writes do to the graph.

Views get new nodes after a write to their base; a write to a view becomes a CopySlices of
the base.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._core import events
from ..._core.arrays.meta import Meta, meta
from ..._core.errors import messages as errors
from ..._core.jax.caches import CALLS, KERNELS
from ..._core.state import GRAD, MODES, OBSERVED
from ..._ops.aten import usual_overload
from ..memory import strided
from ..memory.strided import storage_offset
from ..memory.tensor import (
    CREATED_CUSTOM,
    CREATED_DEFAULT,
    CREATED_INFERENCE,
    CREATED_MULTI,
    CREATED_NO_GRAD,
    Tensor,
    watchers,
)
from ..run.kernel import Kernel, traced_later
from ..run.trace import Call, Plan
from .grad_plan import grad_plan
from .node import Node, accumulator, new_node, node_class

_CREATION_NAME = {
    CREATED_NO_GRAD: "no_grad",
    CREATED_MULTI: "multi",
    CREATED_INFERENCE: "inference",
    CREATED_CUSTOM: "custom",
}


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
    if al.creation != CREATED_DEFAULT:
        raise RuntimeError(_forbidden(t, indirect=True))
    _regenerate(t)
    return t._fn


def complain_first(leaves: Sequence[Any]) -> None:
    """Raise what the nodes of these tensors have to say: torch asks for them before it looks at other arguments."""
    if MODES.bits & GRAD:
        for t in leaves:
            if isinstance(t, Tensor):
                grad_fn_of(t)


def edge_of(t: Tensor) -> tuple[Any, int] | None:
    """Where a tensor's gradient goes: its node and output number, or its accumulator."""
    fn = t._fn if t._al is None else grad_fn_of(t)
    if fn is not None:
        return (fn, t._onr)
    # A view that requires grad through its base alone has no accumulator of its own.
    return (accumulator(t), 0) if t._rg or (MODES.traced and MODES.run.derived_outside(t)) else None


def is_tracked(t: Tensor) -> bool:
    """Whether a gradient goes from `t` to where it came from; views made without recording only say they require it."""
    if t._rg or t._al is None or not requires_grad_of(t):
        return t._rg
    return not MODES.bits & GRAD or grad_fn_of(t) is not None


def _forbidden(t: Tensor, indirect: bool) -> str:
    producer = t._fn.name() if t._fn is not None else None
    return errors.forbidden_view_write(producer, t._onr, _CREATION_NAME[t._al.creation], indirect)


def _regenerate(t: Tensor) -> None:
    """Make a new node for the view: as_strided of the base as it is now."""
    al, base = t._al, t._al.base
    edge = edge_of(base)
    if al.chain:
        node = _replayed(edge, base, al.chain)
    else:
        plain = t._m.dtype is base._m.dtype
        name = "AsStridedBackward0" if plain else (al.replay or "AsStridedBackward0")
        node = view_node(edge, base, t, name)
    t._fn, t._onr, t._rg = node, 0, True
    al.seen = t._vc.version
    move_hooks(t)


def _shared_out(x: Any, m: Meta) -> Any:
    """Elements in memory order; those that several indices lead to divide their gradient among these."""
    extent = m.extent
    places = strided.places_in(m.shape, m.strides)
    count = np.bincount(places.reshape(-1), minlength=extent)
    if count.max(initial=0) < 2:
        return strided.to_flat(x, m)
    return jnp.zeros(extent, x.dtype).at[places].add(x) / jnp.asarray(np.maximum(count, 1), x.dtype)


@CALLS.memo()
def as_strided_call(base: Meta, view: Meta, conj: bool, neg: bool, name: str) -> Call:
    to_flat = strided.to_flat if base.dense else _shared_out

    def run(leaves: Sequence[Any]) -> Any:
        flat = to_flat(leaves[0], base)
        return strided.view_from(flat, view, leaves[1], conj, neg)

    return Call("as_strided", run, node_name=name, argnames=("self", "storage_offset"))


@CALLS.memo()
def outreaching_call(src: Meta, view: Meta, relative: int, name: str) -> Call:
    """`as_strided` to elements that the source does not have; they get and give no gradient."""
    low = min(relative, 0)
    ends = (src.extent, relative + view.extent)

    def run(leaves: Sequence[Any]) -> Any:
        flat = jnp.zeros(max(ends) - low, src.dtype.np)
        flat = strided.scatter(flat, src.shape, src.strides, -low, leaves[0], add=True)
        return strided.gather(flat, view.shape, view.strides, relative - low)

    return Call("as_strided", run, node_name=name, argnames=("self", "storage_offset"))


def _reaches_out(src: Meta, m: Meta, relative: int) -> bool:
    """Return whether a window has elements that lie before or behind those of its source."""
    return m.numel > 0 and (relative < 0 or relative + m.extent > src.extent)


def window_plan(src: Meta, m: Meta, relative: int, name: str, conj: bool = False, neg: bool = False) -> Any:
    """The plan of a window `m`, `relative` elements from the start of `src`."""
    if m.dtype is src.dtype and not (conj or neg) and _reaches_out(src, m, relative):
        call = outreaching_call(src, m, relative, name)
    else:
        call = as_strided_call(src, m, conj, neg, name)
    keys = (src, int)
    return call.view_plan(keys, (m,))


def offset_within(base: Tensor, t: Tensor) -> int:
    """Where a view begins, in elements of its own from the start of its base."""
    if base._al is None and t._m.dtype is base._m.dtype:
        return t._al.offset
    mine, theirs = t._m.dtype.itemsize, base._m.dtype.itemsize
    return storage_offset(t) - storage_offset(base) * theirs // mine


def mirrored(base: Tensor, t: Tensor) -> tuple[bool, bool]:
    """Return whether a view of `base` reads the conjugates, and the negatives, of what `base` itself reads."""
    own, al = base._al, t._al
    return (al.conj, al.neg) if own is None else (al.conj ^ own.conj, al.neg ^ own.neg)


@KERNELS.memo(0)
def _window_gradient(src: Meta, m: Meta, relative: int, conj: bool, neg: bool, name: str) -> Any:
    return grad_plan(window_plan(src, m, relative, name, conj, neg), 1)


def _window(edge: Any, src: Meta, m: Meta, offset: int, conj: bool, neg: bool, name: str) -> Node:
    """The node of a view with meta `m`, `offset` elements of its own from the start of `src`."""
    lost = m.dtype is src.dtype and not (conj or neg) and _reaches_out(src, m, offset)
    gp = _window_gradient(src, m, offset if lost else 0, conj, neg, name)
    saved = (offset,) if gp.saved_in else ()
    return new_node(gp, (edge,), saved, (0,) * len(saved))


def view_node(edge: Any, base: Tensor, t: Tensor, name: str) -> Node:
    """A node with that name for `t`, which is a view of `base`."""
    return _window(edge, base._m, t._m, offset_within(base, t), *mirrored(base, t), name)


def written_part(node: Node) -> Node | None:
    """For a write to a part of a base: the node of the write alone, which the part's results come from."""
    saved = node.saved
    return saved[-1] if saved and isinstance(node.gp, CopySlicesPlan) else None


def _replayed(edge: Any, base: Tensor, chain: Sequence[tuple[Any, ...]]) -> Node:
    """The nodes of the views that lead from a base to a view of it; the last one."""
    own = base._al
    src, at = base._m, storage_offset(base)
    conj, neg = (own.conj, own.neg) if own is not None else (False, False)
    for name, m, offset, c, n in chain:
        relative = offset - at * src.dtype.itemsize // m.dtype.itemsize
        node = _window(edge, src, m, relative, conj ^ c, neg ^ n, name)
        edge, src, at, conj, neg = (node, 0), m, offset, c, n
    return node


# --- in-place writes ------------------------------------------------------------------------------


def is_captured(t: Tensor) -> bool:
    """Return whether a function that is being transformed neither made a tensor's storage nor was given it."""
    st = t._st
    return bool(st.born < MODES.level and id(st) not in MODES.given)


def check_captured(t: Tensor, name: str) -> None:
    """Refuse writes inside of a transform of `func` to what the function did not make and was not given."""
    if is_captured(t):
        raise RuntimeError(errors.CAPTURED.format(usual_overload(name)))


def check_inplace(t: Tensor, recording: bool = True) -> None:
    """Refuse writes that autograd cannot follow: to leaves, to views of leaves, to some views."""
    al = t._al
    if al is not None and al.base is not None:
        if al.creation != CREATED_DEFAULT and (recording or requires_grad_of(t)):
            raise RuntimeError(_forbidden(t, indirect=False))
        if requires_grad_of(t):
            if _is_leaf(al.base):
                MODES.run.uses.depend_on_leaf(al.base)
                raise RuntimeError(errors.LEAF_VIEW_IN_PLACE)
            if MODES.transposed is not None and MODES.transforming_levels.along_tangents_alone():
                grad_fn_of(t)
            if t._fn is None:  # its base got a node, and nobody looked at the view since
                raise RuntimeError(errors.LEAF_IN_PLACE)
    elif t._rg and _is_leaf(t):
        MODES.run.uses.depend_on_leaf(t)
        raise RuntimeError(errors.LEAF_IN_PLACE)


def _is_leaf(t: Tensor) -> bool:
    """Return whether a tensor that requires grad is a leaf: an example of a batch is one if the batch is."""
    if grad_fn_of(t) is not None:
        return False
    batch = MODES.run.batch
    given = None if batch is None else batch.given_as(t)
    if given is None or given[-1] is not t:
        return True
    with MODES.run.outside():
        return _is_leaf(given[1])


def rebase_history(t: Tensor, node: Node) -> None:
    """Attach a tensor that was just written to to the node of that write."""
    al = t._al
    if al is None or al.base is None:
        t._fn, t._onr, t._rg = node, 0, True
        move_hooks(t)
        return
    base, m = al.base, t._m
    whole = base._m
    if plain := base._al is None and m.dtype is whole.dtype:
        relative, conj, neg = al.offset, al.conj, al.neg
    else:
        relative, (conj, neg) = offset_within(base, t), mirrored(base, t)
    lost = relative if m.dtype is whole.dtype and _reaches_out(whole, m, relative) else None
    key = (node.gp, whole, m, conj, neg, lost)
    gp = _COPY_SLICES.young.get(key) or copy_slices_plan(*key)
    rest = node.edges[gp.has_self_edge :]
    # While a write is not freed, it has its own node, and with it the one that the part had before.
    saved = (relative, *node.saved, node)
    outer = new_node(gp, (edge_of(base), *rest), saved, (0, *node.vers))
    if MODES.bits & OBSERVED:
        events.node_recorded(outer)
    base._fn, base._onr, base._rg = outer, 0, True
    move_hooks(base)
    if base._al is not None:
        base._al.seen = base._vc.version
    if plain and lost is None and not al.chain:
        part = gp.part
        kept = (relative,) if part.saved_in else ()
        t._fn, t._onr, t._rg = new_node(part, ((outer, 0),), kept, (0,) * len(kept)), 0, True
        al.seen = t._vc.version
        move_hooks(t)
    else:
        _regenerate(t)
    if node.gp.saved_out and t._fn is not None:
        _NODES_OF_WRITTEN_PARTS[outer] = weakref.ref(t._fn)


_NODES_OF_WRITTEN_PARTS: weakref.WeakKeyDictionary[Node, Any] = weakref.WeakKeyDictionary()


def node_of_written_part(node: Node) -> Node | None:
    """After an in-place op on a view: the view's own node, if it is still alive. The op saved its output there."""
    node_ref = _NODES_OF_WRITTEN_PARTS.get(node)
    return None if node_ref is None else node_ref()


def move_hooks(t: Tensor) -> None:
    """A tensor at a new node: hooks stay with the old one, and that of retain_grad comes along."""
    if t._x is not None:
        t._x.hooks = None
        if t._x.retains is not None:
            retain_at_node(t)


def retain_at_node(t: Tensor) -> None:
    """Put the hook of retain_grad on the tensor's node, and take it away from where it was."""
    x = watchers(t)
    if x.retains is not None:
        at, nr = x.retains
        before = at()
        if before is not None and before.extras is not None:
            before.extras.retains.pop(nr, None)
    x.retains = weakref.ref(t._fn), t._onr
    t._fn._extras().retains[t._onr] = weakref.ref(t)


_COPY_SLICES = KERNELS.cache()


def copy_slices_plan(
    inner: Any, base: Meta, view: Meta, conj: bool, neg: bool, lost: int | None = None
) -> CopySlicesPlan:
    """The gradient plan of a write `inner` to a part of `base`.

    `lost` is where the part begins if it is none, since the base or the view got other memory.
    """
    key = (inner, base, view, conj, neg, lost)
    gp = _COPY_SLICES.get(key)
    if gp is None:
        gp = CopySlicesPlan(inner, base, view, conj, neg)
        if lost is not None:
            need = lost + view.extent
            have = base.extent
            gp.complaint = errors.window_out_of_bounds(view.shape, view.strides, lost, view.dtype.itemsize, need, have)
        gp = KERNELS.plan(_COPY_SLICES, key, gp)
    return gp


def forbid_gradient(t: Tensor) -> None:
    """Let a backward pass refuse the write just made to a view that overlaps itself, as torch does."""
    node = t._al.base._fn if t._al is not None and t._al.base is not None else None
    if node is not None and isinstance(node.gp, CopySlicesPlan):
        of = node.gp
        node.gp = CopySlicesPlan(of.inner, of.base, of.view, of.conj, of.neg)
        node.gp.forbidden = True


class _CopySlicesOuts:
    """The part of a Plan that the engine asks for: the one output is the base."""

    def __init__(self, base: Meta, inner: Plan, others: Sequence[Any]) -> None:
        self.outs = (base,)
        self.diff = (0,)
        self.single = True
        self.call = inner.call
        self.keys = (base, *others)


class CopySlicesPlan:
    """Gradient of writing to a view, seen from its base.

    The base's incoming gradient is cut where the view lies; that piece goes through the write's own
    gradient; what comes back for the overwritten values is put in its place.
    """

    def __init__(self, inner: Any, base: Meta, view: Meta, conj: bool, neg: bool) -> None:
        self.inner, self.base, self.view, self.conj, self.neg = inner, base, view, conj, neg
        self.name = "CopySlices"
        self.node_class = node_class("CopySlices")
        self.has_self = bool(inner.mask & 1)
        self.has_self_edge = inner.edge_leaves[:1] == (0,)
        others = [i for i in inner.inputs if i != 0]
        self.plan = _CopySlicesOuts(base, inner.plan, [inner.plan.keys[i] for i in others])
        self.inputs = tuple(range(1 + len(others)))  # position 0 is the base
        self.mask = (1 << len(self.inputs)) - 1
        rest = inner.edge_leaves[self.has_self_edge :]
        self.edge_leaves = (0, *[1 + others.index(i) if i in others else -1 for i in rest])
        self.edge_grads = self.edge_leaves
        self.saved_in = (0, *[1 + i for i in inner.saved_in])
        self.saved_out = inner.saved_out
        self.saves_tensors = True  # a pass frees the write itself, whatever that saved
        self.metas = tuple([meta(k.shape, k.dtype, k.device) for k in self.plan.keys])
        self.sources = (None,) * len(self.inputs)
        self.vjps: dict[Any, Kernel] = {}
        self.fused = 0
        self.complaint, self.forbidden = "", False
        self.weight = 0

    def forget(self) -> None:
        """Let go of its kernels, which refer to it."""
        self.vjps.clear()

    raises = alone = False
    unpacks = False  # torch looks at the gradient before it unpacks

    def in_numpy(self) -> bool:
        """Nothing is known of the write inside."""
        return False

    def fn(self, cts: Sequence[Any], saved: Sequence[Any], wanted: Sequence[int] | None = None) -> list[Any]:
        """Gradients of the base and of the write's other inputs."""
        offset, rest = saved[0], saved[1:]
        (g,) = cts
        if g is None:
            g = jnp.zeros(self.base.shape, self.base.dtype.np)
        self._complain(wanted is None or 0 in wanted)
        flat = strided.to_flat(g, self.base)
        piece = strided.view_from(flat, self.view, offset, self.conj, self.neg)
        grads = list(self.inner.fn([piece], rest))
        mine = grads.pop(0) if self.has_self else jnp.zeros(self.view.shape, self.view.dtype.np)
        new = strided.replaced(g, self.base, self.view, offset, self.conj, self.neg, mine)
        out = [new, *grads]
        return out if wanted is None else [out[w] for w in wanted]

    def vjp(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None = None) -> Kernel:
        """Compiled ``(ct, *saved) -> gradients``."""
        kernel = self.vjps.get(wanted)
        if kernel is None:

            def copy_slices_vjp(*args: Any) -> Any:
                return self.fn(args[:1], args[1:], wanted)

            kernel = self.vjps[wanted] = traced_later(copy_slices_vjp, self.base.device, weakref.ref(self))
        return kernel

    @functools.cached_property
    def part(self) -> Any:
        """The plan of the view's node after a write, where the view has the base's dtype and lies in it."""
        return _window_gradient(self.base, self.view, 0, self.conj, self.neg, "AsStridedBackward0")

    @functools.cached_property
    def cut(self) -> Call:
        """The part of the base's gradient that the write gets, as an op of its own."""

        def run(leaves: Sequence[Any]) -> Any:
            self._complain(False)
            flat = strided.to_flat(leaves[0], self.base)
            return strided.view_from(flat, self.view, leaves[1], self.conj, self.neg)

        return Call("copy_slices_part", run, node_name="CloneBackward0")

    @functools.cached_property
    def put(self) -> Call:
        """The base's gradient from the incoming one and what came back from the write, as an op of its own."""

        def run(leaves: Sequence[Any]) -> Any:
            self._complain(True)
            g, offset, mine = leaves
            if mine is None:
                mine = jnp.zeros(self.view.shape, self.view.dtype.np)
            return strided.replaced(g, self.base, self.view, offset, self.conj, self.neg, mine)

        return Call("copy_slices_backward", run, node_name="CopySlices")

    def _complain(self, writes: bool) -> None:
        """Raise what torch does when it takes a piece of the gradient, and when it writes the base's to it."""
        if self.complaint:
            raise RuntimeError(self.complaint)
        if writes and (self.forbidden or self.view.overlaps):
            raise RuntimeError(errors.OVERLAP)
