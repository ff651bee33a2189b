"""Backward passes over long graphs, a window of nodes at a time.

A graph too big to be worth compiling whole (a recurrence unrolled over thousands of steps, say) still
repeats itself. Its nodes in order of execution are cut into windows; a window whose structure occurs
again and again is compiled once and run for each of them, the others run node by node.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..._core import sums
from ..._core.caches import KERNELS
from ..._core.meta import Meta, meta
from ..._core.state import LIFT, MODES, TRACED
from .. import first_uses
from ..escapes import before_gradients
from ..node import GRAD_LOCK, AccumulateGrad, Node
from ..saved import ALTERED, unaltered
from ..strided import read
from ..tensor import UNSET, Storage, Tensor
from . import compile_failures
from .leaf import store

SIZE = 64
REPEATS = 4
_LAST = 1 << 62
_add = KERNELS.shared(jax.jit(sums.plus))
_COMPILED = KERNELS.cache()


class Flow:
    """Gradients on their way, as arrays by node and output."""

    __slots__ = ("add", "arrived", "slots")

    def __init__(self, add: Any) -> None:
        self.add = add
        self.slots: dict[tuple[Any, int], Any] = {}
        self.arrived: dict[Any, Any] = {}
        """What reached the leaves."""

    def put(self, node: Any, nr: int, array: Any) -> None:
        """Add a gradient to what came before it."""
        old = self.slots.get((node, nr))
        self.slots[node, nr] = array if old is None else self.add(old, array)

    def arrive(self, leaf: Any) -> None:
        """Set aside what a leaf has received."""
        array = self.slots.pop((leaf, 0), None)
        if array is not None:
            self.arrived[leaf] = array

    def through(self, node: Any, gp: Any, edges: Sequence[Any], saved: Any, vjp: Any) -> None:
        """Run one node: take its gradients out, put its inputs' gradients in."""
        given = [self.slots.pop((node, k), None) for k in range(len(gp.plan.diff))]
        if all(g is None for g in given):
            return
        edges = reached(gp, given, edges)
        wanted = tuple(dict.fromkeys(p for p, _, _ in edges))
        if wanted:
            values = dict(zip(wanted, vjp(gp, given, saved, wanted)))
            for p, target, nr in edges:
                self.put(target, nr, values[p])


def reached(gp: Any, cts: Sequence[Any], edges: Sequence[Any]) -> Sequence[Any]:
    """The edges ``(gradient, ...)`` that something flows along when some results may have got no gradient."""
    if all(c is not None for c in cts):
        return edges
    ways = gp.reached(cts)
    return [e for e in edges if e[0] in ways]


def _traced_vjp(gp: Any, cts: list[Any], saved: Any, wanted: tuple[int, ...]) -> Any:
    return gp.fn(cts, saved(), wanted)


def _compiled_vjp(gp: Any, cts: list[Any], saved: Any, wanted: tuple[int, ...]) -> Any:
    present = tuple([c is not None for c in cts])
    pick = None if len(wanted) == len(gp.inputs) else wanted
    out = gp.vjp(present, pick)(*[c for c in cts if c is not None], *saved())
    return out if pick is not None else [out[w] for w in wanted]


def order_of(roots: Sequence[tuple[Node, int]]) -> list[Node] | None:
    """Nodes in order of execution, leaves among them, or None when somebody watches one."""
    deps: dict[Node, int] = {}
    stack: list[Node] = []
    for node, _ in roots:
        if node not in deps:
            deps[node] = 0
            stack.append(node)
    start = list(deps)
    while stack:
        node = stack.pop()
        if node.extras is not None and node.extras.observed:
            return None
        if node.__class__ is AccumulateGrad:
            x = node.variable._x
            if x is not None and (x.hooks or x.post_acc or x.grad_dtype is not UNSET):
                return None
            # It may no longer want its gradient, or no longer be a leaf.
            if not node.variable._rg or node.variable._fn is not None:
                return None
            continue
        if node.gp is None or node.gp.alone or node.saved is None:
            return None
        for edge in node.edges:
            if edge is not None:
                m = edge[0]
                if m in deps:
                    deps[m] += 1
                else:
                    deps[m] = 1
                    stack.append(m)
    if any(deps[n] for n in start):
        return None
    order = []
    count = itertools.count()
    ready = [(_priority(n), next(count), n) for n in start]
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for edge in node.edges:
            if edge is not None:
                m = edge[0]
                deps[m] -= 1
                if deps[m] == 0:
                    heapq.heappush(ready, (_priority(m), next(count), m))
    return order


