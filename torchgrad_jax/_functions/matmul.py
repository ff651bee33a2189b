"""Products that torch composes of mm, bmm, mv and dot: matmul, tensordot and their kin."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._core.arrays import dtypes, shapes
from .._core.arrays.dtypes import FLOATING, scalar_type_name
from .._core.arrays.kernels import cpp_name
from .._core.errors import warn
from .._core.state import GRAD, MODES, WINDOWS
from .._engine.entry.arguments import real as _real, type_name
from .._engine.entry.bind import METHODS, NAMESPACES, OPERATORS, composite, ops
from .._engine.entry.out import store_out
from .._engine.graph.history import check_inplace, rebase_history, requires_grad_of
from .._engine.graph.resize import resize
from .._engine.memory.strided import read, write
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import tensor_of_jax
from .._ops.registry import Out
from .clones import contiguous
from .complex_views import conj, imag, real
from .joining import meshgrid
from .shape import flatten, reshape, squeeze


def public_product(name: str, *tensors: Tensor) -> Tensor:
    """The public product of that name, since autocast also casts products inside of other functions."""
    return NAMESPACES[""][name](*tensors)


# --- matmul ---------------------------------------------------------------------------------------


def _folds(large: Tensor, small: Tensor, swapped: bool) -> bool:
    """Return whether torch makes one matrix of a batch, because no copy is needed or backward would expand."""
    if large._m.ndim < 3 or small._m.ndim > 2:
        return False
    if requires_grad_of(small) or large._m.numel == 0:
        return True
    shape, strides = large._m.shape, large._m.strides
    if swapped:  # the batch is the right operand, so its transpose is folded
        shape, strides = ((*x[:-2], x[-1], x[-2]) for x in (shape, strides))
    return all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(len(shape) - 2))


def _fold(a: Tensor, b: Tensor) -> Tensor:
    """matmul of a batch and a matrix or vector as one mm or mv."""
    swapped = b._m.ndim > a._m.ndim
    if swapped:
        a, b = ops.transpose(b, -2, -1), (ops.t(a) if a._m.ndim == 2 else a)
    sizes = a._m.shape
    rows = reshape(a, (math.prod(sizes[:-1]), sizes[-1]))
    if b._m.ndim == 1:
        return ops._unsafe_view(ops.mv(rows, b), sizes[:-1])
    out = ops._unsafe_view(ops.mm(rows, b), (*sizes[:-1], b._m.shape[1]))
    return contiguous(ops.transpose(out, -2, -1)) if swapped else out


def _batched(a: Tensor, b: Tensor) -> Tensor:
    """matmul with broadcast batches as one bmm."""
    (sa, sb), (na, nb) = (a._m.shape, b._m.shape), (a._m.ndim, b._m.ndim)
    if na == nb == 3 and sa[0] != sb[0]:
        if sa[0] == 1 and requires_grad_of(a):
            return matmul(ops.squeeze_dim(a, 0), b)
        if sb[0] == 1 and requires_grad_of(b):
            return matmul(a, ops.squeeze_dim(b, 0))
    n, m1 = (sa[-2] if na > 1 else 1), sa[-1]
    m2, p = (sb[-2], sb[-1]) if nb > 1 else (sb[-1], 1)
    batch = shapes.broadcast_shapes(sa[:-2], sb[:-2])
    count = math.prod(batch)
    left = reshape(ops.expand(a, (*batch, n, m1)), (count, n, m1))
    column = ops.unsqueeze(b, 1) if nb == 1 else b
    right = reshape(ops.expand(column, (*batch, m2, p)), (count, m2, p))
    out = ops.bmm(left, right)
    shape = (*batch, n) if na > 1 else batch
    if nb == 1:
        return ops._unsafe_view(ops.squeeze_dim(out, -1), shape)
    return ops._unsafe_view(out, (*shape, p))


@composite(out=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product with torch's rules for vectors and batches."""
    n, k = input._m.ndim, other._m.ndim
    if n == 2 and k == 2:
        return ops.mm(input, other)
    if n == 0 or k == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {n}D and {k}D")
    if n == 1 and k == 1:
        return ops.dot(input, other)
    if n == 2 and k == 1:
        return ops.mv(input, other)
    if n == 1 and k == 2:
        out = ops.squeeze_matmul(ops.mm(ops.unsqueeze(input, 0), other), 0)
        out._vc.version += 1  # torch squeezes the product in place
        return out
    if _folds(input, other, False) if n >= k else _folds(other, input, True):
        return _fold(input, other)
    return _batched(input, other)


