"""What an eager call would have checked, checked by a compiled program.

Each check is a traced bool: does it fail? Those that follow from arguments and random numbers by a few cheap steps, as
nearly all checks of indices do, are computed by a small program of their own before anything is overwritten. On a CPU
NumPy runs it, since a call of XLA costs more than all of it; where all that is asked is whether indices from outside
are in range, two calls of NumPy's tell. The others are an output of the program, which keeps the old values of what it
overwrites where one of them fails. Only then are the values computed that the check reads, and it raises what it raises
in eager code.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ...._core.arrays import devices
from ...._core.errors.checks import Bounds, Check, Condition, readable
from ...._core.jax.own_kernels import jit
from ...._engine.modes.written_steps import evaluate_written, placeholder
from ...._engine.run.kernel import traced_later
from .equal_steps import called

_CHEAP_KINDS = frozenset(["arg", "draw", "given", "number", "tensor"])
"""Inputs that are there before the program runs. What it writes to may come from a run of it that is not over."""
_COSTLY = (
    "cholesky", "conv_", "cond", "cum", "custom", "dot", "eig", "fft", "householder", "lu", "qr", "reduce_w", "scan",
    "schur", "sort", "svd", "top_k", "triangular", "tridiagonal", "while",
)  # fmt: skip
"""How the names of steps begin that are not to be taken twice."""


class Noted(NamedTuple):
    """A check that a traced function came to."""

    check: Check
    arrays: Sequence[Any]
    flag: Any
    line: str
    """The line of the user's code."""
    bounds: Sequence[tuple[int, Bounds]] | None
    """Which arrays are in which bounds if the check holds; None where it asks anything else."""


def bounded(found: Sequence[Condition], arrays: Sequence[Any]) -> list[tuple[int, Bounds]] | None:
    """The places of the arrays that these conditions are about, with bounds; None if one is about anything else."""
    places = {id(x): k for k, x in enumerate(arrays)}
    if not all(c.bounds is not None and id(c.index) in places for c in found):
        return None
    return [(places[id(c.index)], c.bounds) for c in found if c.bounds is not None]


class Checks:
    """The checks of one program."""

    def __init__(self, state: Any, closed: Any, written: set[int]) -> None:
        """Of a run with that `state`, from the program that gives flag and arrays of each check last.

        `written` are the numbers of the sources that the program writes to.
        """
        self._jaxpr, self._consts = closed.jaxpr, closed.consts
        outvars = closed.jaxpr.outvars[-sum(1 + len(noted.arrays) for noted in state.checks) :]
        steps, sources, values = _Steps(closed.jaxpr), state.sources, iter(outvars)
        self._noted: list[Noted] = []
        self.backward: list[Noted] = []
        """Those of the backward pass of a function whose result needs a gradient."""
        self.late: list[Any] = []
        """Flags that the program itself computes."""
        cheap = {i for i, s in enumerate(sources) if i not in written and s.kind in _CHEAP_KINDS}
        inputs: set[int] = set()
        self.ahead_flags: list[Any] = []
        """Flags of checks that are looked at before the program runs."""
        in_program, in_bounds = [], []
        for check, arrays, _, line, bounds in state.checks:
            flag = next(values)
            noted = Noted(check, [next(values) for _ in arrays], flag, line, bounds)
            needed, costly = steps.behind(flag)
            if any(i >= len(sources) for i in needed):  # a gradient that comes in
                self.backward.append(noted)
                continue
            self._noted.append(noted)
            if costly or not cheap >= needed:
                self.late.append(flag)
                continue
            self.ahead_flags.append(flag)
            inputs |= needed
            found = steps.bounded_inputs(noted)
            in_bounds += found or ()
            if found is None:
                in_program.append(flag)
        self._tensors = [i for i in sorted(inputs) if sources[i].kind == "tensor"]
        self._storages = [sources[i].what for i in self._tensors]
        self.inputs = [i for i in sorted(inputs) if sources[i].kind != "tensor"]
        """The sources that the other flags follow from, besides tensors from outside."""
        order = [*self._tensors, *self.inputs]
        self._in_bounds = [(order.index(i), bounds) for i, bounds in in_bounds]
        """Inputs that are indices, by their places."""
        self._ahead = self._program_of(in_program, order) if in_program else None

    def _program_of(self, flags: Sequence[Any], inputs: Sequence[int]) -> Callable[..., Any]:
        """A program of the values of these sources: is any of the flags true?"""
        steps, consts = sliced(self._jaxpr, flags), self._consts

        def fails(*values: Any) -> Any:
            return any_of(evaluate_written(steps, (), dict(zip(inputs, values)), consts))

        return traced_later(fails, devices.default_device(), limit=math.inf)

    def fails_ahead(self, values: Sequence[Any]) -> Any:
        """Whether a check fails that does not wait for the program, in a trace and of the values of all sources."""
        steps = sliced(self._jaxpr, self.ahead_flags)
        return any_of(evaluate_written(steps, (), values, self._consts))

    def fail_ahead(self, values: Sequence[Any], places: Sequence[int]) -> bool:
        """Return whether a check fails that the program does not compute; its inputs stand at these places."""
        if self._ahead is None and not self._in_bounds:
            return False
        read = [*[st.array for st in self._storages], *[values[i] for i in places]]
        for i, bounds in self._in_bounds:
            if bounds.broken_by(readable(read[i])):
                return True
        return self._ahead is not None and is_true(self._ahead(*read))

    def raise_failed_check(self, values: Sequence[Any]) -> NoReturn:
        """Raise for the first check that fails on these values of the sources."""

        def compute(wanted: Sequence[Any]) -> list[Any]:
            steps, consts = sliced(self._jaxpr, wanted), self._consts
            return jit(lambda *xs: evaluate_written(steps, (), xs, consts))(*values)

        raise_failed_check(self._noted, compute)


