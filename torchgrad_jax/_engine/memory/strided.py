"""Reading and writing strided views of a storage, as pure JAX kernels with a traced offset.

A view is (shape, strides, offset) over the storage's elements in memory order. Where the strides
nest (slices, transposes, selections, diagonals, steps) reading is slice + reshape; where they
overlap (unfold, odd as_strided) it is a gather. Writing is the transpose of reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from ..._core.arrays import devices, placement, shapes, summands, uneven
from ..._core.arrays.meta import Meta
from ..._core.arrays.placement import MANY, place, spread_over
from ..._core.errors import messages as errors, warn
from ..._core.jax import abstract
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from ..._core.jax.x64 import with_x64
from ..._core.state import CUT, GRAD, MODES, UNDER_JAX, WINDOWS, WRITE_LOCK
from ..run import executors, windows
from ..run.kernel import Kernel
from . import owned
from .derivative_stops import unrecorded
from .escapes import before_write
from .tensor import CREATED_DEFAULT, Alias, Tensor, held_by, placement_of


def _dense_order(m: Meta) -> tuple[int, ...]:
    big = [d for d in range(m.ndim) if m.shape[d] != 1]
    big.sort(key=lambda d: -m.strides[d])
    return tuple(d for d in range(m.ndim) if m.shape[d] == 1) + tuple(big)


@with_x64
def to_flat(x: Any, m: Meta) -> Any:
    """Elements in memory order; a layout with gaps is filled with zeros."""
    if m.contiguous or (m.ndim < 2 and m.dense):
        return x.reshape(-1)
    if m.dense:
        return jnp.transpose(x, _dense_order(m)).reshape(-1)
    extent = m.extent
    shape = tuple([1 if s == 0 else n for n, s in zip(m.shape, m.strides)])
    if 0 not in m.shape:  # expanded elements are one element of memory
        x = x[tuple([slice(n) for n in shape])]
    add = _nested(shape, m.strides) is not None
    return scatter(jnp.zeros(extent, x.dtype), shape, m.strides, 0, x, add=add)


@with_x64
def fitted(array: Any, m: Meta) -> Any:
    """A saved value as kernels read it: an unpack hook may give another dtype, and another shape that broadcasts."""
    if array.dtype != m.dtype.np:
        array = array.astype(m.dtype.np)
    if array.shape != m.shape:
        try:
            array = jnp.broadcast_to(array, m.shape)
        except ValueError:
            raise RuntimeError(errors.not_broadcastable(m.shape, array.shape)) from None
    return array


@with_x64
def from_flat(flat: Any, m: Meta) -> Any:
    """Inverse of `to_flat`."""
    if m.contiguous or (m.ndim < 2 and m.dense):
        return flat.reshape(m.shape)
    if m.dense:
        order = _dense_order(m)
        inverse = tuple(int(i) for i in np.argsort(order))
        return jnp.transpose(flat.reshape([m.shape[d] for d in order]), inverse)
    return gather(flat, m.shape, m.strides, 0)


@with_x64
def reinterpret(flat: Any, dtype: np.dtype) -> Any:
    """The same bytes as another dtype, as far as they fill elements; complex numbers are (real, imaginary) pairs."""
    src = flat.dtype
    if src == dtype:
        return flat
    if jnp.issubdtype(src, jnp.complexfloating):
        real = jnp.stack([jnp.real(flat), jnp.imag(flat)], -1).reshape(-1)
        return reinterpret(real, dtype)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        real_dtype = np.zeros(0, dtype).real.dtype
        pairs = _rows(reinterpret(flat, real_dtype), 2)
        return lax.complex(pairs[:, 0], pairs[:, 1])
    if src == jnp.bool_:
        return reinterpret(flat.astype(jnp.uint8), dtype)
    if dtype == np.bool_:
        return reinterpret(flat, np.dtype(np.uint8)) != 0
    if src.itemsize < dtype.itemsize:
        flat = _rows(flat, dtype.itemsize // src.itemsize)
    return lax.bitcast_convert_type(flat, dtype).reshape(-1)


def _rows(flat: Any, n: int) -> Any:
    return flat[: flat.shape[0] // n * n].reshape(-1, n)


def _nested(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """(size, stride) from outermost in, if each inner pattern fits inside one outer step."""
    dims = sorted(((s, n) for n, s in zip(shape, strides) if n != 1 and s != 0), reverse=True)
    out = [(n, s) for s, n in dims]
    extent = 1
    for n, s in reversed(out):
        if extent > s:
            return None
        extent += (n - 1) * s
    return out


def _take_nested(segment: Any, dims: list[tuple[int, int]]) -> Any:
    """Pick a nested strided pattern out of a 1-D segment that spans it exactly."""
    lead: list[int] = []
    x = segment
    for n, s in dims:
        want, have = n * s, x.shape[-1]
        if have < want:
            x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * len(lead) + [(0, want - have, 0)])
        elif have > want:
            x = lax.slice_in_dim(x, 0, want, axis=len(lead))
        lead.append(n)
        x = x.reshape(*lead, s)
    return x[..., 0]


def _aligned(size: int, dims: list[tuple[int, int]], offset: int) -> tuple[list[tuple[int, int, int]], int] | None:
    """A pattern that starts at `offset` as (first, number, step) of nested rows, and the place in the innermost; None
    where rows would have to be broken up."""
    steps, width, rest = [], size, offset
    for n, s in dims:
        if steps and width % s:
            return None
        first, rest = divmod(rest, s)
        if first + n > width // s:
            return None
        steps.append((first, n, s))
        width = s
    return steps, rest


def _take_aligned(flat: Any, steps: list[tuple[int, int, int]], rest: int) -> Any:
    """Pick a pattern of whole rows: nothing but slices."""
    x, lead = flat, []
    for first, n, s in steps:
        rows = x.shape[-1] // s
        x = lax.slice_in_dim(x, 0, rows * s, axis=len(lead)).reshape(*lead, rows, s)
        x = lax.slice_in_dim(x, first, first + n, axis=len(lead))
        lead.append(n)
    return lax.index_in_dim(x, rest, axis=len(lead), keepdims=False)


def places_in(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Where in memory each element lies, from the first one on."""
    idx = np.zeros(shape, np.int64)
    for d, (n, s) in enumerate(zip(shape, strides)):
        idx += (np.arange(n, dtype=np.int64) * s).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return idx


