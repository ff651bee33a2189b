"""JAX's primitives on NumPy arrays: the parameters and avals of a step give a function, or None where XLA has to do it.

`STEPS` is the table: a primitive's name, how to make its function, and how many nanoseconds NumPy takes for an element.
The results agree with XLA's to the rounding of the dtype. Where XLA leaves a value open (a number that no integer can
hold), the function raises `Unsure`, and the whole kernel is left to XLA.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..jax.own_kernels import jit
from . import (
    choice,
    curves as host_curves,
    indexing as host_indexing,
    lapack,
    products as host_products,
    reductions as host_reductions,
)
from .inline import HALVES, SAME, WHOLE, Choice, Extreme, Inline, Reshape, Step, Unsure


def _always(fn: Step) -> Callable[..., Step]:
    return lambda params, ins, outs: fn


def _broadcast(params: Any, ins: Any, outs: Any) -> Step | None:
    if len(ins) > 1:
        return None
    shape, dims = params["shape"], params["broadcast_dimensions"]
    spread = [1] * len(shape)
    for d, n in zip(dims, ins[0].shape):
        spread[d] = n
    return lambda x: np.broadcast_to(x.reshape(spread), shape)


def _reshape(params: Any, ins: Any, outs: Any) -> Step | None:
    if len(ins) > 1:
        return None
    order = params.get("dimensions")
    if order is not None:
        return Inline(f"{{0}}.transpose({tuple(order)}).reshape({outs[0].shape})")
    return _to_shape(params, ins, outs)


def _to_shape(params: Any, ins: Any, outs: Any) -> Step:
    return Reshape(outs[0].shape)


def _transpose(params: Any, ins: Any, outs: Any) -> Step:
    return Inline(f"{{0}}.transpose({tuple(params['permutation'])})")


def _rev(params: Any, ins: Any, outs: Any) -> Step:
    axes = params["dimensions"]
    return Inline("{0}[" + ", ".join(["::-1" if d in axes else ":" for d in range(len(ins[0].shape))]) + "]")


def _slice(params: Any, ins: Any, outs: Any) -> Step:
    strides = params["strides"] or (1,) * len(params["start_indices"])
    bounds = zip(params["start_indices"], params["limit_indices"], strides, ins[0].shape)
    at = [":" if (a, b, k) == (0, n, 1) else f"{a}:{b}:{k}" for a, b, k, n in bounds]
    while at and at[-1] == ":":
        at.pop()
    return Inline(f"{{0}}[{', '.join(at)}]") if at else SAME


def _concatenate(params: Any, ins: Any, outs: Any) -> Step:
    names = ", ".join([f"{{{i}}}" for i in range(len(ins))])
    return Inline(f"concatenate(({names},), {params['dimension']})")


def _split(params: Any, ins: Any, outs: Any) -> Step:
    ends = np.cumsum(params["sizes"]).tolist()
    before = ":, " * params["axis"]
    parts = [f"{{0}}[{before}{a}:{b}]" for a, b in zip([0, *ends], ends)]
    return Inline(f"({', '.join(parts)},)")


def _pad(params: Any, ins: Any, outs: Any) -> Step | None:
    at, shape, dt = _place_in(params, ins), outs[0].shape, outs[0].dtype
    if at is None:
        return _cut_off(params, ins)

    def pad(x: Any, fill: Any) -> Any:
        out = np.empty(shape, dt)
        out.fill(fill)
        out[at] = x
        return out

    return pad


def _cut_off(params: Any, ins: Any) -> Step | None:
    """Padding by less than nothing, which takes off what stands at the edges."""
    config = params["padding_config"]
    if any(low > 0 or high > 0 or inner for low, high, inner in config):
        return None
    at = tuple([slice(-low, n + high) for n, (low, high, _) in zip(ins[0].shape, config)])
    return lambda x, fill: x[at]


def _pad_with(params: Any, ins: Any, outs: Any, known: Any) -> Step | None:
    """`_pad` with zeros, which new memory has."""
    at, shape, dt = _place_in(params, ins), outs[0].shape, outs[0].dtype
    if at is None or known[1] is None or known[1] != 0 or np.signbit(known[1].real):
        return None

    def pad(x: Any, fill: Any) -> Any:
        out = np.zeros(shape, dt)
        out[at] = x
        return out

    return pad


def _place_in(params: Any, ins: Any) -> tuple[slice, ...] | None:
    """Where an array that is padded stands in the result."""
    config = params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    return tuple(
        slice(low, low + max((n - 1) * (inner + 1) + 1, 0) if n else low, inner + 1)
        for n, (low, _, inner) in zip(ins[0].shape, config)
    )


def _select(params: Any, ins: Any, outs: Any) -> Step | None:
    if len(ins) != 3 or ins[0].dtype != np.bool_:
        return None
    whole = WHOLE.get(outs[0].dtype.itemsize)
    if outs[0].size < _MANY or whole is None:
        return Choice()

    whole, dt, shape = np.dtype(whole), outs[0].dtype, outs[0].shape

    def select(which: Any, no: Any, yes: Any) -> Any:
        if which.size == 1 and (chosen := yes if which else no).shape == shape:
            return chosen
        out, no, bits = np.empty(shape, dt), no.view(whole), np.asarray(which, whole)
        differs, found = no ^ yes.view(whole), out.view(whole)  # each may have fewer elements than the result
        np.bitwise_and(differs, np.negative(bits, bits), found)
        np.bitwise_xor(found, no, found)
        return out

    return select


def _select_with(params: Any, ins: Any, outs: Any, known: Any) -> Step | None:
    """`_select` with zeros: the bits of the other operand, or none."""
    whole = WHOLE.get(outs[0].dtype.itemsize)
    if whole is None or len(ins) != 3 or ins[0].dtype != np.bool_ or outs[0].size < _MANY:
        return None
    zeros = [i for i in (1, 2) if known[i] is not None and not known[i].ravel().view(np.uint8).any()]
    if not zeros:
        return None
    whole, dt, shape, of_no = np.dtype(whole), outs[0].dtype, outs[0].shape, zeros[0] == 2
    one = np.ones((), whole)

    def select(which: Any, no: Any, yes: Any) -> Any:
        out, bits = np.empty(shape, dt), np.asarray(which, whole)
        np.subtract(bits, one, bits) if of_no else np.negative(bits, bits)
        np.bitwise_and((no if of_no else yes).view(whole), bits, out.view(whole))
        return out

    return select


_MANY = 4096


def _iota(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins:
        return None
    shape, d, dt = outs[0].shape, params["dimension"], outs[0].dtype
    row = np.arange(shape[d]).astype(dt).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return lambda: np.broadcast_to(row, shape)


def _empty(params: Any, ins: Any, outs: Any) -> Step:
    shape, dt = outs[0].shape, outs[0].dtype
    return lambda *xs: np.zeros(shape, dt)


def _convert(params: Any, ins: Any, outs: Any) -> Step | None:
    old, new = ins[0].dtype, outs[0].dtype
    if old == new:
        return SAME
    if old in HALVES or new in HALVES:
        return _convert_half(old, new)
    if new.kind == "b":
        return Inline(f"not_equal({{0}}, zero_{old.name})", fresh=True)
    if old.kind == "c" and new.kind != "c":
        return lambda x: np.real(x).astype(new) if new.kind == "f" else None
    if new.kind in "iu" and old.kind not in "iub":
        info = np.iinfo(new)

        low, high = float(info.min) - 1, float(info.max)

        def convert(x: Any) -> Any:
            wide = np.asarray(x, np.float64)
            if b"\0" in ((wide > low) & (wide < high)).tobytes():
                raise Unsure
            return wide.astype(new)

        return convert
    if not ins[0].shape:
        return Inline(f"asarray({{0}}, {new.name})")
    return Inline(f"{{0}}.astype({new.name})", fresh=True)


def _convert_half(old: np.dtype, new: np.dtype) -> Step | None:
    """From or to a half type by way of float32, as torch."""
    if new.kind in "iuc" or old.kind == "c":
        return None
    if new.kind == "b":
        return Inline("not_equal(asarray({0}, float32), zero_float32)", fresh=True)
    narrow = "{0}" if np.float32 in (old, new) else "asarray({0}, float32)"
    return Inline(f"asarray({narrow}, {new.name})")


def _integer_pow(params: Any, ins: Any, outs: Any) -> Step | None:
    n = abs(params["y"])
    if n == 0 or ins[0].dtype.kind == "c":
        return None

    def power(x: Any) -> Any:  # by squaring, as JAX does
        out, k = None, n
        while k:
            if k & 1:
                out = x if out is None else out * x
            k >>= 1
            x = x * x if k else x
        return out

    if params["y"] in _POWERS:
        return _POWERS[params["y"]]
    if params["y"] > 0:
        return power
    one = np.ones((), ins[0].dtype)
    return lambda x: one / power(x)


_POWERS = {2: Inline("multiply({0}, {0})", fresh=True), 3: Inline("multiply(multiply({0}, {0}), {0})", fresh=True)}


def _stack(params: Any, ins: Any, outs: Any) -> Step:
    axis = params["axis"]
    if len(ins) == 1:
        return Reshape(outs[0].shape)
    shape, dt = outs[0].shape, outs[0].dtype
    at = [(slice(None),) * axis + (i,) for i in range(len(ins))]

    def stack(*xs: Any) -> Any:
        out = np.empty(shape, dt)
        for place, x in zip(at, xs):
            out[place] = x
        return out

    return stack


def _unstack(params: Any, ins: Any, outs: Any) -> Step:
    before = ":, " * params["axis"]
    parts = [f"{{0}}[{before}{i}]" for i in range(len(outs))]
    return Inline(f"({', '.join(parts)},)")


def _tile(params: Any, ins: Any, outs: Any) -> Step:
    reps, shape, dt = params["reps"], outs[0].shape, outs[0].dtype
    if not outs[0].size:
        return lambda x: np.empty(shape, dt)
    old = (1,) * (len(shape) - len(ins[0].shape)) + ins[0].shape
    reps = (1,) * (len(shape) - len(reps)) + tuple(reps)
    row = [x for n in old for x in (1, n)]
    rows = [x for r, n in zip(reps, old) for x in (r, n)]

    def tile(x: Any) -> Any:
        out = np.empty(shape, dt)
        out.reshape(rows)[...] = x.reshape(row)
        return out

    return tile


def _bitcast(params: Any, ins: Any, outs: Any) -> Step | None:
    old, new = ins[0].dtype, outs[0].dtype
    if old.itemsize != new.itemsize or "b" in (old.kind, new.kind) or "c" in (old.kind, new.kind):
        return None
    return Inline(f"{{0}}.view({new.name})")


def _round(params: Any, ins: Any, outs: Any) -> Step | None:
    ties = params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return np.rint if ties and ins[0].dtype.kind != "c" else None


def _clamp(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[1].dtype.kind == "c":
        return None
    whole = "minimum(maximum({1}, {0}), {2})" if ins[1].dtype.kind == "b" else "{1}.clip({0}, {2})"
    return Inline(whole, fresh=True)


def _sign(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[0].dtype.kind == "c":
        return None
    if ins[0].dtype.kind in "iub":
        return np.sign
    return Inline("copysign(sign({0}), {0})", fresh=True)


def _extreme(fn: Any) -> Callable[..., Step | None]:
    """The larger or smaller of two; NumPy takes several at a time only where both are arrays, or as a limit."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        kind = ins[0].dtype.kind
        return None if kind == "c" else Extreme(fn, ins[0].dtype) if kind == "f" else fn

    return make


