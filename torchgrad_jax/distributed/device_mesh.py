"""torch.distributed.device_mesh: devices in rows and columns, over `jax.sharding.Mesh`.

A mesh names devices, not processes: one process with eight devices makes a mesh of eight. `jax.devices()` counts the
devices of all processes, so a mesh may span several.
"""

from __future__ import annotations

import math
import os
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from .._core.arrays.devices import explain_missing_cpu_devices, give_threads_to_many_cpu_devices, of_jax
from .._core.arrays.dtypes import int32
from .._core.signals import uninterrupted
from .._core.state import MODES
from .._engine.memory.tensor import Tensor
from .._functions.create import tensor as _tensor
from . import _beginning, _groups
from ._jax_processes import ONE_EACH, check_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]

_PLATFORMS = {"cuda": "gpu", "mps": "METAL"}
_ENTERED: list[DeviceMesh] = []
_WHOLE: dict[Mesh, DeviceMesh] = {}
"""The first whole mesh that was made of each mesh of JAX's."""


class DeviceMesh:
    """An n-dimensional arrangement of devices, whose dimensions may have names.

    Rank `i` is the device `jax.devices()[i]`. Where one device stands for the process (`get_local_rank`,
    `get_coordinate`, the part of a mesh that a slice shows), it is the first of the process's own.

    Args:
        device_type: "cpu", "cuda" and so on.
        mesh: the numbers of the devices.
        mesh_dim_names: a name for each dimension.

    Differs from torch: a dimension may have devices of one process; process groups are made when they are asked for.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Any = None,
        backend_override: Any = None,
        _init_backend: bool = True,
    ) -> None:
        if mesh is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        _check_backend(backend_override)
        numbers = np.asarray(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int32)
        if len(set(numbers.ravel().tolist())) != numbers.size:
            raise AssertionError("Please use a non-overlapping layout when creating a DeviceMesh.")
        names = tuple(mesh_dim_names) if mesh_dim_names else None
        if names is not None and len(names) != numbers.ndim:
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape):{numbers.ndim}."
            )
        _begin_group()
        found = _devices(device_type, numbers)
        axes = names or tuple(f"dim_{i}" for i in range(numbers.ndim))
        self._fill(
            device_type,
            Mesh(found[numbers], axes, axis_types=(AxisType.Auto,) * numbers.ndim),
            tuple((axis,) for axis in axes),
            names,
            numbers,
            self,
        )

    def _fill(self, device_type: str, jax_mesh: Mesh, axes: Any, names: Any, numbers: Any, root: DeviceMesh) -> None:
        self.device_type = device_type
        self.jax_mesh = jax_mesh
        """The `jax.sharding.Mesh` with the axes of the whole mesh, also where this is a slice of it."""
        self.axes: tuple[tuple[str, ...], ...] = axes
        """For each dimension the axes of `jax_mesh` that it is made of; several where it was flattened."""
        self.mesh_dim_names: tuple[str, ...] | None = names
        self._numbers = numbers
        self._root = root
        self._flattened: dict[str, DeviceMesh] = {}
        self._process_groups: dict[tuple[int, ...], Any] = {}
        if MODES.target is not None:
            MODES.target.mesh = jax_mesh
        if root is self:
            _WHOLE.setdefault(jax_mesh, self)

    def _slice(self, axes: Any, names: Any) -> DeviceMesh:
        out = object.__new__(DeviceMesh)
        out._fill(self.device_type, self.jax_mesh, axes, names, self._numbers, self._root)
        return out

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Any = None) -> DeviceMesh:
        """The mesh of the devices of process groups, where each process has one.

        Args:
            group: a group, or for each dimension the one that this process is in.
            device_type: "cpu", "cuda" and so on.
            mesh: the ranks in rows and columns, of several groups.
            mesh_dim_names: a name for each dimension.
        """
        groups = list(group) if isinstance(group, list | tuple) else [group]
        if mesh is None and len(groups) != 1:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        if jax.process_count() != jax.device_count() or _groups.get_world_size() != jax.process_count():
            raise RuntimeError(
                f"DeviceMesh.from_group(): {_groups.get_world_size()} processes, and JAX knows {jax.device_count()} "
                f"devices of {jax.process_count()}; {ONE_EACH}"
            )
        ranks = _groups.get_process_group_ranks(groups[0]) if mesh is None else mesh
        out = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
        if len(groups) != out.ndim:
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {out.mesh.tolist()} and "
                f"{len(groups)} ProcessGroups"
            )
        for axes, one in zip(out.axes, groups, strict=True):
            out._process_groups[out._ranks_along(axes)] = one
        return out

    # --- shape ------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """How many devices each dimension has."""
        sizes = self.jax_mesh.shape
        return tuple(math.prod(sizes[a] for a in axes) for axes in self.axes)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.axes)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return how many devices there are, or how many along a dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    @property
    def mesh(self) -> Tensor:
        """The numbers of the devices; for a slice, those that this process's first device is among."""
        at = self._place() or (0,) * self._numbers.ndim
        order = [self.jax_mesh.axis_names.index(a) for axes in self.axes for a in axes]
        here = tuple(slice(None) if i in order else at[i] for i in range(self._numbers.ndim))
        kept = sorted(order)
        block = self._numbers[here].transpose([kept.index(i) for i in order])
        return _tensor(block.reshape(self.shape).tolist(), dtype=int32)

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        sizes = f"({', '.join(f'{k}={v}' for k, v in zip(names, self.shape, strict=True))})" if names else self.shape
        shown = f"DeviceMesh({sizes}, '{self.device_type}', stride={tuple(self._stride(a) for a in self.axes)}"
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL":
            shown += f", Mesh: {self.mesh.tolist()}"
        return f"{shown})"

    def _stride(self, axes: tuple[str, ...]) -> Any:
        """Return how many devices of the whole mesh are stepped over along a dimension."""
        sizes = self.jax_mesh.shape
        names = list(sizes)
        after = {a: math.prod(sizes[b] for b in names[i + 1 :]) for i, a in enumerate(names)}
        steps: list[int] = []
        for a, following in zip(axes, [*axes[1:], None], strict=True):
            if following is None or after[a] != after[following] * sizes[following]:
                steps.append(after[a])
        return steps[0] if len(steps) == 1 else tuple(steps)

    def _identity(self) -> Any:
        return self.device_type, self.jax_mesh, self.axes, self.mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    def __reduce__(self) -> Any:
        root, names = self._root, self._root.mesh_dim_names
        numbers = self._numbers.tolist()
        return _rebuild, (self.device_type, numbers, names, None if root is self else self.axes, self.mesh_dim_names)

    # --- parts ------------------------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some of the dimensions, by name."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        asked = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if asked == self.mesh_dim_names:
            return self
        known = dict(zip(self.mesh_dim_names, self.axes, strict=True))
        if self._root is self:
            known |= {name: flat.axes[0] for name, flat in self._flattened.items()}
        if not all(name in known for name in asked):
            raise KeyError(f"Invalid mesh_dim_names {asked} specified. Valid mesh_dim_names are {list(known)}.")
        axes = tuple(known[name] for name in asked)
        order = [self.jax_mesh.axis_names.index(a) for row in axes for a in row]
        if order != sorted(set(order)):
            raise KeyError(f"Invalid mesh_dim_names {asked} specified. Mesh dim indices should be in ascending order.")
        return self._slice(axes, asked)

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """A mesh of one dimension with all devices of this one; the whole mesh knows it by name from now on."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        _check_backend(backend_override)
        name = mesh_dim_name or "_".join(self.mesh_dim_names)
        if self.ndim == 1 and name in self.mesh_dim_names:
            return self
        root = self._root
        if name in (root.mesh_dim_names or ()):
            raise ValueError(
                f"{name} already exists for submesh of the {root}. "
                f"The mesh_dim_names of submesh and flattened mesh are {root.mesh_dim_names}. "
                "Please specify another valid mesh_dim_name."
            )
        flat = self._slice((tuple(a for axes in self.axes for a in axes),), (name,))
        if root._flattened.setdefault(name, flat) != flat:
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, "
                "Please specify another valid mesh_dim_name."
            )
        return flat

    def _unflatten(
        self, dim: int | str, mesh_sizes: Any, mesh_dim_names: Any, backend_override: Any = None
    ) -> DeviceMesh:
        """A mesh with several dimensions in the place of one; only of a whole mesh."""
        _check_backend(backend_override)
        if isinstance(dim, str):
            if dim not in (self.mesh_dim_names or ()):
                raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self.mesh_dim_names}")
            dim = (self.mesh_dim_names or ()).index(dim)
        if dim >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        if self._root is not self:
            raise NotImplementedError("DeviceMesh._unflatten() of a slice; make the whole mesh with these dimensions")
        before = self.mesh_dim_names or tuple(f"dim_{i}" for i in range(self.ndim))
        return DeviceMesh(
            self.device_type,
            self._numbers.reshape(self.shape[:dim] + tuple(mesh_sizes) + self.shape[dim + 1 :]),
            mesh_dim_names=before[:dim] + tuple(mesh_dim_names) + before[dim + 1 :],
        )

    def joined(self, other: DeviceMesh) -> DeviceMesh:
        """The slice of the whole mesh with the dimensions of two slices."""
        root = self._root
        kept = {*self.axes, *other.axes}
        axes = tuple(row for row in root.axes if row in kept)
        # Some were flattened, or these are all.
        if len(axes) != len(kept) or len(axes) == root.ndim:
            return root
        names = dict(zip(root.axes, root.mesh_dim_names or (), strict=True))
        return root._slice(axes, tuple(names[row] for row in axes))

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        if not self.mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self.mesh_dim_names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self.mesh_dim_names}",
            )
        return self.mesh_dim_names.index(mesh_dim_name)

    # --- this process -----------------------------------------------------------------------------

    def _place(self) -> tuple[int, ...] | None:
        """Where in the whole mesh this process's first device is."""
        me = jax.process_index()
        mine = np.array([d.process_index == me for d in self.jax_mesh.devices.ravel()])
        if not mine.any():
            return None
        found = np.unravel_index(int(mine.argmax()), self.jax_mesh.devices.shape)
        return tuple(int(i) for i in found)

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process's first device is; None where it has none in the mesh."""
        at = self._place()
        if at is None:
            return None
        where = dict(zip(self.jax_mesh.axis_names, at, strict=True))
        sizes = self.jax_mesh.shape
        out = []
        for axes in self.axes:
            place = 0
            for a in axes:
                place = place * sizes[a] + where[a]
            out.append(place)
        return tuple(out)

    def get_rank(self) -> int:
        """The number of this process."""
        return _groups.get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Where along a dimension this process's first device is: 0 in a process that has all devices."""
        at = self.get_coordinate()
        dim = self._one_dim(mesh_dim)
        return -1 if at is None else at[dim]

    def _one_dim(self, mesh_dim: int | str | None, *advice: str) -> int:
        if isinstance(mesh_dim, str):
            return self._get_mesh_dim_by_name(mesh_dim)
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                *advice,
            )
        return mesh_dim or 0

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of the processes that have devices along a dimension, through this process's first device.

        All of these processes call it, as they would `torch.distributed.new_group`; another call gives the same group.
        """
        dim = self._one_dim(
            mesh_dim,
            "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
            "please use `get_all_groups()` instead.",
        )
        return self.group_of(self.axes[dim])

    def group_of(self, axes: tuple[str, ...]) -> Any:
        """The group of the processes that have devices along axes of `jax_mesh`, through this process's first one."""
        if not _groups.is_initialized():
            raise RuntimeError(
                f"{self}.get_group(): there is no process group; call torch.distributed.init_process_group() first"
            )
        ranks = self._ranks_along(axes)
        known = self._root._process_groups.get(ranks)
        if not _groups.is_live(known):
            if len(ranks) == _groups.get_world_size():
                return _groups.member_of(None)
            known = self._root._process_groups[ranks] = _beginning.new_group(ranks, use_local_synchronization=True)
        return known

    def _ranks_along(self, axes: tuple[str, ...]) -> tuple[int, ...]:
        """The processes that have devices along some axes, through this process's first device."""
        at = self._place()
        if at is None:
            raise RuntimeError(f"{self}.get_group(): this process has no device of the mesh")
        # JAX counts the processes of one system, which this one may not be part of.
        if jax.process_count() == 1:
            return (_groups.get_rank(),)
        names = self.jax_mesh.axis_names
        line = tuple(slice(None) if a in axes else i for a, i in zip(names, at, strict=True))
        return tuple(sorted({d.process_index for d in self.jax_mesh.devices[line].ravel()}))

    def get_all_groups(self) -> list[Any]:
        """The groups of all dimensions."""
        return [self.get_group(i) for i in range(self.ndim)]

    def __enter__(self) -> DeviceMesh:
        within = len(_ENTERED)
        _ENTERED[within:] = [self]
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        del _ENTERED[-1]


