"""dtype objects, their categories, and the one table of torch's promotion rules."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors.messages import immutable
from ..state import SETTINGS

BOOL, INTEGRAL, FLOATING, COMPLEX = range(4)
"""Categories in promotion order."""


class dtype:
    """A tensor element type.

    Example:
        >>> float32.itemsize, float32.is_floating_point
        (4, True)
    """

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "np", "type_name")
    name: str
    np: np.dtype
    category: int
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    type_name: str
    __numpy_dtype__: Any
    """What NumPy and JAX ask for, where `show_to_numpy` lets them."""

    def __new__(cls, *given: Any, **named: Any) -> dtype:
        if "ALIASES" in globals():  # all members have been made
            raise TypeError("cannot create 'torch.dtype' instances")
        return object.__new__(cls)

    def __init__(self, name: str, np_type: Any, category: int, type_name: str) -> None:
        kind = np.dtype(np_type)
        signed = not (category == BOOL or name.startswith("uint") or name == "float8_e8m0fnu")
        self._set(
            name=name,
            np=kind,
            category=category,
            itemsize=kind.itemsize,
            type_name=type_name,
            is_signed=signed,
            is_floating_point=category == FLOATING,
            is_complex=category == COMPLEX,
        )

    def _set(self, **facts: Any) -> None:
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    __setattr__, __delattr__ = immutable("torch.dtype")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self

    @property
    def abbr(self) -> str:
        """A short name: ``f32``, ``i64``, ``bf16``."""
        if self.category == BOOL:
            return "b8"
        short = self.name.replace("uint", "u").replace("int", "i").replace("float", "f").replace("complex", "c")
        return short.replace("_", "")

    def to_real(self) -> dtype:
        """The real dtype of a complex one; any other dtype is returned as it is."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex dtype that holds this floating one."""
        return to_complex(self)


def show_to_numpy(shown: bool) -> None:
    """Let NumPy (from 2.4 on) and JAX read these dtypes, as in ``jnp.zeros(3, x.dtype)``, or not, as with PyTorch's.

    A program for PyTorch may try whether an array of JAX's takes a dtype, to find out whose it is.
    """
    if shown:
        dtype.__numpy_dtype__ = property(lambda self: self.np)
    elif hasattr(dtype, "__numpy_dtype__"):
        del dtype.__numpy_dtype__


show_to_numpy(True)


def _by_name(name: str) -> dtype:
    return BY_NAME.get(name) or next(d for d in NAMED if d.name == name)


bool_ = dtype("bool", np.bool_, BOOL, "BoolTensor")
uint8 = dtype("uint8", np.uint8, INTEGRAL, "ByteTensor")
int8 = dtype("int8", np.int8, INTEGRAL, "CharTensor")
int16 = dtype("int16", np.int16, INTEGRAL, "ShortTensor")
int32 = dtype("int32", np.int32, INTEGRAL, "IntTensor")
int64 = dtype("int64", np.int64, INTEGRAL, "LongTensor")
uint16 = dtype("uint16", np.uint16, INTEGRAL, "UInt16Tensor")
uint32 = dtype("uint32", np.uint32, INTEGRAL, "UInt32Tensor")
uint64 = dtype("uint64", np.uint64, INTEGRAL, "UInt64Tensor")
float16 = dtype("float16", np.float16, FLOATING, "HalfTensor")
bfloat16 = dtype("bfloat16", jnp.bfloat16, FLOATING, "BFloat16Tensor")
float32 = dtype("float32", np.float32, FLOATING, "FloatTensor")
float64 = dtype("float64", np.float64, FLOATING, "DoubleTensor")
complex64 = dtype("complex64", np.complex64, COMPLEX, "ComplexFloatTensor")
complex128 = dtype("complex128", np.complex128, COMPLEX, "ComplexDoubleTensor")
float8_e4m3fn = dtype("float8_e4m3fn", jnp.float8_e4m3fn, FLOATING, "Float8_e4m3fnTensor")
float8_e5m2 = dtype("float8_e5m2", jnp.float8_e5m2, FLOATING, "Float8_e5m2Tensor")
float8_e4m3fnuz = dtype("float8_e4m3fnuz", jnp.float8_e4m3fnuz, FLOATING, "Float8_e4m3fnuzTensor")
float8_e5m2fnuz = dtype("float8_e5m2fnuz", jnp.float8_e5m2fnuz, FLOATING, "Float8_e5m2fnuzTensor")
float8_e8m0fnu = dtype("float8_e8m0fnu", jnp.float8_e8m0fnu, FLOATING, "Float8_e8m0fnuTensor")

FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu)
ALL = (
    bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32,
    float64, complex64, complex128, *FLOAT8,
)  # fmt: skip
BY_NAME: dict[str, dtype] = {d.name: d for d in ALL}
BY_NP = {d.np: d for d in ALL}


class NamedDtype(dtype):
    """A dtype of torch's that no tensor here can have; programs compare with it, and annotate."""

    __slots__ = ()

    def __init__(self, name: str, itemsize: int, category: int, *, signed: bool = True) -> None:
        super().__init__(name, f"V{itemsize}", category, name)
        self._set(is_signed=signed)


complex32 = NamedDtype("complex32", 4, COMPLEX)
NAMED = (
    complex32,
    NamedDtype("float4_e2m1fn_x2", 1, FLOATING),
    *[NamedDtype(f"int{n}", 1, INTEGRAL) for n in range(1, 8)],
    *[NamedDtype(f"uint{n}", 1, INTEGRAL, signed=False) for n in range(1, 8)],
    NamedDtype("qint8", 1, INTEGRAL),
    NamedDtype("qint32", 4, INTEGRAL),
    *[NamedDtype(n, 1, INTEGRAL, signed=False) for n in ("quint8", "quint4x2", "quint2x4")],
)
ALIASES = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}
_REAL: dict[dtype, dtype] = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX = {float32: complex64, float64: complex128, float16: complex64, bfloat16: complex64}
_PYTHON = {bool: bool_, int: int64}

SETTINGS.default_dtype = float32


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats."""
    return SETTINGS.default_dtype


def to_complex(d: dtype) -> dtype:
    """The complex dtype that a floating dtype widens to."""
    if d.is_complex:
        return d
    if d not in _COMPLEX:
        raise RuntimeError(f"Unknown Complex ScalarType for {_scalar_type(d)}")
    return _COMPLEX[d]


def from_np(np_dtype: Any) -> dtype:
    """The dtype object for a numpy dtype, or torch's TypeError."""
    try:
        return BY_NP[np.dtype(np_dtype)]
    except KeyError:
        raise TypeError(
            f"can't convert np.ndarray of type {np.dtype(np_dtype)}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, and bool."
        ) from None


def of_python(kind: type) -> dtype:
    """The dtype a Python number of this type would get as a tensor."""
    if kind in _PYTHON:
        return _PYTHON[kind]
    if issubclass(kind, float):
        return SETTINGS.default_dtype
    if issubclass(kind, complex):
        return to_complex(SETTINGS.default_dtype)
    if issubclass(kind, int):
        return int64
    raise TypeError(f"not a number: {kind.__name__}")


def to_dtype(spec: Any) -> dtype:
    """A dtype for a user's dtype argument: a dtype, or Python's float, int, bool, complex."""
    if isinstance(spec, dtype):
        return spec
    if spec in (bool, int):
        return _PYTHON[spec]
    if spec is float:
        return float64
    if spec is complex:
        return complex128
    raise TypeError(f"dtype must be torch.dtype, not {type(spec).__name__}")


_SIGNED_RANK = [int8, int16, int32, int64]
_FLOAT_RANK = [float16, float32, float64]
_SHELL = (uint16, uint32, uint64)


@functools.cache
def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that holds both, by torch's table."""
    if a is b:
        return a
    if isinstance(a, NamedDtype) or isinstance(b, NamedDtype):
        raise NotImplementedError(f"tensors of dtype {a} and {b} are not supported both")
    low, high = (b, a) if a.category > b.category else (a, b)
    if a in FLOAT8 or b in FLOAT8:
        raise _unpromotable("Float8 Types is", a, b)
    if (a in _SHELL or b in _SHELL) and high.category != FLOATING:
        raise _unpromotable("uint16, uint32, uint64 types is", a, b)
    if high.category == COMPLEX:
        return complex128 if complex128 in (a, b) or low is float64 else complex64
    if low.category < high.category:
        return high
    if high.category == FLOATING:
        if {a, b} == {float16, bfloat16}:
            return float32
        return max(a, b, key=lambda d: _FLOAT_RANK.index(float16 if d is bfloat16 else d))
    if uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return max(a, b, key=_SIGNED_RANK.index)


