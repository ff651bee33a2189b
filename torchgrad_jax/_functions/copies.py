"""Copies of views whose arguments come in several forms, and `as_strided` as a copy and as a write."""

from __future__ import annotations

import functools
from itertools import accumulate
from typing import Any

from .._core.arrays import dtypes, shapes
from .._core.arrays.meta import Meta
from .._core.errors.messages import OVERLAP
from .._core.jax.caches import CALLS
from .._core.state import MODES
from .._engine.entry.bind import composite, ops
from .._engine.entry.composite import Ints
from .._engine.graph.record import apply
from .._engine.graph.views import as_strided_view
from .._engine.memory import strided
from .._engine.memory.tensor import Tensor
from .._engine.run.trace import Call
from .._ops import TABLE
from .._ops.helpers import convert
from .._ops.registry import Layout, Out
from .shape import sizes_of
from .splitting import clamp_slice, narrow_range, share_memory

_top = functools.partial(composite, method=False, out=True)


@_top
def expand_copy(input: Tensor, size: Ints, *, implicit: bool = False) -> Tensor:
    """A copy broadcast to a larger shape."""
    return ops.expand_copy(input, sizes_of((size,), "expand_copy"))


@_top
def squeeze_copy(input: Tensor, dim: Any = None) -> Tensor:
    """A copy without dimensions of size 1."""
    if dim is None:
        return ops.squeeze_all_copy(input)
    if isinstance(dim, list | tuple):
        return ops.squeeze_dims_copy(input, tuple(dim))
    return ops.squeeze_dim_copy(input, dim)


@_top
def view_copy(input: Tensor, size: Ints | None = None, *, dtype: Any = None) -> Tensor:
    """A copy with another shape, or of the same bytes as another dtype."""
    kind = dtype if dtype is not None else size
    if isinstance(kind, dtypes.dtype):
        return ops.clone_contiguous(input.detach().view(kind))
    return ops.view_copy_row(input, sizes_of((size,), "view_copy"))


@_top
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """A copy of one slice."""
    TABLE["select"].geometry(input._m, dim, index)  # type: ignore[misc] - refuses what select does
    n = input._m.shape[dim]
    return ops.select_copy_row(input, dim, index + n if index < 0 else index)


@_top
def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A copy of ``[start:end:step]`` along `dim`."""
    d, at, length = slice_range(input._m, dim, start, end, step)
    return ops.slice_copy_row(input, d, at, length, step)


def slice_range(m: Meta, dim: int, start: int | None, end: int | None, step: int) -> tuple[int, int, int]:
    """The dimension, first index and length of a slice."""
    if m.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    d = shapes.wrap_dim(dim, m.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    at, length = clamp_slice(m.shape[d], start, end, step)
    return d, at, length


@composite(out=True)
def narrow_copy(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """A copy of `length` elements along `dim` from `start`."""
    sizes = input._m.shape
    if sizes and dim >= len(sizes):
        raise RuntimeError(
            "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.  (Could this error "
            "message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    if sizes and length < 0 and -len(sizes) <= dim < len(sizes):
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({sizes[dim]}).")
    d, at = narrow_range(input, shapes.wrap_dim(dim, len(sizes)) if sizes else dim, start, length)
    return ops.narrow_copy_row(input, d, at, length)


@composite(method=False, out=Out.PARTS)
def split_copy(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Copies of pieces of one length."""
    return ops.split_size_copy(input, split_size, dim)


@composite(out=False)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes` whose parts count as tensors of their own."""
    sizes = sizes_of((split_sizes,), "unsafe_split_with_sizes")
    TABLE["split_with_sizes"].geometry(input._m, sizes, dim)  # type: ignore[misc] - refuses what it does
    parts = ops.unsafe_split_with_sizes_row(input, sizes, dim)
    return share_memory(input, parts, [0, *accumulate(sizes)][:-1], dim % input._m.ndim)


@_top
def detach_copy(input: Tensor) -> Tensor:
    """A copy through which no gradient can flow: differentiating it raises."""
    return ops.detach_copy(input)


# --- as_strided -----------------------------------------------------------------------------------


def _window(input: Tensor, size: Ints, stride: Ints, storage_offset: int | None) -> tuple[Tensor, int, bool]:
    """The window as a view, its offset from `input`, and whether it stays within its elements."""
    shape, steps = sizes_of((size,), "as_strided"), sizes_of((stride,), "as_strided")
    MODES.run.uses.look_around(input)
    view = as_strided_view(input, shape, steps, storage_offset)
    offset = strided.storage_offset(view) - strided.storage_offset(input)
    extent = input._m.extent
    inside = offset >= 0 and offset + shapes.storage_extent(shape, steps) <= extent
    return view, offset, inside


@_top
def as_strided_copy(input: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None) -> Tensor:
    """A copy of a window of the storage with any sizes and strides."""
    view, offset, inside = _window(input, size, stride, storage_offset)
    # Elements of the storage outside of the input have no gradient.
    if not inside or not input._m.dense:
        return ops.clone_contiguous(view)
    return apply(_reading(input._m, view._m, offset), (input,))


@CALLS.memo()
def _reading(source: Meta, window: Meta, offset: int) -> Call:
    def run(leaves: Any) -> Any:
        return strided.view_from(strided.to_flat(leaves[0], source), window, offset, False, False)

    return Call("as_strided_copy", run, node_name="AsStridedBackward0_copy", argnames=("self",))


@composite(out=False)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Ints, stride: Ints, storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with a window of any sizes and strides replaced by `src`."""
    view, offset, inside = _window(input, size, stride, storage_offset)
    w = view._m
    if src._m.shape != w.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src._m.shape)}, slice size = {list(w.shape)}"
        )
    if _overlapping(w):
        raise RuntimeError(OVERLAP)
    if not inside or _overlapping(input._m):
        raise NotImplementedError(
            "as_strided_scatter(): an input whose elements overlap, or a window outside of them, is not implemented"
        )
    return apply(_writing(input._m, w, offset), (input, src))


def _overlapping(m: Meta) -> bool:
    return any(s == 0 and n > 1 for n, s in zip(m.shape, m.strides))


@CALLS.memo()
def _writing(target: Meta, window: Meta, offset: int) -> Call:
    def run(leaves: Any) -> Any:
        x = strided.to_flat(leaves[0], target)
        new = convert(leaves[1], target.dtype.np)
        return strided.from_flat(strided.view_into(x, window, offset, False, False, new), target)

    return Call(
        "as_strided_scatter",
        run,
        node_name="AsStridedScatterBackward0",
        argnames=("self", "src"),
        layout=Layout.PRESERVE,
    )
