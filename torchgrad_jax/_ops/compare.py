"""Comparisons, logic, bits, and the ops that choose between values: where, clamp, maximum."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes
from .._core.arrays.dtypes import BOOL, COMPLEX, FLOATING
from .._core.arrays.kernels import category, cpp_name, refuse, refusing, scalar_name, where as choose
from .._core.arrays.layouts import elementwise, preserved
from .._core.arrays.meta import Meta
from .._core.host import forms
from .helpers import broadcast, stays_complex
from .registry import (
    COMMON,
    NONE,
    Array,
    Compares,
    Fits,
    Grad,
    InPlace,
    Later,
    Layout,
    NumberDtype,
    Numbers,
    Out,
    Overlap,
    Scalar,
    binary,
    compare,
    elementwise_op,
    op,
    unary,
    with_rule,
)

# --- comparisons and logic ----------------------------------------------------------------------


def _ordered(fn: Callable[..., Array], name: str) -> Callable[..., Array]:
    return refusing(fn, f"{name}_cpu", COMPLEX)


def _ordering(name: str, fn: Callable[..., Array], **options: Any) -> Any:
    """A comparison. Its result is bool; in place the result is a float that depends on nothing, so the gradient of what
    was overwritten is zero."""

    def node(args: dict[str, Any]) -> str:
        return f"{name.capitalize()}Backward{int(args['other'] == 'tensor')}"

    return compare(name, fn, operators=(f"__{name}__",), grad=Grad.IN_PLACE, node=node, **options)


eq = _ordering("eq", lax.eq)
ne = _ordering("ne", lax.ne, aliases=("not_equal",))
lt = _ordering("lt", _ordered(lax.lt, "lt"), aliases=("less",))
le = _ordering("le", _ordered(lax.le, "le"), aliases=("less_equal",))
gt = _ordering("gt", _ordered(lax.gt, "gt"), aliases=("greater",))
ge = _ordering("ge", _ordered(lax.ge, "ge"), aliases=("greater_equal",))


def _truth(x: Array) -> Array:
    return x if category(x) == BOOL else x != jnp.zeros((), x.dtype)


for _name, _fn in (("and", lax.bitwise_and), ("or", lax.bitwise_or), ("xor", lax.bitwise_xor)):
    # Each side keeps its own dtype here, since promotion would turn a huge integer into a float.
    compare(f"logical_{_name}", lambda x, y, fn=_fn: fn(_truth(x), _truth(y)), promote=NONE, scalar=False)
logical_not = unary("logical_not", lambda x: ~_truth(x), promote=NONE, grad=Grad.NO)


def _float_test(test: Callable[[Array], Array], integers: bool) -> Callable[[Array], Array]:
    """A test of floating-point numbers. Of a complex number it looks at the parts."""

    def judged(x: Array) -> Array:
        kind = category(x)
        if kind < FLOATING:
            return jnp.full(x.shape, integers)
        if kind == COMPLEX:
            parts = test(lax.real(x)), test(lax.imag(x))
            return parts[0] & parts[1] if integers else parts[0] | parts[1]
        return test(x)

    return judged


def _signed_inf(value: float, name: str) -> Callable[[Array], Array]:
    def test(x: Array) -> Array:
        if category(x) == COMPLEX:
            raise RuntimeError(f"{name} does not support complex inputs.")
        return _float_test(lambda x: x == value, False)(x)

    return test


def _isreal(x: Array) -> Array:
    return lax.imag(x) == 0 if category(x) == COMPLEX else jnp.full(x.shape, True)


_predicate = functools.partial(unary, grad=Grad.NO, inplace=False, out=False)
isnan = _predicate("isnan", _float_test(lambda x: x != x, False))
isinf = _predicate("isinf", _float_test(lambda x: lax.abs(x) == jnp.inf, False))
isfinite = _predicate("isfinite", _float_test(lax.is_finite, True))
isreal = _predicate("isreal", _isreal, layout=elementwise(preserved))
isposinf = unary("isposinf", _signed_inf(float("inf"), "isposinf"), grad=Grad.NO, inplace=False, out=Out.EXACT)
isneginf = unary("isneginf", _signed_inf(float("-inf"), "isneginf"), grad=Grad.NO, inplace=False, out=Out.EXACT)


@elementwise_op(name="isclose_any", grad=Grad.NO, out=False, function=False, method=False)
def isclose(input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    """Return whether ``|input - other| <= atol + rtol * |other|``; equal numbers always are."""
    if input.dtype != other.dtype:
        raise RuntimeError(f"{scalar_name(input)} did not match {scalar_name(other)}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    x, y = broadcast(input, other)
    close = x == y
    kind = category(x)
    if kind >= FLOATING and equal_nan:
        close |= (x != x) & (y != y)
    if rtol == 0 and atol == 0:
        return close
    if kind < FLOATING:  # torch compares integers in the default floating dtype
        x, y = x.astype(jnp.float64), y.astype(jnp.float64)
    gap = lax.abs(x - y)
    allowed = atol + lax.abs(jnp.asarray(rtol, y.dtype) * y)
    return close | (_float_test(lax.is_finite, True)(gap) & (gap <= allowed))


@op(name="isin_tensor", promote=COMMON, grad=Grad.NO, function=False, method=False)
def _isin(elements: Array | Scalar, test_elements: Array | Scalar, invert: bool = False) -> Array:
    x, tests = jnp.asarray(elements), jnp.asarray(test_elements)
    if category(x) in (BOOL, COMPLEX):
        raise RuntimeError(f"Unsupported input type encountered for isin(): {scalar_name(x)}")
    return jnp.isin(x, tests, invert=invert)


def _heaviside(x: Array, values: Array) -> Array:
    if category(x) == COMPLEX or category(values) == COMPLEX:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if x.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    zero = jnp.zeros_like(x)
    return choose(x == zero, values, (x > zero).astype(x.dtype))


@elementwise_op(inplace=True, grad=Grad.MISSING)
def heaviside(input: Array, values: Array) -> Array:
    """0 left of 0, 1 right of it, `values` on it."""
    return _heaviside(*broadcast(input, values))


# --- integers and bits --------------------------------------------------------------------------


def _bitwise(name: str, fn: Callable[..., Array], kernel: str, *refused: int, **options: Any) -> Any:
    """A bitwise op of two tensors, or of a tensor and a number in either order."""

    def impl(input: Array | Scalar, other: Array | Scalar) -> Array:
        x, y = broadcast(jnp.asarray(input), jnp.asarray(other))
        refuse(x, kernel, FLOATING, COMPLEX, *refused)
        return fn(x, y)

    impl.__name__ = impl.__qualname__ = name
    return elementwise_op(impl, name=name, promote=COMMON, grad=Grad.NO, inplace=True, **options)


def _shift_right(x: Array, y: Array) -> Array:
    signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
    return (lax.shift_right_arithmetic if signed else lax.shift_right_logical)(x, y)


for _name, _fn in (("and", lax.bitwise_and), ("or", lax.bitwise_or), ("xor", lax.bitwise_xor)):
    _bitwise(
        f"bitwise_{_name}", _fn, f"bitwise_{_name}_cpu", operators=(f"__{_name}__", f"__r{_name}__", f"__i{_name}__")
    )
# No reflected operator: these do not commute.
bitwise_left_shift = _bitwise(
    "bitwise_left_shift", lax.shift_left, "lshift_cpu", BOOL, operators=("__lshift__", "__ilshift__")
)
bitwise_right_shift = _bitwise(
    "bitwise_right_shift", _shift_right, "rshift_cpu", BOOL, operators=("__rshift__", "__irshift__")
)
bitwise_not = unary(
    "bitwise_not", refusing(lax.bitwise_not, "bitwise_not_cpu", FLOATING, COMPLEX), grad=Grad.NO, out=Out.EXACT
)


def _size(x: Array) -> Array:
    return lax.abs(x) if jnp.issubdtype(x.dtype, jnp.signedinteger) else x


def _gcd(x: Array, y: Array) -> Array:
    """Euclid's algorithm. JAX's own never ends for the least integer, whose absolute value is negative. This one ends,
    since a remainder is nearer to 0 than its divisor, whatever the signs."""

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = state
        done = a == 0
        return choose(done, a, lax.rem(b, choose(done, 1, a))), choose(done, b, a)

    return lax.while_loop(lambda state: jnp.any(state[0] != 0), step, (_size(x), _size(y)))[1]


def _lcm(x: Array, y: Array) -> Array:
    divisor = _gcd(x, y)
    none = divisor == 0
    # torch, like C++, computes small integers with 32 bits, and keeps the lowest bits of the result.
    wide = jnp.int32 if x.dtype.itemsize < 4 else x.dtype
    x, y, by = (a.astype(wide) for a in (x, y, choose(none, 1, divisor)))
    return choose(none, 0, _size(lax.div(x, by) * y).astype(divisor.dtype))


gcd = binary("gcd", refusing(_gcd, "gcd_cpu", BOOL, FLOATING, COMPLEX), scalar=False, grad=Grad.NO)
lcm = binary("lcm", refusing(_lcm, "lcm_cpu", BOOL, FLOATING, COMPLEX), scalar=False, grad=Grad.NO)

# --- the larger, the smaller --------------------------------------------------------------------


def _real_only(x: Array, name: str) -> None:
    if category(x) == COMPLEX:
        raise RuntimeError(f"{name} not implemented for complex tensors.")


def _gradient_of_ties(x: Array, y: Array, tx: Array, ty: Array, loses: Array, wins: Array) -> Array:
    """torch: two equal values get half of the gradient each, and a value beside a NaN gets all of it."""
    half = choose(x == y, jnp.asarray(0.5, tx.dtype), jnp.ones_like(tx))
    return choose(loses, 0, half * tx) + choose(wins, 0, half * ty)


def _maximum(x: Array, y: Array) -> Array:
    _real_only(x, "maximum")
    return lax.max(x, y)


def _minimum(x: Array, y: Array) -> Array:
    _real_only(x, "minimum")
    return lax.min(x, y)


def _fmax(x: Array, y: Array) -> Array:
    _real_only(x, "fmax")
    return lax.select(_takes_fmax(x, y), x, y)


def _fmin(x: Array, y: Array) -> Array:
    _real_only(x, "fmin")
    return lax.select(_takes_fmin(x, y), x, y)


def _takes_fmax(x: Array, y: Array) -> Array:
    return (x >= y) | (y != y)


def _takes_fmin(x: Array, y: Array) -> Array:
    return (x <= y) | (y != y)


def _tangent_of_ties(x: Array, y: Array, tx: Array, ty: Array, wins: Array) -> Array:
    """torch's forward mode takes the tangent of the second operand unless the first wins or both are equal."""
    half = jnp.asarray(0.5, tx.dtype)
    return ty + jnp.where(x == y, half, wins.astype(tx.dtype)) * (tx - ty)


