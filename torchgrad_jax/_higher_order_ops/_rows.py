"""The dimension that is cut into slices, put in front and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._engine.memory.tensor import Tensor
from ..utils import _pytree as pytree


def rows_first(xs: Any, leaves: Sequence[Tensor], dim: int, error: type[Exception]) -> tuple[Any, int]:
    """Tensors with this dimension in front, and its number."""
    ndim = leaves[0].ndim
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    dim %= ndim
    if any(x.ndim <= dim or x.shape[dim] == 0 for x in leaves):
        raise error("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    return (pytree.tree_map(lambda t: t.movedim(dim, 0), xs) if dim else xs), dim


def moved(t: Tensor, dim: int) -> Tensor:
    """A stacked result with its first dimension where the slices were cut."""
    return t.movedim(0, dim) if dim and dim < t.ndim else t
