"""Selections whose shape depends on values or on other tensors: segments, combinations, coordinates."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.arrays import dtypes, shapes
from .._core.errors.checks import all_between
from .._core.state import GRAD, MODES, WINDOWS
from .._engine.entry.arguments import as_int, as_ints, as_number, is_number
from .._engine.entry.bind import composite, ops
from .._engine.memory.concrete import concrete
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .._ops.registry import Out
from .create import from_host
from .joining import meshgrid
from .splitting import slice_along

_top = functools.partial(composite, method=False)


def _are_places(indices: Tensor, size: int) -> bool:
    """Return whether indices are known to be within a dimension of this size, from its start."""
    if MODES.bits & ~WINDOWS > GRAD:
        return False
    array = read(indices)
    return array.__class__ is np.ndarray and all_between(array, 0, size)


@composite(out=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Elements along `dim` at broadcast indices; without `dim`, of the flattened tensor."""
    if dim is not None and indices._m.dtype is not dtypes.int64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{dtypes.scalar_type_name(indices._m.dtype)}"
        )
    if dim is None:
        input, indices, axis = ops.view(input, (-1,)), ops.view(indices, (-1,)), 0
    else:
        have, want = input._m.shape, indices._m.shape
        if len(have) != len(want):
            raise RuntimeError(
                "torch.take_along_dim(): input and indices should have the same number of "
                f"dimensions, but got {len(have)} dimensions for input, and {len(want)} "
                "dimensions for indices"
            )
        axis = shapes.wrap_dim(dim, len(have))
        if not have:
            raise IndexError(f"Dimension specified as {axis} but tensor has no dimensions")
        common = have
        if have[:axis] != want[:axis] or have[axis + 1 :] != want[axis + 1 :]:
            rest = [tuple(1 if d == axis else n for d, n in enumerate(s)) for s in (have, want)]
            common = shapes.broadcast_shapes(*rest)
        input, indices = (
            ops.expand(t, (*common[:axis], t._m.shape[axis], *common[axis + 1 :])) for t in (input, indices)
        )
        if indices._m.numel and not _are_places(indices, have[axis]):
            indices = ops.remainder(indices, have[axis])  # torch wraps them around the dimension in both directions
    return ops.gather(input, axis, indices)


