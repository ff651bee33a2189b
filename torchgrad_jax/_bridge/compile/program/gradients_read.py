"""Gradients of leaves from outside: those that a program reads, and the graphs of those that it leaves.

`zero_grad` and a backward pass outside of the function give a leaf another gradient each time, and a program reads the
one that is there. That is right for a gradient that has memory of its own. One that is a part of a larger memory, or
one memory with the gradient of another leaf or with a tensor that the function knows itself, is a tensor from outside
like any other: the program is for this one alone.

A backward pass with `create_graph=True` leaves gradients that have a graph themselves. No program goes on from such a
graph or leaves one, but a graph that a second pass has used up (`w.grad.pow(2).sum().backward()`) is only a name: the
gradient requires a gradient, and a pass from it raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...._core.arrays.meta import Meta
from ...._core.errors.messages import AsWritten
from ...._engine.graph.history import grad_fn_of, requires_grad_of
from ...._engine.memory.strided import is_direct
from ...._engine.memory.tensor import Tensor
from ..arguments.keys import OftenAnew
from ..trace.traced_program import RunState, TracedProgram, resolve_argument
from .compiled_backward import SpentGraph, spent_graph

OTHER_GRADIENT = OftenAnew(
    "the gradient of a leaf is another tensor, or is one memory with another tensor as it was not before"
)
_READS_A_GRAPH = "the gradient of a leaf has a graph (of `create_graph=True`), and is read or added to"
_LEAVES_A_GRAPH = "it leaves a gradient in `.grad` that has a graph (of `create_graph=True`)"


class GradientsRead:
    """The gradients that a program reads of leaves from outside, or looks for.

    Args:
        program: the program; sources that stand for one tensor alone become sources of that tensor.
        args: its arguments.
        known: tensors that the function knows itself, and not as gradients.
    """

    __slots__ = ("_any", "_n", "_one", "_outside")

    def __init__(self, program: TracedProgram, args: Sequence[Tensor], known: Iterable[Tensor]) -> None:
        found = [(leaf, m, _gradient(leaf, args)) for leaf, m in program.gradient_guards]
        if any(g is not None and requires_grad_of(g) for _, _, g in found):
            raise AsWritten(_READS_A_GRAPH, lasting=True)
        holders = Counter(id(g._st) for _, _, g in found if g is not None)
        apart = {id(t._st) for t in known}
        elsewhere = apart | {id(s.what) for s in program.sources if s.kind == "tensor"}
        self._any: list[tuple[Any, Meta | None]] = []
        """Leaves, and what the gradient of each is like."""
        self._one: list[tuple[Any, Tensor]] = []
        """Leaves, and the gradient that each has to have."""
        for leaf, m, g in found:
            if g is None or (is_direct(g) and holders[id(g._st)] == 1 and id(g._st) not in elsewhere):
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
        """Return whether a leaf has to have the gradient that it had."""
        return any(leaf is known for known, _ in self._one)

    def describe_change(self, args: Sequence[Tensor]) -> str | None:
        """Why the program is not right for the gradients that are there now, or None."""
        storages = set()
        for leaf, m in self._any:
            g = _gradient(leaf, args)
            if (None if g is None else g._m) is not m:
                return "the gradient of a leaf is there, or not there, as it was not before"
            if g is not None and requires_grad_of(g):
                return _READS_A_GRAPH
            if g is not None and is_direct(g):
                storages.add(id(g._st))
        if len(storages) < self._n or not storages.isdisjoint(self._outside):
            return OTHER_GRADIENT
        if any(_gradient(leaf, args) is not g for leaf, g in self._one):
            return OTHER_GRADIENT
        return None


def graphs_of_gradients(state: RunState, began: int) -> dict[Any, SpentGraph | None]:
    """The leaves whose gradients have a graph when the function is done.

    Returns:
        By a leaf's identity, or its number if it is an argument: what is left of the graph, None if a pass can still
        go through it.
    """
    found: dict[Any, SpentGraph | None] = {}
    for leaf in [known.tensor for known in state.known_tensors.values()]:
        g = leaf._g
        if g is not None and requires_grad_of(g):
            found[_key(state.named(leaf))] = spent_graph(state, grad_fn_of(g), began)
    return found


def spent_gradients(program: TracedProgram, graphs: dict[Any, SpentGraph | None]) -> list[tuple[Any, SpentGraph]]:
    """The leaves to which the program gives gradients with a graph that was used up, and what is left of these."""
    found = []
    for leaf, _, m, _ in program.grads:
        if m is not None and _key(leaf) in graphs:
            graph = graphs[_key(leaf)]
            if graph is None:
                raise AsWritten(_LEAVES_A_GRAPH, lasting=True)
            found.append((leaf, graph))
    return found


def _key(leaf: Any) -> Any:
    return leaf if isinstance(leaf, int) else id(leaf)


def _gradient(leaf: Any, args: Sequence[Tensor]) -> Any:
    return resolve_argument(leaf, args)._g
