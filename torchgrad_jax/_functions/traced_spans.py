"""`linspace` and `logspace` between ends that are being traced, where the host cannot look at them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .._core.arrays import dtypes
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES, ops
from .._engine.graph.record import cast
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .fresh import from_host


def traced(value: Any) -> bool:
    """Return whether a value is a tensor that stands for several, or for one not known yet."""
    return isinstance(value, Tensor) and isinstance(read(value), jax.core.Tracer)


def comes_later(t: Tensor) -> bool:
    """Return whether a compiled function knows the values of a tensor only when it runs."""
    return MODES.run.may_write_outside and MODES.run.inside(t) and traced(t)


def _inferred(ends: tuple[Any, Any], n: int, powers: bool) -> dtypes.dtype:
    """The dtype of the result where none is given: that of a sum of the ends, if one of them is a tensor."""
    if n == 0:
        return dtypes.get_default_dtype() if powers else dtypes.int64
    if n == 1 and not powers and isinstance(ends[0], Tensor):
        return ends[0]._m.dtype
    found = NAMESPACES[""]["result_type"](*ends)
    return found if found.category >= dtypes.FLOATING else dtypes.get_default_dtype()


def _as(end: Any, dt: dtypes.dtype, device: Any) -> Tensor:
    if isinstance(end, Tensor):
        return cast(NAMESPACES[""]["detach"](end), dt)
    return from_host(np.asarray(end).astype(dt.np), device)


def span(start: Any, end: Any, n: int, dt: dtypes.dtype | None, device: Any, base: float | None = None) -> Tensor:
    """`n` numbers from `start` to `end`, or `base` to the power of them."""
    target = dt or _inferred((start, end), n, base is not None)
    work = target if target.category >= dtypes.FLOATING else dtypes.float64
    if work.itemsize < 4:
        work = dtypes.float32
    first, last = _as(start, work, device), _as(end, work, device)
    i = np.arange(n)
    lower, from_last = i < n / 2, i[::-1]
    if n < 2:
        lower = np.ones(n, bool)
    step = ops.true_divide(ops.sub(last, first), max(n - 1, 1))
    places = [from_host(v.astype(work.np), device) for v in (i, from_last)]
    near = ops.add(first, ops.mul(places[0], step))
    far = ops.sub(last, ops.mul(places[1], step))
    values = ops.where(from_host(lower, device), near, far)
    if base is not None:
        values = NAMESPACES[""]["pow"](_as(base, work, device), values)
    return values if work is target else cast(values, target)
