"""A compiled function whose result needs a gradient: its program in two parts, forward and backward.

While the function is traced, the backward pass through the graph that it recorded is traced too, from
placeholders for the gradients of its results down to the edges where that graph begins: hooks, custom
Functions and all else do what they do in eager code. Steps that need no such gradient are the forward part,
the others the backward part, and what the second reads of the first is saved in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...._core.arrays.meta import Meta, meta
from ...._core.errors import messages as errors
from ...._core.errors.messages import AsWritten
from ...._core.jax.evaluate import Take, first_of, run_steps, values_of
from ...._core.jax.own_kernels import jit
from ...._core.state import GRAD, MODES, next_sequence_nr
from ...._engine.graph.history import edge_of, grad_fn_of, requires_grad_of
from ...._engine.graph.node import AccumulateGrad, Node, spent
from ...._engine.graph.record import apply, zeros_for
from ...._engine.graph.saved import Packed, error_of_write
from ...._engine.memory.strided import read
from ...._engine.memory.tensor import Storage, Tensor, make
from ...._engine.modes import written_steps
from ...._engine.passes.custom import PyNode
from ...._engine.passes.walk import run as run_pass
from ...._engine.run.trace import Call
from ..trace.checks import any_of, is_true, raise_failed_check
from ..trace.equal_steps import at_its_line, needed_of
from ..trace.kernel_calls import Kernels, as_kernels
from ..trace.traced_program import RunState, Source, TracedProgram
from .donation import Keeping, surely

_FIRST = 1 << 30
"""The number of the first placeholder for a gradient; those of inputs, which come up at any time, are lower."""


_WRITTEN = (
    "torch.compile: a tensor of shape {shape} was written to after a compiled function had read it, and before the "
    "backward pass from its results. Eager code would read the new values in that pass, as the write was one of "
    "`.data`, or the reader is a checkpoint that computes again or a backward function; the program has saved the old "
    "ones. Write after the backward pass, or take the pass inside of the compiled function."
)


class NodeInside(NamedTuple):
    """A node of the graph that the function recorded."""

    roots: int
    """From which results a pass comes here, as bits."""
    edges: int
    """To which of the edges it goes on from here, as bits."""
    counters: tuple[int, ...]
    """Of what it has saved, by their numbers."""
    frees: bool
    """Whether it frees what it has saved, and refuses a second pass."""
    memories: tuple[int, ...] = ()
    """What it reads, by the numbers of `BackwardDescription.memories`."""


class PassInside(NamedTuple):
    """What a pass through the graph inside does, from some of its results."""

    counters: tuple[int, ...]
    """The counters of what it reads, by their numbers."""
    memories: tuple[int, ...]
    """What it reads, by the numbers of `BackwardDescription.memories`."""
    frees: int
    """The nodes that it frees, as bits."""
    reached: int
    """The edges that it arrives at, as bits."""


class BackwardDescription:
    """What was found out about the backward part while the function was traced."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        """Which results, by number, have a gradient coming in."""
        self.names: list[str] = []
        """The names of the nodes that these have in eager code."""
        self.metas: list[Meta] = []
        self.targets: list[Any] = []
        """Where gradients go: an argument's number, a tensor from outside, or an edge of its graph."""
        self.grad_metas: list[Meta | None] = []
        self.plain = True
        """Whether JAX's derivative of the forward part is the gradient: no hooks, no custom Functions."""
        self.counters: list[tuple[str, Any, Meta]] = []
        """Counters of the writes to what nodes have saved: `arg` or `result` with its number, or `outside` with the
        counter itself; and what was saved looked like."""
        self.memories: list[tuple[str, Any]] = []
        """Memory that the backward part reads and somebody can write to after the call: that of `arg` or `result`
        with its number, or of a tensor or a storage from `outside`."""
        self.reads: list[tuple[tuple[int, ...], tuple[str, Any]]] = []
        """What the trace of the pass read of such memory: the numbers of the nodes that read it, and whose it is.

        The program need not use it, as the gradient of a batch norm in training does not use the running statistics.
        """
        self.reached: list[int] = []
        """For each of `roots` the edges at which a pass from it arrives, as bits."""
        self.arrives_from: list[int] = []
        """For each of `roots` the others whose passes come to it, as bits."""
        self.has_hooks: list[bool] = []
        """For each of `roots` whether the function itself has registered hooks on it."""
        self.nodes: list[NodeInside] = []
        """The nodes that have saved something."""
        self.frees = 0
        """Those that free something, as bits."""
        self.is_for_one_pass = False
        """Whether a pass from each of the results frees something, so that each can be taken once."""
        self._passes: dict[tuple[int, int], PassInside] = {}

    def settle(self, used: Sequence[bool]) -> None:
        """Keep those of `reads` that the program uses."""
        numbers: dict[Any, int] = {}
        for (nodes, (kind, who)), is_used in zip(self.reads, used):
            key = (kind, who if isinstance(who, int) else id(who))
            if is_used and key not in numbers:
                numbers[key] = len(self.memories)
                self.memories.append((kind, who))
            for k in nodes if is_used else ():
                node = self.nodes[k]
                self.nodes[k] = node._replace(memories=(*node.memories, numbers[key]))
        self.reads = []
        frees_in_each = [self.pass_inside(1 << k, -1).frees for k in range(len(self.roots))]
        self.is_for_one_pass = all(frees_in_each)

    def pass_inside(self, roots: int, edges: int) -> PassInside:
        """What a pass does that comes from these results and is to arrive at these edges (as bits)."""
        found = self._passes.get((roots, edges))
        if found is None:
            run = [k for k, n in enumerate(self.nodes) if n.roots & roots and n.edges & edges]
            reached = 0
            for k, mask in enumerate(self.reached):
                reached |= mask if roots >> k & 1 else 0
            counters = dict.fromkeys(c for k in run for c in self.nodes[k].counters)
            memories = dict.fromkeys(c for k in run for c in self.nodes[k].memories)
            frees = sum(1 << k for k in run if self.nodes[k].frees)
            found = PassInside(tuple(counters), tuple(memories), frees, reached)
            self._passes[roots, edges] = found
        return found


