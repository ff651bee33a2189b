"""DTensor: a tensor whose storage is one array over the devices of a mesh.

It is no class of its own: every operator, gradient, hook and optimizer works on it as on any tensor, because the array
is the whole one and XLA computes where its parts are. `isinstance(t, DTensor)` asks where the array lies. What
depends on that (`placements`, `to_local`, ...) is found on such tensors only.

*Local* means this process: `to_local` gives what all devices of the process have together, and `from_local` takes
that. In a process with all devices it is the whole tensor; with one device per process it is torch's local tensor.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..._core.arrays import placement, summands
from ..._core.errors.messages import AsWritten
from ..._core.state import MODES
from ..._engine.memory.strided import is_direct, placement_of_tensor, read
from ..._engine.memory.tensor import PlacedStorage, Tensor, wrap_array
from ..._engine.tensor.attributes import OTHER_TEXTS, AttributeOfSome, own_text
from ..._functions.exchange import as_tensor
from ...autograd.function import Function
from .._arguments import ReduceOp
from .._collectives import all_reduce, broadcast
from ..device_mesh import DeviceMesh, current_mesh, mesh_of
from ._parts import kept_of, of_block, part_of
from ._specs import FREE, checked, fitting, own_block, placements_of, reduced, sharding_of, spec_of
from ._summands import note_of, reductions_of, run, say_summands, without_note
from .placement_types import Partial, Placement

_MESHES: weakref.WeakKeyDictionary[Any, DeviceMesh] = weakref.WeakKeyDictionary()
"""The mesh, or slice of one, that a storage was distributed over by the program, where it said so."""


def named_sharding(t: Any) -> NamedSharding | None:
    """The sharding of a tensor over a mesh; None for any other."""
    if not isinstance(t, Tensor) or not placement.MANY:
        return None
    direct = isinstance(t._st, PlacedStorage) and is_direct(t)
    if not MODES.run.at_once and not direct:
        return None
    found = placement_of_tensor(t)
    return found if isinstance(found, NamedSharding) else None


class _DTensorMeta(type(Tensor)):
    """Counts tensors whose array lies on a mesh."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return named_sharding(instance) is not None and "_is_local" not in instance.__dict__


