"""Tensors of which each process along a dimension of a mesh has a summand: `Partial`.

For example, `DTensor.from_local(x, mesh, [Partial()])` is the sum of what all processes give. XLA adds up where it
computes, so the array of such a tensor is the sum, which all devices have, and a note on its storage says that the
program counts it as summands. Their sum is what programs rely on, and it is kept: the first process has all, and the
others have what changes nothing.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..._engine.memory.tensor import Tensor
from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement

_NOTES: weakref.WeakKeyDictionary[Any, tuple[Partial | None, ...]] = weakref.WeakKeyDictionary()
"""For the storage of such a tensor: how each dimension of its mesh reduces; None for one that does not."""


def say_summands(t: Tensor, placements: tuple[Placement, ...]) -> Tensor:
    """Note along which dimensions of the mesh a tensor counts as summands."""
    found = tuple(p if isinstance(p, Partial) else None for p in placements)
    if any(found):
        _NOTES[t._st] = found
    return t


def summands_of(t: Tensor, ndim: int) -> tuple[Partial | None, ...]:
    """How each of the `ndim` dimensions of the mesh reduces a tensor; None for one that does not."""
    return _NOTES.get(t._st) or (None,) * ndim


def is_reduction(t: Tensor) -> bool:
    """Whether a tensor counts as summands."""
    return t._st in _NOTES


def own_summand(part: Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> Tensor:
    """This process's summand.

    Args:
        part: what the process would have if each had all of it.
        mesh: the mesh of the tensor.
        placements: its placements.
    """
    for number, p in enumerate(placements):
        if isinstance(p, Partial) and p.reduce_op in _NOTHING and mesh.get_local_rank(number):
            part = part.clone().fill_(_NOTHING[p.reduce_op])
    return part


_NOTHING = {"sum": 0, "product": 1}
"""What changes nothing in a reduction where not all summands may be the whole."""
