"""Indexing functions with several overloads or with shapes that depend on values; table lookups."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import dtypes, shapes
from .._core.arrays.numbers import check_fits, check_read, may_not_fit
from .._core.errors import messages as errors, warn
from .._core.errors.checks import fail_if
from .._core.state import MODES
from .._engine.entry.bind import METHODS, composite, ops
from .._engine.graph.deferred import later
from .._engine.graph.record import no_grad
from .._engine.memory.concrete import concrete
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .create import from_host
from .indexing import expand_masks, fills_masked, fits_as_mask, index_put_, refuse_byte_mask
from .traced_spans import comes_later, traced

_MASKS = (dtypes.bool_, dtypes.uint8)


def _host(array: Any, like: Tensor, dtype: dtypes.dtype = dtypes.int64) -> Tensor:
    return from_host(np.asarray(array, dtype.np), like._m.device)


# --- positions of nonzero elements ----------------------------------------------------------------


@composite(out=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Coordinates of the nonzero elements, as rows or as one vector per dimension."""
    values = concrete(input, errors.BATCHED_SHAPE.format(name="nonzero"), "nonzero")
    if as_tuple:
        rows = nonzero(input if input._m.ndim else ops.unsqueeze(input, 0))
        return ops.unbind(rows, 1)
    if not values.ndim:
        rows = np.argwhere(values)
    else:
        rows = np.array(values.nonzero(), np.int64).transpose()
    return from_host(rows, input._m.device, strides=(1, len(rows)))


@composite
def argwhere(input: Tensor) -> Tensor:
    """Coordinates of the nonzero elements, as rows."""
    return nonzero(input)