def _priority(node: Node) -> int:
    return -_LAST if node.__class__ is AccumulateGrad else -node.seq


def _entries(node: Node) -> list[Any] | None:
    """Saved values as arrays and numbers; None when one was overwritten or packed."""
    if ALTERED and not unaltered(node):
        return None
    out = []
    for entry, then in zip(node.saved, node.vers):
        kind = entry.__class__
        if kind is Storage:
            if entry.version != then:
                return None
            out.append(entry.array)
        elif isinstance(entry, Tensor):
            if entry._vc.version != then:
                return None
            plain = entry._al is None and not MODES.bits & LIFT
            out.append(entry._st.array if plain else read(entry))
        elif kind in (int, float, bool, complex):
            out.append(entry)
        else:
            return None
    return out


class Window:
    """A run of nodes with what a compiled version needs to know and be given."""

    __slots__ = ("nodes", "outside", "saved", "shape")

    def __init__(self, nodes: list[Node], saved: list[list[Any]]) -> None:
        self.nodes, self.saved = nodes, saved
        local = {n: i for i, n in enumerate(nodes)}
        outside: dict[Node, int] = {}
        shape: list[Any] = []
        for node in nodes:
            shape.append(_what(node))
            for edge in node.edges:
                if edge is None:
                    shape.append(None)
                    continue
                m, nr = edge
                at = local.get(m)
                if at is None:
                    at = ~outside.setdefault(m, len(outside))
                shape.append((at, nr))
        self.outside = list(outside)
        self.shape = tuple(shape)

    def edges(self) -> list[list[tuple[int, int, int]]]:
        """Per node: (gradient position, target, output number); targets outside are negative."""
        local = {n: i for i, n in enumerate(self.nodes)}
        outside = {n: ~i for i, n in enumerate(self.outside)}
        return [
            [
                (p, local.get(e[0], outside.get(e[0])), e[1])
                for p, e in zip(n.gp.edge_grads, n.edges)
                if e is not None
            ]
            if n.gp is not None
            else []
            for n in self.nodes
        ]  # type: ignore[misc]

    def args(self) -> tuple[list[Any], tuple[int, ...]]:
        """Saved values without repeats, and which one each slot reads."""
        flat: list[Any] = []
        at: dict[int, int] = {}
        where = []
        for values in self.saved:
            for v in values:
                i = at.get(id(v))
                if i is None or v.__class__ in (int, float, bool, complex):
                    i = at[id(v)] = len(flat)
                    flat.append(v)
                where.append(i)
        return flat, tuple(where)

    def run(self, flow: Flow) -> None:
        """One call of the compiled version for this structure and these incoming gradients."""
        flat, where = self.args()
        names: dict[Any, int] = {n: i for i, n in enumerate(self.nodes)}
        names.update({n: ~i for i, n in enumerate(self.outside)})
        came = [
            (names[n], nr, n)
            for n in (*self.nodes, *self.outside)
            for nr in range(n.n_outputs)
            if (n, nr) in flow.slots
        ]
        taken = [flow.slots.pop((n, nr)) for _, nr, n in came]
        places = tuple([(i, nr) for i, nr, _ in came])
        kinds = tuple(
            [v.__class__ if v.__class__ in (int, float, bool, complex) else None for v in flat]
        )
        key = (self.shape, where, kinds, places)
        found = _COMPILED.get(key)
        if found is None:
            found = _COMPILED.put(key, _Compiled(self, where, places), 0)
        if not found.run(self, flow, taken, flat):
            flow.slots.update({(n, nr): array for (_, nr, n), array in zip(came, taken)})
            self.walk(flow)

    def walk(self, flow: Flow) -> None:
        """The same, node by node."""
        for node, values in zip(self.nodes, self.saved):
            if node.gp is None:
                flow.arrive(node)
                continue
            edges = [
                (p, e[0], e[1]) for p, e in zip(node.gp.edge_grads, node.edges) if e is not None
            ]
            flow.through(node, node.gp, edges, lambda values=values: values, _compiled_vjp)


