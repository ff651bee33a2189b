"""The steps of a traced run taken again, equal ones once.

A node's gradient is made of what it saved, so that parts of its formula are those of the forward pass: in one program
they need not be computed twice. XLA finds such pairs too, but only where nothing between them was moved or fused first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ...._core.jax.evaluate import Take, evaluate, results_of
from ...._engine.modes.written_steps import placeholder

_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Calls, and where their steps are: nobody differentiates a program any more."""
_RANDOM = frozenset(["rng_uniform"])
"""What gives other numbers each time, although JAX knows of no effect."""


def evaluate_equal_steps_once(
    jaxpr: Any, captured: Sequence[Any], consts: Sequence[Any], instead: Take | None = None
) -> list[Any]:
    """Return what the steps give for these values from outside; the arrays are those of a program being traced."""
    once = _Once(captured, instead)

    def take(eqn: Any, args: list[Any]) -> Sequence[Any]:
        with at_its_line(eqn):
            return once.take(eqn, args)

    return evaluate(jaxpr, consts, take)


def at_its_line(eqn: Any) -> Any:
    """A context in which steps belong to the user's line that a recorded step comes from: programs tell it."""
    lines = lines_of_users()
    return lines.user_context(eqn.source_info.traceback, name_stack=lines.current_name_stack())


@functools.cache
def lines_of_users() -> Any:
    """JAX's module of source lines, told that those of this package are none of the user's."""
    from jax.extend import source_info_util

    source_info_util.register_exclusion(str(Path(__file__).resolve().parents[3]))
    return source_info_util


class _Once:
    """Takes steps, equal ones once."""

    __slots__ = ("captured", "first_results", "instead", "kept_arguments", "outside")

    def __init__(self, captured: Sequence[Any], instead: Take | None) -> None:
        self.captured, self.outside, self.instead = captured, placeholder(), instead
        self.first_results: dict[Any, Sequence[Any]] = {}
        self.kept_arguments: list[Any] = []
        """Arguments of steps, whose identities are part of the keys."""

    def take(self, eqn: Any, args: list[Any]) -> Sequence[Any]:
        """The results of a step; what it calls is taken step by step."""
        if eqn.primitive is self.outside:
            return [self.captured[eqn.params["index"]]]
        inner = called(eqn)
        if inner is not None:
            return evaluate(inner.jaxpr, (*inner.consts, *args), self.take)
        own = None if self.instead is None else self.instead(eqn, args)
        if own is not None:
            return own
        key = _key(eqn, args)
        out = None if key is None else self.first_results.get(key)
        if out is None:
            out = [*results_of(eqn, args)]
            if key is not None:
                self.first_results[key] = out
                self.kept_arguments.append(args)
        return out


def let_peers_share(program: Any) -> None:
    """Storages that held one array get one again where what they get is computed in the same way."""
    firsts = {id(first) for _, first, _, _ in program.peers}
    theirs = [k for i, k, _ in program.writes if i >= 0 and id(program.sources[i].what) in firsts]
    theirs += [k for _, _, k, _ in program.peers if k >= 0]
    equal = _equal_results(program.jaxpr, program.consts)
    same: dict[int, int] = {}
    shared = {k: same.setdefault(equal[k], k) for k in theirs}
    program.writes = [
        (i, shared[k] if i >= 0 and id(program.sources[i].what) in firsts else k, stamps)
        for i, k, stamps in program.writes
    ]
    program.peers = [(st, first, shared.get(k, k), n) for st, first, k, n in program.peers]


def _equal_results(jaxpr: Any, consts: Sequence[Any]) -> list[int]:
    """For each result the number of the first one that is the same steps of the same inputs."""
    numbers_of_steps: dict[Any, Any] = {}
    env = {v: ("constant", id(c)) for v, c in zip(jaxpr.constvars, consts)}
    _number(jaxpr.eqns, env, numbers_of_steps)
    first: dict[Any, int] = {}
    names = [_name(v, env) for v in jaxpr.outvars]
    return [first.setdefault(name, k) for k, name in enumerate(names)]


def _number(eqns: Sequence[Any], env: dict[Any, Any], numbers_of_steps: dict[Any, Any]) -> None:
    """Give the results of steps names in `env`, equal ones the same."""
    for eqn in eqns:
        args = [_name(v, env) for v in eqn.invars]
        inner = called(eqn)
        if inner is not None:
            own = {v: ("constant", id(c)) for v, c in zip(inner.jaxpr.constvars, inner.consts)}
            own.update(zip(inner.jaxpr.invars, args))
            _number(inner.jaxpr.eqns, own, numbers_of_steps)
            env.update(zip(eqn.outvars, [_name(v, own) for v in inner.jaxpr.outvars]))
            continue
        key = _key(eqn, args)
        number = len(numbers_of_steps) if key is None else numbers_of_steps.setdefault(key, len(numbers_of_steps))
        if key is None:
            numbers_of_steps[len(numbers_of_steps), None] = number
        env.update((v, (number, i)) for i, v in enumerate(eqn.outvars))


def _name(v: Any, env: dict[Any, Any]) -> Any:
    return ("literal", v.aval, _exactly(v.val)) if hasattr(v, "val") else env[v]


def called(eqn: Any) -> Any:
    """The steps of a call that stand for it, or None."""
    steps = _CALLS.get(eqn.primitive.name)
    return eqn.params[steps] if steps is not None and _unconditional(eqn.params) else None


def needed_of(eqns: Sequence[Any], results: Sequence[Any]) -> set[Any]:
    """The variables that these steps need for such results, and the results themselves."""
    needed = {v for v in results if not hasattr(v, "val")}
    for eqn in reversed(eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(v for v in _needed_by(eqn, needed) if not hasattr(v, "val"))
    return needed


def _needed_by(eqn: Any, needed: set[Any]) -> list[Any]:
    """Return what a step reads for those of its results that are needed."""
    inner = called(eqn)
    if inner is None:
        return list(eqn.invars)
    inner = getattr(inner, "jaxpr", inner)
    found = needed_of(inner.eqns, [v for v, o in zip(inner.outvars, eqn.outvars) if o in needed])
    return [v for v, i in zip(eqn.invars, inner.invars) if i in found]


def _unconditional(params: dict[str, Any]) -> bool:
    """Return whether a call asks for nothing but its steps: no layout of its own over devices, no options."""
    placed = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    return not params.get("compiler_options_kvs") and all(type(s).__name__ == "UnspecifiedValue" for s in placed)


def _key(eqn: Any, args: Sequence[Any]) -> Any:
    """Return what a step is, or None where it has to be taken each time."""
    if eqn.effects or eqn.primitive.name in _RANDOM:
        return None
    params = tuple((k, _exactly(v)) for k, v in sorted(eqn.params.items()))
    key = (eqn.primitive, params, tuple(map(_exactly, args)), tuple(v.aval for v in eqn.outvars))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _exactly(value: Any) -> Any:
    """A number by its bits (0 is not -0, nor 1 True), an array by its identity, anything else as it is."""
    if isinstance(value, bool | int | str | None):
        return type(value), value
    if isinstance(value, jax.Array):
        return id(value)
    if isinstance(value, float | complex) or (hasattr(value, "dtype") and np.ndim(value) == 0):
        return type(value), np.asarray(value).dtype, np.asarray(value).tobytes()
    return id(value) if hasattr(value, "dtype") else value
