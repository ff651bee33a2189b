"""Results of a compiled function that the program computes, and whose memory they have.

A result may be one memory with another result (`return y, y[0]`), with the gradient of a leaf (`return w.grad`), or
with what the function keeps outside (`self.last = y; return y`): a later write to one is seen in the other, as in eager
code.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._core.arrays.devices import device
from ...._core.arrays.dtypes import FLOATING, dtype
from ...._core.arrays.meta import Meta
from ...._core.arrays.python_numbers import Number
from ...._core.errors.messages import AsWritten, NeedsPlainNumbers
from ...._core.jax.x64 import narrowed_for_host
from ...._core.python_classes import is_python_class
from ...._core.state import GRAD, MODES
from ...._engine.graph.history import grad_fn_of, requires_grad_of
from ...._engine.memory.strided import storage_offset
from ...._engine.memory.tensor import Storage, Tensor, make, make_of, plain_alias
from ..arguments.array_arguments import as_array
from ..arguments.number_log import ReturnedNumber
from ..trace.outside_results import (
    OutsideTensor,
    OutsideView,
    describe_outside_result,
    describe_view,
    plain_attributes,
    refuse_used_leaf,
)
from ..trace.traced_program import RunState, resolve_argument
from .compiled_backward import SpentGraph

_KNOWN = (Tensor, Number, int, float, complex, str, bytes, type(None), dtype, device, np.generic, jax.Array)
_CHANGEABLE = (set, dict, list, deque, bytearray, types.SimpleNamespace, np.ndarray)
_LEADS_ELSEWHERE = (type, types.ModuleType, types.CodeType)


def is_known(x: Any) -> bool:
    """Return whether a result is no object of the user's, in which a number or a tensor may be that nobody sees."""
    return isinstance(x, _KNOWN)


def refuse_new_objects(
    objects: Sequence[Any], knows: Callable[[Any], bool], state: RunState, given: Sequence[Any]
) -> None:
    """Refuse results that each call has to make again, where a program would return those of its first call.

    Args:
        objects: results in which values may be that nobody sees.
        knows: whether an object was there before the run.
        state: the state of the run.
        given: the arguments that are no tensors. An array of NumPy's among them is another one with equal values
            in the next call.
    """
    of_arguments = {id(s.traced_storage) for s in state.swapped}
    for x in objects:
        cls = type(x)
        memory = _memory_of(x)
        made = not (knows(x) or knows(memory)) and not isinstance(x, type | types.ModuleType)
        made |= isinstance(x, np.ndarray) and any(memory is _memory_of(a) for a in given)
        changeable = isinstance(x, _CHANGEABLE) or is_python_class(cls)
        if made and (changeable or any(id(t._st) in of_arguments for t in _tensors_held(x))):
            raise AsWritten(f"it makes and returns an object, a {cls.__name__}", lasting=True)
    if objects and state.log is not None and state.log.reads_arguments():
        raise NeedsPlainNumbers


def _memory_of(x: Any) -> Any:
    """Return what an array of NumPy's is a view of; anything else itself."""
    while isinstance(x, np.ndarray) and x.base is not None:
        x = x.base
    return x


def _tensors_held(x: Any) -> Iterator[Tensor]:
    """The tensors that an object leads to: attributes, entries, closures; not what a function names as globals."""
    seen: set[int] = set()
    ahead = [x]
    while ahead:
        part = ahead.pop()
        if id(part) in seen or type(part) is Number or isinstance(part, _LEADS_ELSEWHERE):
            continue
        seen.add(id(part))
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, types.FunctionType):
            ahead += [part.__closure__, part.__defaults__, part.__kwdefaults__, vars(part)]
        else:
            ahead += gc.get_referents(part)


class ResultTensor:
    """A tensor of the result."""

    __slots__ = ("index", "meta", "requires", "spent")

    def __init__(self, index: int, m: Meta, requires: bool = False, spent: SpentGraph | None = None) -> None:
        self.index, self.meta, self.requires, self.spent = index, m, requires, spent

    def of_array(self, array: Any) -> Tensor:
        """The result of a run that computed this."""
        return make(array, self.meta)


def with_class(out: ResultTensor, x: Tensor) -> ResultTensor:
    """How to return a tensor that the function made, with its class and attributes."""
    return out if type(x) is Tensor and not vars(x) else ResultOfClass(out, x)


class ResultBeside(ResultTensor):
    """A result that has the memory of another one, which the function made: that result itself, or a view of it.

    Where each step's results are stacked (`step.many`) it is a result like any other.
    """

    __slots__ = ("of", "view")

    def __init__(self, out: ResultTensor, of: int, view: OutsideView | None) -> None:
        super().__init__(out.index, out.meta)
        self.of, self.view = of, view


