"""Forward mode for functions that come with a backward pass and nothing else.

A custom `Function`, a tensor with hooks and a `jax.custom_vjp` say how cotangents go back through them, and JAX refuses
to take their tangents: `jax.hessian`, which is forward mode over reverse mode, fails. Yet the tangents follow from the
backward pass. It is a linear function of the cotangents, whose matrix is the transposed Jacobian; so the transpose of
*that* function takes tangents to tangents:

    back(x, u)            = J(x)^T u
    transpose of back at v = J(x) v

`with_tangents` builds this into a function. Reverse mode runs the backward pass itself, once; only code that
asks for tangents pays for the transpose. A backward pass that is not linear is taken as it is near zero, as in
PyTorch's `torch.autograd.functional.jvp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax.api_util import shaped_abstractify
from jax.extend.core import Primitive, jaxprs_in_params, no_effects
from jax.interpreters import ad, batching, mlir

from ..._core.jax.linear_maps import Back, Linear, avals_of, batch_first, over_batch, still, tangents_along, with_batch
from ..._core.jax.x64 import with_x64

Forward = Callable[..., Sequence[Any]]
"""From arrays to a sequence of arrays."""


def with_tangents(forward: Forward, back: Back, effects: Any = no_effects) -> Callable[..., list[Any]]:
    """A function of arrays whose derivatives of every mode and order are those that a backward pass gives.

    Args:
        forward: the function.
        back: its backward pass, of the arguments themselves and of gradients as PyTorch has them: those of complex
            numbers are the conjugates of JAX's cotangents.
        effects: what JAX says that `forward` does besides.
    """

    def in_cotangents(arrays: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        return [*map(_conjugate, back(arrays, [*map(_conjugate, cotangents)]))]

    return functools.partial(_bind, _WithBackward(forward, in_cotangents), frozenset(effects))


def _conjugate(x: Any) -> Any:
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


def of_custom_vjp(f: Forward, effects: Any = no_effects) -> Callable[..., list[Any]]:
    """A function that calls `jax.custom_vjp` functions, with the tangents that belong to their backward passes."""
    return functools.partial(_bind, _OfCustomVjp(f), frozenset(effects))


def with_rule(
    forward: Forward, pull: Forward, back: Back, push: Back, effects: Any = no_effects
) -> Callable[..., list[Any]]:
    """A function that says itself how cotangents go back, and how tangents go forward.

    Args:
        forward: the function.
        pull: gives its results, and what `back` and `push` are given of the arguments.
        back: its backward pass, of what was kept and of cotangents.
        push: its forward mode, of what was kept and of tangents. XLA could not transpose a backward pass with a loop.
        effects: what JAX says that `forward` does besides.
    """
    rule = _WithKept(forward, pull, Linear(back, push))
    return functools.partial(_bind, rule, frozenset(effects))


def _bind(rule: _Rule, effects: Any, *arrays: Any) -> list[Any]:
    results = tuple(map(shaped_abstractify, jax.eval_shape(rule.forward, *arrays)))
    return _call.bind(*arrays, rule=rule, results=results, side_effects=effects)


class _Rule(Protocol):
    """How a function is called and differentiated."""

    @property
    def forward(self) -> Forward:
        """The function."""
        raise NotImplementedError

    def pull(self, arrays: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Linear]:
        """The results, what to keep of the arguments, and how cotangents and tangents go."""
        raise NotImplementedError

    def batched(self) -> _Rule:
        """The same for a batch in the first dimension of every array."""
        raise NotImplementedError


@dataclass(frozen=True)
class _WithBackward:
    forward: Forward
    back: Back

    def pull(self, arrays: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Linear]:
        return _bind(self, no_effects, *arrays), arrays, Linear(self.back)

    def batched(self) -> _Rule:
        return _WithBackward(jax.vmap(self.forward), over_batch(self.back))


@dataclass(frozen=True)
class _WithKept:
    forward: Forward
    pulled: Forward
    linear: Linear

    def pull(self, arrays: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Linear]:
        return *self.pulled(*arrays), self.linear

    def batched(self) -> _Rule:
        return _WithKept(jax.vmap(self.forward), jax.vmap(self.pulled), self.linear.of_each())


@dataclass(frozen=True)
class _OfCustomVjp:
    forward: Forward

    def pull(self, arrays: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Linear]:
        moving = [i for i, a in enumerate(arrays) if is_inexact(a)]
        treedef: Any = None

        def pulled(*arrays: Any) -> list[Any]:
            nonlocal treedef
            inexact = functools.partial(self._inexact, arrays)
            _, pullback, results = jax.vjp(inexact, *[arrays[i] for i in moving], has_aux=True)
            kept, treedef = jax.tree.flatten(pullback)
            return [*results, *kept]

        # A `fwd` or `bwd` that calls such a function again is differentiated in the same way.
        values = _called_again(pulled, arrays)
        n = len(jax.eval_shape(self.forward, *arrays))

        def back(kept: Sequence[Any], u: Sequence[Any]) -> Sequence[Any]:
            def run(*both: Any) -> Sequence[Any]:
                return jax.tree.unflatten(treedef, both[: len(kept)])([*both[len(kept) :]])

            return _called_again(run, [*kept, *u])

        return values[:n], values[n:], Linear(back)

    def _inexact(self, arrays: Sequence[Any], *given: Any) -> tuple[list[Any], list[Any]]:
        """The inexact results, and all, for other inexact arguments."""
        rest = iter(given)
        results = list(self.forward(*[next(rest) if is_inexact(a) else a for a in arrays]))
        return [r for r in results if is_inexact(r)], results

    def batched(self) -> _Rule:
        return _OfCustomVjp(jax.vmap(self.forward))


def _called_again(f: Forward, arrays: Sequence[Any]) -> Sequence[Any]:
    """The results of a part of a derivative, which may call `jax.custom_vjp` functions itself."""
    if has_custom_vjp(jax.make_jaxpr(f)(*arrays).jaxpr):
        return _bind(_OfCustomVjp(f), no_effects, *arrays)
    return f(*arrays)


def has_custom_vjp(jaxpr: Any) -> bool:
    """Whether a `jax.custom_vjp` function is called anywhere in a program."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.startswith("custom_vjp_call"):
            return True
        if any(has_custom_vjp(inner) for inner in jaxprs_in_params(eqn.params)):
            return True
    return False


