"""Parameters of several processes as each of them computes with: whole, and ordinary tensors.

Each process runs the module on its own batch, as PyTorch's do, with the values of all parameters that the module has.
Their gradients are averaged over the processes, and each process keeps its part of that.

A group of parameters is gathered by one program, and its gradients are averaged by one. After the forward pass the
processes may let go of what was gathered: it is gathered again when the backward pass reads it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from ..._core.arrays import uneven
from ..._core.arrays.meta import meta
from ..._core.jax.caches import remember
from ..._core.jax.own_kernels import jit
from ..._core.state import MODES
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Storage, Tensor, make
from ..._functions.exchange import as_tensor
from ...autograd.function import Function
from ...utils import _pytree
from .._compiled.own_values import Processes, average, own_copy
from .._exchange import agree
from .._groups import is_initialized
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import is_own, named_sharding, refuse_parts, said, said_mesh
from ..tensor._parts import around, kept_of
from ..tensor._specs import names_of

_ARRAY: Any = Storage.array


def has_own_forward(mesh: DeviceMesh) -> bool:
    """Whether each process computes by itself: it has one device, and the mesh has no dimension that splits layers."""
    one_each = not is_own(mesh) and len(mesh.jax_mesh.local_devices) == 1
    return one_each and mesh.size() == mesh.jax_mesh.size


class _Place(NamedTuple):
    """Where a parameter is, and what it is."""

    sharding: Any
    mesh: Any
    """The mesh that the program distributed it over."""
    dtype: Any
    shape: tuple[int, ...]
    requires_grad: bool
    name: tuple[int, int]
    """The number of its group and its own in that; the same in all processes."""

    def even(self) -> Any:
        """The sharding, with dimensions left whole that it splits into unequal parts."""
        return uneven.even(self.sharding, tuple(self.shape))


class Gathered(Function):
    """Parameters as ordinary tensors of this process; each parameter gets the average of its gradients.

    The arguments are the mesh, the number of the group, the dtype to compute in for each parameter, whether to gather
    only what is read (`lazily`), and the parameters.
    """

    @staticmethod
    def forward(ctx: Any, mesh: DeviceMesh, group: int, dtypes: Any, lazily: bool, *parameters: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        places = [
            _Place(named_sharding(p), said_mesh(p), p.dtype, p.shape, p.requires_grad, (group, i))
            for i, p in enumerate(parameters)
        ]
        ctx.back = mesh, places
        if MODES.run.at_once:
            kept = [kept_of(p.detach())[0] for p in parameters]
            out = _Source(mesh, places, kept, dtypes).tensors(parameters[0].device, lazily)
        else:
            held = [read(p.detach()) for p in parameters]
            processes = _processes_of_program(mesh)
            out = [
                as_tensor(own_copy(array, processes, place.name)).to(dtype)
                for array, dtype, place in zip(held, dtypes, places, strict=True)
            ]
        fixed = [t for t, p in zip(out, parameters, strict=True) if not p.requires_grad]
        ctx.mark_non_differentiable(*fixed)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        mesh, places = ctx.back
        return None, None, None, None, *Averaged.apply(mesh, places, *grads)


class Averaged(Function):
    """The average of gradients that the processes have of their own, each where its parameter is.

    Where a gradient is missing here and another process has it, it counts as zero. A gradient that no process has is
    None. The arguments are the mesh, the places of the parameters, and the gradients, None where there is none.
    """

    @staticmethod
    def forward(ctx: Any, mesh: DeviceMesh, places: Sequence[_Place], *grads: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.back = mesh, [None if g is None else g.dtype for g in grads], places
        at = [i for i, place in enumerate(places) if place.requires_grad]
        own = [None if grads[i] is None else read(grads[i]) for i in at]
        there = [places[i] for i in at]
        if MODES.run.at_once:
            means = _averaged(mesh, there, own)
        else:
            processes = _processes_of_program(mesh)
            means = [
                None if x is None else average(x.astype(to.dtype.np), processes, to.even(), to.name)
                for x, to in zip(own, there, strict=True)
            ]
        out: list[Any] = [None] * len(grads)
        for i, mean in zip(at, means, strict=True):
            if mean is not None:
                out[i] = around(mean, places[i].sharding, tuple(places[i].shape))
                if places[i].mesh is not None:
                    said(out[i], places[i].mesh)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        mesh, dtypes, places = ctx.back
        at = [i for i, g in enumerate(grads) if g is not None]
        to = [dtypes[i] or places[i].dtype for i in at]
        own = Gathered.apply(mesh, places[0].name[0], to, False, *[grads[i] for i in at])
        out: list[Any] = [None] * len(grads)
        for i, g in zip(at, own, strict=True):
            out[i] = None if dtypes[i] is None else g
        return None, None, *out


class _OfMesh(Processes):
    """The processes of a mesh, which compare what they are about to run along one of its dimensions after the other."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh, self._of = mesh.jax_mesh, mesh

    def agree(self, program: bytes) -> bool:
        """Return whether all processes give the same bytes, and not none; each calls this."""
        for dim in range(self._of.ndim):
            turn = self._of.get_group(dim).turn("a compiled program", compiled=True)
            program = program if agree(turn, program) else b""
        return bool(program)


