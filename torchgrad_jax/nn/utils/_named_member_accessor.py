"""Tensors of a module by name, exchanged without the checks of assignment."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from ..modules.module import Module

_MISSING = object()
"""What a name that has no tensor yet is exchanged for."""


def set_tensor(module: Module, name: str, tensor: Any) -> None:
    """Put a tensor where the module has one of this name.

    Args:
        module: the module itself, not one that contains it.
        name: of a parameter, a buffer or an attribute.
        tensor: what to put there.
    """
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put a tensor where the module has one of this name, and return the one that was there.

    Args:
        module: the module itself, not one that contains it.
        name: of a parameter, a buffer or an attribute.
        tensor: what to put there; what was returned for a name without a tensor removes it again.
        allow_missing: whether there may be none yet.
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    for members in (module._parameters, module._buffers):
        if name in members:
            return _exchange(members, name, tensor)
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def _exchange(members: dict[str, Any], name: str, tensor: Any) -> Any:
    before = members[name]
    if tensor is _MISSING:
        del members[name]
    else:
        members[name] = tensor
    return before
