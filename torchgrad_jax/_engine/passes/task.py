"""One run of the engine: where it goes, and the gradients that are on their way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.state import MODES
from ..graph.fitting import fitted
from ..graph.node import AccumulateGrad, Node
from ..graph.record import cast
from ..graph.saved import Unpacked
from ..memory.tensor import UNSET, Tensor
from .leaf import add
from .order import any_stands_for_several, execution_order, leading_to, reachable, reachable_by_outputs, running

_ids = itertools.count()


class Task:
    """One run of the engine."""

    __slots__ = (
        "__weakref__", "accumulates", "callbacks", "calling", "captured", "captures", "create", "current", "depth",
        "gradients", "hooked", "meets_several", "id", "keep", "needed", "nodes", "order", "outer", "root", "running",
        "unpacked",
    )  # fmt: skip

    def __init__(self, keep: bool, create: bool, accumulates: bool = True) -> None:
        self.id = next(_ids)
        self.keep, self.create, self.accumulates = keep, create, accumulates
        self.callbacks: list[Callable[[], None]] = []
        self.current: Node | None = None
        self.calling = False
        """A node, its hooks included, is running."""
        self.outer: Task | None = MODES.graph_task
        self.depth: int = 0 if self.outer is None else self.outer.depth + 1
        self.nodes: Sequence[Node] = []
        """All that can be reached."""
        self.order: list[Node] = []
        self.root: Node | None = None
        self.hooked: Node | None = None
        """The node, of those still to run, whose tensor hooks were called already."""
        self.needed: set[Node] | None = None
        """The nodes that the pass goes on to, such as those that lead to a target, or None for all."""
        self.meets_several = False
        """Whether a node can be reached that stands for several, so that outputs of it are looked at one by one."""
        self.running: set[Node] | None = None
        """The needed nodes whose function runs, or None for all."""
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        """Of nodes whose gradients are asked for: which of its gradients is which of the results."""
        self.captured: list[Tensor | None] = []
        self.gradients: dict[Node, list[Any]] = {}
        """What each node has received so far, by number of its output."""
        self.unpacked: Unpacked = {}

    def begin(
        self, roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], targets: Sequence[tuple[Node, int]] | None
    ) -> None:
        """Find the way from `roots`, and hand them the gradients that the pass starts with."""
        starts = [roots[0][0]] if len(roots) == 1 else list(dict.fromkeys([n for n, _ in roots]))
        nodes = self.nodes = reachable(starts)
        self.meets_several = any_stands_for_several(nodes)
        if self.meets_several:
            self.nodes = reachable_by_outputs(nodes, roots)
            if len(self.nodes) < len(nodes):
                nodes, self.needed = self.nodes, set(self.nodes)
        if len(roots) == 1:
            self.root = starts[0]
        if targets is not None:
            self._restrict(targets)
            # Of several roots, those that lead to no target are left out; a single one gets its hooks run.
            if len(roots) > 1:
                starts = [n for n in starts if n in self.needed]  # type: ignore[operator]
        self.order = execution_order(nodes, starts, self.needed)
        begins = {*starts}
        for (node, nr), g in zip(roots, grads):
            alone = len(roots) == 1 or not self.meets_several
            if node in begins and (alone or self._goes_on(node, nr)):
                self.put(node, nr, g)

    def _restrict(self, targets: Sequence[tuple[Node, int]]) -> None:
        """Only what leads to the targets runs."""
        needed = self.needed = leading_to(self.nodes, targets)
        self.running = running(needed, self.accumulates)
        self.captured = [None] * len(targets)
        for i, (node, nr) in enumerate(targets):
            if not (self.accumulates and node.__class__ is AccumulateGrad):
                self.captures.setdefault(node, []).append((i, nr))
        if self.accumulates:  # torch runs the nodes of inputs that are no leaves, even freed ones
            self.running.update(n for n, _ in targets)

    def runs(self, node: Node) -> bool:
        """Return whether the function of a node that the pass comes to runs."""
        return self.running is None or node in self.running

    def put(self, node: Node, nr: int, g: Tensor) -> None:
        """Add a gradient to what a node has received so far."""
        if node.__class__ is AccumulateGrad and (x := node.variable._x) is not None:
            g = _of_dtype(g, x.grad_dtype)
        elif node._grad_dtypes is not None:
            g = _of_dtype(g, node._grad_dtypes[nr])
        slots = self.gradients.get(node)
        if slots is None:
            slots = self.gradients[node] = [None] * node.n_outputs
        old = slots[nr]
        slots[nr] = g if old is None else add(old, g, self.create)

    def send(self, source: Node, index: int, g: Tensor) -> None:
        """Put the gradient that a node gives for one of its edges where that edge leads."""
        m, nr = source.edges[index]
        if m.extras is not None and m.extras.reshaped:
            # An output was given another shape in place, without a record of it.
            want = m.out_meta(nr)
            g = g if g._m is want else fitted(source.name(), index, g, want)
        if not self.meets_several or self._goes_on(m, nr):
            self.put(m, nr, g)

    def _goes_on(self, node: Node, nr: int) -> bool:
        """Return whether the pass goes on from an output, where the node has several, with edges of their own."""
        needed = self.needed
        if needed is None or not node.of_several or any(at == nr for _, at in self.captures.get(node, ())):
            return True
        return any(edge is not None and edge[0] in needed for edge in node.edges_from(1 << nr))


def _of_dtype(g: Tensor, dtype: Any) -> Tensor:
    """A gradient in the dtype that its leaf or a Function asked for."""
    return g if dtype is UNSET or dtype is None or g._m.dtype is dtype else cast(g, dtype)
