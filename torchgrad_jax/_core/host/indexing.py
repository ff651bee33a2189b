"""Gathering, scattering and slices at places that are values, as NumPy does them: for the table of `host_steps`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..errors.checks import all_between

Step = Callable[..., Any]


def dynamic_slice(params: Any, ins: Any, outs: Any) -> Step | None:
    """`dynamic_slice`."""
    sizes, shape = params["slice_sizes"], ins[0].shape
    if len(ins) != 1 + len(shape):
        return None
    if len(shape) == 1:
        (size,), last = sizes, shape[0] - sizes[0]

        def part(x: Any, start: Any) -> Any:
            s = min(max(int(start), 0), last)
            return x[s : s + size]

        return part
    return lambda x, *starts: x[_clamped(starts, sizes, shape)]


def dynamic_update(params: Any, ins: Any, outs: Any) -> Step:
    """`dynamic_update_slice`."""
    shape, sizes = ins[0].shape, ins[1].shape

    def update(x: Any, new: Any, *starts: Any) -> Any:
        out = np.array(x)
        out[_clamped(starts, sizes, shape)] = new
        return out

    return update


def _clamped(starts: Any, sizes: Any, shape: Any) -> tuple[slice, ...]:
    at = []
    for start, k, n in zip(starts, sizes, shape):
        s = min(max(int(start), 0), n - k)
        at.append(slice(s, s + k))
    return tuple(at)


class _Places:
    """The elements that a gather or scatter touches: for each element of the other array a row-major position."""

    __slots__ = ("_base", "_form", "_map", "_mode", "_room", "_shape", "_steps")

    def __init__(
        self, numbers: Any, names: tuple[str, ...], params: Any, operand: Any, starts: Any, shape: Any, sizes: Any
    ) -> None:
        window, dropped, mapped, batching, pairs = (getattr(numbers, n) for n in names)
        rank = len(shape)
        self._shape, self._map, self._mode = shape, mapped, params["mode"]
        rooms = [operand[d] - sizes[d] for d in mapped]
        self._room = rooms[0] if len(rooms) == 1 else rooms
        self._form = [1 if d in window else shape[d] for d in range(rank)]
        strides = [math.prod(operand[d + 1 :]) for d in range(len(operand))]
        self._steps = [strides[d] for d in mapped]
        self._base: Any = np.zeros((), np.int64)
        batch = [d for d in range(rank) if d not in window]
        for d, b in zip(batching, pairs):
            self._base = self._base + _along(starts[b], batch[b], rank) * strides[d]
        inside = [d for d in range(len(operand)) if d not in dropped and d not in batching]
        for d, out in zip(inside, window):
            self._base = self._base + _along(sizes[d], out, rank) * strides[d]
        self._base = np.ascontiguousarray(np.broadcast_to(self._base, shape)) if self._base.any() else None

    def find(self, starts: Any) -> tuple[Any, Any]:
        """The numbers, and which windows lie within the operand (None: all of them)."""
        starts, within = _clipped(starts, self._room, self._mode)
        within = None if within is None else within.all(-1).reshape(self._form)
        flat = self._base
        for k, step in enumerate(self._steps):
            at = starts[..., k].reshape(self._form)
            at = at if step == 1 else at * step
            flat = at if flat is None else flat + at
        if flat is None:
            flat = np.zeros(self._shape, np.int64)
        return (flat if flat.shape == self._shape else np.broadcast_to(flat, self._shape)), within


def _clipped(starts: Any, room: Any, mode: Any) -> tuple[Any, Any]:
    """Where windows begin, moved into the operand, and which of them were in it, if that matters and some were not."""
    starts = starts.astype(np.int64, copy=False)
    if room.__class__ is int and all_between(starts, 0, room + 1):
        return starts, None
    inside = (starts >= 0) & (starts <= room)
    if b"\0" not in inside.tobytes():
        return starts, None
    drops = mode == jax.lax.GatherScatterMode.FILL_OR_DROP
    return np.clip(starts, 0, room), inside if drops else None


def from_the_start(n: int) -> Step:
    """``where(i < 0, i + n, i)``: places from the start, where negative ones count from the end of `n`."""

    def places(i: Any) -> Any:
        return i if all_between(i, 0, _NO_LIMIT) else np.where(i < 0, i + n, i)

    return places


_NO_LIMIT = 1 << 64


def _along(n: int, axis: int, rank: int) -> Any:
    return np.arange(n).reshape([-1 if i == axis else 1 for i in range(rank)])


_GATHERED = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTERED = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)
_MODES = (
    jax.lax.GatherScatterMode.FILL_OR_DROP,
    jax.lax.GatherScatterMode.CLIP,
    jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS,
)


def gather(params: Any, ins: Any, outs: Any) -> Step | None:
    """`gather`."""
    shape = outs[0].shape
    if params["mode"] not in _MODES or not ins[0].size:
        return None
    if _is_of_rows(params, ins[0].shape):
        return _gather_rows(params, ins, shape)
    return _Gathering(params, ins, outs).pick


class _Gathering:
    """A gather of elements."""

    def __init__(self, params: Any, ins: Any, outs: Any) -> None:
        given = params["dimension_numbers"], _GATHERED, params, ins[0].shape, ins[1].shape, outs[0].shape
        self.places = _Places(*given, params["slice_sizes"])
        self.filler = _filler(params.get("fill_value"), ins[0].dtype)

    def pick(self, x: Any, starts: Any) -> Any:
        return self.of(x, *self.places.find(starts))

    def of(self, x: Any, at: Any, within: Any) -> Any:
        out = x.reshape(-1).take(at)
        return out if within is None else np.where(within, out, self.filler)


def gather_knowing(params: Any, ins: Any, outs: Any, known: Any) -> Step | None:
    """`gather` at places that are the same in each call."""
    if not _is_whole(known[1], ins[1]):
        return None
    if _is_of_rows(params, ins[0].shape):
        return _gather_rows(params, ins, outs[0].shape, known[1])
    gathering = _Gathering(params, ins, outs)
    found = gathering.places.find(known[1])
    return lambda x, starts: gathering.of(x, *found)


def _is_whole(known: Any, aval: Any) -> bool:
    """Return whether all of an operand is known, and not only what it is spread from."""
    return known is not None and known.shape == aval.shape


def _is_of_rows(params: Any, shape: Any) -> bool:
    """Return whether whole rows are taken: all of the operand but one number along one dimension."""
    numbers = params["dimension_numbers"]
    if len(numbers.start_index_map) != 1 or numbers.operand_batching_dims:
        return False
    (d,) = numbers.start_index_map
    whole = tuple([1 if i == d else n for i, n in enumerate(shape)])
    return numbers.collapsed_slice_dims == (d,) and tuple(params["slice_sizes"]) == whole


def _gather_rows(params: Any, ins: Any, shape: Any, known: Any = None) -> Step:
    """A copy of rows, which is ten times faster than one of elements; `known` are places that are always the same."""
    numbers, mode = params["dimension_numbers"], params["mode"]
    (d,), offsets = numbers.start_index_map, numbers.offset_dims
    room, filler = ins[0].shape[d] - 1, _filler(params.get("fill_value"), ins[0].dtype)
    batch = [i for i in range(len(shape)) if i not in offsets]
    # `take` puts the dimensions in another order.
    order = np.argsort([*offsets[:d], *batch, *offsets[d:]])
    form = [shape[i] if i in batch else 1 for i in range(len(shape))]
    found = None if known is None else _clipped(known[..., 0], room, mode)
    stays = order.tolist() == [*range(len(shape))]

    def pick(x: Any, starts: Any) -> Any:
        at, within = found or _clipped(starts[..., 0], room, mode)
        out = x.take(at, d)
        if not stays:
            out = out.transpose(order)
        return out if within is None else np.where(within.reshape(form), out, filler)

    return pick


def gather_cost(eqn: Any) -> float:
    """Microseconds that NumPy takes, which copies elements that lie side by side at once."""
    size, shape = eqn.outvars[0].aval.size, eqn.invars[0].aval.shape
    if not _is_of_rows(eqn.params, shape):
        return 8 + size * 2.5e-3
    (d,) = eqn.params["dimension_numbers"].start_index_map
    rows = size // max(1, math.prod(shape[d + 1 :]))
    return 6 + size * 0.3e-3 + rows * 3e-3


Joins = np.ufunc | None
"""What makes one of an old element and a new one; None where the new one stands for the old one."""
SCATTERS: dict[str, Joins] = {
    "scatter": None,
    "scatter-add": np.add,
    "scatter-mul": np.multiply,
    "scatter-max": np.maximum,
    "scatter-min": np.minimum,
}


def scatter(joins: Joins) -> Callable[..., Step | None]:
    """A primitive that puts elements at places."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        kinds = "biufcV" if joins is None else "iuf" if joins in (np.maximum, np.minimum) else "iufc"  # V: bfloat16
        if params["mode"] not in _MODES or not ins[0].size or ins[0].dtype.kind not in kinds:
            return None
        return Scattering(params, ins, joins).put

    return make


