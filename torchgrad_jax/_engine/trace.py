"""From one pure function to everything the engine runs: forward, vjp, jvp and the saved set.

`Call` is an op with its static arguments. `Plan` is a call for given input metas: the compiled
forward and the metas of its results. `GradPlan` is a plan for a given set of inputs that need
gradients: which values a node must save, and the function that turns cotangents into gradients.
All are built once and cached.
"""

from __future__ import annotations

import enum
import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import dtypes, errors, shapes
from .._core.meta import Meta, meta
from .._ops.double_names import RESHAPED, last_step, reshaped, summed
from .._ops.registry import Grad, Layout, Promote
from . import wide
from .node import node_class

Key = Meta | type | None
_PYTHON_NP = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64),
              complex: np.dtype(np.complex128)}  # fmt: skip
_PLAN_CACHES: weakref.WeakSet[Call] = weakref.WeakSet()


def forget_plans() -> None:
    """Drop every plan; called when the default dtype changes, which plans depend on."""
    for call in list(_PLAN_CACHES):
        call.plans.clear()


class Overlap(enum.Enum):
    """What happens to an in-place write to a tensor that overlaps itself."""

    REFUSED = enum.auto()
    WARNED = enum.auto()
    FINE = enum.auto()


class Apart(enum.Enum):
    """How far the operands of an in-place write must keep away from what is written to."""

    NO = enum.auto()
    PARTLY = enum.auto()  # all of the same memory, seen the same way, is fine; some of it is not
    WHOLLY = enum.auto()


class Call:
    """A pure function of a fixed number of leaves (arrays, numbers or None)."""

    __slots__ = (
        "__weakref__", "apart", "argnames", "check", "check_result", "edges", "geometry", "grad",
        "grad_facts", "grad_view", "inplace", "inplace_check", "joins", "layout", "masks",
        "name", "node_name", "nondiff", "overlaps", "plans", "promote", "promoted", "real", "result", "run", "statics",
        "undifferentiable",
    )  # fmt: skip

    def __init__(
        self, name: str, run: Callable[[Sequence[Any]], Any], *, node_name: Any,
        argnames: tuple[str, ...] = (), promote: Promote = Promote.NONE,
        promoted: frozenset[int] = frozenset(), nondiff: tuple[int, ...] = (),
        grad: Grad = Grad.YES, layout: Any = Layout.CONTIGUOUS, check: Any = None,
        check_result: Any = None, result: Any = None, edges: Any = None, statics: Any = None,
        geometry: Any = None, grad_view: Any = None, joins: Any = None,
    ) -> None:  # fmt: skip
        self.grad_view, self.joins = grad_view, joins
        self.grad_facts = (False, 0)
        self.inplace: Any = None
        self.undifferentiable: dict[int, str] = {}
        self.masks = self.real = False
        self.apart: Any = Apart.PARTLY if layout is Layout.ELEMENTWISE else Apart.NO
        self.overlaps: Any = Overlap.REFUSED
        self.inplace_check: Any = None
        self.name, self.run, self.node_name, self.argnames = name, run, node_name, argnames
        self.promote, self.promoted, self.nondiff, self.grad = promote, promoted, nondiff, grad
        self.layout, self.check, self.check_result = layout, check, check_result
        self.result, self.edges, self.statics, self.geometry = (
            result,
            edges,
            statics or {},
            geometry,
        )
        self.plans: dict[tuple[Key, ...], Plan] = {}
        _PLAN_CACHES.add(self)

    def plan(self, keys: tuple[Key, ...]) -> Plan:
        """The plan for these input metas, built on first use."""
        plan = self.plans.get(keys)
        if plan is None:
            plan = Plan(self, keys)
            self.plans[keys] = plan
        return plan

    def __repr__(self) -> str:
        return f"Call({self.name})"


def aval(key: Any) -> jax.ShapeDtypeStruct:
    """What JAX sees of a leaf."""
    if isinstance(key, Meta):
        return jax.ShapeDtypeStruct(key.shape, key.dtype.np)
    np_type = jax.dtypes.canonicalize_dtype(_PYTHON_NP[key])
    return jax.ShapeDtypeStruct((), np_type, weak_type=key is not bool)


