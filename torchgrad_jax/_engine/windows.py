"""Backward passes over long graphs, a window of nodes at a time.

A graph too big to be worth compiling whole (a recurrence unrolled over thousands of steps, say) still
repeats itself. Its nodes in order of execution are cut into windows; a window whose structure occurs
again and again is compiled once and run for each of them, the others run node by node.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._core import shapes
from .._core.meta import Meta, meta
from .node import GRAD_LOCK, AccumulateGrad, Node
from .strided import read, write
from .tensor import Storage, Tensor, make
from .trace import FRESH, PASSED

SIZE = 64
REPEATS = 4
_LAST = 1 << 62
_add = jax.jit(jnp.add)
_COMPILED: dict[Any, Any] = {}


class State:
    """What a gradient in flight is to torch: layout, version, and who may write to it."""

    __slots__ = ("fresh", "meta", "origin", "shared", "version")

    def __init__(self, m: Meta, fresh: bool, shared: bool, version: int, origin: int = -1) -> None:
        self.meta, self.fresh, self.shared, self.version = m, fresh, shared, version
        self.origin = origin
        """Inside a compiled window: the incoming gradient that `version` counts from, or -1."""

    def key(self) -> tuple[Any, ...]:
        """What tells states apart, for the structure of a window."""
        return (self.meta, self.fresh, self.shared)


class Flow:
    """Gradients in flight by node and output: the array and its state."""

    __slots__ = ("add", "slots")

    def __init__(self, add: Any) -> None:
        self.add = add
        self.slots: dict[tuple[Any, int], tuple[Any, State]] = {}

    def put(self, node: Any, nr: int, array: Any, state: State) -> None:
        """Add a gradient, in place (a version more) where torch would."""
        old = self.slots.get((node, nr))
        if old is None:
            self.slots[node, nr] = (array, state)
            return
        before = old[1]
        if before.fresh and not before.shared and before.meta.dense:
            after = State(before.meta, True, False, before.version + 1, before.origin)
        else:
            a, b = before.meta, state.meta
            m = a
            if a is not b or not a.dense:
                strides = shapes.elementwise_strides(
                    a.shape, [(a.shape, a.strides), (a.shape, b.strides)]
                )
                m = meta(a.shape, a.dtype, a.device, strides)
            after = State(m, True, False, 0)
        self.slots[node, nr] = (self.add(old[0], array), after)

    def through(self, node: Any, gp: Any, edges: Sequence[Any], saved: Any, vjp: Any) -> None:
        """Run one node: take its gradients out, put its inputs' gradients in."""
        given = [self.slots.pop((node, k), None) for k in range(len(gp.plan.diff))]
        wanted = tuple(dict.fromkeys(p for p, _, _ in edges))
        if not wanted or all(g is None for g in given):
            return
        arrays = vjp(gp, [None if g is None else g[0] for g in given], saved, wanted)
        told = gp.describe(tuple([None if g is None else g[1].meta for g in given]))
        values = {}
        passes = sum(1 for p, _, _ in edges if told[p][1] == PASSED)
        for p, array in zip(wanted, arrays):
            m, kind, version = told[p]
            if kind == PASSED:
                first = next(g for g in given if g is not None)[1]
                shared = first.shared or passes > 1
                values[p] = (
                    array,
                    State(first.meta, first.fresh, shared, first.version, first.origin),
                )
            else:
                values[p] = (array, State(m, kind == FRESH, False, version))
        for p, target, nr in edges:
            self.put(target, nr, *values[p])


def _traced_vjp(gp: Any, cts: list[Any], saved: Any, wanted: tuple[int, ...]) -> Any:
    return gp.fn(cts, saved(), wanted)


def _compiled_vjp(gp: Any, cts: list[Any], saved: Any, wanted: tuple[int, ...]) -> Any:
    present = tuple([c is not None for c in cts])
    pick = None if len(wanted) == len(gp.inputs) else wanted
    out = gp.vjp(present, pick)(*[c for c in cts if c is not None], *saved())
    return out if pick is not None else [out[w] for w in wanted]


def order_of(roots: Sequence[tuple[Node, int]]) -> tuple[list[Node], list[AccumulateGrad]] | None:
    """Nodes in order of execution and the leaves, or None when somebody watches one of them."""
    deps: dict[Node, int] = {}
    stack: list[Node] = []
    for node, _ in roots:
        if node not in deps:
            deps[node] = 0
            stack.append(node)
    start = list(deps)
    leaves: list[AccumulateGrad] = []
    while stack:
        node = stack.pop()
        if node.extras is not None and node.extras.observed:
            return None
        if node.__class__ is AccumulateGrad:
            x = node.variable._x
            if x is not None and (x.hooks or x.post_acc):
                return None
            leaves.append(node)  # type: ignore[arg-type]
            continue
        if node.gp is None or node.saved is None:
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
    ready = [(-n.seq, n) for n in start if n.__class__ is not AccumulateGrad]
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for edge in node.edges:
            if edge is not None:
                m = edge[0]
                deps[m] -= 1
                if deps[m] == 0 and m.__class__ is not AccumulateGrad:
                    heapq.heappush(ready, (-m.seq, m))
    return order, leaves


