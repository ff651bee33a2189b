"""What a process has of a tensor over several, as an ordinary tensor.

In PyTorch a DTensor is around the tensor that its process has, so that what is written to one is in the other. Here the
array of the whole is what there is, and a part reads it, and writes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding

from ..._core.arrays import uneven
from ..._core.arrays.meta import meta
from ..._core.errors.messages import AsWritten
from ..._core.state import MODES, WRITE_LOCK
from ..._engine.memory.strided import is_direct, placement_of_tensor, read
from ..._engine.memory.tensor import Storage, Tensor, kept_array, make, of_kept, put_kept, wrap_array
from ...autograd.grad_mode import no_grad
from ._specs import own_block

_ARRAY: Any = Storage.array


def part_of(whole: Tensor) -> Tensor:
    """This process's part of a tensor that takes no gradient: what is written to one of them is in the other."""
    block = block_of(whole)
    out = make(block, meta(block.shape, whole.dtype, whole.device))
    out._st.placement = whole, whole._st.stamp
    out._st.__class__ = PartStorage
    return out


def kept_of(whole: Tensor) -> tuple[Any, Any]:
    """The array of a tensor over a mesh as the devices have it, and its sharding."""
    there = placement_of_tensor(whole)
    if is_direct(whole):
        return kept_array(whole._st), there
    array = read(whole)
    return (array if uneven.padding_of(array.shape, there) is None else uneven.pad(array, there)), there


def shards_of(whole: Tensor) -> Iterator[tuple[Any, list[uneven.Span]]]:
    """The parts of a tensor on this process's devices, and where each of them begins and ends."""
    kept, there = kept_of(whole)
    for shard in kept.addressable_shards:
        spans = uneven.block_spans(there, tuple(whole.shape), shard.index)
        data = np.asarray(shard.data)
        yield data[tuple(slice(high - low) for low, high in spans)], spans


def block_of(whole: Tensor) -> Any:
    """The block of a tensor that this process's devices have."""
    low, high = own_block(kept_of(whole)[1], tuple(whole.shape))
    out = np.empty([h - n for n, h in zip(low, high, strict=True)], whole.dtype.np)
    for data, spans in shards_of(whole):
        if data.size:
            out[tuple(slice(a - n, b - n) for (a, b), n in zip(spans, low, strict=True))] = data
    return out


def of_parts(part: Callable[[list[uneven.Span]], Any], there: Any, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """The tensor of a shape of which each process gives the parts of its devices, and waits for no other.

    Args:
        part: gives a part by where it begins and ends; None for an empty one.
        there: which devices have which part.
        shape: the shape of the tensor.
        like: has its dtype and device.
    """
    kept, made = uneven.kept_shape(shape, there), []
    room = there.shard_shape(kept)
    for device, index in there.addressable_devices_indices_map(kept).items():
        spans = uneven.block_spans(there, shape, index or (slice(None),) * len(shape))
        data = part(spans)
        data = np.zeros(room, like.dtype.np) if data is None else data
        if data.shape != room:
            data = np.pad(data, [(0, n - k) for n, k in zip(room, data.shape, strict=True)])
        made.append(jax.device_put(data, device))
    return around(jax.make_array_from_single_device_arrays(kept, there, made), there, shape)


def around(kept: Any, there: NamedSharding, shape: tuple[int, ...]) -> Tensor:
    """The tensor of a shape whose array the devices have as `kept_array` gives it."""
    t = wrap_array(kept)
    return t if t.shape == shape else of_kept(kept, meta(shape, t.dtype, t.device), there)


def of_block(block: Any, there: NamedSharding, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """The tensor of a shape of which each process gives its block."""
    low, _ = own_block(there, shape)

    def part(spans: list[uneven.Span]) -> Any:
        return block[tuple(slice(a - n, b - n) for (a, b), n in zip(spans, low, strict=True))]

    return of_parts(part, there, shape, like)


def overwrite(whole: Tensor, new: Tensor) -> None:
    """Write to a tensor over a mesh, outside of graphs, what `of_parts` or `of_block` has made for it.

    One process may do so alone: neither the old nor the new values are gathered.
    """
    if not (is_direct(whole) and MODES.run.at_once):
        with no_grad():
            whole.copy_(new)
        return
    with WRITE_LOCK:
        put_kept(whole._st, kept_array(new._st))
        whole._st.stamp += 1
        whole._vc.version += 1


def _now(st: Any) -> Any:
    """The block as the whole has it now."""
    whole, seen = st.placement
    if whole._st.stamp != seen and not isinstance(kept_array(whole._st), Tracer):
        _ARRAY.__set__(st, block_of(whole))
        st.placement = whole, whole._st.stamp
    return _ARRAY.__get__(st)


def _write(st: Any, value: Any) -> None:
    """Write a block to the whole."""
    if value is _ARRAY.__get__(st):
        return
    if isinstance(value, Tracer):
        raise AsWritten(
            "it writes to a result of DTensor.to_local() over several processes, and a program has no part that is one "
            "process's own",
            lasting=True,
        )
    whole, _ = st.placement
    overwrite(whole, of_block(np.asarray(value), kept_of(whole)[1], tuple(whole.shape), whole))
    _ARRAY.__set__(st, value)
    st.placement = whole, whole._st.stamp


class PartStorage(Storage):
    """A storage that holds this process's part of a tensor, which is in its `placement`."""

    __slots__ = ()
    array: Any = property(_now, _write)