def raise_failed_check(checks: Sequence[Noted], compute: Callable[[Sequence[Any]], Sequence[Any]]) -> NoReturn:
    """Raise for the first check that fails; `compute` gives the values of these steps of the program."""
    failed = [bool(flag) for flag in compute([noted.flag for noted in checks])]
    for noted in [noted for noted, fails in zip(checks, failed) if fails]:
        try:
            noted.check([np.asarray(x) for x in compute(noted.arrays)])
        except Exception as error:
            error.add_note(f"In a compiled function:{noted.line}")
            raise
    raise RuntimeError("torch.compile: a check of values failed, and on the same values it holds")


_FETCHED = 1 << 20
"""Elements; so many are fetched from an accelerator to be looked at.

A program would wait there for all that was started before it, and indices are there long before.
"""


class _Steps:
    """The steps of a program by what they give."""

    def __init__(self, jaxpr: Any) -> None:
        self._made_by = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self._outside = placeholder()
        self._reads_here = jax.process_count() == 1
        self._largest = math.inf if devices.no_accelerator() else _FETCHED

    def bounded_inputs(self, noted: Noted) -> list[tuple[int, Bounds]] | None:
        """The inputs that a check finds in bounds, by their numbers; None if it asks more or NumPy cannot read them."""
        found = []
        for k, bounds in noted.bounds or ():
            eqn = _before_moves(self._made_by, noted.arrays[k])[0]
            if eqn is None or eqn.primitive is not self._outside or not self._reads_here:
                return None
            if eqn.outvars[0].aval.size > self._largest:
                return None
            found.append((eqn.params["index"], bounds))
        return found or None

    def behind(self, value: Any) -> tuple[set[int], bool]:
        """The numbers of the inputs that a value follows from, and whether by costly steps."""
        inputs: set[int] = set()
        costly = False
        seen, stack = set(), [value]
        while stack:
            v = stack.pop()
            if hasattr(v, "val") or v in seen or v not in self._made_by:
                continue
            eqn = self._made_by[v]
            seen.update(eqn.outvars)
            if eqn.primitive is self._outside:
                inputs.add(eqn.params["index"])
            else:
                costly = costly or _is_costly(eqn)
                stack += eqn.invars
        return inputs, costly


_MOVES = frozenset(["broadcast_in_dim", "expand_dims", "reshape", "squeeze", "transpose"])
"""Steps that give the elements of their first input, each at least once, and no others."""


def _before_moves(made_by: dict[Any, Any], v: Any) -> tuple[Any, Any]:
    """The first step that changes elements on the way back from a value, or None; and what it gives."""
    while True:
        eqn = None if hasattr(v, "val") else made_by.get(v)
        if eqn is None or not _only_moves(eqn):
            return eqn, v
        v = eqn.invars[0]


def _only_moves(eqn: Any) -> bool:
    """Return whether a step gives the elements of its first input in another order or shape."""
    inner = called(eqn)
    if inner is None:
        return eqn.primitive.name in _MOVES
    jaxpr = inner.jaxpr
    made_by = {v: e for e in jaxpr.eqns for v in e.outvars}
    return len(jaxpr.outvars) == 1 and _before_moves(made_by, jaxpr.outvars[0])[1] is jaxpr.invars[0]


def _is_costly(eqn: Any) -> bool:
    inner = called(eqn)
    if inner is None:
        return bool(eqn.effects) or eqn.primitive.name.startswith(_COSTLY)
    return any(map(_is_costly, inner.jaxpr.eqns))


def is_true(flag: Any) -> bool:
    """`bool` of an array, in half the time that JAX takes for it."""
    return bool(np.asarray(flag))


def any_of(flags: Sequence[Any]) -> Any:
    """Return whether any of these traced bools is true."""
    return functools.reduce(operator.or_, [jnp.asarray(f) for f in flags])


class Part(NamedTuple):
    """Some steps of a program, with the results that are wanted of them."""

    eqns: Sequence[Any]
    invars: Sequence[Any]
    constvars: Sequence[Any]
    outvars: Sequence[Any]


def sliced(jaxpr: Any, wanted: Sequence[Any]) -> Part:
    """The steps that these values of a program need."""
    needed, eqns = {v for v in wanted if not hasattr(v, "val")}, []
    for eqn in reversed(jaxpr.eqns):
        if not needed.isdisjoint(eqn.outvars):
            eqns.append(eqn)
            needed.update(v for v in eqn.invars if not hasattr(v, "val"))
    return Part(eqns[::-1], jaxpr.invars, jaxpr.constvars, list(wanted))
