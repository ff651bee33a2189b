"""torch.masked: reductions and normalisations over the elements that a mask keeps.

Elements that the mask leaves out are replaced by the identity of the reduction, and the plain function does the rest.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._core.arrays import dtypes, shapes
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor
from .create import from_host

_masked = functools.partial(composite, method=False, namespace="masked")
torch = NAMESPACES[""]
"""Public functions by name."""


# --- masks ----------------------------------------------------------------------------------------


def _mask(input: Tensor, mask: Tensor) -> Tensor:
    """The mask as bools of the input's shape."""
    m, have = input._m, mask._m
    if have.ndim > m.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if have.dtype is not dtypes.bool_:
        mask = ops.ne(mask, 0)
    return mask if mask._m.shape == m.shape else ops.expand(mask, m.shape)


def _kept(input: Tensor, mask: Tensor | None, instead: Any) -> Tensor:
    """The input with a value in place of what the mask leaves out."""
    if mask is None:
        return input
    value = np.asarray(instead() if callable(instead) else instead).astype(input._m.dtype.np)
    return ops.where(_mask(input, mask), input, from_host(value, input._m.device))


def _extreme(name: str, input: Tensor, sign: int) -> Any:
    """The least (sign -1) or greatest number of the dtype."""
    dt = input._m.dtype
    if dt is dtypes.bool_:
        raise NotImplementedError(f"identity of {name} on torch.bool input")
    if dt.is_floating_point:
        return sign * math.inf
    if dt.is_complex and name == "logsumexp":
        return sign * math.inf
    if dt.is_complex:
        raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
    info = np.iinfo(dt.np)
    return info.min if sign < 0 else info.max


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions in order; None and () stand for all."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    out: list[int] = []
    for d in dim if isinstance(dim, list | tuple) else (dim,):
        d = shapes.wrap_dim(d, ndim)
        if d in out:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        out.append(d)
    return tuple(sorted(out))


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None or x._m.dtype is dtype else x.to(dtype)


