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

from .._core import sums
from .._core.meta import Meta, meta, summed
from .._core.state import LIFT, MODES
from .._core.warn import once
from . import first_uses
from .grad_layouts import FRESH, PASSED, VIEWED
from .node import GRAD_LOCK, AccumulateGrad, Node
from .saved import DETACHED, attached
from .strided import check_writable, gradient, gradient_meta, read, write
from .tensor import UNSET, Storage, Tensor, check_counted

SIZE = 64
REPEATS = 4
_LAST = 1 << 62
_add = jax.jit(sums.plus)
_COMPILED: dict[Any, Any] = {}


class Memory:
    """What a gradient lies in, and how many that are in flight do."""

    __slots__ = ("live",)

    def __init__(self, live: int = 0) -> None:
        self.live = live


class State:
    """What torch would know of a gradient in flight: layout, version, how many hold it, and whose memory it has."""

    __slots__ = ("holders", "memory", "meta", "version")

    def __init__(self, m: Meta, version: int, holders: int, memory: Memory | None = None) -> None:
        self.meta, self.version, self.holders = m, version, holders
        self.memory = Memory() if memory is None else memory
        self.memory.live += 1

    def drop(self, holders: int = 1) -> None:
        """Give up so many holds."""
        self.holders -= holders
        if not self.holders:
            self.memory.live -= 1


class Flow:
    """Gradients in flight by node and output: the array, its state, and whether it may be added to."""

    __slots__ = ("add", "arrived", "slots")

    def __init__(self, add: Any) -> None:
        self.add = add
        self.slots: dict[tuple[Any, int], tuple[Any, State, bool]] = {}
        self.arrived: dict[Any, tuple[Any, State | None]] = {}
        """What reached the leaves: the array, and the state if it is not to be copied."""

    def put(self, node: Any, nr: int, array: Any, state: State, fresh: bool, adds: int = 0) -> None:
        """Add a gradient, in place (a version more) where torch would; its hold is handed over.

        `adds` is how many more times torch would add, where the gradient is a sum of what its steps give.
        """
        old = self.slots.get((node, nr))
        if old is None:
            self.slots[node, nr] = (array, state, fresh)
            return
        before, a, b = old[1], old[1].meta, state.meta
        if old[2] and before.holders == 1 and before.memory.live == 1 and a.dense:
            before.version += 1 + adds
            after = before
        else:
            before.drop()
            after = State(summed(a, b), adds, 1)
        state.drop()
        self.slots[node, nr] = (self.add(old[0], array), after, True)

    def arrive(self, leaf: Any, want: Meta) -> None:
        """A leaf takes its gradient, or a copy of it when it is held elsewhere or laid out otherwise."""
        slot = self.slots.pop((leaf, 0), None)
        if slot is None:
            return
        array, state, _ = slot
        taken = obeys(state.meta, want) and state.holders == 1
        if not taken:
            state.drop()
        self.arrived[leaf] = (array, state if taken else None)

    def through(self, node: Any, gp: Any, edges: Sequence[Any], saved: Any, vjp: Any) -> None:
        """Run one node: take its gradients out, put its inputs' gradients in."""
        given = [self.slots.pop((node, k), None) for k in range(len(gp.plan.diff))]
        if all(g is None for g in given):
            return
        edges = reached(gp, given, edges)
        wanted = tuple(dict.fromkeys(p for p, _, _ in edges))
        values = {}
        if wanted:
            arrays = vjp(gp, [None if g is None else g[0] for g in given], saved, wanted)
            told = gp.describe(tuple([None if g is None else g[1].meta for g in given]))
            _, first, fresh = next(g for g in given if g is not None)
            uses = Counter(p for p, _, _ in edges)
            for p, array in zip(wanted, arrays):
                m, kind, version = told[p]
                if kind == PASSED:
                    first.holders += uses[p]
                    values[p] = (array, first, fresh)
                elif kind == VIEWED:
                    viewed = State(m, first.version, uses[p], first.memory)
                    values[p] = (array, viewed, False)
                else:
                    values[p] = (array, State(m, version, uses[p]), kind == FRESH, gp.added(p))
        for g in given:
            if g is not None:
                g[1].drop()
        for p, target, nr in edges:
            self.put(target, nr, *values[p])


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
    if DETACHED and not attached(node):
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
        states: list[State] = []  # those that come in, each once: gradients may share one
        at: dict[int, int] = {}
        held: list[int] = []
        for _, state, _ in taken:
            k = at.setdefault(id(state), len(states))
            if k == len(states):
                states.append(state)
                held.append(0)
            held[k] += 1
        elsewhere = tuple([s.holders > n for s, n in zip(states, held)])
        memories = Counter(id(s.memory) for s in states)
        places = {m: i for i, m in enumerate(memories)}
        lying = tuple(
            [(places[id(s.memory)], s.memory.live > memories[id(s.memory)]) for s in states]
        )
        signature = tuple(
            [(i, nr, at[id(s)], fresh) for (i, nr, _), (_, s, fresh) in zip(came, taken)]
        )
        metas = tuple([s.meta for s in states])
        kinds = tuple(
            [v.__class__ if v.__class__ in (int, float, bool, complex) else None for v in flat]
        )
        key = (self.shape, where, kinds, signature, metas, elsewhere, lying)
        found = _COMPILED.get(key)
        if found is None:
            found = _COMPILED[key] = _Compiled(self, where, signature, metas, elsewhere, lying)
        found.run(self, flow, [a for a, _, _ in taken], flat, states)

    def walk(self, flow: Flow) -> None:
        """The same, node by node."""
        for node, values in zip(self.nodes, self.saved):
            if node.gp is None:
                flow.arrive(node, grad_layout(node.variable._m))
                continue
            edges = [
                (p, e[0], e[1]) for p, e in zip(node.gp.edge_grads, node.edges) if e is not None
            ]
            flow.through(node, node.gp, edges, lambda values=values: values, _compiled_vjp)