def _processes_of_program(mesh: DeviceMesh) -> Processes:
    """Those that run a program together in which each has its own copies of parameters."""
    if not is_initialized() or not all(run.may_write_outside for run in MODES.runs):
        refuse_parts("a forward of fully_shard")
    return _OfMesh(mesh)


def _meet(mesh: DeviceMesh, doing: str, places: Sequence[_Place]) -> None:
    """Wait until the processes next to this one are about to do the same with the same parameters.

    XLA would exchange the values of different parameters, if they have the same shapes, and wait long for a process
    that does not come. Each process hears from one neighbour along each dimension of the mesh, so the cost does not
    grow with their number.

    Raises:
        DistBackendError: the process before this one does something else, does not come in time, or has ended.
    """
    if not is_initialized():
        return
    what = f"{doing} of fully_shard's group {places[0].name[0]}"
    for dim, n in enumerate(mesh.shape):
        if n > 1:
            turn = mesh.get_group(dim).turn(what)
            turn.send((turn.rank + 1) % n, _NOTHING)
            turn.take((turn.rank - 1) % n)


_NOTHING = np.zeros(0, np.uint8)


# --- what is gathered, and may be let go of -----------------------------------------------------------


class _Source:
    """What the parameters of a group were gathered from, and can be gathered from again."""

    def __init__(self, mesh: DeviceMesh, places: Sequence[_Place], held: Sequence[jax.Array], dtypes: Any) -> None:
        self.mesh, self.places = mesh, places
        shapes = tuple(tuple(p.shape) for p in places)
        self.program = _gathering(tuple(p.sharding for p in places), shapes, tuple(d.np for d in dtypes))
        self.held, self.dtypes = held, dtypes
        self.storages: list[weakref.ref[Any]] = []

    def tensors(self, device: Any, lazily: bool) -> list[Tensor]:
        """The parameters as tensors of this process, whose values `lazily` come when one of them is read."""
        out = []
        for place, dtype in zip(self.places, self.dtypes, strict=True):
            t = make(None, meta(tuple(place.shape), dtype, device))
            t._st.placement = self
            t._st.__class__ = GatheredStorage
            self.storages.append(weakref.ref(t._st))
            out.append(t)
        if not lazily:
            self.gather()
        return out

    def gather(self) -> None:
        """Gather what the processes let go of."""
        _meet(self.mesh, "gathering the parameters", self.places)
        with jax.ensure_compile_time_eval():
            values = self.program(*self.held)
        for st, value in zip(self.storages, values, strict=True):
            held = st()
            if held is not None and _ARRAY.__get__(held) is None:
                _ARRAY.__set__(held, value.addressable_data(0))


def _value(st: Any) -> Any:
    held = _ARRAY.__get__(st)
    if held is None:
        st.placement.gather()
        held = _ARRAY.__get__(st)
    return held


class GatheredStorage(Storage):
    """A storage with the value of a parameter, which is gathered from its `placement` where it is not there."""

    __slots__ = ()
    views_keep_values = False
    array: Any = property(_value, _ARRAY.__set__)


def let_go(tensors: Iterable[Any], output: Any) -> None:
    """Free what was gathered, until somebody reads it; what was written to stays, and what a module returns."""
    returned = {id(y._st) for y in _pytree.tree_leaves(output) if isinstance(y, Tensor)}
    for t in tensors:
        st = t._st
        if st.__class__ is GatheredStorage and not st.stamp and id(st) not in returned:
            _ARRAY.__set__(st, None)


# --- the programs -------------------------------------------------------------------------------------


class _Split(NamedTuple):
    """How a parameter is split: along which dimension, into how many parts, over which axes of the mesh."""

    dim: int
    parts: int
    axes: tuple[str, ...]


def _split(sharding: NamedSharding) -> _Split:
    for dim, entry in enumerate(sharding.spec):
        axes = names_of(entry)
        if axes:
            return _Split(dim, math.prod(sharding.mesh.shape[a] for a in axes), axes)
    return _Split(0, 1, ())


def _alike(splits: Sequence[_Split], dtypes: Sequence[Any]) -> dict[Any, list[int]]:
    """The positions of parameters that travel together: they have one dtype, and are split over the same axes."""
    out: dict[Any, list[int]] = {}
    for i, (split, dtype) in enumerate(zip(splits, dtypes, strict=True)):
        out.setdefault((split.axes, dtype), []).append(i)
    return out


