"""Shape functions that torch composes of views and copies."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._core import dtypes, shapes
from .._core.formats import is_contiguous_in, preserve_format
from .._core.meta import Meta, View
from .._engine.bind import as_int, as_ints, composite, ops
from .._engine.record import apply
from .._engine.tensor import Tensor
from .._engine.trace import Call
from .._engine.views import apply_view
from .convert import clone_in


def _sizes(given: tuple[Any, ...], what: str) -> tuple[int, ...]:
    flat = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    for v in flat:
        if v.__class__ is not int:
            break
    else:
        return tuple(flat)
    out = as_ints(flat)
    if out is None:
        bad = next((v for v in flat if as_int(v) is None), flat)
        raise TypeError(
            f"{what}(): argument must be tuple of ints, but found element of type {type(bad).__name__}"
        )
    return out


# --- view, reshape and relatives ------------------------------------------------------------------


def _retyped(m: Meta, dtype: dtypes.dtype) -> View:
    """Geometry of the same bytes as another dtype."""
    old, new = m.dtype.itemsize, dtype.itemsize
    if old == new:
        return View(m.shape, m.strides, 0, dtype)
    if m.ndim == 0:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {dtypes.scalar_type_name(m.dtype)} as "
            f"{dtypes.scalar_type_name(dtype)} (different element sizes)"
        )
    if m.strides[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {dtypes.scalar_type_name(m.dtype)} as "
            f"{dtypes.scalar_type_name(dtype)} (different element sizes), but got {m.strides[-1]}"
        )
    if old > new:
        k = old // new
        return View(
            (*m.shape[:-1], m.shape[-1] * k), (*[s * k for s in m.strides[:-1]], 1), 0, dtype
        )
    k = new // old
    if m.shape[-1] % k:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {k} to view {dtypes.scalar_type_name(m.dtype)} as "
            f"{dtypes.scalar_type_name(dtype)} (different element sizes), but got {m.shape[-1]}"
        )
    if any(s % k for s in m.strides[:-1]):
        raise RuntimeError(
            f"self.stride() must be divisible by {k} to view {dtypes.scalar_type_name(m.dtype)} as "
            f"{dtypes.scalar_type_name(dtype)} (different element sizes)"
        )
    return View((*m.shape[:-1], m.shape[-1] // k), (*[s // k for s in m.strides[:-1]], 1), 0, dtype)


_DTYPE_VIEWS: dict[dtypes.dtype, Call] = {}


def _view_dtype(input: Tensor, dtype: dtypes.dtype) -> Tensor:
    if dtype is input._m.dtype:
        return input.detach()  # torch records nothing here
    call = _DTYPE_VIEWS.get(dtype)
    if call is None:
        call = _DTYPE_VIEWS[dtype] = Call(
            "view_dtype", lambda leaves: leaves[0], node_name="ViewBackward1",
            geometry=lambda m, leaves: _retyped(m, dtype),
        )  # fmt: skip
    from .._engine.record import no_grad

    with no_grad():
        out = apply_view(call, (input,))
    out._al.base = None  # torch does not count it as a view of its source
    return out


@composite(name="view", function=False)
def view(input: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    """The same elements with another shape or another dtype, sharing storage."""
    if dtype is not None or (len(size) == 1 and isinstance(size[0], dtypes.dtype)):
        return _view_dtype(input, dtype if dtype is not None else size[0])
    if not size:
        raise TypeError(
            "view() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    return ops.view(input, _sizes(size, "view"))


@composite(function=False)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`view` to another tensor's shape."""
    return ops.view(input, other._m.shape)


def _reshape(input: Tensor, size: tuple[int, ...]) -> Tensor:
    m = input._m
    shape = shapes.infer_size(size, m.numel)
    if shapes.view_strides(m.shape, m.strides, shape) is not None:
        return ops.view(input, shape) if m.contiguous else ops._reshape_alias(input, shape)
    return ops._unsafe_view(ops.clone_contiguous(input), shape)


@composite
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """A view of another shape where strides allow it, else a copy."""
    return _reshape(input, _sizes(shape, "reshape"))


@composite(function=False)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`reshape` to another tensor's shape."""
    return _reshape(input, other._m.shape)