class DTensor(Tensor, metaclass=_DTensorMeta):
    """A tensor over the devices of a mesh; made by `distribute_tensor`, `from_local` and what computes with them.

    Differs from torch: plain tensors may be mixed in, they count as replicated; in a process with all devices of the
    mesh no result is `Partial`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("DTensor(): make one with distribute_tensor() or DTensor.from_local()")

    @staticmethod
    def from_local(
        local_tensor: Any,
        device_mesh: DeviceMesh | None = None,
        placements: Any = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> Tensor:
        """A tensor over a mesh of what each process has of it; the whole of it in a process with all devices.

        Args:
            local_tensor: this process's part.
            device_mesh: the mesh; the innermost `with mesh:` if None.
            placements: what each dimension of the mesh does; all devices have all of it if None.
            run_check: whether all processes along a dimension that replicates take the values of the first one.
            shape: the shape of the whole tensor, where parts may differ in size.
            stride: not looked at, as a tensor over a mesh has no gaps.
            grad_placements: what the gradients of all processes are of the tensor's gradient; as the tensor itself if
                None, where processes that have summands each get all of it.
        """
        if not isinstance(local_tensor, Tensor):
            raise RuntimeError(
                f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)} value."
            )
        mesh = current_mesh(device_mesh)
        wanted = _of_local(mesh, placements, local_tensor.ndim)
        if not is_own(mesh):
            return _from_processes(local_tensor, mesh, wanted, shape, run_check, grad_placements)
        if shape is not None and tuple(shape) != tuple(local_tensor.shape):
            raise ValueError(
                f"DTensor.from_local(): this process has all devices of {mesh}, so that its part of shape "
                f"{list(local_tensor.shape)} is the whole tensor, and not one of shape {list(shape)}"
            )
        return spread(local_tensor, mesh, wanted)


def _of_local(mesh: DeviceMesh, placements: Any, ndim: int) -> tuple[Placement, ...]:
    given = tuple(placements) if placements is not None else None
    for number, p in enumerate(given or ()):
        dim = getattr(p, "dim", 0)
        if dim >= max(ndim, 1):
            raise RuntimeError(f"Sharding dim {dim} greater than tensor ndim {ndim} for placement number {number}")
    return checked(mesh, given, ndim)


def is_own(mesh: DeviceMesh) -> bool:
    """Return whether all devices of a mesh belong to this process."""
    if MODES.target is not None:  # no process has any of them, and one program is for all
        return True
    return mesh.jax_mesh.local_mesh is mesh.jax_mesh or len(mesh.jax_mesh.local_devices) == mesh.jax_mesh.size


def _gradient_placed(mesh: DeviceMesh, own: Any, given: Any, ndim: int) -> tuple[Placement, ...]:
    """What each process has of a gradient: as of the tensor, if nothing is given, and all of it if that has summands.

    Args:
        mesh: the mesh of the tensor.
        own: the placements of the tensor.
        given: those of the gradient, which may differ where no process has a part of its own.
        ndim: the number of dimensions of the tensor.
    """
    wanted = reduced(own) if given is None else _of_local(mesh, given, ndim)
    for number, (p, q) in enumerate(zip(own, wanted, strict=True)):
        if p != q and (p.is_shard() or q.is_shard()):
            raise RuntimeError(
                f"grad_placements: along dimension {number} of the mesh the tensor has the placement {p}, of which no "
                f"gradient can have {q}"
            )
    return wanted


def _from_processes(
    local: Tensor, mesh: DeviceMesh, wanted: Any, shape: Any, agree: bool = False, of_grad: Any = None
) -> Tensor:
    if not MODES.run.at_once:
        refuse_parts("DTensor.from_local()")
    if local.requires_grad:
        of_grad = None if of_grad is None else _gradient_placed(mesh, wanted, of_grad, local.ndim)
        return FromLocal.apply(local, mesh, wanted, shape, agree, of_grad)
    if agree:
        local = _agreed(local, mesh, wanted)
    own, there = read(local), NamedSharding(mesh.jax_mesh, spec_of(mesh, reduced(wanted), local.ndim))
    block = np.asarray(read(_reduced(local, mesh, wanted)))
    whole = _whole_shape(block.shape, there) if shape is None else tuple(shape)
    return say_summands(said(of_block(block, there, whole, local), mesh), mesh, wanted, own)


def _whole_shape(part: tuple[int, ...], there: NamedSharding) -> tuple[int, ...]:
    """The shape of a tensor of which each process has such a part."""
    entries = [*there.spec, *[None] * (len(part) - len(there.spec))]
    counts = tuple(placement.parts_of(there, entry) for entry in entries)
    low, high = own_block(there, counts)
    return tuple(n * count // (b - a) for n, count, a, b in zip(part, counts, low, high, strict=True))


def refuse_parts(call: str) -> NoReturn:
    """Complain about what is this process's part of a tensor: programs know tensors over a mesh as whole ones."""
    what = f"{call} over several processes"
    if any(run.may_write_outside for run in MODES.runs):
        raise AsWritten(
            f"it does {what}, and a program has no part that is one process's own: compile what computes with tensors "
            "over the mesh alone, as the blocks within the module that gets the batch",
            lasting=True,
        )
    raise NotImplementedError(f"{what} inside of a mapped function")


def _agreed(local: Tensor, mesh: DeviceMesh, wanted: Any) -> Tensor:
    """The values of the first process along each dimension that replicates."""
    for number, p in enumerate(wanted):
        if p.is_replicate():
            local = local.clone()
            broadcast(local, group=mesh.get_group(number), group_src=0)
    return local


def _reduced(local: Tensor, mesh: DeviceMesh, wanted: Any) -> Tensor:
    """Return what `Partial` dimensions make of the summands of their processes, which then all have it."""
    for number, p in enumerate(wanted):
        if isinstance(p, Partial):
            local = local.clone()
            all_reduce(local, getattr(ReduceOp, p.reduce_op.upper()), mesh.get_group(number))
    return local


def spread(t: Tensor, mesh: DeviceMesh, wanted: Any, if_it_fits: bool = False) -> Tensor:
    """A tensor placed over a mesh or a slice of one, whatever the rest of the mesh does with it.

    Where a program is being traced nobody knows yet what the rest of the mesh
    does: XLA is told what the slice does and chooses the rest.

    Args:
        t: the tensor.
        mesh: the mesh.
        wanted: what each of its dimensions does.
        if_it_fits: whether a dimension that the devices of this process do not divide stays whole.
    """
    asked = checked(mesh, wanted, t.ndim)
    wanted = reduced(asked)
    held = named_sharding(t)
    spec: Any = held.spec if held is not None and held.mesh == mesh.jax_mesh else ()
    if if_it_fits and is_own(mesh):
        wanted = fitting(mesh, wanted, tuple(t.shape), spec)
    if not MODES.run.at_once and (held is None or FREE in held.spec):
        return said(t.to(_sharding_for(t, mesh, wanted)), mesh)
    there = sharding_of(mesh, wanted, tuple(t.shape), spec)
    reductions = reductions_of(t, mesh) if held is not None and held.mesh == mesh.jax_mesh else (None,) * mesh.ndim
    same = reductions == tuple(p if isinstance(p, Partial) else None for p in asked)
    if same and held is not None and placement.has_placement(kept_of(t)[0], there):
        return said(t.view_as(t) if t.requires_grad else t.detach(), mesh)
    out = t.to(there)
    if not same or any(reductions):  # which summands there are is said of an array
        out = without_note(t.clone() if out is t else out)
    elif out is t:
        out = t.view_as(t) if t.requires_grad else t.detach()
    return say_summands(said(out, mesh), mesh, asked)


