"""One level of differentiation: inputs made variables, results freed of them again.

A transform runs its function eagerly on the ordinary graph. The inputs it differentiates with respect to
are fresh variables, joined to the tensors they stand for where those need gradients themselves; when
the transform is done, what depends on nothing but its own variables no longer requires a gradient.
"""

from __future__ import annotations

import bisect
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .._core.arrays import dtypes, tree
from .._core.signals import contextmanager, uninterrupted
from .._core.state import DUAL, GRAD, INFERENCE, MODES, TRANSFORM, Modes, next_level
from .._engine.entry.bind import ops
from .._engine.graph.history import edge_of, grad_fn_of, requires_grad_of
from .._engine.graph.node import AccumulateGrad, Node
from .._engine.memory.derivative_stops import is_derived, under_jax
from .._engine.memory.shared_values import LIVE
from .._engine.memory.tensor import Tensor, alias_of, count_like, plain_alias


class Level:
    """The variables of one transform, and whether anything outside of it is being recorded."""

    def __init__(self) -> None:
        self.recording = bool(MODES.bits & GRAD)
        self.own: set[int] = set()
        self.kept: list[Tensor] = []
        self.around = _RUNNING.level
        self.transposed = False
        """Whether its derivative, along tangents, is the transpose of a transposed one."""
        self.switches = len(MODES.transposed or ())
        """How often recording had been switched when the level began, see `Modes.transposed`."""

    def variable(self, t: Any) -> Tensor:
        """A variable of this level that stands for `t`."""
        if not isinstance(t, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(t)}")
        if t._m.dtype.category < dtypes.FLOATING:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        linked = self.recording and requires_grad_of(t)
        if linked:
            with recording():
                return ops.alias(t)
        out = detached(t)
        out._rg = True
        self.own.add(id(out))
        self.kept.append(out)
        return out

    def variables(self, x: Any) -> Any:
        """The same for every tensor of a tree."""
        return tree.map_leaves(self.variable, x)

    def free(self, x: Any) -> Any:
        """A tree of results as the outside may see them."""
        leaves, spec = tree.flatten(x)
        tensors = [t for t in leaves if isinstance(t, Tensor)]
        slopes = [MODES.tangents.tangent_of(t) for t in tensors] if MODES.bits & DUAL else []
        wanted = [t for t in (*tensors, *slopes) if t is not None and requires_grad_of(t)]
        alive = self.alive(wanted) if self.recording else {}
        if _RUNNING.level is not None and any(alive.values()):
            _RUNNING.level.adopt(self)
        dead = {id(t) for t in wanted if not alive.get(id(t))}
        freed = {}
        for t, slope in itertools.zip_longest(tensors, slopes):
            if id(t) in dead:
                freed[id(t)] = out = alias_of(t, t._m, plain_alias(t), t._vc)
            else:
                out = t
            if slope is not None and (out is not t or id(slope) in dead):
                kept = detached(slope) if id(slope) in dead else slope
                MODES.tangents.set_tangent(out, kept)
        return tree.unflatten([freed.get(id(t), t) for t in leaves], spec)

    def adopt(self, inner: Level) -> None:
        """Take over the variables of a level that ended inside of this one: what still leads to them ends there."""
        if inner is not self:
            self.own |= inner.own
            self.kept += inner.kept

    def matters_outside(self, tensors: Iterable[Any]) -> bool:
        """Return whether gradients of any of these concern a variable that is not this level's, or what JAX follows."""
        wanted = [t for t in tensors if isinstance(t, Tensor) and requires_grad_of(t)]
        return self.recording and (any(self.alive(wanted).values()) or any(map(_is_followed_outside, wanted)))

    def _is_own(self, variable: Tensor) -> bool:
        """Return whether nobody outside of this level takes a derivative with respect to a variable.

        In a run of `vmap` a graph tells what JAX's derivative goes through.
        """
        followed = MODES.traced and not MODES.run.at_once and is_derived(variable)
        return id(variable) in self.own and not followed

    def alive(self, tensors: Sequence[Tensor]) -> dict[int, bool]:
        """By identity of a tensor: does its graph reach a variable of another level?"""
        if not tensors:
            return {}
        roots = [(t, grad_fn_of(t)) for t in tensors]
        seen = _nodes_behind([fn for _, fn in roots if fn is not None])
        ends = {n for n in seen if n.__class__ is AccumulateGrad and not self._is_own(n.variable)}
        if not ends:  # no way leads out
            return {id(t): fn is None and not self._is_own(t) for t, fn in roots}
        reaches = _which_reach(seen, ends)
        return {id(t): not self._is_own(t) if fn is None else reaches[fn] for t, fn in roots}

    def refuse_unrecorded(self, outs: Sequence[Any], inputs: Sequence[Tensor]) -> None:
        """Complain if gradients go through what was computed under `no_grad`, and recorded for tangents alone."""
        # Without the switches before this level, and the one that ends a block of `no_grad` around it.
        times = (MODES.transposed or [])[self.switches + self.switches % 2 :]
        if not times:
            return
        roots = [grad_fn_of(t) for t in outs if isinstance(t, Tensor) and requires_grad_of(t)]
        seen = _nodes_behind([fn for fn in roots if fn is not None])
        given = {edge[0] for edge in map(edge_of, inputs) if edge is not None}
        ends = {n for n in seen if (n in given and self._wants_gradients()) or self._leads_out(n)}
        reaches = _which_reach(seen, ends)
        for node in seen:
            if reaches[node] and bisect.bisect(times, node.seq) % 2:
                raise NotImplementedError(
                    "no_grad(): inside of a jvp within another jvp, or of linearize, derivatives along tangents go "
                    "through what no_grad() computes, and gradients do not. Taking both is not supported; detach() "
                    "ends both."
                )

    def _wants_gradients(self) -> bool:
        """Whether a gradient by the level's variables is taken, by it or between it and a transposed level around."""
        level, between = self, False
        while level is not None:
            if level.transposed and between:
                return True
            between = between or not level.transposed
            level = level.around
        return not self.transposed or under_jax() or MODES.run.started_by_jax

    def _leads_out(self, node: Node) -> bool:
        """Return whether a node is a variable of somebody who may take a gradient by it, of no transposed level."""
        if not self.transposed or node.__class__ is not AccumulateGrad:
            return False
        level: Level | None = self
        while level is not None:
            if level.transposed and id(node.variable) in level.own:
                return False
            level = level.around
        return True