@composite
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Collapse a range of dimensions into one."""
    m = input._m
    a, b = shapes.wrap_dim(start_dim, m.ndim), shapes.wrap_dim(end_dim, m.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if m.ndim == 0:
        return _reshape(input, (1,))
    if a == b:
        return input
    return _reshape(
        input, (*m.shape[:a], int(np.prod(m.shape[a : b + 1], dtype=np.int64)), *m.shape[b + 1 :])
    )


@composite
def ravel(input: Tensor) -> Tensor:
    """A contiguous one-dimensional version."""
    return (
        ops.view(contiguous(input), (-1,)) if input._m.numel else ops.view(contiguous(input), (0,))
    )


@composite
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """Split one dimension into several."""
    m = input._m
    sizes = _sizes((sizes,), "unflatten")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    d = shapes.wrap_dim(dim, m.ndim)
    try:
        inner = shapes.infer_size(sizes, m.shape[d])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({m.shape[d]}) in the "
            "input tensor"
        ) from None
    return ops.view(input, (*m.shape[:d], *inner, *m.shape[d + 1 :]))


@composite(function=False)
def expand(input: Tensor, *size: Any, implicit: bool = False) -> Tensor:
    """Repeat dimensions of size 1 without copying."""
    return ops.expand(input, _sizes(size, "expand"))


@composite(function=False)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`expand` to another tensor's shape."""
    return ops.expand(input, other._m.shape)


@composite
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """`expand` under its NumPy name."""
    return ops.expand(input, _sizes((size,), "broadcast_to"))


@composite(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    shape = shapes.broadcast_shapes(*[t._m.shape for t in given])
    return tuple(t if t._m.shape == shape else ops.expand(t, shape) for t in given)


@composite(method=False)
def broadcast_shapes(*given: Any) -> shapes.Size:
    """The shape that tensors of these shapes broadcast to."""
    dims = [(s,) if isinstance(s, int) else tuple(s) for s in given]
    for s in dims:
        for n in s:
            if n < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({n}): ({n})")
    try:
        return shapes.Size(shapes.broadcast_shapes(*dims))
    except RuntimeError:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape"
        ) from None


@composite
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Drop dimensions of size 1."""
    if dim is None:
        return ops.squeeze_all(input)
    if isinstance(dim, list | tuple):
        return ops.squeeze_dims(input, tuple(dim)) if dim else ops.squeeze_dims(input, ())
    return ops.squeeze_dim(input, dim)


@composite(name="squeeze_", function=False)
def squeeze_(input: Tensor, dim: Any = None) -> Tensor:
    """`squeeze` that changes the tensor itself."""
    if dim is None:
        return ops.squeeze_all_(input)
    if isinstance(dim, list | tuple):
        return ops.squeeze_dims_(input, tuple(dim))
    return ops.squeeze_dim_(input, dim)


@composite(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places, keeping the order of the rest."""
    src = (source,) if isinstance(source, int) else tuple(source)
    dst = (destination,) if isinstance(destination, int) else tuple(destination)
    n = input._m.ndim
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(src)} dims) should contain the same number "
            f"of dims as destination ({list(dst)} dims)"
        )
    a = [shapes.wrap_dim(d, n) for d in src]
    b = [shapes.wrap_dim(d, n) for d in dst]
    if len(set(a)) != len(a):
        raise RuntimeError(f"movedim: repeated dim in `source` ({list(src)})")
    if len(set(b)) != len(b):
        raise RuntimeError(f"movedim: repeated dim in `destination` ({list(dst)})")
    if n == 0:
        return input
    order: list[int] = [-1] * n
    for s, d in zip(a, b):
        order[d] = s
    rest = iter([d for d in range(n) if d not in a])
    return ops.permute(input, tuple(next(rest) if o < 0 else o for o in order))


@composite
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    if input._m.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input._m.ndim}-D tensor."
        )
    return conj(ops.transpose(input, -2, -1))


def transposed(input: Tensor) -> Tensor:
    """`.T`: all dimensions reversed."""
    n = input._m.ndim
    if n != 2:
        import warnings

        if n not in (0, 2):
            warnings.warn(
                "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it "
                "will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
                "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
                stacklevel=3,
            )
    return ops.permute(input, tuple(range(n - 1, -1, -1)))


def matrix_transposed(input: Tensor) -> Tensor:
    """`.mT`: the last two dimensions swapped."""
    if input._m.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input._m.ndim}-D tensor."
        )
    return ops.transpose(input, -2, -1)


def hermitian(input: Tensor) -> Tensor:
    """`.H`: the conjugate transpose of a matrix."""
    n = input._m.ndim
    if n not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor."
        )
    return adjoint(input) if n else conj(input)


def matrix_hermitian(input: Tensor) -> Tensor:
    """`.mH`: `adjoint`."""
    if input._m.ndim < 2:
        raise RuntimeError(
            f"tensor.mH is only supported on matrices or batches of matrices. Got {input._m.ndim}-D tensor."
        )
    return adjoint(input)


# --- narrowing and splitting ----------------------------------------------------------------------


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
    at = as_int(start)
    if at is None:
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    d = shapes.wrap_dim(dim, m.ndim)
    n = m.shape[d]
    if not -n <= at <= n:
        raise IndexError(
            f"start out of range (expected to be in range of [{-n}, {n}], but got {at})"
        )
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
    return ops.split_with_sizes(tensor, tuple(size), dim)


