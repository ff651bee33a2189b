"""A jaxpr as a flat list of steps, to be cut and evaluated in part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._core.host.choice import INNER

_INLINED = {"pjit", "jit", "closed_call", "core_call", "core_closed_call"}


class Const:
    __slots__ = ("id", "value")

    def __init__(self, value: Any, id: int | None = None) -> None:
        self.value = value
        self.id = id
        """Of a number that is made of sizes: its number among the values of a template."""


class Var:
    """A value of a step, known by its identity; `aval` says what JAX knows of it."""

    __slots__ = ("aval", "id")

    def __init__(self, aval: Any, id: int | None = None) -> None:
        self.aval = aval
        self.id = id
        """Its number among the values of the steps."""


class Literal:
    """A value of a step that is the same in each call."""

    __slots__ = ("aval", "id", "val")

    def __init__(self, aval: Any, val: Any, id: int | None = None) -> None:
        self.aval, self.val, self.id = aval, val, id


class Equation(NamedTuple):
    """One step, with as much of JAX's equations as is needed to evaluate it and to make NumPy code of it."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]
    effects: Any = ()
    at: int | None = None
    """Which step of a template it is."""


class Jaxpr(NamedTuple):
    """Steps with the names of arguments and results."""

    eqns: list[Any]
    invars: list[Any]
    outvars: list[Any]
    effects: Any = ()
    constvars: Any = ()


class Closed(NamedTuple):
    """Steps that need nothing but their arguments: what a closed jaxpr of JAX's has."""

    jaxpr: Jaxpr
    consts: Any = ()

    @property
    def effects(self) -> Any:
        return self.jaxpr.effects

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.outvars]

    def run(self, *args: Any) -> list[Any]:
        """Evaluate the steps."""
        env: dict[Any, Any] = dict(zip(self.jaxpr.invars, args))
        for eqn in self.jaxpr.eqns:
            outs = bind_equation(eqn, values_of(eqn.invars, env))
            env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs]))
        return values_of(self.jaxpr.outvars, env)


Step = tuple[Any, list[Any], list[int]]
"""An equation, its arguments (by number, or as a `Const`), the numbers of its results."""


