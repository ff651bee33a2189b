"""Parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._engine.memory.strided import placement_of_tensor
from ..._engine.memory.tensor import Tensor
from ..._functions.misc import typename
from .._top import torch


def _check_devices(parameters: Iterable[Any]) -> list[Any]:
    held = list(parameters)
    if len({p.device for p in held}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return held


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of several parameters, one after the other.

    Args:
        parameters: the parameters.
    """
    return torch.cat([p.view(-1) for p in _check_devices(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parts of a vector the data of parameters.

    Args:
        vec: the elements of all parameters, one after the other.
        parameters: the parameters.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for param in _check_devices(parameters):
        stop = start + param.numel()
        part, there = vec[start:stop].view_as(param).data, placement_of_tensor(param)
        param.data = part if there is None else part.to(there)
        start = stop