class _Reads:
    """What the nodes of a pass read: what they have saved, and what their hooks and other code of the user read.

    Any node that reads what a checkpoint computes again may be the first to compute it, and reads what that takes.
    """

    def __init__(self, state: RunState, nodes: Sequence[Any]) -> None:
        self.state, self.nodes = state, nodes
        self.numbers = {node: k for k, node in enumerate(nodes)}
        self.recomputing = [k for k, n in enumerate(nodes) if any(type(e) is Packed for e in n.saved or ())]
        """The numbers of the nodes that read what a checkpoint computes again."""
        self.last = 0
        """The number of the node that the pass has come to."""
        self.found: list[tuple[tuple[int, ...], Storage, Any]] = []
        """The numbers of the nodes that read something, where it lies, and the array that they read."""
        for k, node in enumerate(nodes):
            for entry in node.saved or ():
                if isinstance(entry, Storage):  # its own result, which nobody reads by a tensor
                    self._add((k,), entry, entry.array)

    def note(self, storage: Storage, array: Any) -> None:
        """The pass reads this array of a storage."""
        now = None if MODES.graph_task is None else MODES.graph_task.current
        if now is None:  # several nodes run together
            self.last = 0
        elif now in self.numbers:  # else it is a node of a pass in a backward function
            self.last = self.numbers[now]
        readers = self.recomputing if self.last in self.recomputing else [self.last]
        self._add(tuple(readers), storage, array)

    def _add(self, nodes: tuple[int, ...], storage: Storage, array: Any) -> None:
        if self.state.run.owns(array):
            self.found.append((nodes, storage, array))


