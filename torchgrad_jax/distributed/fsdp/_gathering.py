"""Parameters of several processes as each of them computes with: whole, and ordinary tensors.

Each process runs the module on its own batch, as PyTorch's do, with the values of all parameters that the module has.
Their gradients are averaged over the processes, and each process keeps its part of that.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from ..._core import placement
from ..._core.caches import remember
from ..._core.state import MODES
from ..._engine.strided import read
from ..._engine.tensor import Tensor
from ..._functions.exchange import as_tensor
from ...autograd.function import Function, once_differentiable
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import is_own, named_sharding, refuse_parts, said, said_mesh


def has_own_forward(mesh: DeviceMesh) -> bool:
    """Whether each process computes by itself: it has one device, and the mesh has no dimension that splits layers."""
    one_each = len(mesh.jax_mesh.local_devices) == 1 and not is_own(mesh)
    return one_each and mesh.size() == mesh.jax_mesh.size


class Gathered(Function):
    """A parameter as an ordinary tensor of this process; of its gradients the parameter gets the average."""

    @staticmethod
    def forward(ctx: Any, p: Tensor) -> Tensor:
        if not MODES.run.at_once:
            refuse_parts("a forward of fully_shard")
        there: Any = named_sharding(p)
        ctx.sharding, ctx.mesh = there, said_mesh(p)
        held = read(p.detach())
        array = placement.place(held, NamedSharding(there.mesh, PartitionSpec()))
        own = array.addressable_data(0)
        return as_tensor(own.copy() if array is held else own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        mesh = ctx.sharding.mesh
        own = jax.device_put(jnp.asarray(read(grad))[None], mesh.local_devices[0])
        rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        every = jax.make_array_from_single_device_arrays((mesh.size, *grad.shape), rows, [own])
        out = as_tensor(_average(ctx.sharding)(every))
        return out if ctx.mesh is None else said(out, ctx.mesh)


@remember()
def _average(sharding: NamedSharding) -> Any:
    """Averages the gradients of the processes, and leaves the result where a parameter is."""
    return jax.jit(lambda every: every.mean(0), out_shardings=sharding)