def _nodes_behind(stack: list[Node]) -> set[Node]:
    """Nodes and all that they lead to."""
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [e[0] for e in node.edges if e is not None and e[0] not in seen]
    return seen


def _which_reach(nodes: set[Node], ends: set[Node]) -> dict[Node, bool]:
    """Of these nodes, with all that they lead to, which lead to one of the ends or are one."""
    reaches: dict[Node, bool] = {}
    for node in sorted(nodes, key=lambda n: -1 if isinstance(n, AccumulateGrad) else n.seq):
        reaches[node] = node in ends or any(e is not None and reaches[e[0]] for e in node.edges)
    return reaches


def _is_followed_outside(t: Tensor) -> bool:
    """Return whether JAX takes a derivative of the code around a run of `vmap` which reads `t`, from that code."""
    return MODES.traced and MODES.run.derived_outside(t)


def detached(t: Tensor) -> Tensor:
    """`t` outside of every graph; a tangent of an enclosing forward-mode level stays."""
    out = alias_of(t, t._m, plain_alias(t), t._vc)
    if not t.is_inference():
        count_like(out, t)
    if MODES.bits & DUAL:
        tangent = MODES.tangents.tangent_of(t)
        if tangent is not None:
            MODES.tangents.set_tangent(out, tangent)
    return out


class _Running(threading.local):
    """The innermost level that this thread is in."""

    level: Level | None = None


_RUNNING = _Running()


def running_level() -> Level | None:
    """The innermost level that this thread is in."""
    return _RUNNING.level


def along_tangents_alone() -> bool:
    """Return whether the levels that this thread is in take derivatives along tangents, and none of them a gradient."""
    level = _RUNNING.level
    while level is not None and level.transposed:
        level = level.around
    return level is None


def matters_around(t: Tensor) -> bool:
    """Return whether derivatives of a tensor are taken by more than the innermost transform."""
    if not requires_grad_of(t):
        return False
    if MODES.bits & DUAL and MODES.tangents.tangent_of(t) is not None:
        return True
    level = running_level()
    return grad_fn_of(t) is not None and level is not None and level.matters_outside([t])


class recording:
    """Recording on or off inside, in a `level`; inference mode, if it is on, does not reach inside of a transform."""

    __slots__ = ("around", "bits", "level", "on")

    def __init__(self, on: bool = True, level: Level | None = None) -> None:
        self.on, self.level = on, level

    def __enter__(self) -> None:
        self.bits, self.around = MODES.bits, _RUNNING.level
        if self.level is not None:
            _RUNNING.level = self.level
        kept = self.bits & ~(GRAD | INFERENCE)
        MODES.bits = kept | GRAD if self.on else kept

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        _RUNNING.level = self.around
        MODES.bits = MODES.bits & ~(GRAD | INFERENCE) | self.bits & (GRAD | INFERENCE)


