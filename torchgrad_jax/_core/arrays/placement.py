"""Arrays that are spread over several devices: which device has which part, and how to move them.

An array's `sharding` says which device has which part. XLA computes where the parts are and moves what has to move,
so that nothing but writes needs a rule: what is written takes the place of what was there (`PlacedStorage`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding

from .. import events
from ..jax.abstract import is_abstract
from ..state import MODES, OBSERVED

MANY: list[bool] = []
"""Not empty once an array over several devices came in: until then nobody asks where an array lies."""


def spread_over(array: Any) -> Sharding | None:
    """The sharding of an array on a mesh or on several devices; None for any other, and for one being traced."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return None
    found = array.sharding
    return found if isinstance(found, NamedSharding) or len(found.device_set) > 1 else None


def automatic(sharding: Sharding) -> Sharding:
    """The same placement on a mesh whose axes XLA may use as it likes.

    The kernels of operators are written for no mesh: with explicit axes JAX would ask each of them for the
    sharding of its result.
    """
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return sharding
    mesh = sharding.mesh
    if all(kind is AxisType.Auto for kind in mesh.axis_types):
        return sharding
    plain = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * mesh.devices.ndim)
    return NamedSharding(plain, sharding.spec, memory_kind=sharding.memory_kind)


def place(array: Any, sharding: Sharding) -> Any:
    """An array with its parts where the sharding says; the array itself where they are there already."""
    if is_abstract(array):  # its storage knows where it would lie
        return array
    if isinstance(array, jax.core.Tracer):
        return jax.lax.with_sharding_constraint(array, sharding)
    if has_placement(array, sharding):
        return array
    check_dims(array.shape, sharding)
    if MODES.bits & OBSERVED:
        events.placed(array, sharding)
    return jax.device_put(as_host_memory(array), sharding)


def as_host_memory(array: Any) -> Any:
    """NumPy's view of an array on one CPU device; any other array as it is.

    JAX splits NumPy's arrays by slicing them, but for an array of its own it compiles a program for each shape.
    """
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return array
    if array.sharding.num_devices > 1 or next(iter(array.devices())).platform != "cpu":
        return array
    return array if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended) else np.asarray(array)


def has_placement(array: Any, sharding: Sharding) -> bool:
    """Return whether an array has its parts where the sharding says, and says so by the same axes of the same mesh.

    Where axes have one device, other axes mean the same parts; but who asks for placements reads the names.
    """
    held = getattr(array, "sharding", None)
    if held is None or held == sharding:
        return held is not None
    if not isinstance(sharding, NamedSharding) or not is_complete(sharding):
        return held.is_equivalent_to(sharding, array.ndim)
    return (
        isinstance(held, NamedSharding)
        and held.mesh == sharding.mesh
        and held.memory_kind == sharding.memory_kind
        and _named(held) == _named(sharding)
    )


def _named(sharding: NamedSharding) -> tuple[Any, ...]:
    """The axes that split each dimension, up to the last dimension that is split."""
    entries = list(sharding.spec)
    while entries and entries[-1] is None:
        entries.pop()
    return tuple(entries)


def is_complete(sharding: Sharding) -> bool:
    """Return whether a sharding says for each dimension what splits it, and leaves none of them to XLA."""
    return not isinstance(sharding, NamedSharding) or PartitionSpec.UNCONSTRAINED not in tuple(sharding.spec)


def names_of(entry: Any) -> tuple[str, ...]:
    """The axes that an entry of a `PartitionSpec` names."""
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def parts_of(sharding: NamedSharding, entry: Any) -> int:
    """Into how many parts an entry of a sharding's `PartitionSpec` splits a dimension."""
    return math.prod(sharding.mesh.shape[a] for a in names_of(entry))


def check_dims(shape: tuple[int, ...], sharding: Sharding) -> None:
    """Complain about a sharding of more dimensions than an array has."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        raise ValueError(
            f"a tensor of shape {list(shape)} has {len(shape)} dimensions, which is fewer than {sharding.spec} names"
        )


def check_mesh(there: Sharding | None, array: Any) -> None:
    """Complain about an array on another mesh than the storage that it is written to."""
    other = getattr(array, "sharding", None)
    if not isinstance(there, NamedSharding) or not isinstance(other, NamedSharding):
        return
    if not isinstance(array, jax.core.Tracer) and other.mesh != there.mesh:
        raise ValueError(f"an array on {other.mesh} is written to a storage on {there.mesh}")


class OnAllDevices:
    """The inputs of a program over several devices that lie on one device.

    Single numbers are put on all devices while they stay the same: JAX would put them there again for each run, which
    takes longer than all else around a run. Arrays are handed over as memory of the host: see `as_host_memory`.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.there = NamedSharding(mesh, PartitionSpec())
        self.held: dict[int, tuple[Any, Any, Any]] = {}
        """For the position of an input: the number, its bytes if somebody could write to it, and the array."""

    @classmethod
    def of_program(cls, shardings: Iterable[Sharding | None]) -> OnAllDevices | None:
        """Return what a program needs whose tensors lie like this; None if it is not over a mesh of this process."""
        for s in shardings:
            if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh) and s.is_fully_addressable:
                return cls(s.mesh)
        return None

    def put(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs, numbers as arrays on all devices."""
        return [
            as_host_memory(x) if getattr(x, "ndim", 0) or isinstance(x, jax.Array) else self._array(i, x)
            for i, x in enumerate(inputs)
        ]

    def _array(self, i: int, x: Any) -> Any:
        written = x.tobytes() if isinstance(x, np.ndarray) else None
        number, before, array = self.held.get(i, (None, None, None))
        if number is not x or before != written:
            array = jax.device_put(x, self.there)
            self.held[i] = x, written, array
        return array
