"""The comparison behind `TestCase.assertEqual`: assert_close, on more kinds of things and less strictly."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import Any

import numpy as np

from ..._engine.entry.bind import NAMESPACES
from ..._engine.memory.tensor import Tensor
from .._comparison import _compare_numbers, _compare_tensors, _fail, _Settings, get_tolerances

Path = tuple[Any, ...]
_FLOAT32 = (1.3e-6, 1e-5)
"""Tolerances of Python's floats: what they are compared with is mostly of single precision."""
_NUMBERS = int | float | complex | np.number


def check_equal(
    x: Any,
    y: Any,
    *,
    atol: float | None,
    rtol: float | None,
    at_least: tuple[float, float],
    msg: str | Callable[[str], str] | None,
    **options: bool,
) -> None:
    """Raise AssertionError unless `x` equals `y`.

    Args:
        x: anything.
        y: anything; a tensor may be compared with an array, a number or a nested list.
        atol: absolute tolerance, given together with `rtol`; by default what suits the dtypes.
        rtol: relative tolerance.
        at_least: relative and absolute tolerance that the default ones are raised to.
        msg: what to add to the message, or a function of the message that it would have.
        **options: `equal_nan`, and which attributes of tensors must agree.
    """
    if (atol is None) != (rtol is None):
        get_tolerances(rtol=rtol, atol=atol)
    own = (lambda text: f"{text}\n{msg}") if isinstance(msg, str) else msg if callable(msg) else None
    s = _Settings(atol=atol, rtol=rtol, at_least=at_least, msg=own, **options)
    _compare(x, y, s, ())


def _compare(x: Any, y: Any, s: Any, path: Path) -> None:
    if x is None or y is None:
        if x is not y:
            _fail(f"None mismatch: {x} is not {y}", s, path)
    elif _is_array(x) or _is_array(y):
        _compare_arrays(x, y, s, path)
    elif isinstance(x, bool | np.bool_) and isinstance(y, bool | np.bool_):
        if bool(x) is not bool(y):
            _fail(f"Booleans mismatch: {bool(x)} is not {bool(y)}", s, path)
    elif isinstance(x, _NUMBERS) and isinstance(y, _NUMBERS):
        _numbers(_plain(x), _plain(y), s, path)
    elif isinstance(x, str) and isinstance(y, str):
        if x != y:
            lines = "".join(difflib.ndiff(_lines(x), _lines(y)))
            _fail(f"String comparison failed: {x!r} != {y!r}\n{lines}", s, path)
    else:
        _compare_containers(x, y, s, path)


def _lines(text: str) -> list[str]:
    found = text.splitlines(keepends=True)
    return [text + "\n"] if found == [text.rstrip("\r\n")] else found


def _compare_containers(x: Any, y: Any, s: Any, path: Path) -> None:
    if isinstance(x, AbstractSet) and isinstance(y, AbstractSet):
        _compare_sets(x, y, s, path)
    elif isinstance(x, Mapping) and isinstance(y, Mapping):
        _compare_mappings(x, y, s, path)
    elif all(isinstance(v, Sequence) and not isinstance(v, str) for v in (x, y)):
        if len(x) != len(y):
            _fail(f"The length of the sequences mismatch: {len(x)} != {len(y)}", s, path)
        for i, (a, b) in enumerate(zip(x, y)):
            _compare(a, b, s, (*path, i))
    elif isinstance(x, type) and isinstance(y, type):
        if x is not y:
            _fail(f"Type comparison failed: {x} != {y}", s, path)
    elif not _same_object(x, y):
        _fail(f"Object comparison failed: {x!r} != {y!r}", s, path)


def _same_object(x: Any, y: Any) -> bool:
    return x is y or bool(x == y)


def _compare_sets(x: AbstractSet[Any], y: AbstractSet[Any], s: Any, path: Path) -> None:
    if x == y:
        return
    text = "Set comparison failed:"
    for here, there, which in ((x, y, ("first", "second")), (y, x, ("second", "first"))):
        only = [repr(v) for v in here if v not in there]
        if only:
            lead = " " if which[0] == "first" else "\n"
            text += f"{lead}Items in the {which[0]} set but not the {which[1]}:\n" + "\n".join(only)
    _fail(text, s, path)


