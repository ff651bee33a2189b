"""A compiled function whose result needs a gradient: its program in two parts, forward and backward.

While the function is traced, the backward pass through the graph that it recorded is traced too, from
placeholders for the gradients of its results down to the edges where that graph begins: hooks, custom
Functions and all else do what they do in eager code. Steps that need no such gradient are the forward part,
the others the backward part, and what the second reads of the first is saved in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from .._core import errors
from .._core.errors import AsWritten
from .._core.meta import Meta, meta
from .._core.state import GRAD, MODES, next_sequence_nr
from .._engine import traced_run
from .._engine.custom import PyNode
from .._engine.history import edge_of, grad_fn_of, requires_grad_of
from .._engine.node import AccumulateGrad, Node
from .._engine.passes.walk import run as run_pass
from .._engine.record import apply, zeros_for
from .._engine.strided import read
from .._engine.tensor import Tensor, make
from .._engine.trace import Call
from .checks import Checks, any_of, is_true, raise_failed_check
from .donation import surely
from .equal_steps import at_its_line
from .traced_program import Source, StateLift

_FIRST = 1 << 30
"""The number of the first placeholder for a gradient; those of inputs, which come up at any time, are lower."""


class BackwardDescription:
    """What was found out about the backward part while the function was traced."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        """Which results, by number, have a gradient coming in."""
        self.metas: list[Meta] = []
        self.targets: list[Any] = []
        """Where gradients go: an argument's number, a tensor from outside, or an edge of its graph."""
        self.grad_metas: list[Meta | None] = []
        self.plain = True
        """Whether JAX's derivative of the forward part is the gradient: no hooks, no custom Functions."""


def trace_backward(
    current: StateLift, outs: Sequence[tuple[int, Tensor]], began: int
) -> tuple[BackwardDescription, list[Any]]:
    """Trace the pass from these results (with their numbers); arrays of the gradients found."""
    description = BackwardDescription()
    roots = [(grad_fn_of(t), t._onr) for _, t in outs]
    edges = _boundary(description, [fn for fn, _ in roots], began)
    cts = []
    for k, t in outs:
        m = t._m if t._m.dense else meta(t._m.shape, t._m.dtype, t._m.device)
        description.roots.append(k)
        description.metas.append(m)
        array = traced_run.outside_value(_FIRST + len(cts), m)
        cts.append(make(array, m))
    silenced: list[tuple[Any, str, Any]] = []
    try:
        _silence(edges, silenced)
        gradients = run_pass(roots, cts, keep=False, create=False, targets=edges, accumulate=False)
    finally:
        surely(lambda: [setattr(holder, name, value) for holder, name, value in silenced])
    description.targets = [_named(current, node, nr) for node, nr in edges]
    description.grad_metas = [None if g is None else g._m for g in gradients]
    return description, [current.array_of(g) for g in gradients if g is not None]


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


