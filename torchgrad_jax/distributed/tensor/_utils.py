"""torch.distributed.tensor._utils: which block of a tensor over a mesh this process has."""

from __future__ import annotations

from collections.abc import Sequence

from ..device_mesh import DeviceMesh
from ._specs import checked, own_block, sharding_of
from .placement_types import Placement


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of `DTensor.to_local()`, and where it begins in the whole tensor.

    Args:
        global_shape: the shape of the whole tensor.
        mesh: the mesh. In a process without a device in it the answer is `((0,), ())`.
        placements: what each dimension of the mesh does.
        skip_offset: whether the second part of the answer stays empty.
    """
    if mesh.get_coordinate() is None:
        return (0,), ()
    shape = tuple(global_shape)
    low, high = own_block(sharding_of(mesh, checked(mesh, placements, len(shape)), shape), shape)
    sizes = tuple(h - n for n, h in zip(low, high, strict=True))
    return sizes, () if skip_offset else tuple(low)
