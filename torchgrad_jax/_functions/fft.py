"""torch.fft: padding, scaling and dimensions around the three primitive transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes, shapes
from .._core.arrays.dtypes import FLOATING, scalar_type_name
from .._engine.entry.arguments import as_int
from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor
from .._ops.registry import Out
from .complex_views import conj
from .create import from_host

_fft = {"namespace": "fft", "method": False, "out": Out.CAST}
_NONE, _BY_ROOT_N, _BY_N = range(3)


def _normalization(norm: str | None, forward: bool) -> int:
    """The primitive's scaling for a norm mode in one direction."""
    if norm in (None, "backward"):
        return _NONE if forward else _BY_N
    if norm == "forward":
        return _BY_N if forward else _NONE
    if norm == "ortho":
        return _BY_ROOT_N
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _promoted(x: Tensor, *, to_complex: bool = False) -> Tensor:
    """`x` in the dtype that torch transforms it in."""
    dtype = x._m.dtype
    if dtype.category < FLOATING:
        dtype = dtypes.get_default_dtype()
    if dtype.name in ("float16", "bfloat16"):
        raise RuntimeError(f"Unsupported dtype {scalar_type_name(dtype)}")
    if to_complex:
        dtype = dtypes.to_complex(dtype)
    return x if dtype is x._m.dtype else ops._to_copy(x, dtype)


def _require_real(name: str, x: Tensor, words: str = "a real input tensor") -> None:
    if x._m.dtype.is_complex:
        raise RuntimeError(f"{name} expects {words}, but got {scalar_type_name(x._m.dtype)}")


def _one(x: Tensor, dim: int) -> int:
    if x._m.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return shapes.wrap_dim(dim, x._m.ndim)


def _resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """`x` cut or padded with zeros to the given sizes."""
    pad = [0] * (2 * x._m.ndim)
    for d, n in zip(dims, sizes):
        if n == -1:
            continue
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        have = x._m.shape[d]
        if have < n:
            pad[2 * (x._m.ndim - 1 - d) + 1] = n - have
        elif have > n:
            x = ops.slice(x, d, 0, n, 1)
    return ops.constant_pad_nd(x, tuple(pad)) if any(pad) else x


