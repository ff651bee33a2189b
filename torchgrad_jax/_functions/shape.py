"""Views of other shapes, and dimensions moved about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from .._core.arrays import dtypes, shapes
from .._core.arrays.meta import Meta, View
from .._core.errors import warn
from .._core.jax.caches import CALLS
from .._engine.entry.arguments import as_int, as_ints, missing_argument
from .._engine.entry.bind import composite, ops
from .._engine.entry.composite import Ints
from .._engine.graph.history import complain_first
from .._engine.graph.record import apply
from .._engine.graph.views import apply_view
from .._engine.memory.tensor import Tensor
from .._engine.run.trace import Call
from .arguments import only_tensors, unmatched
from .clones import contiguous
from .complex_views import conj


def sizes_of(given: tuple[Any, ...], what: str, name: str = "size") -> tuple[int, ...]:
    """The argument `name`, such as a shape, of a call of the function `what`: ints, or one sequence of them."""
    if not given:
        raise missing_argument(what, name)
    flat = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    for v in flat:
        if v.__class__ is not int:
            break
    else:
        return tuple(flat)
    out = as_ints(flat)
    if out is None:
        bad = next((v for v in flat if as_int(v) is None), flat)
        raise TypeError(f"{what}(): argument must be tuple of ints, but found element of type {type(bad).__name__}")
    return out


# --- view, reshape and relatives ------------------------------------------------------------------


def _retyped(m: Meta, dtype: dtypes.dtype) -> View:
    """The geometry of the same bytes seen as another dtype."""
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
        return View((*m.shape[:-1], m.shape[-1] * k), (*[s * k for s in m.strides[:-1]], 1), 0, dtype)
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
    k = dtype.itemsize // input._m.dtype.itemsize
    if k > 1 and input.storage_offset() % k and input._m.ndim and input._m.strides[-1] == 1:
        _retyped(input._m, dtype)  # sizes and strides that do not fit are named first
        raise RuntimeError(
            f"self.storage_offset() must be divisible by {k} to view {dtypes.scalar_type_name(input._m.dtype)} as "
            f"{dtypes.scalar_type_name(dtype)} (different element sizes), but got {input.storage_offset()}"
        )
    call = _DTYPE_VIEWS.get(dtype)
    if call is None:
        call = _DTYPE_VIEWS[dtype] = Call(
            "view_dtype",
            lambda leaves: leaves[0],
            node_name="ViewBackward1",
            geometry=lambda m, leaves: _retyped(m, dtype),
        )
    from .._engine.graph.record import no_grad

    with no_grad():
        out = apply_view(call, (input,))
    out._al.base = None  # torch does not count it as a view of its source
    return out


@composite(name="view", function=False)
def view(input: Tensor, *size: Any, dtype: Any = None) -> Tensor:
    """The same elements with another shape or another dtype, sharing storage."""
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise unmatched("view")
    if dtype is not None or (len(size) == 1 and isinstance(size[0], dtypes.dtype)):
        return _view_dtype(input, dtype if dtype is not None else size[0])
    if not size:
        raise unmatched("view")
    return ops.view(input, sizes_of(size, "view"))


@composite(function=False)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`view` to another tensor's shape."""
    return ops.view(input, other._m.shape)


def _reshape(input: Tensor, size: tuple[int, ...]) -> Tensor:
    m = input._m
    try:
        shape = shapes.infer_size(size, m.numel)
    except RuntimeError:
        complain_first((input,))
        raise
    if shapes.view_strides(m.shape, m.strides, shape) is not None:
        return ops.view(input, shape) if m.contiguous else ops._reshape_alias(input, shape)
    return ops._unsafe_view(ops.clone_contiguous(input), shape)


@composite
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """A view of another shape where strides allow it, else a copy."""
    return _reshape(input, sizes_of(shape, "reshape", "shape"))


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
    return _reshape(input, (*m.shape[:a], math.prod(m.shape[a : b + 1]), *m.shape[b + 1 :]))


@composite
def ravel(input: Tensor) -> Tensor:
    """A contiguous one-dimensional version."""
    return ops.view(contiguous(input), (-1,)) if input._m.numel else ops.view(contiguous(input), (0,))


@composite
def unflatten(input: Tensor, dim: int, sizes: Ints) -> Tensor:
    """Split one dimension into several."""
    m = input._m
    sizes = sizes_of((sizes,), "unflatten")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    d = shapes.wrap_dim(dim, m.ndim)
    if not m.ndim:
        raise RuntimeError(
            f"unflatten got an unexpected error:\nDimension specified as {d} but tensor has no dimensions"
        )
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
    return ops.expand(input, sizes_of(size, "expand"))


@composite(function=False)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`expand` to another tensor's shape."""
    return ops.expand(input, other._m.shape)


@composite
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """`expand` under its NumPy name."""
    return ops.expand(input, sizes_of(size, "broadcast_to"))


