"""Views, and ops that move elements without computing on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, layouts, shapes
from .._core.arrays.meta import Meta, View
from .._core.arrays.parts import diagonal_dims, diagonal_geometry, select_geometry, slice_geometry
from .._core.errors import messages as errors
from .._core.jax.sizes import of_sizes, pinned
from . import helpers
from .inner import inner_op
from .registry import (
    Apart,
    Array,
    Dims,
    Dtype,
    Fits,
    InPlace,
    Layout,
    Numbers,
    Overlap,
    Scalar,
    Size,
    TorchKernel,
    TracedInt,
    op,
    variant,
)

# --- views ----------------------------------------------------------------------------------------


def _view_geometry(m: Meta, size: tuple[int, ...]) -> View:
    shape = shapes.infer_size(size, m.numel)
    strides = shapes.view_strides(m.shape, m.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension "
            "spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return View(shape, strides)


@inner_op(name="view", geometry=_view_geometry)
def view(input: Array, size: Size) -> Array:
    return input.reshape(shapes.infer_size(size, input.size))


@inner_op(name="_reshape_alias", node="ReshapeAliasBackward0", geometry=_view_geometry)
def reshape_alias(input: Array, size: Size) -> Array:
    return input.reshape(shapes.infer_size(size, input.size))


@inner_op(geometry=lambda m: View(m.shape, m.strides))
def alias(input: Array) -> Array:
    return input


@inner_op(name="_make_dual", node="ViewBackward0", geometry=lambda m: View(m.shape, m.strides))
def make_dual(input: Array) -> Array:
    return input


@inner_op(name="_fw_primal", node="Identity", geometry=lambda m: View(m.shape, m.strides))
def fw_primal(input: Array) -> Array:
    return input


def _as_viewed(metas: Sequence[Meta], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a view, where one of that shape is possible."""
    (m,) = metas
    found = shapes.view_strides(m.shape, m.strides, shape)
    return shapes.contiguous_strides(shape) if found is None else shapes.preserve_strides(shape, found)


@inner_op(name="_unsafe_view", node="UnsafeViewBackward0", layout=_as_viewed)
def unsafe_view(input: Array, size: Size) -> Array:
    return input.reshape(shapes.infer_size(size, input.size))


def _swap(seq: Sequence[Any], a: int, b: int) -> tuple[Any, ...]:
    out = list(seq)
    out[a], out[b] = out[b], out[a]
    return tuple(out)


def _transpose_geometry(m: Meta, dim0: int, dim1: int) -> View:
    a, b = shapes.wrap_dim(dim0, m.ndim), shapes.wrap_dim(dim1, m.ndim)
    if m.ndim == 0:
        return View((), ())
    return View(_swap(m.shape, a, b), _swap(m.strides, a, b))


@op(
    geometry=_transpose_geometry,
    inplace=InPlace(node="TransposeBackward1"),
    out=False,
    aliases=("swapaxes", "swapdims"),
)
def transpose(input: Array, dim0: int, dim1: int) -> Array:
    if input.ndim == 0:
        return input
    return jnp.swapaxes(input, dim0, dim1)


def _t_geometry(m: Meta) -> View:
    if m.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {m.ndim}D")
    return View(m.shape[::-1], m.strides[::-1])


@op(geometry=_t_geometry, node="TBackward0", inplace=InPlace(node="TBackward1"), out=False)
def t(input: Array) -> Array:
    return input.T


