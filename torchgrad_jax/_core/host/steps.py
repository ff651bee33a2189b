"""JAX's primitives on NumPy arrays: the parameters and avals of a step give a function, or None where XLA has to do it.

`STEPS` is the table: a primitive's name, how to make its function, and how many nanoseconds NumPy takes for an element.
The results agree with XLA's to the rounding of the dtype. Where XLA leaves a value open (a number that no integer can
hold), the function raises `Unsure`, and the whole kernel is left to XLA.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from . import indexing as host_indexing, products as host_products

Step = Callable[..., Any]


class Unsure(Exception):
    """For these values it is not defined what XLA gives."""


class Inline:
    """A step that becomes an expression in the code, with the names of its operands. That saves a call."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *xs: Any) -> Any:
        names = [f"x{i}" for i in range(len(xs))]
        text = compile(self.text.format(*names), f"{__file__}:step", "eval")
        return eval(text, {"where": np.where, **dict(zip(names, xs))})


SAME = Inline("{0}")


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
    shape = outs[0].shape
    return SAME if ins[0].shape == shape else Inline(f"{{0}}.reshape({shape})")


def _transpose(params: Any, ins: Any, outs: Any) -> Step:
    return Inline(f"{{0}}.transpose({tuple(params['permutation'])})")


def _rev(params: Any, ins: Any, outs: Any) -> Step:
    axes = params["dimensions"]
    return lambda x: np.flip(x, axes)


def _slice(params: Any, ins: Any, outs: Any) -> Step:
    strides = params["strides"] or (1,) * len(params["start_indices"])
    bounds = zip(params["start_indices"], params["limit_indices"], strides)
    at = ", ".join([f"{start}:{stop}:{step}" for start, stop, step in bounds])
    return Inline(f"{{0}}[{at or '()'}]")


def _concatenate(params: Any, ins: Any, outs: Any) -> Step:
    axis = params["dimension"]
    return lambda *xs: np.concatenate(xs, axis)


def _split(params: Any, ins: Any, outs: Any) -> Step:
    at, axis = np.cumsum(params["sizes"])[:-1].tolist(), params["axis"]
    return lambda x: np.split(x, at, axis)


def _pad(params: Any, ins: Any, outs: Any) -> Step | None:
    config, shape = params["padding_config"], outs[0].shape
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    at = tuple(
        slice(low, low + max((n - 1) * (inner + 1) + 1, 0) if n else low, inner + 1)
        for n, (low, _, inner) in zip(ins[0].shape, config)
    )

    def pad(x: Any, fill: Any) -> Any:
        out = np.full(shape, fill, x.dtype)
        out[at] = x
        return out

    return pad


def _select(params: Any, ins: Any, outs: Any) -> Step | None:
    if len(ins) != 3 or ins[0].dtype != np.bool_:
        return None
    whole = _WHOLE.get(outs[0].dtype.itemsize)
    if outs[0].size < _MANY or whole is None:
        return Inline("where({0}, {2}, {1})")

    def select(which: Any, no: Any, yes: Any) -> Any:
        mask = np.negative(which.view(np.int8), dtype=whole, casting="unsafe")
        no = no.view(whole)
        return (((no ^ yes.view(whole)) & mask) ^ no).view(outs[0].dtype)

    return select


_MANY = 4096
_WHOLE = {1: np.int8, 4: np.int32, 8: np.int64}
"""Integers by their size: a choice among many elements is made of bits, since `where` branches for each of them."""