def _what(node: Node) -> Any:
    """What a node is in the structure of a window: its gradient plan, or a leaf's layout."""
    return node.gp if node.gp is not None else grad_layout(node.variable._m)


class _Compiled:
    """A window's structure as one kernel, with what it does to the states of gradients."""

    __slots__ = ("arrived", "fn", "left", "new", "old")

    def __init__(
        self, window: Window, where: tuple[int, ...], signature: tuple[Any, ...],
        metas: tuple[Meta, ...], elsewhere: tuple[bool, ...], lying: tuple[tuple[int, bool], ...],
    ) -> None:  # fmt: skip
        plans = [_what(n) for n in window.nodes]
        counts = [len(v) for v in window.saved]
        edges = window.edges()
        self.left: list[Any] = []
        self.arrived: list[Any] = []
        self.new: list[tuple[Meta, int, int, int]] = []
        self.old: list[tuple[int, int]] = []

        def window_backward(came: list[Any], flat: list[Any]) -> Any:
            flow = Flow(sums.plus)
            memories = {i: Memory(int(more)) for i, more in lying}
            coming = [
                State(m, 0, int(e), memories[i]) for m, e, (i, _) in zip(metas, elsewhere, lying)
            ]
            for (i, nr, k, fresh), array in zip(signature, came):
                coming[k].holders += 1
                flow.slots[i, nr] = (array, coming[k], fresh)
            before = [s.holders for s in coming]
            at = 0
            for i, (plan, n, out) in enumerate(zip(plans, counts, edges)):
                values = [flat[w] for w in where[at : at + n]]
                at += n
                if isinstance(plan, Meta):
                    flow.arrive(i, plan)
                else:
                    flow.through(i, plan, out, lambda values=values: values, _traced_vjp)
            self._rehearsed(flow, coming, before, list(memories.values()))
            return [a for a, _, _ in flow.slots.values()], [a for a, _ in flow.arrived.values()]

        self.fn = first_uses.early(jax.jit(window_backward), metas[0].device, self._settle)

    def _settle(self, kernel: Callable[..., Any]) -> None:
        self.fn = kernel

    def _rehearsed(
        self, flow: Flow, coming: list[State], before: list[int], memories: list[Memory]
    ) -> None:
        at = {id(s): k for k, s in enumerate(coming)}
        new: list[State] = []

        def index(state: State) -> int:
            k = at.get(id(state))
            if k is None:
                k = at[id(state)] = len(coming) + len(new)
                new.append(state)
            return k

        self.left = [
            (i, nr, index(state), fresh) for (i, nr), (_, state, fresh) in flow.slots.items()
        ]
        self.arrived = [
            (i, None if state is None else index(state)) for i, (_, state) in flow.arrived.items()
        ]
        for s in new:
            if s.memory not in memories:
                memories.append(s.memory)
        self.new = [(s.meta, s.version, s.holders, memories.index(s.memory)) for s in new]
        self.old = [(s.version, s.holders - b) for s, b in zip(coming, before)]

    def run(
        self, window: Window, flow: Flow, came: list[Any], flat: list[Any], states: list[State]
    ) -> None:
        """Run the kernel and put what it leaves into `flow`."""
        arrays, arrived = self.fn(came, flat)
        memories = dict(enumerate(dict.fromkeys([s.memory for s in states])))
        made = [
            State(m, version, holders, memories.setdefault(i, Memory()))
            for m, version, holders, i in self.new
        ]
        for s, (version, holders) in zip(states, self.old):
            s.version += version
            s.drop(-holders)
        states = states + made
        nodes, outside = window.nodes, window.outside
        for (i, nr, k, fresh), array in zip(self.left, arrays):
            flow.slots[nodes[i] if i >= 0 else outside[~i], nr] = (array, states[k], fresh)
        for (i, k), array in zip(self.arrived, arrived):
            flow.arrived[nodes[i]] = (array, None if k is None else states[k])


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
        state = State(gradient_meta(g), g._vc.version, 2)  # the caller holds it too
        flow.put(node, nr, read(g), state, False)
    for i, window in enumerate(windows):
        if repeats[window.shape] >= REPEATS:
            window.run(flow)
        else:
            window.walk(flow)
        windows[i] = None  # type: ignore[call-overload]
        if not keep:
            for node in window.nodes:
                if node.gp is not None:
                    node._release()
    with GRAD_LOCK:
        for acc, (array, state) in flow.arrived.items():
            _store(acc.variable, array, state)
    return True


