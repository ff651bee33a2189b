"""Tensors of which each process along a dimension of a mesh has a summand: `Partial`.

For example, `DTensor.from_local(x, mesh, [Partial()])` is the sum of what all processes give, and so is `x.sum()` of a
tensor that is split. The array of such a tensor is the whole sum, which all devices have, and a note beside the array
keeps what this process gave (`_core/arrays/summands.py`). An operator whose result is a reduction of what it gives for
the processes' parts (`_reductions.py`) runs on these, and then the results are reduced: that is what XLA would do, too.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..._core.arrays import summands
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.placement import names_of
from ..._core.arrays.summands import Summands
from ..._core.jax.own_kernels import jit
from ..._engine.memory.strided import is_direct, read
from ..._engine.memory.tensor import Tensor, kept_array
from ..._engine.run.trace import Plan, ViewPlan, aval
from ..device_mesh import DeviceMesh
from ._parts import block_of
from ._reductions import State, Unknown, found_in, traced
from .placement_types import Partial, Placement


def note_of(t: Tensor) -> Summands | None:
    """Return what is known of the summands of a tensor; None for one that is no reduction."""
    found = summands.summands_of(kept_array(t._st))  # nothing is gathered for the question
    return found if found is None or is_direct(t) else summands.summands_of(read(t))


def say_summands(t: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], own: Any = None) -> Tensor:
    """Note along which dimensions of the mesh a tensor counts as summands.

    Args:
        t: the whole, which all processes along these dimensions have.
        mesh: its mesh.
        placements: its placements.
        own: this process's summand; if None, the first process has the whole, and the others what changes nothing.
    """
    rows = zip(mesh.axes, placements, strict=True)
    found = {a: p.reduce_op for axes, p in rows if isinstance(p, Partial) for a in axes}
    if found:
        array = read(t)
        if own is None and not array.sharding.is_fully_addressable:
            own = block_of(t)
            for number, p in enumerate(placements):
                if isinstance(p, Partial) and p.reduce_op in _NOTHING and mesh.get_local_rank(number):
                    own = np.full_like(own, _NOTHING[p.reduce_op])
        summands.note(array, Summands(None if array.sharding.is_fully_addressable else own, found))
    return t


_NOTHING = {"sum": 0, "product": 1}
"""What changes nothing in a reduction where not all summands may be the whole."""


def reductions_of(t: Tensor, mesh: DeviceMesh) -> tuple[Partial | None, ...]:
    """How each dimension of the mesh reduces a tensor; None for one that does not."""
    found = note_of(t)
    ops = {} if found is None else found.reductions
    return tuple(Partial(ops[axes[0]]) if axes[0] in ops else None for axes in mesh.axes)


def without_note(t: Tensor) -> Tensor:
    """Have a fresh tensor hold its array without a note of summands."""
    array = t._st.array
    if summands.summands_of(array) is not None:
        parts = [s.data for s in array.addressable_shards]
        t._st.array = jax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)
    return t


def own_of(array: Any) -> Any:
    """Return what this process's one device has of an array."""
    return array.addressable_data(0)


# --- operators that give summands -----------------------------------------------------------------


def run(kernel: Any, plan: Any, args: Sequence[Any]) -> Any:
    """Run a kernel, on the parts of this process if the result is a reduction of theirs."""
    meshes = [m for x in args if (m := _mesh(x)) is not None]
    if not meshes:
        return kernel(*args)
    mesh = meshes[0]
    if any(other != mesh for other in meshes):
        raise ValueError("arguments on different meshes")  # of which the caller knows the name
    if not isinstance(plan, Plan) or isinstance(plan, ViewPlan) or not plan.single:
        return kernel(*args)
    notes = [summands.summands_of(x) for x in args]
    states = tuple(_state(x, mesh, n) for x, n in zip(args, notes, strict=True))
    if not any(states):
        return kernel(*args)
    known = _WAYS.setdefault(plan, {})
    key = (mesh, tuple(tuple(s.items()) for s in states))
    if key not in known:
        known[key] = _way(plan, mesh, args, states)
    way = known[key]
    return kernel(*args) if way is None else way.run(args, notes)


def _mesh(x: Any) -> Any:
    there = getattr(x, "sharding", None)
    if not isinstance(there, NamedSharding) or isinstance(x, jax.core.Tracer) or there.is_fully_addressable:
        return None
    return there.mesh if len(there.addressable_devices) == 1 else None


