"""Tensors filled by a rule: ranges, the identity, indices of triangles.

All are computed on the host, in the arithmetic of torch's kernels: results of `arange` may differ from
torch's in the last bit, since torch's own depend on the processor's vector width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.arrays import devices, dtypes
from .._core.arrays.meta import meta
from .._core.errors import warn
from .._core.random.rounding import fma64, halves, spaced
from .._engine.entry.arguments import as_int
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from . import data as data_
from .arguments import check_shape, factory, integer, is_number, number, options, real, unmatched, wrong
from .fresh import fresh, from_host, into, known, put, remember
from .traced_spans import span, traced

_HALVES = (dtypes.float16, dtypes.bfloat16)
_NUMBERS = frozenset({int, float})
Values = Callable[[dtypes.dtype], np.ndarray]


def _deliver(
    fn: str, values: Values, n: int, out: Any, dt: Any, dev: devices.device, device: Any, requires_grad: bool
) -> Tensor:
    """A tensor of computed values, or the same written into ``out``."""
    if out is None:
        return from_host(values(dt), dev, requires_grad)
    return into(fn, out, (n,), dt, device, requires_grad, lambda d, v: put(values(d), v))


def refuse(kernel: str, dt: dtypes.dtype, *kinds: Any) -> None:
    """torch's complaint about a dtype that a kernel does not have."""
    if dt in kinds or dt in dtypes.FLOAT8:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.scalar_type_name(dt)}'")


_UNSIGNED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
_COMPLEX = (dtypes.complex64, dtypes.complex128)


def _bound(fn: str, name: str, value: Any, position: int) -> Any:
    out = number(fn, name, value, position)
    if isinstance(out, complex):
        raise data_.overflow("double")
    return out


# --- arange ---------------------------------------------------------------------------------------