class Steps:
    """A jaxpr with nested calls inlined: `steps` of (equation, argument refs, result ids).

    With `whole`, calls are inlined as well that have a rule of their own for derivatives, which is lost.
    """

    def __init__(self, closed: Any, whole: bool = False) -> None:
        self._whole, self.lost_rules = whole, False
        self.steps: list[Step] = []
        self.avals: list[Any] = []
        """Of each value, by its number."""
        self._conjugates: dict[int, Any] = {}
        self.real_parts: dict[Any, Any] = {}
        """By result that is a real part: the complex value that it is the real part of."""
        self.n_in, self.effects = len(closed.jaxpr.invars), closed.effects
        ins = [self._new(v.aval) for v in closed.jaxpr.invars]
        self.out = self._inline(closed.jaxpr, [Const(c) for c in closed.consts], ins)

    def _new(self, aval: Any) -> int:
        self.avals.append(aval)
        return len(self.avals) - 1

    def _inline(self, jaxpr: Any, consts: list[Any], args: list[Any]) -> list[Any]:
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))

        def ref(v: Any) -> Any:
            # Only literals have a value; their class is in jax.extend, which is slow to import.
            return Const(v.val) if hasattr(v, "val") else env[v]

        for eqn in jaxpr.eqns:
            refs = [ref(v) for v in eqn.invars]
            if eqn.primitive.name in _INLINED or (self._whole and eqn.primitive.name in INNER):
                self.lost_rules |= eqn.primitive.name not in _INLINED
                sub = eqn.params.get("jaxpr") or eqn.params[INNER.get(eqn.primitive.name, "call_jaxpr")]
                inner = getattr(sub, "jaxpr", sub)
                outs = self._inline(inner, [Const(c) for c in getattr(sub, "consts", ())], refs)
            elif (undone := self._undone(eqn, refs)) is not None:
                outs = [undone]
            else:
                outs = [self._new(v.aval) for v in eqn.outvars]
                self.steps.append((eqn, refs, outs))
            env.update(zip(eqn.outvars, outs))
        return [ref(v) for v in jaxpr.outvars]

    def _undone(self, eqn: Any, refs: list[Any]) -> Any:
        """What a conjugate is the conjugate of, if this is one of that."""
        name = eqn.primitive.name
        if name not in ("conj", "convert_element_type", "real") or isinstance(refs[0], Const):
            return None
        if not jnp.iscomplexobj(eqn.invars[0].aval):
            return None
        if name != "conj":
            if jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.floating):
                self.real_parts[len(self.avals)] = self._conjugates.get(refs[0], refs[0])
            return None
        before = self._conjugates.get(refs[0])
        if before is None:
            self._conjugates[len(self.avals)] = refs[0]  # the id that the result is about to get
        return before

    def slice(self, wanted: Sequence[Any], cuts: frozenset[int]) -> tuple[list[Any], set[int]]:
        """The steps that `wanted` refs need when ids in `cuts` are given, and the ids they read."""
        need = {r for r in wanted if not isinstance(r, Const)}
        read: set[int] = set()
        kept = []
        for step in reversed(self.steps):
            if any(o in need and o not in cuts for o in step[2]):
                kept.append(step)
                need.update(r for r in step[1] if not isinstance(r, Const))
        made = {o for step in kept for o in step[2]}
        read = {r for r in need if r in cuts or r < self.n_in}
        assert all(r in made or r in read for r in need)
        kept.reverse()
        return kept, read

    def closed(
        self, given: Sequence[Any], wanted: Sequence[Any], cuts: frozenset[int], steps: Sequence[Step]
    ) -> Closed:
        """`wanted` refs as a function of `given` ids, by `steps` that `slice` gave; ids in `cuts` keep given values."""
        names: dict[int, Any] = {}

        def name(r: Any, v: Any = None) -> Any:
            if isinstance(r, Const):
                return Literal(_aval_of(r.value) if v is None else v.aval, r.value, r.id)
            if r not in names:
                names[r] = Var(self.avals[r], r)
            return names[r]

        invars = [name(r) for r in given]
        kept = []
        for eqn, refs, outs in steps:
            ins = [name(r, v) for r, v in zip(refs, eqn.invars)]
            made = [Var(self.avals[o], o) if o in cuts and o in names else name(o) for o in outs]
            kept.append(Equation(eqn.primitive, eqn.params, ins, made, eqn.effects, getattr(eqn, "at", None)))
        return Closed(Jaxpr(kept, invars, [name(r) for r in wanted], self.effects))

    def flows(self, wanted: Sequence[Any], cuts: frozenset[int]) -> set[int]:
        """The ids that the numbers of `wanted` come from: what is only compared decides, and ends there."""
        need = {r for r in wanted if not isinstance(r, Const)}
        for eqn, refs, outs in reversed(self.steps):
            if any(o in need and o not in cuts for o in outs):
                need.update(
                    r
                    for v, r in zip(eqn.invars, refs)
                    if not isinstance(r, Const) and jnp.issubdtype(v.aval.dtype, jnp.inexact)
                )
        return need

    @staticmethod
    def run(steps: Sequence[Any], env: dict[int, Any], wanted: Sequence[Any], cuts: frozenset[int]) -> list[Any]:
        """Evaluate steps over `env`, keeping the given values of cut ids."""
        for eqn, refs, outs in steps:
            args = [r.value if isinstance(r, Const) else env[r] for r in refs]
            res = bind_equation(eqn, args)
            if not eqn.primitive.multiple_results:
                res = [res]
            for o, v in zip(outs, res):
                if o not in cuts or o not in env:
                    env[o] = v
        return [r.value if isinstance(r, Const) else env[r] for r in wanted]


def _aval_of(x: Any) -> Any:
    return jax.core.ShapedArray(jnp.shape(x), jnp.result_type(x))


def values_of(names: Iterable[Any], env: Mapping[Any, Any]) -> list[Any]:
    """The values of variables of a jaxpr, and of literals among them."""
    return [v.val if hasattr(v, "val") else env[v] for v in names]


def varying_alike(args: list[Any]) -> list[Any]:
    """Inside of `jax.shard_map` primitives want arguments that vary over the same axes; constants vary over none."""
    axes = [_varying(getattr(a, "aval", None)) for a in args]
    whole = frozenset().union(*axes)
    if all(own == whole for own in axes):
        return args
    return [
        a if own == whole else jax.lax.pcast(a, tuple(sorted(whole - own)), to="varying") for a, own in zip(args, axes)
    ]


def _varying(aval: Any) -> frozenset[Any]:
    """The axes that a value varies over; JAX releases differ in where they keep them."""
    found = getattr(aval, "vma", None)
    if found is None:
        found = getattr(getattr(aval, "mat", None), "varying", None)
    return found or frozenset()


def bind_equation(eqn: Any, args: list[Any]) -> Any:
    """Evaluate one equation; JAX releases differ in what `get_bind_params` returns."""
    params = eqn.primitive.get_bind_params(eqn.params)
    if len(args) > 1:
        args = varying_alike(args)
    if isinstance(params, tuple):
        return eqn.primitive.bind(*params[0], *args, **params[1])
    return eqn.primitive.bind(*args, **params)