def _operator(self: Tensor, other: Any) -> Tensor:
    other = tensor_of_jax(other, self) if isinstance(other, jax.Array) else other
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


def _reflected(self: Tensor, other: Any) -> Tensor:
    other = tensor_of_jax(other, self) if isinstance(other, jax.Array) else other
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


OPERATORS["__matmul__"] = _operator
OPERATORS["__rmatmul__"] = _reflected


@composite(name="matmul", namespace="linalg", method=False, out=True)
def _linalg_matmul(input: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul` under its other name."""
    return matmul(input, other)


# --- outer, inner, kron, tensordot ------------------------------------------------------------------


def _require_vector(name: str, t: Tensor) -> None:
    if t._m.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {t._m.ndim}-D")


# Of the products that are added in place only torch's addbmm_ enlarges a smaller tensor to the size of
# the result.
_addbmm_in_place = METHODS["addbmm_"]


def addbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """`addbmm` in place; a tensor that has to be broadcast grows."""
    shapes_known = isinstance(batch1, Tensor) and isinstance(batch2, Tensor)
    if not shapes_known or batch1._m.ndim != 3 or batch2._m.ndim != 3 or MODES.bits & ~WINDOWS > GRAD:
        return _addbmm_in_place(self, batch1, batch2, beta=beta, alpha=alpha)
    size = (batch1._m.shape[1], batch2._m.shape[2])
    if self._m.shape == size:
        return _addbmm_in_place(self, batch1, batch2, beta=beta, alpha=alpha)
    records = MODES.bits & GRAD and any(map(requires_grad_of, (self, batch1, batch2)))
    if records:
        check_inplace(self)
        if self._al is not None:
            raise NotImplementedError("addbmm_: a view cannot grow where a gradient is recorded")
    result = ops.addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    resize(self, size)
    write(self, read(result))
    if result._fn is not None:
        rebase_history(self, result._fn)
    return self


functools.update_wrapper(addbmm_, _addbmm_in_place)
METHODS["addbmm_"] = addbmm_


@composite(aliases=("ger",), out=Out.CAST)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of one vector and one of another."""
    _require_vector("self", input)
    _require_vector("vec2", vec2)
    return ops.mul(ops.view(input, (input._m.numel, 1)), vec2)


def _same_dtype(a: Tensor, b: Tensor) -> None:
    if a._m.dtype is not b._m.dtype:
        raise RuntimeError("both inputs should have same dtype")


@composite
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimensions."""
    if input._m.ndim == 0 or other._m.ndim == 0:
        return ops.mul(input, other) if out is None else ops.mul(input, other, out=out)
    _same_dtype(input, other)
    if input._m.shape[-1] != other._m.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input._m.shape)} and {list(other._m.shape)}"
        )
    result = _tensordot(input, other, (input._m.ndim - 1,), (other._m.ndim - 1,))
    return result if out is None else store_out(out, result)


def _tensordot(a: Tensor, b: Tensor, dims_a: tuple[int, ...], dims_b: tuple[int, ...]) -> Tensor:
    if len(dims_a) != len(dims_b):
        raise RuntimeError("both dimension lists should have same length")
    _same_dtype(a, b)
    count = 1
    for i, j in zip(dims_a, dims_b):
        n, k = a._m.shape[i], b._m.shape[j]
        if k == 1:  # a dimension of size 1 broadcasts: sum the other side first
            a = ops.sum(a, i, True, dtype=a._m.dtype)
        elif n == 1:
            b = ops.sum(b, j, True, dtype=b._m.dtype)
        elif n != k:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {i} and second has size "
                f"{k} in dim {j}"
            )
        else:
            count *= n
    free_a = [i for i in range(a._m.ndim) if i not in dims_a]
    free_b = [j for j in range(b._m.ndim) if j not in dims_b]
    if len(free_a) + len(dims_a) != a._m.ndim or len(free_b) + len(dims_b) != b._m.ndim:
        dims = dims_a if len(set(dims_a)) < len(dims_a) else dims_b
        twice = next(d for d in dims if list(dims).count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    sizes = [a._m.shape[i] for i in free_a] + [b._m.shape[j] for j in free_b]
    rows = math.prod(a._m.shape[i] for i in free_a)
    cols = math.prod(b._m.shape[j] for j in free_b)
    left = ops.permute(a, (*free_a, *dims_a))
    if rows == cols == 1:
        right = ops.permute(b, (*dims_b, *free_b))
        if not (left._m.contiguous and right._m.contiguous):
            right = ops.squeeze_all(right)  # torch squeezes this one first
            product = ops.mul(ops.squeeze_all(left), right)
            return reshape(ops.sum(product, dtype=product._m.dtype), tuple(sizes))
        right = right if right._m.ndim == 1 else reshape(right, (count,))
        left = left if left._m.ndim == 1 else reshape(left, (count,))
        return reshape(ops.dot(left, right), tuple(sizes))
    left = reshape(left, (rows, count))
    right = reshape(ops.permute(b, (*dims_b, *free_b)), (count, cols))
    return reshape(public_product("mm", left, right), tuple(sizes))


def _contraction(dims: Any, na: int, nb: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The two lists of dimensions that `dims` stands for."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(na, nb):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return tuple(range(na - dims, na)), tuple(range(dims))
    if not isinstance(dims, list | tuple):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims}"
        )
    first, second = dims
    for name, given, at in (("self", first, 3), ("other", second, 4)):
        if not isinstance(given, list | tuple):
            raise TypeError(
                f"tensordot(): argument 'dims_{name}' (position {at}) must be tuple of ints, not {type_name(given)}"
            )
    return tuple(first), tuple(second)


def _number_or_lists(dims: Any) -> Any:
    """`dims` of tensordot without tensors."""
    if not isinstance(dims, Tensor):
        return dims
    if dims._m.numel <= 1:
        return int(dims.item())
    if dims._m.shape[0] != 2:
        raise AssertionError(f"dims tensor must have size 2 in first dimension, got {dims._m.shape[0]}")
    return dims.tolist()


@composite(method=False)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Contract several dimensions of two tensors."""
    dims = _number_or_lists(dims)
    first, second = _contraction(dims, a._m.ndim, b._m.ndim)
    if isinstance(dims, int) and dims:
        for i, j in zip(first, second):
            if a._m.shape[i] != b._m.shape[j] and 1 not in (a._m.shape[i], b._m.shape[j]):
                raise RuntimeError(
                    f"contracted dimensions need to match, but first has size {a._m.shape[i]} in dim "
                    f"{i - a._m.ndim} and second has size {b._m.shape[j]} in dim {j}"
                )
    first = tuple(shapes.wrap_dim(d, a._m.ndim) for d in first)
    second = tuple(shapes.wrap_dim(d, b._m.ndim) for d in second)
    result = _tensordot(a, b, first, second)
    return result if out is None else store_out(out, result)


@composite(out=Out.CAST)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    n = max(input._m.ndim, other._m.ndim)
    sa = (1,) * (n - input._m.ndim) + input._m.shape
    sb = (1,) * (n - other._m.ndim) + other._m.shape
    left = ops._unsafe_view(input, tuple(s for pair in zip(sa, (1,) * n) for s in pair))
    right = ops._unsafe_view(other, tuple(s for pair in zip((1,) * n, sb) for s in pair))
    return ops._unsafe_view(ops.mul(left, right), tuple(x * y for x, y in zip(sa, sb)))


# --- chains -----------------------------------------------------------------------------------------


def _best_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each stretch of a matrix chain for the fewest multiplications."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i, j], split[i, j] = min(options)
    return split


@composite(namespace="linalg", method=False, out=True)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices in the cheapest order."""
    given = list(tensors)
    n = len(given)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    last = n - 1
    for place, t in ((0, given[0]), (last, given[-1])):
        if not 1 <= t._m.ndim <= 2:
            raise RuntimeError(
                f"multi_dot(): the {'last' if place else 'first'} tensor must be 1D or 2D but got {t._m.ndim}D"
            )
    shape = [*given[0]._m.shape[:-1], *(given[-1]._m.shape[1:])]
    chain = list(given)
    if chain[0]._m.ndim == 1:
        chain[0] = ops.unsqueeze(chain[0], 0)
    if chain[-1]._m.ndim == 1:
        chain[-1] = ops.unsqueeze(chain[-1], -1)
    for i, t in enumerate(chain):
        if t._m.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t._m.ndim}D")
        if t._m.dtype is not given[0]._m.dtype:
            names = [_cpp(x._m.dtype) for x in (given[0], t)]
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {names[0]} "
                f"and tensor {i} {names[1]}"
            )
        if i and chain[i - 1]._m.shape[1] != t._m.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(given[i - 1]._m.shape)} and "
                f"{list(given[i]._m.shape)} cannot be multiplied"
            )
    split = _best_order([chain[0]._m.shape[0], *[t._m.shape[1] for t in chain]])

    if n == 3:  # torch prefers (A B) C when both orders cost the same
        (a, b), (c, d) = chain[0]._m.shape, chain[2]._m.shape
        split[0, 2] = 1 if a * b * c + a * c * d <= b * c * d + a * b * d else 0

    def multiply(i: int, j: int) -> Tensor:
        return chain[i] if i == j else ops.mm(multiply(i, split[i, j]), multiply(split[i, j] + 1, j))

    return ops.view(multiply(0, last), tuple(shape))


def _cpp(dtype: dtypes.dtype) -> str:
    return cpp_name(np.empty(0, dtype.np))


@composite(method=False)
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices (deprecated name of `linalg.multi_dot`)."""
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    warn.to_user(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    result = matrices[0] if len(matrices) == 1 else multi_dot(list(matrices))
    return result if out is None else store_out(out, result)


# --- others -----------------------------------------------------------------------------------------


@composite(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of elements of several vectors, one per row."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    for t in given:
        if t._m.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t._m.shape)}")
    if len(given) == 1:
        return given[0]
    return ops.stack([flatten(t) for t in meshgrid(*given, indexing="ij")], 1)


@composite
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross products; without `dim`, along the first dimension of size 3."""
    if dim is None:
        warn.once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross "
            "in a future release."
        )
        dim = next((d for d, n in enumerate(input._m.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    result = ops.linalg_cross(input, other, dim=dim)
    return result if out is None else store_out(out, result)


def _weights(name: str, w: Tensor, n: int, integral: bool) -> Tensor:
    if w._m.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w._m.ndim} dimensions"
        )
    if (w._m.dtype.category < FLOATING) != integral or w._m.dtype.category == dtypes.BOOL:
        kind = "integral" if integral else "floating point"
        got = scalar_type_name(w._m.dtype)
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {got} dtype")
    if w._m.numel != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{w._m.numel} != {n}"
        )
    values = np.asarray(w.detach())
    if values.size and values.min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")
    return w


@composite
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix of variables (rows) from observations (columns)."""
    if input._m.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input._m.ndim} dimensions"
        )
    if input._m.dtype.category == dtypes.BOOL:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = ops.view(input, (1, -1)) if input._m.ndim < 2 and input._m.numel else input
    if input._m.ndim < 2 and not input._m.numel:
        x = ops.view(input, (1, 0))
    n = x._m.shape[1]
    w = None if fweights is None else _weights("fweights", fweights, n, True)
    if aweights is not None:
        aw = _weights("aweights", aweights, n, False)
        w = aw if w is None else ops.mul(w, aw)
    total = n if w is None else ops.sum(w)
    mean = _div(ops.sum(x if w is None else ops.mul(x, w), 1), total)
    if w is None or aweights is None or correction == 0:
        norm = ops.sub(total, correction) if isinstance(total, Tensor) else total - correction
    else:
        spread = _div(ops.mul(ops.sum(ops.mul(w, aweights)), correction), total)
        norm = ops.sub(total, spread)
    if not isinstance(norm, Tensor):
        norm = max(norm, 0)
        if norm <= 0:
            warn.to_user(
                "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
            )
    x = ops.sub(x, ops.unsqueeze(mean, 1))
    y = ops.t(x if w is None else ops.mul(x, w))
    return squeeze(_div(public_product("mm", x, conj(y)), norm))


def _div(x: Tensor, y: Any) -> Tensor:
    return ops.true_divide(x, y)


@composite
def corrcoef(input: Tensor) -> Tensor:
    """The matrix of Pearson correlation coefficients of variables (rows)."""
    if input._m.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input._m.ndim} dimensions"
        )
    c = cov(input)
    if c._m.ndim == 0:
        return _div(c, c)
    variance = ops.diagonal(c)
    spread = ops.sqrt(real(variance) if c._m.dtype.is_complex else variance)
    n = spread._m.shape[0]
    c = _div(_div(c, ops.view(spread, (n, 1))), ops.view(spread, (1, n)))
    if not c._m.dtype.is_complex:
        return ops.clamp(c, -1, 1)
    return ops.complex(ops.clamp(real(c), -1, 1), ops.clamp(imag(c), -1, 1))


_MODES = {"use_mm_for_euclid_dist_if_necessary": 0, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}


@composite(method=False)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Distances between every row of `x1` and every row of `x2`, batch by batch."""
    p = _real("cdist", "p", p, 3)
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for i, x in enumerate((x1, x2), 1):
        if not x._m.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{i} got: {scalar_type_name(x._m.dtype)}")
    for i, x in enumerate((x1, x2), 1):
        if x._m.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{i} got: {x._m.ndim}D")
    if x1._m.shape[-1] != x2._m.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1._m.shape[-1]} X2: {x2._m.shape[-1]}"
        )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    (r1, columns), r2 = x1._m.shape[-2:], x2._m.shape[-2]
    batch = shapes.broadcast_shapes(x1._m.shape[:-2], x2._m.shape[:-2])
    mode, count = _MODES[compute_mode], math.prod(batch)
    if p != 2 or mode == 2 or (mode == 0 and r1 <= 25 and r2 <= 25) or 0 in (r1, r2, columns, count):
        return ops._cdist_forward(x1, x2, float(p), mode)

    def rows(x: Tensor, r: int) -> Tensor:
        if x._m.ndim == 2 and not batch:
            return x
        return ops.view(contiguous(ops.expand(x, (*batch, r, columns))), (count, r, columns))

    return ops.view(ops._euclidean_dist(rows(x1, r1), rows(x2, r2)), (*batch, r1, r2))


@composite(namespace="linalg", method=False, out=True)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Dot products of vectors along `dim`, the first conjugated."""
    if x._m.dtype is not y._m.dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{scalar_type_name(x._m.dtype)} and y of type {scalar_type_name(y._m.dtype)} instead"
        )
    if x._m.dtype.category < FLOATING:
        name = scalar_type_name(x._m.dtype)
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {name}")
    if x._m.ndim == 1 and y._m.ndim == 1:
        return ops.vdot(x, y)
    return ops.sum(ops.mul(conj(x), y), dim)


NAMESPACES.setdefault("nn.functional", {})["pdist"] = NAMESPACES[""]["pdist"]
