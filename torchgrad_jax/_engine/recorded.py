"""Gradients of a recorded pass: each an op of its own, on the incoming gradients and on what the node saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .._core.meta import Meta
from .._core.state import DUAL, LIFT, MODES
from .._core.transfer import filled
from .._ops.double_names import ASKED, JOINT, KEPT_AGAIN
from .grad_layouts import PASSED, VIEWED
from .history import CopySlicesPlan, edge_of
from .node import Node
from .record import apply
from .saved import unpack_arrays, unpack_tensors
from .strided import conjugate_lazily, gradient, gradient_meta, read
from .tensor import Tensor, alias_of, make, plain_alias


def recorded_gradients(
    node: Node, gp: Any, cts: list[Any], present: tuple[bool, ...], wanted: Sequence[int]
) -> dict[int, Any]:
    """Each wanted gradient as an op of its own, recorded on the graph."""
    saved = unpack_tensors(node, fitting=True)
    if gp.raises:
        gp.fn()  # also where no gradient is wanted
    if isinstance(gp, CopySlicesPlan):
        return _through_a_part(node, gp, cts[0], saved, wanted)
    return _gradients(node, gp, cts, present, saved, wanted)


def _through_a_part(
    node: Node, gp: CopySlicesPlan, ct: Any, saved: list[Any], wanted: Sequence[int]
) -> dict[int, Any]:
    """The gradients of a write to a part: those of the write, on a copy of that part of the incoming gradient."""
    inner, (offset, *rest) = gp.inner, saved
    others = [p if gp.has_self else p - 1 for p in wanted if p or gp.has_self]
    by_pos: dict[int, Any] = {}
    if inner.raises:
        inner.fn()
    if others:
        found = _gradients(node, inner, [apply(gp.cut, (ct, offset))], (True,), rest, others)
        by_pos = {q if gp.has_self else q + 1: g for q, g in found.items()}
    if 0 in wanted:
        m, _, version = gp.describe((gradient_meta(ct),))[0]
        by_pos[0] = whole = apply(gp.put, (ct, offset, by_pos.get(0)))
        if m.strides != whole._m.strides:
            _lay_out(whole, m)
        whole._st.version = version
    return by_pos


def _gradients(
    node: Node, gp: Any, cts: list[Any], present: tuple[bool, ...], saved: list[Any], wanted: Sequence[int]
) -> dict[int, Any]:  # fmt: skip
    by_pos = {}
    told = gp.describe(tuple([None if c is None else gradient_meta(c) for c in cts]))
    whole = node.gp is gp
    form = _form(gp, saved) if callable(gp.plan.call.from_inputs) else ""
    alone = gp.name in ASKED and all(c is None or edge_of(c) is None for c in cts)
    for p in gp.in_order(tuple(wanted)):
        m, kind, version = told[p]
        if kind == PASSED:
            by_pos[p] = cts[0]  # the gradient itself, with its own place in the graph
            continue
        call, given, picks = gp.calls.get((p, present, form, alone)) or _reads(
            gp, p, present, form, alone
        )
        leaves = [how(cts[j]) if how else cts[j] for j, how in given]
        leaves += [how(saved[i]) if how else saved[i] for i, how in picks]
        idle = []
        if whole:
            leaves += _stand_ins(node, gp.plan.call.formal)
            idle = _stand_ins(node, gp.plan.call.idle)
            leaves += idle
        if any(isinstance(v, Tensor) for v in leaves):
            by_pos[p] = found = apply(call, leaves)
            if idle and found._fn is not None:
                found._fn.edges = (*found._fn.edges[: -len(idle)], *[None] * len(idle))
            if m.strides != found._m.strides:
                _lay_out(found, m)
            if m.mirrored and not MODES.bits & LIFT:
                conjugate_lazily(found)
            if kind == VIEWED:
                found._vc = cts[0]._vc
            else:
                found._st.version = gp.recorded_version(p, version)
        else:  # a gradient that is the same whatever came in
            arrays = [read(c) for c in cts if c is not None]
            arrays += unpack_arrays(node)[len(node.gp.saved_in) - len(gp.saved_in) :]
            by_pos[p] = gradient(
                gp.vjp(present, (p,))(*arrays)[0], m, gp.recorded_version(p, version)
            )
    return by_pos


def _lay_out(t: Tensor, m: Meta) -> None:
    """Give a new tensor the strides that its gradient has in a pass that is not recorded."""
    own = t._m
    if own.shape == m.shape and own.dtype is m.dtype and t._al is None:
        t._m = t._st.meta = m.mirror if m.mirrored else m


def _reads(
    gp: Any, p: int, present: tuple[bool, ...], form: str, alone: bool
) -> tuple[Any, Any, Any]:
    """One gradient's call, and which incoming gradients and saved values it reads, and how.

    `alone` says that no incoming gradient requires one, where that matters.
    """
    call, ins, outs, used = gp.call(p, present, *([form] if form else ()))
    dull_ins, dull_outs = gp.compared(p)
    taken, taken_ins = gp.taken(p, form)
    mask = _plain if gp.name in KEPT_AGAIN or gp.name in JOINT else _mask

    def how(i: int) -> Any:
        return mask if i in dull_ins else _taken if i in taken_ins else None

    n = len(gp.saved_in)
    picks = [(gp.saved_in.index(i), how(i)) for i in ins]
    computed = "result" in taken or (alone and "result alone" in taken)
    result = _taken if computed else _mask if "compared" in taken else None
    picks += [(n + gp.saved_out.index(k), _mask if k in dull_outs else result) for k in outs]
    given = [(j, _taken if "grad" in taken else None) for j, u in enumerate(used) if u]
    found = gp.calls[p, present, form, alone] = call, tuple(given), tuple(picks)
    return found


def _form(gp: Any, saved: Sequence[Any]) -> str:
    """Which formula torch takes where the values of what it saved decide: "" or "*", the one of inputs alone."""
    arrays = [read(v) for v in saved[: len(gp.saved_in)]]
    if any(isinstance(a, jax.core.Tracer) for a in arrays):
        return ""
    names = [gp.plan.call.argnames[i] for i in gp.saved_in]
    return "*" if gp.plan.call.from_inputs(**dict(zip(names, arrays))) else ""


def _plain(v: Any) -> Any:
    """A saved value that is to stay apart from the graph."""
    return alias_of(v, v._m, plain_alias(v), v._vc) if isinstance(v, Tensor) else v


def _mask(v: Any) -> Any:
    """The same, as it is now: torch saves what it found by comparing it, and later writes do not matter."""
    if not isinstance(v, Tensor) or MODES.bits & LIFT:
        return _plain(v)
    return alias_of(make(v._st.array, v._st.meta), v._m, plain_alias(v))


def _taken(v: Any) -> Any:
    """A value as it is now, in its place in the graph: torch saves what it has computed from it."""
    if not isinstance(v, Tensor) or MODES.bits & (LIFT | DUAL):
        return v
    t, edge = _mask(v), edge_of(v)
    if edge is not None:
        t._fn, t._onr, t._rg = edge[0], edge[1], True
    return t


def _stand_ins(node: Node, names: tuple[str, ...]) -> list[Tensor]:
    """Stand-ins for inputs that a gradient depends on in name only: zeros with their places in the graph."""
    gp = node.gp
    out = []
    for leaf, edge in zip(gp.edge_leaves, node.edges) if names else ():
        if edge is not None and leaf in gp.inputs and gp.plan.call.argnames[leaf] in names:
            m = gp.plan.keys[leaf]
            t = make(filled(m, 0), m)
            t._fn, t._onr, t._rg = edge[0], edge[1], True
            out.append(t)
    return out
