"""Tensors put together: cat, stack, block_diag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._core.arrays import layouts, shapes
from .._core.arrays.meta import Meta
from .inner import inner_op
from .registry import COMMON, Array, Arrays, Out, TorchKernel, op


def _cat_check(tensors: Sequence[Array], dim: int) -> int:
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = next((x for x in tensors if x.shape != (0,)), tensors[0])
    for i, x in enumerate(tensors):
        if x.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    if first.shape == (0,):  # torch ignores all of them, and the dimension
        return 0
    d = shapes.wrap_dim(dim, first.ndim)
    for i, x in enumerate(tensors):
        if x.shape == (0,):
            continue
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
        for k in range(x.ndim):
            if k != d and x.shape[k] != first.shape[k]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {d}. Expected size {first.shape[k]} but got "
                    f"size {x.shape[k]} for tensor number {i} in the list."
                )
    return d


def _joined(metas: Sequence[Meta], out: tuple[int, ...]) -> tuple[int, ...]:
    return layouts.joined([(m.shape, m.strides) for m in metas], out)


@op(
    promote=COMMON,
    aliases=("concat", "concatenate"),
    method=False,
    joins=lambda ndim, dim: (shapes.wrap_dim(dim, ndim) if ndim > 1 else 0, False),
    layout=_joined,
    out=Out.JOINED,
)
def cat(tensors: Arrays, dim: int = 0) -> Array:
    d = _cat_check(tensors, dim)
    # torch ignores empty vectors, also in backward: they get no part of the gradient.
    kept = [x for x in tensors if x.shape != (0,)] or [jnp.zeros((0,), tensors[0].dtype)]
    return lax.concatenate(kept, d)


@layouts.with_statics
def _stacked(metas: Sequence[Meta], out: tuple[int, ...], statics: dict[str, Any]) -> tuple[int, ...]:
    """Strides of tensors joined along a dimension that is then split in two."""
    d = shapes.wrap_dim(statics["dim"], len(out))
    if d < len(out) - 1:
        whole = (*out[:d], out[d] * out[d + 1], *out[d + 2 :])
        strides = layouts.joined([(m.shape, m.strides) for m in metas], whole)
        split = shapes.view_strides(whole, strides, out)
        assert split is not None
        return split
    return layouts.joined([((*m.shape, 1), (*m.strides, 1)) for m in metas], out)


def _stack_made_as(shape: tuple[int, ...], dim: int) -> tuple[tuple[int, ...], int] | None:
    d = shapes.wrap_dim(dim, len(shape))
    if d == len(shape) - 1:
        return None
    return (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :]), 0


@op(
    promote=COMMON,
    method=False,
    joins=lambda ndim, dim: (shapes.wrap_dim(dim, ndim + 1), True),
    layout=_stacked,
    out=Out.JOINED,
    kernel=TorchKernel(made_as=_stack_made_as),
)
def stack(tensors: Arrays, dim: int = 0) -> Array:
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    d = shapes.wrap_dim(dim, tensors[0].ndim + 1)
    for i, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                f"{list(x.shape)} at entry {i}"
            )
    return jnp.stack(tensors, d)


@inner_op(name="block_diag_list", node="BlockDiagBackward0", promote=COMMON)
def block_diag_list(tensors: Arrays) -> Array:
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    return jax.scipy.linalg.block_diag(*tensors) if tensors else jnp.zeros((1, 0))
