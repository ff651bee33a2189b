"""The walk over the graph: order, accumulation, hooks, retained and recorded backward passes."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._core import errors
from .._core.meta import Meta, meta
from .._core.state import GRAD, MODES
from . import fused
from .node import AccumulateGrad, Node
from .record import apply, no_grad
from .saved import unpack_arrays, unpack_tensors
from .strided import read, write
from .tensor import Tensor, make
from .trace import Call

_task_ids = itertools.count()
_add_jit = jax.jit(jnp.add)
_add_call = Call("add", lambda leaves: leaves[0] + leaves[1], node_name="AddBackward0", argnames=("self", "other"))
_LAST = 1 << 62


class Task:
    """One run of the engine."""

    __slots__ = ("__weakref__", "callbacks", "create", "current", "id", "keep", "needed")

    def __init__(self, keep: bool, create: bool) -> None:
        self.id = next(_task_ids)
        self.keep, self.create = keep, create
        self.needed: set[Node] | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.current: Node | None = None


_accumulate_lock = threading.Lock()


def run(
    roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor], *, keep: bool, create: bool,
    targets: Sequence[tuple[Node, int]] | None = None, accumulate: bool = True,
) -> list[Tensor | None]:  # fmt: skip
    """Backpropagate `grads` from `roots`.

    With `targets` only what leads to them runs; without `accumulate` their gradients are returned
    instead of being added to leaves.
    """
    task = Task(keep, create)
    before_bits, before_task = MODES.bits, MODES.graph_task
    MODES.graph_task = task
    MODES.bits = before_bits | GRAD if create else before_bits & ~GRAD
    try:
        captured = None
        if not create and MODES.anomaly is None:
            captured = fused.run(roots, grads, keep, targets, accumulate)
        if captured is None:
            captured = _walk(task, roots, grads, targets, accumulate)
        for callback in task.callbacks:
            callback()
        return captured
    finally:
        MODES.bits, MODES.graph_task = before_bits, before_task


def dependencies(roots: Sequence[Node]) -> dict[Node, int]:
    """For every reachable node, how many edges lead to it."""
    deps: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(deps)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None:
                m = edge[0]
                if m in deps:
                    deps[m] += 1
                else:
                    deps[m] = 1
                    stack.append(m)
    return deps


def leading_to(deps: dict[Node, int], targets: Sequence[tuple[Node, int]]) -> set[Node]:
    """The reachable nodes from which a target can be reached, targets included."""
    needed = {n for n, _ in targets if n in deps}
    for node in sorted(deps, key=lambda n: -1 if n.__class__ is AccumulateGrad else n.seq):
        if node not in needed and any(e is not None and e[0] in needed for e in node.edges):
            needed.add(node)
    return needed


def _value(t: Tensor, create: bool) -> Any:
    return t if create else read(t)


def _sum(a: Any, b: Any, create: bool) -> Any:
    if create:
        return apply(_add_call, (a, b))
    return _add_jit(a, b)


def _as_tensor(v: Any, m: Meta) -> Any:
    if v is None or isinstance(v, Tensor):
        return v
    return make(v, m if m.contiguous else meta(m.shape, m.dtype, m.device))


def _walk(
    task: Task, roots: Sequence[tuple[Node, int]], grads: Sequence[Tensor],
    targets: Sequence[tuple[Node, int]] | None, accumulate: bool,
) -> list[Tensor | None]:  # fmt: skip
    create = task.create
    deps = dependencies([n for n, _ in roots])
    captures: dict[Node, list[int]] = {}
    run_set = None
    if targets is not None:
        run_set = leading_to(deps, targets)
        for i, (node, _) in enumerate(targets):
            captures.setdefault(node, []).append(i)
        task.needed = run_set
        executed = _executed(deps, run_set, captures, accumulate)
    captured: list[Any] = [None] * (len(targets) if targets is not None else 0)
    buffers: dict[Node, list[Any]] = {}
    for (node, nr), g in zip(roots, grads):
        _put(buffers, node, nr, _value(g, create), create)
    ready: list[tuple[int, int, Node]] = []
    count = itertools.count()
    for node in dict.fromkeys(n for n, _ in roots):
        if deps[node] == 0:
            heapq.heappush(ready, (_priority(node), next(count), node))
    while ready:
        node = heapq.heappop(ready)[2]
        cts = buffers.pop(node, None) or [None] * node.n_outputs
        task.current = node
        if node.__class__ is AccumulateGrad or node.extras is not None:
            cts = _tensor_hooks(node, cts, create)
        if node in captures:
            for i in captures[node]:
                nr = targets[i][1]
                captured[i] = _as_tensor(cts[nr], node.out_meta(nr))
        if run_set is not None and node not in executed:
            continue
        if node.__class__ is AccumulateGrad:
            _accumulate(node, cts[0], create)
            continue
        out = _evaluate(task, node, cts, create, run_set)
        for edge, g in zip(node.edges, out):
            if edge is None:
                continue
            m, nr = edge
            if run_set is not None and m not in run_set:
                continue
            if g is not None:
                _put(buffers, m, nr, g, create)
            deps[m] -= 1
            if deps[m] == 0:
                heapq.heappush(ready, (_priority(m), next(count), m))
    return captured


def _executed(deps: Any, run_set: set[Node], captures: Any, accumulate: bool) -> set[Node]:
    """Nodes whose function runs: those with a needed successor; leaves when accumulating."""
    out = set()
    for node in run_set:
        if any(e is not None and e[0] in run_set for e in node.edges) or (
            accumulate and node.__class__ is AccumulateGrad
        ):
            out.add(node)
    return out


def _priority(node: Node) -> int:
    return -_LAST if node.__class__ is AccumulateGrad else -node.seq


def _put(buffers: dict[Node, list[Any]], node: Node, nr: int, g: Any, create: bool) -> None:
    buffer = buffers.get(node)
    if buffer is None:
        buffer = buffers[node] = [None] * node.n_outputs
    old = buffer[nr]
    buffer[nr] = g if old is None else _sum(old, g, create)


def _same_or_error(result: Any, before: Any, what: str) -> Any:
    """A hook's replacement for a gradient, checked."""
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if isinstance(before, Tensor):
        if result._m.dtype is not before._m.dtype:
            raise RuntimeError(f"hook '{what}' has changed the type of value (was {_type(before)} got {_type(result)})")
        if result._m.device is not before._m.device:
            raise RuntimeError(f"hook '{what}' has changed the type of value")
        if result._m.shape != before._m.shape:
            raise RuntimeError(f"hook '{what}' has changed the size of value")
    return result


