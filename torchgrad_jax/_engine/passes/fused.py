"""A backward pass nobody can look into, lowered to one compiled function.

A graph without hooks, custom Functions, packed values or observers is a pure function of its saved
arrays and root gradients. Its structure is the key of a cache; a structure met for the third time
is compiled whole. Results equal the node-by-node walk: same order of nodes and of additions.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Sequence
from typing import Any

import jax

from ..._core import errors, sums
from ..._core.caches import KERNELS
from ..._core.meta import Meta, meta
from ..._core.state import LIFT, MODES, TRACED
from .. import wide
from ..escapes import before_gradients
from ..node import GRAD_LOCK, AccumulateGrad, Node
from ..saved import ALTERED, unaltered
from ..strided import read
from ..tape import aval_of
from ..tensor import UNSET, Storage, Tensor, make
from . import compile_failures, windows
from .leaf import grad_layout, put_sum
from .order import leading_to

MAX_NODES = 1500
MIN_SEEN = 2
_SEEN: dict[int, int] = {}
_COMPILED = KERNELS.cache()
_MAX_SEEN = 4096


class _Structure:
    """What a walk over a fusable graph found."""

    __slots__ = ("args", "key", "leaves", "nodes", "where")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaves: list[Any] = []  # AccumulateGrad nodes
        self.key: list[Any] = []
        self.args: list[Any] = []
        self.where: dict[Node, list[int]] = {}
        """The places of what a node saved among the arguments. Inside of a lift each read gives a new object, so
        that a second walk would not find the same ones."""


TOO_LONG = _Structure()
"""Says that a graph has more nodes than are worth compiling as one."""


def run(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], keep: bool,
    targets: Sequence[tuple[Node, int]] | None, accumulate: bool,
) -> list[Tensor | None] | None:  # fmt: skip
    """Run the pass compiled, or return None when it must be (or had better be) walked."""
    if not roots or (targets is not None and accumulate):
        return None
    found = _structure(roots, grads, targets)
    if found is None:
        return None
    if found is TOO_LONG:
        return [] if targets is None and windows.run(roots, grads, keep) else None
    key = tuple(found.key)
    fn = _COMPILED.young.get(key) or _COMPILED.older(key)
    if fn is FAILS:
        return None
    if fn is None:
        if not _worth_compiling(key, found.nodes):
            return None
        try:
            fn = _COMPILED.put(key, _compile(found, roots, grads, targets), 0)
            KERNELS.compiled()
        except Exception as error:
            return _failed(key, error, found.args)
    if targets is not None:
        tape = MODES.lifts[-1].tape if MODES.bits & LIFT else None
        metas = [_plain(node.out_meta(nr)) for node, nr in targets]
        try:
            out = None if tape is None else _written_down(tape, fn, found.args, metas)
            if out is None:
                out = fn(found.args, [])
        except Exception as error:
            return _failed(key, error, found.args)
        if not keep:
            _release(found.nodes)
        return [None if g is None else make(g, m) for g, m in zip(out, metas)]
    with GRAD_LOCK:  # the old gradients must still be there when the sums are stored
        leaves = [acc.variable for acc in found.leaves]
        if MODES.bits & LIFT:
            for leaf in leaves:
                MODES.lifts[-1].leaf(leaf)
        olds = [None if t._g is None else read(t._g) for t in leaves]
        try:
            out = fn(found.args, olds)
        except Exception as error:
            return _failed(key, error, found.args)
        if MODES.bits & TRACED:
            before_gradients(leaves, out)
        if not keep:
            _release(found.nodes)
        for leaf, g, old in zip(leaves, out, olds):
            if g is not None and old is None:
                leaf._g = make(g, grad_layout(leaf._m))
            elif g is not None:
                put_sum(leaf, g)
    return []


def _plain(m: Meta) -> Meta:
    """The meta of a gradient of what this is the meta of."""
    return meta(m.shape, m.dtype, m.device)


FAILS = object()
"""In the place of the compiled form of a structure: it cannot be compiled."""


def _failed(key: Any, error: Exception, args: Sequence[Any]) -> None:
    """Leave a pass to the walk, now and the next time: the compiled one has written and released nothing."""
    if compile_failures.note(error, "a backward pass", args):
        _COMPILED.replace(key, FAILS)


def _release(nodes: Sequence[Node]) -> None:
    """Free what the nodes saved; an error, before anything is stored, if a pass of another thread has."""
    with GRAD_LOCK:
        for node in nodes:
            if node.saved is None and node.gp.saves_tensors:
                raise RuntimeError(errors.SECOND_BACKWARD)
        for node in nodes:
            if node.gp.saves_tensors:
                node.saved = None


def run_batched(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], keep: bool,
    targets: Sequence[tuple[Node, int]],
) -> list[Any] | None:  # fmt: skip
    """A pass for each row of the gradients, as one compiled function; arrays, or None as in `run`."""
    if any(g._m.device.type == "meta" for g in grads):
        return None
    rows = [
        make(jax.ShapeDtypeStruct(g._m.shape[1:], g._m.dtype.np), meta(g._m.shape[1:], g._m.dtype, g._m.device))
        for g in grads
    ]  # fmt: skip
    found = _structure(roots, rows, targets)
    if found is None or found is TOO_LONG:
        return None
    key = ("rows", *found.key)
    fn = _COMPILED.get(key)
    if fn is FAILS:
        return None
    args = [*[read(g) for g in grads], *found.args[len(rows) :]]
    try:
        if fn is None:
            one = _compile(found, roots, rows, targets)
            axes = [0] * len(rows) + [None] * (len(found.args) - len(rows))
            fn = _COMPILED.put(key, jax.jit(jax.vmap(one, in_axes=(axes, None))), 0)
            KERNELS.compiled()
        out = fn(args, [])
    except Exception as error:
        return _failed(key, error, args)
    if not keep:
        for node in found.nodes:
            if node.gp.saves_tensors:
                node.saved = None
    return out


_STEPS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _written_down(tape: Any, fn: Any, args: list[Any], metas: Sequence[Meta]) -> Any:
    """A compiled pass as one step of a tape, where its arguments are all that tape's."""
    step = _STEPS.get(fn)
    if step is None:
        shapes = jax.eval_shape(fn, args, [])
        at = [i for i, g in enumerate(shapes) if g is not None]

        def taken(*args: Any) -> list[Any]:
            out = fn(list(args), [])
            return [out[i] for i in at]

        step = _STEPS[fn] = (taken, at, tuple([aval_of(metas[i]) for i in at]))
    taken, at, avals = step
    found = tape.kernel(taken, args, avals)
    if found is None:
        return None
    out: list[Any] = [None] * len(metas)
    for i, array in zip(at, found):
        out[i] = array
    return out