def _shared_tangent(x: Array, y: Array, tx: Array, ty: Array, wins: Array) -> Array:
    """torch 2.14's forward mode: half of both tangents where the operands are equal, else that of one of them."""
    return choose(x == y, (tx + ty) * jnp.asarray(0.5, tx.dtype), choose(wins, tx, ty))


_LARGER_OF_2_14 = (
    lambda x, y, out, tx, ty: _gradient_of_ties(x, y, tx, ty, x < y, x > y),
    lambda x, y, out, tx, ty: _shared_tangent(x, y, tx, ty, x > y),
)
_SMALLER_OF_2_14 = (
    lambda x, y, out, tx, ty: _gradient_of_ties(x, y, tx, ty, x > y, x < y),
    lambda x, y, out, tx, ty: _shared_tangent(x, y, tx, ty, x < y),
)
"""Rules of torch 2.14, of reverse and of forward mode: equal operands share the gradient."""


_pair = functools.partial(binary, scalar=False, inplace=False, compares=Compares.INPUTS)
maximum = _pair(
    "maximum",
    _maximum,
    rule=lambda x, y, out, tx, ty: _gradient_of_ties(x, y, tx, ty, x < y, x > y),
    forward=lambda x, y, out, tx, ty: _tangent_of_ties(x, y, tx, ty, x > y),
    since={(2, 14): _LARGER_OF_2_14},
)
minimum = _pair(
    "minimum",
    _minimum,
    rule=lambda x, y, out, tx, ty: _gradient_of_ties(x, y, tx, ty, x > y, x < y),
    forward=lambda x, y, out, tx, ty: _tangent_of_ties(x, y, tx, ty, x < y),
    since={(2, 14): _SMALLER_OF_2_14},
)
# Of equal operands torch's reverse mode takes the first. Its forward mode does that for `fmin`, but not for `fmax`.
fmax = _pair(
    "fmax",
    _fmax,
    rule=lambda x, y, out, tx, ty: choose(_takes_fmax(x, y), tx, ty),
    forward=lambda x, y, out, tx, ty: choose((x > y) | (y != y), tx, ty),
    since={(2, 14): _LARGER_OF_2_14},
)
fmin = _pair(
    "fmin", _fmin, rule=lambda x, y, out, tx, ty: choose(_takes_fmin(x, y), tx, ty), since={(2, 14): _SMALLER_OF_2_14}
)


