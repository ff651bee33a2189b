"""Tensors with any strides over the memory of another."""

from __future__ import annotations

from .._core.state import MODES
from .._engine.entry.bind import composite
from .._engine.entry.composite import Ints
from .._engine.graph.views import as_strided_inplace, as_strided_view
from .._engine.memory.tensor import Tensor
from .shape import sizes_of


@composite
def as_strided(input: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None) -> Tensor:
    """A view of the storage with any shape, strides and offset."""
    MODES.run.uses.look_around(input)
    return as_strided_view(input, sizes_of((size,), "as_strided"), sizes_of((stride,), "as_strided"), storage_offset)


@composite(name="as_strided_")
def as_strided_(input: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None) -> Tensor:
    """`as_strided` that changes how the tensor itself sees its storage."""
    MODES.run.uses.look_around(input)
    shape, strides = sizes_of((size,), "as_strided_"), sizes_of((stride,), "as_strided_")
    return as_strided_inplace(input, shape, strides, storage_offset)
