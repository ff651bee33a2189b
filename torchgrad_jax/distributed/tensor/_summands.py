"""Tensors of which each process along a dimension of a mesh has a summand: `Partial`.

For example, `DTensor.from_local(x, mesh, [Partial()])` is the sum of what all processes give, and so is `x.sum()` of a
tensor that is split. The array of such a tensor is the whole sum, which all devices have, and a note beside the array
keeps what this process gave (`_core/arrays/summands.py`). An operator whose result is a reduction of what it gives for
the processes' parts (`_reductions.py`) runs on these, and then the results are reduced: that is what XLA would do, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
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
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor
from ..._engine.run.trace import Plan, ViewPlan, aval
from ..device_mesh import DeviceMesh
from ._reductions import State, Unknown, found_in, traced
from .placement_types import Partial, Placement


def note_of(t: Tensor) -> Summands | None:
    """What is known of the summands of a tensor; None for one that is no reduction."""
    return summands.summands_of(read(t))


def say_summands(t: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], own: Any = None) -> Tensor:
    """Note along which dimensions of the mesh a tensor counts as summands.

    Args:
        t: the whole, which all processes along these dimensions have.
        mesh: its mesh.
        placements: its placements.
        own: this process's summand; if None, the first process has the whole, and the others what changes nothing.
    """
    found = {a: p.reduce_op for axes, p in zip(mesh.axes, placements, strict=True) if isinstance(p, Partial) for a in axes}
    if found:
        array = read(t)
        if own is None:
            own = own_of(array)
            for number, p in enumerate(placements):
                if isinstance(p, Partial) and p.reduce_op in _NOTHING and mesh.get_local_rank(number):
                    own = np.full_like(own, _NOTHING[p.reduce_op])
        summands.note(array, Summands(own, found))
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
    """What this process's one device has of an array."""
    return array.addressable_data(0)


# --- operators that give summands -----------------------------------------------------------------


def run(kernel: Any, plan: Any, args: Sequence[Any]) -> Any:
    """Run a kernel, on the parts of this process if the result is a reduction of theirs."""
    mesh = next((m for x in args if (m := _mesh(x)) is not None), None)
    if mesh is None or not isinstance(plan, Plan) or isinstance(plan, ViewPlan) or not plan.single:
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
        entries: list[list[str]] = [[] for _ in shape]
        for axis, what in out.items():
            if isinstance(what, int):
                entries[what].append(axis)
        self.ops = {axis: what for axis, what in out.items() if isinstance(what, str)}
        split = [tuple(e) if e else None for e in entries]
        self.shape = (*[mesh.shape[a] for a in self.ops], *shape)
        self.there = NamedSharding(mesh, PartitionSpec(*self.ops, *split))
        self.reduce = _reducer(tuple(self.ops.values()), NamedSharding(mesh, PartitionSpec(*split)))

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

    return jax.jit(reduce, out_shardings=there)


_REDUCE = {"sum": jnp.sum, "avg": jnp.mean, "max": jnp.max, "min": jnp.min, "product": jnp.prod}


def _way(plan: Plan, mesh: Any, args: Sequence[Any], states: Sequence[State]) -> _Way | None:
    """How a call gives summands, if it does: first with the arguments as they are.

    Else whole arguments are cut as those beside them, as the targets of a loss, or count as equal summands, as a bias
    that is added; and of several reductions the later ones count as whole, as in a product.
    """
    sizes = mesh.shape
    for takes, tried in _tries(args, states, sizes):
        avals = [_part_aval(a, s, sizes) for a, s in zip(_avals(plan), tried, strict=True)]
        if None in avals:
            continue
        try:
            (out,) = found_in(traced(plan, _avals(plan)), traced(plan, avals), tried, sizes)
        except Unknown:
            continue
        if not any(isinstance(what, str) for what in out.values()):
            return None
        return _Way(plan, mesh, takes, avals, out)
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


def _tries(args: Sequence[Any], states: Sequence[State], sizes: Mapping[str, int]) -> Any:
    """Each way to give the arguments to a process: what it takes of each of them, and their states."""
    as_is = [_own] * len(args)
    yield as_is, states
    arrays = [hasattr(x, "shape") for x in args]
    split = next((i for i, s in enumerate(states) if any(isinstance(w, int) for w in s.values())), None)
    if split is not None:
        like, there = states[split], args[split].sharding
        same = [a and not s and x.shape == args[split].shape for a, s, x in zip(arrays, states, args, strict=True)]
        if any(same) and not any(isinstance(w, str) for w in like.values()):
            cut = functools.partial(_cut, there=there)
            yield [cut if s else _own for s in same], [like if s else t for s, t in zip(same, states, strict=True)]
    reduced = [i for i, s in enumerate(states) if any(isinstance(w, str) for w in s.values())]
    if not reduced:
        return
    sums = {a: w for a, w in states[reduced[0]].items() if w == "sum"}
    if sums and not any(isinstance(w, int) for w in states[reduced[0]].values()):
        n = math.prod(sizes[a] for a in sums)
        whole = [a and not s for a, s in zip(arrays, states, strict=True)]
        if any(whole):
            equal = functools.partial(_equal, n=n)
            yield [equal if w else _own for w in whole], [sums if w else s for w, s in zip(whole, states, strict=True)]
    if len(reduced) > 1:
        takes, tried = list(as_is), list(states)
        for i in reduced[1:]:
            takes[i] = _whole
            tried[i] = {a: w for a, w in states[i].items() if isinstance(w, int)}
        yield takes, tried


def _own(x: Any, found: Summands | None) -> Any:
    if found is not None:
        return found.own
    return own_of(x) if _mesh(x) is not None else x


def _whole(x: Any, found: Summands | None) -> Any:
    return own_of(x) if _mesh(x) is not None else x


def _cut(x: Any, found: Summands | None, there: Any) -> Any:
    (index,) = there.addressable_devices_indices_map(x.shape).values()
    return _whole(x, None)[index]


def _equal(x: Any, found: Summands | None, n: int) -> Any:
    return _whole(x, None) / n
