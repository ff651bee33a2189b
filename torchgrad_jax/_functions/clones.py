"""Copies of whole tensors, and overwriting all of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays.formats import contiguous_format, is_contiguous_in, preserve_format
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import is_batched
from .arguments import unmatched
from .convert import clone_in, transfer


def _format(memory_format: Any) -> str:
    return "preserve" if memory_format is None else str(memory_format).rpartition(".")[2].replace("_format", "")


@composite
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own storage."""
    kind = _format(memory_format)
    if kind == "preserve":
        return ops.clone(input)
    if kind == "contiguous":
        return ops.clone_contiguous(input)
    if is_batched(input):
        name = "ChannelsLast3d" if kind == "channels_last_3d" else "ChannelsLast"
        raise RuntimeError(
            "NYI: Tensor.clone(memory_format) inside vmap is only supported with memory_format torch.preserve_format "
            f"or torch.contiguous_format (got {name})"
        )
    return clone_in(input, memory_format)


@composite(function=False)
def contiguous(input: Tensor, *, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself when it is row-major, else a copy that is."""
    if memory_format is not contiguous_format and _format(memory_format) != "contiguous":
        m = input._m
        if memory_format is preserve_format and not m.contiguous:
            raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
        if is_batched(input):
            input.is_contiguous(memory_format=memory_format)  # this raises the error
        return input if is_contiguous_in(memory_format, m.shape, m.strides) else clone_in(input, memory_format)
    return input if input._m.contiguous else ops.clone_contiguous(input)


def _fill(input: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return ops.fill_tensor_(input, value)
    if not isinstance(value, int | float | complex | np.generic):
        raise unmatched("fill_")
    return ops.fill_value_(input, value)


composite(_fill, name="fill_")


@composite
def fill(input: Tensor, value: Any) -> Tensor:
    """A copy filled with one value."""
    return ops.fill_tensor_copy(input, value) if isinstance(value, Tensor) else ops.fill_value_copy(input, value)


@composite(name="zero_")
def zero_(input: Tensor) -> Tensor:
    """Overwrite with zeros."""
    return ops.zero_(input)


@composite(name="copy_", function=False, known_as={"other": "src"})
def copy_(input: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with another tensor's values, broadcast and cast."""
    if isinstance(src, int | float | complex):
        from .create import tensor

        src = tensor(src, device=input._m.device)
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    if src._m.device is not input._m.device:
        src = transfer(src, input._m.device)
    return ops.copy_(input, src)
