"""Parameters of several processes as each of them computes with: whole, and ordinary tensors.

Each process runs the module on its own batch, as PyTorch's do, with the values of all parameters that the module has.
Their gradients are averaged over the processes, and each process keeps its part of that.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from ..._bridge.own_values import Processes, average, own_copy
from ..._core import placement
from ..._core.caches import remember
from ..._core.state import MODES
from ..._engine.strided import read
from ..._engine.tensor import Tensor
from ..._functions.exchange import as_tensor
from ...autograd.function import Function, once_differentiable
from .._exchange import agree
from .._groups import is_initialized
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import is_own, named_sharding, refuse_parts, said, said_mesh


def has_own_forward(mesh: DeviceMesh) -> bool:
    """Whether each process computes by itself: it has one device, and the mesh has no dimension that splits layers."""
    one_each = len(mesh.jax_mesh.local_devices) == 1 and not is_own(mesh)
    return one_each and mesh.size() == mesh.jax_mesh.size


class Gathered(Function):
    """A parameter as an ordinary tensor of this process; of its gradients the parameter gets the average."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, mesh: DeviceMesh) -> Tensor:
        there: Any = named_sharding(p)
        ctx.sharding, ctx.mesh, ctx.processes = there, said_mesh(p), None
        held = read(p.detach())
        if not MODES.run.at_once:
            ctx.processes = _processes_of_program(mesh)
            return as_tensor(own_copy(held, ctx.processes))
        array = placement.place(held, NamedSharding(there.mesh, PartitionSpec()))
        own = array.addressable_data(0)
        return as_tensor(own.copy() if array is held else own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.processes is not None:
            return as_tensor(average(read(grad), ctx.processes, ctx.sharding)), None
        mesh = ctx.sharding.mesh
        own = jax.device_put(jnp.asarray(read(grad))[None], mesh.local_devices[0])
        rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        every = jax.make_array_from_single_device_arrays((mesh.size, *grad.shape), rows, [own])
        out = as_tensor(_average(ctx.sharding)(every))
        return (out if ctx.mesh is None else said(out, ctx.mesh)), None


class _OfMesh(Processes):
    """The processes of a mesh, which compare what they are about to run along one of its dimensions after the other."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh, self._of = mesh.jax_mesh, mesh

    def agree(self, program: bytes) -> bool:
        """Whether all processes give the same bytes, and not none; each calls this."""
        for dim in range(self._of.ndim):
            turn = self._of.get_group(dim).turn("a compiled program", compiled=True)
            program = program if agree(turn, program) else b""
        return bool(program)


def _processes_of_program(mesh: DeviceMesh) -> Processes:
    """Those that run a program together in which each has its own copies of parameters."""
    if not is_initialized() or not all(lift.stateful for lift in MODES.lifts):
        refuse_parts("a forward of fully_shard")
    return _OfMesh(mesh)


@remember()
def _average(sharding: NamedSharding) -> Any:
    """Averages the gradients of the processes, and leaves the result where a parameter is."""
    return jax.jit(lambda every: every.mean(0), out_shardings=sharding)
