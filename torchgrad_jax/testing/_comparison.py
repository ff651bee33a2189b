"""assert_close: tensors, numbers and containers of them compared within tolerances, in torch's words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.errors import warn
from .._engine.entry.bind import NAMESPACES
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor

_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_Message = str | Callable[[str], str] | None


def get_tolerances(
    *inputs: Tensor | dtypes.dtype, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """Give the relative and the absolute tolerance: those given, or the widest that the inputs have by default.

    Args:
        inputs: tensors, or dtypes.
        rtol, atol: both, or neither.
        id: the place in a container, for the text of an error.

    Raises:
        ValueError: when only one of the tolerances is given.
    """
    if (rtol is None) != (atol is None):
        missing = "atol" if atol is None else "rtol"
        text = f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        raise ValueError(text + _place(id))
    return default_tolerances(*inputs) if rtol is None or atol is None else (rtol, atol)


def default_tolerances(
    *inputs: Tensor | dtypes.dtype, dtype_precisions: Mapping[dtypes.dtype, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """Give the widest relative and absolute tolerance of the inputs' dtypes; 0 for those that are exact.

    Args:
        inputs: tensors, or dtypes.
        dtype_precisions: the tolerances of dtypes, instead of those of `assert_close`.
    """
    kinds = []
    for value in inputs:
        if not isinstance(value, Tensor | dtypes.dtype):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(value)} instead.")
        kinds.append(value.dtype if isinstance(value, Tensor) else value)
    known = {k.name: v for k, v in dtype_precisions.items()} if dtype_precisions else _TOLERANCES
    found = [known.get(k.name, (0.0, 0.0)) for k in kinds]
    return max(r for r, _ in found), max(a for _, a in found)


def _place(path: tuple[Any, ...]) -> str:
    return "\n\nThe failure occurred for item " + "".join(f"[{p!r}]" for p in path) if path else ""


class _Settings:
    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: _Message = None,
) -> None:
    """Raise unless `actual` and `expected` agree: ``|actual - expected| <= atol + rtol * |expected|``.

    Args:
        actual: a tensor (or array, or number), or a sequence or mapping of them.
        expected: the same kind of thing.
        allow_subclasses: whether tensors of different classes, one derived from the other, may be compared.
        rtol: relative tolerance; by default what suits the dtypes.
        atol: absolute tolerance; given together with `rtol`.
        equal_nan: whether two NaNs agree.
        check_device: whether devices must agree.
        check_dtype: whether dtypes must agree.
        check_layout: whether layouts must agree.
        check_stride: whether strides must agree.
        msg: the text of the error, or a function of the text that it would have.

    Raises:
        AssertionError: where they do not agree, saying where.
        TypeError: for things that cannot be compared.
        ValueError: when only one of the tolerances is given.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    """
    if (rtol is None) != (atol is None):
        get_tolerances(rtol=rtol, atol=atol)  # raises
    s = _Settings(
        allow_subclasses=allow_subclasses,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_stride=check_stride,
        msg=msg,
    )
    _compare(actual, expected, s, ())


def _fail(text: str, s: _Settings, path: tuple[Any, ...]) -> None:
    text += _place(path)
    if s.msg is not None:
        text = s.msg if isinstance(s.msg, str) else s.msg(text)
    raise AssertionError(text)


def _compare(a: Any, b: Any, s: _Settings, path: tuple[Any, ...]) -> None:
    simple = (str, bytes)
    if isinstance(a, Sequence) and isinstance(b, Sequence) and not isinstance(a, simple):
        if isinstance(b, simple):
            raise _incomparable(a, b)
        if len(a) != len(b):
            _fail(f"The length of the sequences mismatch: {len(a)} != {len(b)}", s, path)
        for i, (x, y) in enumerate(zip(a, b)):
            _compare(x, y, s, (*path, i))
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        missing = [k for k in b if k not in a]
        extra = [k for k in a if k not in b]
        if missing or extra:
            text = "The keys of the mappings do not match:"
            if missing:
                text += f"\nMissing keys in the actual mapping: {sorted(missing, key=str)}"
            if extra:
                text += f"\nAdditional keys in the actual mapping: {sorted(extra, key=str)}"
            _fail(text, s, path)
        for k in a:
            _compare(a[k], b[k], s, (*path, k))
        return
    if a is None or b is None:
        if a is not b:
            _fail(f"None mismatch: {a} is not {b}", s, path)
        return
    if isinstance(a, bool | np.bool_) and isinstance(b, bool | np.bool_):
        if bool(a) is not bool(b):
            _fail(f"Booleans mismatch: {a} is not {b}", s, path)
        return
    numbers = int | float | complex | np.number
    if isinstance(a, numbers) and isinstance(b, numbers):
        x, y = (v.item() if isinstance(v, np.number) else v for v in (a, b))
        if s.check_dtype and type(x) is not type(y):
            if isinstance(x, bool) or isinstance(y, bool):
                raise _incomparable(a, b)
            _fail(f"The (d)types do not match: {type(x)} != {type(y)}.", s, path)
        _compare_numbers(x, y, s, path)
        return
    if _like_tensor(a) and _like_tensor(b) and _related(a, b, s):
        _compare_tensors(_tensor(a), _tensor(b), s, path)
        return
    raise _incomparable(a, b)


def _incomparable(a: Any, b: Any) -> TypeError:
    return TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}.")


def _like_tensor(x: Any) -> bool:
    return (
        isinstance(x, Tensor | np.ndarray | np.generic)
        or hasattr(x, "__jax_array__")
        or (hasattr(x, "aval") and hasattr(x, "dtype"))
    )


def _related(a: Any, b: Any, s: _Settings) -> bool:
    directly = isinstance(a, type(b)) or isinstance(b, type(a))
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) and s.allow_subclasses:
        return True  # an array of NumPy or JAX on either side
    return directly if s.allow_subclasses else type(a) is type(b)


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else NAMESPACES[""]["as_tensor"](x)


def _attribute(name: str, x: Any, y: Any, s: _Settings, path: tuple[Any, ...]) -> None:
    if x != y:
        _fail(f"The values for attribute '{name}' do not match: {x} != {y}.", s, path)


def _compare_tensors(a: Tensor, b: Tensor, s: _Settings, path: tuple[Any, ...]) -> None:
    _attribute("shape", a.shape, b.shape, s, path)
    if s.check_device:
        _attribute("device", a.device, b.device, s, path)
    if s.check_dtype:
        _attribute("dtype", a.dtype, b.dtype, s, path)
    if s.check_stride:
        _attribute("stride()", a.stride(), b.stride(), s, path)
    if a.is_meta or b.is_meta:
        return
    rtol, atol = get_tolerances(a._m.dtype, b._m.dtype, rtol=s.rtol, atol=s.atol)
    x, y = _values(a), _values(b)
    differ = ~_close(x, y, rtol, atol, s.equal_nan)
    if not differ.any():
        return
    exact = rtol == 0.0 and atol == 0.0
    n, total = int(differ.sum()), int(differ.size)
    lines = [
        "Tensor-likes are not equal!" if exact else "Tensor-likes are not close!",
        "",
        f"Mismatched elements: {n} / {total} ({n / total:.1%})",
    ]
    with np.errstate(all="ignore"):
        wide = np.complex128 if np.iscomplexobj(x) else np.float64
        whole = not np.issubdtype(x.dtype, np.inexact)
        if whole:
            apart = np.abs(x.astype(object) - y.astype(object))
        else:
            apart = np.abs(x - y if x.dtype.itemsize >= 4 else x.astype(wide) - y.astype(wide))
        kind = a._m.dtype.name
        double = kind in ("float64", "complex128")
        relative = (np.asarray(apart, np.float64) / np.abs(y.astype(wide))).astype(np.float64 if double else np.float32)
        if kind in ("float16", "bfloat16"):  # the quotient has the precision of its parts
            relative = relative.astype(a._m.dtype.np).astype(np.float32)
    apart = np.where(differ, apart, 0)
    relative = np.where(differ, relative, 0)
    for kind, values, allowed in (("absolute", apart, atol), ("relative", relative, rtol)):
        at = int(np.argmax(np.asarray(values, np.float64).reshape(-1)))
        value = values.reshape(-1)[at]
        number = int(value) if kind == "absolute" and whole else float(value)
        where = tuple(int(i) for i in np.unravel_index(at, values.shape)) if values.ndim else ()
        place = f" at index {where}" if values.ndim else ""
        limit = "" if exact else f" (up to {allowed} allowed)"
        lines.append(f"Greatest {kind} difference: {number}{place}{limit}")
    if not a._m.shape:
        _compare_scalars_text(a.item(), b.item(), rtol, atol, s, path)
    _fail("\n".join(lines), s, path)


def _values(t: Tensor) -> np.ndarray:
    values = concrete(t.detach())
    return values.astype(np.float32) if t._m.dtype.name == "bfloat16" else values


def _close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        if rtol == 0.0 and atol == 0.0:
            same = np.asarray(x == y)
        else:
            if not np.issubdtype(np.result_type(x, y), np.inexact):
                # Booleans have no difference, and that of unsigned numbers wraps around.
                x, y = x.astype(object) * 1, y.astype(object) * 1
                return np.asarray(np.abs(x - y) <= atol + rtol * np.abs(y)).astype(bool)
            same = np.asarray(x == y) | ((np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y))
        if equal_nan:
            same = same | (np.isnan(x) & np.isnan(y))
    return same


_OF_NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128, bool: dtypes.bool_}


def _compare_numbers(a: Any, b: Any, s: _Settings, path: tuple[Any, ...]) -> None:
    kinds = [next(d for c, d in reversed(_OF_NUMBERS.items()) if isinstance(v, c)) for v in (a, b)]
    rtol, atol = get_tolerances(*kinds, rtol=s.rtol, atol=s.atol)
    nans = s.equal_nan and a != a and b != b
    if nans or a == b:
        return
    with np.errstate(all="ignore"):
        finite = all(math.isfinite(abs(v)) for v in (a, b))
        if finite and abs(a - b) <= atol + rtol * abs(b):
            return
    _compare_scalars_text(a, b, rtol, atol, s, path)


def _compare_scalars_text(a: Any, b: Any, rtol: float, atol: float, s: _Settings, path: tuple[Any, ...]) -> None:
    exact = rtol == 0.0 and atol == 0.0
    apart = abs(a - b)
    relative = float("inf") if b == 0 else apart / abs(b)
    limits = ("", "") if exact else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    _fail(
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {b} but got {a}.\n"
        f"Absolute difference: {apart}{limits[0]}\nRelative difference: {relative}{limits[1]}",
        s,
        path,
    )


_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Compare as `assert_close` did before: wider tolerances, dtypes and devices may differ, NaNs agree.

    Args:
        actual: a tensor, or what one can be made of.
        expected: the same kind of thing.
        rtol: relative tolerance.
        atol: absolute tolerance; given together with `rtol`.
        equal_nan: whether two NaNs agree.
        msg: the text of the error.
    """
    warn.to_user(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
    )
    as_tensor = NAMESPACES[""]["as_tensor"]
    a, b = (t if isinstance(t, Tensor) else as_tensor(t) for t in (actual, expected))
    if rtol is None and atol is None:
        known = [_OLD_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(r for r, _ in known), max(x for _, x in known)
    if a.shape == b.shape and a.dtype != b.dtype:
        common = NAMESPACES[""]["promote_types"](a.dtype, b.dtype)
        a, b = a.detach().to(common), b.detach().to(common)
    assert_close(
        a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=False, check_dtype=False, msg=msg or None
    )
