"""The tangents of a call as a call of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta
from ..._ops.registry import Compares, Layout
from .program import Program
from .trace import Call, Plan, aval


def jvp_call(plan: Plan, tangents: tuple[int, ...]) -> Call:
    """``(*leaves, *tangents) -> tangents of the differentiable outputs`` as an op of its own."""
    call, layout, found, run_of = plan.call, plan.call.row.layout, plan.found, _tangents(plan, tangents)
    run = run_of(plan.fn)
    at = [plan.present.index(i) if i in plan.present else None for i in (*range(len(plan.keys)), *tangents)]
    return Call(
        f"{call.name}_jvp",
        run,
        node_name=_name(call, run),
        layout=(
            layout if isinstance(layout, Layout) else Layout.ELEMENTWISE if Layout.steps(layout) else Layout.CONTIGUOUS
        ),
        forms=[found.derived(("tangents", tangents), run_of, at)] if found and _of_any_size(plan) else (),
    )


def _of_any_size(plan: Plan) -> bool:
    """Return whether a template says what the tangents are: a derivative of its own has sizes that are no symbols."""
    return plan.found is not None and (plan.forward is None or not plan.found.static)


def _tangents(plan: Plan, tangents: tuple[int, ...]) -> Any:
    """Make the tangents, as a function of leaves and tangents, of the function that they are of."""
    n, present = len(plan.keys), plan.present
    diff, single, own = plan.diff, plan.single, plan.forward
    where = [present.index(i) for i in tangents]

    def run_of(fn: Any, _: Any = None) -> Any:
        fn = own or fn

        def run(leaves: Sequence[Any]) -> Any:
            prim = [leaves[i] for i in present]
            given = leaves[n:]

            def g(*d: Any) -> Any:
                full = list(prim)
                for p, v in zip(where, d):
                    full[p] = v
                out = fn(*full)
                outs = (out,) if single else tuple(out)
                return tuple(outs[k] for k in diff)

            _, out_t = jax.jvp(g, tuple(prim[p] for p in where), tuple(given))
            return out_t[0] if len(diff) == 1 else tuple(out_t)

        return run

    return run_of


_LAST = {
    "add": "Add",
    "add_any": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "neg": "Neg",
    "select_n": "Where",
    "reduce_sum": "Sum",
    "gather": "Gather",
    "dot_general": "Mm",
}


def _name(call: Call, run: Any) -> Any:
    """The name of a recorded tangent: that of its last step, as in torch, where the step has one."""

    def of(keys: Sequence[Any]) -> str:
        avals = [aval(k) for k in keys if k is not None]
        where = [k is not None for k in keys]

        def flat(*xs: Any) -> Any:
            it = iter(xs)
            return run([next(it) if w else None for w in where])

        last = _last_step(jax.make_jaxpr(flat)(*avals).jaxpr)
        return f"{_LAST[last]}Backward0" if last in _LAST else f"{call.name}_jvp"

    return of


def _last_step(jaxpr: Any) -> str:
    """The primitive that the first result comes from."""
    made = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    eqn = made.get(jaxpr.outvars[0]) if not hasattr(jaxpr.outvars[0], "val") else None
    if eqn is None:
        return ""
    inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
    if inner is not None and eqn.outvars.index(jaxpr.outvars[0]) == 0:
        return _last_step(getattr(inner, "jaxpr", inner))
    return eqn.primitive.name


def jvp_reads(plan: Plan) -> frozenset[int]:
    """The leaves on which the tangents of an op depend, whichever of its leaves have one.

    None for a linear op. torch's product rules read both factors although one tangent is zero;
    a number that takes part in promotion is such a factor.
    """
    if plan.found is not None and _of_any_size(plan):
        template = plan.found.template
        holds, reads = template.further("tangents", lambda: _reads(plan, template.fn, template.avals))
        if holds(plan.found.numbers):
            return reads
    return _reads(plan, plan.fn, [aval(plan.keys[i]) for i in plan.present])


def _reads(plan: Plan, fn: Any, avals: Sequence[Any]) -> frozenset[int]:
    n, present, avals = len(plan.keys), plan.present, [*avals]
    which = []
    for p, i in enumerate(present):
        if not isinstance(plan.keys[i], Meta):
            if i not in plan.call.promoted or plan.outs[0].dtype.category < dtypes.FLOATING:
                continue
            avals[p] = jax.ShapeDtypeStruct((), plan.outs[0].dtype.np)
        if jnp.issubdtype(avals[p].dtype, jnp.inexact):
            which.append(i)
    run = _tangents(plan, tuple(which))(fn)

    def flat(*xs: Any) -> Any:
        leaves: list[Any] = [None] * n
        for i, x in zip(present, xs):
            leaves[i] = x
        return run([*leaves, *xs[len(present) :]])

    steps = Program(jax.make_jaxpr(flat)(*avals, *[avals[present.index(i)] for i in which]))
    read = steps.needs(steps.out, frozenset())[1]
    if plan.call.row.nondiff or plan.call.row.compares is Compares.INPUTS:
        # torch picks tangents by places, or under a mask: nothing depends on the values
        read = read & steps.flows(steps.out, frozenset())
    return frozenset(i for p, i in enumerate(present) if p in read)
