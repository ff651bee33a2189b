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

Step = Callable[..., Any]


class Unsure(Exception):
    """These values leave it open what XLA would give."""


class Inline:
    """A step that is written into the code as it stands, with the names of its operands, which saves a call."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *xs: Any) -> Any:
        names = [f"x{i}" for i in range(len(xs))]
        return eval(self.text.format(*names), {"where": np.where, **dict(zip(names, xs))})


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
    if params.get("dimensions") is not None or len(ins) > 1:
        return None
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
    return Inline("where({0}, {2}, {1})")


def _iota(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins:
        return None
    shape, d, dt = outs[0].shape, params["dimension"], outs[0].dtype
    row = np.arange(shape[d]).astype(dt).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return lambda: np.broadcast_to(row, shape)


def _convert(params: Any, ins: Any, outs: Any) -> Step | None:
    old, new = ins[0].dtype, outs[0].dtype
    if new.kind == "b":
        return lambda x: x != 0
    if old.kind == "c" and new.kind != "c":
        return lambda x: np.real(x).astype(new) if new.kind == "f" else None
    if new.kind in "iu" and old.kind not in "iub":
        info = np.iinfo(new)

        def convert(x: Any) -> Any:
            wide = np.asarray(x, np.float64)
            if not (
                np.isfinite(wide) & (wide > float(info.min) - 1) & (wide < float(info.max))
            ).all():
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
    return lambda x: np.add.reduce(x, axes, dtype=dt)


def _dot(params: Any, ins: Any, outs: Any) -> Step | None:
    (left, right), (rows, columns) = params["dimension_numbers"]
    dt = outs[0].dtype
    if any(a.dtype != dt for a in ins) or dt.kind not in "fc" or not ins[0].size or not ins[1].size:
        return None
    summed = math.prod([ins[0].shape[d] for d in left])
    batch = math.prod([ins[0].shape[d] for d in rows])
    product = _product(ins[0].size // summed // batch, summed, ins[1].size // summed // batch)
    plain = len(ins[0].shape) == len(ins[1].shape) == 2 and not rows
    if product is None or (plain and (left, right) == ((1,), (0,))):
        return product
    first = _arranged(len(ins[0].shape), rows, left, ins[0].shape, last=True)
    second = _arranged(len(ins[1].shape), columns, right, ins[1].shape, last=False)
    shape = outs[0].shape
    return lambda x, y: product(first(x), second(y)).reshape(shape)


def _product(rows: int, summed: int, columns: int) -> Step | None:
    """The product of two matrices, or of stacks of them, in parts so small that BLAS does not start its threads.

    These wait for each other by running in circles, which takes milliseconds where somebody else computes, too.
    """
    most, parts = _ON_ONE_THREAD[rows == 1 or columns == 1]
    if rows * summed * columns <= most:
        return np.matmul
    if rows * summed * columns > most * parts:
        return None
    step = most // (summed * (columns if rows > 1 else 1))
    if not step:
        return None
    cuts = [slice(k, k + step) for k in range(0, rows if rows > 1 else columns, step)]

    def by_rows(x: Any, y: Any) -> Any:
        return np.concatenate([np.matmul(x[..., cut, :], y) for cut in cuts], -2)

    def by_columns(x: Any, y: Any) -> Any:
        return np.concatenate([np.matmul(x, y[..., cut]) for cut in cuts], -1)

    return by_rows if rows > 1 else by_columns


_ON_ONE_THREAD = {False: (1 << 18, 8), True: (9 << 10, 8)}
"""Multiplications that OpenBLAS does without threads, and in how many parts XLA is slower still.

They are those of two matrices, and of a matrix and a vector. Each part of a product of matrices rearranges the second
one anew: 64x256 times 256x256 takes 210 us in 16 parts, and XLA 60.
"""


def _arranged(rank: int, batch: Any, summed: Any, shape: Any, last: bool) -> Step:
    """An operand as a stack of matrices: its summed dimensions come last, or else before its free ones."""
    free = [d for d in range(rank) if d not in batch and d not in summed]
    order = (*batch, *free, *summed) if last else (*batch, *summed, *free)
    sizes = [
        math.prod([shape[d] for d in ds]) for ds in ((free, summed) if last else (summed, free))
    ]
    whole = (*[shape[d] for d in batch], *sizes)
    return lambda x: np.transpose(x, order).reshape(whole)


def _extreme(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axes, dt = params["axes"], ins[0].dtype
        if not ins[0].size or dt.kind == "c":
            return None
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
    """A function of Python's for each element: NumPy has none."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        dt = ins[0].dtype

        def each(x: Any) -> Any:
            x = np.asarray(x)
            return np.array([fn(v) for v in x.ravel().tolist()], dt).reshape(x.shape)

        return each

    return make


def _real_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: None if ins[0].dtype.kind == "c" else fn


