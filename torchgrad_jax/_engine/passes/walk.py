"""The walk over the graph, node by node: the meaning of a backward pass."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..._core import events
from ..._core.arrays import devices
from ..._core.arrays.meta import meta
from ..._core.jax import abstract
from ..._core.state import DUAL, GRAD, MODES, OBSERVED, UNDER_JAX, WINDOWS
from ..graph.fitting import fitted
from ..graph.node import AccumulateGrad, Node
from ..graph.record import apply
from ..graph.saved import ALTERED, check_attached, unpack_arrays, unpack_for_nothing
from ..memory.escapes import before_gradients
from ..memory.strided import operand, read
from ..memory.tensor import Tensor, make
from ..run import windows
from .hooks import hook_name, post_hooks, pre_hooks, swapped
from .leaf import accumulate, add, clone_call, spread
from .second import own, recorded_gradients
from .segments import run_graph, segment_at
from .task import Task

_DEEP = 40
"""Passes started from within passes before one gets a thread, and with it a Python stack, of its own."""


def run(
    roots: Sequence[tuple[Node, int]],
    grads: Sequence[Tensor],
    keep: bool,
    create: bool,
    targets: Sequence[tuple[Node, int]] | None = None,
    accumulate: bool = True,
) -> list[Tensor | None]:
    """Backpropagate `grads` from `roots`.

    With `targets` only what leads to them runs; without `accumulate` their gradients are returned
    instead of being added to leaves.
    """
    grads = [*grads]
    for i, (node, nr) in enumerate(roots):
        # An output can have got another shape since its node was made, by a write that was not recorded.
        if node.__class__ is not AccumulateGrad:
            m = node.out_meta(nr)
            if m.shape != grads[i]._m.shape:
                grads[i] = fitted("", i, grads[i], m)
    outer = MODES.graph_task
    if not keep and outer is None and roots:
        return _in_turn(roots, grads, keep, create, targets, accumulate)
    if outer is not None and outer.depth % _DEEP == _DEEP - 2:
        return _in_thread(lambda: _run(roots, grads, keep, create, targets, accumulate))
    return _run(roots, grads, keep, create, targets, accumulate)


def _in_turn(roots: Sequence[tuple[Node, int]], *args: Any) -> Any:
    """A pass that frees its graph, after those of other threads that began at the same root."""
    root, mine = roots[0][0], threading.Lock()
    with mine:
        while (other := _TURNS.setdefault(root, mine)) is not mine:
            with other:
                pass
        try:
            return _run(roots, *args)
        finally:
            _TURNS.pop(root, None)


_TURNS: dict[Node, Any] = {}
"""Roots of passes that free their graph, each with a lock that its pass holds."""


def _in_thread(fn: Callable[[], Any]) -> Any:
    """Call `fn` in a thread with this thread's modes, and wait for what it gives."""
    modes, context = dict(MODES.__dict__), contextvars.copy_context()
    out: list[Any] = []

    def body() -> None:
        MODES.__dict__.update(modes)
        try:
            out.append((context.run(fn), None))
        except BaseException as error:  # the thread that waits raises it again
            out.append((None, error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    result, error = out[0]
    if error is not None:
        raise error
    return result


def _run(
    roots: Sequence[tuple[Node, int]],
    grads: Sequence[Tensor],
    keep: bool,
    create: bool,
    targets: Sequence[tuple[Node, int]] | None,
    accumulate: bool,
) -> list[Tensor | None]:
    """The pass itself: all of the graph at once if nobody watches, or what it comes to in parts and node by node."""
    bits, outer, whole = MODES.bits, MODES.graph_task, None
    compiles = not (create or bits & (DUAL | OBSERVED | WINDOWS) or MODES.run.node_by_node) and MODES.grad_layout
    if compiles and bits <= GRAD and len(roots) == 1 and not (targets and accumulate) and MODES.run.at_once:
        (root, nr), g = roots[0], grads[0]
        if g._m.device.type != "meta":
            captured: list[Any] = [None] * len(targets or ())
            whole = run_graph(root, nr, g, keep, targets or (), captured)
            if whole:
                return captured
    task = Task(keep, create, accumulate)
    try:
        MODES.own |= {"graph_task": task, "bits": bits | GRAD if create else bits & ~GRAD}
        for g in grads:
            if devices.unreal(g._m.device):
                with abstract.tracing():
                    task.begin(roots, grads, targets)
                    _run_nodes(task, False)
                break
        else:
            task.begin(roots, grads, targets)
            _run_nodes(task, compiles and whole is None)
        task.current, task.calling = None, False
        for callback in task.callbacks:  # a callback may queue another
            callback()
    finally:
        MODES.own |= {"graph_task": outer, "bits": bits}
    if outer is None and bits & WINDOWS:
        windows.cut("a backward pass ends")
    return task.captured


def _run_nodes(task: Task, compiles: bool) -> None:
    """Run the nodes in order: compiled segments where there are any, the others one by one."""
    order, at = task.order, 0
    while at < len(order):
        if compiles and (extras := order[at].extras) is not None and extras.only_tensor_hooks:
            _run_hooks_first(task, order[at])
        segment = segment_at(task, at) if compiles else None
        if segment is not None and segment.run(task.keep, task, task.captured):
            at = segment.end
            continue
        end = len(order) if not compiles else at + 1 if segment is None else segment.end
        segment = None  # the segment would keep alive what the nodes saved
        for node in order[at:end]:
            _visit(task, node)
        at = end


def _run_hooks_first(task: Task, node: Node) -> None:
    """Call the tensor hooks of a node, which may begin a segment after that."""
    if node not in task.captures and task.runs(node) and not node.of_several:
        slots = task.gradients.setdefault(node, [None] * node.n_outputs)
        task.current, task.calling = node, True
        _tensor_hooks(node, slots, task.create)
        task.hooked = node


def _visit(task: Task, node: Node) -> None:
    """Walk one node: what it has received comes in, and its gradients go where its edges lead."""
    slots: Any = task.gradients.pop(node, None) or [None] * node.n_outputs
    task.current, task.calling = node, False
    if MODES.bits & OBSERVED:
        out = _watched(node, lambda: _outcome(task, node, slots))
    else:
        out = _outcome(task, node, slots)
    needed, edges = task.needed, node.edges
    for j, g in enumerate(out):
        if g is not None and (edge := edges[j]) is not None and (needed is None or edge[0] in needed):
            task.send(node, j, g)


def _outcome(task: Task, node: Node, slots: list[Any]) -> Sequence[Any]:
    """Hooks, captures and the node's function: gradients by edge, none where the pass ends."""
    leaf = node.__class__ is AccumulateGrad
    runs = task.running is None or node in task.running
    hooked = (leaf or node.extras is not None) and node is not task.hooked
    captures = task.captures.get(node, ()) if task.captures else ()
    if node.of_several:
        node.check_observers(slots, [nr for _, nr in captures])
    if hooked and not runs:
        _tensor_hooks(node, slots, task.create)
    # torch captures it before the tensor hooks of a node that runs.
    for i, nr in captures:
        task.captured[i] = slots[nr]
    if not runs:
        return ()
    task.calling = True
    if hooked:
        _tensor_hooks(node, slots, task.create)
    if not leaf:
        return _evaluate(task, node, slots)
    if MODES.bits & OBSERVED and MODES.observers:
        events.function(node, slots, lambda: accumulate(node, slots[0], task.create))  # type: ignore[arg-type]
    else:
        accumulate(node, slots[0], task.create)  # type: ignore[arg-type]
    return ()


def _watched(node: Node, visit: Callable[[], Any]) -> Any:
    """Visit a node with anomaly mode and the observers around it."""
    watcher = MODES.anomaly

    def run() -> Any:
        return visit() if watcher is None else watcher.evaluate(node, visit)

    return events.node(node, run) if MODES.observers else run()


def _tensor_hooks(node: Node, slots: list[Any], create: bool) -> None:
    """Tensor hooks and retain_grad, which see each output's gradient before anything else."""
    extras = node.extras
    groups = () if extras is None else (*extras.tensor_pre,)
    if node.__class__ is AccumulateGrad and (x := node.variable._x) is not None and x.hooks:
        groups = ((0, x.hooks), *groups)
    for nr, group in groups:
        for hook in (*group.values(),):
            g = slots[nr]
            if g is None and node.of_several:
                continue
            res = hook(g)
            if res is not None:
                slots[nr] = swapped(res, g, hook_name(hook))
    if extras is not None and extras.retains:
        _retain(extras.retains, slots, create)


def _retain(retains: dict[int, Any], slots: list[Any], create: bool) -> None:
    """Keep gradients in the `.grad` of tensors that are no leaves."""
    for nr, ref in list(retains.items()):
        t, g = ref(), slots[nr]
        if t is None or g is None:
            continue
        if MODES.bits & UNDER_JAX:
            before_gradients((t,), (g._st.array,))
        if t._g is None:
            recorded = create or MODES.bits & DUAL
            t._g = apply(clone_call, (g,)) if recorded else _copied(g)
        else:
            t._g = add(t._g, g, create)


def _copied(t: Tensor) -> Tensor:
    """A contiguous copy, whatever the layout."""
    m = t._m
    return make(read(t), meta(m.shape, m.dtype, m.device))


def _evaluate(task: Task, node: Node, slots: list[Any]) -> Sequence[Any]:
    """Pre hooks, the node's function, post hooks; gradients aligned with `node.edges`."""
    ex, saved = node.extras, node.saved
    cts = pre_hooks(node, slots) if ex is not None and ex.pre else slots
    out: Any
    if MODES.bits & OBSERVED and MODES.observers:
        out = events.function(node, cts, lambda: _function(task, node, cts))
    else:
        out = _function(task, node, cts)
    if ex is not None and ex.post:
        out = post_hooks(node, out, cts)
    if not task.keep:
        node._release_once(saved)
    return out


def _function(task: Task, node: Node, cts: list[Any]) -> Sequence[Any]:
    """Run a node: one gradient (or None) per edge, each a tensor of its own."""
    if node.gp is None:
        return _each_its_own(node.backward_tensors(cts))
    if ALTERED:
        check_attached(node)
    gp, edges = node.gp, node.edges
    present = (cts[0] is not None,) if len(cts) == 1 else tuple([c is not None for c in cts])
    if True not in present:
        if gp.unpacks:
            unpack_for_nothing(node, task.unpacked)
        if gp.raises and gp.name == "NotImplemented":  # torch raises even if no gradient came
            gp.refuse()
        return [None] * len(node.edges)
    positions = gp.edge_grads
    # Torch's identity does not ask which gradients are needed.
    needed = None if gp.name == "Identity" else task.needed
    wanted = []
    for p, e in zip(positions, edges):
        if e is not None and p >= 0 and (needed is None or e[0] in needed):
            wanted.append(p)
    if False in present:
        reached = gp.reached(cts)
        wanted = [p for p in wanted if p in reached]
    if wanted and node.extras is not None and node.extras.post and gp.plan.call.row.joins is not None:
        # Hooks see the gradients of all that was joined, whether or not they lead anywhere.
        gp = gp.whole()
        edges = positions = gp.edge_grads
        wanted = list(range(len(gp.inputs)))
    if not wanted:
        unpack_for_nothing(node, task.unpacked)
        if gp.raises:
            gp.refuse()
        return [None] * len(node.edges)
    if task.create or MODES.bits & DUAL:  # each gradient is an op of its own, and has a tangent
        by_pos = recorded_gradients(node, gp, cts, present, wanted)
        return [by_pos[p] if e is not None and p in by_pos else None for p, e in zip(positions, edges)]
    at_once, deferring = MODES.run.at_once, MODES.bits & WINDOWS and windows.defers(MODES.bits)
    if deferring:
        args = [operand(g) for g in cts if g is not None]
    else:
        args = [g._st.array if g._al is None and at_once else read(g) for g in cts if g is not None]
    args += unpack_arrays(node, task.unpacked)
    pick = None if len(wanted) == len(gp.inputs) else tuple(wanted)
    kernel = gp.vjps.get((present, pick)) or gp.vjp(present, pick)
    if deferring and not gp.alone:
        metas = gp.metas if pick is None else [gp.metas[p] for p in pick]
        values = windows.call(kernel, args, metas, False)
    else:
        if MODES.bits & OBSERVED:
            events.computed(kernel, args)
        values = (kernel.run or kernel)(*(map(windows.arrived, args) if deferring else args))
        if not at_once and MODES.run.uses.keeps_kernels:
            MODES.run.uses.kernel_called(kernel, args, False)
    if pick is not None:
        values = dict(zip(pick, values))
    out: list[Any] = []
    for p, e in zip(positions, edges):
        given = e is not None and p >= 0 and (pick is None or p in pick)
        out.append(make(values[p], gp.metas[p]) if given else None)
    return out


def _each_its_own(grads: Sequence[Any]) -> Sequence[Any]:
    """Gradients of which a function written by the user may have returned one several times."""
    seen: set[int] = set()
    out = []
    for g in grads:
        out.append(own(g) if g is not None and id(g) in seen else g)
        seen.add(id(g))
    return out


def call_node(node: Node, *grads: Any, **kwargs: Any) -> Any:
    """Run one node by hand on gradients of its outputs; hooks on it stay silent."""
    if kwargs:
        raise TypeError("keyword arguments are not supported")
    if len(grads) != node.n_outputs:
        raise TypeError(f"expected {node.n_outputs} arguments, got {len(grads)} instead")
    for i, g in enumerate(grads):
        if not (g is None or isinstance(g, Tensor)):
            raise TypeError(f"argument {i} is not a Variable")
    create = bool(MODES.bits & GRAD)
    if isinstance(node, AccumulateGrad):
        g = grads[0]
        if g is not None and g._m.shape != node.variable._m.shape:
            g = spread(g, node.variable._m.shape)
        accumulate(node, g, create)
        return ()
    try:
        out = tuple(_function(Task(True, create), node, list(grads)))
    except (TypeError, ValueError) as error:
        if node.gp is None or (complaint := _misfit(node, grads)) is None:
            raise
        raise RuntimeError(complaint) from error
    return out[0] if len(out) == 1 else out


def _misfit(node: Node, grads: Sequence[Any]) -> str | None:
    """The complaint about a gradient given by hand whose shape is not that of the node's output; None if all fit."""
    for nr, g in enumerate(grads):
        if g is not None and g._m.shape != node.out_meta(nr).shape:
            return (
                f"{node.name()} got a gradient of shape {list(g._m.shape)} for its output {nr}, which has the shape "
                f"{list(node.out_meta(nr).shape)}"
            )
    return None


Node.__call__ = call_node