def compute_dtype(call: Call, keys: tuple[Key, ...]) -> dtypes.dtype | None:
    """The dtype that the promoted leaves are brought to, or None."""
    if call.promote is Promote.NONE:
        return None
    dimmed, zero_dim, numbers = [], [], []
    for i in call.promoted:
        key = keys[i]
        if isinstance(key, Meta):
            (dimmed if key.ndim else zero_dim).append(key.dtype)
        elif key is not None:
            numbers.append(dtypes.of_python(key))
    target = dtypes.result_type_of(dimmed, zero_dim, numbers)
    if call.promote is Promote.FLOAT and target.category < dtypes.FLOATING:
        return dtypes.get_default_dtype()
    return target


def _common_device(keys: tuple[Key, ...], name: str) -> Any:
    metas = [k for k in keys if isinstance(k, Meta)]
    devices = {k.device for k in metas}
    if len(devices) == 1:
        return metas[0].device
    wide = {k.device for k in metas if k.ndim or k.device.type != "cpu"}
    if len(wide) == 1:
        return wide.pop()
    first, second = list(dict.fromkeys(k.device for k in metas))[:2]
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!"
    )


def _promoted(x: Any, dtype: Any) -> Any:
    """A leaf as the dtype that an op computes in.

    XLA makes ``x * float(mask)`` a choice between x and 0, which loses the NaN of NaN * 0; it does
    not see through a detour by way of integers.
    """
    if getattr(x, "dtype", None) == jnp.bool_ and jnp.issubdtype(dtype, jnp.inexact):
        x = jax.lax.convert_element_type(x, jnp.uint8)
    return jax.lax.convert_element_type(x, dtype)


class Plan:
    """A call for given input metas."""

    __slots__ = ("any_diff", "call", "device", "diff", "fn", "fwd", "grads", "keys", "out",
                 "outs", "present", "single")  # fmt: skip

    def __init__(self, call: Call, keys: tuple[Key, ...]) -> None:
        self.call, self.keys = call, keys
        self.present = tuple(i for i, k in enumerate(keys) if k is not None)
        if not any(isinstance(k, Meta) for k in keys):
            if not keys:
                call.run(())  # an empty list: the op says what it thinks of that
            given = ", ".join("None" if k is None else k.__name__ for k in keys)
            raise TypeError(
                f"{call.name}() received an invalid combination of arguments - got ({given})"
            )
        self.device = _common_device(keys, call.name)
        self.grads: dict[
            Any, Any
        ] = {}  # gradient plans by mask, jvp calls by the leaves with tangents
        target = compute_dtype(call, keys)
        casts = {}
        if target is not None:
            for i in call.promoted:
                k = keys[i]
                if k is not None and not (isinstance(k, Meta) and k.dtype is target):
                    casts[i] = target.np
        n, present, run = len(keys), self.present, call.run

        def fn(*xs: Any) -> Any:
            leaves: list[Any] = [None] * n
            for i, x in zip(present, xs):
                leaves[i] = _promoted(x, casts[i]) if i in casts else x
            return run(leaves)

        fn.__name__ = fn.__qualname__ = call.name
        self.fn = fn
        avals = [aval(keys[i]) for i in present]
        jaxpr, out = jax.make_jaxpr(fn, return_shape=True)(*avals)
        if any(getattr(o, "weak_type", False) for o in jaxpr.out_avals):
            fn = _strong(fn)  # a tensor's dtype is never up for JAX's weak promotion
            jaxpr, out = jax.make_jaxpr(fn, return_shape=True)(*avals)
            self.fn = fn
        self.single = not isinstance(out, tuple | list)
        self.fwd = (self.single and _forwarding(jaxpr.jaxpr)) or jax.jit(fn)
        if any(isinstance(k, Meta) and k.device is not self.device for k in keys):
            self.fwd = _moving(self.fwd, self.device)
        outs = (out,) if self.single else tuple(out)
        self.outs = tuple(
            meta(tuple(o.shape), dtypes.from_np(o.dtype), self.device, self._strides(o))
            for o in outs
        )
        self.out = self.outs[0] if self.single else None
        self._set_diff()
        joined = self.joined()
        if joined is not None:
            self.fwd = wide.forward(*joined)

    def joined(self) -> tuple[Any, Meta, int, bool] | None:
        """For a call that joins more tensors than one kernel should: how it does."""
        if self.call.joins is None or len(self.keys) <= wide.WIDE:
            return None
        assert self.out is not None
        first = next((k for k in self.keys if k.shape != (0,)), self.keys[0])  # type: ignore[union-attr]
        return self.keys, self.out, *self.call.joins(first.ndim, **self.call.statics)  # type: ignore[union-attr]

    def _set_diff(self) -> None:
        call = self.call
        self.diff = tuple(
            k for k, m in enumerate(self.outs)
            if k not in call.nondiff and m.dtype.category >= dtypes.FLOATING
        )  # fmt: skip
        self.any_diff = bool(self.diff) and call.grad is not Grad.NO

    def _strides(self, out: Any) -> tuple[int, ...] | None:
        layout = self.call.layout
        if layout is Layout.CONTIGUOUS or (len(out.shape) < 2 and layout is not Layout.PRESERVE):
            return None
        metas = [k for k in self.keys if isinstance(k, Meta)]
        shape = tuple(out.shape)
        if layout is Layout.ELEMENTWISE:
            if all(m.strides == shapes.contiguous_strides(m.shape) for m in metas):
                return None
            # A number that torch makes a tensor of is an operand of another shape.
            numbers = [
                ((), ()) for i in self.call.promoted
                if self.keys[i] is not None and not isinstance(self.keys[i], Meta)
            ]  # fmt: skip
            operands = [*[(m.shape, m.strides) for m in metas], *numbers]
            strides = shapes.elementwise_strides(shape, operands)
        elif layout is Layout.PRESERVE:
            strides = (
                shapes.preserve_strides(shape, metas[0].strides)
                if shape == metas[0].shape
                else None
            )
        else:
            known = getattr(layout, "statics", False)  # some need the static arguments too
            strides = layout(metas, shape, self.call.statics) if known else layout(metas, shape)
        return None if strides == shapes.contiguous_strides(shape) else strides

    def grad_plan(self, mask: int) -> GradPlan:
        """The gradient plan for the inputs whose bits are set in `mask`."""
        found = self.grads.get(mask)
        if found is None:
            kind = MissingGradPlan if self.call.grad is Grad.MISSING else GradPlan
            found = self.grads[mask] = kind(self, mask)
        return found


