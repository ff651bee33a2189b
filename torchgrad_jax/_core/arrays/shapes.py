"""Dimension wrapping, broadcasting, strides: plain integers in, plain integers out."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

from ..errors import messages as errors

Shape = tuple[int, ...]


def wrap_dim(dim: int, ndim: int, *, scalar: bool = True) -> int:
    """A dimension counted from 0, also if it was given as a negative one; a 0-dim tensor has dimensions 0 and -1."""
    n = max(ndim, 1) if scalar else ndim
    if not -n <= dim < n:
        if ndim == 0 and not scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise IndexError(errors.dim_out_of_range(dim, ndim))
    return dim + n if dim < 0 else dim


def wrap_dims(dims: Iterable[int] | int | None, ndim: int) -> Shape:
    """Wrapped reduction dimensions; None and an empty list mean all of them."""
    if dims is None:
        return tuple(range(ndim))
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if not dims:
        return tuple(range(ndim))
    out = tuple(wrap_dim(d, ndim) for d in dims)
    if len(set(out)) != len(out):
        twice = next(d for d in out if out.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return out if ndim else ()


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The common shape under broadcasting, with torch's complaint where there is none."""
    out: Shape = ()
    for shape in shapes:
        n = max(len(out), len(shape))
        a = (1,) * (n - len(out)) + tuple(out)
        b = (1,) * (n - len(shape)) + tuple(shape)
        if any(x != y and x != 1 and y != 1 for x, y in zip(a, b)):
            raise RuntimeError(errors.not_broadcastable(out, shape))
        out = tuple(y if x == 1 else x for x, y in zip(a, b))
    return out


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides as torch numbers them (size-0 dimensions count as 1)."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Row-major and dense; dimensions of size 1 do not matter, empty tensors always are."""
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def channels_innermost(ndim: int) -> Shape:
    """The dimensions of an image whose channels lie side by side, from the innermost outwards."""
    return (1, *range(ndim - 1, 1, -1), 0)