def _compare_mappings(x: Mapping[Any, Any], y: Mapping[Any, Any], s: Any, path: Path) -> None:
    missing = sorted((k for k in y if k not in x), key=str)
    extra = sorted((k for k in x if k not in y), key=str)
    if missing or extra:
        text = "The keys of the mappings do not match:"
        text += f"\nMissing keys in the actual mapping: {missing}" if missing else ""
        text += f"\nAdditional keys in the actual mapping: {extra}" if extra else ""
        _fail(text, s, path)
    for k in x:
        _compare(x[k], y[k], s, (*path, k))


def _is_array(v: Any) -> bool:
    return isinstance(v, Tensor | np.ndarray) or (hasattr(v, "aval") and hasattr(v, "dtype"))


def _plain(v: Any) -> Any:
    return v.item() if isinstance(v, np.generic) else v


def _compare_arrays(x: Any, y: Any, s: Any, path: Path) -> None:
    numbers = bool | np.bool_ | int | float | complex | np.number
    if isinstance(x, numbers) or isinstance(y, numbers):
        a, b = _one_number(x), _one_number(y)
        if isinstance(a, bool) and isinstance(b, bool):
            _compare(a, b, s, path)
        else:
            _numbers(a, b, s, path)
        return
    as_tensor = NAMESPACES[""]["as_tensor"]
    if isinstance(x, Tensor) and isinstance(y, Sequence):
        y = as_tensor(y, dtype=x.dtype, device=x.device)
    elif isinstance(y, Tensor) and isinstance(x, Sequence):
        x = as_tensor(x, dtype=y.dtype, device=y.device)
    if not (_is_array(x) and _is_array(y)):
        _fail(f"Object comparison failed: {x!r} != {y!r}", s, path)
    a, b = (v if isinstance(v, Tensor) else as_tensor(v) for v in (x, y))
    if s.exact_layout and a.layout != b.layout:
        _fail(f"The values for attribute 'layout' do not match: {a.layout} != {b.layout}.", s, path)
    if a.is_conj() or b.is_conj():
        a, b = a.resolve_conj(), b.resolve_conj()
    same_kind = a.dtype == b.dtype
    rtol, atol = _wide_enough((a.dtype, b.dtype), s)
    if not s.exact_dtype and not same_kind and a.shape == b.shape:
        common = NAMESPACES[""]["promote_types"](a.dtype, b.dtype)
        a, b = a.detach().to(common), b.detach().to(common)
    checks = _Settings(
        rtol=rtol,
        atol=atol,
        equal_nan=s.equal_nan,
        check_device=s.exact_device,
        msg=s.msg,
        check_dtype=s.exact_dtype,
        check_stride=s.exact_stride,
    )
    _compare_tensors(a, b, checks, path)


def _wide_enough(kinds: Sequence[Any], s: Any) -> tuple[float, float]:
    rtol, atol = get_tolerances(*kinds, rtol=s.rtol, atol=s.atol)
    if s.rtol is not None:
        return rtol, atol
    return max(rtol, s.at_least[0]), max(atol, s.at_least[1])


def _one_number(v: Any) -> Any:
    """A number, or the only element of a tensor."""
    if not _is_array(v):
        return _plain(v)
    count = v.numel() if isinstance(v, Tensor) else v.size
    if count > 1:
        raise ValueError(
            f"Only single element tensor-likes can be compared against a number. Got {count} elements instead."
        )
    return v.detach().reshape(()).item() if isinstance(v, Tensor) else v.reshape(()).item()


def _numbers(x: Any, y: Any, s: Any, path: Path) -> None:
    exact = all(isinstance(v, int) for v in (x, y))
    rtol, atol = s.rtol, s.atol
    if rtol is None:
        base = (0.0, 0.0) if exact else _FLOAT32
        rtol, atol = max(base[0], s.at_least[0]), max(base[1], s.at_least[1])
    checks = _Settings(rtol=rtol, atol=atol, equal_nan=s.equal_nan, msg=s.msg)
    _compare_numbers(x, y, checks, path)
