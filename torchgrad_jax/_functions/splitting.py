"""Pieces of a tensor as views: narrowing, chunks, splits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .._core.arrays import dtypes, shapes
from .._core.arrays.meta import meta
from .._core.state import FAKE, IN_RUN, INFERENCE, MODES
from .._engine.entry.arguments import as_int
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import CREATED_DEFAULT, Alias, Tensor, Version, plain_alias
from .arguments import unmatched


def clamp_slice(n: int, start: int | None, stop: int | None, step: int) -> tuple[int, int]:
    """First index and length of a Python slice with a positive step."""
    lo = 0 if start is None else start
    hi = n if stop is None else stop
    lo = max(lo + n, 0) if lo < 0 else min(lo, n)
    hi = max(hi + n, 0) if hi < 0 else min(hi, n)
    return lo, max(0, -(-(hi - lo) // step))


@composite
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements along `dim` from `start`, as a view."""
    d, at = narrow_range(input, dim, start, length)
    return ops.slice(input, d, at, length)


def narrow_range(input: Tensor, dim: int, start: Any, length: int) -> tuple[int, int]:
    """The dimension and first index that `narrow` takes."""
    m = input._m
    if m.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    at = as_int(start) if not isinstance(start, Tensor) or not start._m.ndim else None
    if at is None:
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    d = shapes.wrap_dim(dim, m.ndim)
    n = m.shape[d]
    if not -n <= at <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {at})")
    at = at + n if at < 0 else at
    if at + length > n:
        raise RuntimeError(f"start ({at}) + length ({length}) exceeds dimension size ({n}).")
    return d, at


@composite
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split into at most `chunks` equal views."""
    m = input._m
    if m.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = shapes.wrap_dim(dim, m.ndim)
    n = m.shape[d]
    size = -(-n // chunks)
    if size == 0 and n == 0:
        return ops.split_with_sizes(input, (0,) * chunks, d)
    return ops.split_size(input, size, d)


@composite
def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Split into views of one size, or of the given sizes."""
    size = split_size if split_size_or_sections is None else split_size_or_sections
    single = as_int(size) if not isinstance(size, list | tuple) else None
    if single is not None:
        return ops.split_size(tensor, single, dim)
    if not isinstance(size, list | tuple):
        raise TypeError(
            f"split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not {type(size).__name__}"
        )
    return ops.split_with_sizes(tensor, tuple(size), dim)


@composite
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` whose results do not count as views for autograd."""
    if not input._m.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = shapes.wrap_dim(dim, input._m.ndim)
    n = input._m.shape[d]
    if not n:
        return ops.unsafe_split_with_sizes_row(input, (0,) * chunks, d)
    return unsafe_split(input, -(-n // chunks), d)


@composite(known_as={"input": "tensor"})
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` whose results do not count as views for autograd."""
    if MODES.bits & INFERENCE and not (tensor._x is not None and tensor._x.inference):
        views = split(tensor, split_size, dim)  # no layer of autograd hides what the kernel makes:
        for view in views:  # views that count their writes on their own
            view._vc = Version()
        return views
    parts = ops._unsafe_split(tensor, split_size, dim)
    d = dim % tensor._m.ndim
    return share_memory(tensor, parts, [k * split_size for k in range(len(parts))], d)


def share_memory(x: Tensor, parts: tuple[Tensor, ...], starts: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    """Put tensors into the memory of `x`, as its parts along `dim`."""
    run = MODES.run
    if MODES.bits & FAKE or (MODES.bits & IN_RUN and not (run.may_write_outside or run.inside(x))):
        return parts
    m, whole = x._m, plain_alias(x) or Alias(0, None, CREATED_DEFAULT, 0)
    for part, start in zip(parts, starts):
        at = Alias(whole.offset + start * m.strides[dim], None, CREATED_DEFAULT, 0)
        at.conj, at.neg = whole.conj, whole.neg
        part._st, part._vc, part._al = x._st, Version(), at
        part._m = meta(part._m.shape, m.dtype, m.device, m.strides)
        if MODES.bits & IN_RUN:
            run.uses.alias_born(part, x)
    return parts


def slice_along(input: Tensor, dim: int, start: int | None, stop: int | None, step: int = 1) -> Tensor:
    """``input[start:stop:step]`` along one dimension, always as a new view."""
    lo, length = clamp_slice(input._m.shape[dim], start, stop, step)
    return ops.slice(input, dim, lo, length, step)


@composite(known_as={"tensor_indices_or_sections": "indices_or_sections"})
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """Split at indices, or into a number of nearly equal parts."""
    spec = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
    m = input._m
    if m.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = shapes.wrap_dim(dim, m.ndim)
    n = m.shape[d]
    if isinstance(spec, Tensor):
        if spec._m.dtype is not dtypes.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                f"{dtypes.scalar_type_name(spec._m.dtype)}"
            )
        spec = spec.tolist()
    if isinstance(spec, int):
        if spec <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {spec}")
        cuts = [(n // spec) * i + min(i, n % spec) for i in range(spec + 1)]
        return tuple(slice_along(input, d, a, b) for a, b in pairwise(cuts))
    if spec is None:
        raise TypeError("tensor_split(): expected indices or sections")
    ends = [*spec, n]
    starts = [0, *spec]
    return tuple(slice_along(input, d, a, b) for a, b in zip(starts, ends))


def _xsplit(name: str, input: Tensor, spec: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    if input._m.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a "
            f"tensor with {input._m.ndim} dimensions!"
        )
    if not isinstance(spec, int | list | tuple):
        raise unmatched(name)
    if isinstance(spec, int) and (spec == 0 or input._m.shape[dim] % spec):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{input._m.shape[dim]} is not divisible by the split_size {spec}!"
        )
    return tensor_split(input, spec, dim)


_PARTS = {"sections": "indices_or_sections", "indices": "indices_or_sections"}


@composite(known_as=_PARTS)
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along columns (the only dimension of a vector)."""
    return _xsplit("hsplit", input, indices_or_sections, 0 if input._m.ndim == 1 else 1, 1)


@composite(known_as=_PARTS)
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along rows."""
    return _xsplit("vsplit", input, indices_or_sections, 0, 2)


@composite(known_as=_PARTS)
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along depth."""
    return _xsplit("dsplit", input, indices_or_sections, 2, 3)