def current_mesh(given: DeviceMesh | None = None) -> DeviceMesh:
    """The mesh that was given, or else the innermost `with mesh:`."""
    if given is not None:
        return given
    if not _ENTERED:
        raise RuntimeError("No device mesh is currently active!")
    return _ENTERED[-1]


def mesh_of(jax_mesh: Mesh) -> DeviceMesh:
    """The mesh with the devices and axes of one of JAX's."""
    found = _WHOLE.get(jax_mesh)
    if found is None:
        first = jax_mesh.devices.ravel()[0]
        every = jax.devices(first.platform) if MODES.target is None else MODES.target.devices
        at = {d: i for i, d in enumerate(every)}
        numbers = np.array([at[d] for d in jax_mesh.devices.ravel()], np.int32)
        found = DeviceMesh(
            of_jax(first).type, numbers.reshape(jax_mesh.devices.shape), mesh_dim_names=jax_mesh.axis_names
        )
    return found


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: Any = None, backend_override: Any = None
) -> DeviceMesh:
    """A mesh of the first devices, row by row.

    Args:
        device_type: "cpu", "cuda" and so on, without an index.
        mesh_shape: how many devices each dimension has.
        mesh_dim_names: a name for each dimension.
    """
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(
            f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
        )
    if mesh_dim_names is not None and len(mesh_shape) != len(mesh_dim_names):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! "
            f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
        )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    numbers = np.arange(math.prod(mesh_shape), dtype=np.int32).reshape(mesh_shape)
    return DeviceMesh(device_type, numbers, mesh_dim_names=mesh_dim_names, backend_override=backend_override)


