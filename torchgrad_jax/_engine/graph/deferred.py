"""Delayed checks of values that are not there yet, because the code is being traced.

In a run of `vmap` what a check (is an index in range, is a divisor zero) wants to see becomes one more result of
the run, and is looked at for all examples when the run is over. `compile` makes an output of its program of whether
a check fails: see `_core.errors.checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta
from ..._core.errors.checks import Check, fail_if, failure_flag, is_traced
from ..._core.jax.caches import CALLS
from ..._core.state import MODES
from ..memory.strided import read
from ..memory.tape import Look
from ..memory.tensor import Tensor
from ..run.trace import Call


def later(tensors: Sequence[Tensor], check: Check) -> None:
    """Check tensors once the innermost run is over; not where JAX traces, which knows no errors.

    The check must not keep tensors alive.
    """
    MODES.run.check_later(tensors, check)


def now_or_later(tensors: Sequence[Tensor], check: Check) -> None:
    """Check tensors once their values are there, which may be now."""
    arrays = [read(t) for t in tensors]
    if any(is_traced(a) for a in arrays):
        later(tensors, check)
    else:
        check([np.asarray(a) for a in arrays])


def take(looks: Sequence[Look], results: Sequence[Tensor]) -> None:
    """Look at what the run has given for its looks, or leave it to the run that this one is in."""
    it = iter(results)
    for look in looks:
        seen = [next(it) for _ in look.tensors]
        arrays = [t._st.array for t in seen]
        if not any(is_traced(a) for a in arrays):
            look.check([np.asarray(a) for a in arrays])
        elif MODES.run.may_check_later:
            later(seen, look.check)
        else:
            later(seen, _of_batches(look.check))


def _of_batches(check: Check) -> Check:
    """A check of rows as one of batches of rows."""
    return lambda batches: check([b.reshape(-1, *b.shape[2:]) for b in batches])


# --- the checks of rows -----------------------------------------------------------------------------


class _Looked(Exception):
    """A check reads a value that it was given only the shape of."""


class _Shape:
    """What a check may know of an array without its values."""

    def __init__(self, m: Meta) -> None:
        self.shape, self.ndim, self.size, self.dtype = m.shape, m.ndim, m.numel, m.dtype.np

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _Looked


_READS_FLOATS = CALLS.cache()


def _reads_floats(call: Call, leaves: Sequence[Any]) -> bool:
    """Return whether a call's check looks at numbers with a fraction, rather than at indices alone."""
    key = call, tuple([v._m if isinstance(v, Tensor) else v.__class__ for v in leaves])
    reads = _READS_FLOATS.get(key)
    if reads is None:
        trial = [
            v
            if not isinstance(v, Tensor)
            else _Shape(v._m)
            if v._m.dtype.category >= dtypes.FLOATING
            else np.ones(v._m.shape, v._m.dtype.np)
            for v in leaves
        ]
        try:
            call.check(trial)
            reads = False
        except (_Looked, TypeError):  # the check needs an array, and there is only a shape
            reads = True
        except Exception:  # the made-up indices are out of range, so the check looks at indices
            reads = False
        _READS_FLOATS.put(key, reads)
    return reads


def check_later(call: Call, leaves: Sequence[Any]) -> None:
    """Run a call's check once the values are there: in `vmap` on each example that may fail it."""
    run = MODES.run
    if run.tape is None and not run.may_check_later:
        return
    floats = _reads_floats(call, leaves)
    at = [
        i for i, v in enumerate(leaves) if isinstance(v, Tensor) and (floats or v._m.dtype.category < dtypes.FLOATING)
    ]
    given = [_Shape(v._m) if isinstance(v, Tensor) else v for v in leaves]
    if not at:  # the check looks at numbers and dtypes alone
        call.check(given)
        return

    def check(values: Sequence[Any]) -> None:
        row = list(given)
        for i, v in zip(at, values):
            row[i] = v
        call.check(row)

    if run.may_check_later:
        later([leaves[i] for i in at], check)
        return
    if not any(run.inside(leaves[i]) for i in at):  # no operand differs between the examples
        with run.outside():
            values = [read(leaves[i]) for i in at]
        if not any(isinstance(v, jax.core.Tracer) for v in values):
            check([np.asarray(v) for v in values])
            return

    def look(rows: Sequence[Any]) -> None:
        if any(is_traced(r) for r in rows):
            failed = jax.vmap(lambda *row: failure_flag(check, row))(*rows)
            if failed is not None:
                fail_if(failed.any(), lambda: AssertionError("the condition is a traced one"))
            return
        for k in range(len(rows[0])) if floats else _suspects(rows):
            check([r[k] for r in rows])

    later([leaves[i] for i in at], look)


def _suspects(rows: Sequence[np.ndarray]) -> list[int]:
    """The examples with the largest, the smallest, and the smallest absolute values: bounds are alike for all."""
    suspects = set()
    for r in rows:
        if r.size:
            n = r.size // len(r)
            flat = r.reshape(-1)
            signed = flat.astype(np.int64) if flat.dtype.kind in "bu" else flat
            suspects |= {int(f(signed)) // n for f in (np.argmin, np.argmax, lambda a: np.abs(a).argmin())}
    return sorted(suspects)
