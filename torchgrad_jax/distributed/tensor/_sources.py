"""Values that one process has and the others of a mesh take over, as torch's `src_data_rank` says."""

from __future__ import annotations

from typing import Any

from ..._core.state import MODES
from ..._engine.memory.tensor import Tensor
from .. import _groups
from .._collectives import broadcast
from ..device_mesh import DeviceMesh
from ._dtensor import is_own, named_sharding


def values_of(t: Tensor, mesh: DeviceMesh, source: int | None) -> Tensor:
    """A tensor with the values that it has in the process at one place of a mesh.

    Every process of the mesh has to call this. A tensor that lies on a mesh already is returned as it is.

    Args:
        t: as this process has it.
        mesh: a slice stands for its whole mesh.
        source: the number of the place along each dimension; if None, all have the same already.
    """
    alone = source is None or is_own(mesh) or not _groups.is_initialized()
    if alone or not MODES.run.at_once or t.is_meta or named_sharding(t) is not None:
        return t
    places = mesh.jax_mesh.devices
    device: Any = places[(source,) * places.ndim]
    out = t.detach().clone()
    broadcast(out, src=device.process_index, group=mesh.group_of(mesh.jax_mesh.axis_names))
    return out