def _begin_group() -> None:
    """In a process that a launcher started, and that has begun no group yet: one of all processes, as in torch.

    No backend was named, so it is the one with which meshes span the processes.
    """
    launched = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))
    if launched and int(os.environ["WORLD_SIZE"]) > 1 and not _groups.is_initialized():
        _beginning.init_process_group("xla")


def _devices(device_type: str, numbers: Any) -> Any:
    """The devices of a type, of all processes, of which a mesh takes some."""
    if MODES.target is not None:
        return np.array(MODES.target.devices)
    give_threads_to_many_cpu_devices()
    try:
        found = jax.devices(_PLATFORMS.get(device_type, device_type))
    except RuntimeError:
        raise RuntimeError(f"a mesh of {device_type} devices was asked for, and JAX has none") from None
    if numbers.size and int(numbers.max()) >= len(found):
        check_mesh(_groups.get_world_size() if _groups.is_initialized() else 1)
        raise RuntimeError(
            f"a mesh with {numbers.size} devices, the last of which is number {int(numbers.max())}, was asked for, "
            f"and JAX has {len(found)} of type {device_type}. "
            + ((device_type == "cpu" and explain_missing_cpu_devices()) or _MANY)
        )
    return np.array(found)


_MANY = (
    "One process may have many: virtual ones on a CPU with XLA_FLAGS=--xla_force_host_platform_device_count=8 in the "
    "environment before torchgrad_jax is imported"
)


def _check_backend(backend_override: Any) -> None:
    if backend_override is not None:
        raise NotImplementedError("backend_override: XLA moves data between devices, there is no other backend")


def _rebuild(device_type: str, numbers: Any, names: Any, axes: Any, own_names: Any) -> DeviceMesh:
    """Inverse of `DeviceMesh.__reduce__`."""
    root = DeviceMesh(device_type, numbers, mesh_dim_names=names)
    return root if axes is None else root._slice(axes, own_names)
