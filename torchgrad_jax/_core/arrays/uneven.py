"""Arrays whose dimensions the devices of a mesh do not divide.

For example, three rows over two devices are kept as four: `[[a, b], [c, 0]]`. JAX has equal parts only, so
those of `torch.chunk` are filled up to the length of the longest. Nobody but a storage sees what was filled in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..jax.caches import remember
from ..jax.own_kernels import jit
from .placement import as_host_memory, names_of

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Padding:
    """How an array of one shape is kept under one sharding."""

    shape: tuple[int, ...]
    """The shape of what is kept."""
    slots: dict[int, np.ndarray]
    """For each dimension with unequal parts: which element is in each place; the dimension's length for none."""
    places: dict[int, np.ndarray]
    """For each dimension with unequal parts: at which place each element is."""
    whole: NamedSharding
    """The same sharding but for these dimensions, of which all devices have all."""


def spans(length: int, counts: Any) -> list[Span]:
    """Where the parts of a dimension begin and end, which is split into each of the counts in turn as by `chunk`."""
    out = [(0, length)]
    for count in counts:
        halves: list[Span] = []
        for low, high in out:
            step = -(-(high - low) // count)
            halves += [(min(low + i * step, high), min(low + (i + 1) * step, high)) for i in range(count)]
        out = halves
    return out


def padding_of(shape: tuple[int, ...], sharding: Any) -> Padding | None:
    """How an array is kept; None where the devices divide it."""
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) > len(shape):
        return None
    return _padding(tuple(shape), sharding)


@remember()
def _padding(shape: tuple[int, ...], sharding: NamedSharding) -> Padding | None:
    sizes, kept, entries = sharding.mesh.shape, list(shape), list(sharding.spec)
    slots: dict[int, np.ndarray] = {}
    places: dict[int, np.ndarray] = {}
    for dim, entry in enumerate(sharding.spec):
        counts = [sizes[a] for a in names_of(entry)]
        if shape[dim] % math.prod(counts) == 0:
            continue
        parts = spans(shape[dim], counts)
        longest = max(high - low for low, high in parts)
        rows = [[*range(low, high), *[shape[dim]] * (longest - high + low)] for low, high in parts]
        slots[dim] = np.array(rows).ravel()
        places[dim] = np.flatnonzero(slots[dim] < shape[dim])
        kept[dim], entries[dim] = longest * len(parts), None
    if not slots:
        return None
    return Padding(tuple(kept), slots, places, NamedSharding(sharding.mesh, PartitionSpec(*entries)))


def even(sharding: Any, shape: tuple[int, ...]) -> Any:
    """The sharding, with the dimensions of this shape left whole that it would split into unequal parts."""
    padding = padding_of(shape, sharding)
    return sharding if padding is None else padding.whole


def kept_shape(shape: tuple[int, ...], sharding: Any) -> tuple[int, ...]:
    """The shape of what is kept of an array."""
    padding = padding_of(shape, sharding)
    return tuple(shape) if padding is None else padding.shape


def with_padding(array: Any, sharding: Any, numpy: Any = jnp) -> Any:
    """An array filled up as it is kept."""
    padding = padding_of(array.shape, sharding)
    for dim, slots in ({} if padding is None else padding.slots).items():
        more = [(0, int(d == dim)) for d in range(array.ndim)]
        array = numpy.take(numpy.pad(array, more), slots, axis=dim)
    return array


def without_padding(kept: Any, sharding: Any, shape: tuple[int, ...]) -> Any:
    """The array of a shape that is kept so."""
    padding = padding_of(shape, sharding)
    for dim, places in ({} if padding is None else padding.places).items():
        kept = jnp.take(kept, places, axis=dim)
    return kept


def pad(array: Any, sharding: NamedSharding) -> Any:
    """An array as it is kept, over the devices."""
    array = as_host_memory(array)
    if isinstance(array, jax.Array):
        with jax.ensure_compile_time_eval():
            return _padded(sharding)(array)
    return jax.device_put(with_padding(array, sharding, np), sharding)


@remember()
def _padded(sharding: NamedSharding) -> Any:
    return jit(lambda x: with_padding(x, sharding), out_shardings=sharding)


def unpad(kept: Any, sharding: NamedSharding, shape: tuple[int, ...]) -> Any:
    """The array of a shape that is kept so; all devices have all of the dimensions with unequal parts."""
    with jax.ensure_compile_time_eval():
        return _unpadded(tuple(shape), sharding)(kept)


@remember()
def _unpadded(shape: tuple[int, ...], sharding: NamedSharding) -> Any:
    return jit(lambda kept: without_padding(kept, sharding, shape), out_shardings=even(sharding, shape))


def block_spans(sharding: Sharding, shape: tuple[int, ...], index: Any) -> list[Span]:
    """Where the part of a device is in the whole, without what was filled in; `index` is where JAX keeps the part."""
    padding = padding_of(shape, sharding)
    kept = shape if padding is None else padding.shape
    out: list[Span] = []
    for dim, (s, n) in enumerate(zip(index, kept, strict=True)):
        low, high, _ = s.indices(n)
        if padding is not None and dim in padding.slots:
            here = padding.slots[dim][low:high]
            here = here[here < shape[dim]]
            before = int((padding.slots[dim][:low] < shape[dim]).sum())
            low, high = (int(here[0]), int(here[-1]) + 1) if len(here) else (before, before)
        out.append((low, high))
    return out
