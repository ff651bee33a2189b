"""Linear functions that say themselves how cotangents go back through them.

JAX derives that from the function. A backward pass that PyTorch defines otherwise, or of which alone the function is
known, is a rule of its own, also where the function is mapped over a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.api_util import shaped_abstractify
from jax.interpreters import ad, batching, mlir

from .x64 import with_x64

Back = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""From what the forward kept and the cotangents of the inexact results to the cotangents of the inexact arguments."""


@dataclass(frozen=True)
class Linear:
    """How cotangents go back through a function, and tangents forward: as the transpose says where `push` is None."""

    back: Back
    push: Back | None = None

    def of_each(self) -> Linear:
        """The same for a batch in the first dimension of every array."""
        return Linear(over_batch(self.back), None if self.push is None else over_batch(self.push))


def over_batch(f: Back) -> Back:
    """The same function for a batch in the first dimension of every array."""

    def each(kept: Sequence[Any], moving: Sequence[Any]) -> Sequence[Any]:
        return jax.vmap(lambda k, m: tuple(f(k, m)))(tuple(kept), tuple(moving))

    return each


def with_batch(results: Sequence[Any], size: int) -> tuple[Any, ...]:
    """The avals of so many results of each kind, with the batch in the first dimension."""
    zeros = tuple(ad.instantiate_zeros(ad.Zero(r)) for r in results)
    whole = jax.eval_shape(lambda: jax.vmap(lambda _: zeros)(jnp.arange(size)))
    return tuple(map(shaped_abstractify, whole))


def batch_first(args: Sequence[Any], dims: Sequence[Any]) -> tuple[list[Any], int]:
    """The arrays with the batch in the first dimension, and its size."""
    size = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
    return [batching.bdim_at_front(x, d, size) for x, d in zip(args, dims)], size


def tangents_along(linear: Linear, kept: Sequence[Any], moving: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Tangents of results with the given avals, linear in the tangents `moving`."""
    return _tangents().bind(*kept, *moving, linear=linear, results=tuple(results), n=len(kept))


def _expanded(*args: Any, linear: Linear, results: Sequence[Any], n: int) -> list[Any]:
    kept, moving = args[:n], args[n:]
    if linear.push is not None:
        return list(linear.push(kept, moving))
    zeros = [ad.instantiate_zeros(ad.Zero(r)) for r in results]
    _, transpose = jax.vjp(lambda *u: tuple(linear.back(kept, u)), *zeros)
    return list(transpose(tuple(moving)))


def _jvp(args: Sequence[Any], directions: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Linear in the tangents; what the kept arrays do to the result is differentiated as the expanded program."""
    n = params["n"]
    slopes = _tangents().bind(*args, **params)
    found = []
    if not all(isinstance(d, ad.Zero) for d in directions[n:]):
        second = [ad.instantiate_zeros(d) for d in directions[n:]]
        found.append(_tangents().bind(*args[:n], *second, **params))
    at = [i for i, d in enumerate(directions[:n]) if not _stands_still(d)]
    if at:

        def of_kept(*moved: Any) -> Sequence[Any]:
            values = list(args)
            for i, x in zip(at, moved):
                values[i] = x
            return _expanded(*values, **params)

        found.append(jax.jvp(of_kept, [args[i] for i in at], [directions[i] for i in at])[1])
    if not found:
        return slopes, [still(s) for s in slopes]
    return slopes, [functools.reduce(jnp.add, parts) for parts in zip(*found)]


def still(x: Any) -> Any:
    """The tangent of what does not move."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


def _stands_still(direction: Any) -> bool:
    return isinstance(direction, ad.Zero) or direction.dtype == jax.dtypes.float0


def _transpose(cotangents: Sequence[Any], *args: Any, linear: Linear, n: int, **_: Any) -> list[Any]:
    found = linear.back(args[:n], [ad.instantiate_zeros(ct) for ct in cotangents])
    wanted = [ad.is_undefined_primal(x) for x in args[n:]]
    return [None] * n + [g if w else None for g, w in zip(found, wanted)]


def _batched(args: Sequence[Any], dims: Sequence[Any], *, linear: Linear, results: Any, n: int) -> tuple[Any, Any]:
    whole, size = batch_first(args, dims)
    shapes = with_batch(results, size)
    outs = tangents_along(linear.of_each(), whole[:n], whole[n:], shapes)
    return outs, [0] * len(results)


def avals_of(*_: Any, results: Sequence[Any], **__: Any) -> list[Any]:
    """The results' avals, which inside of `shard_map` say along which axes of the mesh they vary."""
    return [r.strip_weak_type() for r in results]


@functools.cache
def _tangents() -> Any:
    """The primitive. It is made when it is first needed, because its import is slow."""
    from jax.extend.core import Primitive

    p = Primitive("tangents_of_backward")
    p.multiple_results = True
    p.def_impl(with_x64(_expanded))  # this and the rules: a program with 32 bits may call them
    p.def_abstract_eval(avals_of)
    mlir.register_lowering(p, mlir.lower_fun(with_x64(_expanded), multiple_results=True))
    ad.primitive_jvps[p], ad.primitive_transposes[p] = with_x64(_jvp), with_x64(_transpose)
    batching.primitive_batchers[p] = with_x64(_batched)
    return p