NODE_COST, GRAPH_COST = 12, 12
"""Compile times of one node's kernel, and of a whole graph beyond 1 per node, in units of a node."""


def _worth_compiling(key: Any, nodes: Sequence[Node]) -> bool:
    """A structure met before is; so is one whose nodes would mostly have to be compiled anyway.

    The second only once per gradient plan: a program whose graphs keep changing shape settles on
    kernels per node instead of compiling every graph.
    """
    h = hash(key)
    seen = _SEEN.get(h, 0)
    if seen >= MIN_SEEN:
        return True
    if len(_SEEN) >= _MAX_SEEN:
        _SEEN.pop(next(iter(_SEEN)))
    _SEEN[h] = seen + 1
    plans = {n.gp for n in nodes}
    fresh = [gp for gp in plans if not gp.vjps and not gp.fused]
    if not _pays(len(fresh), nodes) or not _pays(sum(not gp.in_numpy() for gp in fresh), nodes):
        return False
    for gp in plans:
        gp.fused += 1
    return True


def _pays(kernels: int, nodes: Sequence[Node]) -> bool:
    """Whether compiling a graph costs less than so many kernels of its nodes."""
    return kernels >= 3 and NODE_COST * kernels >= GRAPH_COST + len(nodes)


def _structure(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], targets: Any
) -> _Structure | None:
    """Nodes in order of execution, the key, and the arrays; None when the graph is not fusable."""
    deps: dict[Node, int] = {}
    stack: list[Node] = []
    for node, _ in roots:
        if node not in deps:
            deps[node] = 0
            stack.append(node)
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
        if node.gp is None or node.gp.alone or node.saved is None or len(node.edges) > wide.FUSED:
            return None
        for edge in node.edges:
            if edge is not None:
                m = edge[0]
                if m in deps:
                    deps[m] += 1
                else:
                    deps[m] = 1
                    stack.append(m)
        if len(deps) > MAX_NODES:
            return TOO_LONG
    if any(deps[n] for n, _ in roots):
        return None
    needed, wanted = None, ()
    if targets is not None:
        needed, wanted = leading_to(deps, targets), {n for n, _ in targets}
    found = _Structure()
    lifting = MODES.bits & LIFT
    ids: dict[Node, int] = {}
    positions: dict[int, int] = {}
    args, key = found.args, found.key
    for (node, nr), g in zip(roots, grads):
        if node not in ids:
            ids[node] = len(ids)
        key.append((ids[node], nr, _plain(g._m)))
        args.append(read(g))
    ready = [
        (-n.seq if n.__class__ is not AccumulateGrad else -(1 << 62), i, n) for n, i in ids.items()
    ]
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[2]
        if node.__class__ is AccumulateGrad:
            found.leaves.append(node)
            leaf = node.variable
            key.append((ids[node], leaf._g is None))
            continue
        if (
            needed is not None and (node not in needed or node in wanted)
            and not any(e is not None and e[0] in needed for e in node.edges)
        ):  # fmt: skip
            found.leaves.append(node)  # its gradient is wanted, but the node itself does not run
            key.append((ids[node], None))
            continue
        if ALTERED and not unaltered(node):
            return None
        found.nodes.append(node)
        key.append(node.gp)
        key.append(ids[node])
        where = found.where[node] = []
        saved = node.saved
        if saved is None:  # a pass of another thread was faster
            return None
        for entry, then in zip(saved, node.vers):
            kind = entry.__class__
            if kind is Storage:
                if entry.version != then:
                    return None
                array = entry.array
            elif kind is Tensor or isinstance(entry, Tensor):
                if entry._vc.version != then:
                    return None
                array = entry._st.array if entry._al is None and not lifting else read(entry)
            elif kind is int or kind is float or kind is bool or kind is complex:
                where.append(len(args))
                key.append(len(args))
                key.append(kind)
                args.append(entry)
                continue
            else:
                return None
            at = positions.get(id(array))
            if at is None:
                at = positions[id(array)] = len(args)
                args.append(array)
            where.append(at)
            key.append(at)
        for edge in node.edges:
            if edge is None:
                key.append(None)
                continue
            m, nr = edge
            if needed is not None and m not in needed:
                key.append(None)
                continue
            i = ids.get(m)
            if i is None:
                i = ids[m] = len(ids)
            key.append(i)
            key.append(nr)
            deps[m] -= 1
            if deps[m] == 0:
                heapq.heappush(
                    ready, (-m.seq if m.__class__ is not AccumulateGrad else -(1 << 62), i, m)
                )
    if targets is not None:
        for node, nr in targets:
            key.append((ids.get(node), nr))
        for node in [n for n in found.nodes if needed is not None and n not in needed]:
            found.nodes.remove(node)
    return found


