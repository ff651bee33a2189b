"""JAX's primitives on NumPy arrays, as XLA computes them on the CPU: parameters and avals give a function, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

Step = Callable[..., Any]


class Unsure(Exception):
    """These values leave it open what XLA would give."""


def no_subnormals(x: Any) -> None:
    """`Unsure` if there are subnormal numbers in `x`, which XLA flushes to zero."""
    if has_subnormals(np.asarray(x)):
        raise Unsure


def has_subnormals(x: np.ndarray) -> bool:
    """Whether there are some among floating point or complex numbers."""
    if x.dtype.kind == "c":
        return has_subnormals(x.real) or has_subnormals(x.imag)
    small = np.abs(x) < _tiny(x.dtype)
    return bool(small.any() and (x[small] != 0).any())


def _tiny(dt: Any) -> Any:
    found = _TINY.get(dt)
    if found is None:
        found = _TINY[dt] = np.asarray(jax.numpy.finfo(dt).smallest_normal, dt)
    return found


_TINY: dict[Any, Any] = {}


def _always(fn: Step) -> Callable[..., Step]:
    return lambda params, ins, outs: fn


def _broadcast(params: Any, ins: Any, outs: Any) -> Step | None:
    if len(ins) > 1:
        return None
    shape, dims = params["shape"], params["broadcast_dimensions"]
    spread = [1] * len(shape)
    for d, n in zip(dims, ins[0].shape):
        spread[d] = n
    return lambda x: np.broadcast_to(np.reshape(x, spread), shape)


def _reshape(params: Any, ins: Any, outs: Any) -> Step | None:
    if params.get("dimensions") is not None or len(ins) > 1:
        return None
    shape = outs[0].shape
    return lambda x: np.reshape(x, shape)


def _to_shape(params: Any, ins: Any, outs: Any) -> Step:
    shape = outs[0].shape
    return lambda x: np.reshape(x, shape)


def _transpose(params: Any, ins: Any, outs: Any) -> Step:
    permutation = params["permutation"]
    return lambda x: np.transpose(x, permutation)


def _rev(params: Any, ins: Any, outs: Any) -> Step:
    axes = params["dimensions"]
    return lambda x: np.flip(x, axes)


def _slice(params: Any, ins: Any, outs: Any) -> Step:
    strides = params["strides"] or (None,) * len(params["start_indices"])
    at = tuple(map(slice, params["start_indices"], params["limit_indices"], strides))
    return lambda x: x[at]


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
    return lambda which, no, yes: np.where(which, yes, no)


def _iota(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins:
        return None
    shape, d, dt = outs[0].shape, params["dimension"], outs[0].dtype
    row = np.arange(shape[d]).astype(dt).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return lambda: np.broadcast_to(row, shape)


def _convert(params: Any, ins: Any, outs: Any) -> Step | None:
    old, new = ins[0].dtype, outs[0].dtype
    if old.kind == "c" and new.kind != "c":
        return None
    if new.kind == "b":
        return lambda x: x != 0
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
    return lambda x: np.asarray(x).astype(new)


def _integer_pow(params: Any, ins: Any, outs: Any) -> Step | None:
    n = params["y"]
    if n < 2 or ins[0].dtype.kind == "c" or (n > 2 and ins[0].dtype.itemsize == 2):
        return None

    def power(x: Any) -> Any:  # by squaring, as JAX does
        out, k = None, n
        while k:
            if k & 1:
                out = x if out is None else out * x
            k >>= 1
            x = x * x if k else x
        return out

    return power


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


def _chosen(fn: Step) -> Callable[..., Step | None]:
    """The larger or smaller: of zeros of two signs XLA takes the one that its vector code happens to."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        if ins[0].dtype.kind == "c":
            return None
        if ins[0].dtype.kind in "iub":
            return fn

        def chosen(x: Any, y: Any) -> Any:
            zeros = (x == 0) & (y == 0)
            if zeros.any() and (np.signbit(x) != np.signbit(y))[zeros].any():
                raise Unsure
            return fn(x, y)

        return chosen

    return make