def _sharding_for(t: Tensor, mesh: DeviceMesh, wanted: Any) -> NamedSharding:
    """What XLA is told about a traced tensor: dimensions that the slice does not split are its own to choose.

    To say that a slice does not split a tensor, XLA has to be told that nothing splits its dimensions; the first one,
    which data parallelism splits, is left out where the mesh has more than this slice.
    """
    sharding_of(mesh, wanted, tuple(t.shape))
    spec = list(spec_of(mesh, wanted, t.ndim, free=True))
    if not any(p.is_shard() for p in wanted):
        whole = len(mesh.jax_mesh.axis_names) == sum(map(len, mesh.axes))
        first = 0 if whole else 1
        spec[first:] = [None] * len(spec[first:])
    return NamedSharding(mesh.jax_mesh, PartitionSpec(*spec))


def said(t: Tensor, mesh: DeviceMesh) -> Tensor:
    """Note the mesh that the program distributed a tensor over."""
    t.__dict__.pop("_is_local", None)
    _MESHES[t._st] = mesh
    return t


def said_mesh(t: Tensor) -> DeviceMesh | None:
    """The mesh that the program distributed a tensor over, where it said so."""
    return _MESHES.get(t._st)


def _sharding(t: Tensor, name: str) -> NamedSharding:
    if "_is_local" not in t.__dict__:
        found = named_sharding(t)
        if found is not None:
            return found
    why = "it lies on no device mesh"
    if not MODES.run.at_once:
        why = "inside of a compiled function XLA has yet to choose where arguments and results lie"
    raise AttributeError(f"'{type(t).__name__}' object has no attribute '{name}': {why}")


def _awaits_placement(t: Tensor) -> bool:
    """Return whether a tensor is one of a traced program, for which XLA has yet to choose a place."""
    return not MODES.run.at_once and named_sharding(t) is None


def device_mesh(t: Tensor) -> DeviceMesh:
    """The mesh that a tensor lies on: the slice that it was distributed over, or the whole one."""
    there: Any = _sharding(t, "device_mesh")
    known = said_mesh(t)
    return known if known is not None and known.jax_mesh == there.mesh else mesh_of(there.mesh)


_mesh_of = device_mesh
"""The same, for functions with an argument of that name."""


def placements(t: Tensor) -> tuple[Placement, ...]:
    """What each dimension of the mesh does with a tensor, as its array says, and the program of its summands."""
    spec, mesh = _sharding(t, "placements").spec, device_mesh(t)
    found = placements_of(mesh, spec)
    return tuple(p if of is None else of for p, of in zip(found, reductions_of(t, mesh), strict=True))


def redistribute(
    self: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Any = None,
    *,
    async_op: bool = False,
    forward_dtype: Any = None,
    backward_dtype: Any = None,
) -> Tensor:
    """The tensor with other placements.

    Args:
        device_mesh: its mesh, or one with the same devices.
        placements: what each dimension of the mesh does.
        async_op: XLA moves data while the program goes on in any case.
        forward_dtype: cast first.
        backward_dtype: not supported.
    """
    if backward_dtype is not None:
        raise NotImplementedError("DTensor.redistribute(): backward_dtype is not supported")
    if placements is None:
        raise RuntimeError("placements is needed for redistribute!")
    if device_mesh is None and _awaits_placement(self):
        raise RuntimeError(
            "DTensor.redistribute() of an argument or a result inside of a compiled function: give device_mesh, as "
            "XLA has yet to choose where it lies"
        )
    mesh = _mesh_of(self) if device_mesh is None else device_mesh
    wanted = checked(mesh, placements, self.ndim)
    for i, p in enumerate(wanted):
        if isinstance(p, Partial) and (_awaits_placement(self) or self.placements[i] != p):
            held = "what XLA chooses" if _awaits_placement(self) else self.placements[i]
            raise RuntimeError(
                f"Can not redistribute from {held} to {p}, redistributing to Partial is for internal use only!"
            )
    return spread(self if forward_dtype is None else self.to(forward_dtype), mesh, wanted)


