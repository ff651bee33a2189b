"""One program for every size of some dimensions, found by comparing the programs of a few sizes.

Tensor code sees numbers for shapes: it may print them, compare them, or divide by them. So a function that is to be
exported for any batch size is traced at several sizes, and the traces are laid side by side:

    size 5:  broadcast_in_dim[shape=(5, 4)]      size 8:  broadcast_in_dim[shape=(8, 4)]      hence:  shape=(b, 4)

Each number that differs must be a polynomial of the sizes in which no size is squared (`b`, `2*b + 1`, `b*t`); a float
may also be one divided by such a number (a mean over the batch). The traces determine it, and one more trace, at other
sizes, has to agree. Code that takes another course at another size is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from ..._engine.modes.written_steps import placeholder

SIZES = ((5, 8, 13), (6, 11, 17), (7, 10, 19))
"""For each dimension that varies: two sizes to compare, and a third one to make sure."""


class SizeMatters(RuntimeError):
    """The function does something else at another size."""


def corners(n: int) -> list[tuple[int, ...]]:
    """The sizes to trace at: every choice of the first two sizes of each dimension, and the third ones together."""
    if n > len(SIZES):
        raise RuntimeError(f"export: at most {len(SIZES)} names of dimensions, got {n}")
    grid = list(itertools.product(*[SIZES[i][:2] for i in range(n)]))
    return [*grid, tuple(SIZES[i][2] for i in range(n))]


class AnySize:
    """Traces of one function at several sizes, as one function.

    Args:
        names: the dimensions, as JAX's symbols.
        points: the sizes of each trace: those of `corners`, and any others that have to agree.
    """

    def __init__(self, names: Sequence[Any], points: Sequence[tuple[int, ...]]) -> None:
        self.names, self.points = names, points

    # --- numbers ----------------------------------------------------------------------------------

    def number(self, found: Sequence[int]) -> Any:
        """The polynomial of the sizes that a number is."""
        if len(set(found)) == 1:
            return found[0]
        terms = self._terms(found)
        if terms is None:
            raise SizeMatters(f"a number is {list(found)} at the sizes {self.points}")
        return sum(c * self._product(of) for of, c in terms.items())

    def _terms(self, found: Any) -> dict[tuple[int, ...], int] | None:
        """Whole coefficients by the dimensions that are multiplied, or None where there are none that fit."""
        subsets = [of for k in range(len(self.names) + 1) for of in itertools.combinations(range(len(self.names)), k)]
        table = [[float(np.prod([p[i] for i in of])) for of in subsets] for p in self.points]
        n = len(subsets)
        solved = np.linalg.solve(np.array(table[:n]), np.array(found[:n], dtype=float))
        whole = np.rint(solved)
        exact = np.array(table) @ whole
        if not np.array_equal(exact, np.array(found, dtype=float)):
            return None
        return {of: int(c) for of, c in zip(subsets, whole) if c}

    def _product(self, of: tuple[int, ...]) -> Any:
        out: Any = 1
        for i in of:
            out = out * self.names[i]
        return out

    def scalar(self, found: Sequence[Any]) -> Any:
        """A number that a program computes with."""
        first = found[0]
        if all(v == first or (v != v and first != first) for v in found):
            return first
        dtype, values = np.result_type(first), np.array(found, dtype=float)
        floating = jnp.issubdtype(dtype, jnp.floating)
        known = _SCALARS if floating else _SCALARS[:1] if jnp.issubdtype(dtype, jnp.integer) else ()
        error = 2 * float(jnp.finfo(dtype).eps) if floating else 0.0
        for size_of, number_of in known:
            with np.errstate(divide="ignore", invalid="ignore"):
                sizes = np.rint(size_of(values))
                fits = np.allclose(number_of(sizes), values, rtol=error, atol=0)
            terms = self._terms(sizes) if fits else None
            if terms is not None:
                size = sum(c * self._product(of) for of, c in terms.items())
                return jnp.asarray(number_of(jnp.asarray(size).astype(dtype)), dtype)
        raise SizeMatters(f"a number is {list(found)} at the sizes {self.points}")

    # --- constants --------------------------------------------------------------------------------

    def constant(self, found: Sequence[Any]) -> Any:
        """An array that a program was made with: one that is filled with a number, or that counts, may vary in size."""
        first = found[0]
        if all(a.shape == first.shape for a in found):
            if all(a is first or np.array_equal(a, first, equal_nan=_may_be_nan(a)) for a in found):
                return first
            if first.ndim == 0:
                return self.scalar([np.asarray(a)[()] for a in found])
        arrays = [np.asarray(a) for a in found]
        shape = self.shape([a.shape for a in arrays])
        filled = {a.ravel()[0].item() for a in arrays if a.size}
        if len(filled) == 1 and all((a == a.ravel()[0]).all() for a in arrays):
            return jnp.full(shape, filled.pop(), first.dtype)
        flat = [a.ravel() for a in arrays]
        if all(a.size == max(a.shape) > 1 for a in arrays) and first.dtype.kind in "iuf":
            start, step = flat[0][0], flat[0][1] - flat[0][0]
            if all(np.array_equal(a, start + step * np.arange(a.size, dtype=a.dtype)) for a in flat):
                along = first.shape.index(max(first.shape))
                return start + step * jax.lax.broadcasted_iota(first.dtype, shape, along)
        raise SizeMatters(f"a tensor of constant values has the shapes {[a.shape for a in arrays]}")

    def shape(self, found: Sequence[Sequence[int]]) -> tuple[Any, ...]:
        """The shape that these are."""
        if len({len(s) for s in found}) > 1:
            raise SizeMatters(f"a tensor has the shapes {[tuple(s) for s in found]}")
        return tuple(self.number(sizes) for sizes in zip(*found))

    # --- programs ---------------------------------------------------------------------------------

    def run(
        self,
        programs: Sequence[Any],
        inputs: Sequence[Any],
        consts: Sequence[Sequence[Any]],
        outside: Sequence[Any] = (),
    ) -> list[Any]:
        """Take the steps that all programs have in common, over arrays whose shapes have names for sizes."""
        first = programs[0]
        if len({(len(p.eqns), len(p.invars), len(p.outvars), len(p.constvars)) for p in programs}) > 1:
            raise SizeMatters(f"it takes {[len(p.eqns) for p in programs]} steps at the sizes {self.points}")
        numbers: list[dict[Any, int]] = [{} for _ in programs]
        values: dict[Any, Any] = {}

        def born(variables: Sequence[Any], value: Any) -> None:
            for known, v in zip(numbers, variables):
                known[v] = len(values)
            values[len(values)] = value

        def value_of(variables: Sequence[Any]) -> Any:
            if all(isinstance(v, Literal) for v in variables):
                return (
                    self.constant([np.asarray(v.val) for v in variables])
                    if variables[0].aval.shape
                    else (self.scalar([v.val for v in variables]))
                )
            at = {None if isinstance(v, Literal) else known[v] for known, v in zip(numbers, variables)}
            if len(at) > 1:
                raise SizeMatters("a step reads something else")
            return values[at.pop()]

        for variables, x in zip(zip(*[p.invars for p in programs]), inputs):
            born(variables, x)
        for variables, arrays in zip(zip(*[p.constvars for p in programs]), zip(*consts)):
            born(variables, self.constant(arrays))
        for eqns in zip(*[p.eqns for p in programs]):
            if len({e.primitive.name for e in eqns}) > 1:
                raise SizeMatters(f"a step is {sorted({e.primitive.name for e in eqns})}")
            if eqns[0].primitive is placeholder():
                outs = [outside[eqns[0].params["index"]]]
            else:
                outs = self._step(eqns, [value_of(vs) for vs in zip(*[e.invars for e in eqns])])
            for variables, x in zip(zip(*[e.outvars for e in eqns]), outs):
                born(variables, x)
        return [value_of(vs) for vs in zip(*[p.outvars for p in programs])] if first.outvars else []

    def _step(self, eqns: Sequence[Any], args: list[Any]) -> list[Any]:
        first = eqns[0]
        inner = [_called(e) for e in eqns]
        if inner[0] is not None:
            return self.run([c.jaxpr for c in inner], args, [c.consts for c in inner])
        params = {k: self._param([e.params[k] for e in eqns]) for k in first.params}
        own = first.primitive.get_bind_params(params)
        if isinstance(own, tuple):
            out = first.primitive.bind(*own[0], *args, **own[1])
        else:
            out = first.primitive.bind(*args, **own)
        return list(out) if first.primitive.multiple_results else [out]

    def _param(self, found: Sequence[Any]) -> Any:
        first = found[0]
        if first.__class__ in (int, np.int64, np.int32):
            return self.number([int(v) for v in found])
        if isinstance(first, ClosedJaxpr | Jaxpr):
            return self._inner(found)
        if isinstance(first, tuple | list):
            if len({len(v) for v in found}) > 1:
                raise SizeMatters(f"an argument of a step is {list(found)}")
            parts = [self._param(vs) for vs in zip(*found)]
            return first.__class__(*parts) if hasattr(first, "_fields") else first.__class__(parts)
        if callable(first) or all(v is first or v == first for v in found):
            return first
        raise SizeMatters(f"an argument of a step is {list(found)}")

    def _inner(self, found: Sequence[Any]) -> Any:
        """The body of a loop or a branch."""
        closed = [c if isinstance(c, ClosedJaxpr) else ClosedJaxpr(c, ()) for c in found]
        avals = [
            jax.core.ShapedArray(
                self.shape([v.aval.shape for v in vs]), vs[0].aval.dtype, weak_type=vs[0].aval.weak_type
            )
            for vs in zip(*[c.jaxpr.invars for c in closed])
        ]
        body = jax.make_jaxpr(lambda *xs: self.run([c.jaxpr for c in closed], xs, [c.consts for c in closed]))(*avals)
        if isinstance(found[0], ClosedJaxpr):
            return body
        if body.consts:
            raise SizeMatters("the body of a loop has constants that depend on the size")
        return body.jaxpr


_SCALARS: tuple[tuple[Any, Any], ...] = (
    (lambda v: v, lambda n: n),
    (lambda v: 1 / v, lambda n: 1 / n),
    (lambda v: v / (v - 1), lambda n: n / (n - 1)),
)
"""How a size comes out of a number that a program computes with, and the number out of the size: n itself, the 1/n of a
mean, and the n/(n - 1) of an unbiased variance."""


def _may_be_nan(a: Any) -> bool:
    return np.asarray(a).dtype.kind in "fc"


_BODIES = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}
"""Primitives that call another program once, and the parameter that holds it."""


def _called(eqn: Any) -> Any:
    """The program that a step calls, where that is all it does."""
    rule = eqn.params.get("rule")
    if eqn.primitive.name == "call_with_backward" and rule is not None:
        return jax.make_jaxpr(rule.forward)(*[v.aval for v in eqn.invars])
    body = eqn.params.get(_BODIES.get(eqn.primitive.name, ""))
    return body if body is None or isinstance(body, ClosedJaxpr) else ClosedJaxpr(body, ())