def _larger(x: Array, low: Array) -> Array:
    """The larger number; of two zeros the first, with its sign."""
    return choose(x >= low, x, lax.max(x, low))


def _below(x: Array, high: Array) -> Array:
    return choose(x <= high, x, lax.min(x, high))


def _clamp_value(x: Array, low: Array, high: Array) -> Array:
    return _below(_larger(x, low), high)


def _clamp_rule(x: Array, low: Array, high: Array, out: Array, tx: Array, tlow: Array, thigh: Array) -> Array:
    """torch: the input's slope is 1 on both edges; a limit's is 1 only where it is strictly in force."""
    t = choose((x >= low) & (x <= high), tx, 0)
    t += choose((low < high) & (x < low), tlow, 0)
    return t + choose((high < low) | (x > high), thigh, 0)


_clamp = (
    with_rule(_clamp_value, _clamp_rule),
    with_rule(_larger, lambda x, low, out, tx, tlow: choose(x >= low, tx, 0) + choose(x < low, tlow, 0)),
    with_rule(_below, lambda x, high, out, tx, thigh: choose(x <= high, tx, 0) + choose(x > high, thigh, 0)),
)
# torch's forward mode has the tangent of the result: that of a limit where it equals the input, or is NaN.
_clamp_along_taken = (
    with_rule(
        _clamp_value,
        lambda x, low, high, out, tx, tlow, thigh: choose(
            low > high, thigh, choose(x < low, tlow, choose(x > high, thigh, tx))
        ),
    ),
    with_rule(_larger, lambda x, low, out, tx, tlow: choose(x > low, tx, tlow)),
    with_rule(_below, lambda x, high, out, tx, thigh: choose(x < high, tx, thigh)),
)
_clamp_along_equal = (
    _clamp_along_taken[0],
    with_rule(_larger, lambda x, low, out, tx, tlow: choose(x >= low, tx, tlow)),
    with_rule(_below, lambda x, high, out, tx, thigh: choose(x <= high, tx, thigh)),
)


