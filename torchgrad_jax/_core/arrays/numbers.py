"""Python numbers that a dtype cannot hold, and what torch says of them."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors.checks import fail_if
from ..state import MODES
from .dtypes import BOOL, FLOATING, INTEGRAL, dtype, finfo

# Names of dtypes as C++ has them.
_C_NAMES = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
}
_LEAST_NORMAL = float(np.finfo(np.float32).smallest_normal)


def c_name(dt: dtype) -> str:
    """A dtype as torch's complaints about numbers call it."""
    return _C_NAMES.get(dt.name, dt.name)


def overflow(shown: str) -> RuntimeError:
    """torch's complaint about a number that a dtype cannot hold."""
    return RuntimeError(f"value cannot be converted to type {shown} without overflow")


@functools.cache
def range_of(dt: dtype) -> tuple[Any, Any]:
    """The least and the largest number that a dtype takes."""
    if dt.category == INTEGRAL:
        info = np.iinfo(dt.np)
        # Unsigned dtypes let small negative numbers wrap around.
        return (-int(info.max) if info.min == 0 else int(info.min)), int(info.max)
    limit = float(finfo(dt).max)
    return -limit, limit


def _least(dt: dtype) -> int:
    """The least number that an integer dtype holds; a number with a fraction may not wrap around below it."""
    return int(np.iinfo(dt.np).min)


def may_not_fit(have: dtype, want: dtype) -> bool:
    """Return whether a dtype has numbers that another one does not hold."""
    return have is not want and want.category != BOOL and not np.can_cast(have.np, want.np)


def check_read(array: Any, dt: dtype) -> None:
    """`check_fits` for an array of one number; a compiled function checks one that is traced when it runs."""
    if isinstance(array, jax.core.Tracer):
        if dt.category <= FLOATING and jnp.iscomplexobj(array):
            raise overflow(c_name(dt))
        if MODES.run.may_check_later:
            MODES.run.uses.check([array], lambda found: _check_range(found[0], dt))
        return
    value = np.asarray(array)
    check_fits(value.item() if value.dtype.kind in "biufc" else float(value), dt)


def _check_range(x: Any, dt: dtype) -> None:
    """`check_fits` of a real or complex array for a numeric dtype, traced or not."""
    if jnp.iscomplexobj(x):
        _check_range(x.real, dt)
        _check_range(x.imag, dt)
        return
    low, high = range_of(dt)
    if jnp.issubdtype(x.dtype, jnp.integer):
        own = np.iinfo(x.dtype)
        failed = (x < max(low, int(own.min))) | (x > min(high, int(own.max)))
    elif dt.category == INTEGRAL:
        failed = ~((x >= _least(dt)) & (x <= high))
    else:
        failed = (abs(x) > high) & (abs(x) != math.inf)
    fail_if(failed, lambda: overflow(c_name(dt)))


def check_fits(value: Any, dt: dtype) -> None:
    """Raise unless the dtype holds the number: infinities and nan only where it is floating."""
    kind = dt.category
    if kind == BOOL:
        return
    if kind > FLOATING:
        low, high = range_of(dt)
        if any(math.isfinite(v) and not low <= v <= high for v in (value.real, value.imag)):
            raise overflow(c_name(dt))
        return
    if isinstance(value, complex):
        if value.imag != 0:
            raise overflow(c_name(dt))
        value = value.real
    if isinstance(value, float) and not math.isfinite(value):
        if kind == INTEGRAL:
            raise overflow(c_name(dt))
        return
    low, high = range_of(dt)
    if kind == INTEGRAL and isinstance(value, float):
        low, high = _least(dt), float(high)  # compared as float64, so 2.0 ** 63 fits int64
    if not low <= value <= high:
        raise overflow(c_name(dt))


def flushed_by_kernels(value: Any) -> bool:
    """Whether a Python number is subnormal in float32: a kernel takes numbers as float64, and its cast flushes them."""
    return value.__class__ is float and 0 < abs(value) < _LEAST_NORMAL
