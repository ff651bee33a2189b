"""Gradients of a recorded pass: each an op of its own, on the incoming gradients and on what the node saved.

What such an op reads is saved as the array that it is now. A later write to a saved value therefore changes no
gradient of a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..._core.arrays.meta import meta
from ..._core.arrays.transfer import filled
from ..._core.state import DUAL, MODES
from ..._ops.registry import NoGradient
from ..graph.history import CopySlicesPlan, edge_of
from ..graph.node import Node
from ..graph.record import apply
from ..graph.saved import unpack_tensors
from ..memory.strided import read
from ..memory.tensor import Tensor, alias_of, make, plain_alias
from ..modes.belonging import beside


def recorded_gradients(
    node: Node, gp: Any, cts: list[Any], present: tuple[bool, ...], wanted: Sequence[int]
) -> dict[int, Any]:
    """Each wanted gradient as an op of its own, recorded on the graph."""
    saved = unpack_tensors(node, fitting=True)
    if gp.raises:
        gp.refuse()  # torch raises even where nobody wants the gradient
    if isinstance(gp, CopySlicesPlan):
        return _through_a_part(node, gp, cts[0], saved, wanted)
    return _gradients(node, gp, cts, present, saved, wanted)


def _through_a_part(node: Node, gp: CopySlicesPlan, ct: Any, saved: list[Any], wanted: Sequence[int]) -> dict[int, Any]:
    """The gradients of a write to a part: those of the write, on a copy of that part of the incoming gradient."""
    inner, (offset, *rest) = gp.inner, saved
    others = [p if gp.has_self else p - 1 for p in wanted if p or gp.has_self]
    by_pos: dict[int, Any] = {}
    if inner.raises:
        inner.refuse()
    if others:
        grads = _gradients(node, inner, [apply(gp.cut, (ct, offset))], (True,), rest, others)
        by_pos = {q if gp.has_self else q + 1: g for q, g in grads.items()}
    if 0 in wanted:
        by_pos[0] = apply(gp.put, (ct, offset, by_pos.get(0)))
    return by_pos


def _gradients(
    node: Node, gp: Any, cts: list[Any], present: tuple[bool, ...], saved: list[Any], wanted: Sequence[int]
) -> dict[int, Any]:
    by_pos = {}
    whole = node.gp is gp
    form = _form(gp, saved) if callable(gp.plan.call.row.from_inputs) else ""
    no_gradient = gp.plan.call.row.no_gradient
    with_zeros = no_gradient.get(NoGradient.ZEROS, ())
    with_nothing = no_gradient.get(NoGradient.NOTHING, ())
    depends = with_zeros or with_nothing  # the gradient depends on more than it reads
    for p in wanted:
        source = gp.sources[p]
        if source is not None and cts[source] is not None and not depends:
            by_pos[p] = own(cts[source])
            continue
        known = None if gp.alone else gp.calls.get((p, present, form, "reads"))
        # This may raise what torch raises.
        call, given, picks = known or _reads(gp, p, present, form)
        leaves = [_kept(cts[j]) for j in given]
        leaves += [how(saved[i]) for i, how in picks]
        idle = []
        if whole:
            leaves += _stand_ins(node, with_zeros, [*cts, *saved])
            idle = _stand_ins(node, with_nothing, [*cts, *saved])
            leaves += idle
        if any(isinstance(v, Tensor) for v in leaves):
            by_pos[p] = gradient = apply(call, leaves)
            if idle and gradient._fn is not None:
                gradient._fn.edges = (*gradient._fn.edges[: -len(idle)], *[None] * len(idle))
        else:  # a gradient that is the same whatever came in
            arrays = [read(c) for c in cts if c is not None]
            kept = saved[: len(gp.saved_in) + len(gp.saved_out)]  # a write to a part holds a node besides
            arrays += [read(v) if isinstance(v, Tensor) else v for v in kept]
            by_pos[p] = make(gp.vjp(present, (p,))(*arrays)[0], gp.metas[p])
    return by_pos


def _reads(gp: Any, p: int, present: tuple[bool, ...], form: str) -> tuple[Any, Any, Any]:
    """One gradient's call, and which incoming gradients and saved values it reads, and how."""
    call, ins, outs, used = gp.call(p, present, *([form] if form else ()))
    compared_ins, compared_outs = gp.compared(p)
    n = len(gp.saved_in)
    picks = [(gp.saved_in.index(i), _apart if i in compared_ins else _kept) for i in ins]
    picks += [(n + gp.saved_out.index(k), _apart if k in compared_outs else _kept) for k in outs]
    given = tuple(j for j, u in enumerate(used) if u)
    reads = gp.calls[p, present, form, "reads"] = call, given, tuple(picks)
    return reads


def _form(gp: Any, saved: Sequence[Any]) -> str:
    """Return which formula torch takes where the values of what it saved decide: "" or "*", the one of inputs alone."""
    arrays = [read(v) for v in saved[: len(gp.saved_in)]]
    if any(isinstance(a, jax.core.Tracer) for a in arrays):
        return ""
    names = [gp.plan.call.argnames[i] for i in gp.saved_in]
    return "*" if gp.plan.call.row.from_inputs(**dict(zip(names, arrays))) else ""


def _apart(v: Any) -> Any:
    """A saved value as it is now, without its place in the graph."""
    if not isinstance(v, Tensor):
        return v
    if not MODES.run.at_once:
        return alias_of(v, v._m, plain_alias(v), v._vc)
    m = v._m
    return make(read(v), meta(m.shape, m.dtype, m.device))


def _kept(v: Any) -> Any:
    """A saved value as it is now, in its place in the graph."""
    if not isinstance(v, Tensor) or not MODES.run.at_once or MODES.bits & DUAL:
        return v
    t, edge = _apart(v), edge_of(v)
    if edge is not None:
        t._fn, t._onr, t._rg = edge[0], edge[1], True
    return t


def own(g: Tensor) -> Tensor:
    """A gradient in memory of its own with the same place in the graph: a write to one leaves the other as it was."""
    if not MODES.run.at_once or MODES.bits & DUAL or (g._rg and g._fn is None):
        return g
    return _kept(g)


def _stand_ins(node: Node, names: tuple[str, ...], known: Sequence[Any]) -> list[Tensor]:
    """Stand-ins for inputs that a gradient depends on in name only: zeros with their places in the graph.

    They belong to the run that something `known` to the node, what it saved or a gradient that came to it, belongs to.
    """
    gp = node.gp
    out = []
    for leaf, edge in zip(gp.edge_leaves, node.edges) if names else ():
        if edge is not None and leaf in gp.inputs and gp.plan.call.argnames[leaf] in names:
            m = gp.plan.keys[leaf]
            t = beside(make(filled(m, 0), m), known)
            t._fn, t._onr, t._rg = edge[0], edge[1], True
            out.append(t)
    return out