@composite
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` whose results do not count as views for autograd."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = shapes.wrap_dim(dim, input._m.ndim)
    return ops._unsafe_split(input, -(-input._m.shape[d] // chunks), d)


@composite
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` whose results do not count as views for autograd."""
    return ops._unsafe_split(tensor, split_size, dim)


def slice_along(
    input: Tensor, dim: int, start: int | None, stop: int | None, step: int = 1
) -> Tensor:
    """``input[start:stop:step]`` along one dimension, always as a new view."""
    lo, length = clamp_slice(input._m.shape[dim], start, stop, step)
    return ops.slice(input, dim, lo, length, step)


@composite
def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: Any = None,
) -> tuple[Tensor, ...]:
    """Split at indices, or into a number of nearly equal parts."""
    spec = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
    m = input._m
    if m.ndim == 0:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = shapes.wrap_dim(dim, m.ndim)
    n = m.shape[d]
    if isinstance(spec, Tensor):
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
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, {type(spec).__name__}), but "
            "expected one of:\n * (Tensor input, int sections)\n * (Tensor input, tuple of ints indices)\n"
        )
    if isinstance(spec, int) and (spec == 0 or input._m.shape[dim] % spec):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{input._m.shape[dim]} is not divisible by the split_size {spec}!"
        )
    return tensor_split(input, spec, dim)


@composite
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along columns (the only dimension of a vector)."""
    return _xsplit("hsplit", input, indices_or_sections, 0 if input._m.ndim == 1 else 1, 1)


@composite
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along rows."""
    return _xsplit("vsplit", input, indices_or_sections, 0, 2)


@composite
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along depth."""
    return _xsplit("dsplit", input, indices_or_sections, 2, 3)


# --- joining --------------------------------------------------------------------------------------


def _listed(tensors: Any) -> tuple[Tensor, ...]:
    return (
        tuple(tensors[0])
        if len(tensors) == 1 and isinstance(tensors[0], list | tuple)
        else tuple(tensors)
    )


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
    return tuple(_atleast(n, t) for t in _listed(tensors))


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


@composite(method=False, out=True)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along columns."""
    parts = [_atleast(1, t) for t in _nonempty(tensors, "hstack")]
    return ops.cat(parts, 0 if parts[0]._m.ndim == 1 else 1)


@composite(method=False, aliases=("row_stack",), out=True)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along rows."""
    return ops.cat([_atleast(2, t) for t in _nonempty(tensors, "vstack")], 0)


@composite(method=False, out=True)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along depth."""
    return ops.cat([_atleast(3, t) for t in _nonempty(tensors, "dstack")], 2)


@composite(method=False, out=True)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join, treating vectors as columns."""
    parts = _nonempty(tensors, "column_stack")
    return ops.cat([_reshape(t, (t._m.numel, 1)) if t._m.ndim <= 1 else t for t in parts], 1)


def _nonempty(tensors: Any, name: str) -> list[Tensor]:
    parts = list(tensors)
    if not parts:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return parts


@composite(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A block-diagonal matrix of the given matrices."""
    return ops.block_diag_list(_listed(tensors))


@composite(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of one-dimensional tensors."""
    parts: list[Tensor] = list(_listed(tensors))
    if not parts:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in parts:
        if t._m.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t!r}"
            )
    for t in parts[1:]:
        if t._m.dtype is not parts[0]._m.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        import warnings

        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            stacklevel=2,
        )
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
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


# --- rearranging ----------------------------------------------------------------------------------


@functools.cache
def _rotation(k: int, a: int, b: int) -> Call:
    """A rotation by `k` quarter turns, laid out as torch's flip and transposition of it are."""

    def strides(metas: Sequence[Meta], shape: tuple[int, ...]) -> tuple[int, ...]:
        if k == 0:
            return shapes.contiguous_strides(shape)
        m = metas[0]
        out = list(shapes.preserve_strides(m.shape, m.strides))
        if k != 2:
            out[a], out[b] = out[b], out[a]
        return tuple(out)

    return Call(
        "rot90", lambda leaves: jnp.rot90(leaves[0], k, (a, b)), node_name="Rot90Backward0",
        argnames=("self",), layout=strides,
    )  # fmt: skip


