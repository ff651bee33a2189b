"""Forward mode: tangents that ride along on tensors.

An op with a tangent input applies its jvp as a recorded op, so forward-over-reverse works. The
tangent of a view is the same view of the tangent, so that writes to one are seen by the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.transfer import filled
from ..._core.errors import messages as errors
from ..._core.jax.caches import CALLS
from ..._core.signals import uninterrupted
from ..._core.state import DUAL, INFERENCE, MODES, Modes
from ..entry.bind import ops
from ..graph.history import grad_fn_of, mirrored, offset_within, requires_grad_of
from ..graph.record import apply, cast, only_inference
from ..graph.views import apply_view, as_strided_view, reinterpreted_view
from ..memory import strided
from ..memory.shared_values import VersionAndValues, is_shared
from ..memory.strided import read, room, storage_offset
from ..memory.tensor import Storage, Tensor, alias_of, extras, make, plain_alias
from ..modes.belonging import is_batched
from ..run.jvp import jvp_call, jvp_reads
from ..run.trace import Call, Plan


class primals_only:
    """Inside: no tangents, as in the arithmetic of tangents themselves."""

    __slots__ = ("bits",)

    def __enter__(self) -> None:
        self.bits = MODES.bits
        MODES.bits = self.bits & ~DUAL

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.bits = self.bits


def forward_grad(mode: bool) -> bool:
    """Return whether tangents are to be propagated; an error where they can't be turned off."""
    if not mode and MODES.transposed is not None:
        raise NotImplementedError(
            "_set_fwd_grad_enabled(False): inside of a jvp within another jvp, and of linearize, tangents cannot be "
            "turned off; detach() what should have none."
        )
    return mode


def tangent_of(t: Any) -> Tensor | None:
    """A tensor's tangent at the open level, or None."""
    if not isinstance(t, Tensor):
        return None
    x = t._x
    if x is not None and x.dual_level >= 0:  # a level with tangent None counts, too
        return x.dual if x.dual_level == MODES.dual_level else None
    al = t._al
    base = None if al is None or al.base is None else tangent_of(al.base)
    if base is None or t._m.dtype.category < dtypes.FLOATING:
        return None
    with primals_only():
        view = _seen_from(base, al.base, t)  # type: ignore[union-attr] - it has a base
    set_tangent(t, view)
    return view


def _seen_from(tangent: Tensor, base: Tensor, t: Tensor) -> Tensor:
    """The view of the tangent of `base` that `t` is of `base` itself."""
    conj, neg = mirrored(base, t)
    offset = offset_within(base, t)
    if t._m.dtype is base._m.dtype and not (conj or neg):
        return as_strided_view(tangent, t._m.shape, t._m.strides, storage_offset(tangent) + offset)
    return reinterpreted_view(tangent, t._m, offset, conj, neg)


def open_tangent(t: Any) -> Tensor | None:
    """`tangent_of` where a level may not even be open."""
    return tangent_of(t) if MODES.bits & DUAL else None


def set_tangent(t: Tensor, tangent: Tensor | None) -> None:
    """Attach a tangent for the open level, which lies in its memory as the tensor does in its own.

    So views of both correspond, also those that were made before the tensor had a tangent.
    """
    if tangent is not None and not _has_strides_of(tangent, t):
        with primals_only():
            tangent = laid_out_as(tangent, t)
    x = extras(t)
    x.dual = tangent
    x.dual_level = MODES.dual_level
    MODES.dual_open.append(x)
    if x.awaiting is not None:
        _keep_tangent(t)


def lasting(entry: Any, version: int) -> int:
    """The version of what a node saves, with values and tangent that a later write does not take away."""
    if not isinstance(entry, Tensor | Storage):
        return version
    out = VersionAndValues(version)
    out.outlasts = True
    if is_shared(entry):
        out.array = getattr(entry, "_st", entry).present(entry)
    else:
        out.array = read(entry) if isinstance(entry, Tensor) else entry.array
    tangent = open_tangent(entry)
    out.tangent = None if tangent is None else as_it_is(tangent)
    return out


