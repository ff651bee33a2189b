"""Layout and memory format objects, and the strides that a memory format means."""

from __future__ import annotations

from typing import Any

from . import shapes

Shape = tuple[int, ...]


class memory_format:
    """The order in which the elements of a dense tensor lie in memory."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self._name,))


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

MEMORY_FORMATS = {
    f._name: f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)
}


def _by_name(name: str) -> memory_format:
    return MEMORY_FORMATS[name]


_RANK = {channels_last: 4, channels_last_3d: 5}


def strides_in(kind: memory_format, shape: Shape) -> Shape:
    """Strides of a dense tensor of this shape in a memory format other than preserve_format."""
    if kind is contiguous_format:
        return shapes.contiguous_strides(shape)
    if len(shape) != _RANK[kind]:
        raise RuntimeError(f"required rank {_RANK[kind]} tensor to use {kind._name} format")
    strides, step = [0] * len(shape), 1
    for d in _innermost_first(len(shape)):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def is_contiguous_in(kind: memory_format, shape: Shape, strides: Shape) -> bool:
    """Whether a tensor of this shape and these strides is dense in a memory format."""
    if kind in (contiguous_format, preserve_format):
        return shapes.is_contiguous(shape, strides)
    if len(shape) != _RANK[kind]:
        return False
    expected = 1
    for d in _innermost_first(len(shape)):
        if shape[d] != 1:
            if strides[d] != expected:
                return False
            expected *= shape[d]
    return True


def _innermost_first(ndim: int) -> tuple[int, ...]:
    return (1, *range(ndim - 1, 1, -1), 0)