@factory
def arange(
    *args: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """Numbers from `start` (0) up to but not including `end` in steps of `step` (1).

    Example:
        >>> arange(1, 4)
        tensor([1, 2, 3])
    """
    if len(args) == 1 and args[0].__class__ is int and start is None and end is None and step is None:
        first, last, by = 0, args[0], 1
    else:
        given = {"start": start, "end": end, "step": step}
        named = {k: v for k, v in given.items() if v is not None}
        bounds = _range_arguments("arange", args, named)
        first, last, by = (_bound("arange", k, v, 1) for k, v in zip(("start", "end", "step"), bounds))
    dt, dev = options("arange", dtype, layout, device, pin_memory, requires_grad)
    if out is None and dt is None:
        floating = any(isinstance(v, float) for v in (first, last, by))
        dt = dtypes.get_default_dtype() if floating else dtypes.int64
    target = dt if out is None else out._m.dtype if isinstance(out, Tensor) else None
    if target is None:
        raise wrong("arange", "out", "Tensor", out)
    n = _count(first, last, by, target)
    if out is not None and out._m.numel not in (0, n):
        warn.to_user(
            f"The number of elements in the out tensor of shape {list(out._m.shape)} is {out._m.numel} which does not "
            f"match the computed number of elements {n}. Note that this may occur as a result of rounding error. "
            f"The out tensor will be resized to a tensor of shape ({n},)."
        )
    if out is None:
        return _whole_numbers(first, by, n, target, dev, requires_grad)
    shape = out._m.shape if out._m.numel == n else (n,)

    def values(d: dtypes.dtype, v: devices.device) -> Any:
        return put(_steps(first, by, n, d).reshape(shape), v)

    return into("arange", out, shape, dt, device, requires_grad, values)


def _whole_numbers(first: Any, by: Any, n: int, dt: dtypes.dtype, dev: devices.device, requires_grad: bool) -> Tensor:
    """The numbers of a range. A range of integers is cached."""
    if first.__class__ is not int or by.__class__ is not int:
        return from_host(_steps(first, by, n, dt), dev, requires_grad)
    return _kept(("arange", first, by, n, dt, dev), lambda: _steps(first, by, n, dt), n, dt, dev, requires_grad)


def _kept(
    key: Any, values: Callable[[], np.ndarray], n: int, dt: dtypes.dtype, dev: devices.device, requires_grad: bool
) -> Tensor:
    """A tensor of `n` values that are computed once for a key."""
    array = known(key)
    if array is None:
        array = remember(key, put(values(), dev))
    return fresh(array, meta((n,), dt, dev), requires_grad)


def _range_arguments(fn: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """start, end and step from positional and named arguments."""
    names = ("end",) if len(args) == 1 and "end" not in named else ("start", "end", "step")
    if len(args) == 1 and not named and not is_number(args[0]):
        raise wrong(fn, "end", "Number", args[0], 1)
    found = dict(zip(names, args))
    clash = [k for k in named if k in found]
    found = {**found, **named}
    bad = len(args) > 3 or clash or "end" not in found or ("step" in found and "start" not in found)
    if bad or not all(is_number(v) for v in found.values()):
        raise unmatched(fn)
    return found.get("start", 0), found["end"], found.get("step", 1)


def _check_ends(first: Any, last: Any, by: Any) -> None:
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first:g} -> {last:g}")
    if (by > 0 and last < first) or (by < 0 and first < last):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _count(first: Any, last: Any, by: Any, dt: dtypes.dtype) -> int:
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if dt is dtypes.int64 and all(math.isfinite(v) for v in (first, last, by)):
        first, last, by = int(first), int(last), int(by)
        if by == 0:
            raise ValueError("step must be nonzero")
    _check_ends(first, last, by)
    if math.isnan(by):
        raise RuntimeError("step must be nonzero")
    n = math.ceil((last - first) / by)
    check_shape((n,), dt.itemsize)
    return n


def _steps(first: Any, by: Any, n: int, dt: dtypes.dtype) -> np.ndarray:
    refuse("arange_cpu", dt, dtypes.bool_, *_UNSIGNED, *_COMPLEX)
    if dt.category == dtypes.INTEGRAL:
        return (int(first) + np.arange(n, dtype=np.int64) * int(by)).astype(dt.np)
    return data_.convert(float(first) + np.arange(n, dtype=np.float64) * float(by), dt)


@factory
def range(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """Numbers from `start` up to and including `end`; deprecated in favour of `arange`."""
    warn.to_user(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    first, last, by = (
        _bound("range", k, v, i + 1) for i, (k, v) in enumerate(zip(("start", "end", "step"), (start, end, step)))
    )
    dt, dev = options("range", dtype, layout, device, pin_memory, requires_grad)
    if by == 0:
        raise RuntimeError("step must be nonzero")
    _check_ends(first, last, by)
    n = int((last - first) / by) + 1
    dt = dt or (None if out is not None else dtypes.get_default_dtype())
    return _deliver("range", lambda d: _steps(first, by, n, d), n, out, dt, dev, device, requires_grad)


# --- linspace and logspace ------------------------------------------------------------------------


def _ends(fn: str, start: Any, end: Any, steps: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, int]:
    if start.__class__ in _NUMBERS and end.__class__ in _NUMBERS and steps.__class__ is int and steps >= 0:
        return start, end, steps
    ok = all(is_number(v) or isinstance(v, Tensor) for v in (start, end))
    n = None if steps is None or isinstance(steps, bool) else as_int(steps)
    if not ok or n is None:
        raise unmatched(fn)
    values = []
    given = [(n, v) for n, v in (("start", start), ("end", end)) if isinstance(v, Tensor)]
    if any(v._m.ndim for _, v in given):
        counted = " and ".join(f"{n} with {v._m.ndim} dimension(s)" for n, v in given)
        raise RuntimeError(f"{fn} only supports 0-dimensional start and end tensors, but got {counted}.")
    for name, v in (("start", start), ("end", end)):
        if traced(v):
            values.append(v)
        else:
            values.append(concrete(v).item() if isinstance(v, Tensor) else number(fn, name, v))
    if n < 0:
        raise RuntimeError("number of steps must be non-negative")
    return values[0], values[1], n


def _span_dtype(fn: str, values: tuple[Any, ...], dt: dtypes.dtype | None, out: Any) -> dtypes.dtype | None:
    """The dtype of evenly spaced values: complex ends make it complex and refuse real dtypes."""
    asked = out._m.dtype if isinstance(out, Tensor) else dt
    if any(isinstance(v, complex) for v in values):
        inferred = dtypes.to_complex(dtypes.get_default_dtype())
        if asked is not None and not asked.is_complex:
            shown = "c10::complex<float>" if inferred is dtypes.complex64 else "c10::complex<double>"
            raise RuntimeError(
                f"torch.{fn}(): inferred dtype {shown} can't be safely cast to passed dtype "
                f"{dtypes.scalar_type_name(asked)}"
            )
        return dt or inferred if out is None else dt
    return dt or dtypes.get_default_dtype() if out is None else dt


@factory
def linspace(
    start: Any,
    end: Any,
    steps: Any = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
    first, last, n = _ends("linspace", start, end, steps, {})
    dt, dev = options("linspace", dtype, layout, device, pin_memory, requires_grad)
    if out is None and (traced(first) or traced(last)):
        return span(first, last, n, dt, dev)
    dt = _span_dtype("linspace", (first, last), dt, out)
    if out is None and dt is not None and type(first) in _NUMBERS and type(last) in _NUMBERS:
        key = ("linspace", repr(first), repr(last), n, dt, dev)
        return _kept(key, lambda: _spaced(first, last, n, dt), n, dt, dev, requires_grad)
    return _deliver("linspace", lambda d: _spaced(first, last, n, d), n, out, dt, dev, device, requires_grad)


def _spaced(first: Any, last: Any, n: int, dt: dtypes.dtype) -> np.ndarray:
    refuse("linspace_cpu", dt, dtypes.bool_, *_UNSIGNED)
    check_shape((n,), dt.itemsize)
    a, b = data_.number_as(first, dt), data_.number_as(last, dt)
    if n < 2:
        return np.full(n, a, dt.np)
    lower, away = halves(n)
    with np.errstate(all="ignore"):
        if dt.category == dtypes.INTEGRAL:
            step = (float(b) - float(a)) / (n - 1)
            near = np.where(
                lower, fma64(away.astype(np.float64), step, float(a)), fma64(away.astype(np.float64), -step, float(b))
            )
            return near.astype(dt.np)
        if dt.is_complex:
            step = (b - a) / dt.np.type(n - 1)
            return np.where(lower, a + step * away.astype(dt.np), b - step * away.astype(dt.np)).astype(dt.np)
        if dt in _HALVES:
            step = data_.convert(np.asarray((np.float32(b - a)) / np.float32(n - 1)), dt)
            move = step * away.astype(dt.np)
            return np.where(lower, a + move, b - move)
        return spaced(a, b, n)


@factory
def logspace(
    start: Any,
    end: Any,
    steps: Any = None,
    base: Any = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """`base` to the power of `steps` evenly spaced exponents from `start` to `end`."""
    first, last, n = _ends("logspace", start, end, steps, {})
    power = real("logspace", "base", base, 4)
    dt, dev = options("logspace", dtype, layout, device, pin_memory, requires_grad)
    if out is None and (traced(first) or traced(last)):
        return span(first, last, n, dt, dev, power)
    dt = _span_dtype("logspace", (first, last), dt, out)
    return _deliver("logspace", lambda d: _powers(first, last, n, power, d), n, out, dt, dev, device, requires_grad)


def _powers(first: Any, last: Any, n: int, base: float, dt: dtypes.dtype) -> np.ndarray:
    refuse("logspace_cpu", dt, dtypes.bool_, *_UNSIGNED)
    if dt in _HALVES:
        return data_.convert(_powers(first, last, n, base, dtypes.float32), dt)
    work = dtypes.float32 if dt.category == dtypes.INTEGRAL else dt
    with np.errstate(all="ignore"):
        exponents = data_.number_as(first, work).reshape(1)[:n] if n < 2 else _spaced(first, last, n, work)
        wide = np.complex128 if dt.is_complex else np.float64
        values = np.power(wide(base), exponents.astype(wide))
    return data_.convert(values.astype(work.np), dt)


# --- identity and triangles -----------------------------------------------------------------------


@factory
def eye(
    n: Any,
    m: Any = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """Ones on the diagonal of an n by m matrix, zeros elsewhere."""
    rows = integer("eye", "n", n, 1)
    columns = rows if m is None else integer("eye", "m", m, 2)
    for name, size in (("n", rows), ("m", columns)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    dt, dev = options("eye", dtype, layout, device, pin_memory, requires_grad)
    if out is None:
        return from_host(np.eye(rows, columns, dtype=(dt or dtypes.get_default_dtype()).np), dev, requires_grad)
    return into(
        "eye", out, (rows, columns), dt, device, requires_grad, lambda d, v: put(np.eye(rows, columns, dtype=d.np), v)
    )


def _triangle(fn: str, doc: str) -> Any:
    def indices(
        row: Any,
        col: Any,
        offset: Any = 0,
        *,
        dtype: Any = None,
        device: Any = None,
        layout: Any = None,
        pin_memory: Any = False,
    ) -> Tensor:
        n, m, k = (integer(fn, "row", row, 1), integer(fn, "col", col, 2), integer(fn, "offset", offset, 3))
        dt, dev = options(fn, dtype, layout, device, pin_memory, False)
        for name, size in (("row", n), ("col", m)):
            if size < 0:
                raise RuntimeError(f"{name} must be non-negative, got{size}")
        dt = dt or dtypes.int64
        if dt not in (dtypes.int32, dtypes.int64):
            raise NotImplementedError(f"\"{fn}\" not implemented for '{dtypes.scalar_type_name(dt)}'")
        found = np.tril_indices(n, k, m) if fn == "tril_indices" else np.triu_indices(n, k, m)
        return from_host(np.stack(found).astype(dt.np), dev)

    indices.__name__ = fn
    indices.__doc__ = doc
    return factory(indices)


tril_indices = _triangle("tril_indices", "Row and column numbers of the lower triangle of a matrix.")
triu_indices = _triangle("triu_indices", "Row and column numbers of the upper triangle of a matrix.")
