"""Layers of nn.functional that torch composes: linear, bilinear and the dropout family."""

from __future__ import annotations

import functools
import math

import numpy as np

from .._core.arrays import shapes
from .._core.arrays.dtypes import FLOATING, bool_, scalar_type_name
from .._core.arrays.kernels import cpp_name
from .._core.arrays.meta import Meta, meta
from .._core.errors import messages as errors, warn
from .._core.random import rng
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import running_vmap
from .create import from_host
from .random import check_allowed, draw, inside_trace

_functional = functools.partial(composite, method=False, namespace="nn.functional")
_top = functools.partial(composite, method=False)

# --- linear maps --------------------------------------------------------------------------------


@_functional(out=True)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias`` over the last dimension."""
    if bias is None:
        return input.matmul(ops.t(weight))
    m = input._m
    if m.ndim == 2:
        return ops.addmm(bias, input, ops.t(weight))
    if m.ndim and bias._m.ndim and m.contiguous and bias._m.contiguous:
        rows = input.view(math.prod(m.shape[:-1]), m.shape[-1])
        out = ops.addmm(bias, rows, ops.t(weight))
        return out.view(*m.shape[:-1], out._m.shape[1])
    return input.matmul(ops.t(weight)).add_(bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2`` for each output feature k."""
    a, b, w = input1._m, input2._m, weight._m
    if a.dtype is not b.dtype or a.dtype is not w.dtype:
        given = {"input1": a, "input2": b, "weight": w, **({} if bias is None else {"bias": bias._m})}
        shown = ", ".join(f"{name}: {cpp_name(np.empty(0, m.dtype.np))}" for name, m in given.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {shown}")
    if a.ndim != b.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {a.ndim} and {b.ndim}")
    for i in range(a.ndim - 1):
        if a.shape[i] != b.shape[i]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {a.shape[i]} and {b.shape[i]}"
            )
    for which, m, dim in (("input1", a, 1), ("input2", b, 2)):
        if m.shape[-1] != w.shape[dim]:
            raise RuntimeError(
                f"bilinear(): {which} size does not match weight size: got {m.shape[-1]} but expected {w.shape[dim]}"
            )
    if bias is not None and bias._m.shape[0] != w.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias._m.shape[0]} but expected {w.shape[0]}"
        )
    flat1, flat2 = (t.reshape(math.prod(t._m.shape[:-1]), t._m.shape[-1]) for t in (input1, input2))
    out = ops._trilinear(flat1, weight, flat2, (1, 3), (0,), (1, 2), (2, 3))
    out = out.reshape(*a.shape[:-1], w.shape[0])
    return out if bias is None else out + bias


NAMESPACES["nn.functional"]["bilinear"] = _top(bilinear)

# --- dropout ------------------------------------------------------------------------------------

_SELU = 1.7580993408473766
"""Minus the value that SELU saturates at: scale times alpha."""


def _own_strides(m: Meta) -> tuple[int, ...] | None:
    """The strides of new memory that is laid out like a tensor; None where it is row-major."""
    return None if m is meta(m.shape, m.dtype, m.device) else shapes.preserve_strides(m.shape, m.strides)


def _mask(m: Meta, p: float, features: bool) -> np.ndarray:
    """Return which elements (or whole channels) stay; drawn in the order of the elements in memory."""
    if features:
        if m.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        return rng.dropout_mask((*m.shape[:2], *(1,) * (m.ndim - 2)), p)
    strides = _own_strides(m)
    if strides is None:
        return rng.dropout_mask(m.shape, p)
    order = sorted(range(m.ndim), key=lambda d: -strides[d])
    drawn = rng.dropout_mask([m.shape[d] for d in order], p)
    return drawn.transpose(tuple(map(int, np.argsort(order))))


def _constant(host: np.ndarray, t: Tensor, writes: int = 2) -> Tensor:
    """A factor in t's dtype, laid out like t where it has t's shape.

    torch fills new memory with the factor in this number of steps, mostly two: it draws and then scales.
    """
    m = t._m
    strides = _own_strides(m) if host.shape == m.shape else None
    out = from_host(np.asarray(host, m.dtype.np, order="C"), m.device, strides=strides)
    out._st.version = writes
    return out


def _check_kind(t: Tensor) -> None:
    d = t._m.dtype
    if d.is_complex:
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{scalar_type_name(d)}'")
    if d.category < FLOATING:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {scalar_type_name(d)}")


def _dropout(
    input: Tensor, p: float, train: bool, inplace: bool, *, features: bool = False, alpha: bool = False
) -> Tensor:
    """All functions of the family: a random factor, and for the alpha variants an offset."""
    if not isinstance(train, bool | np.bool_):
        name = "feature_" * features + "alpha_" * alpha + "dropout" + "_" * inplace
        raise TypeError(f"{name}(): argument 'train' (position 3) must be bool, not {type(train).__name__}")
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or not train or input._m.numel == 0:
        return input
    multiply = ops.mul_ if inplace else ops.mul
    if p == 1:
        return multiply(input, _constant(np.zeros(()), input, 1))
    if inside_trace():
        return _dropout_inside(input, p, inplace, features, alpha)
    check_allowed()
    kept = _mask(input._m, p, features)
    _check_kind(input)
    kind = input._m.dtype.np if input._m.dtype.itemsize >= 4 else np.dtype(np.float32)
    if not alpha:
        return multiply(input, _constant(np.multiply(kept, kind.type(1) / kind.type(1 - p), dtype=kind), input))
    a = 1.0 / math.sqrt((_SELU * _SELU * p + 1) * (1 - p))
    offset = (kept.astype(kind) - kind.type(1)) * kind.type(_SELU * a) + kind.type(_SELU * a * p)
    scaled = multiply(input, _constant(kept.astype(kind) * kind.type(a), input))
    # It is added in place, as in torch, which the version shows.
    return ops.add_(scaled, _constant(offset, input))


