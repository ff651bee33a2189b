"""The part of torch.utils._foreach_utils that optimizers outside of torch use."""

from __future__ import annotations

from typing import Any


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Device types whose tensors `torch._foreach_*` takes."""
    return ["cpu", "cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Device types for which optimizers have fused kernels."""
    return ["cpu", "cuda"]


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    """Whether `torch._foreach_*` takes these tensors."""
    return _device_has_foreach_support(device)


def _device_has_foreach_support(device: Any) -> bool:
    """Whether `torch._foreach_*` takes tensors of a device."""
    return device.type in _get_foreach_kernels_supported_devices()


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of tensors that go together, apart by device and dtype of the tensors of the first list."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        rows, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for row, source in zip(rows, tensorlistlist):
            if source:  # a list may be left empty
                row.append(source[i])
        if with_indices:
            indices.append(i)
    return groups