@composite(out=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` is true, as a vector."""
    if mask._m.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = shapes.broadcast_shapes(mask._m.shape, input._m.shape)
    where = np.flatnonzero(np.broadcast_to(concrete(mask, errors.BATCHED_SELECT, "masked_select"), shape))
    wider = None if shape == input._m.shape else shape
    return ops.masked_select_at(input, _host(where, input), wider)


# --- scatter and index_put ------------------------------------------------------------------------


def _scatter(input: Tensor, dim: int, index: Tensor, src: Any, value: Any, reduce: Any, suffix: str) -> Tensor:
    given = src if value is None else value
    if given is None or (src is not None and value is not None):
        raise TypeError("scatter() received an invalid combination of arguments: one of src and value is needed")
    kind = "scatter_src" if isinstance(given, Tensor) and value is None else "scatter_value"
    if reduce is not None and kind == "scatter_src":
        warn.once(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future "
            "PyTorch release. Use torch.scatter_reduce instead for more reduction options."
        )
    if kind == "scatter_value" and isinstance(given, complex):
        check_fits(given, input._m.dtype)
    return getattr(ops, kind + suffix)(input, dim, index, given, reduce)


def _scatter_inplace(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Tensor:
    """Write `src` (or one value) at `index` along `dim`."""
    return _scatter(input, dim, index, src, value, reduce, "_")


@composite(out=True, inplace=_scatter_inplace)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Tensor:
    """A copy with `src` (or one value) written at `index` along `dim`."""
    return _scatter(input, dim, index, src, value, reduce, "")


def _index_put_inplace(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write `values` to, or add them at, what the indices select."""
    given = _tensor_indices(indices)
    if (mask := _single_mask(input, given, values, accumulate)) is not None:
        return ops.masked_fill_(input, mask, ops.view(ops._to_copy(values, input._m.dtype), ()))
    return index_put_(input, given, values, accumulate)


@composite(inplace=_index_put_inplace)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with `values` written to, or added at, what the indices select."""
    given = _tensor_indices(indices)
    if (mask := _single_mask(input, given, values, accumulate)) is not None:
        return ops.masked_fill(input, mask, ops.view(ops._to_copy(values, input._m.dtype), ()))
    if fills_masked(given, values, accumulate):
        refuse_byte_mask(indices)
        if may_not_fit(values._m.dtype, input._m.dtype):
            check_read(read(values), input._m.dtype)
        if fits_as_mask(given, input):
            return ops._index_put_mask(input, given, values)
    return ops.index_put(input, _integer_indices(input, indices), values, accumulate)


composite(_index_put_inplace, name="index_put_", method=False)


def _single_mask(input: Tensor, given: tuple[Any, ...], values: Tensor, accumulate: bool) -> Tensor | None:
    """A mask without dimensions among the indices: one value fills everything with it, or nothing."""
    masks = [t for t in given if t is not None and t._m.dtype in _MASKS and not t._m.ndim]
    if not masks:
        return None
    if len(given) > input._m.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input._m.ndim} (got {len(given)})")
    if not fills_masked(given, values, accumulate):
        raise RuntimeError("index_put(): with a mask without dimensions, only one value can be written")
    return masks[0]


def _tensor_indices(indices: Any) -> tuple[Any, ...]:
    if isinstance(indices, Tensor):
        raise TypeError("index_put(): argument 'indices' must be tuple of Tensors, not Tensor")
    for i, t in enumerate(indices):
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 1, but got {errors.class_name(t)}")
    return tuple(indices)


def _integer_indices(input: Tensor, indices: Any) -> tuple[Any, ...]:
    given = _tensor_indices(indices)
    if any(t is not None and t._m.dtype in (dtypes.bool_, dtypes.uint8) for t in given):
        return tuple(expand_masks(input, given))
    return given


# --- repetition -----------------------------------------------------------------------------------


def _repeat_each(input: Tensor, repeats: int, axis: int, output_size: Any) -> Tensor:
    shape = input._m.shape
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    total = shape[axis] * repeats
    if output_size is not None and output_size != total:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {total} but got {output_size}")
    wide = ops.unsqueeze(input, axis + 1)
    wide = ops.expand(wide, (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return ops.view(ops.clone_contiguous(wide), (*shape[:axis], total, *shape[axis + 1 :]))


def _check_counts(repeats: Tensor) -> None:
    if repeats._m.dtype not in (dtypes.int32, dtypes.int64):
        name = dtypes.scalar_type_name(repeats._m.dtype)
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{name}'")


def _places(repeats: Tensor, output_size: Any, like: Tensor, dtype: dtypes.dtype) -> Tensor:
    """Each position as often as `repeats` says."""
    if repeats._m.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    _check_counts(repeats)
    if output_size is not None and comes_later(repeats):
        later((repeats,), lambda arrays: _check_total(arrays[0], output_size))
        ends = METHODS["cumsum"](repeats.reshape(-1), 0)
        number = METHODS["new_ones"](ends, (output_size,)).cumsum(0)
        found = ops.searchsorted(ends, number)  # of the last one, where the check fails
        return METHODS["clamp"](found, max=ends._m.numel - 1).to(dtype)
    counts = concrete(repeats)
    _check_total(counts, output_size)
    return _host(np.repeat(np.arange(counts.size), counts), like, dtype)


def _check_total(counts: Any, output_size: int | None) -> None:
    if counts.size:
        fail_if((counts < 0).any(), lambda: RuntimeError("repeats can not be negative"))
    if output_size is not None:
        fail_if(counts.sum() != output_size, lambda: RuntimeError("allocated size does not match required size"))


@composite
def repeat_interleave(input: Tensor, repeats: Any = None, dim: Any = None, *, output_size: Any = None) -> Tensor:
    """Each element (or slice along `dim`) repeated a number of times."""
    if repeats is None:
        _check_counts(input)
        if input._m.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return _places(input, output_size, input, input._m.dtype)
    if dim is None:
        input, dim = (METHODS["reshape"](input, (-1,)) if input._m.ndim != 1 else input, 0)
    axis = shapes.wrap_dim(dim, input._m.ndim)
    if not isinstance(repeats, Tensor):
        if not input._m.ndim:
            input, axis = ops.view(input, (1,)), 0
        return _repeat_each(input, repeats, axis, output_size)
    n = input._m.shape[axis] if input._m.ndim else 1
    if repeats._m.ndim == 0 or (repeats._m.ndim == 1 and repeats._m.shape[0] == 1 and n != 1):
        _check_counts(repeats)
        repeats = METHODS["expand"](repeats.reshape(-1), n)
    if repeats._m.ndim == 1 and repeats._m.shape[0] != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats._m.shape[0]} "
            f"and input.size({axis}) = {n}"
        )
    return ops.index_select(input, axis, _places(repeats, output_size, input, dtypes.int64))


def _check_classes(values: Any, n: int) -> None:
    fail_if((values < 0).any(), lambda: RuntimeError("Class values must be non-negative."))
    if n != -1:
        fail_if((values >= n).any(), lambda: RuntimeError("Class values must be smaller than num_classes."))


# --- table lookups (torch.nn.functional) ----------------------------------------------------------


@composite(namespace="nn.functional", method=False)
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors with a 1 at the class of each element."""
    num_classes = int(num_classes)
    if input._m.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not input._m.numel:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return ops.one_hot_sized(input, num_classes)
    run = MODES.run
    if num_classes > 0 and run.inside(input) and traced(input):
        if run.may_write_outside:  # torch does not check the values of a batch
            later((input,), lambda arrays: _check_classes(arrays[0], num_classes))
        return ops.one_hot_sized(input, num_classes)
    values = concrete(input, errors.BATCHED_CLASSES)
    _check_classes(values, num_classes)
    if num_classes == -1:
        num_classes = int(values.max()) + 1
    out = ops.one_hot_sized(input, num_classes)
    out._vc.version += 2  # torch writes the zeros and then the ones, which are two writes
    return out


def _renormalise(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    with no_grad():
        ops.embedding_renorm_(weight, input, float(max_norm), float(norm_type))


@composite(method=False, known_as={"input": "weight"})
def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale down the rows at `indices` whose norm exceeds `max_norm`, in place."""
    return ops.embedding_renorm_(weight, indices, float(max_norm), float(norm_type))


@composite(namespace="nn.functional", method=False)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` at the indices `input`."""
    n = weight._m.shape[0] if weight._m.ndim else 0
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx > 0:
        assert padding_idx < n, "Padding_idx must be within num_embeddings"
    elif padding_idx < 0:
        assert padding_idx >= -n, "Padding_idx must be within num_embeddings"
        padding_idx += n
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    if sparse:
        warn.once(_DENSE)
    return ops.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_DENSE = (
    "embedding and embedding_bag with sparse=True: the gradient is dense here, with zeros in the rows that were not "
    "looked up; SparseAdam leaves such rows alone"
)
_MODES = {"sum": 0, "mean": 1, "max": 2}


def _check_bags(mode: str, scale: bool, sparse: bool, weights: Any) -> None:
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if sparse:
        warn.once(_DENSE)
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )


@composite(namespace="nn.functional", method=False)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Any = None,
    max_norm: Any = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: Any = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of `weight`."""
    if per_sample_weights is not None and per_sample_weights._m.shape != input._m.shape:
        raise ValueError(
            "embedding_bag: If per_sample_weights "
            f"({shapes.Size(per_sample_weights._m.shape)!r}) is not None, then it must have the same shape as the "
            f"input ({shapes.Size(input._m.shape)!r})"
        )
    if weight._m.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight._m.ndim}")
    if input._m.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        rows, width = input._m.shape
        if not width:
            raise RuntimeError("step must be nonzero")  # of torch's range of offsets
        include_last_offset = False
        offsets = _host(np.arange(rows) * width, input, input._m.dtype)
        input = ops.view(ops.clone_contiguous(input), (-1,))
        if per_sample_weights is not None:
            per_sample_weights = ops.view(ops.clone_contiguous(per_sample_weights), (-1,))
    elif input._m.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input._m.ndim}")
    elif not isinstance(offsets, Tensor):
        raise ValueError("offsets has to be a 1D Tensor but got None")
    elif offsets._m.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    _check_bags(mode, scale_grad_by_freq, sparse, per_sample_weights)
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    return ops.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]


@composite(method=False)
def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, ...]:
    """`torch.embedding_bag`, where -1 says that no row is padding."""
    padding = None if padding_idx == -1 else padding_idx
    options = scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding
    return ops.embedding_bag(weight, indices, offsets, *options)