class ViewPlan(Plan):
    """A view for given metas: nothing runs forward, only gradients are ever derived."""

    __slots__ = ()

    def __init__(
        self, call: Call, keys: tuple[Key, ...], outs: tuple[Meta, ...], multi: bool
    ) -> None:
        self.call, self.keys = call, keys
        self.present = tuple(i for i, k in enumerate(keys) if k is not None)
        self.grads = {}
        self.device = outs[0].device
        present, run, n = self.present, call.run, len(keys)

        def fn(*xs: Any) -> Any:
            leaves: list[Any] = [None] * n
            for i, x in zip(present, xs):
                leaves[i] = x
            return run(leaves)

        fn.__name__ = fn.__qualname__ = call.name
        self.fn = fn
        self.fwd = jax.jit(fn)
        self.single, self.outs, self.out = not multi, outs, outs[0]
        self._set_diff()


def _strong(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with results that keep their dtype in whatever they meet."""

    def strong(*xs: Any) -> Any:
        out = fn(*xs)
        if isinstance(out, tuple | list):
            return tuple(jax.lax.convert_element_type(o, o.dtype) for o in out)
        return jax.lax.convert_element_type(out, out.dtype)

    strong.__name__ = strong.__qualname__ = fn.__name__
    return strong


def _forwarding(jaxpr: Any) -> Callable[..., Any] | None:
    """For a function that only passes inputs on (arrays are immutable): that, without a kernel."""
    if jaxpr.eqns or len(jaxpr.outvars) != 1 or jaxpr.outvars[0] not in jaxpr.invars:
        return None
    at = jaxpr.invars.index(jaxpr.outvars[0])
    return lambda *xs: xs[at]


def _moving(fwd: Callable[..., Any], dev: Any) -> Callable[..., Any]:
    """Wrap a forward whose 0-dim CPU operands join tensors on another device."""
    from .._core.devices import to_jax

    target = to_jax(dev)
    return lambda *xs: fwd(
        *[jax.device_put(x, target) if isinstance(x, jax.Array) else x for x in xs]
    )


FRESH, VIEWED, PASSED = range(3)
"""Whose memory a gradient is: its own, the incoming gradient's seen otherwise, or that very tensor."""


# --- jaxprs as a flat list of steps -------------------------------------------------------------

_INLINED = {"pjit", "jit", "closed_call", "core_call", "core_closed_call"}


class _Const:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Steps:
    """A jaxpr with nested calls inlined: `steps` of (equation, argument refs, result ids)."""

    def __init__(self, closed: Any) -> None:
        self.steps: list[tuple[Any, list[Any], list[int]]] = []
        self.size = 0
        self.n_in = len(closed.jaxpr.invars)
        ins = [self._new() for _ in closed.jaxpr.invars]
        self.out = self._inline(closed.jaxpr, [_Const(c) for c in closed.consts], ins)

    def _new(self) -> int:
        self.size += 1
        return self.size - 1

    def _inline(self, jaxpr: Any, consts: list[Any], args: list[Any]) -> list[Any]:
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))

        def ref(v: Any) -> Any:
            # Only literals have a value; their class is in jax.extend, which is slow to import.
            return _Const(v.val) if hasattr(v, "val") else env[v]

        for eqn in jaxpr.eqns:
            refs = [ref(v) for v in eqn.invars]
            if eqn.primitive.name in _INLINED:
                sub = eqn.params.get("jaxpr") or eqn.params["call_jaxpr"]
                inner = getattr(sub, "jaxpr", sub)
                outs = self._inline(inner, [_Const(c) for c in getattr(sub, "consts", ())], refs)
            else:
                outs = [self._new() for _ in eqn.outvars]
                self.steps.append((eqn, refs, outs))
            env.update(zip(eqn.outvars, outs))
        return [ref(v) for v in jaxpr.outvars]

    def slice(self, wanted: Sequence[Any], cuts: frozenset[int]) -> tuple[list[Any], set[int]]:
        """The steps that `wanted` refs need when ids in `cuts` are given, and the ids they read."""
        need = {r for r in wanted if not isinstance(r, _Const)}
        read: set[int] = set()
        kept = []
        for step in reversed(self.steps):
            if any(o in need and o not in cuts for o in step[2]):
                kept.append(step)
                need.update(r for r in step[1] if not isinstance(r, _Const))
        made = {o for step in kept for o in step[2]}
        read = {r for r in need if r in cuts or r < self.n_in}
        assert all(r in made or r in read for r in need)
        kept.reverse()
        return kept, read

    @staticmethod
    def run(
        steps: Sequence[Any], env: dict[int, Any], wanted: Sequence[Any], cuts: frozenset[int]
    ) -> list[Any]:
        """Evaluate steps over `env`, keeping the given values of cut ids."""
        for eqn, refs, outs in steps:
            args = [r.value if isinstance(r, _Const) else env[r] for r in refs]
            res = _bind(eqn, args)
            if not eqn.primitive.multiple_results:
                res = [res]
            for o, v in zip(outs, res):
                if o not in cuts or o not in env:
                    env[o] = v
        return [r.value if isinstance(r, _Const) else env[r] for r in wanted]