@composite(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    try:
        shape = shapes.broadcast_shapes(*[t._m.shape for t in given])
    except AttributeError:
        only_tensors(given)
        raise
    return tuple(t if t._m.shape == shape else ops.expand(t, shape) for t in given)


@composite(method=False)
def broadcast_shapes(*given: Any) -> shapes.Size:
    """The shape that tensors of these shapes broadcast to."""
    for s in given:
        if not isinstance(s, int | list | tuple):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {s}")
    dims = [(s,) if isinstance(s, int) else tuple(s) for s in given]
    for s in dims:
        for n in s:
            if n < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
    common: list[int] = []
    for k, s in enumerate(dims):
        common[:0] = [1] * (len(s) - len(common))
        for i in range(-len(s), 0):
            if s[i] != 1 and common[i] not in (1, s[i]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {s[i]} at {i}! Mismatching argument at index {k} "
                    f"had {s}; but expected shape should be broadcastable to {common}"
                )
            common[i] = common[i] if s[i] == 1 else s[i]
    return shapes.Size(common)


@composite(method=False)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Drop dimensions of size 1."""
    return _squeezed(input, dim)


def _squeezed(input: Tensor, dim: Any) -> Tensor:
    if dim is None:
        return ops.squeeze_all(input)
    if isinstance(dim, list | tuple):
        return ops.squeeze_dims(input, tuple(dim))
    return ops.squeeze_dim(input, dim)


def _one_or_all(name: str, dims: tuple[Any, ...], dim: Any) -> Any:
    """The dimension, or dimensions, of a method that takes several one by one."""
    if dims and (dim is not None or dims == (None,)):
        raise unmatched(name)
    return dim if not dims else dims[0] if len(dims) == 1 else dims


@composite(name="squeeze", function=False)
def _squeeze(input: Tensor, *dims: Any, dim: Any = None) -> Tensor:
    """Drop dimensions of size 1."""
    return _squeezed(input, _one_or_all("squeeze", dims, dim))


@composite(name="count_nonzero", function=False)
def _count_nonzero(input: Tensor, *dims: Any, dim: Any = None) -> Tensor:
    """Number of nonzero elements."""
    if dims != (None,):  # torch reads None as all dimensions
        dim = _one_or_all("count_nonzero", dims, dim)
    return ops.count_nonzero(input, dim)


@composite(name="squeeze_", function=False)
def squeeze_(input: Tensor, *dims: Any, dim: Any = None) -> Tensor:
    """`squeeze` that changes the tensor itself."""
    dim = _one_or_all("squeeze_", dims, dim)
    if dim is None:
        return ops.squeeze_all_(input)
    if isinstance(dim, list | tuple):
        return ops.squeeze_dims_(input, tuple(dim))
    return ops.squeeze_dim_(input, dim)


@composite(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places, keeping the order of the rest."""
    first, second = as_int(source), as_int(destination)
    if (first is None) != (second is None):
        raise TypeError("movedim(): source and destination must be of one kind")
    src = tuple(source) if first is None else (first,)
    dst = tuple(destination) if second is None else (second,)
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
        return ops.alias(input)
    order: list[int] = [-1] * n
    for s, d in zip(a, b):
        order[d] = s
    rest = iter([d for d in range(n) if d not in a])
    return ops.permute(input, tuple(next(rest) if o < 0 else o for o in order))


@composite
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    if not input._m.ndim:
        warn.once("adjoint() is deprecated on 0-D tensors. Consider using x.conj().")
        return conj(input)
    if input._m.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input._m.ndim}-D tensor."
        )
    return conj(ops.transpose(input, -2, -1))


def _deprecated(name: str, input: Tensor) -> Tensor:
    """A transposing property of a 0-dim tensor: the tensor itself, or its conjugate, with a warning."""
    if name in ("T", "mT"):
        what = "This function is the identity in these cases."
        out = input
    else:
        what, out = "Consider using x.conj().", conj(input)
    warn.once(f"Tensor.{name} is deprecated on 0-D tensors. {what}")
    return out


def transposed(input: Tensor) -> Tensor:
    """`.T`: all dimensions reversed."""
    n = input._m.ndim
    if not n:
        _deprecated("T", input)
    elif n != 2:
        warn.once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it "
            "will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return ops.permute(input, tuple(range(n - 1, -1, -1)))


def matrix_transposed(input: Tensor) -> Tensor:
    """`.mT`: the last two dimensions swapped."""
    if not input._m.ndim:
        return _deprecated("mT", input)
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
            + (" For batches of matrices, consider using tensor.mH" if n > 2 else "")
        )
    return adjoint(input) if n else _deprecated("H", input)


def matrix_hermitian(input: Tensor) -> Tensor:
    """`.mH`: `adjoint`."""
    if not input._m.ndim:
        return _deprecated("mH", input)
    if input._m.ndim < 2:
        raise RuntimeError(
            f"tensor.mH is only supported on matrices or batches of matrices. Got {input._m.ndim}-D tensor."
        )
    return adjoint(input)


# --- rearranging ----------------------------------------------------------------------------------


@CALLS.memo()
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
        "rot90",
        lambda leaves: jnp.rot90(leaves[0], k, (a, b)),
        node_name="Rot90Backward0",
        argnames=("self",),
        layout=strides,
        any_size=True,
    )


@composite
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The tensor turned by `k` quarters in the plane of two dimensions."""
    m, plane = input._m, sizes_of((dims,), "rot90")
    complain_first((input,))
    if len(plane) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(plane)}")
    if m.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {m.ndim}")
    a, b = (shapes.wrap_dim(d, m.ndim) for d in plane)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}")
    quarters = as_int(k)
    assert quarters is not None  # anything but a number was refused before
    return apply(_rotation(quarters % 4, a, b), (input,))


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
    reps = sizes_of(dims, "tile", "dims")
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
    shape = sizes_of(size, "sum_to_size")
    have = input._m.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, have[i + lead]) for i, n in enumerate(shape)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.")
    dims = [*range(lead), *[i + lead for i, n in enumerate(shape) if n == 1 and have[i + lead] != 1]]
    if not shape:
        return ops.sum(input)
    out = ops.sum(input, tuple(dims), True) if dims else input
    return ops.view(out, shape) if lead else out