def _clamp(params: Any, ins: Any, outs: Any) -> Step | None:
    most, least = _chosen(np.minimum)(params, ins, outs), _chosen(np.maximum)(params, ins, outs)
    if most is None or least is None:
        return None
    return lambda low, x, high: most(least(x, low), high)


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
    if params.get("out_sharding") is not None:
        return None
    axes, dt, shape = params["axes"], ins[0].dtype, ins[0].shape
    if dt.kind in "iu":
        return lambda x: np.asarray(np.add.reduce(x, axes, dtype=dt), dt)
    if dt.kind != "f" or dt.itemsize < 4:
        return None
    long = [a for a in axes if shape[a] != 1]
    left = outs[0].shape
    if not long:
        return lambda x: np.reshape(x, left)
    if len(long) == 1 and shape[long[0]] <= 32:  # one element after the other
        return lambda x: np.reshape(_one_by_one(np.moveaxis(x, long[0], 0)), left)

    def total(
        x: Any,
    ) -> Any:  # XLA cuts longer rows into pieces, and takes several axes in an order of its own
        _sums_exactly(np.abs(x).sum(dtype=np.float64), dt, x)
        return np.asarray(np.add.reduce(x, axes, dtype=dt), dt) + np.zeros((), dt)

    return total


def _one_by_one(rows: Any) -> Any:
    out = np.zeros(rows.shape[1:], rows.dtype)
    for row in rows:
        out = out + row
    return out


_UNIT = 1024.0


def _sums_exactly(most: Any, dt: Any, *xs: Any) -> None:
    """`Unsure` unless all partial sums are numbers of the dtype: multiples of one unit, few of them."""
    if not most * _UNIT ** len(xs) < 1 << jax.numpy.finfo(dt).nmant:
        raise Unsure
    for x in xs:
        scaled = x * x.dtype.type(_UNIT)
        if (scaled != np.rint(scaled)).any():
            raise Unsure


def _dot(params: Any, ins: Any, outs: Any) -> Step | None:
    (left, right), (rows, columns) = params["dimension_numbers"]
    dt = outs[0].dtype
    if any(a.dtype != dt for a in ins) or dt.kind != "f" or dt.itemsize < 4 or not outs[0].size:
        return None
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    one, two = [""] * ins[0].ndim, [""] * ins[1].ndim
    for i, j in zip((*rows, *left), (*columns, *right)):
        one[i] = two[j] = next(letters)
    one, two = ([n or next(letters) for n in names] for names in (one, two))
    free = [n for i, n in enumerate(one) if i not in (*rows, *left)]
    free += [n for i, n in enumerate(two) if i not in (*columns, *right)]
    form = f"{''.join(one)},{''.join(two)}->{''.join([one[i] for i in rows] + free)}"

    def dot(x: Any, y: Any) -> Any:
        _sums_exactly(np.abs(x).max(initial=0) * np.abs(y).sum(dtype=np.float64), dt, x, y)
        return np.asarray(np.einsum(form, x, y), dt) + np.zeros((), dt)

    return dot