class ResultOutside(ResultTensor):
    """A result that is kept outside as well: as the gradient of a leaf, or as what a run that is not repeated has made.

    Where each step's results are stacked (`step.many`) it is a result like any other.
    """

    __slots__ = ("gradient_of", "kept", "view")

    def __init__(self, out: ResultTensor, kept: Any, gradient_of: Any, view: OutsideView | None) -> None:
        super().__init__(out.index, out.meta)
        self.kept, self.gradient_of, self.view = kept, gradient_of, view

    def tensor(self, args: Sequence[Tensor]) -> Tensor:
        """The result of a run that has written its effects."""
        owner = self.kept
        if owner is None:
            owner = resolve_argument(self.gradient_of, args)._g
        return owner if self.view is None else self.view.of_owner(owner)


class ResultOfClass(ResultTensor):
    """A result of a class derived from Tensor, or with attributes of its own."""

    __slots__ = ("attributes", "cls")

    def __init__(self, out: ResultTensor, x: Tensor) -> None:
        super().__init__(out.index, out.meta, out.requires, out.spent)
        self.cls, self.attributes = type(x), plain_attributes(x)

    def of_array(self, array: Any) -> Tensor:
        """The result of a run that computed this."""
        t: Tensor = make_of(self.cls, array, self.meta)
        t.__dict__.update(self.attributes)
        return t


class ResultLeaf(ResultOfClass):
    """A result that the function made and that requires a gradient without a graph, such as a new parameter."""

    __slots__ = ()

    def of_array(self, array: Any) -> Tensor:
        """The result of a run that computed this."""
        t = super().of_array(array)
        t._rg = True
        return t


class ResultArray(ResultTensor):
    """A result that is an array of JAX, or a key where there is an implementation of keys."""

    __slots__ = ("impl",)

    def __init__(self, out: ResultTensor, impl: Any) -> None:
        super().__init__(out.index, out.meta)
        self.impl = impl

    def of_array(self, array: Any) -> Any:
        """The result of a run that computed this."""
        return as_array(narrowed_for_host(jnp.asarray(array)), self.impl)


class MadeTensor:
    """A result, as the run has made it, without holding it: others may."""

    __slots__ = ("alias", "base", "meta", "recorded", "storage", "tensor", "view")

    def __init__(self, x: Tensor) -> None:
        self.tensor, self.storage, self.meta = weakref.ref(x), weakref.ref(x._st), x._m
        self.alias = plain_alias(x)
        base = None if x._al is None else x._al.base
        self.base = None if base is None else weakref.ref(base)
        self.view = None if base is None else describe_view(None, base, x)
        self.recorded = requires_grad_of(x) and grad_fn_of(x) is not None


def result_of_memory(
    state: RunState, out: ResultTensor, x: Tensor, beside: tuple[int, OutsideView | None] | None
) -> ResultTensor | None:
    """How to return a result without a graph of its own, or of another one's memory; None for any other.

    `beside` is the place of the result whose memory it has, and the view of that.
    """
    if beside is not None:
        return ResultBeside(out, *beside)
    requires = requires_grad_of(x)
    for known in list(state.known_tensors.values()):
        g = known.tensor._g
        if g is None or g._st is not x._st:
            continue
        if g is not x and not _has_all_memory(g):  # which is memory of its own after the run
            raise AsWritten("it returns a tensor of whose memory a gradient is a part", lasting=True)
        view = None if g is x or requires else describe_view(None, g, x)
        if g is x or view is not None:
            return ResultOutside(out, None, state.named(known.tensor), view)
    if not requires or grad_fn_of(x) is not None or not state.made(x._st):
        return None
    refuse_used_leaf(x)
    return ResultLeaf(out, x)


def refuse_kept_graph(kept: Sequence[Storage]) -> None:
    """A tensor that is kept outside may have a graph, which begins at an argument; the argument has one of its own."""
    if MODES.bits & GRAD and any(st.meta.dtype.category >= FLOATING for st in kept):
        raise AsWritten("it keeps a tensor outside, and an argument of it has a graph", lasting=True)