def _points(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _single(x: Tensor, n: int | None, dim: int) -> tuple[Tensor, int]:
    """Input resized along the one dimension to transform."""
    d = _one(x, dim)
    _points(x._m.shape[d] if n is None else n)
    return (x if n is None else _resized(x, (d,), (n,))), d


def _c2c(x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    x, d = _single(_promoted(x), n, dim)
    scale = _normalization(norm, forward)
    if x._m.dtype.is_complex:
        return ops._fft_c2c(x, (d,), scale, forward)
    out = ops._fft_r2c(x, (d,), scale, False)
    return out if forward else conj(out)


def _r2c(name: str, x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    _require_real(name, x)
    x, d = _single(_promoted(x), n, dim)
    out = ops._fft_r2c(x, (d,), _normalization(norm, forward), True)
    return out if forward else conj(out)


def _c2r(x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    x = _promoted(x, to_complex=True)
    d = _one(x, dim)
    size = _points(2 * (x._m.shape[d] - 1) if n is None else n)
    if n is not None:
        x = _resized(x, (d,), (size // 2 + 1,))
    return ops._fft_c2r(conj(x) if forward else x, (d,), _normalization(norm, forward), size)


@composite(name="fft", **_fft)
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along one dimension."""
    return _c2c(input, n, dim, norm, True)


@composite(name="ifft", **_fft)
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse discrete Fourier transform along one dimension."""
    return _c2c(input, n, dim, norm, False)


@composite(name="rfft", **_fft)
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform of a real signal: the half of the frequencies that determines the rest."""
    return _r2c("rfft", input, n, dim, norm, True)


@composite(name="ihfft", **_fft)
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of `hfft`."""
    return _r2c("ihfft", input, n, dim, norm, False)


@composite(name="irfft", **_fft)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of `rfft`."""
    return _c2r(input, n, dim, norm, False)


@composite(name="hfft", **_fft)
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform of a signal that is Hermitian in time, hence real in frequency."""
    return _c2r(input, n, dim, norm, True)


# --- several dimensions ---------------------------------------------------------------------------


def _ints(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    single = None if isinstance(value, list | tuple) else as_int(value)
    return tuple(value) if single is None else (single,)


def _shape_and_dims(x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and dimensions to transform, each from the other where it is not given."""
    s, dim = _ints(s), _ints(dim)
    ndim = x._m.ndim
    if dim is not None:
        dims = tuple(shapes.wrap_dim(d, ndim, scalar=False) for d in dim)
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        if dim is not None and len(dim) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions.")
        if dim is None:
            dims = tuple(range(ndim - len(s), ndim))
        sizes = tuple(x._m.shape[d] if n == -1 else n for d, n in zip(dims, s))
    else:
        if dim is None:
            dims = tuple(range(ndim))
        sizes = tuple(x._m.shape[d] for d in dims)
    for n in sizes:
        _points(n)
    return sizes, dims


def _c2c_n(x: Tensor, s: Any, dim: Any, norm: str | None, forward: bool) -> Tensor:
    sizes, dims = _shape_and_dims(x, s, dim)
    x = _resized(_promoted(x, to_complex=True), dims, sizes)
    return ops._fft_c2c(x, dims, _normalization(norm, forward), forward)


def _need_axis(name: str, dims: Sequence[int]) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _half_shape(name: str, x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes of the complex input, its dimensions, and the size of the last dimension of the result."""
    given, dims = _ints(s), _ints(dim)
    if given is None and (dims is not None or x._m.ndim):
        dims = tuple(range(x._m.ndim)) if dims is None else dims
        if dims:
            last, *_ = (shapes.wrap_dim(d, x._m.ndim, scalar=False) for d in reversed(dims))
            given = tuple(x._m.shape[shapes.wrap_dim(d, x._m.ndim)] for d in dims[:-1])
            given = (*given, 2 * (x._m.shape[last] - 1))
    elif given and given[-1] == -1:
        last = shapes.wrap_dim(-1 if dims is None else dims[-1], x._m.ndim)
        given = (*given[:-1], 2 * (x._m.shape[last] - 1))
    sizes, dims = _shape_and_dims(x, given, dims)
    _need_axis(name, dims)
    return (*sizes[:-1], sizes[-1] // 2 + 1), dims, sizes[-1]


def _rfftn(x: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
    _require_real("rfftn", x, "a real-valued input tensor")
    sizes, dims = _shape_and_dims(x, s, dim)
    _need_axis("rfftn", dims)
    return ops._fft_r2c(_resized(_promoted(x), dims, sizes), dims, _normalization(norm, True), True)


def _irfftn(x: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
    sizes, dims, last = _half_shape("irfftn", x, s, dim)
    x = _resized(_promoted(x, to_complex=True), dims, sizes)
    return ops._fft_c2r(x, dims, _normalization(norm, False), last)


def _hfftn(x: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
    sizes, dims, last = _half_shape("hfftn", x, s, dim)
    x = _resized(_promoted(x, to_complex=True), dims, sizes)
    scale = _normalization(norm, True)
    if len(dims) > 1:
        x = ops._fft_c2c(x, dims[:-1], scale, True)
    return ops._fft_c2r(conj(x), dims[-1:], scale, last)


def _ihfftn(x: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
    sizes, dims = _shape_and_dims(x, s, dim)
    _need_axis("ihfftn", dims)
    x = _resized(_promoted(x), dims, sizes)
    scale = _normalization(norm, False)
    x = ops._fft_r2c(x, dims[-1:], scale, True)
    if len(dims) == 1:
        return conj(x)
    return ops._fft_c2c(ops.conj_physical(x), dims[:-1], scale, False)


@composite(name="fftn", **_fft)
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along several dimensions."""
    return _c2c_n(input, s, dim, norm, True)


@composite(name="ifftn", **_fft)
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """Inverse discrete Fourier transform along several dimensions."""
    return _c2c_n(input, s, dim, norm, False)


@composite(name="fft2", **_fft)
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along two dimensions."""
    return _c2c_n(input, s, dim, norm, True)


@composite(name="ifft2", **_fft)
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Inverse discrete Fourier transform along two dimensions."""
    return _c2c_n(input, s, dim, norm, False)


@composite(name="rfftn", **_fft)
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """`rfft` along several dimensions, the last one halved."""
    return _rfftn(input, s, dim, norm)


@composite(name="rfft2", **_fft)
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`rfft` along two dimensions, the last one halved."""
    return _rfftn(input, s, dim, norm)


@composite(name="irfftn", **_fft)
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """Inverse of `rfftn`."""
    return _irfftn(input, s, dim, norm)


@composite(name="irfft2", **_fft)
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Inverse of `rfft2`."""
    return _irfftn(input, s, dim, norm)


@composite(name="hfftn", **_fft)
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """`hfft` along several dimensions."""
    return _hfftn(input, s, dim, norm)


@composite(name="hfft2", **_fft)
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`hfft` along two dimensions."""
    return _hfftn(input, s, dim, norm)


@composite(name="ihfftn", **_fft)
def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """Inverse of `hfftn`."""
    return _ihfftn(input, s, dim, norm)


@composite(name="ihfft2", **_fft)
def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Inverse of `hfft2`."""
    return _ihfftn(input, s, dim, norm)


# --- order of frequencies -------------------------------------------------------------------------


def _shifted(x: Tensor, dim: Any, sign: int) -> Tensor:
    dims = tuple(range(x._m.ndim)) if dim is None else tuple(shapes.wrap_dim(d, x._m.ndim) for d in _ints(dim) or ())
    if not dims:
        raise RuntimeError("`shifts` required")
    sizes = [x._m.shape[d] for d in dims]
    return ops.roll(x, tuple(n // 2 if sign > 0 else (n + 1) // 2 for n in sizes), dims)


@composite(name="fftshift", namespace="fft", method=False)
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Move frequency zero to the middle."""
    return _shifted(input, dim, 1)


@composite(name="ifftshift", namespace="fft", method=False)
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Undo `fftshift`."""
    return _shifted(input, dim, -1)


def _frequencies(name: str, index: Any, n: int, d: float, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.to_dtype(dtype)
    if kind.category < FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    step = kind.np.type(1 / (n * d)) if n * d else np.float64(np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        values = index.astype(kind.np) * step
    return from_host(np.asarray(values, kind.np), devices.resolve(device), requires_grad)


@composite(name="fftfreq", **_fft)
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `fft`, in its order."""
    n = int(n)
    index = np.arange(max(n, 0))
    index = np.where(index < (n + 1) // 2, index, index - n)
    return _frequencies("fftfreq", index, n, d, dtype, device, requires_grad)


@composite(name="rfftfreq", **_fft)
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `rfft`, in its order."""
    n = int(n)
    return _frequencies("rfftfreq", np.arange(max(n, 0) // 2 + 1), n, d, dtype, device, requires_grad)
