"""Results of a compiled function that are tensors from outside, or views of them: they share memory."""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...._core.arrays.meta import Meta
from ...._core.errors.messages import AsWritten
from ...._core.python_values import PLAIN_VALUES
from ...._engine.graph.history import edge_of, grad_fn_of, requires_grad_of, view_node
from ...._engine.memory.strided import storage_offset
from ...._engine.memory.tensor import Alias, Tensor, Version, alias_of, is_plain
from ...._engine.run.trace import ViewPlan
from ..arguments import object_trees
from .traced_program import RunState, resolve_argument


class OutsideTensor:
    """An argument (its number) or a tensor from outside, returned as it is."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def tensor(self, args: Sequence[Tensor]) -> Tensor:
        """The result of a run on these arguments."""
        return resolve_argument(self.of, args)


class OutsideView:
    """A view of one, or another tensor on its storage, made again for each run."""

    __slots__ = ("alias", "attributes", "cls", "counted", "leaf", "meta", "node", "of", "through")

    def __init__(self, of: Any, owner: Tensor, x: Tensor, through: OutsideView | None = None) -> None:
        self.of, self.through = of, through
        self.meta: Meta = x._m
        self.alias = _seen_from(owner, x)
        self.counted = x._vc is owner._vc
        fn = grad_fn_of(x) if requires_grad_of(x) else None
        self.node = None if fn is None else fn.name()
        self.cls, self.attributes = type(x), plain_attributes(x)
        self.leaf = fn is None and requires_grad_of(x)
        """Whether it requires a gradient by itself, whatever it shows."""

    def tensor(self, args: Sequence[Tensor]) -> Tensor:
        """The result of a run on these arguments."""
        return self.of_owner(resolve_argument(self.of, args))

    def of_owner(self, owner: Tensor) -> Tensor:
        """The view of this tensor."""
        if self.through is not None:
            owner = self.through.of_owner(owner)
        t = rebuild_view(owner, self.meta, self.alias, self.node, self.counted, self.cls)
        t._rg = t._rg or self.leaf
        t.__dict__.update(self.attributes)
        return t


class GivenContainer:
    """A list, a dict or an object that is taken apart among the arguments, returned as it is."""

    __slots__ = ("_is_object", "path")

    def __init__(self, path: tuple[int, ...], is_object: Callable[[Any], bool]) -> None:
        self.path, self._is_object = path, is_object

    def container(self, given: Any) -> Any:
        """The one of a run on these arguments."""
        for k in self.path:
            given = _parts_of(given, self._is_object)[k]
        return given


class ContainersFromOutside:
    """The lists and dicts that a function is given, or reaches, each of which is one result where it is returned.

    An object among the arguments that is new in each call, such as a cache, is one of them.

    Args:
        given: the arguments.
        reached: identities of what the function reaches in other ways.
        is_object: whether an argument is an object that is taken apart.
    """

    def __init__(self, given: Any, reached: Collection[int], is_object: Callable[[Any], bool]) -> None:
        self._given: dict[int, GivenContainer] = {}
        self._reached, self._is_object = reached, is_object
        self._add(given, ())

    def _add(self, x: Any, path: tuple[int, ...]) -> None:
        if isinstance(x, _MUTABLE) or self._is_object(x):
            self._given.setdefault(id(x), GivenContainer(path, self._is_object))
        for k, part in enumerate(_parts_of(x, self._is_object)):
            self._add(part, (*path, k))

    def __contains__(self, x: Any) -> bool:
        if not isinstance(x, _MUTABLE) and not self._is_object(x):
            return False
        reached, given = id(x) in self._reached, id(x) in self._given
        if reached and given:
            raise AsWritten("it returns an argument that it reaches in another way, too", False)
        return reached or given

    def description(self, x: Any) -> Any:
        """Return what stands for a result: of an argument, where it is among the arguments."""
        return self._given.get(id(x), x)


_MUTABLE = (list, dict, deque)


def _parts_of(x: Any, is_object: Callable[[Any], bool]) -> Sequence[Any]:
    parts = object_trees.parts_of(x, lambda x: is_object(x) or object_trees.is_plain_object(x))
    return () if parts is None else parts[0]


def _seen_from(owner: Tensor, x: Tensor) -> Alias | None:
    """How a view reads its storage, from where its owner begins and as the owner reads it; without keeping the base."""
    alias, own = _without_base(x._al), owner._al
    if alias is not None and own is not None:
        alias.offset -= own.offset * owner._m.dtype.itemsize // x._m.dtype.itemsize
        alias.conj, alias.neg = alias.conj ^ own.conj, alias.neg ^ own.neg
    return alias


def _without_base(al: Alias | None) -> Alias | None:
    """How a view reads its storage, and that it has a base, without keeping the base."""
    if al is None:
        return None
    out = Alias(al.offset, None if al.base is None else True, al.creation, 0)
    out.conj, out.neg, out.chain = al.conj, al.neg, al.chain
    return out


def rebuild_view(
    owner: Tensor, m: Meta, seen: Alias | None, node: str | None, counted: bool = True, cls: type = Tensor
) -> Tensor:
    """A view of `owner` that looks as `m`, and begins where a view made in a run began, which `seen` says.

    Args:
        owner: what the run's own tensor stands for.
        m: the shape and strides of the view.
        seen: how the view read the storage of the run's tensor, as that tensor read it.
        node: the name of its node, if it is to be recorded.
        counted: whether it has the version counter of its owner.
        cls: the class of the view.
    """
    own = owner._al
    at = storage_offset(owner) * owner._m.dtype.itemsize // m.dtype.itemsize
    at += 0 if seen is None else seen.offset
    base = None
    if seen is not None and seen.base is not None:
        base = owner if own is None or own.base is None else own.base
    creation = 0 if seen is None else seen.creation
    alias = Alias(at, base, creation, owner._vc.version)
    for al in (own, seen):
        if al is not None:
            alias.conj, alias.neg = alias.conj ^ al.conj, alias.neg ^ al.neg
    if seen is not None:
        alias.chain = seen.chain
    t: Tensor = alias_of(owner, m, alias, None if counted else Version(), cls)
    if node is not None and base is not None:
        alias.replay = node
        t._fn = view_node(edge_of(base), base, t, node)
        t._onr, t._rg = 0, True
    return t


def plain_attributes(x: Tensor) -> dict[str, Any]:
    """The attributes that the function has given a result, which each run gives the one that it makes."""
    held = dict(vars(x))
    if not all(type(v) in PLAIN_VALUES for v in held.values()):
        raise AsWritten("it returns a tensor with attributes that are no plain values", lasting=True)
    return held


def is_detached_leaf(x: Tensor) -> bool:
    """Return whether a tensor requires a gradient by itself, whatever it shares its memory with."""
    return (x._al is None or x._al.base is None) and requires_grad_of(x) and grad_fn_of(x) is None


def refuse_used_leaf(x: Tensor) -> None:
    """A leaf that a run has made is made again by each: it cannot be part of a graph, or have hooks, at once."""
    if x._acc is not None or x._g is not None or not is_plain(x) or vars(x):
        raise AsWritten("it returns a leaf that it has made and used", lasting=True)


def settle_kept_views(kept: Sequence[tuple[Any, int, bool]], args: Sequence[Tensor]) -> None:
    """Put what a trace made on the memory of arguments, and left outside, on the storages that the arguments have.

    Args:
        kept: weak references to such tensors, which arguments they are views of, and whether they share the counter.
        args: the arguments, which have their own storages again.
    """

    def goes_on_into_a_graph() -> bool:
        found = [(t, args[i]) for ref, i, _ in kept if (t := ref()) is not None]
        return any(requires_grad_of(t) and (x._fn is not None or x._al is not None) for t, x in found)

    if goes_on_into_a_graph():
        gc.collect()  # what only a cycle holds is of no concern
        if goes_on_into_a_graph():
            raise AsWritten(_KEPT_VIEW, lasting=True)
    for ref, i, counted in kept:
        t = ref()
        if t is None:
            continue
        owner, al = args[i], t._al
        fresh = rebuild_view(owner, t._m, _without_base(al), None)
        if al is not None and fresh._al is not None:
            fresh._al.replay = al.replay
            if al.base is not owner:  # such as what was detached from the argument
                fresh._al.base = al.base
        t._st, t._al = fresh._st, fresh._al
        if counted:
            t._vc = owner._vc


def refuse_view_as_leaf(x: Tensor) -> None:
    """A view of a tensor from outside may be made a leaf in eager code, where it stays a view."""
    base = None if x._al is None else x._al.base
    if base is not None and not requires_grad_of(base) and requires_grad_of(x):
        raise AsWritten("it returns a view that it has made require a gradient", lasting=True)


def describe_outside_result(state: RunState, x: Tensor) -> OutsideTensor | OutsideView | None:
    """Return what to return for a tensor of the result that shares memory with the outside; None for others."""
    st = x._st
    state.refuse_last_rates(x)
    for i, (t, _, _, _, al, inner, *_) in enumerate(state.swapped):
        if inner is st:
            if x is t:
                return OutsideTensor(i)
            refuse_view_as_leaf(x)
            if is_detached_leaf(x):
                refuse_used_leaf(x)
            # Outside it reads its memory as another dtype, or conjugated.
            if al is not None and al.chain:
                raise AsWritten(_VIEW_OF_A_VIEW, lasting=True)
            if al is not None and al.base is not None and requires_grad_of(x):
                raise AsWritten(_VIEW_OF_A_VIEW, lasting=True)  # whose graph goes by way of both
            view = describe_view(i, t, x)
            if view is None:
                raise AsWritten(_VIEW_OF_A_FUNCTION, lasting=True)
            return view
    leaf = state.gradient_of.get(id(st))
    if leaf is not None and id(leaf) in state.grad_looked_at:
        return None  # else the function has it from elsewhere
    if state.run.ours(st.array) and id(st) not in state.storages:
        return None
    if x._al is None or not any(made() is x for made in state.own_aliases):
        return OutsideTensor(x)
    refuse_view_as_leaf(x)
    owner = x._al.base
    if owner is None and not requires_grad_of(x):
        return OutsideTensor(x)  # what was detached from a view: it has the memory, and no base
    view = None if owner is None or owner._al is not None else describe_view(owner, owner, x)
    if view is None:
        raise AsWritten(_VIEW_OF_A_VIEW, lasting=True)
    return view


_VIEW_OF_A_FUNCTION = (
    "it returns a view of an argument that a custom Function made, which has the memory of the argument; `clone()` of "
    "it has memory of its own"
)
_KEPT_VIEW = (
    "it keeps a view of an argument outside, and the argument is a view itself or has a graph; keep what is "
    "detached, or a `clone()`"
)
_VIEW_OF_A_VIEW = (
    "it returns a view of a tensor from outside that is a view itself, which a program cannot make; `clone()` of it "
    "has memory of its own"
)


def own_constants(state: RunState, leaves: Sequence[Any]) -> None:
    """Have each run make the constants that it returns, as those of `zeros`: the caller may write to them.

    One that somebody else holds, a list outside for example, is the very tensor that is returned.
    """
    results = {id(x): x for x in leaves if isinstance(x, Tensor) and _is_plain_or_leaf(x)}
    held = Counter(map(id, leaves))
    held.update(id(x._al.base) for x in results.values() if x._al is not None)
    held.update(id(source.of) for source in state.sources)
    held.update(state.known_tensors.keys())
    for t in results.values():
        if sys.getrefcount(t) - _OWN_REFERENCES <= held[id(t)]:
            state.own_constant(t)


def _is_plain_or_leaf(x: Tensor) -> bool:
    if requires_grad_of(x):
        return grad_fn_of(x) is None
    return type(x) is Tensor


def _own_references() -> int:
    results = {0: object()}
    return next(sys.getrefcount(t) for t in results.values())


_OWN_REFERENCES = _own_references()
"""What `sys.getrefcount` gives in `own_constants` for a result that nobody but its dict holds."""


def describe_view(of: Any, owner: Tensor, x: Tensor) -> OutsideView | None:
    """What rebuilds `x` from its owner: a view of it, or a view of what was detached from it; None for others."""
    if is_plain_view_of(x, owner):
        return OutsideView(of, owner, x)
    base = None if x._al is None else x._al.base
    if base is None or not is_plain_view_of(base, owner):
        return None
    return OutsideView(of, base, x, OutsideView(of, owner, base)) if is_plain_view_of(x, base) else None


def is_plain_view_of(x: Tensor, owner: Tensor) -> bool:
    """Return whether `x` is `owner` seen otherwise, and its place in the graph, if it has one, that of a plain view."""
    al = x._al
    if al is not None and al.base is not None and al.base is not owner:
        return False
    if not requires_grad_of(x) or is_detached_leaf(x):
        return True
    fn = grad_fn_of(x)
    if al is None:
        return False
    if fn is None:  # a view that nobody recorded: it requires grad because its base does
        return al.base is owner
    goal = edge_of(owner)
    while fn.gp is not None and isinstance(fn.gp.plan, ViewPlan) and fn.edges[0] is not None:
        if fn.edges == (goal,):
            return True
        fn = fn.edges[0][0]
    return False