def _shared_clamp_rule(x: Array, low: Array, high: Array, out: Array, tx: Array, tlow: Array, thigh: Array) -> Array:
    """torch 2.14: a limit that is a tensor and equals the input shares the gradient with it."""
    at_low, at_high = (x == low) & (low <= high), (x == high) & (low <= high)
    share = 1 / (1 + at_low.astype(tx.dtype) + at_high.astype(tx.dtype))
    t = choose((x >= low) & (x <= high), share * tx, 0)
    t += choose((low < high) & (x < low), tlow, choose(at_low, share * tlow, 0))
    return t + choose((high < low) | (x > high), thigh, choose(at_high, share * thigh, 0))


_clamp_by_number_of_2_14 = (
    with_rule(_clamp_value, lambda x, low, high, out, tx, tlow, thigh: choose((x > low) & (x < high), tx, 0)),
    with_rule(_larger, lambda x, low, out, tx, tlow: choose(x > low, tx, 0)),
    with_rule(_below, lambda x, high, out, tx, thigh: choose(x < high, tx, 0)),
)
"""torch 2.14: the slope is 0 on the edges, too."""
_clamp_of_2_14 = (
    with_rule(_clamp_value, _shared_clamp_rule),
    with_rule(_larger, _LARGER_OF_2_14[0]),
    with_rule(_below, _SMALLER_OF_2_14[0]),
)
_clamp_along_2_14 = (
    with_rule(_clamp_value, _shared_clamp_rule),
    with_rule(_larger, _LARGER_OF_2_14[1]),
    with_rule(_below, _SMALLER_OF_2_14[1]),
)