@composite
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The tensor turned by `k` quarters in the plane of two dimensions."""
    m, plane = input._m, _sizes((dims,), "rot90")
    if len(plane) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(plane)}")
    if m.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {m.ndim}")
    a, b = (shapes.wrap_dim(d, m.ndim) for d in plane)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}"
        )
    return apply(_rotation(k % 4, a, b), (input,))


@composite
def fliplr(input: Tensor) -> Tensor:
    """Reverse the columns."""
    if input._m.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return ops.flip(input, (1,))


@composite
def flipud(input: Tensor) -> Tensor:
    """Reverse the rows."""
    if input._m.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return ops.flip(input, (0,))


@composite
def tile(input: Tensor, *dims: Any) -> Tensor:
    """Repeat along dimensions, as NumPy does."""
    reps = _sizes(dims, "tile")
    return ops.repeat(input, (1,) * (input._m.ndim - len(reps)) + reps)


@composite(out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix of a diagonal."""
    if input._m.ndim == 1:
        return ops.diag_embed(input, diagonal)
    if input._m.ndim == 2:
        return ops.diagonal_copy(input, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input._m.ndim}D")


@composite
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A diagonal matrix of all elements."""
    return ops.diag_embed(_reshape(contiguous(input), (-1,)), offset)


@composite(function=False)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum broadcast dimensions away until the shape is `size`."""
    shape = _sizes(size, "sum_to_size")
    have = input._m.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, have[i + lead]) for i, n in enumerate(shape)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.")
    dims = [
        *range(lead),
        *[i + lead for i, n in enumerate(shape) if n == 1 and have[i + lead] != 1],
    ]
    if not shape:
        return ops.sum(input)
    out = ops.sum(input, tuple(dims), True) if dims else input
    return ops.view(out, shape) if lead else out


# --- copies ---------------------------------------------------------------------------------------

_PRESERVE = ("torch.preserve_format", None)


def _format(memory_format: Any) -> str:
    return (
        "preserve"
        if memory_format is None
        else str(memory_format).rpartition(".")[2].replace("_format", "")
    )


@composite
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own storage."""
    kind = _format(memory_format)
    if kind == "preserve":
        return ops.clone(input)
    if kind == "contiguous":
        return ops.clone_contiguous(input)
    return clone_in(input, memory_format)


@composite(function=False)
def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself when it is row-major, else a copy that is."""
    if memory_format is not None and _format(memory_format) != "contiguous":
        m = input._m
        if memory_format is preserve_format:
            raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
        return (
            input
            if is_contiguous_in(memory_format, m.shape, m.strides)
            else clone_in(input, memory_format)
        )
    return input if input._m.contiguous else ops.clone_contiguous(input)


def _fill(input: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return ops.fill_tensor_(input, value)
    return ops.fill_value_(input, value)


composite(_fill, name="fill_")


@composite
def fill(input: Tensor, value: Any) -> Tensor:
    """A copy filled with one value."""
    return (
        ops.fill_tensor_copy(input, value)
        if isinstance(value, Tensor)
        else ops.fill_value_copy(input, value)
    )


@composite(name="zero_")
def zero_(input: Tensor) -> Tensor:
    """Overwrite with zeros."""
    return ops.zero_(input)


@composite(name="copy_", function=False)
def copy_(input: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with another tensor's values, broadcast and cast."""
    if isinstance(src, int | float | complex):
        from .create import tensor

        src = tensor(src, device=input._m.device)
    if not isinstance(src, Tensor):
        raise TypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}"
        )
    return ops.copy_(input, src)


# --- complex views --------------------------------------------------------------------------------


@composite
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, as a view; real tensors are returned as they are."""
    return ops._conj(input) if input._m.dtype.is_complex else input


@composite
def real(input: Tensor) -> Tensor:
    """The real part, as a view."""
    if not input._m.dtype.is_complex:
        return input
    plain = ops._conj(input) if is_conj(input) else input
    return ops.select(ops.view_as_real(plain), -1, 0)


@composite
def imag(input: Tensor) -> Tensor:
    """The imaginary part, as a view."""
    if not input._m.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if is_conj(input):
        return ops.select(ops._neg_view(ops.view_as_real(ops._conj(input))), -1, 1)
    return ops.select(ops.view_as_real(input), -1, 1)


@composite(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary parts as a last dimension of size 2, as a view."""
    if is_conj(input):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
            "the original."
        )
    return ops.view_as_real(input)


@composite
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a lazily conjugated view."""
    return input._al is not None and input._al.conj


@composite
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a lazily negated view."""
    return input._al is not None and input._al.neg


@composite
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor with its lazy conjugation carried out."""
    return ops.clone(input) if is_conj(input) else input


@composite
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor with its lazy negation carried out."""
    return ops.clone(input) if is_neg(input) else input


@composite
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the storage with any shape, strides and offset."""
    from .._engine.views import as_strided_view

    return as_strided_view(
        input, _sizes((size,), "as_strided"), _sizes((stride,), "as_strided"), storage_offset
    )


@composite(name="as_strided_")
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """`as_strided` that changes how the tensor itself sees its storage."""
    from .._engine.views import as_strided_inplace

    shape, strides = _sizes((size,), "as_strided_"), _sizes((stride,), "as_strided_")
    return as_strided_inplace(input, shape, strides, storage_offset)