def _permutation(dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    if len(dims) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    out = tuple(shapes.wrap_dim(d, ndim) for d in dims)
    if len(set(out)) != len(out):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return out


def _permute_geometry(m: Meta, dims: tuple[int, ...]) -> View:
    order = _permutation(dims, m.ndim)
    return View(tuple(m.shape[d] for d in order), tuple(m.strides[d] for d in order))


@op(geometry=_permute_geometry, out=False)
def permute(input: Array, dims: Size) -> Array:
    return jnp.transpose(input, _permutation(dims, input.ndim))


def expanded_shape(shape: tuple[int, ...], size: tuple[int, ...], type_name: str = "FloatTensor") -> tuple[int, ...]:
    """The shape that `expand(size)` gives."""
    lead = len(size) - len(shape)
    if lead < 0:
        kind = errors.legacy_type(f"torch.{type_name}")
        raise RuntimeError(
            f"expand({kind}{{{list(shape)}}}, size={list(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    out = list(size)
    for i, n in reversed(list(enumerate(size))):  # torch complains about the last mismatch
        have = shape[i - lead] if i >= lead else 1
        if n == -1:
            if i < lead:
                raise RuntimeError(
                    f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            n = have
        elif n < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {i}"
            )
        elif have != n and have != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at non-singleton "
                f"dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: {list(shape)}"
            )
        out[i] = n
    return tuple(out)


def _expand_geometry(m: Meta, size: tuple[int, ...]) -> View:
    shape = expanded_shape(m.shape, size, m.dtype.type_name)
    return View(shape, shapes.expand_strides(m.shape, m.strides, shape))


@inner_op(geometry=_expand_geometry)
def expand(input: Array, size: Size) -> Array:
    return jnp.broadcast_to(input, expanded_shape(input.shape, size))


def _squeeze_dims(shape: tuple[int, ...], dim: tuple[int, ...] | None) -> tuple[int, ...]:
    if dim is None:
        return tuple(d for d, n in enumerate(shape) if n == 1)
    dims = tuple(shapes.wrap_dim(d, len(shape)) for d in dim)
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return tuple(d for d in dims if shape and shape[d] == 1)


def _squeeze_geometry(m: Meta, dim: tuple[int, ...] | None) -> View:
    gone = _squeeze_dims(m.shape, dim)
    keep = [d for d in range(m.ndim) if d not in gone]
    return View(tuple(m.shape[d] for d in keep), tuple(m.strides[d] for d in keep))


def _squeeze(input: Array, dim: tuple[int, ...] | None) -> Array:
    return lax.squeeze(input, _squeeze_dims(input.shape, dim))


@inner_op(geometry=_squeeze_geometry, node="SqueezeBackward0", inplace=InPlace(node="SqueezeBackward3"))
def squeeze_all(input: Array, dim: Dims | None = None) -> Array:
    return _squeeze(input, dim)


@inner_op(geometry=_squeeze_geometry, node="SqueezeBackward1", inplace=InPlace(node="SqueezeBackward4"))
def squeeze_dim(input: Array, dim: Dims) -> Array:
    return _squeeze(input, dim)


@inner_op(geometry=_squeeze_geometry, node="SqueezeBackward2", inplace=InPlace(node="SqueezeBackward5"))
def squeeze_dims(input: Array, dim: Dims) -> Array:
    return _squeeze(input, dim)


def _unsqueeze_geometry(m: Meta, dim: int) -> View:
    d = shapes.wrap_dim(dim, m.ndim + 1)
    stride = m.shape[d] * m.strides[d] if d < m.ndim else 1
    return View((*m.shape[:d], 1, *m.shape[d:]), (*m.strides[:d], stride, *m.strides[d:]))


@op(geometry=_unsqueeze_geometry, inplace=InPlace(node="UnsqueezeBackward1"), out=False)
def unsqueeze(input: Array, dim: int) -> Array:
    return jnp.expand_dims(input, dim)


@op(geometry=select_geometry, out=False)
def select(input: Array, dim: int, index: TracedInt) -> Array:
    return lax.dynamic_index_in_dim(input, index, dim % max(input.ndim, 1), keepdims=False)


@inner_op(name="slice", geometry=slice_geometry)
def slice_(input: Array, dim: int, start: TracedInt, length: int, step: int = 1) -> Array:
    """`length` elements along `dim` from `start`, `step` apart. The caller has clamped these numbers."""
    d = dim % input.ndim
    if length == 0:
        return lax.slice_in_dim(input, 0, 0, axis=d)
    span = (length - 1) * step + 1
    x = lax.dynamic_slice_in_dim(input, start, span, axis=d, allow_negative_indices=False)
    return lax.slice_in_dim(x, 0, span, stride=step, axis=d) if step != 1 else x


def _parts(m: Meta, dim: int, sizes: Sequence[int]) -> list[View]:
    d = shapes.wrap_dim(dim, m.ndim)
    out, at = [], 0
    for n in sizes:
        out.append(View((*m.shape[:d], n, *m.shape[d + 1 :]), m.strides, at * m.strides[d]))
        at += n
    return out


def _split_lengths(n: int, size: int) -> list[int]:
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0:
        if n:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
        return [0]
    count = pinned(max((n + size - 1) // size, 1))
    return [size] * (count - 1) + [n - size * (count - 1)]


def _split_geometry(m: Meta, split_size: int, dim: int) -> list[View]:
    if m.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = shapes.wrap_dim(dim, m.ndim)
    return _parts(m, d, _split_lengths(m.shape[d], split_size))


def _split_array(x: Array, sizes: Sequence[int], dim: int) -> tuple[Array, ...]:
    return tuple(lax.split(x, sizes, dim))


def _cut_along(ndim: int, dim: int, **_: Any) -> tuple[int, bool]:
    return shapes.wrap_dim(dim, ndim), False


@inner_op(name="split_size", geometry=_split_geometry, joins=_cut_along, node="SplitBackward0")
def split_size(input: Array, split_size: int, dim: int = 0) -> Any:
    d = dim % input.ndim
    return _split_array(input, _split_lengths(input.shape[d], split_size), d)


@inner_op(name="_unsafe_split", node="UnsafeSplitBackward0")
def unsafe_split_(input: Array, split_size: int, dim: int = 0) -> Any:
    if input.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = shapes.wrap_dim(dim, input.ndim)
    return _split_array(input, _split_lengths(input.shape[d], split_size), d)


def _split_with_sizes_geometry(m: Meta, split_sizes: tuple[int, ...], dim: int) -> list[View]:
    if m.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = shapes.wrap_dim(dim, m.ndim)
    if any(n < 0 for n in split_sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(split_sizes)}"
        )
    if sum(split_sizes) != m.shape[d]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {m.shape[d]} (input tensor's size at dimension "
            f"{dim}), but got split_sizes={list(split_sizes)}"
        )
    return _parts(m, d, split_sizes)


@op(geometry=_split_with_sizes_geometry, joins=_cut_along, out=False)
def split_with_sizes(input: Array, split_sizes: Dims, dim: int = 0) -> Any:
    return _split_array(input, split_sizes, dim % input.ndim)


def _unbind_geometry(m: Meta, dim: int) -> list[View]:
    if m.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d = shapes.wrap_dim(dim, m.ndim)
    shape, strides = m.shape[:d] + m.shape[d + 1 :], m.strides[:d] + m.strides[d + 1 :]
    return [View(shape, strides, i * m.strides[d]) for i in range(m.shape[d])]


@op(geometry=_unbind_geometry, joins=lambda ndim, dim: (shapes.wrap_dim(dim, ndim), True), out=False)
def unbind(input: Array, dim: int = 0) -> Any:
    d = dim % input.ndim
    (rows,) = lax.split(input, (pinned(input.shape[d]),), d)  # whose number is no symbol
    return tuple(lax.unstack(rows, d))


@op(geometry=diagonal_geometry, out=False)
def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return helpers.diagonal_of(input, offset, dim1, dim2)


@op(name="diagonal_copy", node="DiagonalBackward0_copy", method=False)
def diagonal_copy(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    diagonal_dims(input.ndim, dim1, dim2)
    return helpers.diagonal_of(input, offset, dim1, dim2)


def _unfold_geometry(m: Meta, dimension: int, size: int, step: int) -> View:
    d = shapes.wrap_dim(dimension, m.ndim)
    n = m.shape[d] if m.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > n:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {n} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if m.ndim == 0:
        return View((size,), (1,))
    shape = (*m.shape[:d], (n - size) // step + 1, *m.shape[d + 1 :], size)
    return View(shape, (*m.strides[:d], m.strides[d] * step, *m.strides[d + 1 :], m.strides[d]))


def _windows(n: int, step: int, size: int) -> np.ndarray:
    return (np.arange(n) * step)[:, None] + np.arange(size)[None, :]


@op(geometry=_unfold_geometry, function=False, out=False)
def unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    if input.ndim == 0:
        return jnp.broadcast_to(input, (size,))
    d = dimension % input.ndim
    n = (input.shape[d] - size) // step + 1
    at = of_sizes(_windows, n, step, size, shape=(n, size), dtype=np.int64)
    return jnp.moveaxis(jnp.take(input, at, axis=d), d + 1, -1)


def _view_as_real_geometry(m: Meta) -> View:
    if not m.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return View((*m.shape, 2), (*[2 * s for s in m.strides], 1), 0, m.dtype.to_real())


@inner_op(geometry=_view_as_real_geometry)
def view_as_real(input: Array) -> Array:
    # The real part is taken of the conjugate, since JAX's transpose conjugates: the zeros of a gradient of `real` or
    # `imag` stay positive that way.
    turned = jnp.conj(input)
    return jnp.stack([jnp.real(turned), -jnp.imag(turned)], -1)


def _view_as_complex_geometry(m: Meta) -> View:
    if m.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{dtypes.scalar_type_name(m.dtype)}"
        )
    if m.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if m.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if m.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in m.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return View(m.shape[:-1], tuple(s // 2 for s in m.strides[:-1]), 0, dtypes.to_complex(m.dtype))


@op(geometry=_view_as_complex_geometry, method=False, out=False)
def view_as_complex(input: Array) -> Array:
    return lax.complex(input[..., 0], input[..., 1])


@inner_op(name="_conj", geometry=lambda m: View(m.shape, m.strides, conj=True), node="ConjBackward0")
def conj_(input: Array) -> Array:
    return jnp.conj(input)


@inner_op(name="_neg_view", geometry=lambda m: View(m.shape, m.strides, neg=True), node="NegViewBackward0")
def neg_view_(input: Array) -> Array:
    return -input


# --- copies ---------------------------------------------------------------------------------------


@inner_op(layout=Layout.PRESERVE, node="CloneBackward0", kernel=TorchKernel(copies=True))
def clone(input: Array) -> Array:
    return input  # arrays are immutable, so a new storage is a copy


@inner_op(node="CloneBackward0")
def _as_if_unknown(input: Array) -> Array:
    """The same values. XLA cannot know that, so it does not merge the steps on them with equal steps on `input`."""
    return lax.optimization_barrier(input)


@inner_op(name="clone_contiguous", node="CloneBackward0", kernel=TorchKernel(copies=True))
def clone_contiguous(input: Array) -> Array:
    return input


@inner_op(name="_to_copy", node="ToCopyBackward0", kernel=TorchKernel(copies=True), layout=Layout.PRESERVE)
def to_copy(input: Array, dtype: Dtype) -> Array:
    return helpers.convert(input, dtype)


_to_copy = variant("_to_copy", "_to_copy_contiguous", layout=Layout.CONTIGUOUS)


@inner_op(
    name="copy",
    node="CopyBackwards",
    numbers=Numbers(wrapped=True),
    inplace=InPlace(apart=Apart.STORED),
    layout=Layout.ELEMENTWISE,
)
def copy(input: Array, src: Array) -> Array:
    """`src` broadcast and cast to `input`; only its in-place form is public."""
    try:
        out = jnp.broadcast_to(src, expanded_shape(src.shape, input.shape))
    except RuntimeError:
        wide = shapes.broadcast_shapes(input.shape, src.shape)
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(wide)}"
        ) from None
    return helpers.convert(out, input.dtype)


@inner_op(
    name="fill_value", node="FillBackward2", inplace=InPlace(overlaps=Overlap.FINE), numbers=Numbers(fits=Fits.EXACTLY)
)
def fill_value(input: Array, value: Scalar) -> Array:
    return jnp.full(input.shape, helpers.convert(jnp.asarray(value), input.dtype))


@inner_op(
    name="fill_tensor", node="FillBackward3", numbers=Numbers(wrapped=True), refused=helpers.stays_complex, inplace=True
)
def fill_tensor(input: Array, value: Array) -> Array:
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return jnp.broadcast_to(helpers.convert(value, input.dtype), input.shape)


fill_value_ = variant("fill_value", "fill_value_copy", node="FillBackward0", inplace=False)
fill_tensor_ = variant("fill_tensor", "fill_tensor_copy", node="FillBackward1", inplace=False)


@inner_op(inplace=InPlace(overlaps=Overlap.FINE), node="ZeroBackward0")
def zero(input: Array) -> Array:
    return jnp.zeros(input.shape, input.dtype)


@op(layout=Layout.PRESERVE, out=False)
def flip(input: Array, dims: Size) -> Array:
    return jnp.flip(input, shapes.wrap_dims(dims, input.ndim)) if dims and input.ndim else _same(input, dims)


def _same(input: Array, dims: tuple[int, ...]) -> Array:
    shapes.wrap_dims(dims, input.ndim)
    return jnp.array(input, copy=True)


@layouts.with_statics
def _rolled(metas: Sequence[Meta], out: tuple[int, ...], statics: dict[str, Any]) -> tuple[int, ...]:
    """Strides of the two parts that torch joins, one dimension after another."""
    m, shifts = metas[0], statics["shifts"]
    if not statics["dims"]:
        return shapes.contiguous_strides(out)
    if 0 in out:
        return shapes.preserve_strides(out, m.strides)
    strides = m.strides
    for shift, dim in zip(shifts, statics["dims"]):
        d = shapes.wrap_dim(dim, len(out))
        last = shift % out[d]
        parts = [((*out[:d], n, *out[d + 1 :]), strides) for n in (last, out[d] - last)]
        strides = layouts.joined(parts, out)
    return strides


@op(
    out=False,
    layout=_rolled,
    kernel=TorchKernel(made_as=lambda shape, shifts, dims: None if dims else ((math.prod(shape),), 0)),
)
def roll(input: Array, shifts: Dims, dims: Dims | None = None) -> Array:
    dims = dims or ()
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return jnp.roll(input.reshape(-1), shifts[0]).reshape(input.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    axes = tuple(shapes.wrap_dim(d, input.ndim, scalar=False) for d in dims)
    return jnp.roll(input, shifts, axes)


def _triangle_check(input: Array, name: str) -> None:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


def _check_triangle_inplace(me: Meta, out: Any, others: Any) -> bool:
    """Where matrices do not follow one another in memory, torch computes in a copy and writes that back."""
    if me.ndim < 4 or not me.overlaps:
        return False
    first, *batch = zip(me.shape[:-2], me.strides[:-2])
    step = me.shape[-1] * me.shape[-2]
    for size, stride in reversed(batch):
        if stride != step:
            raise RuntimeError(errors.OVERLAP)
        step *= size
    if first[0] != 1 and first[1] not in (0, step):
        raise RuntimeError(errors.OVERLAP)
    return False


@op(inplace=InPlace(overlaps=Overlap.FINE, check=_check_triangle_inplace))
def tril(input: Array, diagonal: int = 0) -> Array:
    _triangle_check(input, "tril")
    return jnp.tril(input, diagonal)


@op(inplace=InPlace(overlaps=Overlap.FINE, check=_check_triangle_inplace))
def triu(input: Array, diagonal: int = 0) -> Array:
    _triangle_check(input, "triu")
    return jnp.triu(input, diagonal)


@op(function=False, out=False, kernel=TorchKernel(made_as=lambda shape, repeats: None if 0 in repeats else (shape, 1)))
def repeat(input: Array, repeats: Size) -> Array:
    if len(repeats) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(r < 0 for r in repeats):
        shape = [r * n for r, n in zip(repeats, (1,) * (len(repeats) - input.ndim) + input.shape)]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {shape}")
    x = input.reshape((1,) * (len(repeats) - input.ndim) + input.shape)
    return jnp.tile(x, repeats)


@op
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    ndim = input.ndim + 1
    a, b = shapes.wrap_dim(dim1, ndim), shapes.wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = input.shape[-1] + abs(offset)
    places = of_sizes(np.arange, input.shape[-1], shape=input.shape[-1:], dtype=np.int64)
    rows, cols = places + max(-offset, 0), places + max(offset, 0)
    out = jnp.zeros((*input.shape[:-1], n, n), input.dtype).at[..., rows, cols].set(input)
    return jnp.moveaxis(out, (-2, -1), (a, b))
