"""Looks at values that a run of `vmap` has only steps for: taken when the run is over, for all examples.

A row's check (is an index in range, is a divisor zero) reads values. In a run with a tape there are none
yet; what the check wants to see becomes one more result of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._core import dtypes
from .._core.meta import Meta, meta
from .._core.state import LIFT, MODES
from .strided import read
from .tensor import Tensor, make
from .trace import Call


class Look(NamedTuple):
    """What is to be seen, and who looks: it gets arrays with a row per example, and raises or not."""

    tensors: list[Tensor]
    at: Callable[[list[np.ndarray]], None]


def later(tensors: Sequence[Tensor], at: Callable[[list[np.ndarray]], None]) -> None:
    """Look at tensors once the innermost run is over; not where JAX traces for good."""
    tape = MODES.lifts[-1].tape if MODES.bits & LIFT else None
    if tape is not None:
        arrays = [MODES.lifts[-1].array_of(t) for t in tensors]
        if all(tape.holds(a) for a in arrays):
            tape.looks.append(Look([_plain(a, t._m) for a, t in zip(arrays, tensors)], at))


def _plain(array: Any, m: Meta) -> Tensor:
    return make(array, meta(m.shape, m.dtype, m.device))


def take(looks: Sequence[Look], results: Sequence[Tensor]) -> None:
    """Look at what the run has given for its looks, or leave it to the run that this one is in."""
    it = iter(results)
    for look in looks:
        seen = [next(it) for _ in look.tensors]
        arrays = [t._st.array for t in seen]
        if not any(isinstance(a, jax.core.Tracer) for a in arrays):
            look.at([np.asarray(a) for a in arrays])
            continue

        def outer(rows: list[np.ndarray], look: Look = look) -> None:
            look.at([r.reshape(-1, *r.shape[2:]) for r in rows])

        later(seen, outer)


# --- the checks of rows -----------------------------------------------------------------------------


class _Looked(Exception):
    """A check reads a value that it was given only the shape of."""


class _Shape:
    """What a check may know of an array without its values."""

    def __init__(self, m: Meta) -> None:
        self.shape, self.ndim, self.size, self.dtype = m.shape, m.ndim, m.numel, m.dtype.np

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _Looked


_READS_FLOATS: dict[tuple[Call, Any], bool] = {}


def _reads_floats(call: Call, leaves: Sequence[Any]) -> bool:
    """Whether a call's check looks at numbers with a fraction, rather than at indices alone."""
    key = call, tuple([v._m if isinstance(v, Tensor) else v.__class__ for v in leaves])
    found = _READS_FLOATS.get(key)
    if found is None:
        trial = [
            v if not isinstance(v, Tensor) else
            _Shape(v._m) if v._m.dtype.category >= dtypes.FLOATING else np.ones(v._m.shape, v._m.dtype.np)
            for v in leaves
        ]  # fmt: skip
        try:
            call.check(trial)
            found = False
        except (_Looked, TypeError):  # what takes arrays only cannot do with a shape
            found = True
        except Exception:  # the made-up indices are out of range: it looked at those
            found = False
        _READS_FLOATS[key] = found
    return found


def check_later(call: Call, leaves: Sequence[Any]) -> None:
    """Run a call's check on each example that may fail it, once their values are there."""
    run = MODES.lifts[-1]
    if run.tape is None:
        return
    floats = _reads_floats(call, leaves)
    at = [
        i for i, v in enumerate(leaves)
        if isinstance(v, Tensor) and (floats or v._m.dtype.category < dtypes.FLOATING)
    ]  # fmt: skip
    if not at:
        return
    given = [_Shape(v._m) if isinstance(v, Tensor) else v for v in leaves]

    def check(values: Sequence[Any]) -> None:
        row = list(given)
        for i, v in zip(at, values):
            row[i] = v
        call.check(row)

    if not any(run.inside(leaves[i]) for i in at):  # the same for all examples
        with run.outside():
            values = [read(leaves[i]) for i in at]
        if not any(isinstance(v, jax.core.Tracer) for v in values):
            check([np.asarray(v) for v in values])
            return

    def look(rows: list[np.ndarray]) -> None:
        for k in range(len(rows[0])) if floats else _suspects(rows):
            check([r[k] for r in rows])

    later([leaves[i] for i in at], look)


def _suspects(rows: Sequence[np.ndarray]) -> list[int]:
    """The examples with the largest, the smallest, and the smallest absolute values: bounds are alike for all."""
    found = set()
    for r in rows:
        if r.size:
            n = r.size // len(r)
            flat = r.reshape(-1)
            signed = flat.astype(np.int64) if flat.dtype.kind in "bu" else flat
            found |= {
                int(f(signed)) // n for f in (np.argmin, np.argmax, lambda a: np.abs(a).argmin())
            }
    return sorted(found)


__all__ = ["Look", "check_later", "later", "take"]