def _state(x: Any, mesh: Any, found: Summands | None) -> State:
    if _mesh(x) != mesh:
        return {}
    spec = x.sharding.spec
    return {**({} if found is None else found.reductions), **{a: d for d, e in enumerate(spec) for a in names_of(e)}}


class _Way:
    """How the processes compute a result of their own parts."""

    def __init__(self, plan: Plan, mesh: Any, takes: Sequence[Any], avals: Sequence[Any], out: State) -> None:
        keys = list(plan.keys)
        for i, a in zip(plan.present, avals, strict=True):
            k = keys[i]
            if isinstance(k, Meta):
                keys[i] = meta(tuple(a.shape), k.dtype, k.device)
        self.plan, self.takes = plan.call.plan(tuple(keys)), takes
        shape = plan.outs[0].shape
        self.ops = {axis: what for axis, what in out.items() if isinstance(what, str)}
        self.shape = (*[mesh.shape[a] for a in self.ops], *shape)
        self.there = _sharding(mesh, out, len(shape), tuple(self.ops))
        self.reduce = _reducer(tuple(self.ops.values()), _sharding(mesh, out, len(shape)))

    def run(self, args: Sequence[Any], notes: Sequence[Summands | None]) -> Any:
        own = self.plan.fwd(*[take(x, n) for take, x, n in zip(self.takes, args, notes, strict=True)])
        (device,) = self.there.addressable_devices
        part = jax.device_put(own, device)
        stacked = part[(None,) * len(self.ops)]
        whole = self.reduce(jax.make_array_from_single_device_arrays(self.shape, self.there, [stacked]))
        return summands.note(whole, Summands(own, self.ops))


_WAYS: WeakKeyDictionary[Plan, dict[Any, _Way | None]] = WeakKeyDictionary()
"""For each plan and the states of its arguments."""


@functools.cache
def _reducer(ops: tuple[str, ...], there: NamedSharding) -> Any:
    def reduce(stacked: Any) -> Any:
        for op in ops:
            truth = stacked.dtype == bool and op in ("sum", "product")
            do = {"sum": jnp.any, "product": jnp.all}[op] if truth else _REDUCE[op]
            stacked = do(stacked, axis=0).astype(stacked.dtype)
        return stacked

    return jit(reduce, out_shardings=there)


_REDUCE = {"sum": jnp.sum, "avg": jnp.mean, "max": jnp.max, "min": jnp.min, "product": jnp.prod}


def _way(plan: Plan, mesh: Any, args: Sequence[Any], states: Sequence[State]) -> _Way | None:
    """How a call gives summands, if it does, by the first of `_tries` that the steps of the operator permit."""
    sizes, avals = mesh.shape, _avals(plan)
    for number, (takes, tried) in enumerate(_tries(args, states, mesh)):
        parts = [_part_aval(a, s, sizes) for a, s in zip(avals, tried, strict=True)]
        if None in parts:
            continue
        try:
            part = traced(plan, parts)
        except Exception:  # whatever the operator says of parts that do not go together
            continue
        try:
            (out,) = found_in(traced(plan, avals), part, tried, sizes)
        except Unknown:
            continue
        if any(isinstance(what, str) for what in out.values()):
            return _Way(plan, mesh, takes, parts, out)
        if not number:
            return None
    return None


def _avals(plan: Plan) -> list[Any]:
    return [aval(plan.keys[i]) for i in plan.present]


def _part_aval(a: Any, state: State, sizes: Mapping[str, int]) -> Any:
    shape = list(a.shape)
    for axis, what in state.items():
        if isinstance(what, int):
            if shape[what] % sizes[axis]:
                return None
            shape[what] //= sizes[axis]
    return jax.ShapeDtypeStruct(tuple(shape), a.dtype, weak_type=a.weak_type)


Try = tuple[list[Any], list[State]]
"""For each argument what a process takes of it, and the state of that."""