@_top
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Coordinates of positions in the flattened tensor of a shape."""
    m = indices._m if isinstance(indices, Tensor) else None
    if m is None:
        raise AttributeError(f"'{type(indices).__name__}' object has no attribute 'is_complex'")
    if m.dtype.category != dtypes.INTEGRAL:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {m.dtype!r}")
    sizes = np.asarray(_unravelled_shape(shape), np.int64)
    steps = np.concatenate([np.cumprod(sizes[:0:-1], dtype=np.int64)[::-1], np.ones(1, np.int64)])
    parts = ops.floor_divide(ops.unsqueeze(indices, -1), from_host(steps[: len(sizes)], m.device))
    return ops.unbind(ops.remainder(parts, from_host(sizes, m.device)), -1)


def _unravelled_shape(shape: Any) -> tuple[int, ...]:
    single = as_int(shape) if not isinstance(shape, Tensor) else None
    if single is not None:
        shape = (single,)
    if isinstance(shape, Tensor) or not isinstance(shape, Sequence):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {_class_name(shape)}")
    sizes = as_ints(tuple(shape))
    if sizes is None:
        bad = next(v for v in shape if as_int(v) is None)
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {_class_name(bad)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    return sizes


def _class_name(value: Any) -> str:
    return "<class 'torch.Tensor'>" if isinstance(value, Tensor) else str(type(value))


@_top
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, in order."""
    m = input._m
    if m.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(m.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return from_host(np.zeros(0, m.dtype.np), m.device)
    n = m.shape[0]
    grid = np.indices((n,) * r)
    kept = np.ones((n,) * r, bool)
    for a, b in pairwise(grid):
        kept &= a <= b if with_replacement else a < b
    mask = from_host(kept, m.device)
    grids = meshgrid(*[input] * r, indexing="ij")
    return ops.stack([ops.masked_select_at(g, _positions(mask)) for g in grids], 1)


def _positions(mask: Tensor) -> Tensor:
    return from_host(np.flatnonzero(concrete(mask)), mask._m.device)


# --- segments -------------------------------------------------------------------------------------


@composite(method=False, aliases=("_segment_reduce",))
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Runs of slices along `axis` reduced to one slice each: sum, mean, prod, max (amax) or min (amin)."""
    m = data._m
    d = shapes.wrap_dim(axis, m.ndim)
    if not m.numel:
        raise RuntimeError("segment_reduce(): Expected data to be non-empty.")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if reduce not in ("sum", "mean", "prod", "max", "min", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not m.dtype.is_floating_point:
        name = dtypes.scalar_type_name(m.dtype)
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{name}'")
    given, name = (lengths, "lengths") if offsets is None else (offsets, "offsets")
    bounds = _segment_bounds(m.shape, d, given, name, unsafe)  # type: ignore[arg-type]
    count = bounds.shape[-1] - 1
    place = np.arange(m.shape[d])
    inside = (place >= bounds[..., :1]) & (place < bounds[..., -1:])
    number = (place[None, :] >= bounds.reshape(-1, count + 1, 1)[:, 1:]).sum(1)
    segment = np.where(inside, number.reshape(*bounds.shape[:-1], -1), count)
    return ops.segment_reduce_rows(data, from_host(segment.astype(np.int64), m.device), count, reduce, initial)


def _segment_bounds(shape: tuple[int, ...], axis: int, given: Tensor, name: str, unsafe: bool) -> np.ndarray:
    """First elements of the segments along the last dimension, and the end of the last."""
    g = given._m
    if g.dtype not in (dtypes.int32, dtypes.int64):
        kind = dtypes.scalar_type_name(g.dtype)
        raise NotImplementedError(f"\"_segment_reduce_{name}_cpu_kernel1\" not implemented for '{kind}'")
    if axis != g.ndim - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    values = concrete(given).astype(np.int64)
    if name == "offsets":
        return values
    if unsafe:
        if (values < 0).any() or (values.sum(-1) > shape[axis]).any():
            raise RuntimeError(
                "segment_reduce(): with unsafe=True, lengths reach beyond the data, where torch reads what it finds"
            )
    elif (values < 0).any():
        raise RuntimeError("lengths contains negative value!")
    elif (values.sum(-1) != shape[axis]).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
    return np.concatenate([np.zeros((*values.shape[:-1], 1), np.int64), values.cumsum(-1)], -1)


# --- chunks ---------------------------------------------------------------------------------------


@composite(name="_chunk_cat", method=False, out=Out.JOINED)
def chunk_cat(tensors: Any, dim: int, num_chunks: int) -> Tensor:
    """Each tensor padded and cut into chunks along `dim`; chunks of one number side by side."""
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]._m
    for t in tensors:
        if not t._m.numel:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if t._m.dtype is not first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
    if dim < 0 and any(t._m.ndim != first.ndim for t in tensors):
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    d = shapes.wrap_dim(dim, first.ndim)
    for t in tensors:
        if d >= t._m.ndim:
            raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
        if t._m.shape[:d] != first.shape[:d]:
            raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
    return ops.cat([_chunks(t, d, num_chunks) for t in tensors], d + 1)


def _chunks(t: Tensor, dim: int, count: int) -> Tensor:
    """The tensor with zeros added until `dim` divides, as chunks of one dimension each."""
    shape = t._m.shape
    missing = -shape[dim] % count
    if missing:
        pad = from_host(np.zeros((*shape[:dim], missing, *shape[dim + 1 :]), t._m.dtype.np), t._m.device)
        t = ops.cat([t, pad], dim)
    return ops.view(ops.clone_contiguous(t), (*shape[:dim], count, -1))


# --- finite differences ---------------------------------------------------------------------------


@_top
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimated slopes along dimensions: central differences, one-sided at the edges."""
    m = input._m
    if m.dtype is dtypes.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    steps, dims = _spacings(m.ndim, spacing, dim)
    for d in dims:
        if m.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for h in steps:
        if isinstance(h, Tensor) and h._m.ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an element with "
                f"{h._m.ndim} dimensions!"
            )
    return tuple(
        _uneven(input, h, d, edge_order) if isinstance(h, Tensor) else _even(input, h, d, edge_order)
        for h, d in zip(steps, dims)
    )