def _iota(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins:
        return None
    shape, d, dt = outs[0].shape, params["dimension"], outs[0].dtype
    row = np.arange(shape[d]).astype(dt).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return lambda: np.broadcast_to(row, shape)


def _convert(params: Any, ins: Any, outs: Any) -> Step | None:
    old, new = ins[0].dtype, outs[0].dtype
    if old == new:
        return SAME
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind == "c" and new.kind != "c":
        return lambda x: np.real(x).astype(new) if new.kind == "f" else None
    if new.kind in "iu" and old.kind not in "iub":
        info = np.iinfo(new)

        def convert(x: Any) -> Any:
            wide = np.asarray(x, np.float64)
            if not (np.isfinite(wide) & (wide > float(info.min) - 1) & (wide < float(info.max))).all():
                raise Unsure
            return np.asarray(np.trunc(wide), new)

        return convert
    if not ins[0].shape:
        return lambda x: np.asarray(x, new)
    return lambda x: x.astype(new)


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

    if params["y"] > 0:
        return power
    one = np.ones((), ins[0].dtype)
    return lambda x: one / power(x)


def _stack(params: Any, ins: Any, outs: Any) -> Step:
    axis = params["axis"]
    if len(ins) == 1:
        return Inline(f"{{0}}.reshape({outs[0].shape})")
    return lambda *xs: np.stack(xs, axis)


def _unstack(params: Any, ins: Any, outs: Any) -> Step:
    axis = params["axis"]
    return lambda x: list(np.moveaxis(x, axis, 0))


def _tile(params: Any, ins: Any, outs: Any) -> Step:
    reps = params["reps"]
    return lambda x: np.tile(x, reps)


def _bitcast(params: Any, ins: Any, outs: Any) -> Step | None:
    old, new = ins[0].dtype, outs[0].dtype
    if old.itemsize != new.itemsize or "b" in (old.kind, new.kind) or "c" in (old.kind, new.kind):
        return None
    return lambda x: np.ascontiguousarray(x).view(new).reshape(x.shape)


def _round(params: Any, ins: Any, outs: Any) -> Step | None:
    ties = params["rounding_method"] == jax.lax.RoundingMethod.TO_NEAREST_EVEN
    return np.rint if ties and ins[0].dtype.kind != "c" else None


def _clamp(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[1].dtype.kind == "c":
        return None
    return lambda low, x, high: np.minimum(np.maximum(x, low), high)


def _sign(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[0].dtype.kind == "c":
        return None
    if ins[0].dtype.kind in "iub":
        return np.sign

    def sign(x: Any) -> Any:
        one = np.copysign(np.ones((), x.dtype), x)
        return np.where((x == 0) | np.isnan(x), x, one)

    return sign


def _sum(params: Any, ins: Any, outs: Any) -> Step | None:
    axes, dt = params["axes"], ins[0].dtype
    if all(ins[0].shape[d] == 1 for d in axes):
        return _to_shape(params, ins, outs)
    return lambda x: np.add.reduce(x, axes, dtype=dt)


def _extreme(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axes, dt = params["axes"], ins[0].dtype
        if not ins[0].size or dt.kind == "c":
            return None
        if all(ins[0].shape[d] == 1 for d in axes):
            return _to_shape(params, ins, outs)
        return lambda x: fn.reduce(x, axes)

    return make


def _whole(fn: Any, kinds: str) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axes, dt = params["axes"], ins[0].dtype
        if dt.kind not in kinds:
            return None
        return lambda x: np.asarray(fn.reduce(x, axes, dtype=dt), dt)

    return make


def _which(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        if ins[0].dtype.kind == "c" or not ins[0].size or len(params["axes"]) != 1:
            return None
        (axis,), dt = params["axes"], outs[0].dtype
        return lambda x: np.asarray(fn(x, axis), dt)

    return make


def _running(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axis, dt = params["axis"], ins[0].dtype
        if dt.kind not in "iuf":
            return None
        if params["reverse"]:
            return lambda x: np.flip(fn.accumulate(np.flip(x, axis), axis, dtype=dt), axis)
        return lambda x: fn.accumulate(x, axis, dtype=dt)

    return make


def _sort(params: Any, ins: Any, outs: Any) -> Step | None:
    axis = params["dimension"]
    if params["num_keys"] != 1 or ins[0].dtype.kind == "c":
        return None

    def sort(key: Any, *others: Any) -> list[Any]:
        order = np.argsort(key, axis, kind="stable")
        return [np.take_along_axis(x, order, axis) for x in (key, *others)]

    return sort


def _one_by_one(fn: Callable[[float], float]) -> Callable[..., Step | None]:
    """Calls a function of Python for each element, where NumPy has no such function."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        dt = ins[0].dtype

        def each(x: Any) -> Any:
            x = np.asarray(x)
            return np.array([fn(v) for v in x.ravel().tolist()], dt).reshape(x.shape)

        return each

    return make


def _erf(params: Any, ins: Any, outs: Any) -> Step | None:
    few = ins[0].size <= _FEW or ins[0].dtype != np.float32
    return _one_by_one(math.erf)(params, ins, outs) if few else _error_function


_FEW = 64
"""So many calls of a function of Python take less time than twenty of NumPy's."""


def _erf_cost(eqn: Any) -> float:
    aval = eqn.invars[0].aval
    return 15 + aval.size * (4e-3 if aval.dtype == np.float32 else 50e-3)


def _error_function(x: Any) -> Any:
    """erf in float32, to three units in the last place: x times a quotient of polynomials of x * x."""
    x = np.minimum(np.maximum(x, np.float32(-3.95)), np.float32(3.95))
    square = x * x
    top, bottom = (_polynomial(square, c) for c in (_ERF_TOP, _ERF_BOTTOM))
    x *= top
    x /= bottom
    return np.minimum(np.maximum(x, np.float32(-1), out=x), np.float32(1), out=x)


def _polynomial(x: Any, coefficients: Any) -> Any:
    out = x * coefficients[0]
    for c in coefficients[1:-1]:
        out += c
        out *= x
    out += coefficients[-1]
    return out


_ERF_TOP = np.array(
    [
        2.0258458903302784e-06,
        0.0002846876659239195,
        0.003808284055644545,
        0.05287581323897599,
        0.19155354360704346,
        1.1283791437320263,
    ],
    np.float32,
)
_ERF_BOTTOM = np.array(
    [3.7831154736578135e-05, 0.0011707502473703025, 0.015055336707677749, 0.11456090490628652, 0.5030925833724899, 1.0],
    np.float32,
)
"""The quotient is within 2e-8 of erf(x) / x up to 3.95, where erf is 1 in float32."""


def _real_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: None if ins[0].dtype.kind == "c" else fn


def _complex(params: Any, ins: Any, outs: Any) -> Step:
    dt = outs[0].dtype

    def join(re: Any, im: Any) -> Any:
        out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), dt)
        out.real, out.imag = re, im
        return out

    return join


def _floats_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: fn if ins[0].dtype.kind == "f" else None


def _logistic(x: Any) -> Any:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


def _reciprocal_root(x: Any) -> Any:
    return x.dtype.type(1) / np.sqrt(x)


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


def _table() -> dict[str, Primitive]:
    moves = {
        "reshape": _reshape,
        "concatenate": _concatenate,
        "pad": _pad,
        "stack": _stack,
        "tile": _tile,
        "bitcast_convert_type": _bitcast,
        "optimization_barrier": _always(lambda *xs: list(xs)),
        "iota": _iota,
        "convert_element_type": _convert,
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
        "unsplit": _always(SAME), "select_n": _select,
        "real": _always(np.real), "imag": _always(np.imag), "conj": _always(np.conj),
        "add": _always(np.add), "add_any": _always(np.add), "sub": _always(np.subtract),
        "mul": _always(np.multiply), "div": _floats_only(np.divide),
        "divide": _floats_only(np.divide), "square": _always(lambda x: x * x),
        "integer_pow": _integer_pow, "neg": _always(np.negative), "abs": _always(np.abs), "sign": _sign,
        "max": _real_only(np.maximum), "min": _real_only(np.minimum), "clamp": _clamp, "floor": _floats_only(np.floor),
        "ceil": _floats_only(np.ceil), "round": _round, "eq": _always(np.equal), "ne": _always(np.not_equal),
        "lt": _real_only(np.less), "le": _real_only(np.less_equal), "gt": _real_only(np.greater),
        "ge": _real_only(np.greater_equal), "is_finite": _floats_only(np.isfinite), "and": _always(np.bitwise_and),
        "or": _always(np.bitwise_or), "xor": _always(np.bitwise_xor), "not": _always(np.invert),
        "rem": _floats_only(np.fmod), "sqrt": _floats_only(np.sqrt), "rsqrt": _floats_only(_reciprocal_root),
        "nextafter": _floats_only(np.nextafter),
        "one_minus_square": _always(lambda x: (1 + x) * (1 - x)),  # since JAX 0.11: the derivative of tanh
    }  # fmt: skip
    curves = {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
        "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
        "atanh": np.arctanh, "cbrt": np.cbrt, "atan2": np.arctan2, "pow": np.power, "logistic": _logistic,
    }  # fmt: skip
    whole = {
        "reduce_sum": _sum,
        "reduce_max": _extreme(np.maximum),
        "reduce_min": _extreme(np.minimum),
        "reduce_and": _whole(np.logical_and, "b"),
        "reduce_or": _whole(np.logical_or, "b"),
        "reduce_prod": _whole(np.multiply, "iuf"),
        "argmax": _which(np.argmax),
        "argmin": _which(np.argmin),
        "cumsum": _running(np.add),
        "cumprod": _running(np.multiply),
        "cummax": _running(np.maximum),
        "cummin": _running(np.minimum),
    }
    return {
        **{name: Primitive(make, 0) for name, make in looks.items()},
        **{name: Primitive(make) for name, make in moves.items()},
        **{name: Primitive(make, spreads=True) for name, make in arithmetic.items()},
        **{name: Primitive(_same_floats(fn), spreads=True, cost=_curve_cost) for name, fn in curves.items()},
        **{name: Primitive(make, 0.4, 2) for name, make in whole.items()},
        "erf": Primitive(_erf, cost=_erf_cost),
        "erfc": Primitive(_one_by_one(math.erfc), 50, 1),
        "sort": Primitive(_sort, 10, 5),
        "gather": Primitive(host_indexing.gather, cost=host_indexing.gather_cost),
        "scatter": Primitive(host_indexing.scatter(add=False), cost=host_indexing.scatter_cost),
        "scatter-add": Primitive(host_indexing.scatter(add=True), cost=host_indexing.scatter_cost),
        "dot_general": Primitive(host_products.dot, cost=host_products.dot_cost),
        "conv_general_dilated": Primitive(host_products.convolution, cost=host_products.convolution_cost),
    }


def _curve_cost(eqn: Any) -> float:
    """The cost of exp, tanh and their like, of which NumPy computes several float32 numbers at a time."""
    aval = eqn.outvars[0].aval
    return 0.5 + aval.size * (0.6e-3 if aval.dtype.itemsize == 4 else 2e-3)


def _same_floats(fn: Step) -> Callable[..., Step | None]:
    """A function of floating point numbers, all of the dtype of the result."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        return fn if all(a.dtype == outs[0].dtype and a.dtype.kind == "f" for a in ins) else None

    return make


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


def _constants_and_state(params: Any) -> tuple[int, int]:
    """How many of a scan's arguments are constants, and how many one round passes to the next.

    JAX 0.10 has the two numbers. JAX 0.11 has a tree of three parts: constants, state, and arrays that are read by row.
    """
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, state, _ = params["ft_in"].unpack()
    return len(constants), len(state)


STEPS = _table()


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
    work = max([v.aval.size for v in (*eqn.invars, *eqn.outvars)], default=0)
    more = max(0, work - _NEAR) * 0.3
    return primitive.overhead + (work * primitive.per_element + more) / 1000


_NEAR = 1 << 16
"""So many elements, with those of what comes next, are still in the processor's cache."""