def to_local(self: Tensor, *, grad_placements: Any = None) -> Tensor:
    """Return what this process has of the tensor; in a process with all devices, the tensor itself as an ordinary one.

    Of a tensor that is `Partial` that is its own summand. Where a module's `output_layouts` say so of what all have,
    the first process has all, and the others what changes nothing: zeros, for a sum.

    Args:
        grad_placements: what the gradients of all processes are of the tensor's gradient: its parts or the summands of
            `Partial`; as the tensor itself if None. A process with all devices has all of it.
    """
    if _awaits_placement(self) and jax.process_count() > 1:
        refuse_parts("DTensor.to_local()")
    if (
        _awaits_placement(self)
        or isinstance(kept_of(self)[0], jax.core.Tracer)
        or _sharding(self, "to_local").is_fully_addressable
    ):
        out = self.view_as(self) if self.requires_grad else self.detach()
        out.__dict__["_is_local"] = True
        return out
    return ToLocal.apply(self, grad_placements) if self.requires_grad else _part(self)


def _part(t: Tensor) -> Tensor:
    """Return what this process has of a tensor over several, without history."""
    found = note_of(t)
    return part_of(t.detach()) if found is None or found.own is None else wrap_array(found.own)


class FromLocal(Function):
    """The parts of all processes as one tensor; of its gradient each gets its part."""

    @staticmethod
    def forward(
        ctx: Any, local: Tensor, mesh: DeviceMesh, wanted: Any, shape: Any, agree: bool, of_grad: Any
    ) -> Tensor:
        ctx.placed, ctx.of_grad = (mesh, reduced(wanted)), of_grad or ()
        return _from_processes(local.detach(), mesh, wanted, shape, agree)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        mesh, _ = ctx.placed
        part = to_local(spread(grad, *ctx.placed))
        for number, p in enumerate(ctx.of_grad):
            if isinstance(p, Partial) and p.reduce_op == "sum":
                part = part / mesh.size(number)  # the summands of all processes are equal
        return part, None, None, None, None, None


class ToLocal(Function):
    """What this process has of a tensor; its gradient is a part of that of the whole."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, grad_placements: Any) -> Tensor:
        mesh, own = device_mesh(t), placements(t)
        wanted = _gradient_placed(mesh, own, grad_placements, t.ndim)
        ctx.placed = mesh, wanted, tuple(t.shape)
        return _part(t)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _from_processes(grad, *ctx.placed), None


def _local_tensor(t: Tensor) -> Tensor:
    """Return what this process has of a tensor, without history; torch keeps it under this name."""
    _sharding(t, "_local_tensor")
    return to_local(t.detach())


def full_tensor(self: Tensor, *, grad_placements: Any = None) -> Tensor:
    """The whole tensor as an ordinary one.

    Args:
        grad_placements: what the gradients of all processes are of the whole gradient, as for `to_local`.
    """
    if _awaits_placement(self):
        return self
    there = _sharding(self, "full_tensor")
    everywhere = NamedSharding(there.mesh, PartitionSpec())
    if not MODES.run.at_once or self.requires_grad or self._m.device.type == "meta":
        out = self if note_of(self) is None else without_note(self.clone())
        out = out.to(everywhere)
        if MODES.run.at_once and self.requires_grad and not there.is_fully_addressable:
            return ToLocal.apply(out, grad_placements)
        out = out.view_as(out) if out is self else out
        out.__dict__["_is_local"] = True
        return out
    array = placement.place(read(self), everywhere)
    return as_tensor(jax.numpy.asarray(np.asarray(array.addressable_data(0))))


def _is_elsewhere(self: Tensor) -> bool:
    """Return whether other processes have parts of a tensor that this one has not."""
    if not MODES.run.at_once or not placement.MANY:
        return False
    there = named_sharding(self)
    return there is not None and not (there.is_fully_addressable or there.is_fully_replicated)


def _text(t: Tensor) -> str | None:
    """torch's text for a DTensor, of what the program itself distributed."""
    if _is_elsewhere(t) or (isinstance(t, DTensor) and MODES.run.at_once and note_of(t) is not None):
        shown = own_text(_local_tensor(t))
    elif t._st in _MESHES and isinstance(t, DTensor) and MODES.run.at_once:
        shown = own_text(t)
    else:
        return None
    return f"DTensor(local_tensor={shown}, device_mesh={device_mesh(t)}, placements={placements(t)})"


def _bound(method: Any) -> Any:
    """How a tensor over a mesh gives its method."""

    def get(self: Tensor) -> Any:
        if not _awaits_placement(self):
            _sharding(self, method.__name__)
        return method.__get__(self)

    return get


def install() -> None:
    """Put the attributes of tensors over a mesh on `Tensor`."""
    for of in (device_mesh, placements, _local_tensor):
        setattr(Tensor, of.__name__, AttributeOfSome(of.__name__, of))
        setattr(DTensor, of.__name__, property(of))
    for method in (redistribute, to_local, full_tensor):
        setattr(Tensor, method.__name__, AttributeOfSome(method.__name__, _bound(method)))
        setattr(DTensor, method.__name__, method)
    OTHER_TEXTS.append(_text)
    summands.RUN.append(run)
