"""Tensors put together: stacks, blocks, grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core.errors import warn
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .._ops.registry import Out
from .arguments import only_tensors, unmatched, wrong
from .create import zeros
from .shape import _reshape


def _listed(tensors: Any) -> tuple[Tensor, ...]:
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tuple(tensors)


def _atleast(n: int, t: Tensor) -> Tensor:
    d = t._m.ndim
    if d >= n:
        return t
    if n == 1:
        return _reshape(t, (1,))
    if n == 2:
        return ops.unsqueeze(t, 0) if d == 1 else _reshape(t, (1, 1))
    if d == 0:
        return _reshape(t, (1, 1, 1))
    return ops.unsqueeze(ops.unsqueeze(t, 0), -1) if d == 1 else ops.unsqueeze(t, -1)


def _atleast_each(n: int, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _atleast(n, tensors[0])
    parts = _listed(tensors)
    if len(tensors) == 1 and not isinstance(tensors[0], list | tuple):
        raise unmatched(f"atleast_{n}d")
    return tuple(_atleast(n, t) for t in parts)


@composite(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Make each tensor at least one-dimensional."""
    return _atleast_each(1, tensors)


@composite(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Make each tensor at least two-dimensional."""
    return _atleast_each(2, tensors)


@composite(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Make each tensor at least three-dimensional."""
    return _atleast_each(3, tensors)


@composite(method=False, out=Out.JOINED)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along columns."""
    parts = [_atleast(1, t) for t in _nonempty(tensors, "hstack")]
    return ops.cat(parts, 0 if parts[0]._m.ndim == 1 else 1)


@composite(method=False, aliases=("row_stack",), out=Out.JOINED)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along rows."""
    return ops.cat([_atleast(2, t) for t in _nonempty(tensors, "vstack")], 0)


@composite(method=False, out=Out.JOINED)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along depth."""
    return ops.cat([_atleast(3, t) for t in _nonempty(tensors, "dstack")], 2)


@composite(method=False, out=Out.JOINED)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join, treating vectors as columns."""
    parts = _nonempty(tensors, "column_stack")
    return ops.cat([_reshape(t, (t._m.numel, 1)) if t._m.ndim <= 1 else t for t in parts], 1)


def _nonempty(tensors: Any, name: str) -> list[Tensor]:
    if not isinstance(tensors, list | tuple):
        raise wrong(name, "tensors", "tuple of Tensors", tensors, 1)
    parts = list(tensors)
    if not parts:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return parts


@composite(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A block-diagonal matrix of the given matrices."""
    if not tensors:
        return zeros(1, 0)
    return ops.block_diag_list(tensors)


@composite(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of one-dimensional tensors."""
    parts: list[Tensor] = list(_listed(tensors))
    if not parts:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    try:
        wide = [t for t in parts if t._m.ndim > 1]
    except AttributeError:
        only_tensors(parts)
        raise
    for t in wide:
        raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t!r}")
    for t in parts[1:]:
        if t._m.dtype is not parts[0]._m.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        warn.to_user("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(parts) >= 2
    if swap:
        parts[0], parts[1] = parts[1], parts[0]
    shape = tuple(t._m.numel for t in parts)
    grids = [
        ops.expand(ops.view(t, tuple(-1 if i == k else 1 for i in range(len(parts)))), shape)
        for k, t in enumerate(parts)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