def _type(t: Tensor) -> str:
    return "torch." + t._m.dtype.type_name


def _hook_name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


def _tensor_hooks(node: Node, cts: list[Any], create: bool) -> list[Any]:
    """Tensor hooks and retain_grad, which see each output's gradient before anything else."""
    if node.__class__ is AccumulateGrad:
        x = node.variable._x
        if x is None or not x.hooks:
            hooks = [(0, h) for h in _extra_tensor_pre(node)]
        else:
            hooks = [(0, x.hooks), *[(0, h) for h in _extra_tensor_pre(node)]]
        retains: dict[int, Any] = {}
    else:
        ex = node.extras
        hooks, retains = ex.tensor_pre, ex.retains
    if not hooks and not retains:
        return cts
    cts = list(cts)
    for nr, group in list(hooks):
        for hook in list(group.values()):
            g = _as_tensor(cts[nr], node.out_meta(nr))
            if g is None:
                continue
            res = hook(g)
            if res is not None:
                g = _same_or_error(res, g, _hook_name(hook))
            cts[nr] = g
    for nr, ref in retains.items():
        t = ref()
        g = _as_tensor(cts[nr], node.out_meta(nr))
        if t is None or g is None:
            continue
        if t._g is None:
            t._g = g if create else make(read(g), g._m)
        else:
            t._g = _sum(t._g, g, True)
    if not create:
        cts = [read(c) if isinstance(c, Tensor) else c for c in cts]
    return cts


def _extra_tensor_pre(node: Node) -> list[Any]:
    return [h for _, h in node.extras.tensor_pre] if node.extras is not None else []


def _evaluate(task: Task, node: Node, cts: list[Any], create: bool, run_set: Any) -> Sequence[Any]:
    """Pre hooks, the node's function, post hooks; gradients aligned with `node.edges`."""
    ex = node.extras
    if ex is not None and ex.pre:
        cts = _pre_hooks(node, cts, create)
    if MODES.anomaly is not None:
        out = MODES.anomaly.evaluate(node, lambda: _function(task, node, cts, create, run_set))
    else:
        out = _function(task, node, cts, create, run_set)
    if ex is not None and ex.post:
        out = _post_hooks(node, out, cts, create)
    if not task.keep:
        node._release()
    return out


def _function(task: Task, node: Node, cts: list[Any], create: bool, run_set: Any) -> list[Any]:
    if node.gp is None:
        tensors = [_as_tensor(c, node.out_meta(k)) for k, c in enumerate(cts)]
        out = node.backward_tensors(tensors)
        return list(out) if create else [None if g is None else read(g) for g in out]
    gp = node.gp
    diff = gp.plan.diff
    if len(diff) == 1:
        present = (cts[diff[0]] is not None,)
    else:
        present = tuple([cts[k] is not None for k in diff])
    if not any(present):
        if node.saved is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        return [None] * len(node.edges)
    positions = gp.edge_grads
    wanted = [
        p for p, e in zip(positions, node.edges)
        if e is not None and p >= 0 and (run_set is None or e[0] in run_set)
    ]  # fmt: skip
    if create:
        by_pos = _recorded(node, cts, present, wanted)
    else:
        args = [cts[k] for k in diff if cts[k] is not None]
        args += unpack_arrays(node)
        pick = None if len(wanted) == len(gp.inputs) else tuple(wanted)
        values = gp.vjp(present, pick)(*args)
        by_pos = dict(zip(wanted if pick is not None else range(len(values)), values))
    return [by_pos.get(p) if e is not None else None for p, e in zip(positions, node.edges)]


