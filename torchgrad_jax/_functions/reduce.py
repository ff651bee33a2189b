"""Reductions with several overloads, norms, quantiles and differences."""

from __future__ import annotations

import math
from typing import Any

from .._core.arrays import dtypes, shapes
from .._core.errors import warn
from .._engine.entry.arguments import LEFT_OUT, MISSING, as_int
from .._engine.entry.bind import METHODS, NAMESPACES, composite, ops
from .._engine.graph.history import complain_first
from .._engine.memory.tensor import Tensor
from .._ops.registry import Out
from .arguments import unmatched
from .pointwise import div
from .splitting import slice_along

# --- max, min and medians: whole tensor, along a dimension, or elementwise ------------------------


def _overloaded(name: str, whole: Any, along: Any, pair: Any, input: Tensor, dim: Any, keepdim: Any, other: Any) -> Any:
    """Tell ``f(x)``, ``f(x, dim, keepdim)`` and ``f(x, other)`` apart as torch does."""
    if pair is not None and other is None and isinstance(dim, Tensor):
        dim, other = MISSING, dim
    if other is not None:
        if pair is not None and dim is MISSING and keepdim is None:
            return pair(input, other)
    elif dim is MISSING and keepdim is None:
        return whole(input)
    elif as_int(dim) is not None and (keepdim is None or isinstance(keepdim, bool)):
        return along(input, as_int(dim), bool(keepdim))
    raise unmatched(name)


@composite(out=Out.CAST)
def max(input: Tensor, dim: Any = MISSING, keepdim: Any = None, *, other: Any = None) -> Any:
    """The largest element; along a dimension with indices; or of two tensors elementwise."""
    return _overloaded("max", ops.max_full, ops.max_dim, ops.maximum, input, dim, keepdim, other)


@composite(out=Out.CAST)
def min(input: Tensor, dim: Any = MISSING, keepdim: Any = None, *, other: Any = None) -> Any:
    """The smallest element; along a dimension with indices; or of two tensors elementwise."""
    return _overloaded("min", ops.min_full, ops.min_dim, ops.minimum, input, dim, keepdim, other)


@composite(out=Out.CAST)
def median(input: Tensor, dim: Any = MISSING, keepdim: Any = None) -> Any:
    """The lower median of all elements, or along a dimension with indices."""
    return _overloaded("median", ops.median_full, ops.median_dim, None, input, dim, keepdim, None)


@composite(out=Out.CAST)
def nanmedian(input: Tensor, dim: Any = MISSING, keepdim: Any = None) -> Any:
    """The lower median of the elements that are not NaN, or along a dimension with indices."""
    return _overloaded("nanmedian", ops.nanmedian_full, ops.nanmedian_dim, None, input, dim, keepdim, None)


# --- moments --------------------------------------------------------------------------------------