def _real_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: None if ins[0].dtype.kind == "c" else fn


def _complex(params: Any, ins: Any, outs: Any) -> Step:
    dt = outs[0].dtype

    def join(re: Any, im: Any) -> Any:
        out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), dt)
        out.real, out.imag = re, im
        return out

    return join


def _signed_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: fn if ins[0].dtype.kind == "i" else None


def _rem(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[0].dtype.kind == "f":
        return np.fmod
    return (lambda x, y: np.fmod(x, _divisors(y))) if ins[0].dtype.kind in "iu" else None


def _div(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[0].dtype.kind == "f":
        return np.divide

    def divide(x: Any, y: Any) -> Any:
        y = _divisors(y)
        return np.floor_divide(x - np.fmod(x, y), y)

    return divide if ins[0].dtype.kind in "iu" else None


def _divisors(y: Any) -> Any:
    """Integers to divide by, none of them 0, and none of them -1 since that can overflow."""
    if b"\1" in ((y == 0) | (~y == 0)).tobytes():
        raise Unsure
    return y


def _floats_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: fn if ins[0].dtype.kind == "f" else None


def _of_ones(text: str) -> Callable[..., Step | None]:
    """An expression of an array ``{x}`` of floating point numbers and of ``{one}``."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        if ins[0].dtype.kind != "f":
            return None
        return Inline(text.format(one=f"one_{ins[0].dtype.name}", x="{0}"), fresh=True)

    return make


class Primitive(NamedTuple):
    """How NumPy does what a primitive does."""

    make: Callable[[Any, Any, Any], Step | None]
    per_element: float = 0.2
    """Nanoseconds for an element of the largest array that takes part."""
    overhead: float = 0.5
    """Microseconds for a call."""
    spreads: bool = False
    """Whether it takes operands with fewer elements than its result, as a ufunc does."""
    cost: Callable[[Any], float] | None = None
    """Microseconds for a step, where that is more than a number for each element."""
    knowing: Callable[[Any, Any, Any, Any], Step | None] | None = None
    """Makes better code where some operands are the same in each call: their values, or None, come last."""


def _table() -> dict[str, Primitive]:
    moves = {
        "reshape": _reshape,
        "concatenate": _concatenate,
        "stack": _stack,
        "tile": _tile,
        "bitcast_convert_type": _bitcast,
        "optimization_barrier": _always(lambda *xs: list(xs)),
        "iota": _iota,
        "empty2": _empty,
        "dynamic_slice": host_indexing.dynamic_slice,
        "dynamic_update_slice": host_indexing.dynamic_update,
        "complex": _complex,
    }
    looks = {
        "broadcast_in_dim": _broadcast,
        "squeeze": _to_shape,
        "transpose": _transpose,
        "rev": _rev,
        "slice": _slice,
        "split": _split,
        "unstack": _unstack,
    }
    arithmetic = {
        "stop_gradient": _always(SAME), "stop_cotangent": _always(SAME), "copy": _always(SAME),
        "unsplit": _always(SAME),
        "real": _always(Inline("{0}.real")), "imag": _always(Inline("{0}.imag")), "conj": _always(np.conj),
        "add": _always(np.add), "add_any": _always(np.add), "sub": _always(np.subtract),
        "mul": _always(np.multiply), "divide": _floats_only(np.divide), "square": _always(_POWERS[2]),
        "integer_pow": _integer_pow, "neg": _always(np.negative), "abs": _always(np.abs), "sign": _sign,
        "max": _extreme(np.maximum), "min": _extreme(np.minimum), "clamp": _clamp, "floor": _floats_only(np.floor),
        "ceil": _floats_only(np.ceil), "round": _round, "eq": _always(np.equal), "ne": _always(np.not_equal),
        "lt": _real_only(np.less), "le": _real_only(np.less_equal), "gt": _real_only(np.greater),
        "ge": _real_only(np.greater_equal), "is_finite": _floats_only(np.isfinite), "and": _always(np.bitwise_and),
        "or": _always(np.bitwise_or), "xor": _always(np.bitwise_xor), "not": _always(np.invert),
        "sqrt": _floats_only(np.sqrt), "rsqrt": _of_ones("divide({one}, sqrt({x}))"),
        "nextafter": _floats_only(np.nextafter),
        # since JAX 0.11: the derivative of tanh
        "one_minus_square": _of_ones("multiply(add({one}, {x}), subtract({one}, {x}))"),
    }  # fmt: skip
    curves = {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
        "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
        "atanh": np.arctanh, "cbrt": np.cbrt, "atan2": np.arctan2, "pow": host_curves.power,
    }  # fmt: skip
    arithmetic["logistic"] = _of_ones("divide({one}, add({one}, exp(negative({x}))))")
    whole = {
        "reduce_sum": host_reductions.summed,
        "reduce_max": host_reductions.extreme(np.maximum),
        "reduce_min": host_reductions.extreme(np.minimum),
        "reduce_and": host_reductions.reduced(np.logical_and, "b"),
        "reduce_or": host_reductions.reduced(np.logical_or, "b"),
        "reduce_prod": host_reductions.multiplied,
        "argmax": host_reductions.place_of(np.argmax),
        "argmin": host_reductions.place_of(np.argmin),
        "cumsum": host_reductions.running(np.add),
        "cumprod": host_reductions.running(np.multiply),
        "cummax": host_reductions.running(np.maximum),
        "cummin": host_reductions.running(np.minimum),
    }
    return {
        **{name: Primitive(make, 0) for name, make in looks.items()},
        **{name: Primitive(make) for name, make in moves.items()},
        "pad": Primitive(_pad, knowing=_pad_with),
        "select_n": Primitive(_select, spreads=True, knowing=_select_with),
        "convert_element_type": Primitive(_convert, spreads=True, cost=_cost_of_converting),
        **{name: Primitive(make, spreads=True) for name, make in arithmetic.items()},
        **{n: Primitive(host_curves.of_floats(fn), spreads=True, cost=host_curves.cost) for n, fn in curves.items()},
        **{name: Primitive(make, 0.4, 2) for name, make in whole.items()},
        **{name: Primitive(whole[name], 1, 2) for name in ("reduce_prod", "argmax", "argmin")},
        **{name: Primitive(whole[name], 4, 2) for name in ("cumsum", "cumprod", "cummax", "cummin")},
        "call_hi_primitive": Primitive(_frexp, 10),
        "erf": Primitive(host_curves.erf, cost=host_curves.erf_cost),
        "div": Primitive(_div, spreads=True, cost=_cost_of_division),
        "rem": Primitive(_rem, spreads=True, cost=_cost_of_division),
        "shift_left": Primitive(_always(np.left_shift), 15, spreads=True),
        "shift_right_arithmetic": Primitive(_signed_only(np.right_shift), 15, spreads=True),
        "lgamma": Primitive(host_curves.one_by_one(host_curves.log_gamma), 60, 1),
        "top_k": Primitive(host_reductions.top_k, 10, 5),
        "erfc": Primitive(host_curves.one_by_one(math.erfc), 50, 1),
        "sort": Primitive(host_reductions.ordered, 10, 5),
        "gather": Primitive(host_indexing.gather, cost=host_indexing.gather_cost, knowing=host_indexing.gather_knowing),
        **{
            name: Primitive(
                host_indexing.scatter(joins),
                cost=host_indexing.scatter_cost,
                knowing=host_indexing.scatter_knowing(joins),
            )
            for name, joins in host_indexing.SCATTERS.items()
        },
        "dot_general": Primitive(host_products.dot, cost=host_products.dot_cost),
        **{name: Primitive(make, cost=lapack.cost) for name, make in lapack.STEPS.items()},
        "conv_general_dilated": Primitive(host_products.convolution, cost=host_products.convolution_cost),
    }


def _frexp(params: Any, ins: Any, outs: Any) -> Step | None:
    """Mantissa and exponent, which JAX has made a step of its own since 0.12; before, it consists of known steps."""
    if type(params["_prim"]).__name__ != "Frexp":
        return None
    return lambda x: list(np.frexp(x))


def cost_of_rounding(aval: Any) -> float:
    """Microseconds that a step of a half type takes longer than one of float32: NumPy converts float16 one by one."""
    return 1 + aval.size * (12e-3 if aval.dtype == HALVES[0] else 1e-3)


def _cost_of_division(eqn: Any) -> float:
    """Integers are divided one by one, and XLA fuses the long chains that this is part of, as it does with shifts."""
    aval = eqn.outvars[0].aval
    each = 0.2 if eqn.primitive.name == "div" else 7.5
    return 0.5 + aval.size * (each if aval.dtype.kind == "f" else 50) / 1000


def cost_of_gathering(eqn: Any) -> float:
    """A copy of elements that do not lie side by side."""
    return price(0.5, 2, eqn.outvars[0].aval.size)


def _cost_of_converting(eqn: Any) -> float:
    """NumPy converts float16 one by one."""
    aval, half = eqn.outvars[0].aval, any(v.aval.dtype == HALVES[0] for v in (*eqn.invars, *eqn.outvars))
    return price(0.5, 2.5 if half else 0.2, aval.size)


def loop(params: Any, body: Step, outs: Any) -> Step:
    """JAX's `scan`: `body` takes constants, what one round passes to the next, and a row of each array."""
    fixed, n_state = _constants_and_state(params)
    rounds = range(params["length"])
    rounds = rounds[::-1] if params["reverse"] else rounds
    rows = outs[n_state:]

    def run(*args: Any) -> Any:
        consts, state, arrays = args[:fixed], args[fixed : fixed + n_state], args[fixed + n_state :]
        stacks = [np.empty(a.shape, a.dtype) for a in rows]
        for i in rounds:
            out = body(*consts, *state, *[x[i, ...] for x in arrays])
            state = out[:n_state]
            for stack, row in zip(stacks, out[n_state:]):
                stack[i] = row
        return [*state, *stacks]

    return run


def chosen(branches: list[Step]) -> Step:
    """JAX's `cond`: one of several bodies, whose number comes first."""
    last = len(branches) - 1
    return lambda which, *args: branches[min(max(int(which), 0), last)](*args)


def _constants_and_state(params: Any) -> tuple[int, int]:
    """Return how many of a scan's arguments are constants, and how many one round passes to the next.

    JAX 0.10 has the two numbers. JAX 0.11 has a tree of three parts: constants, state, and arrays that are read by row.
    """
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, state, _ = params["ft_in"].unpack()
    return len(constants), len(state)


def compiled_alone(eqn: Any) -> Step | None:
    """One step as a compiled function of NumPy arrays, such as a large product beside a loop of slow compilation."""
    params = tuple(sorted(eqn.params.items()))
    try:
        kernel = _kernel_of(eqn.primitive, params)
    except TypeError:  # a parameter that cannot be a key
        return None
    return lambda *xs: np.asarray(kernel(*xs))


@functools.lru_cache(64)
def _kernel_of(primitive: Any, params: Any) -> Any:
    def step(*xs: Any) -> Any:
        return primitive.bind(*xs, **dict(params))

    step.__name__ = step.__qualname__ = primitive.name
    return jit(step)


STEPS = _table()

MOVES = frozenset((
    "reshape", "squeeze", "broadcast_in_dim", "transpose", "rev", "slice", "split", "unstack", "concatenate", "stack",
    "copy", "convert_element_type", "pad", "select_n", "gather", "scatter", "dynamic_slice", "dynamic_update_slice",
))  # fmt: skip
"""Primitives that only move and convert elements."""


_SILENT = MOVES - {"convert_element_type"} | {
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite", "argmax", "argmin", "reduce_and",
    "reduce_or", "tile", "bitcast_convert_type", "real", "imag", "stop_gradient", "stop_cotangent", "unsplit", "iota",
}  # fmt: skip
_SILENT_OF_FLOATS = {"neg", "abs", "sign", "max", "min"}


def is_silent(eqn: Any) -> bool:
    """Return whether NumPy warns of no value that a step is given, NaN and infinities included."""
    name = eqn.primitive.name
    return name in _SILENT or (name in _SILENT_OF_FLOATS and eqn.outvars[0].aval.dtype.kind == "f")


def filling(aval: Any) -> Step:
    """An array of that shape, filled with what is given."""
    shape, dt = aval.shape, aval.dtype

    def fill(x: Any) -> Any:
        out = np.empty(shape, dt)
        out[...] = x
        return out

    return fill


def cost(primitive: Primitive, eqn: Any) -> float:
    """Microseconds that NumPy takes for a step, as far as its shapes tell."""
    if primitive.cost is not None:
        return primitive.cost(eqn)
    return price(primitive.overhead, primitive.per_element, max(choice.touched(eqn), default=0))


def price(overhead: float, per_element: float, work: int) -> float:
    """Microseconds for a step that touches so many elements, each of which takes so many nanoseconds."""
    more = max(0, work - _NEAR) * 0.3
    return overhead + (work * per_element + more) / 1000


_NEAR = 1 << 16
"""So many elements, with those of what comes next, are still in the processor's cache."""