def _keep_tangent(t: Tensor) -> None:
    """Give the tangent that a result has now to the node that keeps its value; not one of after a later write."""
    x = extras(t)
    then, x.awaiting = x.awaiting, None
    if then == t._vc.version and x.dual is not None:
        then.tangent = as_it_is(x.dual)


def _has_strides_of(tangent: Tensor, t: Tensor) -> bool:
    """Return whether the strides of a tangent are those of what it belongs to, as far as they lead to elements."""
    m, wanted = tangent._m, t._m
    if m is wanted or m.strides == wanted.strides or wanted.numel == 0:
        return True
    return all(n == 1 or a == b for n, a, b in zip(wanted.shape, m.strides, wanted.strides))


def has_place_of(tangent: Tensor, t: Tensor) -> bool:
    """Return whether views of both correspond: of the same storage size, at the same place, with the same strides.

    What is mapped over has no storage that a user could see: there the strides decide.
    """
    if not _has_strides_of(tangent, t):
        return False
    if not MODES.run.at_once or tangent._al is t._al is None:
        return True
    return storage_offset(tangent) == storage_offset(t) and room(tangent) == room(t)


def laid_out_as(tangent: Tensor, t: Tensor) -> Tensor:
    """A copy of the tangent that lies in its memory as `t` does in its own."""
    m = t._m
    if any(s == 0 and n > 1 for s, n in zip(m.strides, m.shape)):
        raise RuntimeError(errors.OVERLAP)  # torch copies into such a layout
    if not MODES.run.at_once:  # what is mapped over cannot be copied into what is not
        memory = apply(_spread(meta(m.shape, tangent._m.dtype, m.device, m.strides)), (tangent,))
        return as_strided_view(memory, m.shape, m.strides, 0)
    memory = meta((room(t),), tangent._m.dtype, m.device)
    if memory.numel == m.numel and m.dense:
        m = meta(m.shape, memory.dtype, m.device, m.strides)
        target = make(filled(m, 0), m)
    else:
        whole = make(filled(memory, 0), memory)
        target = as_strided_view(whole, m.shape, m.strides, storage_offset(t)).data
    return ops.copy_(target, tangent)


@CALLS.memo()
def _spread(m: Meta) -> Call:
    """From a value to memory in which it lies as `m` says, with zeros in the gaps."""
    return Call("clone", lambda leaves: strided.to_flat(leaves[0], m), node_name="CloneBackward0")


def close_level() -> None:
    """Forget all tangents."""
    for x in MODES.dual_open:
        x.dual, x.dual_level = None, -1
    MODES.dual_open.clear()


def share_tangent(t: Tensor, other: Tensor) -> None:
    """Give a tensor that stands for `t` the tangent that `t` has."""
    tangent = open_tangent(t)
    if tangent is not None:
        set_tangent(other, tangent)


