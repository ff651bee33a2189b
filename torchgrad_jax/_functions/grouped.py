"""Products of several pairs of matrices at once, of sizes that offsets say."""

from __future__ import annotations

import functools
from typing import Any

from .._core.arrays import dtypes
from .._core.arrays.dtypes import scalar_type_name
from .._engine.entry.bind import composite, ops
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .splitting import narrow

_functional = functools.partial(composite, method=False, namespace="nn.functional")
_TAKEN = (dtypes.float32, dtypes.bfloat16, dtypes.float16)


@_functional()
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups of rows, columns or summands of two matrices, or of matrices one by one.

    Args:
        mat_a: a stack of matrices, or one whose rows (with a stack) or columns (with a matrix) are in groups.
        mat_b: likewise, with columns in the place of rows.
        offs: where each group ends, int32; read at once.
        bias: None.
        out_dtype: the dtype of `mat_a`.
    """
    for name, x in (("mat_a", mat_a), ("mat_b", mat_b)):
        if x._m.dtype not in _TAKEN:
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {scalar_type_name(x._m.dtype)}"
            )
    for name, x in (("mat_a", mat_a), ("mat_b", mat_b)):
        if x._m.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    flat_a, flat_b = mat_a._m.ndim == 2, mat_b._m.ndim == 2
    if not (flat_a and flat_b) and mat_a._m.shape[-1] != mat_b._m.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    for x in (mat_a, mat_b):
        _check_strides(x)
    if (offs is not None) != (flat_a or flat_b):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not mat_a._m.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        if mat_a._m.shape[0] != mat_b._m.shape[0]:
            raise RuntimeError("batched dimension has to match")
        return ops.bmm(mat_a, mat_b)
    if offs._m.dtype is not dtypes.int32:
        raise RuntimeError("Offsets have to be int32")
    stacked = mat_b if flat_a else mat_a
    if stacked._m.ndim == 3 and stacked._m.shape[0] != offs._m.shape[0]:
        raise RuntimeError("matrix batch sizes have to match")
    return _by_groups(mat_a, mat_b, [int(n) for n in concrete(offs)])


def _check_strides(x: Tensor) -> None:
    """Rows or columns lie in memory without gaps, and begin at multiples of 16 bytes."""
    strides, sizes = x._m.strides, x._m.shape
    for inner, outer in ((-2, -1), (-1, -2)):
        if strides[inner] == 1 and strides[outer] >= max(1, sizes[inner]):
            if strides[outer] * x._m.dtype.itemsize % 16:
                raise RuntimeError("strides should be multiple of 16 bytes")
            return
    raise RuntimeError(f"Invalid strides/sizes, got {list(strides)} for strides and {list(sizes)} for sizes")


def _by_groups(a: Tensor, b: Tensor, ends: list[int]) -> Tensor:
    spans = list(zip([0, *ends[:-1]], ends))
    if a._m.ndim == 2 and b._m.ndim == 2:  # the summed dimension is in groups
        return ops.stack([ops.mm(_cut(a, 1, *s), _cut(b, 0, *s)) for s in spans])
    if a._m.ndim == 2:
        parts = [ops.mm(_cut(a, 0, *s), ops.select(b, 0, i)) for i, s in enumerate(spans)]
        rest, dim = a._m.shape[0] - ends[-1], 0
    else:
        parts = [ops.mm(ops.select(a, 0, i), _cut(b, 1, *s)) for i, s in enumerate(spans)]
        rest, dim = b._m.shape[1] - ends[-1], 1
    if rest > 0:  # these rows belong to no group, and torch does not write them
        shape = (rest, b._m.shape[2]) if dim == 0 else (a._m.shape[1], rest)
        parts.append(a.new_zeros(shape))
    return ops.cat(parts, dim)


@composite(method=False)
def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """`nn.functional.grouped_mm`."""
    return grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def _cut(x: Tensor, dim: int, start: int, end: int) -> Tensor:
    return narrow(x, dim, start, end - start)


@_functional()
def scaled_mm(mat_a: Tensor, mat_b: Tensor, *args: Any, **options: Any) -> Tensor:
    """Refused: products of scaled matrices of float8.

    Raises:
        NotImplementedError: always.
    """
    raise _refused("scaled_mm")


@_functional()
def scaled_grouped_mm(mat_a: Tensor, mat_b: Tensor, *args: Any, **options: Any) -> Tensor:
    """Refused, as `scaled_mm`.

    Raises:
        NotImplementedError: always.
    """
    raise _refused("scaled_grouped_mm")


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(f"torch.nn.functional.{name} is not supported: scale and multiply in a wider dtype")