def scatter_knowing(joins: Joins) -> Callable[..., Step | None]:
    """The same where the places or the operand are the same in each call."""

    def make(params: Any, ins: Any, outs: Any, known: Any) -> Step | None:
        where, zeros = _is_whole(known[1], ins[1]), known[0] is not None and not known[0].any()
        sums = joins is np.add and ins[0].dtype.kind == "f" and zeros
        if not where and not sums:
            return None
        scattering = Scattering(params, ins, joins)
        found = scattering.places.find(known[1]) if where else None
        of = scattering.of_zeros if sums else scattering.of

        def put(x: Any, starts: Any, new: Any) -> Any:
            return of(x, new, *(found or scattering.places.find(starts)))

        return put

    return make


class Scattering:
    """A scatter of elements."""

    def __init__(self, params: Any, ins: Any, joins: Joins) -> None:
        self.operand, self.shape, numbers = ins[0].shape, ins[2].shape, params["dimension_numbers"]
        sizes = [1] * len(self.operand)
        gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        inside = [d for d in range(len(self.operand)) if d not in gone]
        for d, u in zip(inside, numbers.update_window_dims):
            sizes[d] = self.shape[u]
        self.places = _Places(numbers, _SCATTERED, params, self.operand, ins[1].shape, self.shape, sizes)
        self.joins, self.size, self.dtype = joins, math.prod(self.operand), ins[0].dtype

    def put(self, x: Any, starts: Any, new: Any) -> Any:
        return self.of(x, new, *self.places.find(starts))

    def of(self, x: Any, new: Any, flat: Any, within: Any) -> Any:
        out = np.array(x, order="C").reshape(-1)
        self.into(out, new, flat, within)
        return out.reshape(self.operand)

    def into(self, out: Any, new: Any, flat: Any, within: Any) -> None:
        """Write to memory."""
        flat, new = self._kept(flat, new, within)
        if self.joins is None:
            out[flat] = new
        else:
            self.joins.at(out, flat, new)

    def of_zeros(self, x: Any, new: Any, flat: Any, within: Any) -> Any:
        """Sums of what is added to zeros, made in float64."""
        flat, new = self._kept(flat, new, within)
        return np.bincount(flat, new, self.size).astype(self.dtype).reshape(self.operand)

    def _kept(self, flat: Any, new: Any, within: Any) -> tuple[Any, Any]:
        """The places and elements that lie within the operand, as rows."""
        if within is None:
            return flat.reshape(-1), new.reshape(-1)
        kept = np.broadcast_to(within, self.shape)
        return flat[kept], new[kept]


def scatter_cost(eqn: Any) -> float:
    """Microseconds that NumPy takes."""
    operand, _, new = [v.aval.size for v in eqn.invars]
    return 10 + new * 2e-3 + operand * 0.2e-3


def _filler(given: Any, dt: Any) -> Any:
    if given is not None:
        return np.asarray(given, dt)
    if dt.kind == "b":
        return np.asarray(True)
    if dt.kind == "i":
        return np.asarray(np.iinfo(dt).min, dt)
    if dt.kind == "u":
        return np.asarray(np.iinfo(dt).max, dt)
    return np.asarray(np.nan, dt)
