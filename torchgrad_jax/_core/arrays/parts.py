"""The geometry of views of parts of a tensor: one index, a slice, a diagonal."""

from __future__ import annotations

import operator

from . import shapes
from .meta import Meta, View


def selected(shape: tuple[int, ...], dim: int, index: int) -> tuple[int, int]:
    """The dimension and the index in it, counted from the front, of what `select` selects."""
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = shapes.wrap_dim(dim, len(shape))
    n, index = shape[d], operator.index(index)
    if not -n <= index < n:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {d}")
    return d, index + n if index < 0 else index


def select_geometry(m: Meta, dim: int, index: int) -> View:
    """The slice at an index of one dimension, as a view."""
    d, i = selected(m.shape, dim, index)
    return View(m.shape[:d] + m.shape[d + 1 :], m.strides[:d] + m.strides[d + 1 :], i * m.strides[d])


def slice_geometry(m: Meta, dim: int, start: int, length: int, step: int) -> View:
    """A range of one dimension, as a view."""
    d = shapes.wrap_dim(dim, m.ndim)
    shape, strides = list(m.shape), list(m.strides)
    shape[d] = length
    strides[d] *= step
    return View(tuple(shape), tuple(strides), operator.index(start) * m.strides[d])


def diagonal_dims(ndim: int, dim1: int, dim2: int) -> tuple[int, int]:
    """Two different dimensions."""
    a, b = shapes.wrap_dim(dim1, ndim), shapes.wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return a, b


def diagonal_geometry(m: Meta, offset: int, dim1: int, dim2: int) -> View:
    """A diagonal as the last dimension, as a view."""
    a, b = diagonal_dims(m.ndim, dim1, dim2)
    if offset >= 0:
        n = max(min(m.shape[a], m.shape[b] - offset), 0)
        start = offset * m.strides[b]
    else:
        n = max(min(m.shape[a] + offset, m.shape[b]), 0)
        start = -offset * m.strides[a]
    keep = [d for d in range(m.ndim) if d not in (a, b)]
    return View(
        (*[m.shape[d] for d in keep], n),
        (*[m.strides[d] for d in keep], m.strides[a] + m.strides[b]),
        start if n else 0,
    )