def push_tangents(call: Call, plan: Plan, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
    """Give an op's outputs their tangents."""
    if not MODES.forward_grad or not plan.any_diff or _blind(call, plan.keys, leaves):
        return
    given = [tangent_of(v) for v in leaves]
    tangents = _tangents(plan, leaves, given)
    if tangents is not None:
        for k, t in zip(plan.diff, tangents):
            set_tangent(outs[k], t)


def _tangents(plan: Plan, leaves: Sequence[Any], given: Sequence[Tensor | None]) -> Sequence[Tensor] | None:
    which = tuple(i for i, g in enumerate(given) if g is not None)
    if not which:
        return None
    key = ("jvp", which)
    known: Any = plan.grads.get(key)
    if known is None:
        call = jvp_call(plan, which)
        known = plan.grads[key] = (call, jvp_reads(plan))
    call, reads = known
    with primals_only():
        along = [_fitting(given[i], leaves[i]) for i in which]
        apart = [v if i in reads else _cut(v) for i, v in enumerate(leaves)]
        out = apply(call, (*apart, *along))
    return (out,) if isinstance(out, Tensor) else out


def _cut(leaf: Any) -> Any:
    """A leaf that the tangents do not depend on, outside of the graph."""
    if not isinstance(leaf, Tensor) or not requires_grad_of(leaf):
        return leaf
    return alias_of(leaf, leaf._m, plain_alias(leaf), leaf._vc)


def _fitting(tangent: Any, primal: Any) -> Tensor:
    """A tangent in the dtype of its primal, which a kernel's tangents have."""
    dtype = primal._m.dtype
    return tangent if tangent._m.dtype is dtype else cast(tangent, dtype)


def _blind(call: Call, keys: Sequence[Any], leaves: Sequence[Any]) -> bool:
    """Return whether autograd, of which forward mode is a part, does not see an op at all."""
    return bool(MODES.bits & INFERENCE) or only_inference(call, keys, leaves)


def push_view_tangents(call: Call, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
    """The tangent of a view is a view of the tangent, also where tangents are turned off for what is computed."""
    tangent = tangent_of(leaves[0])
    if tangent is None or _blind(call, (), leaves[:1]):
        return
    with primals_only():
        views = apply_view(call, (tangent, *leaves[1:]))
    for t, v in zip(outs, (views,) if isinstance(views, Tensor) else views):
        if t._m.dtype.category >= 2:
            set_tangent(t, v)


def moved_tangent(call: Call, leaves: Sequence[Any]) -> Tensor | None:
    """The tangent of a tensor as it will be once the tensor itself becomes a view of what it was."""
    tangent = tangent_of(leaves[0]) if MODES.forward_grad else None
    if tangent is None:
        return None
    with primals_only():
        return apply_view(call, (tangent, *leaves[1:]))


def snapshot(leaves: Sequence[Any]) -> Any:
    """Leaves and tangents as they are before an in-place write."""
    given = [tangent_of(v) if MODES.forward_grad else None for v in leaves]
    if not any(g is not None for g in given):
        return None
    if given[0] is not None:  # the tangent will be written to as well
        given[0] = as_it_is(given[0])
    return (as_it_is(leaves[0]), *leaves[1:]), given


def as_it_is(t: Tensor) -> Tensor:
    """The value of a tensor that is about to be written to, in its place in the graph."""
    old = make(read(t), t._m)
    old._rg = requires_grad_of(t)
    old._fn, old._onr, old._acc = grad_fn_of(t), t._onr, t._acc
    return old


def push_inplace(plan: Plan, before: Any, me: Tensor) -> None:
    """Bring the tangent of a tensor that was written to up to date, in place where it exists."""
    if before is None or not plan.any_diff:
        return
    leaves, given = before
    tangents = _tangents(plan, leaves, given)
    if tangents is None:
        return
    (new,) = tangents
    write_tangent(me, new)
    if me._x is not None and me._x.awaiting is not None and tangent_of(me) is not None:
        _keep_tangent(me)


@CALLS.memo()
def _among_zeros(base: Meta, part: Meta, conj: bool, neg: bool) -> Call:
    """From a value to a tensor of meta `base` that is zero but for that value in its place."""

    def run(leaves: Sequence[Any]) -> Any:
        flat = strided.to_flat(jnp.zeros(base.shape, base.dtype.np), base)
        return strided.from_flat(strided.view_into(flat, part, leaves[1], conj, neg, leaves[0]), base)

    return Call("as_strided_scatter", run, node_name="AsStridedScatterBackward0")


def write_tangent(me: Tensor, new: Tensor) -> None:
    """Make `new` the tangent of `me`, so that views and base agree."""
    base = None if me._al is None else me._al.base
    old = tangent_of(me)
    with primals_only():
        if old is None and base is not None:
            if is_batched(new):
                # Zeros made here would be one row for all examples, which no example may write to.
                call = _among_zeros(base._m, me._m, *mirrored(base, me))
                set_tangent(base, apply(call, (new, offset_within(base, me))))
                return
            m = base._m if base._m.dense else meta(base._m.shape, base._m.dtype, base._m.device)
            set_tangent(base, make(filled(m, 0), m))
            old = tangent_of(me)
        if old is None:
            set_tangent(me, new)
            return
        inside, MODES.level = MODES.level, 0  # the user did not write this
        try:
            ops.copy_(old, new)
        finally:
            MODES.level = inside


Modes.tangents = sys.modules[__name__]