def _unpromotable(what: str, a: dtype, b: dtype) -> RuntimeError:
    return RuntimeError(
        f"Promotion for {what} not supported, attempted to promote {_scalar_type(a)} and {_scalar_type(b)}"
    )


def _scalar_type(d: dtype) -> str:
    """torch's C++ name of a dtype, as its messages print it."""
    special = {
        "uint8": "Byte",
        "int8": "Char",
        "int16": "Short",
        "int32": "Int",
        "int64": "Long",
        "float16": "Half",
        "float32": "Float",
        "float64": "Double",
        "bool": "Bool",
        "bfloat16": "BFloat16",
        "complex64": "ComplexFloat",
        "complex128": "ComplexDouble",
    }
    return special.get(
        d.name, d.name[0].upper() + d.name[1:].replace("int", "Int", 1) if "uint" in d.name else d.name.capitalize()
    )


scalar_type_name = _scalar_type


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return to_complex(higher) if lower.is_complex else higher
    if lower.is_complex and higher in _SHELL:
        return lower
    if higher.category == BOOL or lower.category >= FLOATING:
        return promote_types(higher, lower)
    return higher


def result_type_of(dimmed: list[dtype], zero_dim: list[dtype], numbers: list[dtype]) -> dtype:
    """torch's result type from the dtypes of tensors, 0-dim tensors and Python numbers."""
    groups = [functools.reduce(promote_types, g) if g else None for g in (dimmed, zero_dim, numbers)]
    out = _combine(groups[0], _combine(groups[1], groups[2]))
    if out is None:
        raise TypeError("result_type needs at least one operand")
    return out


def can_cast(from_: dtype, to: dtype) -> bool:
    """Return whether torch allows an implicit (in-place or out=) conversion."""
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and to.category < FLOATING:
        return False
    return not (from_.category != BOOL and to.category == BOOL)


def not_castable(from_: dtype, to: dtype) -> RuntimeError:
    """Return what torch raises when a result of a wider category is to go into a tensor."""
    what, where = scalar_type_name(from_), scalar_type_name(to)
    return RuntimeError(f"result type {what} can't be cast to the desired output type {where}")


_DIGITS = {"float16": 3, "bfloat16": 2, "float32": 6, "float64": 15}
"""Decimal digits that a dtype always keeps; the float8 types keep none."""
_REPORTED_EPS = {"float8_e5m2fnuz": 0.125}
"""Where torch reports another eps than the dtype has."""


def _info_dtype(what: str, given: Any) -> dtype:
    if isinstance(given, dtype):
        return given
    if given in (float, int, bool, complex):
        return to_dtype(given)
    raise TypeError(f"{what}(): argument 'type' (position 1) must be torch.dtype, not {type(given).__name__}")


class _Info:
    """Limits of one dtype; equal to those of the same dtype."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class finfo(_Info):
    """Numerical limits of a floating or complex dtype.

    Example:
        >>> finfo(float32).max
        3.4028234663852886e+38
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        (given,) = args or tuple(kwargs.values()) or (SETTINGS.default_dtype,)
        type = _info_dtype("finfo", given)
        if type.category < FLOATING:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        real = type.to_real()
        info = jnp.finfo(real.np)
        self.bits = int(info.bits)
        self.eps = _REPORTED_EPS.get(real.name, float(info.eps))
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = 10.0 ** -_DIGITS.get(real.name, 0)
        self.dtype = real.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo(_Info):
    """Numerical limits of an integer dtype.

    Example:
        >>> iinfo(int8).max
        127
    """

    def __init__(self, type: Any) -> None:
        type = _info_dtype("iinfo", type)
        if type.category == BOOL:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.category != INTEGRAL:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        info = np.iinfo(type.np)
        self.bits, self.min, self.max, self.dtype = (info.bits, int(info.min), int(info.max), type.name)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