def _dynamic_slice(params: Any, ins: Any, outs: Any) -> Step | None:
    sizes, shape = params["slice_sizes"], ins[0].shape
    if len(ins) != 1 + len(shape):
        return None
    if len(shape) == 1:
        (size,), last = sizes, shape[0] - sizes[0]

        def part(x: Any, start: Any) -> Any:
            s = min(max(int(start), 0), last)
            return x[s : s + size]

        return part
    return lambda x, *starts: x[_clamped(starts, sizes, shape)]


def _dynamic_update(params: Any, ins: Any, outs: Any) -> Step:
    shape, sizes = ins[0].shape, ins[1].shape

    def update(x: Any, new: Any, *starts: Any) -> Any:
        out = np.array(x)
        out[_clamped(starts, sizes, shape)] = new
        return out

    return update


def _clamped(starts: Any, sizes: Any, shape: Any) -> tuple[slice, ...]:
    at = []
    for start, k, n in zip(starts, sizes, shape):
        s = min(max(int(start), 0), n - k)
        at.append(slice(s, s + k))
    return tuple(at)


class _Places:
    """The elements that a gather or scatter touches: indices into the operand for each element of the other array."""

    __slots__ = ("_at", "_form", "_map", "_mode", "_room", "_shape")

    def __init__(
        self, numbers: Any, names: tuple[str, ...], params: Any, operand: Any, starts: Any, shape: Any, sizes: Any,
    ) -> None:  # fmt: skip
        window, dropped, mapped, batching, pairs = (getattr(numbers, n) for n in names)
        rank = len(shape)
        self._shape, self._map, self._mode = shape, mapped, params["mode"]
        self._room = [operand[d] - sizes[d] for d in mapped]
        self._form = [1 if d in window else shape[d] for d in range(rank)]
        self._at: list[Any] = [np.zeros((), np.int64)] * len(operand)
        batch = [d for d in range(rank) if d not in window]
        for d, b in zip(batching, pairs):
            self._at[d] = _along(starts[b], batch[b], rank)
        inside = [d for d in range(len(operand)) if d not in dropped and d not in batching]
        for d, out in zip(inside, window):
            self._at[d] = _along(sizes[d], out, rank)

    def find(self, starts: Any) -> tuple[tuple[Any, ...], Any]:
        """Indices, and which windows lie within the operand (None: all of them)."""
        starts = starts.astype(np.int64)
        within = None
        if self._mode == jax.lax.GatherScatterMode.FILL_OR_DROP:
            within = ((starts >= 0) & (starts <= self._room)).all(-1)
            within = None if within.all() else within.reshape(self._form)
        starts = np.clip(starts, 0, self._room)
        at = list(self._at)
        for k, d in enumerate(self._map):
            at[d] = at[d] + starts[..., k].reshape(self._form)
        return tuple(at), within


def _along(n: int, axis: int, rank: int) -> Any:
    return np.arange(n).reshape([-1 if i == axis else 1 for i in range(rank)])


_GATHERED = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
             "start_indices_batching_dims")  # fmt: skip
_SCATTERED = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "operand_batching_dims",
              "scatter_indices_batching_dims")  # fmt: skip
_MODES = (
    jax.lax.GatherScatterMode.FILL_OR_DROP,
    jax.lax.GatherScatterMode.CLIP,
    jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS,
)


def _gather(params: Any, ins: Any, outs: Any) -> Step | None:
    shape = outs[0].shape
    if params["mode"] not in _MODES or not ins[0].size:
        return None
    places = _Places(
        params["dimension_numbers"], _GATHERED, params, ins[0].shape, ins[1].shape, shape, params["slice_sizes"]
    )  # fmt: skip
    filler = _filler(params.get("fill_value"), ins[0].dtype)

    def gather(x: Any, starts: Any) -> Any:
        at, within = places.find(starts)
        out = np.broadcast_to(x[at], shape)
        return out if within is None else np.where(within, out, filler)

    return gather


def _scatter(add: bool) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        operand, shape, numbers = ins[0].shape, ins[2].shape, params["dimension_numbers"]
        if params["mode"] not in _MODES or not ins[0].size or (ins[0].dtype.kind == "b" and add):
            return None
        sizes = [1] * len(operand)
        gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        inside = [d for d in range(len(operand)) if d not in gone]
        for d, u in zip(inside, numbers.update_window_dims):
            sizes[d] = shape[u]
        places = _Places(numbers, _SCATTERED, params, operand, ins[1].shape, shape, sizes)

        def scatter(x: Any, starts: Any, new: Any) -> Any:
            at, within = places.find(starts)
            flat = np.broadcast_to(np.ravel_multi_index(np.broadcast_arrays(*at), operand), shape)
            if within is not None:
                kept = np.broadcast_to(within, shape)
                flat, new = flat[kept], new[kept]
            else:
                flat, new = flat.reshape(-1), new.reshape(-1)
            out = np.array(x).reshape(-1)
            if add:
                np.add.at(out, flat, new)
            else:
                out[flat] = new
            return out.reshape(operand)

        return scatter

    return make