_NO_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your "
    "use case."
)


_TRANSFORMED = INFERENCE | TRANSFORM
"""What the user's function does not find as it was around the transform."""


class transforming:
    """Inside: the user's function runs as one that is being transformed."""

    __slots__ = ("before", "bits", "given")
    packs = True
    """Whether somebody may pack what nodes save."""

    def __init__(self, *given: Any) -> None:
        tensors = (t for t in tree.flatten(given)[0] if isinstance(t, Tensor))
        self.given = frozenset(id(t._st) for t in tensors)

    def __enter__(self) -> None:
        if MODES.pack_hooks and not self.packs:
            raise RuntimeError(_NO_HOOKS)
        level = next_level()
        self.bits = MODES.bits & _TRANSFORMED
        self.before = {
            "hooks_disabled": MODES.hooks_disabled, "transforms": MODES.transforms, "level": MODES.level,
            "birth": MODES.birth, "given": MODES.given,
        }  # fmt: skip
        MODES.own |= {
            "hooks_disabled": MODES.hooks_disabled if self.packs else _NO_HOOKS, "transforms": MODES.transforms + 1,
            "level": level, "birth": level, "given": self.given, "bits": MODES.bits & ~INFERENCE | TRANSFORM,
        }  # fmt: skip

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.own |= {**self.before, "bits": MODES.bits & ~_TRANSFORMED | self.bits}


@contextmanager
def transposed(level: Level) -> Iterator[None]:
    """Inside: a function runs whose derivative along tangents is the transpose of its transposed derivative."""
    before = MODES.transposed
    level.transposed = True
    if before is None:
        MODES.transposed = []
    LIVE.add(level)  # nodes keep the values that they save
    try:
        yield
    finally:
        LIVE.discard(level)
        MODES.transposed = before


class differentiating(transforming):
    """The same for a reverse-mode transform, in which nobody packs what nodes save."""

    __slots__ = ()
    packs = False


def pick(args: tuple[Any, ...], argnums: Any) -> Any:
    """The arguments that `argnums` names: one, or a tuple of them."""
    if isinstance(argnums, int):
        return args[_position(argnums, len(args))]
    return tuple(args[_position(i, len(args))] for i in argnums)


def put(args: tuple[Any, ...], argnums: Any, values: Any) -> tuple[Any, ...]:
    """The arguments with those that `argnums` names replaced."""
    out = list(args)
    if isinstance(argnums, int):
        out[_position(argnums, len(args))] = values
    else:
        for i, v in zip(argnums, values):
            out[_position(i, len(args))] = v
    return tuple(out)


def check_argnums(args: tuple[Any, ...], argnums: Any) -> None:
    """Complain about argnums that name no arguments, as torch does."""
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if isinstance(argnums, tuple):
        if not argnums:
            raise RuntimeError("argnums must be non-empty")
        if len(set(argnums)) != len(argnums):
            raise RuntimeError(f"argnums elements must be unique, got {argnums}")
        for i in argnums:
            if not isinstance(i, int):
                raise RuntimeError(f"argnum must be int, got: {type(i)}")
    for i in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")


def _position(i: int, n: int) -> int:
    return i % n


def only_tensors(x: Any, complaint: str) -> tuple[list[Any], tree.Spec]:
    """The leaves of a tree of tensors; `complaint` ends in the type of anything else."""
    leaves, spec = tree.flatten(x)
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(complaint + f" {type(t)}")
    return leaves, spec


def outputs_of(out: Any, what: str) -> tuple[list[Any], tree.Spec]:
    """The tensors that a function returned, of which there must be one at least; `what` names transform and call."""
    leaves = tree.flatten(out)[0]
    if out is None or not leaves:
        raise RuntimeError(f"{what}: Expected f to be a function that has non-empty output (got output = {leaves})")
    return only_tensors(out, f"{what}: expected f(*primals) to return only tensors, got unsupported type")


def only_real(fn: str, what: str, leaves: Iterable[Any]) -> None:
    """Complain about complex tensors, of which a Jacobian could be several things."""
    for i, t in enumerate(leaves):
        if isinstance(t, Tensor) and t._m.dtype.is_complex:
            raise RuntimeError(
                f"{fn}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )


Function = Callable[..., Any]

Modes.transforming_levels = sys.modules[__name__]