def _spacings(ndim: int, spacing: Any, dim: Any) -> tuple[list[Any], tuple[int, ...]]:
    several = isinstance(spacing, list | tuple)
    if dim is not None:
        given = dim if isinstance(dim, list | tuple) else (dim,)
        dims = tuple(shapes.wrap_dim(d, ndim) for d in given)
        if len(set(dims)) != len(dims):
            twice = next(d for d in dims if dims.count(d) > 1)
            raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    else:
        dims = tuple(range(ndim))
    if not several:
        if isinstance(spacing, Tensor) and is_number(spacing):
            spacing = as_number(spacing)
        return [1 if spacing is None else spacing] * len(dims), dims
    if len(spacing) != len(dims):
        if dim is None:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                f"'self.dim() = {ndim}', since dim argument was not given, but got a list of length {len(spacing)}"
            )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got a spacing argument of length {len(spacing)} and a dim argument of length "
            f"{len(dims)}."
        )
    return list(spacing), dims


def _between(x: Tensor, d: int, start: int, stop: int | None) -> Tensor:
    return slice_along(x, d, start, stop)


def _even(x: Tensor, h: Any, d: int, order: int) -> Tensor:
    def at(i: int) -> Tensor:
        return _between(x, d, i, i + 1 or None)

    def across(low: Tensor, high: Tensor) -> Tensor:
        return ops.div_number(ops.sub(high, low), h)

    # The terms are made in torch's order.
    inner = across(_between(x, d, 0, -2), _between(x, d, 2, None))
    if order == 1:
        first, last = across(at(0), at(1)), across(at(-2), at(-1))
    else:
        third = ops.mul_number(at(2), 0.5)
        second = ops.mul_number(at(1), 2)
        near = ops.add(ops.mul_number(at(0), -1.5), second)
        first = ops.div_number(ops.sub(near, third), h)
        near = ops.mul_number(at(-1), 1.5)
        second = ops.mul_number(at(-2), 2)
        far = ops.sub(ops.mul_number(at(-3), 0.5), second)
        last = ops.div_number(ops.add(far, near), h)
    inner = ops.div_number(inner, 2)
    return ops.cat([first, inner, last], d)


def _weighted(x: Tensor, d: int, weights: Sequence[Tensor], parts: Sequence[Any]) -> Tensor:
    """The sum of parts along `d` times their weights, the terms made from the last one on."""
    terms = [ops.mul(w, _between(x, d, *p)) for w, p in zip(weights[::-1], parts[::-1])]
    return functools.reduce(ops.add, terms[::-1])


def _uneven(x: Tensor, coordinates: Tensor, d: int, order: int) -> Tensor:
    """The second-order estimate between unequal steps, by coordinates along the dimension."""
    shape = [1] * x._m.ndim
    shape[d] = -1
    steps = ops.sub(slice_along(coordinates, 0, 1, None), slice_along(coordinates, 0, 0, -1))
    left, right = slice_along(steps, 0, 0, -1), slice_along(steps, 0, 1, None)
    both = ops.add(left, right)
    a = ops.true_divide(ops.neg(right), ops.mul(left, both))
    b = ops.true_divide(ops.sub(right, left), ops.mul(left, right))
    c = ops.true_divide(left, ops.mul(right, both))
    weights = [ops.view(w, tuple(shape)) for w in (a, b, c)]
    inner = _weighted(x, d, weights, [(0, -2), (1, -1), (2, None)])

    def step(i: int) -> Tensor:
        return ops.view(slice_along(steps, 0, i, i + 1), (1,) * x._m.ndim)

    last_step = steps._m.shape[0] - 1
    if order == 1:
        low, high = _between(x, d, 0, 1), _between(x, d, 1, 2)
        first = ops.true_divide(ops.sub(high, low), step(0))
        low, high = _between(x, d, -2, -1), _between(x, d, -1, None)
        last = ops.true_divide(ops.sub(high, low), step(last_step))
        return ops.cat([first, inner, last], d)
    first = _weighted(x, d, _edge(step(0), step(1)), [(0, 1), (1, 2), (2, 3)])
    ends = [ops.neg(w) for w in _edge(step(last_step), step(last_step - 1))]
    last = _weighted(x, d, ends[::-1], [(-3, -2), (-2, -1), (-1, None)])
    return ops.cat([first, inner, last], d)


def _edge(near: Tensor, far: Tensor) -> list[Tensor]:
    """Weights of the slope at an end from the three values next to it."""
    both = ops.add(near, far)
    a = ops.neg(ops.true_divide(ops.add(ops.mul(near, 2), far), ops.mul(near, both)))
    b = ops.true_divide(both, ops.mul(near, far))
    c = ops.neg(ops.true_divide(near, ops.mul(far, both)))
    return [a, b, c]
