"""Gradients of leaves from outside that a program reads: whichever they are in each run, or these very tensors.

`zero_grad` and a backward pass outside of the function give a leaf another gradient each time, and a program reads the
one that is there. That is right for a gradient that has memory of its own. One that is a part of a larger memory, or
one memory with the gradient of another leaf or with a tensor that the function knows itself, is a tensor from outside
like any other: the program is for this one alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .._core.meta import Meta
from .._engine.strided import is_direct
from .._engine.tensor import Tensor
from .traced_program import Program, resolve_argument

OTHER_GRADIENT = "the gradient of a leaf is another tensor, or is one memory with another tensor as it was not before"


class GradientsRead:
    """The gradients that a program reads of leaves from outside, or looks for.

    Args:
        program: the program; sources that stand for one tensor alone become sources of that tensor.
        args: its arguments.
        known: tensors that the function knows itself, and not as gradients.
    """

    __slots__ = ("_any", "_n", "_one", "_outside")

    def __init__(self, program: Program, args: Sequence[Tensor], known: Iterable[Tensor]) -> None:
        found = [(leaf, m, _gradient(leaf, args)) for leaf, m in program.gradient_guards]
        holders = Counter(id(g._st) for _, _, g in found if g is not None)
        apart = {id(t._st) for t in known}
        elsewhere = apart | {id(s.what) for s in program.sources if s.kind == "tensor"}
        self._any: list[tuple[Any, Meta | None]] = []
        """Leaves, and what the gradient of each is like."""
        self._one: list[tuple[Any, Tensor]] = []
        """Leaves, and the gradient that each has to have."""
        for leaf, m, g in found:
            if g is None or (
                is_direct(g) and holders[id(g._st)] == 1 and id(g._st) not in elsewhere
            ):
                self._any.append((leaf, m))
            else:
                self._one.append((leaf, g))
        apart |= {id(g._st) for _, g in self._one}
        for s in program.sources:
            if s.kind == "grad" and id((g := _gradient(s.what, args))._st) in apart:
                s.kind, s.what, s.of = "tensor", g._st, g
        self._outside = {id(s.what) for s in program.sources if s.kind == "tensor"}
        self._n = sum(m is not None for _, m in self._any)

    def one_alone(self, leaf: Any) -> bool:
        """Whether a leaf has to have the gradient that it had."""
        return any(leaf is known for known, _ in self._one)

    def describe_change(self, args: Sequence[Tensor]) -> str | None:
        """Why the program is not right for the gradients that are there now, or None."""
        storages = set()
        for leaf, m in self._any:
            g = _gradient(leaf, args)
            if (None if g is None else g._m) is not m:
                return "the gradient of a leaf is there, or not there, as it was not before"
            if g is not None and is_direct(g):
                storages.add(id(g._st))
        if len(storages) < self._n or not storages.isdisjoint(self._outside):
            return OTHER_GRADIENT
        if any(_gradient(leaf, args) is not g for leaf, g in self._one):
            return OTHER_GRADIENT
        return None


def _gradient(leaf: Any, args: Sequence[Tensor]) -> Any:
    return resolve_argument(leaf, args)._g


__all__ = ["OTHER_GRADIENT", "GradientsRead"]