def _extreme(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axes, dt = params["axes"], ins[0].dtype
        if not ins[0].size or dt.kind == "c":
            return None

        def extreme(x: Any) -> Any:
            out = np.asarray(fn.reduce(x, axes), dt)
            if dt.kind not in "iub" and not out.all():
                raise Unsure  # zeros of both signs may be among them
            return out

        return extreme

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
        if ins[0].dtype.kind not in "iub" or not ins[0].size or len(params["axes"]) != 1:
            return None
        (axis,), dt = params["axes"], outs[0].dtype
        return lambda x: np.asarray(fn(x, axis), dt)

    return make


def _cumsum(params: Any, ins: Any, outs: Any) -> Step | None:
    if ins[0].dtype.kind not in "iu" or params["reverse"]:
        return None
    axis, dt = params["axis"], ins[0].dtype
    return lambda x: np.cumsum(x, axis, dtype=dt)


def _real_only(fn: Step) -> Callable[..., Step | None]:
    return lambda params, ins, outs: None if ins[0].dtype.kind == "c" else fn


def _dynamic_slice(params: Any, ins: Any, outs: Any) -> Step | None:
    sizes, shape = params["slice_sizes"], ins[0].shape
    if len(ins) != 1 + len(shape):
        return None
    return lambda x, *starts: x[_clamped(starts, sizes, shape)]


def _dynamic_update(params: Any, ins: Any, outs: Any) -> Step:
    shape, sizes = ins[0].shape, ins[1].shape

    def update(x: Any, new: Any, *starts: Any) -> Any:
        out = np.array(x)
        out[_clamped(starts, sizes, shape)] = new
        return out

    return update


def _clamped(starts: Any, sizes: Any, shape: Any) -> tuple[slice, ...]:
    found = [min(max(int(s), 0), n - k) for s, k, n in zip(starts, sizes, shape)]
    return tuple([slice(s, s + k) for s, k in zip(found, sizes)])


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
            if np.unique(flat).size < flat.size:
                raise Unsure  # the order counts
            out = np.array(x).reshape(-1)
            out[flat] = out[flat] + new if add else new
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


STEPS: dict[str, Callable[[Any, Any, Any], Step | None]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _to_shape,
    "expand_dims": _to_shape,
    "transpose": _transpose,
    "rev": _rev,
    "slice": _slice,
    "concatenate": _concatenate,
    "split": _split,
    "pad": _pad,
    "stack": _stack,
    "unstack": _unstack,
    "tile": _tile,
    "bitcast_convert_type": _bitcast,
    "stop_gradient": _always(lambda x: x),
    "copy": _always(lambda x: x),
    "select_n": _select,
    "iota": _iota,
    "convert_element_type": _convert,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "gather": _gather,
    "scatter": _scatter(add=False),
    "scatter-add": _scatter(add=True),
    "real": _always(np.real),
    "imag": _always(np.imag),
    "complex": _complex,
    "conj": _always(np.conj),
    "add": _always(np.add),
    "add_any": _always(np.add),
    "sub": _always(np.subtract),
    "mul": _always(np.multiply),
    "div": _real_only(np.divide),
    "divide": _always(np.divide),
    "sqrt": _real_only(np.sqrt),
    "square": _real_only(lambda x: x * x),
    "integer_pow": _integer_pow,
    "neg": _always(np.negative),
    "abs": _real_only(np.abs),
    "sign": _sign,
    "max": _chosen(np.maximum),
    "min": _chosen(np.minimum),
    "clamp": _clamp,
    "floor": _real_only(np.floor),
    "ceil": _real_only(np.ceil),
    "round": _round,
    "eq": _always(np.equal),
    "ne": _always(np.not_equal),
    "lt": _real_only(np.less),
    "le": _real_only(np.less_equal),
    "gt": _real_only(np.greater),
    "ge": _real_only(np.greater_equal),
    "is_finite": _real_only(np.isfinite),
    "and": _always(np.bitwise_and),
    "or": _always(np.bitwise_or),
    "xor": _always(np.bitwise_xor),
    "not": _always(np.invert),
    "dot_general": _dot,
    "reduce_sum": _sum,
    "reduce_max": _extreme(np.maximum),
    "reduce_min": _extreme(np.minimum),
    "reduce_and": _whole(np.logical_and, "b"),
    "reduce_or": _whole(np.logical_or, "b"),
    "reduce_prod": _whole(np.multiply, "iu"),
    "argmax": _which(np.argmax),
    "argmin": _which(np.argmin),
    "cumsum": _cumsum,
}