def _clamps_of_2_14(clamps: Any) -> Callable[..., Array]:
    """`clamp`, `clamp_min` and `clamp_max` with other rules."""
    return lambda input, min=None, max=None: _clamp_any(input, min, max, clamps)


_CLAMP_OF_2_14 = {(2, 14): Later(*map(_clamps_of_2_14, (_clamp_of_2_14, _clamp_along_2_14, _clamp_by_number_of_2_14)))}


def _clamp_any(input: Array, low: Any, high: Any, clamps: Any = _clamp) -> Array:
    """Apply the function for two limits, for a lower one, or for an upper one."""
    if category(input) == COMPLEX:
        raise NotImplementedError("clamp is not supported for complex types")
    limits = [jnp.asarray(v) for v in (low, high) if v is not None]
    if not limits:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    x, *limits = broadcast(input, *limits)
    if len(limits) == 2:
        refuse(x, "clamp_cpu", BOOL)
    both, above, below = clamps
    return (both if len(limits) == 2 else below if low is None else above)(x, *limits)


def _clamp_node(a: dict[str, Any]) -> str:
    return "ClampBackward0" if "tensor" in (a.get("min"), a.get("max")) else "ClampBackward1"


def _check_clamp_inplace(me: Meta, result: Meta, limits: Sequence[Any]) -> None:
    """torch's usual complaint, but with the C++ name of the type where the limits are numbers."""
    if dtypes.can_cast(result.dtype, me.dtype):
        return
    if not any(isinstance(k, Meta) for k in limits):
        name = cpp_name(np.zeros(0, me.dtype.np))
        raise RuntimeError(
            f"result type {dtypes.scalar_type_name(result.dtype)} can't be cast to the desired output type {name}"
        )


@elementwise_op(
    promote=COMMON,
    inplace=InPlace(check=_check_clamp_inplace),
    host=forms.clamped,
    aliases=("clip",),
    node=_clamp_node,
    compares=Compares.INPUTS,
    numbers=Numbers(fits=Fits.EXACTLY, dtype=NumberDtype.ALL_OR_NONE),
    forward=lambda input, min=None, max=None: _clamp_any(input, min, max, _clamp_along_taken),
    forward_by_number=False,
    since=_CLAMP_OF_2_14,
)
def clamp(input: Array, min: Array | Scalar | None = None, max: Array | Scalar | None = None) -> Array:
    """The nearest value in ``[min, max]``; `max` where they cross, nan where anything is nan."""
    return _clamp_any(input, min, max)


@elementwise_op(
    promote=COMMON,
    inplace=InPlace(check=_check_clamp_inplace),
    host=forms.clamped,
    compares=Compares.INPUTS,
    numbers=Numbers(fits=Fits.EXACTLY),
    node=lambda a: "ClampMinBackward1" if a.get("min") == "tensor" else "ClampMinBackward0",
    forward=lambda input, min: _clamp_any(input, min, None, _clamp_along_equal),
    forward_by_number=False,
    since=_CLAMP_OF_2_14,
)
def clamp_min(input: Array, min: Array | Scalar) -> Array:
    """The input, but at least `min`."""
    return _clamp_any(input, min, None)