def trace_backward(
    state: RunState, outs: Sequence[tuple[int, Tensor]], began: int, returned: Sequence[Any]
) -> tuple[BackwardDescription, list[Any]]:
    """Trace the pass from these results (with their numbers).

    `returned` is all that the function returns, in order.

    Returns:
        What was found out, and arrays: the gradients found, and after them those of `reads`.
    """
    description = BackwardDescription()
    roots = [(grad_fn_of(t), t._onr) for _, t in outs]
    description.has_hooks = [
        fn.extras is not None and any(at == nr and hooks for at, hooks in fn.extras.tensor_pre) for fn, nr in roots
    ]
    description.names = [fn.name() for fn, _ in roots]
    nodes, edges = _inside([fn for fn, _ in roots], began)
    description.plain = not any(_has_code_of_the_user(node) for node in nodes)
    inside = _describe_nodes(description, roots, nodes, edges, _counters(state, returned))
    reads = _Reads(state, inside)
    cts = []
    for k, t in outs:
        m = t._m if t._m.dense else meta(t._m.shape, t._m.dtype, t._m.device)
        description.roots.append(k)
        description.metas.append(m)
        array = written_steps.outside_value(_FIRST + len(cts), m)
        cts.append(make(array, m))
    silenced: list[tuple[Any, str, Any]] = []
    tied = [node for node in nodes if isinstance(node, PyNode) and len(roots) > 1]
    ties = [node.register_hook(_tie_to_incoming) for node in tied]
    walks, state.run.node_by_node = state.run.node_by_node, state.run.node_by_node or len(roots) > 1
    try:
        _silence(edges, silenced)
        with state.noting_reads(reads.note):
            gradients = run_pass(roots, cts, keep=False, create=False, targets=edges, accumulate=False)
    finally:
        surely(lambda: [setattr(holder, name, value) for holder, name, value in silenced])
        surely(lambda: [tie.remove() for tie in ties])
        state.run.node_by_node = walks
    memories = _memories(state, returned)
    found = [(nodes, memories[id(st)], array) for nodes, st, array in reads.found if id(st) in memories]
    description.reads = [(nodes, memory) for nodes, memory, _ in found]
    description.targets = [_named(state, node, nr) for node, nr in edges]
    description.grad_metas = [None if g is None else g._m for g in gradients]
    arrays = [state.run.array_of(g) for g in gradients if g is not None]
    return description, arrays + [array for _, _, array in found]


def leaf_of(source: Source, args: Sequence[Tensor], array: Any, written: bool) -> Any:
    """An input as a tensor in its place in the graph; a draw is the one that this run has made.

    Of a constant that the program is about to write to, it is what the program has read.
    """
    t = args[source.what] if source.kind == "arg" else source.of
    there = source.kind == "tensor" and t._al is None and t._st is source.what
    if (source.kind == "arg" or there) and (requires_grad_of(t) or not written):
        return t
    if source.kind in ("number", "given") and source.meta is None:
        return array
    assert source.meta is not None
    return make(array, source.meta)