def _tries(args: Sequence[Any], states: Sequence[State], mesh: Any) -> Iterator[Try]:
    """The ways to give arguments to the processes, first as they are.

    Then an argument that all processes have is cut as one that is split, as the weight of `x @ w` where the columns of
    `x` are split; or counts as equal summands, as a bias that is added. Of several reductions the later ones count as
    what they are reduced to, as in a product.
    """
    plain: Try = [_own] * len(args), list(states)
    arrays = [i for i, x in enumerate(args) if hasattr(x, "shape")]
    whole = [i for i in arrays if not states[i]]
    reduced = [i for i, s in enumerate(states) if _reduces(s)]
    sums: State = {a: "sum" for s in states for a, w in s.items() if w == "sum" or not reduced}
    yield plain
    for changes in [{}, *_cuts(args, states, whole, mesh), *_gathered(args, states, mesh)]:
        if changes:
            yield _changed(plain, changes)
        rest = [i for i in arrays if i not in changes and i not in reduced and not sums.keys() <= states[i].keys()]
        equal = {i: _equal_parts(states[i], sums, mesh) for i in rest if jnp.issubdtype(args[i].dtype, jnp.inexact)}
        if equal:
            yield _changed(plain, changes | equal)
    if len(reduced) > 1:
        yield _changed(plain, {i: (_whole, _split_only(states[i])) for i in reduced[1:]})


def _reduces(state: State) -> bool:
    return any(isinstance(what, str) for what in state.values())


def _split_only(state: State) -> State:
    return {axis: what for axis, what in state.items() if isinstance(what, int)}


def _equal_parts(state: State, sums: State, mesh: Any) -> tuple[Any, State]:
    """A process's equal share of what all have along the axes of some sums."""
    more = {axis: what for axis, what in sums.items() if axis not in state}
    return partial(_equal, n=math.prod(mesh.shape[axis] for axis in more)), {**state, **more}


def _changed(plain: Try, changes: Mapping[int, Any]) -> Try:
    takes, states = list(plain[0]), list(plain[1])
    for i, (take, state) in changes.items():
        takes[i], states[i] = take, state
    return takes, states


def _cuts(args: Sequence[Any], states: Sequence[State], whole: Sequence[int], mesh: Any) -> Iterator[dict[int, Any]]:
    """How arguments that all processes have may be cut along dimensions as long as one that is split."""
    like = next((i for i, s in enumerate(states) if s and not _reduces(s)), None)
    if like is None:
        return
    of, shape = states[like], args[like].shape
    same = [i for i in whole if args[i].shape == shape]
    if same:
        yield {i: (partial(_cut, there=_sharding(mesh, of, len(shape))), of) for i in same}
    for i in whole:
        for dims in itertools.product(range(args[i].ndim), repeat=len(of)):
            if all(args[i].shape[d] == shape[w] for d, w in zip(dims, of.values(), strict=True)):
                state = dict(zip(of, dims, strict=True))
                yield {i: (partial(_cut, there=_sharding(mesh, state, args[i].ndim)), state)}


def _gathered(args: Sequence[Any], states: Sequence[State], mesh: Any) -> Iterator[dict[int, Any]]:
    """How an argument may be put together along an axis that splits others, too."""
    for i, state in reversed([*enumerate(states)]):
        for axis in state:
            if not _reduces(state) and any(axis in s for j, s in enumerate(states) if j != i):
                rest = {a: w for a, w in state.items() if a != axis}
                yield {i: (partial(_moved, there=_sharding(mesh, rest, args[i].ndim)), rest)}


def _sharding(mesh: Any, state: State, ndim: int, first: Sequence[str] = ()) -> NamedSharding:
    """The sharding of an array with a state, whose first dimensions are split by axes of their own."""
    entries: list[list[str]] = [[] for _ in range(ndim)]
    for axis, what in state.items():
        if isinstance(what, int):
            entries[what].append(axis)
    while entries and not entries[-1]:
        entries.pop()
    return NamedSharding(mesh, PartitionSpec(*first, *[tuple(e) if e else None for e in entries]))


def _own(x: Any, found: Summands | None) -> Any:
    if found is not None:
        return found.own
    return own_of(x) if _mesh(x) is not None else x


def _whole(x: Any, found: Summands | None) -> Any:
    return own_of(x) if _mesh(x) is not None else x


def _cut(x: Any, found: Summands | None, there: Any) -> Any:
    (index,) = there.addressable_devices_indices_map(x.shape).values()
    return _whole(x, None)[index]


def _moved(x: Any, found: Summands | None, there: Any) -> Any:
    return own_of(_mover(there)(x))


@functools.cache
def _mover(there: NamedSharding) -> Any:
    return jit(lambda x: x, out_shardings=there)


def _equal(x: Any, found: Summands | None, n: int) -> Any:
    return _whole(x, None) / n