@elementwise_op(
    promote=COMMON,
    inplace=InPlace(check=_check_clamp_inplace),
    host=forms.clamped,
    compares=Compares.INPUTS,
    numbers=Numbers(fits=Fits.EXACTLY),
    node=lambda a: "ClampMaxBackward1" if a.get("max") == "tensor" else "ClampMaxBackward0",
    forward=lambda input, max: _clamp_any(input, None, max, _clamp_along_equal),
    forward_by_number=False,
    since=_CLAMP_OF_2_14,
)
def clamp_max(input: Array, max: Array | Scalar) -> Array:
    """The input, but at most `max`."""
    return _clamp_any(input, None, max)


# --- choosing -----------------------------------------------------------------------------------


@elementwise_op(
    name="where",
    promote=COMMON,
    promoted=("input", "other"),
    numbers=Numbers(wrapped=True, fits=Fits.BUT_HALVES),
    function=False,
    method=False,
    refused=stays_complex,
)
def where(condition: Array, input: Array | Scalar, other: Array | Scalar) -> Array:
    """`input` where the condition holds, `other` elsewhere."""
    if condition.dtype not in (jnp.bool_, jnp.uint8):
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {scalar_name(condition)}"
        )
    c, x, y = broadcast(_truth(condition), jnp.asarray(input), jnp.asarray(other))
    return lax.select(c, x, y)


@op(
    inplace=InPlace(overlaps=Overlap.WARNED),
    out=False,
    refused=stays_complex,
    numbers=Numbers(fits=Fits.AND_VALUES),
    node=lambda a: "MaskedFillBackward1" if a.get("value") == "tensor" else "MaskedFillBackward0",
)
def masked_fill(input: Array, mask: Array, value: Array | Scalar) -> Array:
    """`value` where the mask holds, the input elsewhere; the input's dtype stays."""
    if mask.dtype != jnp.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {cpp_name(mask)}")
    value = jnp.asarray(value)
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if category(value) == COMPLEX and category(input) not in (BOOL, COMPLEX):
        value = value.real  # the imaginary part is 0, or was refused
    value = _truth(value) if category(input) == BOOL else lax.convert_element_type(value, input.dtype)
    c, x, y = broadcast(mask, input, value)
    return lax.select(c, y, x)


# --- repairing values ---------------------------------------------------------------------------


def _limits(x: Array, nan: float | None, posinf: float | None, neginf: float | None) -> tuple[Any, Any, Any]:
    info = jnp.finfo(x.dtype)
    return (0.0 if nan is None else nan, info.max if posinf is None else posinf, info.min if neginf is None else neginf)


@op(
    promote=COMMON,
    inplace=True,
    layout=Layout.PRESERVE,
    compares=Compares.IN_GRADIENTS,
    grad=Grad.REAL,
    host=forms.nan_to_num,
)
def nan_to_num(
    input: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Replace nan and infinities by finite numbers."""
    kind = category(input)
    if kind < FLOATING:
        return input
    if kind == COMPLEX:
        return lax.complex(*[nan_to_num(part, nan, posinf, neginf) for part in (lax.real(input), lax.imag(input))])
    new_nan, new_pos, new_neg = (jnp.asarray(v, input.dtype) for v in _limits(input, nan, posinf, neginf))
    return _finite(input, new_nan, new_pos, new_neg)


def _only_finite(x: Array, nan: Array, high: Array, low: Array) -> Array:
    y = choose(x == jnp.inf, high, choose(x == -jnp.inf, low, x))
    return choose(x != x, nan, y)


# torch multiplies the gradient by 0 or 1: an infinite gradient becomes NaN where a number was replaced.
_finite = with_rule(_only_finite, lambda x, *rest: rest[4] * choose(lax.abs(x) < jnp.inf, jnp.ones_like(x), 0))