def strides_by(order: Sequence[int], shape: Sequence[int]) -> Shape:
    """Strides of a dense tensor whose dimensions lie in this order, the innermost first."""
    strides, step = [0] * len(shape), 1
    for d in order:
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def is_dense_by(order: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether a tensor is dense in this order; dimensions of size 1 do not matter."""
    expected = 1
    for d in order:
        if shape[d] != 1:
            if strides[d] != expected:
                return False
            expected *= shape[d]
    return True


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Non-overlapping and dense: some permutation of the dimensions is contiguous."""
    if len(shape) == 1:
        return shape[0] < 2 or strides[0] == 1
    if 0 in shape:
        return True
    dims = sorted((s, n) for n, s in zip(shape, strides) if n != 1)
    expected = 1
    for stride, size in dims:
        if stride != expected:
            return False
        expected *= size
    return True


def has_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether torch refuses to write: a stride of 0 over more than one element."""
    return any(n > 1 and s == 0 for n, s in zip(shape, strides)) and 0 not in shape


def storage_extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements of storage that a strided tensor spans from its offset on."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides))


LARGEST = 2**63 - 1
"""More bytes or elements no tensor has: they are counted in 64 bits."""


def check_numel(shape: Sequence[int]) -> None:
    """Refuse a shape of more elements than can be counted; zeros count from where they stand, as in torch."""
    numel = 1
    for n in shape:
        numel *= n
        if numel > LARGEST:
            raise RuntimeError("numel: integer multiplication overflow")


def check_bytes(shape: Sequence[int], strides: Sequence[int] | None, extent: int, itemsize: int) -> None:
    """Refuse a tensor of more bytes than can be counted; `strides` are None for a contiguous one."""
    counted = shape[: shape.index(0)] if 0 in shape and strides is None else ()
    if max(extent, math.prod(counted) if counted else 0) * itemsize > LARGEST:
        strided = "" if strides is None else f" and strides={list(strides)}"
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}{strided}")


def infer_size(shape: Sequence[int], numel: int) -> Shape:
    """Resolve a single -1 in a requested shape."""
    shape = tuple(shape)
    bad = [s for s in shape if s < -1]
    if bad:
        raise RuntimeError(f"invalid shape dimension {bad[0]} at index {shape.index(bad[0])} of shape {list(shape)}")
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if -1 not in shape:
        if math.prod(shape) != numel:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
        return shape
    known = math.prod(s for s in shape if s != -1)
    if known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    if known == 0 or numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if s == -1 else s for s in shape)


def view_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> Shape | None:
    """Strides that make `new` a view of (shape, strides), or None when a copy is needed."""
    numel = math.prod(shape)
    if numel == 0:
        return tuple(strides) if tuple(shape) == tuple(new) else contiguous_strides(new)
    if not shape:
        return (1,) * len(new)
    out = [0] * len(new)
    view_d = len(new) - 1
    chunk_base = strides[-1]
    tensor_numel = view_numel = 1
    for d in range(len(shape) - 1, -1, -1):
        tensor_numel *= shape[d]
        ends = d == 0 or (shape[d - 1] != 1 and strides[d - 1] != tensor_numel * chunk_base)
        if not ends:
            continue
        while view_d >= 0 and (view_numel < tensor_numel or new[view_d] == 1):
            out[view_d] = view_numel * chunk_base
            view_numel *= new[view_d]
            view_d -= 1
        if view_numel != tensor_numel:
            return None
        if d > 0:
            chunk_base = strides[d - 1]
            tensor_numel = view_numel = 1
    return tuple(out) if view_d == -1 else None


def expand_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> Shape:
    """The strides of a view that repeats what it shows along new dimensions, and along those of one element."""
    lead = len(new) - len(shape)
    if not shape:
        return (0,) * len(new)
    out: list[int] = []
    for i in range(len(new) - 1, -1, -1):
        if i >= lead:
            out.append(strides[i - lead] if shape[i - lead] == new[i] else 0)
        else:
            out.append(0 if new[i] != 1 else (new[i + 1] * out[-1] if out else 1))
    return tuple(reversed(out))


def preserve_strides(shape: Sequence[int], strides: Sequence[int]) -> Shape:
    """Strides of `empty_like`: kept when dense, else dense in the same order of dimensions."""
    if is_dense(shape, strides):
        return tuple(strides)
    return elementwise_strides(shape, [(tuple(shape), tuple(strides))])


def elementwise_strides(out_shape: Sequence[int], operands: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Shape:
    """Strides of the output that torch's TensorIterator would allocate.

    All operands contiguous, all images with channels last, or all equally dense: copy that.
    Otherwise dimensions are ordered by the operands' strides, first operand first, and the output
    is dense in that order.
    """
    ndim = len(out_shape)
    full = [o for o in operands if tuple(o[0]) == tuple(out_shape)]
    if ndim == 0:
        return ()
    if len(full) == len(operands):
        if all(is_contiguous(*o) for o in full):
            return contiguous_strides(out_shape)
        images = channels_innermost(ndim)
        if ndim == 4 and all(is_dense_by(images, *o) for o in full):
            return strides_by(images, out_shape)
        first = tuple(full[0][1])
        if is_dense(*full[0]) and all(tuple(o[1]) == first for o in full):
            return first
    aligned = []
    for shape, strides in operands:
        pad = ndim - len(shape)
        aligned.append(
            [0] * pad + [0 if n == 1 and out_shape[pad + i] != 1 else s for i, (n, s) in enumerate(zip(shape, strides))]
        )

    def compare(dim0: int, dim1: int) -> int:
        for strides in aligned:
            a, b = strides[dim0], strides[dim1]
            if a == 0 or b == 0:
                continue
            if a != b:
                return -1 if a < b else 1
            if out_shape[dim0] > out_shape[dim1]:
                return 1
        return 0

    perm = list(range(ndim - 1, -1, -1))  # innermost first
    for i in range(1, ndim):
        dim1 = i
        for dim0 in range(i - 1, -1, -1):
            order = compare(perm[dim0], perm[dim1])
            if order > 0:
                perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
                dim1 = dim0
            elif order < 0:
                break
    if perm == list(range(ndim - 1, -1, -1)):
        return contiguous_strides(out_shape)
    out, step = [0] * ndim, 1
    for dim in perm:  # here torch gives strides of 0 to dimensions outside of an empty one
        out[dim] = step
        step *= out_shape[dim]
    return tuple(out)


class Size(tuple[int, ...]):
    """A shape as users see it.

    Example:
        >>> Size([2, 3]).numel()
        6
    """

    __slots__ = ()

    def __new__(cls, iterable: Iterable[object] = (), /) -> Size:
        values = tuple(iterable)
        if not all(type(v) is int for v in values):
            values = tuple(_size_at(i, v) for i, v in enumerate(values))
        return tuple.__new__(cls, values)

    def numel(self) -> int:
        """The product of the sizes."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: object) -> object:
        found = tuple.__getitem__(self, index)  # type: ignore[index]
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: object) -> Size:
        if not isinstance(other, tuple):
            kind = type(other).__name__
            raise TypeError(f"can only concatenate tuple (not {kind}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: object) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, n: object) -> Size:
        return Size(tuple.__mul__(self, n))  # type: ignore[operator]

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[object, ...]:
        return (_size, (tuple(self),))


def _size(values: Shape) -> Size:
    """Pickles call this function. They would look for `Size` under torch's name, where torch may not be installed."""
    return Size(values)


def _size_at(i: int, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {i} is '{type(value).__name__}')") from None


Size.__module__ = "torch"
