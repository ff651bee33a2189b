"""Arrays that are spread over several devices: where one lies, and how it gets there.

An array's `sharding` says which device has which part. XLA computes where the parts are and moves what has to move,
so that nothing but writes needs a rule: what is written takes the place of what was there (`PlacedStorage`).
"""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, Sharding

MANY: list[bool] = []
"""Not empty once an array over several devices came in: until then nobody asks where an array lies."""


def spread_over(array: Any) -> Sharding | None:
    """The sharding of an array on a mesh or on several devices; None for any other, and for one being traced."""
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return None
    found = array.sharding
    return found if isinstance(found, NamedSharding) or len(found.device_set) > 1 else None


def automatic(sharding: Sharding) -> Sharding:
    """The same placement on a mesh whose axes are XLA's to use.

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
    if isinstance(array, jax.core.Tracer):
        return jax.lax.with_sharding_constraint(array, sharding)
    if lies_at(array, sharding):
        return array
    check_divides(array.shape, sharding)
    return jax.device_put(array, sharding)


def lies_at(array: Any, sharding: Sharding) -> bool:
    """Whether an array has its parts where the sharding says, on a mesh whose axes are of the same kinds."""
    held = getattr(array, "sharding", None)
    if held is None or held == sharding:
        return held is not None
    return _axis_types(held) == _axis_types(sharding) and held.is_equivalent_to(
        sharding, array.ndim
    )


def _axis_types(sharding: Sharding) -> set[Any]:
    """The kinds of axes that a sharding's mesh has; axes are XLA's to use where there is no mesh."""
    mesh = getattr(sharding, "mesh", None)
    return {AxisType.Auto} if mesh is None else {AxisType.Auto, *mesh.axis_types}


def check_divides(shape: tuple[int, ...], sharding: Sharding) -> None:
    """Complain, by name, about a dimension that the axes of the mesh do not divide."""
    if not isinstance(sharding, NamedSharding):
        return
    sizes = dict(sharding.mesh.shape)
    if len(sharding.spec) > len(shape):
        raise ValueError(
            f"a tensor of shape {list(shape)} has {len(shape)} dimensions, which is fewer than {sharding.spec} names"
        )
    for dim, names in enumerate(sharding.spec):
        if names is None or names is jax.sharding.PartitionSpec.UNCONSTRAINED:
            continue
        parts = 1
        for name in names if isinstance(names, tuple) else (names,):
            parts *= sizes[name]
        if shape[dim] % parts:
            raise ValueError(
                f"dimension {dim} of a tensor of shape {list(shape)} cannot be split into {parts} equal parts, as "
                f"{sharding.spec} on a mesh of {sizes} asks for"
            )