def _dropout_inside(input: Tensor, p: float, inplace: bool, features: bool, alpha: bool) -> Tensor:
    """`_dropout` inside of `vmap`, where the mask may differ between examples."""
    _check_kind(input)
    m = input._m
    shape = (*m.shape[:2], *(1,) * (m.ndim - 2)) if features else m.shape
    if features and m.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    run = running_vmap()
    if run is not None and inplace and run.randomness == "different" and not run.inside(input):
        raise RuntimeError(errors.BATCHED_FILL)
    strides = None
    if MODES.run.may_write_outside and not features:
        # A compiled function draws in the order of the elements in memory, as eager code does.
        strides = shapes.preserve_strides(m.shape, m.strides)
    kept = draw(meta(shape, bool_, m.device, strides), lambda m: _mask(m, p, False)).to(m.dtype)
    multiply, add = (ops.mul_, ops.add_) if inplace else (ops.mul, ops.add)
    if not alpha:
        return multiply(input, kept * (1.0 / (1.0 - p)))
    a = 1.0 / math.sqrt((_SELU * _SELU * p + 1) * (1 - p))
    return add(multiply(input, kept * a), (kept - 1.0) * (_SELU * a) + _SELU * a * p)


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@_functional
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p and scale the others up."""
    _check_probability(p)
    return _dropout(input, p, training, inplace)


@_functional
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout to the value at which SELU saturates, keeping mean and variance."""
    _check_probability(p)
    return _dropout(input, p, training, inplace, alpha=True)


@_functional
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels."""
    _check_probability(p)
    return _dropout(input, p, training, inplace, features=True, alpha=True)


def _channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    if batched:
        return _dropout(input, p, training, inplace, features=True)
    x = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    y = _dropout(x, p, training, inplace, features=True)
    return y.squeeze_(0) if inplace else y.squeeze(0)


@_functional
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (batch, channels, length)."""
    _check_probability(p)
    ndim = input._m.ndim
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an "
            "optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, ndim == 3)


_DEPRECATED = (
    "dropout{k}d: Received a {ndim}-D input to dropout{k}d, which is deprecated and will result in an error in "
    "a future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
    "dropout{k}d exists to provide channel-wise dropout on inputs with {k} spatial dimensions, a channel "
    "dimension, and an optional batch dimension (i.e. {low}D or {high}D inputs)."
)


@_functional
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (batch, channels, height, width)."""
    _check_probability(p)
    ndim = input._m.ndim
    if ndim not in (3, 4):
        warn.to_user(_DEPRECATED.format(k=2, ndim=ndim, low=3, high=4))
    if ndim == 3:
        warn.to_user(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
            "is desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior "
            "will change in a future release to interpret the input as one without a batch dimension, i.e. "
            "shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using "
            "dropout1d instead."
        )
    return _dropout(input, p, training, inplace, features=True)


@_functional
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (batch, channels, depth, height, width)."""
    _check_probability(p)
    ndim = input._m.ndim
    if ndim not in (4, 5):
        warn.to_user(_DEPRECATED.format(k=3, ndim=ndim, low=4, high=5))
    return _channels(input, p, training, inplace, ndim == 5)


def _declare_top(name: str, **kind: bool) -> None:
    def plain(input: Tensor, p: float, train: bool) -> Tensor:
        return _dropout(input, p, train, False, **kind)

    def inplace(input: Tensor, p: float, train: bool) -> Tensor:
        return _dropout(input, p, train, True, **kind)

    for fn, label in ((plain, name), (inplace, name + "_")):
        fn.__name__ = fn.__qualname__ = label
        fn.__doc__ = f"`nn.functional.{name}`, with torch's order of arguments at the top level."
        _top(fn)


_declare_top("dropout")
_declare_top("alpha_dropout", alpha=True)
_declare_top("feature_dropout", features=True)
_declare_top("feature_alpha_dropout", features=True, alpha=True)


@_top
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout and the mask of what stayed."""
    shape, dev = input._m.shape, input._m.device
    if input._m.numel == 0:
        return input, from_host(np.empty(shape, np.bool_), dev)
    if train is False:
        return input.clone(), from_host(np.ones(shape, np.bool_), dev)
    if p == 1:
        return ops.mul(input, _constant(np.zeros(()), input, 1)), from_host(np.zeros(shape, np.bool_), dev)
    mask = draw(meta(shape, bool_, dev), lambda m: rng.dropout_mask(m.shape, p))
    return ops._native_dropout(input, mask, 1.0 / (1.0 - p)), mask