def is_inexact(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


# --- the function: arrays -> results --------------------------------------------------------------

# Primitives of our own, since JAX forgets a `jax.custom_jvp` that it partially evaluates: the second derivative of a
# `scan` over one would be that of the forward pass.
_call = Primitive("call_with_backward")
_call.multiple_results = True


def _called(*arrays: Any, rule: _Rule, **_: Any) -> list[Any]:
    return list(rule.forward(*arrays))


def _call_jvp(arrays: Sequence[Any], directions: Sequence[Any], *, rule: _Rule, **_: Any) -> tuple[Any, Any]:
    moving = [ad.instantiate_zeros(d) for a, d in zip(arrays, directions) if is_inexact(a)]
    results, kept, linear = rule.pull(arrays)
    inexact = tuple(jax.typeof(r) for r in results if is_inexact(r))
    slopes = iter(tangents_along(linear, kept, moving, inexact))
    return results, [next(slopes) if is_inexact(r) else still(r) for r in results]


def _call_batched(
    arrays: Sequence[Any], dims: Sequence[Any], *, rule: _Rule, results: Any, side_effects: Any
) -> tuple[Any, Any]:
    whole, size = batch_first(arrays, dims)
    shapes = with_batch(results, size)
    outs = _call.bind(*whole, rule=rule.batched(), results=shapes, side_effects=side_effects)
    return outs, [0] * len(results)


_call.def_impl(with_x64(_called))  # this and the rules: a program with 32 bits may call them
_call.def_effectful_abstract_eval(lambda *_, side_effects, **p: (avals_of(**p), side_effects))
mlir.register_lowering(_call, mlir.lower_fun(with_x64(_called), multiple_results=True))
ad.primitive_jvps[_call] = with_x64(_call_jvp)
batching.primitive_batchers[_call] = with_x64(_call_batched)