def _sum_dtype(input: Tensor, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    dt = input._m.dtype
    return dtypes.int64 if dt.category < dtypes.FLOATING else dt


# --- reductions -----------------------------------------------------------------------------------


@_masked
def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Sum of the elements that the mask keeps."""
    dtype = _sum_dtype(input, dtype)
    dims = _dims(dim, input._m.ndim)
    return torch["sum"](_kept(input, mask, 0), dims, keepdim, dtype=dtype)


@_masked
def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Product of the elements that the mask keeps."""
    dtype = _sum_dtype(input, dtype)
    out = _kept(input, mask, 1)
    dims = _dims(dim, input._m.ndim)
    for d in reversed(dims):
        out = torch["prod"](out, d, keepdim, dtype=dtype)
    return out if dims else _cast(out, dtype)


@_masked
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running sums that pass over what is masked out."""
    kept = _kept(input, mask, 0)
    return torch["cumsum"](kept, dim, dtype=dtype or input._m.dtype)


@_masked
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running products that pass over what is masked out."""
    kept = _kept(input, mask, 1)
    return torch["cumprod"](kept, dim, dtype=dtype or input._m.dtype)


@_masked
def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The largest of the elements that the mask keeps."""
    kept = _kept(input, mask, lambda: _extreme("amax", input, -1))
    return _cast(torch["amax"](kept, _dims(dim, input._m.ndim), keepdim), dtype)


@_masked
def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest of the elements that the mask keeps."""
    kept = _kept(input, mask, lambda: _extreme("amin", input, 1))
    return _cast(torch["amin"](kept, _dims(dim, input._m.ndim), keepdim), dtype)


@_masked
def argmax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Where the largest of the kept elements is, in the dtype of the input."""
    kept = _kept(input, mask, lambda: _extreme("argmax", input, -1))
    return _cast(torch["argmax"](kept, dim, bool(keepdim)), dtype or input._m.dtype)


@_masked
def argmin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Where the smallest of the kept elements is, in the dtype of the input."""
    kept = _kept(input, mask, lambda: _extreme("argmin", input, 1))
    return _cast(torch["argmin"](kept, dim, bool(keepdim)), dtype or input._m.dtype)


def _counted(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Tensor:
    """Return how many elements the mask keeps."""
    if mask is None:
        mask = from_host(np.ones(input._m.shape, bool), input._m.device)
    return torch["sum"](_mask(input, mask), _dims(dim, input._m.ndim), keepdim, dtype=dtypes.int64)


@_masked
def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Mean of the elements that the mask keeps; NaN where there are none."""
    for kind, given in (("Input", input._m.dtype if dtype is None else None), ("Optional", dtype)):
        if given is not None and given.category < dtypes.FLOATING:
            raise ValueError(
                f"mean(): Could not infer output dtype. {kind} dtype must be either a floating point or complex "
                f"dtype. Got: {given!r}"
            )
    dtype = dtype or input._m.dtype
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return ops.true_divide(total, _counted(input, dim, keepdim, mask))


@_masked
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of the elements that the mask keeps."""
    dtype = dtype or input._m.dtype
    if dim is None:  # without `dim` torch takes the first dimension
        dim = 0
    if mask is None:
        return _cast(torch["nanmedian"](input, dim, keepdim)[0], dtype)
    full = _mask(input, mask)
    x = input
    if not input._m.dtype.is_floating_point:
        if not bool(torch["all"](torch["any"](full, dim))):
            raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
        x = input.to(dtypes.float64)
    return _cast(torch["nanmedian"](_kept(x, full, math.nan), dim, keepdim)[0], dtype)


@_masked
def norm(
    input: Tensor,
    ord: Any = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Vector norm of the elements that the mask keeps."""
    kept = _kept(input, mask, math.inf if ord == -math.inf else 0)
    dims = _dims(dim, input._m.ndim)
    return NAMESPACES["linalg"]["vector_norm"](kept, ord, dims, bool(keepdim), dtype=dtype)


def _variance(
    input: Tensor, dim: Any, unbiased: Any, correction: Any, keepdim: bool, dtype: Any, mask: Tensor | None, root: bool
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    degrees = correction if correction is not None else 1 if unbiased in (None, True) else 0
    dims = _dims(dim, input._m.ndim)
    if dtype is None:
        dt = input._m.dtype
        dtype = dtypes.get_default_dtype() if dt.category < dtypes.FLOATING else dt
    count = _counted(input, dims, True, mask)
    centre = ops.true_divide(sum(input, dims, keepdim=True, dtype=dtype, mask=mask), count)
    x = ops.sub(input, centre)
    square = ops.mul(x, torch["conj"](x))
    total = sum(square, dims, keepdim=keepdim, dtype=dtype, mask=mask)
    if not keepdim:
        count = torch["reshape"](count, total._m.shape)
    if degrees:
        count = ops.sub(count, degrees)
        count = ops.maximum(count, from_host(np.zeros((), count._m.dtype.np), count._m.device))
    out = _cast(ops.true_divide(total, count), dtype)
    return ops.sqrt(out) if root else out


@_masked
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance of the elements that the mask keeps."""
    return _variance(input, dim, unbiased, correction, bool(keepdim), dtype, mask, False)


@_masked
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation of the elements that the mask keeps."""
    return _variance(input, dim, unbiased, correction, bool(keepdim), dtype, mask, True)


@_masked
def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of the exponentials of what the mask keeps."""
    kept = _kept(input, mask, lambda: _extreme("logsumexp", input, -1))
    out = torch["logsumexp"](kept, _dims(dim, input._m.ndim), bool(keepdim))
    return _cast(out, dtype or input._m.dtype)


@_masked
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of two exponentials, each under its own mask."""
    x = _kept(input, input_mask, lambda: _extreme("logaddexp", input, -1))
    y = _kept(other, other_mask, lambda: _extreme("logaddexp", other, -1))
    return _cast(torch["logaddexp"](x, y), dtype or input._m.dtype)


# --- normalisations -------------------------------------------------------------------------------


@_masked
def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over the elements that the mask keeps; the others get 0."""
    kept = _kept(input, mask, lambda: _extreme("softmax", input, -1))
    return torch["softmax"](kept, dim, dtype=dtype or input._m.dtype)


@_masked
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of softmax over the elements that the mask keeps."""
    kept = _kept(input, mask, lambda: _extreme("log_softmax", input, -1))
    return torch["log_softmax"](kept, dim, dtype=dtype or input._m.dtype)


@_masked
def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmin over the elements that the mask keeps; the others get 0."""
    kept = _kept(input, mask, lambda: _extreme("softmin", input, 1))
    return NAMESPACES["nn.functional"]["softmin"](kept, dim, dtype=dtype or input._m.dtype)


@_masked
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The kept elements divided by their norm, or by `eps` where that is larger."""
    dtype = dtype or input._m.dtype
    kept = _kept(input, mask, 0)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    least = from_host(np.asarray(eps).astype(size._m.dtype.np), input._m.device)
    return ops.true_divide(kept, ops.maximum(size, least))


# --- masks of results -----------------------------------------------------------------------------

_SHAPED = ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod")


def _input_mask(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The mask among the arguments of a masked function, as bools of the input's shape."""
    mask = kwargs.get("mask")
    if mask is None:
        raise ValueError("input mask must be specified")
    return _mask(input, mask)


def _output_mask(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return which results of a masked function are defined: those with a kept element behind them."""
    name = op.__name__
    mask = kwargs.get("mask")
    if mask is None:
        mask = from_host(np.ones(input._m.shape, bool), input._m.device)
    mask = _mask(input, mask)
    if name in _SHAPED:
        return mask
    if name not in NAMESPACES["masked"]:
        raise ValueError(f"_output_mask expected masked operation (got function {name})")
    at = 1 if name == "norm" else 0
    dim = args[at] if len(args) > at else kwargs.get("dim", -1 if name == "median" else None)
    keepdim = bool(kwargs.get("keepdim", False))
    for d in reversed(_dims(dim, input._m.ndim)):
        mask = torch["any"](mask, d, keepdim)
    return mask


NAMESPACES["masked"].update(_input_mask=_input_mask, _output_mask=_output_mask)
