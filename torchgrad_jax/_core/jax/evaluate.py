"""The steps of a jaxpr, evaluated one after the other.

    evaluate(jaxpr, values)              # what the steps give
    evaluate(jaxpr, values, take=once)   # `once(step, arguments)` takes the steps that it gives results for

A step that a caller takes in its own way is, for example, a call, or one that was taken before with equal arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from .x64 import with_x64

Take = Callable[[Any, list[Any]], "Sequence[Any] | None"]
"""Takes a step in its own way, given it and its arguments; None where it is taken as it is."""


def evaluate(jaxpr: Any, values: Iterable[Any], take: Take | None = None) -> list[Any]:
    """Return what a jaxpr gives for the values of its constants, then of its arguments."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), values))
    run_steps(jaxpr.eqns, env, take)
    return values_of(jaxpr.outvars, env)


def first_of(*ways: Take) -> Take:
    """Take each step in the first of these ways that takes it."""

    def take(eqn: Any, args: list[Any]) -> Sequence[Any] | None:
        return next((outs for way in ways if (outs := way(eqn, args)) is not None), None)

    return take


def run_steps(eqns: Iterable[Any], env: dict[Any, Any], take: Take | None = None) -> None:
    """Evaluate steps, and add their results to `env`."""
    for eqn in eqns:
        args = values_of(eqn.invars, env)
        outs = None if take is None else take(eqn, args)
        env.update(zip(eqn.outvars, results_of(eqn, args) if outs is None else outs))


def results_of(eqn: Any, args: list[Any]) -> Sequence[Any]:
    """Return the results of one step as it is."""
    outs = bind_equation(eqn, args)
    return outs if eqn.primitive.multiple_results else [outs]


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


@with_x64
def bind_equation(eqn: Any, args: list[Any]) -> Any:
    """Evaluate one equation; JAX releases differ in what `get_bind_params` returns."""
    params = eqn.primitive.get_bind_params(eqn.params)
    if len(args) > 1:
        args = varying_alike(args)
    if isinstance(params, tuple):
        return eqn.primitive.bind(*params[0], *args, **params[1])
    return eqn.primitive.bind(*args, **params)