def _pieces(flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Cut the last dimension of an array into arrays of these shapes."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    cut = jnp.split(flat, ends[:-1], axis=-1)
    return [x.reshape(*flat.shape[:-1], *shape) for x, shape in zip(cut, shapes, strict=True)]


@remember()
def _gathering(shardings: tuple[NamedSharding, ...], shapes: tuple[Any, ...], dtypes: tuple[Any, ...]) -> Any:
    """The program that makes parameters whole in each process."""
    splits = [_split(s) for s in shardings]

    def run(*parts: Any) -> Any:
        out = [x.astype(dtype) for x, dtype in zip(parts, dtypes, strict=True)]
        for (axes, _), at in _alike(splits, dtypes).items():
            if not axes:
                continue
            rows = lax.all_gather(jnp.concatenate([out[i].ravel() for i in at]), axes)
            for i, piece in zip(at, _pieces(rows, [out[i].shape for i in at]), strict=True):
                shape, dim = list(out[i].shape), splits[i].dim
                shape[dim] *= splits[i].parts
                out[i] = uneven.without_padding(jnp.moveaxis(piece, 0, dim).reshape(shape), shardings[i], shapes[i])
        return tuple(out)

    mesh, specs = shardings[0].mesh, tuple(s.spec for s in shardings)
    whole = PartitionSpec()
    return jit(jax.shard_map(run, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False))


def _averaged(mesh: DeviceMesh, places: Sequence[_Place], own: Sequence[Any]) -> list[Any]:
    """The averages of gradients that each process has of its own, None for those that no process has."""
    if not places:
        return []
    _meet(mesh, "averaging the gradients", places)
    pack, run = _averaging(
        tuple(p.sharding for p in places), tuple(p.shape for p in places), tuple(p.dtype.np for p in places)
    )
    devices = mesh.jax_mesh
    rows = NamedSharding(devices, PartitionSpec(devices.axis_names))
    every = []
    for packed in pack(*own):
        there = jax.device_put(packed, devices.local_devices[0])
        shape = devices.size, *packed.shape[1:]
        every.append(jax.make_array_from_single_device_arrays(shape, rows, [there]))
    means, had = run(*every)
    if all(x is not None for x in own):
        return list(means)
    return [mean if has else None for mean, has in zip(means, np.asarray(had.addressable_data(0)))]


@remember()
def _averaging(shardings: tuple[NamedSharding, ...], shapes: tuple[Any, ...], dtypes: tuple[Any, ...]) -> Any:
    """Two programs: one packs the gradients of this process, by whose parts they are, and one averages all packs.

    The first pack also says which gradients this process has, so that each gets to know which of them anybody has.
    """
    splits = [_split(s) for s in shardings]
    kept = [uneven.kept_shape(shape, s) for s, shape in zip(shardings, shapes, strict=True)]
    parts = [s.shard_shape(shape) for s, shape in zip(shardings, kept, strict=True)]
    alike = _alike(splits, dtypes)
    mesh: Any = shardings[0].mesh

    def rows(i: int, x: Any) -> Any:
        """A gradient as one row for each part of its parameter."""
        (dim, n, _), shape = splits[i], kept[i]
        if x is None:
            return jnp.zeros((n, math.prod(shape) // n), dtypes[i])
        x = uneven.with_padding(x, shardings[i])
        if n > 1:
            x = x.reshape(*shape[:dim], n, shape[dim] // n, *shape[dim + 1 :])
            x = jnp.moveaxis(x, dim, 0)
        return x.astype(dtypes[i]).reshape(n, x.size // n)

    def pack(*grads: Any) -> Any:
        packs = [jnp.concatenate([rows(i, grads[i]) for i in at], 1) for at in alike.values()]
        has = jnp.array([g is not None for g in grads], packs[0].dtype)
        packs[0] = jnp.concatenate([packs[0], jnp.tile(has, (len(packs[0]), 1))], 1)
        return [packed[None] for packed in packs]

    def run(*packs: Any) -> Any:
        means = [_sum(p[0], axes, mesh.axis_names) / mesh.size for p, (axes, _) in zip(packs, alike)]
        means[0], had = means[0][: -len(parts)], means[0][-len(parts) :] != 0
        out: list[Any] = [None] * len(parts)
        for mean, at in zip(means, alike.values(), strict=True):
            for i, piece in zip(at, _pieces(mean, [parts[i] for i in at]), strict=True):
                out[i] = piece
        return tuple(out), had

    specs = tuple(s.spec for s in shardings), PartitionSpec()
    every = PartitionSpec(mesh.axis_names)
    shared = jax.shard_map(run, mesh=mesh, in_specs=every, out_specs=specs, check_vma=False)
    whole = NamedSharding(mesh, PartitionSpec())
    return jit(pack), jit(shared, out_shardings=(shardings, whole))


def _sum(rows: Any, axes: tuple[str, ...], all_axes: tuple[str, ...]) -> Any:
    """The sum over all processes of the row that is this process's."""
    if jnp.issubdtype(rows.dtype, jnp.complexfloating):  # gloo adds up real numbers only
        return lax.complex(_sum(rows.real, axes, all_axes), _sum(rows.imag, axes, all_axes))
    own = lax.psum_scatter(rows, axes) if axes else rows[0]
    others = tuple(a for a in all_axes if a not in axes)
    return lax.psum(own, others) if others else own
