"""Parts of tensors: which ones this process has, which of those in a checkpoint they overlap, and room to read into.

A matrix over two devices has two chunks, its upper and its lower half. A process that has the lower half reads from a
checkpoint of four row blocks the last two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.arrays.meta import meta
from ..._core.arrays.shapes import Size
from ..._engine.graph.record import no_grad
from ..._engine.memory.strided import placement_of_tensor, read
from ..._engine.memory.tensor import Tensor, make
from ..._functions.exchange import from_numpy_array
from ..tensor._parts import of_parts, overwrite, shards_of
from .metadata import ChunkStorageMetadata, MetadataIndex
from .planner import LoadItemType, ReadItem

Box = ChunkStorageMetadata


def _shards(tensor: Tensor) -> dict[tuple[int, ...], np.ndarray] | None:
    """The parts on this process's devices by where they begin; None for a tensor that is whole on each of them."""
    if tensor.is_meta:
        return None
    there = placement_of_tensor(tensor)
    if there is None or there.is_fully_replicated:
        return None
    return {_start(spans): data for data, spans in shards_of(tensor.detach()) if data.size or not tensor.numel()}


def _start(spans: Any) -> tuple[int, ...]:
    return tuple(low for low, _ in spans)


def is_split(tensor: Tensor) -> bool:
    """Return whether a tensor is in parts on several devices."""
    return _shards(tensor) is not None


def chunks_of(tensor: Tensor) -> list[Box]:
    """The parts of a tensor that this process has."""
    shards = _shards(tensor)
    if shards is None:
        return [Box(Size((0,) * tensor.dim()), Size(tensor.shape))]
    return [Box(Size(start), Size(data.shape)) for start, data in shards.items()]


def part_at(tensor: Tensor, index: MetadataIndex) -> Tensor:
    """The part of a tensor that begins at an offset.

    Raises:
        ValueError: this process has no such part.
    """
    shards = _shards(tensor)
    if shards is None:
        if index.offset is None or not any(index.offset):
            return tensor
    else:
        data = shards.get(tuple(index.offset or ()))
        if data is not None:
            return make(data, meta(data.shape, tensor.dtype, tensor.device))
    raise ValueError(f"FQN: '{index.fqn}': this process has no part of it that begins at {index.offset}")


# --- what to read ---------------------------------------------------------------------------------


def _overlap(a: Box, b: Box) -> tuple[list[int], list[int]] | None:
    """The corner and the lengths of the box that two boxes have in common."""
    start = [max(x, y) for x, y in zip(a.offsets, b.offsets)]
    ends = zip(a.offsets, a.sizes, b.offsets, b.sizes)
    lengths = [min(x + n, y + m) - s for s, (x, n, y, m) in zip(start, ends)]
    return (start, lengths) if all(n > 0 for n in lengths) else None


def reads(fqn: str, saved: list[Box], wanted: list[Box]) -> Iterator[ReadItem]:
    """Yield what to read, of chunks in a checkpoint, for chunks of this process."""
    for i, chunk in enumerate(wanted):
        for j, there in enumerate(saved):
            common = _overlap(chunk, there)
            if common is not None:
                start, lengths = common
                yield ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, chunk.offsets, i),
                    Size(s - o for s, o in zip(start, chunk.offsets)),
                    MetadataIndex(fqn, there.offsets, j),
                    Size(s - o for s, o in zip(start, there.offsets)),
                    Size(lengths),
                )


def is_inside(chunk: Box, size: Size) -> bool:
    """Return whether a chunk lies in a tensor of that shape."""
    return all(o >= 0 and n >= 0 and o + n <= s for o, n, s in zip(chunk.offsets, chunk.sizes, size))


def overlaps(chunks: Sequence[Any]) -> tuple[Box, Box] | None:
    """Two chunks that have elements in common, if there are any; they are looked for along the longest dimension."""
    if len(chunks) < 2 or not len(chunks[0].sizes):
        return None
    dim = max(range(len(chunks[0].sizes)), key=lambda d: max(c.offsets[d] + c.sizes[d] for c in chunks))
    active: list[Any] = []
    for chunk in sorted(chunks, key=lambda c: c.offsets[dim]):
        active = [c for c in active if c.offsets[dim] + c.sizes[dim] > chunk.offsets[dim]]
        other = next((c for c in active if _overlap(c, chunk)), None)
        if other is not None:
            return other, chunk
        active.append(chunk)
    return None


def narrowed(tensor: Tensor, offsets: Size, lengths: Size) -> Tensor:
    """The box of a tensor that begins at some offsets, as a view."""
    for dim, (start, length) in enumerate(zip(offsets, lengths)):
        if tensor.shape[dim] != length:
            tensor = tensor.narrow(dim, start, length)
    return tensor


# --- room -----------------------------------------------------------------------------------------


class Room:
    """Memory of this process for the chunks of a tensor that are being read; they become its values together.

    Args:
        target: the tensor.
        items: what is read for it.
    """

    def __init__(self, target: Tensor, items: list[ReadItem]) -> None:
        self.target, self.waiting = target, len(items)
        self._chunks = {tuple(c.offsets): c for c in chunks_of(target)}
        self._arrays: dict[tuple[int, ...], np.ndarray] = {}
        self._parts: dict[tuple[int, ...], Tensor] = {}
        for at, chunk in self._chunks.items():
            mine = sum(math.prod(r.lengths) for r in items if tuple(r.dest_index.offset or ()) == at)
            self._arrays[at] = self._memory(chunk, whole=mine == math.prod(chunk.sizes))
            self._parts[at] = from_numpy_array(self._arrays[at])

    def _memory(self, chunk: Box, whole: bool) -> np.ndarray:
        """Room for a chunk; where not all of it is read, with the values that it has."""
        if whole:
            return np.empty(chunk.sizes, self.target.dtype.np)
        part = part_at(self.target, MetadataIndex("", chunk.offsets))
        return np.array(read(part.detach()))

    def part(self, offset: Any) -> Tensor:
        """Room for one chunk."""
        return self._parts[tuple(offset or ())]

    def assign(self) -> None:
        """Give the tensor the values that have been read."""
        there = placement_of_tensor(self.target)
        if there is None:
            (part,) = self._parts.values()
            with no_grad():
                self.target.detach().copy_(part)
        else:
            overwrite(self.target.detach(), self._whole(there))
        self._arrays.clear()
        self._parts.clear()

    def _whole(self, there: Any) -> Tensor:
        """The tensor's new values, where its own are, made of what this process has read.

        Processes finish tensors in orders of their own, so that nothing here may wait for the others, as JAX does where
        it puts a process's own array on the devices of several.
        """
        return of_parts(lambda spans: self._arrays.get(_start(spans)), there, tuple(self.target.shape), self.target)
