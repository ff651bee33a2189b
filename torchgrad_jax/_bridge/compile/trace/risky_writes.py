"""Writes to a part of an array that XLA would compute wrongly, written in another way.

    x = x.at[1:].add(x[:-1])   # x[1:].add_(x[:-1]) in a compiled function

XLA carries out such a write in place, and may compute what it writes while it writes. It refrains from that where the
new values are read from other places of the same array, which it recognises by name: one that was reshaped has another
name, and is read after it was written to (on CPUs, jaxlib 0.10.2). So a write whose values depend on other places of
the array becomes a choice between old and new elements, which is not done in place. All other writes stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from ...._core.jax.evaluate import results_of, values_of
from .equal_steps import at_its_line, called

_WRITE, _READ, _SLICE = "dynamic_update_slice", "dynamic_slice", "slice"
_SAME_MEMORY = frozenset(
    ["bitcast_convert_type", "copy", "copy_p", "reshape", "squeeze", "stop_gradient", "transpose", "unsplit"]
)
"""Steps whose result may be the memory of their operand under another shape."""
_ELEMENTWISE = frozenset([
    "abs", "add", "add_any", "and", "ceil", "clamp", "complex", "conj", "convert_element_type", "cos", "div",
    "divide", "eq", "erf", "exp", "expm1", "floor", "ge", "gt", "imag", "integer_pow", "is_finite", "le",
    "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "real", "rem",
    "round", "rsqrt", "select_n", "sign", "sin", "sqrt", "square", "sub", "tanh", "xor",
])  # fmt: skip
"""Steps that read an element where they write one. Any other reads wherever it likes."""
_APART = frozenset(["cond", "conv_general_dilated", "dot_general", "fft", "scan", "sort", "while"])
"""Steps that XLA computes apart from what reads their results."""
_MANY_READS = 64
"""Of how many arrays it is remembered that a value depends on them."""


class _About(NamedTuple):
    """What is known of a value."""

    memory: int
    """A number for the memory that it is in."""
    shape: tuple[int, ...]
    reads: frozenset[Any] | None
    """(memory, region) of what is read to compute it; of an unknown region, None. None if that is too much."""
    number: int | None = None
    """Its value, if it is a whole number that is known."""


class _Walk:
    """The steps of a program, one after the other; with `values` they are taken again, and risky writes otherwise."""

    def __init__(self, takes: bool) -> None:
        self.takes = takes
        self.found = False
        """Whether there was a risky write."""
        self.numbers = itertools.count()

    def new(self, shape: tuple[int, ...], reads: Any = frozenset(), number: Any = None) -> _About:
        """A value in memory of its own."""
        return _About(next(self.numbers), shape, reads, number)

    def run(self, eqns: Sequence[Any], about: dict[Any, _About], env: dict[Any, Any]) -> None:
        """Walk over steps whose inputs are in `about`, and in `env` if they are taken."""
        for eqn in eqns:
            known = [self._of(v, about) for v in eqn.invars]
            args = values_of(eqn.invars, env) if self.takes else []
            inner = called(eqn) if eqn.primitive.name in ("jit", "pjit") else None
            if inner is not None:
                results, made = self._call(inner, known, args)
            else:
                risky = eqn.primitive.name == _WRITE and _is_risky(known)
                self.found |= risky
                results = [self._result(eqn, known, v) for v in eqn.outvars]
                made = self._take(eqn, args, risky)
            about.update(zip(eqn.outvars, results))
            env.update(zip(eqn.outvars, made))

    def _call(self, inner: Any, known: list[_About], args: list[Any]) -> tuple[list[_About], Any]:
        jaxpr = inner.jaxpr
        about = dict(zip(jaxpr.invars, known))
        about.update((v, self.new(v.aval.shape)) for v in jaxpr.constvars)
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*inner.consts, *args)))
        self.run(jaxpr.eqns, about, env)
        made = values_of(jaxpr.outvars, env) if self.takes else []
        return [self._of(v, about) for v in jaxpr.outvars], made

    def _take(self, eqn: Any, args: list[Any], risky: bool) -> Sequence[Any]:
        if not self.takes:
            return ()
        with at_its_line(eqn):
            if risky:
                return [_rebuilt(args[0], args[1], args[2:])]
            return results_of(eqn, args)

    def _of(self, v: Any, about: dict[Any, _About]) -> _About:
        if not hasattr(v, "val"):
            return about[v]
        whole = not v.aval.shape and np.issubdtype(v.aval.dtype, np.integer)
        return self.new(v.aval.shape, number=int(v.val) if whole else None)

    def _result(self, eqn: Any, known: list[_About], out: Any) -> _About:
        name, shape = eqn.primitive.name, getattr(out.aval, "shape", ())
        if not known or name in _APART:
            return self.new(shape)
        first = known[0]
        if name in _SAME_MEMORY:
            moved = name == "transpose"
            return _About(first.memory, shape, _anywhere(first.reads) if moved else first.reads)
        if name in (_READ, _SLICE):
            region = (first.memory, _region(eqn, known, shape))
            return self.new(shape, _joined([_anywhere(first.reads), frozenset([region])]))
        if name in _ELEMENTWISE and all(k.shape in ((), shape) for k in known):
            whole = [frozenset([(k.memory, (k.shape, (0,) * len(k.shape), k.shape))]) for k in known]
            number = first.number if name == "convert_element_type" else None
            return self.new(shape, _joined([*[k.reads for k in known], *whole]), number)
        memories = frozenset([(k.memory, None) for k in known])
        return self.new(shape, _joined([*[_anywhere(k.reads) for k in known], memories]))


def _joined(reads: Sequence[frozenset[Any] | None]) -> frozenset[Any] | None:
    found: set[Any] = set()
    for some in reads:
        if some is None:
            return None
        found |= some
    return frozenset(found) if len(found) <= _MANY_READS else None


def _anywhere(reads: frozenset[Any] | None) -> frozenset[Any] | None:
    return reads and frozenset([(memory, None) for memory, _ in reads])


def _region(eqn: Any, known: list[_About], sizes: tuple[int, ...]) -> Any:
    """Return which part of its operand a step reads: the shape of the operand, where it begins and how large it is."""
    if eqn.primitive.name == _SLICE:
        strides = eqn.params["strides"]
        plain = strides is None or set(strides) <= {1}
        return (known[0].shape, tuple(eqn.params["start_indices"]), sizes) if plain else None
    starts = tuple([k.number for k in known[1:]])
    return None if None in starts else (known[0].shape, starts, sizes)


def _is_risky(known: list[_About]) -> bool:
    """Return whether what is written depends on other places of the array that it is written to."""
    operand, update, *starts = known
    region = (operand.shape, tuple([k.number for k in starts]), update.shape)
    if update.reads is None:
        return True
    return any(memory == operand.memory and at != region for memory, at in update.reads)


def _rebuilt(operand: Any, update: Any, starts: Sequence[Any]) -> Any:
    """Return what `dynamic_update_slice` gives, each element chosen from the old and the new ones."""
    shape, sizes = operand.shape, update.shape
    starts = [
        lax.clamp(np.int64(0), lax.convert_element_type(s, np.int64), np.int64(n - k))
        for s, n, k in zip(starts, shape, sizes)
    ]
    zero = lax.full((), 0, operand.dtype)
    wide = lax.pad(update, zero, [(n, n, 0) for n in shape])
    before = [lax.sub(np.int64(n), s) for s, n in zip(starts, shape)]
    placed = lax.dynamic_slice(wide, before, shape)
    for d, (s, n, k) in enumerate(zip(starts, shape, sizes)):
        if n != k:
            at = lax.broadcasted_iota(np.int64, shape, d)
            begin = lax.broadcast(s, shape)
            end = lax.broadcast(lax.add(s, np.int64(k)), shape)
            placed = lax.select(lax.bitwise_and(lax.ge(at, begin), lax.lt(at, end)), placed, operand)
    return placed


def _may_be_risky(jaxpr: Any, seen: set[int]) -> bool:
    """Return whether some of these steps write to anything but an array of one number, as gradients of slices do."""
    filled: set[int] = set()
    """Identities of such arrays: a literal has no hash."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "broadcast_in_dim" and not eqn.invars[0].aval.shape:
            filled.update(map(id, eqn.outvars))
        if eqn.primitive.name == _WRITE and id(eqn.invars[0]) not in filled:
            return True
        inner = called(eqn)
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and id(inner) not in seen:
            seen.add(id(inner))
            if _may_be_risky(inner, seen):
                return True
    return False


def without_risky_writes(closed: Any) -> Any:
    """The same program (a closed jaxpr without inputs), where XLA computes each write as it is meant."""
    jaxpr = closed.jaxpr
    if not _may_be_risky(jaxpr, set()):
        return closed
    walk = _Walk(takes=False)
    walk.run(jaxpr.eqns, {v: walk.new(v.aval.shape) for v in jaxpr.constvars}, {})
    if not walk.found:
        return closed

    def again() -> list[Any]:
        walk = _Walk(takes=True)
        env = dict(zip(jaxpr.constvars, closed.consts))
        walk.run(jaxpr.eqns, {v: walk.new(v.aval.shape) for v in jaxpr.constvars}, env)
        return values_of(jaxpr.outvars, env)

    return jax.make_jaxpr(again)()