def _boundary(
    description: BackwardDescription, roots: Sequence[Any], began: int
) -> list[tuple[Any, int]]:
    """Edges from nodes recorded inside to what was there before."""
    seen: set[Any] = set()
    edges: dict[tuple[Any, int], None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        hooked = node.extras is not None and node.extras.observed
        if hooked or isinstance(node, PyNode):
            description.plain = False
        for edge in node.edges:
            if edge is None:
                continue
            m = edge[0]
            if isinstance(m, AccumulateGrad) or m.seq < began:
                edges[edge] = None
            else:
                stack.append(m)
    return list(edges)


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


def _named(current: StateLift, node: Any, nr: int) -> Any:
    if not isinstance(node, AccumulateGrad):
        return (node, nr)
    return current.named(node.variable)


class ForwardAndBackward:
    """Forward and backward part as compiled functions."""

    def __init__(
        self, jaxpr: Any, consts: Sequence[Any], n_results: int, checks: Checks | None = None
    ) -> None:
        self.n_results = n_results
        flags = [] if checks is None else checks.late
        self.checked = bool(flags)
        """Whether the last result of the forward part is whether a check fails."""
        self.checks = [] if checks is None else checks.backward
        """What is checked in the backward part, whose last result is whether one of them fails."""
        late_flags = [noted.flag for noted in self.checks]
        placeholder = traced_run.placeholder()
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
            dict.fromkeys(
                v
                for v in reads
                if not hasattr(v, "val") and v not in made and v not in jaxpr.constvars
            )
        )
        self.between = len(between)
        consts_of = dict(zip(jaxpr.constvars, consts))

        def forward(*values: Any) -> list[Any]:
            env = dict(consts_of)
            for eqn in early_steps:
                with at_its_line(eqn):
                    traced_run.take([eqn], env, values)
            results = _read((*jaxpr.outvars[:n_results], *between), env)
            return [*results, any_of(_read(flags, env))] if flags else results

        def late_part(wanted: Sequence[Any], saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            env = {**consts_of, **dict(zip(between, saved))}
            for eqn in late_steps:
                with at_its_line(eqn):
                    traced_run.take([eqn], env, cts, _FIRST)
            return _read(wanted, env)

        def backward(saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            results = late_part([*grads, *late_flags], saved, cts)
            n = len(grads)
            return [*results[:n], any_of(results[n:])] if late_flags else results

        self._late = late_part
        self.forward = jax.jit(forward)
        self.backward = jax.jit(backward)

    def gradients(self, saved: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """What the backward part gives, unless a check in it fails."""
        results = self.backward(saved, cts)
        if self.checks and is_true(results[-1]):
            raise_failed_check(
                self.checks, lambda wanted: jax.jit(partial(self._late, wanted))(saved, cts)
            )
        return results


def _read(names: Sequence[Any], env: Mapping[Any, Any]) -> list[Any]:
    return [v.val if hasattr(v, "val") else env[v] for v in names]


class CompiledFunctionBackward(Node):
    """The node of a compiled call."""

    __slots__ = ("again", "leaves", "metas", "parts", "description")

    def __init__(
        self, parts: ForwardAndBackward, description: BackwardDescription, saved: Sequence[Any], args: Sequence[Tensor],
        leaves: Sequence[Any], again: Callable[[], Call],
    ) -> None:  # fmt: skip
        self.gp = self.extras = None
        self.parts, self.description, self.metas = parts, description, description.metas
        self.saved: Any = tuple(saved)
        self.vers = tuple([t._vc.version if isinstance(t, Tensor) else 0 for t in leaves])
        self.leaves: Any = leaves
        self.again = again
        edges = []
        for target in description.targets:
            if isinstance(target, tuple):
                edges.append(target)
            else:
                edges.append(edge_of(args[target] if isinstance(target, int) else target))
        self.edges = tuple(edges)
        self.seq = next_sequence_nr()

    @property
    def n_outputs(self) -> int:
        return len(self.metas)

    def _input_metadata_count(self) -> int:
        return len(self.metas)

    def out_meta(self, nr: int) -> Any:
        """Meta of an output."""
        return self.metas[nr]

    def _release(self) -> None:
        self.saved = self.leaves = None

    def backward_tensors(self, cts: Sequence[Any]) -> list[Any]:
        """Gradients for every edge."""
        if self.saved is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        given = [zeros_for(m) if g is None else g for g, m in zip(cts, self.metas)]
        if MODES.bits & GRAD:
            return self._recorded(given)
        arrays = iter(self.parts.gradients(self.saved, [read(g) for g in given]))
        return [None if m is None else make(next(arrays), m) for m in self.description.grad_metas]

    def _recorded(self, cts: Sequence[Tensor]) -> list[Any]:
        """The same as part of a graph: the forward is recorded once more, and differentiated."""
        if not self.description.plain:
            raise RuntimeError(
                "torch.compile: hooks or custom Functions inside of a compiled function cannot be differentiated twice"
            )
        for t, then in zip(self.leaves, self.vers):
            if isinstance(t, Tensor) and t._vc.version != then:
                raise RuntimeError(
                    errors.modified_in_place(
                        "torch." + t._m.dtype.type_name, t._m.shape, None, 0, t._vc.version, then
                    )
                )
        outs = apply(self.again(), self.leaves)
        roots = [(grad_fn_of(out), out._onr) for out in outs]
        return run_pass(
            roots, list(cts), keep=True, create=True, targets=list(self.edges), accumulate=False
        )


def already_passed(fn: Any) -> bool:
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


__all__ = [
    "BackwardDescription",
    "CompiledFunctionBackward",
    "ForwardAndBackward",
    "already_passed",
    "leaf_of",
    "trace_backward",
]
