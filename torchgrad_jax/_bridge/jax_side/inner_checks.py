"""Checks of values inside of what JAX traces as a whole: a function given to `from_jax`, the body of a loop, a branch.

A check (is an index in range, is a divisor zero) that the code comes to there gives a traced bool. It becomes a further
result of the body, next to the arrays that the check reads, and those of all steps become one check of the loop or of
the branches. The operator as a whole has one more result, whether any check fails; only where it does are these
arrays computed, and the check raises what it raises in eager code.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._core.errors.checks import Check, fail_if, failure_flag, is_traced
from ..._core.jax.own_kernels import jit
from ..._core.jax.running_transforms import current_trace
from ..._core.signals import contextmanager
from ..._core.state import MODES
from ..._engine.graph.deferred import later
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor


class NotedCheck(NamedTuple):
    """A check that traced code came to."""

    check: Check
    flag: Any
    """Whether it fails."""
    arrays: Sequence[Any]


class Frame:
    """The checks of code that JAX traces as one function."""

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self.noted: list[NotedCheck] = []

    def note(self, arrays: Sequence[Any], check: Check) -> None:
        """A check of these arrays, unless JAX traces a function inside of this one, whose values are its own."""
        if current_trace() is not self._trace:
            return
        flag = failure_flag(check, arrays)
        if flag is not None:
            self.noted.append(NotedCheck(check, flag, [lax.stop_gradient(a) for a in arrays]))


class Frames:
    """The frames of a run, the innermost last."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    @contextmanager
    def frame(self) -> Iterator[list[NotedCheck]]:
        """Code that JAX traces as one function; what it checks."""
        self.frames.append(Frame(current_trace()))
        try:
            yield self.frames[-1].noted
        finally:
            self.frames.pop()

    def note(self, arrays: Sequence[Any], check: Check) -> None:
        """A check of traced arrays."""
        if self.frames:
            self.frames[-1].note(arrays, check)


# --- bodies of loops and branches -------------------------------------------------------------------


def with_checks(body: Callable[..., Any], *args: Any) -> tuple[Any, list[Any], list[Check]]:
    """What a function of arrays gives; flag and arrays of each of its checks, which JAX takes; and the checks."""
    frames = getattr(MODES.run.uses, "check_frames", None)
    if frames is None:
        return body(*args), [], []
    with frames.frame() as noted:
        found = body(*args)
    return found, [(n.flag, list(n.arrays)) for n in noted], [n.check for n in noted]


def note_steps(failures: list[Any], checks: Sequence[Check]) -> None:
    """Check what all steps of a loop give for their checks, stacked: the first step that fails raises."""

    def raise_first(rows: Any) -> None:
        for k in range(len(rows[0][0])):
            _raise_first(checks, jax.tree.map(operator.itemgetter(k), rows))

    _note(failures, raise_first)


def note_once(failures: list[Any], checks: Sequence[Check]) -> None:
    """Check what code gives for its checks that runs once or not at all, such as a branch."""
    _note(failures, lambda given: _raise_first(checks, given))


def _note(failures: list[Any], raise_first: Callable[[Any], None]) -> None:
    """Check flags and arrays of some checks, once they have values: `raise_first` looks at them."""
    if not failures:
        return
    flat, form = jax.tree.flatten(failures)

    def check(values: Sequence[Any]) -> None:
        given = jax.tree.unflatten(form, values)
        if is_traced(values[0]):
            fail_if(_any([flag for flag, _ in given]), _unseen)
        else:
            raise_first(given)

    MODES.run.uses.check(flat, check)


def _raise_first(checks: Sequence[Check], given: Sequence[Any]) -> None:
    for check, (flag, arrays) in zip(checks, given):
        if bool(np.asarray(flag).any()):
            check([np.asarray(a) for a in arrays])


def _any(flags: Sequence[Any]) -> Any:
    return functools.reduce(operator.or_, [jnp.asarray(f).any() for f in flags])


def _unseen() -> Exception:
    return AssertionError("the condition is a traced one")


def failures_like(body: Callable[..., Any], *args: Any) -> tuple[list[Any], list[Check]]:
    """Flags and arrays of no failure, as `with_checks` would give them for these arguments; and the checks."""
    checks: list[Check] = []

    def failures(*args: Any) -> Any:
        _, found, checks[:] = with_checks(body, *args)
        return found

    like = jax.eval_shape(failures, *args)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), like), checks


def first_failures(before: list[Any], now: list[Any]) -> list[Any]:
    """Those of the first step that had any, in a loop that carries them along."""
    failed = any_failed(before)
    return jax.tree.map(lambda a, b: jnp.where(failed, a, b), before, now)


def any_failed(failures: list[Any]) -> Any:
    """Return whether any check fails."""
    return _any([flag for flag, _ in failures])


# --- operators --------------------------------------------------------------------------------------


class OperatorChecks:
    """What is to be checked when an operator has run, whose traced steps give flags and arrays after the results."""

    def __init__(self, noted: Sequence[NotedCheck], n: int, run: Callable[..., list[Any]]) -> None:
        """Of `run`, which gives `n` results, whether any check fails, and the arrays of each."""
        self._checks = [c.check for c in noted]
        self._counts = [len(c.arrays) for c in noted]
        self._values = jit(lambda *xs: run(*xs)[n + 1 :])

    def look(self, failed: Tensor, leaves: Sequence[Tensor]) -> None:
        """Raise if a check failed for these inputs, now or when that is known."""
        flag = read(failed)
        if not is_traced(flag) and MODES.run.at_once:
            if bool(flag):
                self._raise([read(t) for t in leaves])
            return
        later([failed, *leaves], self._check)

    def _check(self, values: Sequence[Any]) -> None:
        flag, *given = values
        if is_traced(flag):
            fail_if(flag.any(), _unseen)
        elif flag.ndim:  # there is a flag for each example
            for k in np.flatnonzero(flag):
                self._raise([v[k] for v in given])
        elif flag:
            self._raise(given)

    def _raise(self, given: Sequence[Any]) -> None:
        values = iter(self._values(*given))
        for check, n in zip(self._checks, self._counts):
            flag, arrays = next(values), [next(values) for _ in range(n)]
            _raise_first([check], [(flag, arrays)])


def results_of_checks(noted: Sequence[NotedCheck]) -> list[Any]:
    """Return what an operator gives after its results, for its checks."""
    if not noted:
        return []
    return [_any([n.flag for n in noted]), *[x for n in noted for x in (n.flag, *n.arrays)]]