def _bind(eqn: Any, args: list[Any]) -> Any:
    """Evaluate one equation; JAX releases differ in what `get_bind_params` returns."""
    params = eqn.primitive.get_bind_params(eqn.params)
    if isinstance(params, tuple):
        return eqn.primitive.bind(*params[0], *args, **params[1])
    return eqn.primitive.bind(*args, **params)


def _conj(x: Any) -> Any:
    return jnp.conj(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x


class GradPlan:
    """What a node of this plan saves and how it turns cotangents into gradients.

    The saved set falls out of the trace of (f(x), vjp(x, ct)): with f's outputs as cut points,
    it is whatever inputs and outputs the gradients still depend on.
    """

    __slots__ = ("_steps", "calls", "cuts", "described", "edge_grads", "fused", "edge_pick", "edge_leaves",
                 "grad_refs", "inputs", "jvps", "mask",
                 "name", "node_class", "out_refs", "pick", "plan", "prim_pos", "save", "saved_in",
                 "saves_tensors", "saved_out",
                 "slices", "vjps")  # fmt: skip

    def __init__(self, plan: Plan, mask: int) -> None:
        self.plan, self.mask = plan, mask
        self.inputs = tuple(i for i in range(len(plan.keys)) if mask >> i & 1)
        for i, complaint in plan.call.undifferentiable.items():
            if i in self.inputs:
                raise RuntimeError(complaint)
        if plan.call.real and any(plan.outs[k].dtype.category is dtypes.COMPLEX for k in plan.diff):
            raise RuntimeError(errors.no_complex_gradient(plan.call.name))
        self.edge_leaves = (
            plan.call.edges(plan.keys) if plan.call.edges else _edge_leaves(plan.keys)
        )
        name = plan.call.node_name
        self.name = name if isinstance(name, str) else name(plan.keys)
        if self.name == "NotImplemented":  # made by torch's fallback, which asks who requires grad
            self.edge_leaves = tuple(i for i in self.edge_leaves if i in self.inputs)
        self.edge_grads = tuple(
            self.inputs.index(i) if i in self.inputs else -1 for i in self.edge_leaves
        )
        self.node_class = node_class(self.name)
        self.vjps: dict[Any, Any] = {}
        self.calls: dict[Any, Any] = {}
        self.slices: dict[Any, Any] = {}
        self.described: dict[Any, Any] = {}
        self.fused = 0
        self._derive()
        # A number with an edge is one that torch turns into a tensor, and saves as one.
        self.saves_tensors = bool(self.saved_out) or any(
            isinstance(plan.keys[i], Meta) or i in self.edge_leaves for i in self.saved_in
        )
        self.save = saver(self.saved_in, self.saved_out, len(plan.keys))
        self.edge_pick = (
            None if self.edge_leaves == tuple(range(len(plan.keys))) else getter(self.edge_leaves)
        )

    # -- derivation
    def _derive(self) -> None:
        plan = self.plan
        positions = {leaf: p for p, leaf in enumerate(plan.present)}
        wrt = [positions[i] for i in self.inputs]
        n = len(plan.present)
        diff = plan.diff
        single = plan.single

        def both(*args: Any) -> Any:
            prim, cts = args[:n], args[n:]

            def g(*d: Any) -> Any:
                full = list(prim)
                for p, v in zip(wrt, d):
                    full[p] = v
                out = plan.fn(*full)
                outs = (out,) if single else tuple(out)
                return tuple(outs[k] for k in diff), outs

            _, vjp, outs = jax.vjp(g, *[prim[p] for p in wrt], has_aux=True)
            grads = vjp(tuple(_conj(c) for c in cts))
            return tuple(outs), tuple(_conj(x) for x in grads)

        avals = [aval(plan.keys[i]) for i in plan.present]
        cts = [aval(plan.outs[k]) for k in diff]
        steps = Steps(jax.make_jaxpr(both)(*avals, *cts))
        n_out = len(plan.outs)
        self._steps = steps
        self.prim_pos = dict(positions)
        self.out_refs, self.grad_refs = steps.out[:n_out], steps.out[n_out:]
        self.cuts = frozenset(
            r for r in self.out_refs if not isinstance(r, _Const) and r >= steps.n_in
        )
        _, read = steps.slice(self.grad_refs, self.cuts)
        ins, self.saved_out = self._reads(read)
        self.saved_in = tuple(sorted(ins, key=self._packing_order))

    def _packing_order(self, leaf: int) -> tuple[str, int]:
        """torch saves, and so packs, inputs in alphabetical order of its names for them."""
        names = self.plan.call.argnames
        name = names[leaf] if leaf < len(names) else "~"
        stem, _, number = name.rpartition("_")
        if not (stem and number.isdigit()):
            stem = "self" if name == "input" else name
        return stem, leaf

    def _reads(self, read: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        ins = tuple(leaf for leaf, p in self.prim_pos.items() if p in read)
        outs = tuple(
            k
            for k, r in enumerate(self.out_refs)
            if not isinstance(r, _Const) and r in self.cuts and r in read
        )
        return ins, tuple(dict.fromkeys(outs))

    # -- the pure function
    def fn(self, cts: Sequence[Any], saved: Sequence[Any], wanted: tuple[int, ...] | None = None,
           ins: Sequence[int] | None = None, outs: Sequence[int] | None = None) -> list[Any]:  # fmt: skip
        """Gradients of the wanted inputs (positions in `inputs`) from cotangents and saved values.

        `cts` has one entry per differentiable output; None stands for zeros.
        """
        wanted = tuple(range(len(self.inputs))) if wanted is None else wanted
        ins = self.saved_in if ins is None else ins
        outs = self.saved_out if outs is None else outs
        kept = self.slices.get(wanted)
        refs = [self.grad_refs[w] for w in wanted]
        if kept is None:
            kept = self.slices[wanted] = self._steps.slice(refs, self.cuts)[0]
        env: dict[int, Any] = {}
        plan = self.plan
        for leaf, v in zip(ins, saved):
            key = plan.keys[leaf]
            env[self.prim_pos[leaf]] = (
                v if isinstance(key, Meta) else jnp.asarray(v, aval(key).dtype)
            )
        for k, v in zip(outs, saved[len(ins) :]):
            env[self.out_refs[k]] = v
        base = len(plan.present)
        for j, (k, ct) in enumerate(zip(plan.diff, cts)):
            m = plan.outs[k]
            env[base + j] = jnp.zeros(m.shape, m.dtype.np) if ct is None else ct
        return Steps.run(kept, env, refs, self.cuts)

    def vjp(
        self, present: tuple[bool, ...], wanted: tuple[int, ...] | None = None
    ) -> Callable[..., Any]:
        """Compiled ``(*cotangents present, *saved) -> gradients`` of all or the wanted inputs."""
        found = self.vjps.get((present, wanted))
        if found is None:
            found = self.vjps[present, wanted] = self._wide_vjp(present, wanted)
        if found is None:
            n = sum(present)

            def run(*args: Any) -> Any:
                it = iter(args[:n])
                cts = [next(it) if p else None for p in present]
                return self.fn(cts, args[n:], wanted)

            run.__name__ = run.__qualname__ = f"{self.plan.call.name}_vjp"
            found = self.vjps[present, wanted] = jax.jit(run)
        return found

    def _wide_vjp(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None) -> Any:
        """The gradients of a call that joins or cuts more tensors than one kernel should handle."""
        plan = self.plan
        joined = plan.joined()
        if joined is not None:
            picked = range(len(self.inputs)) if wanted is None else wanted
            return wide.backward(*joined, [self.inputs[p] for p in picked])
        if plan.call.joins is None or len(plan.diff) <= wide.WIDE:
            return None
        key = plan.keys[self.inputs[0]]
        assert isinstance(key, Meta)
        axis, new = plan.call.joins(key.ndim, **plan.call.statics)
        outs = [plan.outs[k] for k in plan.diff]
        join = wide.forward(outs, key, axis, new)
        with jax.ensure_compile_time_eval():  # kept, whatever is being traced now
            zeros = {m: jnp.zeros(m.shape, m.dtype.np) for m, p in zip(outs, present) if not p}

        def vjp(*cts: Any) -> list[Any]:
            it = iter(cts)
            return [join(*[next(it) if p else zeros[m] for m, p in zip(outs, present)])]

        return vjp

    def describe(self, cts: tuple[Meta | None, ...]) -> tuple[tuple[Meta, int, int], ...]:
        """How torch would lay out each gradient: (meta, FRESH, VIEWED or PASSED, its version).

        A gradient that views the incoming one may not be accumulated into in place; one that is
        the incoming one passed on is the same object, shared by all it is passed to.
        """
        found = self.described.get(cts)
        if found is None:
            found = self.described[cts] = tuple(
                self._describe(p, cts) for p in range(len(self.inputs))
            )
        return found

    def _describe(self, p: int, cts: tuple[Meta | None, ...]) -> tuple[Meta, int, int]:
        call = self.plan.call
        key = self.plan.keys[self.inputs[p]]
        assert isinstance(key, Meta)
        plain = meta(key.shape, key.dtype, key.device)
        ct = cts[0]
        follows, version = call.grad_facts
        if follows and key.dense:
            return key, FRESH, version
        if ct is None or len(cts) != 1 or version:
            return plain, FRESH, version
        if call.grad_view is not None:
            strides = call.grad_view(ct, key, **call.statics)
            if strides is not None:
                return meta(key.shape, key.dtype, key.device, tuple(strides)), VIEWED, 0
        if call.geometry is None and self.passes(p) and ct.shape == key.shape:
            return ct, PASSED, 0
        if call.geometry is not None and key.numel == ct.numel:
            strides = shapes.view_strides(ct.shape, ct.strides, key.shape)
            if strides is None:
                return plain, FRESH, 0
            return meta(key.shape, key.dtype, key.device, strides), VIEWED, 0
        if call.layout is Layout.ELEMENTWISE and ct.shape == key.shape and key.ndim > 1:
            kept = [self.plan.keys[i] for i in self.saved_in] + [
                self.plan.outs[k] for k in self.saved_out
            ]
            operands = [(m.shape, m.strides) for m in [ct, *kept] if isinstance(m, Meta)]
            strides = shapes.elementwise_strides(key.shape, operands)
            return meta(key.shape, key.dtype, key.device, strides), FRESH, 0
        if call.layout is Layout.PRESERVE and ct.shape == key.shape:
            return (
                meta(
                    key.shape, key.dtype, key.device, shapes.preserve_strides(ct.shape, ct.strides)
                ),
                FRESH,
                0,
            )
        return plain, FRESH, 0

    def passes(self, p: int) -> bool:
        """Whether a gradient is the incoming one, unchanged."""
        ref = self.grad_refs[p]
        base = len(self.plan.present)
        return not isinstance(ref, _Const) and base <= ref < self._steps.n_in

    def call(
        self, which: int, present: tuple[bool, ...]
    ) -> tuple[Call, tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
        """One gradient as an op of its own, with the saved inputs and outputs that it reads."""
        key = (which, present)
        found = self.calls.get(key)
        if found is None:
            _, read = self._steps.slice([self.grad_refs[which]], self.cuts)
            ins, outs = self._reads(read)
            base = len(self.plan.present)
            used = tuple(p and base + j in read for j, p in enumerate(present))
            n = sum(used)

            def run(leaves: Sequence[Any]) -> Any:
                it = iter(leaves[:n])
                cts = [next(it) if u else None for u in used]
                return self.fn(cts, leaves[n:], (which,), ins, outs)[0]

            call = Call(f"{self.plan.call.name}_backward", run, node_name=self._last_step(which),
                        layout=Layout.CONTIGUOUS)  # fmt: skip
            found = self.calls[key] = (call, ins, outs, used)
        return found

    def _last_step(self, which: int) -> Any:
        """The name of a recorded gradient: that of the last step in torch's formula."""
        leaf = self.inputs[which]
        key, out = self.plan.keys[leaf], self.plan.outs[0]
        if isinstance(key, Meta) and self.plan.call.layout is Layout.ELEMENTWISE:
            if key.dtype is not out.dtype and leaf in self.plan.call.promoted:
                return "ToCopyBackward0"
            total = summed(out.shape, key.shape)
            if total is not None:
                return total
        edge = self.edge_leaves.index(leaf) if leaf in self.edge_leaves else -1
        name = last_step(self.name, edge)
        if name != RESHAPED:
            return name
        assert isinstance(key, Meta)
        return lambda keys: reshaped(keys[0].shape, keys[0].strides, key.shape)


class MissingGradPlan(GradPlan):
    """An op without a derivative: recorded, and an error once a backward pass needs it."""

    __slots__ = ()

    def _derive(self) -> None:
        self.saved_in = self.saved_out = ()

    def passes(self, p: int) -> bool:
        """Never: there is no gradient."""
        return False

    def fn(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Say which op has no derivative."""
        raise RuntimeError(f"derivative for aten::{self.plan.call.name} is not implemented")

    def call(self, *args: Any) -> Any:
        """The same."""
        return self.fn()


def _edge_leaves(keys: tuple[Key, ...]) -> tuple[int, ...]:
    """Leaves that get an entry in next_functions: tensors that could carry a gradient."""
    return tuple(
        i for i, k in enumerate(keys)
        if isinstance(k, Meta) and k.dtype.category >= dtypes.FLOATING
    )  # fmt: skip


def jvp_call(plan: Plan, tangents: tuple[int, ...]) -> Call:
    """``(*leaves, *tangents) -> tangents of the differentiable outputs`` as an op of its own."""
    call = plan.call
    n, present = len(plan.keys), plan.present
    diff, single = plan.diff, plan.single
    where = [present.index(i) for i in tangents]

    def run(leaves: Sequence[Any]) -> Any:
        prim = [leaves[i] for i in present]
        given = leaves[n:]

        def g(*d: Any) -> Any:
            full = list(prim)
            for p, v in zip(where, d):
                full[p] = v
            out = plan.fn(*full)
            outs = (out,) if single else tuple(out)
            return tuple(outs[k] for k in diff)

        _, out_t = jax.jvp(g, tuple(prim[p] for p in where), tuple(given))
        return out_t[0] if len(diff) == 1 else tuple(out_t)

    return Call(
        f"{call.name}_jvp",
        run,
        node_name=f"{call.name}_jvp",
        layout=call.layout if isinstance(call.layout, Layout) else Layout.CONTIGUOUS,
    )


def jvp_reads(plan: Plan) -> frozenset[int]:
    """The leaves on which the tangents of an op depend, whichever of its leaves have one.

    None for a linear op. torch's product rules read both factors although one tangent is zero;
    a number that takes part in promotion is such a factor.
    """
    n, present = len(plan.keys), plan.present
    avals, which = [], []
    for i in present:
        key = plan.keys[i]
        if isinstance(key, Meta):
            avals.append(aval(key))
        elif i in plan.call.promoted and plan.outs[0].dtype.category >= dtypes.FLOATING:
            avals.append(jax.ShapeDtypeStruct((), plan.outs[0].dtype.np))
        else:
            avals.append(aval(key))
            continue
        if jnp.issubdtype(avals[-1].dtype, jnp.inexact):
            which.append(i)
    call = jvp_call(plan, tuple(which))

    def flat(*xs: Any) -> Any:
        leaves: list[Any] = [None] * n
        for i, x in zip(present, xs):
            leaves[i] = x
        return call.run([*leaves, *xs[len(present) :]])

    steps = Steps(jax.make_jaxpr(flat)(*avals, *[avals[present.index(i)] for i in which]))
    read = steps.slice(steps.out, frozenset())[1]
    return frozenset(i for p, i in enumerate(present) if p in read)


@functools.cache
def saver(ins: tuple[int, ...], outs: tuple[int, ...], n: int) -> Callable[..., Any]:
    """``(kinds, leaves..., storages of fresh outputs...) -> (saved, versions)`` for one pattern.

    Generated, because a loop over a pattern costs more than the two or three reads it does. A leaf
    that is a number is saved as it is.
    """
    args = [f"a{i}" for i in range(n)]
    stores = [f"s{k}" for k in outs]
    saved = [f"a{i}" for i in ins] + stores
    vers = [f"(0 if a{i}.__class__ in numbers else a{i}._vc.version)" for i in ins] + ["0"] * len(
        outs
    )
    tup = lambda xs: "(" + "".join(x + "," for x in xs) + ")"  # noqa: E731
    space: dict[str, Any] = {"numbers": frozenset(_PYTHON_NP)}
    exec(f"def save({', '.join(args + stores)}): return {tup(saved)}, {tup(vers)}", space)
    return space["save"]


def getter(indices: Sequence[int]) -> Callable[[Any], Any]:
    """`indices` of a sequence as a tuple, at C speed."""
    if not indices:
        return lambda seq: ()
    if len(indices) == 1:
        return operator.itemgetter(slice(indices[0], indices[0] + 1))
    return operator.itemgetter(*indices)
