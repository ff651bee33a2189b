"""Elementwise functions and operators that torch composes, or that choose among overloads."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING
from .._core.arrays.numbers import check_fits
from .._core.arrays.python_numbers import Number
from .._core.errors import messages as errors, warn
from .._engine.entry.arguments import tensor_of
from .._engine.entry.bind import METHODS, NAMESPACES, composite, ops
from .._engine.graph.record import NUMBERS, as_leaf
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import tensor_of_jax
from .._ops.registry import Out
from .arguments import unmatched

_HALVES = frozenset(k / 2 for k in range(-8, 17))
"""Exponents worth a kernel of their own; all others share one with a traced exponent."""


def _operand(value: Any) -> bool:
    """Return whether an operator accepts this operand; anything else is left to the other operand's class."""
    return isinstance(value, Tensor | jax.Array) or _number(value) is not None


def _number(value: Any) -> Any:
    """A Python number from a number of any kind, None from anything else."""
    if isinstance(value, Tensor) or value is None:
        return None
    try:
        return as_leaf(value)
    except TypeError:
        return None


def _leaf(value: Any, beside: Tensor | None = None) -> Any:
    if isinstance(value, jax.Array):
        return tensor_of_jax(value, beside)
    return value if isinstance(value, Tensor) else _number(value)


def _given(value: Any, beside: Tensor) -> Any:
    return tensor_of_jax(value, beside) if isinstance(value, jax.Array) else value


def _whole(e: Any) -> Any:
    return int(e) if e == int(e) else e


# --- powers -------------------------------------------------------------------------------------


def _power(input: Any, exponent: Any, suffix: str = "") -> Tensor:
    """The row of `pow` for these operands; `suffix` "_" for the in-place form."""
    general = getattr(ops, "pow_tensor" + suffix)
    if not isinstance(exponent, Tensor) and isinstance(input, Tensor):
        e = _number(exponent)
        if e is None:
            raise unmatched("pow")
        kind = input._m.dtype.category
        if kind == BOOL and e is True:
            return input.copy_(input) if suffix else ops.clone(input)
        if kind < FLOATING and not isinstance(e, float | complex):
            if e < 0:
                raise RuntimeError("Integers to negative integer powers are not allowed.")
            if kind != BOOL:
                check_fits(e, input._m.dtype)
                return getattr(ops, "pow_const" + suffix)(input, int(e))
        if input._m.dtype.itemsize == 2 and not isinstance(e, complex):
            check_fits(e, input._m.dtype)
        if type(exponent) is Number and kind == FLOATING and not isinstance(e, complex):
            return general(input, exponent)
        if kind >= FLOATING and not isinstance(e, complex) and e in _HALVES:
            return getattr(ops, "pow_const" + suffix)(input, _whole(e))
        return general(input, e)
    if not isinstance(exponent, Tensor):
        raise unmatched("pow")
    if not isinstance(input, Tensor):
        return ops.pow_base(_leaf(input), exponent)
    return general(input, exponent)


def _pow_in_place(input: Tensor, exponent: Any) -> Tensor:
    """Write the power into the input."""
    return _power(input, exponent, "_")


@composite(out=Out.CAST, inplace=_pow_in_place)
def pow(input: Any, exponent: Any) -> Tensor:
    """The input to the power `exponent`; either may be a number."""
    return _power(input, exponent)


