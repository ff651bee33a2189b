"""Rules of derivatives in the user's JAX code, which run with the types that JAX has in the process.

    @jax.custom_vjp
    def f(x): ...

    f.defvjp(forward, backward)
    from_jax(f)(x).sum().backward()  # JAX calls `backward` while this package differentiates

`x64.as_host` is around the call of `f`. A rule runs later, in a pass of this package that has 64-bit types on, where
`jnp.ones(3)` would be float64 and JAX would refuse the result. JAX keeps the rules as parameters of the step that calls
`f`, so they are changed there. A rule may call functions with rules itself, for second derivatives: what it gives is a
jaxpr that is changed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .evaluate import evaluate
from .own_kernels import PREFIX
from .x64 import as_host


def with_rules_of_host(jaxpr: Any) -> Any:
    """Return a jaxpr of the user's JAX code whose rules run as that code does. Kernels in it keep theirs."""
    return jaxpr.replace(eqns=[eqn if _is_kernel(eqn) else _step(eqn) for eqn in jaxpr.eqns])


def _is_kernel(eqn: Any) -> bool:
    return str(eqn.params.get("name", "")).startswith(PREFIX)


def _step(eqn: Any) -> Any:
    return eqn.replace(params={k: _parameter(k, v) for k, v in eqn.params.items()})


def _parameter(name: str, value: Any) -> Any:
    """A parameter of a step: a rule, a jaxpr, or a tuple that may hold jaxprs."""
    if name in _RULES:
        from jax.extend import linear_util  # which imports much, and few programs need it

        return linear_util.wrap_init(_RULES[name](as_host(value.call_wrapped)), debug_info=value.debug_info)
    if value.__class__ is tuple:
        return tuple([_parameter("", v) for v in value])
    if hasattr(value, "jaxpr") and hasattr(value, "consts"):
        return value.replace(jaxpr=with_rules_of_host(value.jaxpr))
    return with_rules_of_host(value) if hasattr(value, "eqns") else value


def _giving_jaxpr(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that gives its steps as a jaxpr, and what belongs to it."""

    def run(*args: Any) -> Any:
        jaxpr, *others = rule(*args)
        return with_rules_of_host(jaxpr), *others

    return run


_TRACES_INSIDE = jax.__version_info__ < (0, 12)
"""Whether a rule can be traced while JAX differentiates. Later JAX leaves values of the outer trace in the steps, so
there the rules that a backward rule calls are left as they are."""


def _giving_arrays(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that takes its steps itself: they become a jaxpr first. It gets and gives symbolic zeros beside arrays."""

    def run(*args: Any) -> Any:
        at = [i for i, x in enumerate(args) if isinstance(x, jax.Array)]
        results: list[Any] = []

        def of_arrays(*arrays: Any) -> list[Any]:
            given = dict(enumerate(args)) | dict(zip(at, arrays))
            results[:] = rule(*given.values())
            return [x for x in results if isinstance(x, jax.Array)]

        made = jax.make_jaxpr(of_arrays)(*[args[i] for i in at])
        found = iter(evaluate(with_rules_of_host(made.jaxpr), [*made.consts, *[args[i] for i in at]]))
        return [next(found) if isinstance(x, jax.Array) else x for x in results]

    return run if _TRACES_INSIDE else rule


_RULES = {"fwd_jaxpr_thunk": _giving_jaxpr, "jvp_jaxpr_fun": _giving_jaxpr, "bwd": _giving_arrays}
"""Parameters of the steps that call functions of `jax.custom_vjp` and `jax.custom_jvp`."""
