"""The part of torch.utils._foreach_utils that optimizers outside of torch use."""

from __future__ import annotations

from typing import Any


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