def _store(leaf: Tensor, array: Any, state: State | None) -> None:
    """Put what arrived at a leaf into its `.grad`, as the general walk would."""
    if MODES.bits & LIFT:
        MODES.lifts[-1].leaf(leaf)
    if leaf._g is not None:
        put_sum(leaf, _add(read(leaf._g), array))
        return
    if state is None:
        leaf._g = gradient(array, grad_layout(leaf._m), copy_version(leaf._m))
    else:
        leaf._g = gradient(array, state.meta, state.version)


def put_sum(leaf: Tensor, array: Any) -> None:
    """Write a leaf's old gradient plus what arrived into its `.grad`."""
    if not leaf._g._m.dense:
        check_writable(leaf._g)
    warn_of_layout(leaf._g, leaf._m)
    write(leaf._g, array)
    check_counted(leaf._g)


def warn_of_layout(grad: Tensor, leaf: Meta) -> None:
    """Once per process: a gradient that is added to is not laid out like its leaf."""
    m = grad._m
    if m is leaf:
        return
    want = grad_layout(leaf)
    if MODES.grad_layout and not obeys(m, want):
        once(
            "grad and param do not obey the gradient layout contract. This is not an error, but may impair performance."
            f"\ngrad.sizes() = {list(m.shape)}, strides() = {list(m.strides)}"
            f"\nparam.sizes() = {list(want.shape)}, strides() = {list(leaf.strides)}",
        )


def copy_version(leaf: Meta) -> int:
    """Writes to a copy that a leaf takes of its gradient: torch fills a dense one, and clones for others."""
    return int(leaf.dense)


def obeys(m: Meta, want: Meta) -> bool:
    """Whether a gradient is laid out as it should be; in dimensions of size 1 only expanded ones are not."""
    if m.strides == want.strides:
        return True
    return all(a != 0 if n == 1 else a == b for n, a, b in zip(m.shape, m.strides, want.strides))


def grad_layout(m: Meta) -> Meta:
    """Meta of a leaf's gradient: the leaf's strides when it is dense."""
    return m if m.contiguous or m.dense else meta(m.shape, m.dtype, m.device)