def _entries(node: Node) -> list[Any] | None:
    """Saved values as arrays and numbers; None when one was overwritten or packed."""
    out = []
    for entry, then in zip(node.saved, node.vers):  # type: ignore[arg-type]
        kind = entry.__class__
        if kind is Storage:
            if entry.version != then:
                return None
            out.append(entry.array)
        elif isinstance(entry, Tensor):
            if entry._vc.version != then:
                return None
            out.append(entry._st.array if entry._al is None else read(entry))
        elif kind in (int, float, bool, complex):
            out.append(entry)
        else:
            return None
    return out


class Window:
    """A run of nodes with what a compiled version needs to know and be given."""

    __slots__ = ("nodes", "saved", "shape", "outside")

    def __init__(self, nodes: list[Node], saved: list[list[Any]]) -> None:
        self.nodes, self.saved = nodes, saved
        local = {n: i for i, n in enumerate(nodes)}
        outside: dict[Node, int] = {}
        shape: list[Any] = []
        for node in nodes:
            shape.append(node.gp)
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
        signature = tuple((i, nr, s.key()) for (i, nr, _), (_, s) in zip(came, taken))
        kinds = tuple(
            v.__class__ if v.__class__ in (int, float, bool, complex) else None for v in flat
        )
        key = (self.shape, where, kinds, signature)
        found = _COMPILED.get(key)
        if found is None:
            found = _COMPILED[key] = self._compile(where, signature)
        fn, states = found
        back = {i: n for n, i in names.items()}
        for (i, nr, s), array in zip(states(), fn([a for a, _ in taken], flat)):
            version = s.version + (taken[s.origin][1].version if s.origin >= 0 else 0)
            flow.slots[back[i], nr] = (array, State(s.meta, s.fresh, s.shared, version))

    def _compile(self, where: tuple[int, ...], signature: tuple[Any, ...]) -> Any:
        plans = [n.gp for n in self.nodes]
        counts = [len(v) for v in self.saved]
        edges = self.edges()
        left: list[Any] = []

        def window_backward(came: list[Any], flat: list[Any]) -> list[Any]:
            flow = Flow(jnp.add)
            for j, ((i, nr, (m, fresh, shared)), array) in enumerate(zip(signature, came)):
                flow.slots[i, nr] = (array, State(m, fresh, shared, 0, j))
            at = 0
            for i, (gp, n, out) in enumerate(zip(plans, counts, edges)):
                values = [flat[w] for w in where[at : at + n]]
                at += n
                flow.through(i, gp, out, lambda values=values: values, _traced_vjp)
            left[:] = [(i, nr, s) for (i, nr), (_, s) in flow.slots.items()]
            return [a for a, _ in flow.slots.values()]

        return jax.jit(window_backward), lambda: left

    def walk(self, flow: Flow) -> None:
        """The same, node by node."""
        for node, values in zip(self.nodes, self.saved):
            edges = [
                (p, e[0], e[1]) for p, e in zip(node.gp.edge_grads, node.edges) if e is not None
            ]
            flow.through(node, node.gp, edges, lambda values=values: values, _compiled_vjp)


def run(roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], keep: bool) -> bool:
    """Run a backward pass into the leaves; False when the graph must be walked the general way."""
    found = order_of(roots)
    if found is None:
        return False
    order, leaves = found
    saved = []
    for node in order:
        values = _entries(node)
        if values is None:
            return False
        saved.append(values)
    windows = [Window(order[i : i + SIZE], saved[i : i + SIZE]) for i in range(0, len(order), SIZE)]
    del saved
    repeats = Counter(w.shape for w in windows)
    flow = Flow(_add)
    for (node, nr), g in zip(roots, grads):
        flow.put(node, nr, read(g), State(g._m, False, True, g._vc.version))
    for i, window in enumerate(windows):
        if repeats[window.shape] >= REPEATS:
            window.run(flow)
        else:
            window.walk(flow)
        windows[i] = None  # type: ignore[call-overload]
        if not keep:
            for node in window.nodes:
                node._release()
    with GRAD_LOCK:
        _store(flow, leaves)
    return True


def _store(flow: Flow, leaves: Sequence[AccumulateGrad]) -> None:
    """Put what arrived at the leaves into their `.grad`, as the general walk would."""
    for acc in leaves:
        slot = flow.slots.pop((acc, 0), None)
        if slot is None:
            continue
        array, state = slot
        leaf = acc.variable
        if leaf._g is not None:
            write(leaf._g, _add(read(leaf._g), array))
            continue
        want = grad_layout(leaf._m)
        leaf._g = g = make(array, want)
        stolen = state.meta.strides == want.strides and not state.shared
        g._st.version = state.version if stolen else 1


def grad_layout(m: Meta) -> Meta:
    """Meta of a leaf's gradient: the leaf's strides when it is dense."""
    return m if m.contiguous or m.dense else meta(m.shape, m.dtype, m.device)