def _inside(roots: Sequence[Any], began: int) -> tuple[list[Any], list[tuple[Any, int]]]:
    """The nodes that were recorded inside, the last one first, and the edges from them to what was there before."""
    seen: set[Any] = set()
    edges: dict[tuple[Any, int], None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for edge in node.edges:
            if edge is None:
                continue
            if isinstance(edge[0], AccumulateGrad) or edge[0].seq < began:
                edges[edge] = None
            else:
                stack.append(edge[0])
    return sorted(seen, key=lambda node: -node.seq), list(edges)


def _has_code_of_the_user(node: Any) -> bool:
    return isinstance(node, PyNode) or (node.extras is not None and node.extras.observed)


def _counters(state: RunState, returned: Sequence[Any]) -> dict[int, tuple[str, Any]]:
    """By identity the counters of writes that somebody can reach after the call: whose they are."""
    found: dict[int, tuple[str, Any]] = {
        id(t._vc): ("result", k) for k, t in enumerate(returned) if isinstance(t, Tensor)
    }
    found.update({key: ("outside", vc) for key, (vc, _) in state.counters.items()})
    found.update({id(s.counter): ("arg", i) for i, s in enumerate(state.swapped)})
    return found


def _memories(state: RunState, returned: Sequence[Any]) -> dict[int, tuple[str, Any]]:
    """By identity the storages that somebody can reach after the call: whose they are."""
    found: dict[int, tuple[str, Any]] = {
        id(t._st): ("result", k) for k, t in enumerate(returned) if isinstance(t, Tensor)
    }
    for key, entry in state.storages.items():
        owner = state.sources[entry.source].of
        is_owner = isinstance(owner, Tensor) and owner._st is entry.storage
        found[key] = ("outside", owner if is_owner else entry.storage)
    found.update({id(s.traced_storage): ("arg", i) for i, s in enumerate(state.swapped)})
    return found


def _describe_nodes(
    description: BackwardDescription,
    roots: Sequence[tuple[Any, int]],
    nodes: Sequence[Any],
    edges: Sequence[tuple[Any, int]],
    counters: dict[int, tuple[str, Any]],
) -> list[Any]:
    """Which results lead to which nodes, and these to which edges; and what each node has saved.

    Returns:
        The nodes that `description.nodes` is about.
    """
    from_roots: dict[Any, int] = {}
    for k, (fn, _) in enumerate(roots):
        from_roots[fn] = from_roots.get(fn, 0) | 1 << k
    for node in nodes:
        for edge in node.edges:
            if edge is not None:
                from_roots[edge[0]] = from_roots.get(edge[0], 0) | from_roots[node]
    at = {edge: 1 << k for k, edge in enumerate(edges)}
    to_edges: dict[Any, int] = {}
    for node in reversed(nodes):
        to_edges[node] = 0
        for edge in node.edges:
            if edge is not None:
                to_edges[node] |= at[edge] if edge in at else to_edges[edge[0]]
    description.reached = [to_edges[fn] for fn, _ in roots]
    comes: dict[tuple[Any, int], int] = {}
    for node in nodes:
        for edge in node.edges:
            if edge is not None:
                comes[edge] = comes.get(edge, 0) | from_roots[node]
    description.arrives_from = [comes.get(root, 0) for root in roots]
    numbers: dict[int, int] = {}
    inside = []
    for node in nodes:
        read = []
        for entry in node.saved or ():
            vc = entry._vc if isinstance(entry, Tensor) else entry
            if id(vc) in counters and isinstance(entry, Tensor | Storage):
                m = entry._m if isinstance(entry, Tensor) else entry.meta
                if id(vc) not in numbers:
                    numbers[id(vc)] = len(numbers)
                    description.counters.append((*counters[id(vc)], m))
                read.append(numbers[id(vc)])
        frees = bool(node.saved) and (node.gp is None or node.gp.saves_tensors)
        if node.saved or frees or _has_code_of_the_user(node):
            inside.append(node)
            description.frees |= frees << len(description.nodes)
            description.nodes.append(NodeInside(from_roots[node], to_edges[node], tuple(read), frees))
    return inside


def _tie_to_incoming(gradients: Sequence[Any], incoming: Sequence[Any]) -> tuple[Any, ...]:
    """What a custom Function gives belongs to a pass that comes to it, even where it is the same in each."""
    given = [MODES.run.array_of(g) for g in incoming if g is not None]
    out: list[Any] = []
    for g in gradients:
        if g is not None:
            tied, *_ = jax.lax.optimization_barrier((MODES.run.array_of(g), *given))
            g = make(tied, meta(g._m.shape, g._m.dtype, g._m.device))
        out.append(g)
    return tuple(out)


def _silence(edges: Sequence[tuple[Any, int]], done: list[tuple[Any, str, Any]]) -> None:
    """Take hooks off what is outside, which `done` gets: they run when the pass comes there, not now."""
    for node, _ in edges:
        if node.extras is not None:
            done.append((node, "extras", node.extras))
            node.extras = None
        if isinstance(node, AccumulateGrad):
            x = node.variable._x
            if x is not None:
                done += [(x, "hooks", x.hooks), (x, "post_acc", x.post_acc)]
                x.hooks = x.post_acc = None


def _named(state: RunState, node: Any, nr: int) -> Any:
    if not isinstance(node, AccumulateGrad):
        return (node, nr)
    return state.named(node.variable)


class ForwardAndBackward:
    """Forward and backward part as compiled functions."""

    def __init__(self, traced: TracedProgram, n_results: int) -> None:
        jaxpr, consts, checks, kernels = traced.jaxpr, traced.consts, traced.checks, traced.kernels
        self.n_results = n_results
        flags = [] if checks is None else checks.late
        self.checked = bool(flags)
        """Whether the last result of the forward part is whether a check fails."""
        self.checks = [] if checks is None else checks.backward
        """What is checked in the backward part, whose last result is whether one of them fails."""
        late_flags = [noted.flag for noted in self.checks]
        placeholder = written_steps.placeholder()
        late: set[Any] = set()
        early_steps, late_steps = [], []
        for eqn in jaxpr.eqns:
            ct = eqn.primitive is placeholder and eqn.params["index"] >= _FIRST
            if ct or any(not hasattr(v, "val") and v in late for v in eqn.invars):
                late_steps.append(eqn)
                late.update(eqn.outvars)
            else:
                early_steps.append(eqn)
        if any(not hasattr(v, "val") and v in late for v in jaxpr.outvars[:n_results]):
            raise AsWritten(
                "a hook or a backward function keeps a gradient (in a list, say) that only the backward pass from "
                "its results will compute; a program can give gradients that are taken inside of the function",
                lasting=True,
            )
        grads = jaxpr.outvars[n_results:]
        made = {v for eqn in late_steps for v in eqn.outvars}
        reads = [v for eqn in late_steps for v in eqn.invars] + list(grads)
        reads += [v for noted in self.checks for v in noted.arrays]
        between = list(
            dict.fromkeys(v for v in reads if not hasattr(v, "val") and v not in made and v not in jaxpr.constvars)
        )
        self.between = len(between)
        consts_of = dict(zip(jaxpr.constvars, consts))

        def early_part(values: Sequence[Any], take: Take) -> list[Any]:
            env = dict(consts_of)
            for eqn in early_steps:
                with at_its_line(eqn):
                    run_steps([eqn], env, first_of(written_steps.outside(values), take))
            return values_of((*jaxpr.outvars[:n_results], *between, *flags), env)

        def with_flag(results: list[Any]) -> list[Any]:
            n = n_results + len(between)
            return [*results[:n], any_of(results[n:])] if flags else results

        def forward(*values: Any) -> list[Any]:
            return with_flag(early_part(values, as_it_is))

        def late_part(
            wanted: Sequence[Any], saved: Sequence[Any], cts: Sequence[Any], take: Take = as_it_is
        ) -> list[Any]:
            env = {**consts_of, **dict(zip(between, saved))}
            for eqn in late_steps:
                with at_its_line(eqn):
                    _take_late(eqn, env, first_of(written_steps.outside(cts, _FIRST), take), late)
            return values_of(wanted, env)

        def checked(results: list[Any]) -> list[Any]:
            n = len(grads)
            found = [flag for flag in results[n:] if flag is not None]
            return [*results[:n], any_of(found) if found else False] if late_flags else results

        def backward(saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            """The gradients; None where none of those that come in has an effect. Some of these may be None."""
            return checked(late_part([*grads, *late_flags], saved, cts))

        def of_kernels(kernels: Kernels) -> tuple[Any, Any]:
            count, n_saved = len(traced.sources), len(between)
            early = Keeping(lambda: as_kernels(kernels, count, early_part))
            known: dict[tuple[bool, ...], Keeping] = {}

            def write(came: tuple[bool, ...]) -> Any:
                def build(xs: list[Any], take: Take) -> list[Any]:
                    rest = iter(xs[n_saved:])
                    cts = [next(rest) if here else None for here in came]
                    return late_part([*grads, *late_flags], xs[:n_saved], cts, take)

                return as_kernels(kernels, n_saved + sum(came), build)

            def late_call(saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
                came = tuple([g is not None for g in cts])
                if came not in known:
                    known[came] = Keeping(partial(write, came))
                return checked(known[came].call(*saved, *[g for g in cts if g is not None]))

            return lambda *values: with_flag(early.call(*values)), late_call

        self._late = late_part
        self._operators: dict[tuple[int, ...], Call] = {}
        self.saved_names = between
        """The variables that are kept for the backward part."""
        self.run_forward, self.run_backward = forward, backward
        self.calls_kernels = kernels is not None
        """Whether the two parts call the kernels of eager code."""
        self.as_one: Callable[..., list[Any]] = jit(forward)
        """The forward part as one program."""
        self.forward: Callable[..., list[Any]] = self.as_one
        self.backward: Callable[..., list[Any]] = jit(backward)
        if kernels is not None:
            self.forward, self.backward = of_kernels(kernels)
        self.is_joint = False
        """Whether several processes run both parts together; see `joint.py`."""

    def forward_as_operator(self, description: BackwardDescription, wanted: tuple[int, ...]) -> Call:
        """Those of the results that have a graph as one operator, differentiable from outside."""
        found = self._operators.get(wanted)
        if found is None:
            roots = [description.roots[k] for k in wanted]

            def run(leaves: Sequence[Any]) -> tuple[Any, ...]:
                results = (self.as_one if self.calls_kernels else self.forward)(*leaves)
                return tuple([results[k] for k in roots])

            found = self._operators[wanted] = Call(
                "compiled",
                run,
                node_name=description.names[wanted[0]],
                edges=lambda keys: tuple(
                    [i for i, m in enumerate(keys) if isinstance(m, Meta) and m.dtype.category >= 2]
                ),
            )
        return found

    def gradients(self, saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """What the backward part gives, unless a check in it fails."""
        results = self.backward(saved, cts)
        if self.checks and is_true(results[-1]):
            raise_failed_check(self.checks, lambda wanted: jit(partial(self._late, wanted))(saved, cts))
        return results


def as_it_is(eqn: Any, args: list[Any]) -> None:
    """Take a step as it is."""


def _take_late(eqn: Any, env: dict[Any, Any], take: Take, late: set[Any]) -> None:
    """Take a step of the backward part; None stands for a gradient that did not come, and for what is made of it.

    It is left out of a sum. Where it is an input beside others, as of a step that puts parts together, it is zeros.
    """
    reads = [v for v in eqn.invars if not hasattr(v, "val") and v in late]
    absent = {v for v in reads if env[v] is None}
    if absent and len(absent) == len(set(reads)):
        env.update(dict.fromkeys(eqn.outvars))
    elif absent and _is_sum(eqn):
        env[eqn.outvars[0]] = next(env[v] for v in eqn.invars if v in late and v not in absent)
    elif absent:
        zeros = {v: jnp.zeros(v.aval.shape, v.aval.dtype) for v in absent}
        inner = {**env, **zeros}
        run_steps([eqn], inner, take)
        env.update({v: inner[v] for v in eqn.outvars})
    else:
        run_steps([eqn], env, take)


def _is_sum(eqn: Any) -> bool:
    """Whether a step adds two gradients of one shape."""
    if any(hasattr(v, "val") or v.aval.shape != eqn.outvars[0].aval.shape for v in eqn.invars):
        return False
    if eqn.primitive.name in ("add", "add_any"):
        return True
    inner = getattr(eqn.params.get("jaxpr"), "eqns", ())
    return len(inner) == 1 and len(eqn.invars) == 2 and _is_sum(inner[0])


def used_in_pass(jaxpr: Any, gradients: int, reads: int) -> list[bool]:
    """Which of the last results of a program, `reads` many, the pass before them uses for its gradients."""
    end, placeholder = len(jaxpr.outvars) - reads, written_steps.placeholder()
    steps = jaxpr.eqns
    in_pass = next(k for k, eqn in enumerate(steps) if eqn.primitive is placeholder and eqn.params["index"] >= _FIRST)
    used = needed_of(steps[in_pass:], jaxpr.outvars[end - gradients : end])
    return [not hasattr(v, "val") and v in used for v in jaxpr.outvars[end:]]


class CompiledFunctionBackward(Node):
    """The node of a compiled call.

    It stands for all nodes that the function records in eager code. A pass that comes from some of the results runs
    some of these: it frees what they have saved, and arrives at the edges that they lead to.
    """

    __slots__ = ("counters", "description", "freed", "last_freed", "leaves", "memories", "metas", "parts")

    def __init__(
        self,
        parts: ForwardAndBackward,
        description: BackwardDescription,
        saved: Sequence[Any],
        args: Sequence[Tensor],
        leaves: Sequence[Any],
    ) -> None:
        self.gp = self.extras = None
        self.parts, self.description, self.metas = parts, description, description.metas
        self.saved: Any = tuple(saved)
        self.vers = tuple([t._vc.version if isinstance(t, Tensor) else 0 for t in leaves])
        self.leaves: Any = leaves
        self.counters: list[tuple[Any, int]] = []
        """The counters of what was saved, and their values after the call."""
        self.memories: list[tuple[Any, Storage, int]] = []
        """What the pass reads, its storage after the call, and how often that had been written to."""
        self.freed = self.last_freed = 0
        """The nodes inside that were freed, as bits, and those that the pass frees that ran last."""
        self.edges = tuple(_edges_to(description.targets, args))
        self.seq = next_sequence_nr()

    of_several = True

    def edges_from(self, outputs: int) -> list[Any]:
        """The edges at which a pass from these outputs arrives."""
        reached = self.description.pass_inside(outputs, -1).reached
        return [edge for k, edge in enumerate(self.edges) if reached >> k & 1]

    def check_observers(self, slots: Sequence[Any], captured: Sequence[int]) -> None:
        """Refuse to give the gradient of a result that is computed in the midst of the program."""
        ex, came = self.extras, sum(1 << k for k, g in enumerate(slots) if g is not None)
        hooked = [] if ex is None else [nr for nr, hooks in ex.tensor_pre if hooks]
        retained = [] if ex is None else [nr for nr, ref in ex.retains.items() if ref() is not None]
        for nr in (*captured, *hooked, *retained):
            if self.description.arrives_from[nr] & came:
                shape = list(self.metas[nr].shape)
                raise RuntimeError(
                    "torch.compile: a hook, `retain_grad()` or `autograd.grad` asks for the gradient of a result of "
                    f"shape {shape}, from which the compiled function has computed another result; its program does "
                    "not tell that gradient. Compute the other result outside, or take the gradient inside."
                )
        for nr in (*hooked, *retained):
            if self.description.has_hooks[nr]:
                raise RuntimeError(
                    "torch.compile: a result has hooks that were registered inside of the compiled function, and got "
                    "a hook or `retain_grad()` outside, which come after them. Register all inside or all outside."
                )

    def call_is_over(self, args: Sequence[Tensor], results: Sequence[Any]) -> None:
        """Remember which versions what was saved has now."""
        owner = {"arg": args, "result": results}
        counters = [who if kind == "outside" else owner[kind][who]._vc for kind, who, _ in self.description.counters]
        self.counters = [(vc, vc.version) for vc in counters]
        memories = [who if kind == "outside" else owner[kind][who] for kind, who in self.description.memories]
        self.memories = [(x, x, x.stamp) if isinstance(x, Storage) else (x, x._st, x._st.stamp) for x in memories]

    @property
    def n_outputs(self) -> int:
        return len(self.metas)

    def _input_metadata_count(self) -> int:
        return len(self.metas)

    def out_meta(self, nr: int) -> Any:
        """Meta of an output."""
        return self.metas[nr]

    def _release(self) -> None:
        self.freed |= self.last_freed
        if self.freed == self.description.frees and self.description.is_for_one_pass:
            self.saved = self.leaves = None

    def backward_tensors(self, cts: Sequence[Any]) -> list[Any]:
        """Gradients for every edge."""
        task = MODES.graph_task
        needed = None if task is None else task.needed
        edges = sum(1 << k for k, e in enumerate(self.edges) if needed is None or e[0] in needed)
        roots = sum(1 << k for k, g in enumerate(cts) if g is not None)
        inside = self.description.pass_inside(roots, edges)
        saved = self.saved
        if saved is None or self.freed & inside.frees:
            raise RuntimeError(errors.SECOND_BACKWARD)
        for k in inside.counters:
            vc, then = self.counters[k]
            if vc.version != then:
                raise error_of_write(self.description.counters[k][2], None, 0, vc.version, then)
        for k in inside.memories:
            self._check_unwritten(*self.memories[k])
        self.last_freed = inside.frees
        if not roots:
            return [None] * len(self.edges)
        metas = [m if inside.reached >> k & 1 else None for k, m in enumerate(self.description.grad_metas)]
        if MODES.bits & GRAD:
            found = self._recorded(cts)
            return [None if m is None else g for g, m in zip(found, metas)]
        given = [None if g is None else read(g) for g in cts]
        arrays = iter(self.parts.gradients(saved, given))
        found = [None if m is None else next(arrays) for m in self.description.grad_metas]
        return [None if m is None else zeros_for(m) if g is None else make(g, m) for g, m in zip(found, metas)]

    def _check_unwritten(self, owner: Any, storage: Storage, then: int) -> None:
        """Refuse a pass that would read something else in eager code, where the program has saved what was there."""
        now = owner if isinstance(owner, Storage) else owner._st
        if now is not storage or storage.stamp != then:
            raise RuntimeError(_WRITTEN.format(shape=list(storage.meta.shape)))

    def _recorded(self, cts: Sequence[Tensor | None]) -> list[Any]:
        """The same as part of a graph: the forward is recorded once more, and differentiated."""
        if not self.description.plain:
            raise RuntimeError(
                "torch.compile: hooks or custom Functions inside of a compiled function cannot be differentiated twice "
                "from outside. Take the derivatives inside of the function, or call it eagerly."
            )
        for t, then in zip(self.leaves, self.vers):
            if isinstance(t, Tensor) and t._vc.version != then:
                raise error_of_write(t._m, None, 0, t._vc.version, then)
        came = tuple([k for k, g in enumerate(cts) if g is not None])
        reached = set(self.edges_from(sum(1 << k for k in came)))
        leaves = [
            make(read(t), meta(t._m.shape, t._m.dtype, t._m.device))
            if isinstance(t, Tensor) and requires_grad_of(t) and edge_of(t) not in reached
            else t
            for t in self.leaves
        ]
        outs = apply(self.parts.forward_as_operator(self.description, came), leaves)
        roots = [(grad_fn_of(out), out._onr) for out in outs]
        given = [g for g in cts if g is not None]
        return run_pass(roots, given, keep=True, create=True, targets=list(self.edges), accumulate=False)


def _edges_to(targets: Sequence[Any], args: Sequence[Tensor] | Mapping[int, Tensor]) -> list[Any]:
    """The edges to arguments, by their numbers, to tensors from outside and into their graphs."""
    return [t if isinstance(t, tuple) else edge_of(args[t] if isinstance(t, int) else t) for t in targets]


class SpentGraph(NamedTuple):
    """What is left of the graph of a result or a gradient that a pass inside of the function has used up."""

    name: str
    targets: list[Any]
    """Where it led to, like `BackwardDescription.targets`."""
    arguments: list[int]
    """Those of them that are arguments."""

    def give_to(self, t: Tensor, args: Sequence[Tensor]) -> None:
        """Let a tensor have such a graph, from which a pass raises."""
        given = {i: args[i] for i in self.arguments}
        t._fn, t._rg = spent(self.name, t._m, partial(_edges_to, self.targets, given)), True


def spent_graph(state: RunState, fn: Any, began: int) -> SpentGraph | None:
    """What is left of the graph that begins at a node, or None if no pass has used it up."""
    if fn is None or not _already_passed(fn):
        return None
    own = {id(t) for ref in state.own_aliases if (t := ref()) is not None}
    targets = []
    for node, nr in _inside([fn], began)[1]:
        leaf = getattr(node, "variable", None)
        if leaf is None or not (id(leaf) in own or state.made(leaf._st)):
            targets.append(_named(state, node, nr))
    return SpentGraph(fn.name(), targets, [t for t in targets if isinstance(t, int)])


def _already_passed(fn: Any) -> bool:
    """Whether a backward pass has been through a graph already."""
    seen, stack = set(), [fn]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.gp is not None and node.gp.saves_tensors and node.saved is None:
            return True
        stack += [e[0] for e in node.edges if e is not None]
    return False
