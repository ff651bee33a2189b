"""Placements are a `NamedSharding`: `Shard(0)` on the dimension `tp` of a mesh is `PartitionSpec("tp")`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..._core.arrays import uneven
from ..._core.arrays.placement import names_of as names_of
from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

FREE = PartitionSpec.UNCONSTRAINED


def checked(mesh: DeviceMesh, placements: Any, ndim: int) -> tuple[Placement, ...]:
    """One placement for each dimension of a mesh, without negative dimensions; None means all over."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    return tuple(_with_dim(p, i, ndim) for i, p in enumerate(placements))


def _with_dim(p: Any, number: int, ndim: int) -> Placement:
    if not isinstance(p, Placement):
        raise RuntimeError(
            f"Trying to distribute tensor with unsupported placements {p} on device mesh dimension {number}!"
        )
    if not isinstance(p, Shard | _StridedShard):
        return p
    if not -ndim <= p.dim < max(ndim, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {p.dim})")
    return Shard(p.dim % max(ndim, 1)) if isinstance(p, Shard) and p.dim < 0 else p


def spec_of(
    mesh: DeviceMesh, placements: Sequence[Placement], ndim: int, held: Any = (), free: bool = False
) -> PartitionSpec:
    """The axes that split each dimension of a tensor.

    Args:
        mesh: the mesh, or the slice of one, that the placements are of.
        placements: one for each of its dimensions.
        ndim: how many dimensions the tensor has.
        held: the present spec; axes outside of the slice stay as they are.
        free: whether XLA chooses for dimensions that no placement names.
    """
    own = {a for axes in mesh.axes for a in axes}
    rows = [[a for a in names_of(e) if a not in own] for e in [*held, *[None] * (ndim - len(held))]]
    for kind in (Shard, _StridedShard):
        for axes, p in zip(mesh.axes, placements, strict=True):
            if isinstance(p, kind):
                rows[p.dim].extend(axes)
    entries = [FREE if free and not row else _entry(row) for row in rows]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def _entry(row: list[str]) -> Any:
    return tuple(row) if len(row) > 1 else row[0] if row else None


def placements_of(mesh: DeviceMesh, spec: PartitionSpec) -> tuple[Placement, ...]:
    """What each dimension of a mesh does, read from a spec."""
    return tuple(_placement(mesh, i, spec) for i in range(mesh.ndim))


def _placement(mesh: DeviceMesh, number: int, spec: PartitionSpec) -> Placement:
    axes = mesh.axes[number]
    later = {a for row in mesh.axes[number + 1 :] for a in row}
    for dim, entry in enumerate(spec):
        names = names_of(entry)
        if axes[0] in names:
            ahead = [a for a in names[: names.index(axes[0])] if a in later]
            if not ahead:
                return Shard(dim)
            return _StridedShard(dim, math.prod(mesh.jax_mesh.shape[a] for a in ahead))
    return Replicate()


def sharding_of(
    mesh: DeviceMesh, placements: Sequence[Placement], shape: tuple[int, ...], held: Any = ()
) -> NamedSharding:
    """The sharding that placements mean for a tensor of a shape."""
    return NamedSharding(mesh.jax_mesh, spec_of(mesh, placements, len(shape), held))


def own_block(sharding: Sharding, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Where the block of an array that this process's devices have begins and ends, along each dimension."""
    places = sharding.addressable_devices_indices_map(uneven.kept_shape(shape, sharding)).values()
    blocks = [uneven.block_spans(sharding, shape, p) for p in places]
    spans = [b for b in blocks if all(high > low for low, high in b)] or blocks[:1]
    dims = range(len(shape))
    return [min(s[d][0] for s in spans) for d in dims], [max(s[d][1] for s in spans) for d in dims]


def reduced(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """The placements of what summands add up to: every process has all of it."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def fitting(
    mesh: DeviceMesh, placements: Sequence[Placement], shape: tuple[int, ...], held: Any = ()
) -> tuple[Placement, ...]:
    """The placements, with `Replicate` for those that would split a dimension into unequal parts."""
    sizes = mesh.jax_mesh.shape
    others = spec_of(mesh, (Replicate(),) * mesh.ndim, len(shape), held)
    parts = [math.prod(sizes[a] for a in names_of(entry)) for entry in others]
    parts += [1] * (len(shape) - len(parts))
    out: list[Placement] = []
    for n, p in zip(mesh.shape, placements, strict=True):
        if isinstance(p, Shard | _StridedShard):
            if shape[p.dim] % (parts[p.dim] * n):
                p = Replicate()
            else:
                parts[p.dim] *= n
        out.append(p)
    return tuple(out)


def refuse_partial(placements: Sequence[Placement]) -> None:
    """Complain about a tensor that is to be made of summands."""
    for number, p in enumerate(placements):
        if isinstance(p, Partial):
            raise RuntimeError(
                f"Trying to distribute tensor with unsupported placements {p} on device mesh dimension {number}: XLA "
                "reduces where it computes, and keeps no summands"
            )