def _what(node: Node) -> Any:
    """What a node is in the structure of a window: its gradient plan, or the dtype and shape of a leaf."""
    if node.gp is not None:
        return node.gp
    m = node.variable._m
    return meta(m.shape, m.dtype, m.device)


class _Compiled:
    """A window's structure as one kernel."""

    __slots__ = ("arrived", "fn", "left")

    def __init__(
        self, window: Window, where: tuple[int, ...], places: tuple[tuple[int, int], ...]
    ) -> None:
        plans = [_what(n) for n in window.nodes]
        counts = [len(v) for v in window.saved]
        edges = window.edges()
        self.left: list[tuple[int, int]] = []
        self.arrived: list[int] = []

        def window_backward(came: list[Any], flat: list[Any]) -> Any:
            flow = Flow(sums.plus)
            flow.slots.update(zip(places, came))
            at = 0
            for i, (plan, n, out) in enumerate(zip(plans, counts, edges)):
                values = [flat[w] for w in where[at : at + n]]
                at += n
                if isinstance(plan, Meta):
                    flow.arrive(i)
                else:
                    flow.through(i, plan, out, lambda values=values: values, _traced_vjp)
            self.left, self.arrived = [*flow.slots], [*flow.arrived]
            return [*flow.slots.values()], [*flow.arrived.values()]

        kernel = jax.jit(window_backward)
        device = next(p.plan.outs[0].device for p in plans if not isinstance(p, Meta))
        self.fn: Any = first_uses.early(kernel, device, self._settle)
        """None for one that cannot be compiled."""

    def _settle(self, kernel: Callable[..., Any]) -> None:
        self.fn = kernel

    def run(self, window: Window, flow: Flow, came: list[Any], flat: list[Any]) -> bool:
        """Run the kernel and put what it leaves into `flow`; False, with nothing done, if it fails."""
        if self.fn is None:
            return False
        try:
            arrays, arrived = self.fn(came, flat)
        except Exception as error:
            if compile_failures.note(error, "a window of a backward pass", [*came, *flat]):
                self.fn = None
            return False
        nodes, outside = window.nodes, window.outside
        for (i, nr), array in zip(self.left, arrays):
            flow.slots[nodes[i] if i >= 0 else outside[~i], nr] = array
        for i, array in zip(self.arrived, arrived):
            flow.arrived[nodes[i]] = array
        return True


def run(roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], keep: bool) -> bool:
    """Run a backward pass into the leaves; False when the graph must be walked the general way."""
    order = order_of(roots)
    if order is None:
        return False
    saved = []
    for node in order:
        values = _entries(node) if node.gp is not None else []
        if values is None:
            return False
        saved.append(values)
    windows = [Window(order[i : i + SIZE], saved[i : i + SIZE]) for i in range(0, len(order), SIZE)]
    del saved
    repeats = Counter(w.shape for w in windows)
    flow = Flow(_add)
    for (node, nr), g in zip(roots, grads):
        flow.put(node, nr, read(g))
    for i, window in enumerate(windows):
        if repeats[window.shape] >= REPEATS and any(n.gp is not None for n in window.nodes):
            window.run(flow)
        else:
            window.walk(flow)
        windows[i] = None  # type: ignore[call-overload]
        if not keep:
            for node in window.nodes:
                if node.gp is not None:
                    node._release()
    with GRAD_LOCK:
        if MODES.bits & TRACED:
            before_gradients([a.variable for a in flow.arrived], [*flow.arrived.values()])
        for acc, array in flow.arrived.items():
            store(acc.variable, array)
    return True