def _recorded(node: Node, cts: list[Any], present: tuple[bool, ...], wanted: Sequence[int]) -> dict[int, Any]:
    """Each wanted gradient as an op of its own, recorded on the graph."""
    gp = node.gp
    saved = unpack_tensors(node)
    where_in = {leaf: i for i, leaf in enumerate(gp.saved_in)}
    where_out = {k: len(gp.saved_in) + i for i, k in enumerate(gp.saved_out)}
    by_pos = {}
    for p in wanted:
        call, ins, outs, used = gp.call(p, present)
        leaves = [cts[k] for k, u in zip(gp.plan.diff, used) if u]
        leaves += [saved[where_in[i]] for i in ins]
        leaves += [saved[where_out[k]] for k in outs]
        if not any(isinstance(v, Tensor) for v in leaves):
            k = next(k for k, pr in zip(gp.plan.diff, present) if pr)
            by_pos[p] = make(gp.vjp(present, (p,))(*[read(cts[k]) for k in gp.plan.diff if cts[k] is not None], *unpack_arrays(node))[0], _grad_meta(node, p))
            continue
        by_pos[p] = apply(call, leaves)
    return by_pos


def _grad_meta(node: Node, p: int) -> Meta:
    gp = node.gp
    return gp.plan.keys[gp.inputs[p]]


def _pre_hooks(node: Node, cts: list[Any], create: bool) -> list[Any]:
    tensors = tuple(_as_tensor(c, node.out_meta(k)) for k, c in enumerate(cts))
    for hook in list(node.extras.pre.values()):
        res = hook(tensors)
        if res is not None:
            res = res if isinstance(res, tuple) else (res,)
            if len(res) != len(tensors):
                raise RuntimeError(f"hook '{_hook_name(hook)}' has returned an incorrect number of values (got {len(res)}, but expected {len(tensors)})")
            tensors = tuple(b if r is None and b is None else _same_or_error(r, b, _hook_name(hook)) for r, b in zip(res, tensors))
    return list(tensors) if create else [None if t is None else read(t) for t in tensors]


def _post_hooks(node: Node, out: Sequence[Any], cts: list[Any], create: bool) -> list[Any]:
    metas = [None if e is None else e[0].out_meta(e[1]) for e in node.edges]
    outputs = tuple(None if g is None else _as_tensor(g, m if m is not None else _grad_meta(node, 0)) for g, m in zip(out, metas))
    inputs = tuple(_as_tensor(c, node.out_meta(k)) for k, c in enumerate(cts))
    for hook in list(node.extras.post.values()):
        res = hook(outputs, inputs)
        if res is not None:
            res = res if isinstance(res, tuple) else (res,)
            if len(res) != len(outputs):
                raise RuntimeError(f"hook '{_hook_name(hook)}' has returned an incorrect number of values (got {len(res)}, but expected {len(outputs)})")
            outputs = tuple(b if r is None else _same_or_error(r, b, _hook_name(hook)) for r, b in zip(res, outputs))
    return list(outputs) if create else [None if t is None else read(t) for t in outputs]


def grad_layout(m: Meta) -> Meta:
    """Meta of a leaf's gradient: the leaf's strides when it is dense."""
    return m if m.contiguous or m.dense else meta(m.shape, m.dtype, m.device)


def _accumulate(node: AccumulateGrad, g: Any, create: bool) -> None:
    """Add a gradient to the leaf: in place unless the pass is recorded."""
    leaf = node.variable
    ex = node.extras
    if ex is not None and ex.pre:
        (g,) = _pre_hooks(node, [g], create)
    if g is not None:
        with _accumulate_lock:
            store_grad(leaf, g, create)
    if ex is not None and ex.post:
        for hook in list(ex.post.values()):
            hook((), (_as_tensor(g, leaf._m),))
    x = leaf._x
    if x is not None and x.post_acc:
        for hook in list(x.post_acc.values()):
            if hook(leaf) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def store_grad(leaf: Tensor, g: Any, create: bool) -> None:
    """`leaf.grad` becomes or gains `g`, an array or (in a recorded pass) a tensor."""
    old = leaf._g
    if create:
        if old is None:
            leaf._g = g
        else:
            leaf._g = _sum(old, g, True)
    elif old is None:
        leaf._g = make(g, grad_layout(leaf._m))
    else:
        with no_grad():
            write(old, _add_jit(read(old), g))


def zeros_for(m: Meta) -> Tensor:
    """Zeros shaped like an output."""
    return make(jnp.zeros(m.shape, m.dtype.np), m if m.contiguous else meta(m.shape, m.dtype, m.device))
