"""Which inputs of a program may be overwritten in place.

What is updated may be given to XLA, so that the new value is written where the old one was. That saves memory only
where everything that reads the old value must come before the update anyway. A weight that the gradient of its layer's
input still has to be multiplied with does not: XLA copies it first, and then a new array costs less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...._engine.modes.written_steps import placeholder
from ..trace.equal_steps import called

_FINAL = (
    "arg", "cholesky", "conv_", "cum", "custom", "dot", "eig", "fft", "gather", "householder", "lu", "qr", "reduce",
    "scan", "scatter", "schur", "select_and", "sort", "svd", "top_k", "triangular", "tridiagonal", "while", "cond",
)  # fmt: skip
"""How the names of steps begin that read their inputs themselves; any other one is fused into those that read it."""


def in_place(jaxpr: Any, updated: Mapping[int, int]) -> set[int]:
    """The inputs, of those that are updated (with the number of the result), that need no copy."""
    steps = _Steps()
    results = steps.take(jaxpr, {})
    everything = (1 << len(updated)) - 1
    into: dict[Any, int] = {}
    """Of a value: the updates that it goes into, as bits."""
    read: dict[Any, int] = {}
    """Of a value: the updates that all who read it go into."""
    for n, k in enumerate(updated.values()):
        into[results[k]] = into.get(results[k], 0) | 1 << n
    final = set(results)
    """Later steps that read these values read what has been written."""
    for name, args, outs in reversed(steps.found):
        goes = by = 0
        for v in outs:
            goes |= into.get(v, 0)
        if name.startswith(_FINAL):
            by = goes
        else:
            by = everything
            for v in outs:
                by &= read.get(v, everything)
        for v in args:
            into[v] = into.get(v, 0) | goes
            if v not in final:
                read[v] = read.get(v, everything) & by
    return {i for n, i in enumerate(updated) if read.get(i, everything) >> n & 1}


class _Steps:
    """The steps of a program and those of what it calls: name, inputs, outputs. Input i goes by its number."""

    __slots__ = ("found", "outside")

    def __init__(self) -> None:
        self.found: list[tuple[str, list[Any], Sequence[Any]]] = []
        self.outside = placeholder()

    def take(self, jaxpr: Any, env: dict[Any, Any]) -> list[Any]:
        """Add the steps of these, and return the results."""
        for eqn in jaxpr.eqns:
            if eqn.primitive is self.outside:
                env[eqn.outvars[0]] = eqn.params["index"]
                continue
            args = [None if hasattr(v, "val") else env.get(v) for v in eqn.invars]
            inner = called(eqn)
            if inner is None:
                outs = [object() for _ in eqn.outvars]
                self.found.append((eqn.primitive.name, [v for v in args if v is not None], outs))
            else:
                outs = self.take(inner.jaxpr, dict(zip(inner.jaxpr.invars, args)))
            env.update(zip(eqn.outvars, outs))
        return [None if hasattr(v, "val") else env.get(v) for v in jaxpr.outvars]
