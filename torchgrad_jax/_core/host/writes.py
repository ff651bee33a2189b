"""Kernels that put elements at places of an array, as NumPy code that does so in the array's own memory.

    x.index_put_((i, j), v)    # steps of i and j, then one `scatter` to x
    x.index_fill_(0, i, 1.0)   # steps of i, then one choice between x and 1.0 by a mask of rows

`in_place` finds that the kernel reads `x` nowhere else. What comes before the scatter is a kernel of its own, which
NumPy or XLA computes as it does any other; then the new elements are put where the memory of `x` has them. The number
of elements that are put, or of a mask before it is spread over `x`, decides who does it, and not how many `x` has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..jax.evaluate import bind_equation, evaluate, results_of
from . import choice, indexing
from .inline import HALVES, Step


class _Memory:
    """Stands for the array that is written to while the steps are looked through."""

    def __init__(self, shape: tuple[int, ...], written: bool) -> None:
        self.shape, self.written = shape, written


class _Spread:
    """A value that a step is to spread, which the step of a write need not do.

    Args:
        value: what is spread.
        along: its dimensions, as those of the result.
        fill: gives the whole of it.
    """

    def __init__(self, value: Any, along: tuple[int, ...], fill: Callable[[], Any]) -> None:
        self.value, self.along, self.fill = value, along, fill


class _No(Exception):
    """The kernel does something else."""


def in_place(closed: Any) -> tuple[Any, Step] | None:
    """Return what a kernel puts where, for its arguments but the first, as a jaxpr, and what puts it into memory.

    It is None where the kernel does more with its first argument than to put a few elements into it.
    """
    jaxpr = closed.jaxpr
    if closed.effects or not jaxpr.invars or len(jaxpr.outvars) != 1:
        return None
    first, *rest = [v.aval for v in jaxpr.invars]
    found: list[Any] = []

    def before(*xs: Any) -> list[Any]:
        (out,) = _follow(jaxpr, [*closed.consts, _Memory(first.shape, False), *xs], found)
        if not (out.__class__ is _Memory and out.written and out.shape == first.shape):
            raise _No
        return list(found[0][1])

    if not any(e.primitive.name in _WRITING for e in choice.all_steps(jaxpr)):
        return None
    try:
        steps = jax.make_jaxpr(before)(*[jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in rest])
    except _No:
        return None
    put = found[0][0]([v.aval for v in steps.jaxpr.outvars])
    return put and (steps, put)


_WRITING = (*indexing.SCATTERS, "select_n")


def _follow(jaxpr: Any, values: Sequence[Any], found: list[Any]) -> list[Any]:
    """Run the steps without the array that is written to, and note the step that writes."""

    def take(eqn: Any, ins: list[Any]) -> Sequence[Any]:
        inner = eqn.params.get(choice.INNER.get(eqn.primitive.name, ""))
        if inner is not None:
            return _follow(getattr(inner, "jaxpr", inner), [*getattr(inner, "consts", ()), *ins], found)
        if any(x.__class__ is _Memory for x in ins):
            return [_with_memory(eqn, ins, found)]
        if eqn.primitive.name == "broadcast_in_dim" and len(ins) == 1:
            return [_spread(eqn, ins[0])]
        return results_of(eqn, [*map(_whole, ins)])

    return evaluate(jaxpr, values, take)


def _spread(eqn: Any, x: Any) -> _Spread:
    """Return what a step spreads, which may be spread already."""
    along = eqn.params["broadcast_dimensions"]
    kept = [d for d, n in zip(along, eqn.invars[0].aval.shape) if n != 1]

    def fill() -> Any:
        return bind_equation(eqn, [_whole(x)])

    if x.__class__ is _Spread:
        return _Spread(x.value, tuple([along[d] for d in x.along]), fill)
    return _Spread(jnp.reshape(x, [eqn.outvars[0].aval.shape[d] for d in kept]), tuple(kept), fill)


def _whole(x: Any) -> Any:
    return x.fill() if x.__class__ is _Spread else x


def _with_memory(eqn: Any, ins: list[Any], found: list[Any]) -> _Memory:
    """Return what a step gives that takes the array, which may be looked at in another shape, and written to once."""
    name, memories = eqn.primitive.name, [x for x in ins if x.__class__ is _Memory]
    if len(memories) > 1:
        raise _No
    (memory,) = memories
    if name == "reshape" and eqn.params.get("dimensions") is None:
        return _Memory(eqn.outvars[0].aval.shape, memory.written)
    if name not in _WRITING or memory.written:
        raise _No
    if name == "select_n":
        found[:] = [_choosing(eqn, ins)]
    elif ins[0] is memory:
        found[:] = [(partial(_scattering, eqn), [*map(_whole, ins[1:])])]
    else:
        raise _No
    return _Memory(memory.shape, True)


def _choosing(eqn: Any, ins: list[Any]) -> tuple[Callable[..., Step | None], list[Any]]:
    """A choice between the array and another one by a mask of whole slices along one dimension."""
    mask, *sides = ins
    new = sides[sides[0].__class__ is _Memory]
    if mask.__class__ is not _Spread or new.__class__ is not _Spread or len(mask.along) != 1 or new.along:
        raise _No
    (d,), shape, chosen = mask.along, eqn.outvars[0].aval.shape, sides[1] is new

    def make(avals: Any) -> Step | None:
        if avals[0].size > choice.SMALL or avals[0].dtype != np.bool_ or not _moved(avals[1].dtype):
            return None

        def put(memory: Any, mask: Any, new: Any) -> None:
            rows = np.moveaxis(memory.reshape(shape), d, 0)
            for i in np.flatnonzero(mask == chosen).tolist():
                rows[i] = new

        return put

    return make, [mask.value, new.value]


def _moved(dtype: np.dtype) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc"


def _scattering(eqn: Any, given: Any) -> Step | None:
    """Put new elements at places into memory."""
    ins, joins = [v.aval for v in eqn.invars], indexing.SCATTERS[eqn.primitive.name]
    plain = _moved(ins[0].dtype) if joins is None else ins[0].dtype.kind in "iuf" and ins[0].dtype not in HALVES
    if not plain or not 0 < ins[2].size <= choice.SMALL or indexing.scatter(joins)(eqn.params, ins, None) is None:
        return None
    return _of_rows(eqn.params, ins, joins) or _of_elements(eqn.params, ins, joins)


def _of_elements(params: Any, ins: Any, joins: indexing.Joins) -> Step:
    scattering = indexing.Scattering(params, ins, joins)

    def put(memory: Any, starts: Any, new: Any) -> None:
        scattering.into(memory.reshape(-1), new, *scattering.places.find(starts))

    return put


def _of_rows(params: Any, ins: Any, joins: indexing.Joins) -> Callable[..., None] | None:
    """Whole rows along one dimension, at places that are in it; each is put where it belongs in one go."""
    numbers, shape, news = params["dimension_numbers"], ins[0].shape, ins[2].shape
    if len(numbers.inserted_window_dims) != 1 or numbers.operand_batching_dims:
        return None
    (d,) = numbers.inserted_window_dims
    whole = [n for i, n in enumerate(shape) if i != d] == [news[i] for i in numbers.update_window_dims]
    if not whole or tuple(numbers.scatter_dims_to_operand_dims) != (d,) or len(shape) == 1:
        return None
    rows = [i for i in range(len(news)) if i not in numbers.update_window_dims]
    order = (*rows, *numbers.update_window_dims)
    flat = (math.prod([news[i] for i in rows]), *[n for i, n in enumerate(shape) if i != d])
    elements = _of_elements(params, ins, joins)

    def put(memory: Any, starts: Any, new: Any) -> None:
        at = starts.reshape(-1).tolist()
        if min(at) < 0 or max(at) >= shape[d]:
            elements(memory.reshape(shape), starts, new)
            return
        rows = np.moveaxis(memory.reshape(shape), d, 0)
        for i, row in zip(at, new.transpose(order).reshape(flat)):
            if joins is None:
                rows[i] = row
            else:
                joins(rows[i], row, out=rows[i])

    return put