def return_what_is_kept(
    outs: Sequence[Any], made: Sequence[tuple[ResultTensor, MadeTensor]], kept: Sequence[Storage]
) -> list[Any]:
    """The results of a run, where those whose storages somebody outside keeps are on these storages.

    Such a run is not repeated, so what it has made is what there is to return.
    """
    if not kept:
        return list(outs)
    replaced: dict[int, ResultTensor] = {}
    for out, x in made:
        storage = x.storage()
        beside = isinstance(out, ResultBeside | ResultOutside)
        if beside or storage is None or not any(storage is st for st in kept):
            continue
        if x.recorded:
            raise AsWritten("it keeps a tensor outside that it returns and that has a graph", lasting=True)
        t, base = x.tensor(), None if x.base is None else x.base()
        if t is not None:
            replaced[id(out)] = ResultOutside(out, t, None, None)
        elif base is not None and x.view is not None:
            replaced[id(out)] = ResultOutside(out, base, None, x.view)
        else:
            t = make(storage.array, x.meta)
            t._st = t._vc = storage
            t._al = x.alias
            replaced[id(out)] = ResultOutside(out, t, None, None)
    return [replaced.get(id(o), o) for o in outs]


def with_common_bases(leaves: Sequence[Any]) -> list[Any]:
    """The results, and after them bases that no result is, of results that share elements.

    In `rows = stack(...); return rows[0], rows` the second is all of the memory, and the first is made of it again. In
    `return rows[0], rows[:, 0]` none is, so the program gives their base, too.
    """
    added: list[Tensor] = []
    for group in _groups_of_one_storage(leaves):
        tensors = list({id(x): x for x in group}.values())
        if any(map(_has_all_memory, tensors)) or not _any_share_elements(tensors):
            continue
        bases = [x._al.base for x in tensors if x._al is not None and x._al.base is not None]
        bases.sort(key=requires_grad_of, reverse=True)
        whole = next(filter(_has_all_memory, bases), None)
        if whole is None:
            st = tensors[0]._st
            whole = make(st.array, st.meta)
            whole._st = whole._vc = st
        added.append(whole)
    return [*leaves, *added]


def _groups_of_one_storage(leaves: Sequence[Any]) -> list[list[Tensor]]:
    groups: dict[int, list[Tensor]] = {}
    for x in leaves:
        if isinstance(x, Tensor) and describe_outside_result(MODES.run.uses, x) is None:
            groups.setdefault(id(x._st), []).append(x)
    return [group for group in groups.values() if len(group) > 1]


def _any_share_elements(tensors: Sequence[Tensor]) -> bool:
    if len(tensors) > _FEW:
        return True
    st = tensors[0]._st
    memory = np.empty(st.meta.extent * st.meta.dtype.itemsize, np.uint8)  # which nothing looks at
    places = [_place_in(memory, x) for x in tensors]
    try:
        return any(np.shares_memory(a, b, max_work=_EFFORT) for a, b in combinations(places, 2))
    except np.exceptions.TooHardError:
        return True


def _place_in(memory: np.ndarray, x: Tensor) -> np.ndarray:
    """The elements of a tensor within the memory of its storage."""
    size = x._m.dtype.itemsize
    steps = [size * s for s in x._m.strides]
    return np.ndarray(x._m.shape, f"V{size}", memory, size * storage_offset(x), steps)


_FEW = 100
"""How many tensors are compared; more are taken to share elements."""
_EFFORT: Any = 100
"""How hard NumPy tries to tell whether two share elements."""


def made_inside(leaves: Sequence[Any]) -> dict[int, tuple[int, OutsideView | None]]:
    """Which results have the memory of another one that the function made, by their places: its place, and the view.

    A storage from outside is not the function's: `describe_outside_result` has those.
    """
    places = {
        k: x
        for k, x in enumerate(leaves)
        if isinstance(x, Tensor) and describe_outside_result(MODES.run.uses, x) is None
    }
    whole: dict[int, int] = {}
    for k in sorted(places, key=lambda k: not requires_grad_of(places[k])):
        if _has_all_memory(places[k]):
            whole.setdefault(id(places[k]._st), k)
    found: dict[int, tuple[int, OutsideView | None]] = {}
    first: dict[int, int] = {}
    for k, x in places.items():
        of = whole.get(id(x._st), k)
        if first.setdefault(id(x), k) != k:
            found[k] = first[id(x)], None
        elif of != k and (view := describe_view(None, leaves[of], x)) is not None:
            found[k] = of, view
    alone = [x for k, x in places.items() if k not in found]
    for group in _groups_of_one_storage(alone):
        if _any_share_elements(group):
            raise AsWritten("two of its results share memory, and one is no plain view of the other", lasting=True)
    return found


def _has_all_memory(x: Tensor) -> bool:
    """Return whether a tensor is all of its storage, as it is or in another shape."""
    al = x._al
    if al is None:
        return True
    plain = not (al.offset or al.conj or al.neg or al.chain)
    return plain and x._m.dense and x._m.numel == x._st.meta.numel and x._m.dtype is x._st.meta.dtype


ELSEWHERE = (OutsideTensor, OutsideView, ReturnedNumber)
"""What stands for results that the program does not compute."""