def _pattern(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[list[tuple[int, int]], Callable[[Any], Any]] | None:
    """Nested dims, and how their array becomes one of the wanted shape."""
    dims = _nested(shape, strides)
    if dims is None:
        return None
    kept = sorted(
        (d for d in range(len(shape)) if shape[d] != 1 and strides[d] != 0), key=lambda d: (-strides[d], -shape[d])
    )
    back = tuple(sorted(range(len(kept)), key=lambda i: kept[i]))
    in_order = sorted(kept)

    def shape_up(x: Any) -> Any:
        x = jnp.transpose(x, back)
        if x.shape == shape:
            return x
        return lax.broadcast_in_dim(x, shape, tuple(in_order))

    return dims, shape_up


@with_x64
def gather(flat: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: Any) -> Any:
    """The strided view (shape, strides, offset) of a 1-D array."""
    if 0 in shape:
        return jnp.zeros(shape, flat.dtype)
    nested = _pattern(shape, strides)
    extent = shapes.storage_extent(shape, strides)
    if nested is None:
        return flat[places_in(shape, strides) + offset]
    dims, shape_up = nested
    if isinstance(offset, int) and (steps := _aligned(flat.shape[0], dims, offset)) is not None:
        return shape_up(_take_aligned(flat, *steps))
    segment = (
        flat if extent == flat.shape[0] else lax.dynamic_slice(flat, (offset,), (extent,), allow_negative_indices=False)
    )
    return shape_up(_take_nested(segment, dims))


@with_x64
def scatter(
    flat: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: Any,
    value: Any,
    *,
    add: bool = False,
    rebuild: bool = False,
) -> Any:
    """`flat` with the strided view overwritten by (or added to) `value`.

    `rebuild` concatenates what is before the view, the view and what follows; nothing is written in place.
    """
    if 0 in shape:
        return flat
    nested = _pattern(shape, strides)
    extent = shapes.storage_extent(shape, strides)
    overlapping = any(n > 1 and s == 0 for n, s in zip(shape, strides))
    if nested is None or (overlapping and not add):
        places = places_in(shape, strides) + offset
        if overlapping and not add:  # of several values for one place, a changed one wins
            changed = (flat[places] != value) & ((value == value) | (flat[places] == flat[places]))
            places = jnp.where(changed, places, flat.shape[0])
            return flat.at[places].set(value, mode="drop")
        return flat.at[places].add(value) if add else flat.at[places].set(value)
    whole = extent == flat.shape[0]
    segment = flat if whole else lax.dynamic_slice(flat, (offset,), (extent,), allow_negative_indices=False)
    placed = _put(value, extent, shape, strides)
    if add:
        new = segment + placed
    else:
        mask = np.zeros(extent, bool)
        mask[places_in(shape, strides).reshape(-1)] = True
        new = placed if mask.all() else jnp.where(mask, placed, segment)
    if whole:
        return new
    if rebuild:
        return lax.concatenate([flat[:offset], new, flat[offset + extent :]], 0)
    return lax.dynamic_update_slice(flat, new, (offset,), allow_negative_indices=False)


def _put(x: Any, extent: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Place `x` at a nested strided pattern of a zero segment; the transpose of reading."""
    kept = sorted(
        (d for d in range(len(shape)) if shape[d] != 1 and strides[d] != 0), key=lambda d: (-strides[d], -shape[d])
    )
    repeated = tuple(d for d in range(len(shape)) if shape[d] != 1 and strides[d] == 0)
    if repeated:
        x = jnp.sum(x, axis=repeated, keepdims=True, dtype=x.dtype)
    x = jnp.transpose(x, (*[d for d in range(len(shape)) if d not in kept], *kept))
    sizes = [shape[d] for d in kept]
    steps = [strides[d] for d in kept]
    x = x.reshape(*sizes, 1)
    zero = jnp.zeros((), x.dtype)
    for level in range(len(kept) - 1, -1, -1):
        s = steps[level]
        have = x.shape[-1]
        if have < s:
            x = lax.pad(x, zero, [(0, 0, 0)] * (x.ndim - 1) + [(0, s - have, 0)])
        elif have > s:
            x = lax.slice_in_dim(x, 0, s, axis=x.ndim - 1)
        x = x.reshape(*sizes[:level], sizes[level] * s)
    flat = x.reshape(-1)
    if flat.shape[0] < extent:
        return lax.pad(flat, zero, [(0, extent - flat.shape[0], 0)])
    return lax.slice_in_dim(flat, 0, extent)


@with_x64
def view_from(flat: Any, m: Meta, offset: Any, conj: bool, neg: bool) -> Any:
    """Read a tensor of meta `m` out of storage elements in memory order."""
    x = gather(reinterpret(flat, m.dtype.np), m.shape, m.strides, offset)
    return conjugated(x, conj, neg)


@with_x64
def conjugated(x: Any, conj: bool, neg: bool) -> Any:
    """The conjugates of the elements, or what is negated, or both."""
    x = jnp.conj(x) if conj else x
    return -x if neg else x


class _Box(NamedTuple):
    """A view that is a box of an array: a range of places along each dimension."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    """The dimensions of the view that are longer than 1, in the order of the array's."""

    def of(self, array: Any, shape: tuple[int, ...]) -> Any:
        """The box in an array, as a view of such a shape."""
        ends = [start + n for start, n in zip(self.starts, self.sizes)]
        part = lax.slice(array, self.starts, ends)
        part = lax.squeeze(part, [d for d, n in enumerate(self.sizes) if n == 1])
        return jnp.transpose(part, np.argsort(self.order).tolist()).reshape(shape)

    def put(self, array: Any, value: Any) -> Any:
        """The array with the box overwritten by the values of such a view."""
        long = [d for d, n in enumerate(value.shape) if n != 1]
        value = lax.squeeze(value, [d for d, n in enumerate(value.shape) if n == 1])
        value = jnp.transpose(value, [long.index(d) for d in self.order])
        return lax.dynamic_update_slice(array, value.reshape(self.sizes), self.starts)


def _box(store: Meta, m: Meta, offset: int) -> _Box | None:
    """Where a view lies in an array of meta `store`; None where it is no box of it."""
    if not store.dense or m.dtype is not store.dtype or not m.numel:
        return None
    starts, sizes, rest = [0] * store.ndim, [1] * store.ndim, offset
    long = [d for d in range(store.ndim) if store.shape[d] != 1]
    for d in sorted(long, key=lambda d: -store.strides[d]):
        starts[d], rest = divmod(rest, store.strides[d])
    at = {store.strides[d]: d for d in long}
    dims: dict[int, int] = {}
    for k, (n, stride) in enumerate(zip(m.shape, m.strides)):
        if n != 1:
            d = at.pop(stride, None)
            if d is None:
                return None
            sizes[d], dims[d] = n, k
    if rest or any(starts[d] + sizes[d] > store.shape[d] for d in range(store.ndim)):
        return None
    return _Box(tuple(starts), tuple(sizes), tuple([dims[d] for d in sorted(dims)]))


@with_x64
def replaced(array: Any, store: Meta, m: Meta, offset: Any, conj: bool, neg: bool, value: Any) -> Any:
    """An array of meta `store` with the view at `offset` of its elements in memory order overwritten by `value`.

    XLA may compute what it writes from places of the array that it has written to already, where the array was reshaped
    for the write (see `_bridge/compile/trace/risky_writes.py`). So one that is written to at a known place keeps its
    shape, or is rebuilt.
    """
    if not isinstance(offset, int):
        return from_flat(view_into(to_flat(array, store), m, offset, conj, neg, value), store)
    box = _box(store, m, offset)
    if box is None:
        return from_flat(view_into(to_flat(array, store), m, offset, conj, neg, value, rebuild=True), store)
    return box.put(array, conjugated(value, conj, neg))


@with_x64
def view_into(flat: Any, m: Meta, offset: Any, conj: bool, neg: bool, value: Any, rebuild: bool = False) -> Any:
    """Storage elements with a tensor of meta `m` overwritten by `value`; `rebuild` as for `scatter`."""
    value = conjugated(value, conj, neg)
    mine = reinterpret(flat, m.dtype.np)
    written = scatter(mine, m.shape, m.strides, offset, value, rebuild=rebuild)
    written = reinterpret(written, flat.dtype)
    rest = flat[written.shape[0] :]
    return lax.concatenate([written, rest], 0) if rest.shape[0] else written


def _kernel(fn: Callable[..., Any], out: Meta) -> Any:
    """`fn` compiled, where there is anything to compute."""
    return abstract.kernel(jit(fn), (out,), True) if out.device.type == "meta" else Kernel(fn, counted=True)


@KERNELS.memo(0.125)
def reader(store: Meta, m: Meta, conj: bool, neg: bool) -> Any:
    need, have = m.extent * m.dtype.itemsize, store.extent
    if need > have * store.dtype.itemsize:
        raise RuntimeError(
            f"a tensor of size {list(m.shape)} has a storage of {have} elements, which was resized; give it its memory "
            "back with resize_() first"
        )

    def read_view(array: Any, offset: Any) -> Any:
        return view_from(to_flat(array, store), m, offset, conj, neg)

    return _kernel(read_view, m)


@KERNELS.memo()
def _reader_at(store: Meta, m: Meta, conj: bool, neg: bool, offset: int) -> Callable[[Any], Any]:
    """The reader for traced programs, with the offset built in where that saves work."""
    kernel = reader(store, m, conj, neg)
    box = None if devices.unreal(m.device) else _box(store, m, offset)
    if box is not None:
        return jit(lambda array: conjugated(box.of(array, m.shape), conj, neg))
    dims = _nested(m.shape, m.strides)
    filled = dims is None or m.extent == m.numel
    if filled or devices.unreal(m.device):
        return lambda array: kernel(array, offset)

    def read_part(array: Any) -> Any:
        return view_from(to_flat(array, store), m, offset, conj, neg)

    return jit(read_part)


@KERNELS.memo(0.125)
def _seldom_read(store: Meta, m: Meta, conj: bool, neg: bool) -> Any:
    """`reader`, as long as it is worth a kernel of its own."""
    kernel = reader(store, m, conj, neg)
    if not executors.fits(store, m, m.numel):
        return _Way(getattr(kernel, "traced", kernel), kernel=kernel)
    host = executors.reading(store, m, conj, neg)
    call = executors.by_what_is_given(kernel, host)
    return _Way(call, host, kernel, Kernel.of_others(call))


_READERS = _seldom_read.cache.young  # type: ignore[attr-defined] - as `Pool.memo` leaves it


class _Way(NamedTuple):
    """How a view is read or written, given the storage's array, the offset, and what is written."""

    call: Any
    host: Any = None
    """The same for NumPy's arrays, if there are few elements."""
    compiled: Any = None
    """What XLA does where NumPy can't, if NumPy does it at all."""
    kernel: Any = None
    """The same as a kernel, as windows take it."""


@KERNELS.memo(0.125)
def _writer(store: Meta, m: Meta, conj: bool, neg: bool) -> Any:
    reader(store, m, conj, neg)  # this raises where the storage is too small

    def write_view(array: Any, offset: Any, value: Any) -> Any:
        return replaced(array, store, m, offset, conj, neg, value)

    kernel = _kernel(write_view, store)
    if not executors.fits(store, m, max(store.numel, m.numel)) or m.overlaps:
        return _Way(getattr(kernel, "traced", kernel), kernel=kernel)
    host = executors.writing(store, m, conj, neg)
    call = executors.by_what_is_given(kernel, host)
    return _Way(call, host, kernel, Kernel.of_others(call))


_WRITERS = _writer.cache.young  # type: ignore[attr-defined]


def storage_offset(t: Tensor) -> int:
    """Elements from the start of the storage to the tensor's first element."""
    return 0 if t._al is None else t._al.offset


def room(t: Tensor) -> int:
    """How many elements of the tensor's dtype its storage holds."""
    store = t._st.meta
    return store.extent * store.dtype.itemsize // t._m.dtype.itemsize


def is_direct(t: Tensor) -> bool:
    """Whether the tensor reads its storage whole and as it is."""
    al = t._al
    return al is None or (t._m is t._st.meta and al.offset == 0 and not al.conj and not al.neg)


def placement_of_tensor(t: Tensor) -> Any:
    """The sharding of what a tensor reads, which is not that of the storage for a view; None on one device."""
    return placement_of(t._st) if is_direct(t) else _placement_of_view(t) or spread_over(read(t))


def _placement_of_view(t: Tensor) -> Any:
    """The sharding of a view of a storage over a mesh.

    A dimension of the view is split as one of the storage where its steps run to that one's end, and begin where the
    parts do: `x[:, 0]`, `x.t()` and `x.flatten()` are split as the rows of `x`. None where the storage is on no mesh.
    """
    there, m, store, offset = placement_of(t._st), t._m, t._st.meta, t._al.offset
    if not isinstance(there, NamedSharding) or m.dtype.itemsize != store.dtype.itemsize:
        return None
    entries: list[Any] = [None] * m.ndim
    for dim, entry in enumerate(there.spec):
        step, length = store.strides[dim], store.shape[dim]
        if entry is None or not step or offset % (step * length) >= step:
            continue
        same = (d for d in range(m.ndim) if m.strides[d] == step and m.shape[d] == length)
        parts = placement.parts_of(there, entry)
        joined = (
            d
            for d in range(m.ndim)
            if m.shape[d] % parts == 0 and length % parts == 0 and m.strides[d] * m.shape[d] == step * length
        )
        found = next(same, next(joined, None))
        if found is not None and entries[found] is None:
            entries[found] = entry
    while entries and entries[-1] is None:
        entries.pop()
    return NamedSharding(there.mesh, PartitionSpec(*entries))


def conjugations(leaves: Sequence[Any]) -> tuple[bool, ...]:
    """Which of the operands are lazily conjugated."""
    return tuple([v._al is not None and v._al.conj for v in leaves])


def conjugate_lazily(t: Tensor) -> None:
    """Have a fresh tensor store the conjugates of its elements, to be read as what they are."""
    if not abstract.is_abstract(t._st.array):
        t._st.array = jnp.conj(t._st.array)
    t._al = Alias(0, None, CREATED_DEFAULT, 0)
    t._al.conj = True


def read(t: Tensor) -> Any:
    """The tensor's current array; a view is read again only after its storage was written."""
    return MODES.run.read(t)


def read_stored(t: Tensor) -> Any:
    """`read` where the arrays of storages are their values."""
    al, st = t._al, t._st
    if al is None:
        return st.array
    if st.shared and st.meta.numel >= owned.FROM and not is_direct(t):
        array = owned.read_part(st, t._m, al.offset, al.conj, al.neg)
        if array is not None:
            return array
    stamp = st.stamp  # it is read before the array, as another thread may write in between
    if al.stamp == stamp and (array := al.array) is not None:
        return array if array.__class__ is not windows.Pending else array.arrive()
    if is_direct(t):
        return st.array
    if st.__class__ is owned.OwnedStorage:
        array = owned.read_part(st, t._m, al.offset, al.conj, al.neg)
        if array is not None:
            al.array, al.stamp = array, stamp
            return array
    key = (st.meta, t._m, al.conj, al.neg)
    kernel, held = _READERS.get(key) or _seldom_read(*key), st.array
    if held.__class__ is np.ndarray and kernel.host is not None:
        array = kernel.host(held, al.offset)
    else:
        array = kernel.call(held, al.offset)
    if MANY and (there := _placement_of_view(t)) is not None:
        array = place(array, uneven.even(there, t._m.shape))
        summands.carry(held, array, lambda part: kernel.call(part, al.offset))
    # A tracer must not be seen outside of its trace.
    if st.views_keep_values and not isinstance(array, jax.core.Tracer):
        al.array, al.stamp = array, stamp
    return array


def operand(t: Tensor) -> Any:
    """What a kernel is given for a tensor: its array, or a `Pending` for one that is not there yet.

    Reading a view is a step of the window, too, where XLA does it or the storage is pending.
    """
    mode = MODES.bits
    if not mode & WINDOWS or not windows.defers(mode):
        return read(t)
    al, st = t._al, t._st
    if al is None:
        return held_by(st)
    if st.shared or devices.unreal(t._m.device):
        return read(t)
    stamp = st.stamp
    if al.stamp == stamp and al.array is not None:
        return al.array
    if is_direct(t):
        return held_by(st)
    array, key = held_by(st), (st.meta, t._m, al.conj, al.neg)
    way, pending = _READERS.get(key) or _seldom_read(*key), array.__class__ is windows.Pending
    if way.host is not None and not pending:
        return read(t)
    out = windows.call(way.kernel, (array, al.offset), (t._m,), True)
    al.array, al.stamp = out, stamp
    return out


def stored(t: Tensor, array: Any) -> Any:
    """What the tensor sees in a storage that holds `array`."""
    al = t._al
    if al is None or is_direct(t):
        return array
    return _reader_at(t._st.meta, t._m, al.conj, al.neg, al.offset)(array)


def stored_by_kernel(t: Tensor, array: Any, called: Callable[..., None]) -> Any:
    """`stored` by the kernel that reads the view where code runs at once, which `called` hears of."""
    if is_direct(t) or devices.unreal(t._m.device):
        return stored(t, array)
    al = t._al
    key = (t._st.meta, t._m, al.conj, al.neg)
    return _call_traced(_READERS.get(key) or _seldom_read(*key), (array, al.offset), called)


def _call_traced(way: _Way, args: Sequence[Any], called: Callable[..., None]) -> Any:
    """Read or write a view in a trace; `called` hears which kernel does it."""
    kernel = way.compiled or way.kernel
    out = kernel.traced(*args)
    called(kernel, args, True, way.kernel)
    return out


def write(t: Tensor, array: Any, bump: bool = True) -> None:
    """Overwrite the tensor's elements; everything on the same storage sees it."""
    with WRITE_LOCK:
        al, st, mode, run = t._al, t._st, MODES.bits, MODES.run
        if MANY:
            placement.check_mesh(placement_of(st), array)
        if mode & UNDER_JAX:
            before_write(t, array)
        whole, follows_jax = is_direct(t), not mode & GRAD and (run.jax_derives or mode & CUT)
        alone = not (whole or follows_jax or mode & UNDER_JAX) and st.meta.numel >= owned.FROM and run.at_once
        if not alone or not owned.write_part(st, t._m, al.offset, al.conj, al.neg, array):
            if whole and run.at_once and not follows_jax:
                new = array
            else:
                if run.at_once:
                    old = st.array if mode <= GRAD else held_by(st)
                else:
                    old = run.uses.array_to_write(t)
                new = array if whole else _written(t, old, array)
                new = unrecorded(old, new) if follows_jax else new
            st.array = new
        st.stamp = stamp = st.stamp + 1
        if not (whole or follows_jax or t._m.overlaps) and run.at_once:
            al.array, al.stamp = array, stamp
        if bump:
            t._vc.version += 1


def _written(t: Tensor, held: Any, array: Any) -> Any:
    """A storage that held `held`, with the elements of a view replaced."""
    al, store, m = t._al, t._st.meta, t._m
    key = (store, m, al.conj, al.neg)
    kernel = _WRITERS.get(key) or _writer(*key)
    if MODES.bits & WINDOWS:
        if windows.defers(MODES.bits) and not devices.unreal(m.device):
            return windows.call(kernel.kernel, (held, al.offset, array), (store,), True)
        held, array = windows.arrived(held), windows.arrived(array)
    if MODES.run.at_once or devices.unreal(m.device):
        if held.__class__ is np.ndarray and array.__class__ is np.ndarray and kernel.host is not None:
            return kernel.host(held, al.offset, array)
        return kernel.call(held, al.offset, array)
    if MODES.run.uses.keeps_kernels:
        return _call_traced(kernel, (held, al.offset, array), MODES.run.uses.kernel_called)
    return replaced(held, store, m, al.offset, al.conj, al.neg, array)


def same_memory(a: Tensor, b: Any) -> bool:
    """Whether two tensors read the same elements in the same way; torch copies nothing between such."""
    if not isinstance(b, Tensor) or a._st is not b._st or a._m is not b._m:
        return False
    p, q = a._al, b._al
    if p is None or q is None:
        only = p or q
        return only is None or not (only.offset or is_mirrored(a) or is_mirrored(b))
    return (p.offset, p.conj, p.neg) == (q.offset, q.conj, q.neg)


def check_disjoint(me: Tensor, others: Sequence[Any], wholly: bool, as_stored: bool = False) -> None:
    """Refuse to write where an operand reads some of the same elements; all of them, if `wholly`.

    torch does not look where a layout has gaps, except at the tensor itself. Of tensors that are
    conjugated or negated when read, its kernels get copies, which lie elsewhere, unless they read
    them `as_stored`.
    """
    if not as_stored:
        if is_mirrored(me):
            return
        others = [t for t in others if not (isinstance(t, Tensor) and is_mirrored(t))]
    m = me._m
    if wholly and any(t is me for t in others):
        raise RuntimeError(errors.PARTIAL_OVERLAP)
    if m.numel == 0 or not m.dense:
        return
    begin = (0 if me._al is None else me._al.offset) * m.dtype.itemsize
    end = begin + m.numel * m.dtype.itemsize
    for t in others:
        if not isinstance(t, Tensor) or t._st is not me._st or t is me:
            continue
        n = t._m
        if n.numel == 0 or not n.dense:
            continue
        start = (0 if t._al is None else t._al.offset) * n.dtype.itemsize
        stop = start + n.numel * n.dtype.itemsize
        same = (start, stop) == (begin, end) and n.strides == m.strides
        if (wholly or not same) and start < end and begin < stop:
            raise RuntimeError(errors.PARTIAL_OVERLAP)


def warn_of_overlap(t: Tensor, name: str, example: str = "tensor[mask] = scalar") -> bool:
    """Whether several elements share one location, in which case writing to them is deprecated."""
    if not t._m.overlaps:
        return False
    warn.to_user(
        f"Use of {name}_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        f"operation. This also applies to advanced indexing e.g. {example}"
    )
    return True


def is_mirrored(t: Tensor) -> bool:
    """Whether a tensor is a lazily conjugated or negated view, which torch writes to by a copy."""
    return t._al is not None and (t._al.conj or t._al.neg)


def check_writable(t: Tensor) -> None:
    """Refuse to write where several elements share one location."""
    if t._m.overlaps:
        raise RuntimeError(errors.OVERLAP)