@composite(name="__pow__", function=False, method=False, operator="__pow__")
def _pow_operator(self: Tensor, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    return _power(self, _given(other, self)) if _operand(other) else NotImplemented


@composite(name="__rpow__", function=False, method=False, operator="__rpow__")
def _rpow_operator(self: Tensor, other: Any, modulo: Any = None) -> Any:
    if modulo is not None or not _operand(other):
        return NotImplemented
    base = _leaf(other, self)
    return (ops.pow_tensor if isinstance(base, Tensor) else ops.pow_base)(base, self)


@composite(name="__ipow__", function=False, method=False, operator="__ipow__")
def _ipow_operator(self: Tensor, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    return _power(self, _given(other, self), "_") if _operand(other) else NotImplemented


def _square_in_place(input: Tensor) -> Tensor:
    """Square in place."""
    return _power(input, 2, "_")


@composite(out=Out.CAST, inplace=_square_in_place)
def square(input: Tensor) -> Tensor:
    """The input times itself."""
    return _power(input, 2)


def _double(value: Any, to_complex: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.to(dtypes.complex128 if to_complex else dtypes.float64)


def _is_complex(value: Any) -> bool:
    return value._m.dtype.category == COMPLEX if isinstance(value, Tensor) else isinstance(value, complex)


def _float_power_in_place(input: Tensor, exponent: Any) -> Tensor:
    """`float_power` into the input, which must have the result's dtype already."""
    wanted = dtypes.complex128 if _is_complex(input) or _is_complex(exponent) else dtypes.float64
    if input._m.dtype is not wanted:
        names = [dtypes.scalar_type_name(d) for d in (input._m.dtype, wanted)]
        raise RuntimeError(
            f"the base given to float_power_ has dtype {names[0]} but the operation's result requires dtype {names[1]}"
        )
    return _power(input, _double(exponent, wanted is dtypes.complex128), "_")


@composite(out=True, inplace=_float_power_in_place)
def float_power(input: Any, exponent: Any) -> Tensor:
    """`pow` in double precision, whatever the operands."""
    to_complex = _is_complex(input) or _is_complex(exponent)
    x, e = _double(input, to_complex), _double(exponent, to_complex)
    if not isinstance(x, Tensor) and not to_complex:
        x = float(x)
    return _power(x, e)


# --- quotients ----------------------------------------------------------------------------------


def _divide_in_place(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Divide in place."""
    if rounding_mode is None:
        return ops.true_divide_(input, other)
    return ops.div_mode_(input, other, rounding_mode)


@composite(aliases=("divide",), out=Out.CAST, inplace=_divide_in_place)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """The quotient, true or rounded ("trunc", "floor")."""
    if rounding_mode is None:
        return ops.true_divide(input, other)
    if isinstance(input, NUMBERS) and isinstance(other, NUMBERS):
        input = tensor_of(input)
    return ops.div_mode(input, other, rounding_mode)


@composite(name="__rdiv__", function=False, method=False, operator="__rdiv__")
@composite(name="__rtruediv__", function=False, method=False, operator="__rtruediv__")
def _rtruediv_operator(self: Tensor, other: Any) -> Any:
    if isinstance(other, np.ndarray):
        return ops.reciprocal(self) * other  # NumPy computes it, and its protocols return a tensor
    if isinstance(other, jax.Array):  # an array becomes a tensor, and tensors are divided
        return ops.true_divide(tensor_of_jax(other, self), self)
    return ops.mul(ops.reciprocal(self), _given(other, self)) if _operand(other) else NotImplemented


@composite(name="__rfloordiv__", function=False, method=False, operator="__rfloordiv__")
def _rfloordiv_operator(self: Tensor, other: Any) -> Any:
    return ops.floor_divide(_leaf(other, self), self) if _operand(other) else NotImplemented


@composite(name="__rmod__", function=False, method=False, operator="__rmod__")
def _rmod_operator(self: Tensor, other: Any) -> Any:
    return ops.remainder(_leaf(other, self), self) if _operand(other) else NotImplemented


@composite(name="__rlshift__", function=False, method=False, operator="__rlshift__")
def _rlshift_operator(self: Tensor, other: Any) -> Any:
    return ops.bitwise_left_shift(_leaf(other, self), self) if _operand(other) else NotImplemented


@composite(name="__rrshift__", function=False, method=False, operator="__rrshift__")
def _rrshift_operator(self: Tensor, other: Any) -> Any:
    return ops.bitwise_right_shift(_leaf(other, self), self) if _operand(other) else NotImplemented


# --- signs and special functions ----------------------------------------------------------------


@composite
def positive(input: Tensor) -> Tensor:
    """The input itself."""
    if input._m.dtype.category == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@composite(name="__pos__", function=False, method=False, operator="__pos__")
def _pos_operator(self: Tensor) -> Tensor:
    return positive(self)


@composite(name="__invert__", function=False, method=False, operator="__invert__")
def _invert_operator(self: Tensor) -> Tensor:
    if self._m.dtype.category >= FLOATING:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return ops.bitwise_not(self)


@composite(name="polygamma", method=False, out=Out.CAST)
def _polygamma_function(n: int, input: Tensor) -> Tensor:
    """The `n`-th derivative of digamma."""
    return ops.polygamma(input, n)


def _polygamma_in_place(input: Tensor, n: int) -> Tensor:
    """`polygamma` in place."""
    return ops.polygamma_(input, n)


@composite(name="polygamma", function=False, inplace=_polygamma_in_place)
def _polygamma_method(input: Tensor, n: int) -> Tensor:
    """The `n`-th derivative of digamma."""
    return ops.polygamma(input, n)


# --- choosing and comparing ---------------------------------------------------------------------


@composite(name="where", method=False, out=True)
def _where_function(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds and `other` elsewhere, or the indices where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if other is None:
        raise unmatched("where")
    return _chosen(condition, input, other)


def _chosen(condition: Any, input: Any, other: Any) -> Tensor:
    if isinstance(condition, Tensor) and condition._m.dtype is dtypes.uint8:
        warn.once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead."
        )
    if isinstance(other, complex):
        input = _as_complex(input)
    elif isinstance(input, complex):
        other = _as_complex(other)
    return ops.where(condition, input, other)


def _as_complex(value: Any) -> Any:
    """A tensor of floats cast to complex because the other choice is a complex number. torch records that cast."""
    if not isinstance(value, Tensor) or value._m.dtype.category != FLOATING:
        return value
    wide = value._m.dtype is dtypes.float64
    return METHODS["to"](value, dtypes.complex128 if wide else dtypes.complex64)


@composite(name="where", function=False)
def _where_method(input: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The input where the condition holds and `other` elsewhere."""
    return _chosen(condition, input, other)


@composite
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return whether ``|input - other| <= atol + rtol * |other|``; equal numbers always are."""
    out = ops.isclose_any(input, other, rtol, atol, equal_nan)
    # torch begins with `input == other` and writes to it.
    written = bool(equal_nan and input._m.dtype.category >= FLOATING)
    out._vc.version += written + (rtol != 0 or atol != 0)
    return out


@composite
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether `isclose` holds everywhere."""
    close = ops.all(ops.isclose_any(input, other, rtol, atol, equal_nan))
    return bool(concrete(close, errors.BATCHED_CLOSE, "allclose"))


@composite
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and equal values."""
    for i, t in enumerate((input, other)):
        if not isinstance(t, Tensor):
            name = ("input", "other")[i]
            raise TypeError(f"equal(): argument '{name}' (position {i + 1}) must be Tensor, not {type(t).__name__}")
    if input._m.shape != other._m.shape:
        return False
    return bool(concrete(ops.all(ops.eq(input, other)), errors.BATCHED_EQUAL, "equal"))


@composite(method=False, out=True, known_as={"element": "elements", "test_element": "test_elements"})
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return which of the elements occur among the test elements."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise unmatched("isin")
    for operand in (elements, test_elements):
        dtype = operand._m.dtype if isinstance(operand, Tensor) else dtypes.of_python(type(operand))
        if dtype.category in (BOOL, COMPLEX) and not isinstance(operand, complex):
            name = dtypes.scalar_type_name(dtype)
            raise RuntimeError(f"Unsupported input type encountered for isin(): {name}")
    return ops.isin_tensor(elements, test_elements, invert)


# --- in-place functions of the top level --------------------------------------------------------


# torch has these as functions too; the in-place forms of other ops are methods only.
def _conj_physical_inplace(input: Tensor) -> Tensor:
    """Conjugate complex numbers in place."""
    return ops.conj_physical_(input)


@composite(out=True, inplace=_conj_physical_inplace)
def conj_physical(input: Tensor) -> Tensor:
    """The conjugate, computed at once; a real tensor is its own."""
    return ops.conj_physical(input) if input._m.dtype.is_complex else input


_IN_PLACE = """
    abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp
    clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac
    gcd i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu
    round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy
""".split()  # noqa: SIM905 - a table, not a column
for _name in _IN_PLACE:
    NAMESPACES[""].setdefault(_name + "_", METHODS[_name + "_"])
