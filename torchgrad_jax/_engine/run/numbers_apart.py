"""One executable for kernels that differ in their numbers alone.

    F.leaky_relu(x, 0.1)
    F.leaky_relu(x, 0.3)  # compiles nothing: the slope is an input of the executable

`apart` takes the numbers out of a jaxpr. The steps that are left are the key under which the executable is kept, so
every kernel with the same steps finds it. Some numbers stay in the steps: exponents, and those with which XLA leaves
out a step or has a cheaper one (`x * 1`, `x + 0`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..._core.host.choice import INNER
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from .program import bind_equation

_STAY = (0.0, 1.0, -1.0, 2.0, 0.5)
_EXECUTABLES = KERNELS.cache()


def apart(closed: Any) -> Callable[..., list[Any]] | None:
    """A function of the leaves of a kernel's arguments, which gives the list of its results.

    It is None where there are no numbers to take out, and where the kernel has effects or holds arrays.
    """
    if closed.effects or closed.consts:
        return None
    inputs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    numbers: list[Any] = []
    _numbers_of(closed.jaxpr, numbers)
    if not numbers:
        return None

    def fn(numbers: Sequence[Any], *args: Any) -> list[Any]:
        return _run(closed.jaxpr, args, iter(numbers))

    steps = jax.make_jaxpr(fn)(numbers, *inputs)
    if steps.consts:
        return None
    key = str(steps)
    executable = _EXECUTABLES.get(key)
    if executable is None:
        KERNELS.compiled()
        executable = _EXECUTABLES.put(key, jit(fn))
    return lambda *leaves: executable(numbers, *leaves)


def _numbers_of(jaxpr: Any, numbers: list[Any]) -> None:
    """Add the numbers of a jaxpr that are to become inputs, in the order in which `_run` meets them."""
    for eqn in jaxpr.eqns:
        numbers += [np.asarray(v.val, v.aval.dtype) for v in eqn.invars if _moves(v, eqn)]
        if (inner := _inner(eqn)) is not None:
            _numbers_of(inner.jaxpr, numbers)


def _run(jaxpr: Any, args: Sequence[Any], numbers: Any) -> list[Any]:
    """Run a jaxpr without arrays of its own; `numbers` takes the place of its numbers."""
    env = dict(zip(jaxpr.invars, args))

    def read(v: Any) -> Any:
        return np.asarray(v.val, v.aval.dtype) if hasattr(v, "val") else env[v]

    for eqn in jaxpr.eqns:
        ins = [next(numbers) if _moves(v, eqn) else read(v) for v in eqn.invars]
        inner = _inner(eqn)
        outs = bind_equation(eqn, ins) if inner is None else _run(inner.jaxpr, ins, numbers)
        several = inner is not None or eqn.primitive.multiple_results
        env.update(zip(eqn.outvars, outs if several else [outs]))
    return [read(v) for v in jaxpr.outvars]


def _moves(v: Any, eqn: Any) -> bool:
    """Whether an operand of a step becomes an input: a number, or an array, whose text does not say all of it."""
    if not hasattr(v, "val"):
        return False
    of_floats = np.issubdtype(v.aval.dtype, np.inexact)
    return bool(v.aval.shape) or (of_floats and eqn.primitive.name != "pow" and v.val not in _STAY)


def _inner(eqn: Any) -> Any:
    """The closed jaxpr that a step runs once, where it holds no arrays of its own."""
    inner = eqn.params.get(INNER.get(eqn.primitive.name, ""))
    return None if inner is None or getattr(inner, "consts", True) else inner