def _compile(
    found: _Structure, roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], targets: Any
) -> Any:
    """One jitted function ``(args, old leaf grads) -> new leaf grads or captured gradients``."""
    nodes = found.nodes
    ids: dict[Node, int] = {}
    order: list[tuple[Any, list[int], list[tuple[int, int, int]], int]] = []
    for node, _ in roots:
        ids.setdefault(node, len(ids))
    needed_ids = None if targets is None else set()
    for node in nodes:
        ids.setdefault(node, len(ids))
    for acc in found.leaves:
        ids.setdefault(acc, len(ids))
    if needed_ids is not None:
        needed_ids.update(ids.values())
    for node in nodes:
        where = found.where[node]
        edges = [
            (p, ids[e[0]], e[1])
            for p, e in zip(node.gp.edge_grads, node.edges)
            if e is not None and e[0] in ids
        ]
        order.append((node.gp, where, edges, ids[node]))
    root_at = [(ids[n], nr) for n, nr in roots]
    sizes = {i: n.n_outputs for n, i in ids.items()}
    sinks = [ids[a] for a in found.leaves]
    wanted_at = None if targets is None else [(ids.get(n), nr) for n, nr in targets]

    def backward_pass(args: list[Any], olds: list[Any]) -> list[Any]:
        buffers: dict[int, list[Any]] = {}

        def put(i: int, nr: int, g: Any) -> None:
            buffer = buffers.setdefault(i, [None] * sizes[i])
            buffer[nr] = g if buffer[nr] is None else sums.plus(buffer[nr], g)

        for (i, nr), g in zip(root_at, args):
            put(i, nr, g)
        for gp, where, edges, i in order:
            cts_all = buffers.get(i)
            if cts_all is None:
                continue
            cts = cts_all
            if all(c is None for c in cts) or not edges:
                continue
            edges = windows.reached(gp, cts, edges)
            wanted = tuple(dict.fromkeys(p for p, _, _ in edges))
            values = dict(zip(wanted, gp.fn(cts, [args[w] for w in where], wanted)))
            for p, m, nr in edges:
                put(m, nr, values[p])
        if wanted_at is not None:
            return [
                None if i is None or i not in buffers else buffers[i][nr] for i, nr in wanted_at
            ]
        out = []
        for i, old in zip(sinks, olds):
            g = buffers[i][0] if i in buffers else None
            out.append(g if old is None else old if g is None else sums.plus(old, g))
        return out

    return jax.jit(backward_pass)
