"""Kernels that put elements at places of an array, as NumPy code that does so in the array's own memory.

    x.index_put_((i, j), v)    # steps of i and j, then one `scatter` to x

`in_place` finds that the kernel reads `x` nowhere else. What comes before the scatter is a kernel of its own, which
NumPy or XLA computes as it does any other; then the new elements are put where the memory of `x` has them. The number
of elements that are put decides who does it, and not how many `x` has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import choice, indexing
from .inline import HALF, Step

Bind = Callable[[Any, list[Any]], Any]


class _Memory:
    """Stands for the array that is written to while the steps are looked through."""

    def __init__(self, shape: tuple[int, ...], written: bool) -> None:
        self.shape, self.written = shape, written


class _No(Exception):
    """The kernel does something else."""


def in_place(closed: Any, bind: Bind) -> tuple[Any, Step] | None:
    """What a kernel puts where, for its arguments but the first, as a jaxpr, and what puts it into memory.

    It is None where the kernel does more with its first argument than to put a few elements into it. `bind` evaluates
    a step.
    """
    jaxpr = closed.jaxpr
    if closed.effects or not jaxpr.invars or len(jaxpr.outvars) != 1:
        return None
    first, *rest = [v.aval for v in jaxpr.invars]
    found: list[Any] = []

    def before(*xs: Any) -> list[Any]:
        (out,) = _follow(jaxpr, closed.consts, [_Memory(first.shape, False), *xs], found, bind)
        if not (out.__class__ is _Memory and out.written and out.shape == first.shape):
            raise _No
        return list(found[0][1])

    try:
        steps = jax.make_jaxpr(before)(*[jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in rest])
    except _No:
        return None
    put = _putting(found[0][0], first.dtype)
    return put and (steps, put)


def _follow(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], found: list[Any], bind: Bind) -> list[Any]:
    """Run the steps without the array that is written to, and note the step that writes."""
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))

    def read(v: Any) -> Any:
        return v.val if hasattr(v, "val") else env[v]

    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        inner = eqn.params.get(choice.INNER.get(eqn.primitive.name, ""))
        if inner is not None:
            outs = _follow(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), ins, found, bind)
        elif any(x.__class__ is _Memory for x in ins):
            outs = [_with_memory(eqn, ins, found)]
        else:
            outs = bind(eqn, ins)
            outs = outs if eqn.primitive.multiple_results else [outs]
        env.update(zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


def _with_memory(eqn: Any, ins: list[Any], found: list[Any]) -> _Memory:
    """What a step gives that takes the array, which may be looked at in another shape, and written to once."""
    memory, *others = ins
    if memory.__class__ is not _Memory or any(x.__class__ is _Memory for x in others):
        raise _No
    if eqn.primitive.name == "reshape" and eqn.params.get("dimensions") is None:
        return _Memory(eqn.outvars[0].aval.shape, memory.written)
    if eqn.primitive.name not in ("scatter", "scatter-add") or memory.written:
        raise _No
    found[:] = [(eqn, others)]
    return _Memory(memory.shape, True)


def _putting(eqn: Any, dtype: np.dtype) -> Step | None:
    """Puts new elements at places into memory."""
    ins, add = [v.aval for v in eqn.invars], eqn.primitive.name == "scatter-add"
    plain = dtype.kind in "iuf" and dtype != HALF if add else dtype.kind in "biufc"
    if not plain or not 0 < ins[2].size <= choice.LARGEST or indexing.scatter(add)(eqn.params, ins, None) is None:
        return None
    return _of_rows(eqn.params, ins, add) or _of_elements(eqn.params, ins, add)


def _of_elements(params: Any, ins: Any, add: bool) -> Step:
    scattering = indexing.Scattering(params, ins, add)

    def put(memory: Any, starts: Any, new: Any) -> None:
        scattering.into(memory.reshape(-1), new, *scattering.places.find(starts))

    return put


def _of_rows(params: Any, ins: Any, add: bool) -> Callable[..., None] | None:
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
    elements = _of_elements(params, ins, add)

    def put(memory: Any, starts: Any, new: Any) -> None:
        at = starts.reshape(-1).tolist()
        if min(at) < 0 or max(at) >= shape[d]:
            elements(memory.reshape(shape), starts, new)
            return
        rows = np.moveaxis(memory.reshape(shape), d, 0)
        for i, row in zip(at, new.transpose(order).reshape(flat)):
            if add:
                rows[i] += row
            else:
                rows[i] = row

    return put