def _moment(name: str, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> Any:
    if dim is MISSING and unbiased is not None and keepdim:
        raise unmatched(name)
    if isinstance(dim, bool):  # std(x, unbiased)
        dim, unbiased = None, dim
    dim = None if dim is MISSING else dim
    if unbiased is not None:
        if not isinstance(unbiased, bool) or correction is not None:
            raise unmatched(name)
        correction = int(unbiased)
    if input._m.dtype.category < dtypes.FLOATING:
        which = name if name.endswith("_mean") else "std and var"
        raise RuntimeError(f"{which} only support floating point and complex dtypes")
    shape = input._m.shape
    if (single := as_int(dim)) is not None:
        dim = single
    try:
        dims = shapes.wrap_dims(dim, len(shape))
    except IndexError:
        complain_first((input,))
        raise
    results = math.prod(n for d, n in enumerate(shape) if d not in dims)
    # Torch divides the numbers of elements.
    count = math.prod(shape[d] for d in dims) if results else 0
    if count <= (1 if correction is None else correction):
        warn.to_user(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
            "factor (input numel divided by output numel)."
        )
    return getattr(ops, f"{name}_correction")(input, dim, correction=correction, keepdim=keepdim)


def _moments(name: str, doc: str, *, method: bool = True, out: Out | bool = False) -> Any:
    def moment(
        input: Tensor, dim: Any = MISSING, unbiased: bool = LEFT_OUT, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        return _moment(name, input, dim, unbiased, keepdim, correction)

    moment.__name__ = moment.__qualname__ = name
    moment.__doc__ = doc
    return composite(moment, method=method, out=out)


std = _moments("std", "Standard deviation, with Bessel's correction unless told otherwise.", out=Out.CAST)
var = _moments("var", "Variance, with Bessel's correction unless told otherwise.", out=Out.CAST)
std_mean = _moments("std_mean", "Standard deviation and mean.", method=False)
var_mean = _moments("var_mean", "Variance and mean.", method=False)


@composite
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """Mean of the elements that are not NaN."""
    if input._m.dtype.category < dtypes.FLOATING:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{dtypes.scalar_type_name(input._m.dtype)}"
        )
    if dtype is not None and dtype.category < dtypes.FLOATING:
        raise RuntimeError(
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. "
            f"Got: {dtypes.scalar_type_name(dtype)}"
        )
    count = ops.sum(ops.eq(input, input), dim, keepdim)  # only NaN differs from itself
    if out is not None:
        return METHODS["div_"](ops.nansum(input, dim, keepdim, dtype=dtype, out=out), count)
    return div(ops.nansum(input, dim, keepdim, dtype=dtype), count)


# --- norms ----------------------------------------------------------------------------------------


def _pair(dim: Any, ndim: int) -> tuple[int, int]:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    a, b = (shapes.wrap_dim(d, ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})")
    return a, b


def _singular_norm(A: Tensor, ord: Any, dims: tuple[int, int], keepdim: bool) -> Tensor:
    """The norms made of singular values."""
    order = [*[d for d in range(A._m.ndim) if d not in dims], *dims]
    values = NAMESPACES["linalg"]["svdvals"](ops.permute(A, tuple(order)))
    if ord == "nuc" or not values._m.shape[-1]:
        out = ops.sum(values, (-1,), keepdim)
    else:
        out = (ops.amax if ord > 0 else ops.amin)(values, (-1,), keepdim)
    if not keepdim:
        return out
    return ops.permute(ops.unsqueeze(out, -1), tuple(order.index(d) for d in range(len(order))))


@composite(namespace="linalg", method=False, out=True, known_as={"input": "A"})
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A norm of the matrices in two dimensions."""
    m = A._m
    if m.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    named = isinstance(ord, str)
    if ord not in (("fro", "nuc") if named else (1, 2, math.inf, -1, -2, -math.inf)):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord if named else f'{ord:g}'} not supported.")
    if m.dtype.category < dtypes.FLOATING:
        raise RuntimeError(
            "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got "
            f"{dtypes.scalar_type_name(m.dtype)}"
        )
    rows, cols = _pair(dim, m.ndim)
    if ord == "fro":
        return ops.linalg_vector_norm(A, 2, (rows, cols), keepdim, dtype=dtype)
    if ord == "nuc" or abs(ord) == 2:
        return _singular_norm(A if dtype is None else ops._to_copy(A, dtype), ord, (rows, cols), keepdim)
    if abs(ord) == math.inf:
        rows, cols = cols, rows
    if rows < cols and not keepdim:
        cols -= 1
    sums = ops.linalg_vector_norm(A, 1, (rows,), keepdim, dtype=dtype)
    if ord > 0 and not sums._m.shape[cols]:
        return ops.sum(sums, (cols,), keepdim)
    return (ops.amax if ord > 0 else ops.amin)(sums, (cols,), keepdim)


@composite(name="norm", namespace="linalg", method=False, out=True, known_as={"input": "A"})
def linalg_norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A vector norm, or a matrix norm where the arguments ask for one."""
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    ndim = A._m.ndim
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if dims is None and ord is not None and ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {ndim}D.")
    if isinstance(ord, str):
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    if ord is not None and (len(dims) == 2 if dims is not None else ndim == 2):
        return matrix_norm(A, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    return ops.linalg_vector_norm(A, 2.0 if ord is None else ord, dims, keepdim, dtype=dtype)


@composite
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Tensor:
    """A vector norm of order `p`, the Frobenius norm or the nuclear norm."""
    single = as_int(dim)
    dims = None if dim is None else tuple(dim) if single is None else (single,)
    extra = {} if out is None else {"out": out}
    if p is None or not isinstance(p, str) or (p == "fro" and (dims is None or len(dims) <= 2)):
        order = 2 if p == "fro" else 2.0 if p is None else p
        return ops.linalg_vector_norm(input, order, dims, keepdim, dtype=dtype, **extra)
    whole = tuple(range(input._m.ndim)) if dims is None else dims
    return matrix_norm(input, p, whole, keepdim, dtype=dtype, **extra)


@composite(method=False, out=True)
def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The Frobenius norm along one or two dimensions."""
    return ops.linalg_vector_norm(input, 2.0, (dim,) if isinstance(dim, int) else tuple(dim), keepdim)


@composite(method=False, out=True)
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of singular values."""
    warn.once(
        "at::nuclear_norm is deprecated and it is just left for JIT compatibility. It will be removed in a future "
        "PyTorch release. Please use `linalg.matrix_norm(A, 'nuc', dim, keepdim)` instead"
    )
    if isinstance(dim, bool):  # an overload without dimensions
        dim, keepdim = (-2, -1), dim
    return matrix_norm(input, "nuc", dim, keepdim)


@composite(method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norm over all dimensions but one."""
    m = v._m
    if dim == -1:
        return v.norm(pow)
    if dim not in (0, m.ndim - 1):
        return norm_except_dim(v.transpose(0, dim), pow, 0).transpose(0, dim)
    first = dim == 0
    size = m.shape[dim]
    rows = v.contiguous().view((size, -1) if first else (-1, size))
    sizes = [1] * m.ndim
    sizes[dim] = size
    return rows.norm(pow, 1 if first else 0).view(sizes)


@composite(method=False)
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``v * (g / norm_except_dim(v, 2, dim))``."""
    if dim in (0, v._m.ndim - 1):
        return ops._weight_norm_interface(v, g, dim)[0]
    return ops.mul(v, div(g, norm_except_dim(v, 2, dim)))


# --- quantiles ------------------------------------------------------------------------------------


@composite(out=True)
def quantile(input: Tensor, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """Quantiles of all elements or along a dimension."""
    return _quantile(input, q, dim, keepdim, interpolation, False)


@composite(out=True)
def nanquantile(
    input: Tensor, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Quantiles of the elements that are not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, True)


def _quantile(input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, ignore_nan: bool) -> Tensor:
    """Sort, take the neighbours of each rank, and interpolate in place, as torch does."""
    ndim = input._m.ndim
    if dim is None:
        x, shape = input.flatten(), (1,) * ndim if keepdim else ()
    else:
        axis = shapes.wrap_dim(dim, ndim)
        kept = list(input._m.shape)
        if ndim:
            kept[axis : axis + 1] = [1] if keepdim else []
        shape = tuple(kept)
        if axis >= ndim - 1:
            x = input if ndim else input.flatten()
        else:
            x = ops.transpose(ops.unsqueeze(input, -1), axis, ndim)
    flat = x if x._m.ndim == len(shape) + 1 else x.reshape(*shape, x._m.shape[-1])
    below, above, weight = ops.quantile_places(flat.detach(), q, interpolation, ignore_nan)
    ordered = ops.sort(x)[0].view(*shape, x._m.shape[-1])
    out = ops.gather(ordered, -1, below)
    if interpolation in ("linear", "midpoint"):
        ops.lerp_(out, ops.gather(ordered, -1, above), weight)
    if isinstance(q, Tensor) and q._m.ndim:
        out.unsqueeze_(0).transpose_(0, -1)
    return out.squeeze_(-1)


# --- differences and integrals --------------------------------------------------------------------


def _ends(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All but the last and all but the first slice."""
    n = x._m.shape[dim]
    return slice_along(x, dim, 0, n - 1 if n else 0), slice_along(x, dim, 1, None)


@composite(out=Out.CAST)
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th difference of neighbours along a dimension."""
    ndim = input._m.ndim
    if not ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = shapes.wrap_dim(dim, ndim)
    for extra in (prepend, append):
        if extra is not None:
            _check_joined(input, extra, axis)
    parts = [t for t in (prepend, input, append) if t is not None]
    out = ops.cat(parts, axis) if len(parts) > 1 else input
    if n == 0:  # for n = 0 torch joins nothing
        return ops.copy_(ops.zero(input.detach()), input)
    for _ in range(n):
        if not out._m.shape[axis]:
            break
        low, high = _ends(out, axis)
        out = ops.logical_xor(high, low) if out._m.dtype is dtypes.bool_ else ops.sub(high, low)
    return out


def _check_joined(input: Tensor, extra: Tensor, axis: int) -> None:
    if extra._m.ndim != input._m.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for d, (n, k) in enumerate(zip(input._m.shape, extra._m.shape)):
        if d != axis and n != k:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({d}) = {n}, but got tensor.size({d}) = {k}"
            )


def _steps(y: Tensor, x: Tensor, dim: int, name: str) -> Tensor:
    """Distances between sample points, shaped to multiply slices of y."""
    n = y._m.shape[dim]
    if x._m.ndim == 1:
        if x._m.shape[0] != n:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = ops.view(x, (*(1,) * dim, n, *(1,) * (y._m.ndim - dim - 1)))
    elif x._m.ndim < y._m.ndim:
        x = ops.view(x, (1,) * (y._m.ndim - x._m.ndim) + x._m.shape)
    if x._m.shape[dim] != n:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    low, high = _ends(x, dim)
    return ops.sub(high, low)


def _spacing(name: str, y: Tensor, x: Any, dx: Any) -> None:
    for label, t in (("y", y), ("x", x)):
        if isinstance(t, Tensor) and t._m.dtype is dtypes.bool_:
            raise RuntimeError(f"{name}: received a bool input for `{label}`, but bool is not supported")
    if x is not None and dx is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments: x and dx")


@composite(method=False, aliases=("trapz",))
def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Integral by the trapezoidal rule."""
    _spacing("trapezoid", y, x, dx)
    axis = shapes.wrap_dim(dim, y._m.ndim, scalar=False)
    shape = y._m.shape
    if not shape[axis]:
        zeros = METHODS["new_zeros"](y, shape[:axis] + shape[axis + 1 :])
        zeros._st.version = 1
        return zeros
    if x is None:
        last = ops.select(y, axis, -1)  # torch selects the last one first
        half = ops.mul_number(ops.add(ops.select(y, axis, 0), last), 0.5)
        inside = ops.sub(ops.sum(y, (axis,)), half)
        return ops.mul_number(inside, float(1.0 if dx is None else dx))
    steps = _steps(y, x, axis, "trapezoid")
    area = ops.mul(ops.add(*_ends(y, axis)), steps)
    return ops.div_number(ops.sum(area, (axis,)), 2.0)


@composite(method=False)
def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Running integral by the trapezoidal rule."""
    _spacing("cumulative_trapezoid", y, x, dx)
    if not y._m.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    axis = shapes.wrap_dim(dim, y._m.ndim)
    if x is None:
        low, high = _ends(y, axis)
        return ops.cumsum(ops.mul_number(ops.add(low, high), float(1.0 if dx is None else dx) / 2.0), axis)
    steps = _steps(y, x, axis, "cumulative_trapezoid")
    low, high = _ends(y, axis)
    return ops.div_number(ops.cumsum(ops.mul(ops.add(low, high), steps), axis), 2.0)