def _filler(given: Any, dt: Any) -> Any:
    if given is not None:
        return np.asarray(given, dt)
    if dt.kind == "b":
        return np.asarray(True)
    if dt.kind == "i":
        return np.asarray(np.iinfo(dt).min, dt)
    if dt.kind == "u":
        return np.asarray(np.iinfo(dt).max, dt)
    return np.asarray(np.nan, dt)


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
    """Nanoseconds for an element of the largest array that takes part, or for eight products of matrices."""
    overhead: float = 0.5
    """Microseconds for a call."""
    spreads: bool = False
    """Whether it takes operands with fewer elements than its result, as a ufunc does."""


def _table() -> dict[str, Primitive]:
    moves = {
        "reshape": _reshape, "concatenate": _concatenate, "pad": _pad, "stack": _stack, "tile": _tile,
        "bitcast_convert_type": _bitcast,
        "optimization_barrier": _always(lambda *xs: list(xs)), "iota": _iota, "convert_element_type": _convert,
        "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update, "complex": _complex,
    }  # fmt: skip
    looks = {
        "broadcast_in_dim": _broadcast, "squeeze": _to_shape, "transpose": _transpose, "rev": _rev, "slice": _slice,
        "split": _split, "unstack": _unstack,
    }  # fmt: skip
    arithmetic = {
        "stop_gradient": _always(SAME), "copy": _always(SAME), "select_n": _select,
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
    }  # fmt: skip
    curves = {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin,
        "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
        "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
        "cbrt": np.cbrt, "atan2": np.arctan2, "pow": np.power, "logistic": _logistic,
    }  # fmt: skip
    whole = {
        "reduce_sum": _sum, "reduce_max": _extreme(np.maximum), "reduce_min": _extreme(np.minimum),
        "reduce_and": _whole(np.logical_and, "b"), "reduce_or": _whole(np.logical_or, "b"),
        "reduce_prod": _whole(np.multiply, "iuf"), "argmax": _which(np.argmax), "argmin": _which(np.argmin),
        "cumsum": _running(np.add), "cumprod": _running(np.multiply), "cummax": _running(np.maximum),
        "cummin": _running(np.minimum),
    }  # fmt: skip
    return {
        **{name: Primitive(make, 0) for name, make in looks.items()},
        **{name: Primitive(make) for name, make in moves.items()},
        **{name: Primitive(make, spreads=True) for name, make in arithmetic.items()},
        **{name: Primitive(_same_floats(fn), 2, spreads=True) for name, fn in curves.items()},
        **{name: Primitive(make, 0.4, 2) for name, make in whole.items()},
        "erf": Primitive(_one_by_one(math.erf), 50, 1),
        "erfc": Primitive(_one_by_one(math.erfc), 50, 1),
        "sort": Primitive(_sort, 10, 5),
        "gather": Primitive(_gather, 4, 15),
        "scatter": Primitive(_scatter(add=False), 4, 25),
        "scatter-add": Primitive(_scatter(add=True), 4, 25),
        "dot_general": Primitive(_dot, 0.05, 2),  # XLA takes nearly as long
    }


def _same_floats(fn: Step) -> Callable[..., Step | None]:
    """A function of floating point numbers, all of the dtype of the result."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        return fn if all(a.dtype == outs[0].dtype and a.dtype.kind == "f" for a in ins) else None

    return make


def loop(params: Any, body: Step, outs: Any) -> Step:
    """JAX's `scan`: `body` takes constants, what one round hands to the next, and a row of each array."""
    fixed, handed, rounds = params["num_consts"], params["num_carry"], range(params["length"])
    rounds = rounds[::-1] if params["reverse"] else rounds
    rows = outs[handed:]

    def run(*args: Any) -> Any:
        consts, state, arrays = args[:fixed], args[fixed : fixed + handed], args[fixed + handed :]
        stacks = [np.empty(a.shape, a.dtype) for a in rows]
        for i in rounds:
            out = body(*consts, *state, *[x[i, ...] for x in arrays])
            state = out[:handed]
            for stack, row in zip(stacks, out[handed:]):
                stack[i] = row
        return [*state, *stacks]

    return run


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
    avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    if eqn.primitive.name == "dot_general":
        (summed, _), _ = eqn.params["dimension_numbers"]
        work = eqn.outvars[0].aval.size * math.prod([avals[0].shape[d] for d in summed]) / 8
    else:
        work = max([a.size for a in avals], default=0)
    return primitive.overhead + work * primitive.per_element / 1000
