"""Context parallelism: batches split along their sequence, for attention over long ones.

Everything but attention works on each part by itself. In attention, XLA lets each device compute the rows of its own
queries, and gathers keys and values for that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from ...._core.arrays.dtypes import bool_
from ...._core.signals import contextmanager
from ...._engine.memory.tensor import Tensor
from ...._functions.attention import INSTEAD, scaled_dot_product_attention
from ...._functions.create import ones
from ...device_mesh import DeviceMesh
from .._dtensor import DTensor, spread
from ..placement_types import Replicate, Shard
from ._func_map import local_map


def _attention(
    mesh: DeviceMesh, query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: Any, grouped: bool
) -> Tensor:
    """Attention in which each device computes its own part of the rows."""
    rows = Shard(query.ndim - 2)
    length, n = query.shape[-2], mesh.size()
    if causal:
        mask = ones(length, key.shape[-2], dtype=bool_).tril()
    splits_mask = mask is not None and mask.shape[-2] == length
    tensors = [query, key, value, *([] if mask is None else [mask])]
    placed = [rows, Replicate(), Replicate()]
    if mask is not None:
        placed.append(Shard(mask.ndim - 2) if splits_mask else Replicate())

    def part(q: Any, k: Any, v: Any, allowed: Any = None) -> Tensor:
        held, INSTEAD.call = INSTEAD.call, None
        try:
            return scaled_dot_product_attention(q, k, v, allowed, scale=scale, enable_gqa=grouped)
        finally:
            INSTEAD.call = held

    if length % n:
        return part(*tensors)
    moved = [spread(t, mesh, (p,)) for t, p in zip(tensors, placed, strict=True)]
    return local_map(part, out_placements=[rows])(*moved)


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: Sequence[Any] | None = None,
    buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Any] | None = None,
) -> Iterator[None]:
    """A block in which tensors are split along their sequence.

    Args:
        mesh: a mesh of one dimension, such as a slice of a larger one.
        buffers: inputs, labels, tables of positions and the like. They are split in place and keep their shape, as
            they are still whole; afterwards they are what they were before.
        buffer_seq_dims: for each of them the dimension of the sequence.
        no_restore_buffers: those to leave as they are then.

    Differs from torch: shapes inside are those of whole sequences, and causal masks need no reordering.
    """
    tensors, dims, left = (list(buffers or ()), list(buffer_seq_dims or ()), no_restore_buffers or set())
    if len(tensors) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if not all(any(b is t for t in tensors) for b in left):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel() needs a mesh of one dimension, not {mesh}")
    before = [t.detach() for t in tensors]
    after = [spread(t, mesh, (Shard(dim),), True) for t, dim in zip(before, dims, strict=True)]
    for t, split in zip(tensors, after, strict=True):
        t.data = split
    outer, INSTEAD.call = INSTEAD.call, functools.partial(_attention, mesh)
    try:
        yield
    finally:
        INSTEAD.call = outer
        for t, held in zip(tensors, before, strict=True):
            if not any(t is b for b in left):
                t.data = held


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: Sequence[Any], seq_dims: Sequence[int], load_balancer: Any = None
) -> list[Tensor]:
    """Whole tensors on one device, without history, of those that were split along their sequence.

    Args:
        mesh: the mesh.
        buffers: the tensors.
        seq_dims: for each of them the dimension of the sequence.
        load_balancer: not supported: nothing was reordered.
    """
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard(): load_balancer")
    if len(buffers) != len(seq_dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    detached = [t.detach() for t in buffers]
    return [t.full_tensor() if isinstance(t, DTensor) else t for t in detached]  # type: ignore[attr-defined]


def set_rotate_method(rotate_method: str) -> None:
    """Say how keys and values go around: XLA gathers them.

    Args:
        rotate_method: "allgather".
    """
    if rotate_method == "alltoall":
        raise NotImplementedError('set_rotate_method("alltoall"): XLA gathers keys and values')
    if rotate_method != "allgather":
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
