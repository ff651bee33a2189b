"""Layout and memory format objects, and the strides that a memory format means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import messages as errors
from . import shapes

Shape = tuple[int, ...]


class memory_format:
    """The order in which the elements of a dense tensor lie in memory."""

    __slots__ = ("_name",)

    _name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    __setattr__, __delattr__ = errors.immutable("torch.memory_format")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self._name,))


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

MEMORY_FORMATS = {
    **{f._name: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)},
    "legacy_contiguous_format": contiguous_format,
}


def _by_name(name: str) -> memory_format:
    return MEMORY_FORMATS[name]


RANKS = {channels_last: 4, channels_last_3d: 5}
_LAST = {rank: kind for kind, rank in RANKS.items()}


def strides_in(kind: memory_format, shape: Shape) -> Shape:
    """Strides of a dense tensor of this shape in a memory format other than preserve_format."""
    if kind is contiguous_format:
        return shapes.contiguous_strides(shape)
    if len(shape) != RANKS[kind]:
        raise RuntimeError(f"required rank {RANKS[kind]} tensor to use {kind._name} format")
    return shapes.strides_by(shapes.channels_innermost(len(shape)), shape)


def is_contiguous_in(kind: memory_format, shape: Shape, strides: Shape) -> bool:
    """Return whether a tensor of this shape and these strides is dense in a memory format."""
    if kind in (contiguous_format, preserve_format):
        return shapes.is_contiguous(shape, strides)
    if len(shape) != RANKS[kind]:
        return False
    return shapes.is_dense_by(shapes.channels_innermost(len(shape)), shape, strides)


def suggested(shape: Sequence[int], strides: Sequence[int]) -> memory_format:
    """The memory format that the strides suggest: what torch keeps, dense or not.

    Walking from the channels outwards no stride may shrink. Where all inner sizes are 1, the strides
    of a row-major tensor would pass; the last test tells the two apart.
    """
    kind = _LAST.get(len(shape), contiguous_format)
    if kind is contiguous_format or strides[1] == 0:
        return contiguous_format
    least = 0
    for d in shapes.channels_innermost(len(shape)):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return contiguous_format
        least = strides[d] * shape[d]
    return kind
