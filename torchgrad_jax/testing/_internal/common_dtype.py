"""Groups of dtypes that tests run over; `<group>_and(*more)` is a group with some added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._core.arrays import dtypes as _d
from ..._core.arrays.dtypes import dtype
from ._missing import missing_in

_floating = (_d.float32, _d.float64)
_complex = (_d.complex64, _d.complex128)
_integral = (_d.uint8, _d.int8, _d.int16, _d.int32, _d.int64)
_half = (_d.float16,)


def _group(name: str, *members: dtype) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def group() -> tuple[dtype, ...]:
        return _dispatch_dtypes(members)

    def group_and(*more: dtype) -> tuple[dtype, ...]:
        wrong = [m for m in more if not isinstance(m, dtype)]
        if wrong:
            raise AssertionError(f"{name}_and(): {wrong[0]!r} is not a dtype")
        return _dispatch_dtypes((*members, *more))

    group.__name__, group_and.__name__ = name, f"{name}_and"
    group.__doc__ = f"{', '.join(m.name for m in members) or 'No dtype'}."
    group_and.__doc__ = f"`{name}()`, followed by the given dtypes."
    return group, group_and


empty_types, _ = _group("empty_types")
floating_types, floating_types_and = _group("floating_types", *_floating)
floating_types_and_half, _ = _group("floating_types_and_half", *_floating, *_half)
floating_and_complex_types, floating_and_complex_types_and = _group("floating_and_complex_types", *_floating, *_complex)
double_types, _ = _group("double_types", _d.float64, _d.complex128)
integral_types, integral_types_and = _group("integral_types", *_integral)
complex_types, complex_types_and = _group("complex_types", *_complex)
all_types, all_types_and = _group("all_types", *_floating, *_integral)
all_types_and_half, _ = _group("all_types_and_half", *_floating, *_integral, *_half)
all_types_and_complex, all_types_and_complex_and = _group("all_types_and_complex", *_floating, *_integral, *_complex)

_float8 = (_d.float8_e4m3fn, _d.float8_e5m2, _d.float8_e4m3fnuz, _d.float8_e5m2fnuz)
float8_types, float8_types_and = _group("float8_types", *_float8)
_, all_types_complex_float8_and = _group("all_types_complex_float8", *_floating, *_integral, *_complex, *_float8)
all_mps_types, all_mps_types_and = _group("all_mps_types", _d.float32, _d.float16, *_integral)


class _dispatch_dtypes(tuple[dtype, ...]):
    """A group of dtypes that others are added to."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            raise AssertionError(f"groups of dtypes are tuples, got {type(other).__name__}")
        return _dispatch_dtypes(tuple.__add__(self, other))


float_to_corresponding_complex_type_map = {_d.float32: _d.complex64, _d.float64: _d.complex128}


def custom_types(*members: dtype) -> tuple[dtype, ...]:
    """The given dtypes."""
    return empty_types() + _group("custom_types")[1](*members)


def get_all_dtypes(
    include_half: bool = True,
    include_bfloat16: bool = True,
    include_bool: bool = True,
    include_complex: bool = True,
    include_complex32: bool = False,
    include_qint: bool = False,
) -> list[dtype]:
    """Every dtype that tests use."""
    if include_qint:
        raise NotImplementedError("get_all_dtypes(include_qint=True): there are no quantized dtypes")
    found = get_all_int_dtypes() + get_all_fp_dtypes(include_half, include_bfloat16)
    found += [_d.bool_] if include_bool else []
    return found + (get_all_complex_dtypes(include_complex32) if include_complex else [])


def get_all_math_dtypes(device: str) -> list[dtype]:
    """The dtypes that one computes with on a kind of device."""
    half = str(device).startswith("cuda")
    return get_all_int_dtypes() + get_all_fp_dtypes(half, False) + get_all_complex_dtypes()


def get_all_complex_dtypes(include_complex32: bool = False) -> list[dtype]:
    """The complex dtypes."""
    if include_complex32:
        raise NotImplementedError("get_all_complex_dtypes(include_complex32=True): there is none")
    return list(_complex)


def get_all_int_dtypes() -> list[dtype]:
    """The integer dtypes."""
    return list(_integral)


def get_all_fp_dtypes(include_half: bool = True, include_bfloat16: bool = True) -> list[dtype]:
    """The floating dtypes."""
    return [*_floating, *(_half if include_half else ()), *([_d.bfloat16] if include_bfloat16 else [])]


def _highest(of: Sequence[dtype], device: Any) -> dtype:
    return of[0] if "mps" in str(device) else of[1]


def get_all_qint_dtypes() -> list[dtype]:
    """Quantized dtypes: there are none."""
    return []


def highest_precision_float(device: Any) -> dtype:
    """The widest floating dtype of a device."""
    return _highest(_floating, device)


def highest_precision_complex(device: Any) -> dtype:
    """The widest complex dtype of a device."""
    return _highest(_complex, device)


__getattr__ = missing_in("common_dtype")
