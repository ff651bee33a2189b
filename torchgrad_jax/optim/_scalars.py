"""Scalars that live in tensors: step counts and the like, which the host reads before every step.

Arrays made here are remembered with their number, so that reading one back waits for no device, and
parameters that are at the same step share one array. What is remembered is kept alive, hence an id is
not given to another array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.arrays import devices, dtypes
from .._core.arrays.meta import Meta, meta
from .._core.arrays.python_numbers import Number
from .._core.jax.x64 import with_x64
from .._core.state import IN_RUN, MODES, SETTINGS, UNDER_JAX
from .._engine.memory.strided import read, write
from .._engine.memory.tensor import Tensor, make

_NUMBERS: dict[int, tuple[Any, float]] = {}
_ARRAYS: dict[tuple[float, Meta], tuple[Any, float]] = {}
_REMEMBERED = 256


def _array_of(value: float, m: Meta) -> tuple[Any, float]:
    """A 0-dim array of a number, and the number as the dtype rounds it."""
    found = _ARRAYS.get((value, m))
    if found is not None and not found[0].is_deleted():
        return found
    rounded = np.asarray(value, m.dtype.np)
    # The count of steps is known also where it belongs to parameters without data.
    if isinstance(m.device, devices.FakeDevice) or m.device == devices.of_jax(jax.local_devices()[0]):
        with jax.ensure_compile_time_eval():  # also while a step is being traced
            array = jax.device_put(rounded)  # `jnp.asarray` would compile a program
    else:
        array = jax.device_put(rounded, devices.to_jax(m.device))
    if len(_NUMBERS) >= _REMEMBERED:
        _NUMBERS.clear()
        _ARRAYS.clear()
    found = _ARRAYS[value, m] = _NUMBERS[id(array)] = (array, float(rounded))
    return found


def scalar_dtype(fused: Any = None) -> dtypes.dtype:
    """What step counts are made of."""
    double = SETTINGS.default_dtype is dtypes.float64 and not fused
    return dtypes.float64 if double else dtypes.float32


def scalar_tensor(value: float, like: Tensor | None = None, fused: Any = None) -> Tensor:
    """A 0-dim tensor of a number, beside a parameter or in the host's memory."""
    device = devices.device("cpu") if like is None else like._m.device
    m = meta((), scalar_dtype(fused), devices.resolve(device))
    return make(_array_of(value, m)[0], m)


@with_x64
def number(t: Any) -> Any:
    """The number in a one-element tensor; an array while it is being traced; anything else as it is.

    A number of Python that a compiled function carries from run to run is an array as well.
    """
    if not isinstance(t, Tensor):
        return t.array() if type(t) is Number else t
    array = t._st.array if t._al is None and MODES.run.at_once else read(t)
    known = _NUMBERS.get(id(array))
    if known is not None and known[0] is array:
        return known[1]
    if isinstance(array, jax.core.Tracer):
        return jnp.reshape(array, ()).astype(jnp.result_type(float))
    return np.asarray(array).reshape(()).item()


def store(t: Tensor, array: Any, writes: int) -> None:
    """Put a new array into a tensor, as the last of `writes` in-place operations."""
    if not writes:
        return
    if t._al is None and not MODES.bits & (IN_RUN | UNDER_JAX):
        st = t._st
        st.array = array
        st.stamp += 1
    else:
        write(t, array, bump=False)
    t._vc.version += writes


@with_x64
def assign(t: Tensor, value: Any) -> Any:
    """Overwrite a 0-dim tensor with a number; what it then holds."""
    if isinstance(value, jax.Array):
        array = value.astype(t._m.dtype.np)
        store(t, array, 1)
        return array.astype(jnp.result_type(float))
    array, rounded = _array_of(value, t._m)
    store(t, array, 1)
    return rounded


def as_held(value: Any, t: Tensor) -> Any:
    """A number as a tensor of the same dtype would hold it."""
    if isinstance(value, jax.Array):
        return value.astype(t._m.dtype.np).astype(value.dtype)
    return float(np.asarray(value, t._m.dtype.np)) if isinstance(value, float) else value


def in_default_dtype(value: Any) -> Any:
    """A number as a tensor made of it alone would hold it."""
    return float(np.asarray(value, scalar_dtype().np)) if isinstance(value, float) else value


@with_x64
def update(tensors: Sequence[Tensor], change: Callable[[Any, int], Any]) -> list[Any]:
    """Replace the number in each tensor by ``change(number, position)``; the new numbers."""
    return [assign(t, change(number(t), i)) for i, t in enumerate(tensors)]


def advance(steps: Sequence[Tensor]) -> list[Any]:
    """Add one to every step count; the new counts."""
    if not MODES.run.at_once:
        return _advance_traced(steps)
    if steps and {id(t._st.array) for t in steps} == {id(steps[0]._st.array)}:
        apart = {t._al for t in steps} == {None} and len({id(t._st) for t in steps}) == len(steps)
        now = number(steps[0]) + 1.0
        if apart and now.__class__ is float:  # they go in step
            array, now = _array_of(now, steps[0]._m)
            for t in steps:
                store(t, array, 1)
            return [now] * len(steps)
    return update(steps, lambda now, _: now + 1.0)


@with_x64
def _advance_traced(steps: Sequence[Tensor]) -> list[Any]:
    """`advance` where the counts are not known: those that are one array stay one."""
    news: dict[int, tuple[Any, Any]] = {}
    out = []
    for t in steps:
        old = read(t)
        if t._al is not None or old.ndim:
            return out + update(steps[len(out) :], lambda now, _: now + 1.0)
        if id(old) not in news:
            array = jnp.asarray(old + 1, t._m.dtype.np)
            news[id(old)] = (old, array)
        array = news[id(old)][1]
        store(t, array, 1)
        out.append(array)
    wide: dict[int, Any] = {}
    return [wide.setdefault(id(a), a.astype(jnp.result_type(float))) for a in out]


def alike(*columns: Sequence[Any]) -> list[list[int]]:
    """Positions grouped by the values that the columns have there; in order."""
    first = columns[0]
    if all(len({id(v) for v in column}) == 1 for column in columns):
        return [list(range(len(first)))]
    found: dict[Any, list[int]] = {}
    for i, values in enumerate(zip(*columns, strict=True)):
        key = tuple([v if isinstance(v, float | int) else id(v) for v in values])
        found.setdefault(key, []).append(i)
    return list(found.values())


def take(part: Sequence[int], *columns: Any) -> list[Any]:
    """The columns restricted to some positions."""
    return [[column[i] for i in part] for column in columns]
