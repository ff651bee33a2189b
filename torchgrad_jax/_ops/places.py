"""Where in a tensor a kernel reads or writes, shared by the indexing and scattering families."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core import dtypes, shapes
from .helpers import is_bool, is_complex, is_float

Array = jax.Array
Shape = tuple[int, ...]
IN_BOUNDS = lax.GatherScatterMode.PROMISE_IN_BOUNDS


def torch_name(x: Any) -> str:
    return dtypes.scalar_type_name(dtypes.from_np(x.dtype))


def is_index(x: Array) -> bool:
    return x.dtype in (jnp.int32, jnp.int64)


# --- places: where in a tensor a kernel reads or writes ---


class Cells:
    """Single elements, by position in the flattened tensor."""

    def __init__(self, positions: Array) -> None:
        self.shape = positions.shape
        self._at = lax.expand_dims(positions, (positions.ndim,))

    def take(self, x: Array) -> Array:
        """The elements, shaped like the positions."""
        numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        return lax.gather(x.reshape(-1), self._at, numbers, (1,), mode=IN_BOUNDS)

    def write(self, how: Callable[..., Array], x: Array, src: Array) -> Array:
        """`x` with `src` scattered into it by a ``lax.scatter*`` function."""
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        flat = how(x.reshape(-1), self._at, src, numbers, mode=IN_BOUNDS)
        return flat.reshape(x.shape)


class Slices:
    """What index tensors on some dimensions select; other dimensions are taken whole."""

    def __init__(self, shape: Shape, dims: Sequence[int], indices: Sequence[Array]) -> None:
        first = dims[0]
        adjacent = list(dims) == list(range(first, first + len(dims)))
        batch = indices[0].ndim
        lead = first if adjacent else 0  # apart from each other, their dimensions come first
        ndim = len(shape) - len(dims) + batch
        window = tuple(d for d in range(ndim) if not lead <= d < lead + batch)
        self._at = jnp.stack([i.astype(jnp.int64) for i in indices], axis=-1)
        self._sizes = tuple(1 if d in dims else n for d, n in enumerate(shape))
        fixed = tuple(dims)
        self._gather = lax.GatherDimensionNumbers(window, fixed, fixed)
        self._scatter = lax.ScatterDimensionNumbers(window, fixed, fixed)
        rest = iter(n for d, n in enumerate(shape) if d not in dims)
        inner = iter(indices[0].shape)
        self.shape = tuple(next(rest if d in window else inner) for d in range(ndim))

    def take(self, x: Array) -> Array:
        """The selected slices."""
        if not x.size:
            return jnp.zeros(self.shape, x.dtype)
        return lax.gather(x, self._at, self._gather, self._sizes, mode=IN_BOUNDS)

    def write(self, how: Callable[..., Array], x: Array, src: Array) -> Array:
        """`x` with `src` scattered into the slices by a ``lax.scatter*`` function."""
        if not x.size or not src.size:
            return x
        return how(x, self._at, src, self._scatter, mode=IN_BOUNDS)


Places = Cells | Slices


def rows(shape: Shape, dim: int, index: Array) -> Slices:
    return Slices(shape, (dim,), (index.reshape(-1),))


def cells(shape: Shape, dim: int, index: Array) -> Cells:
    """The elements whose coordinate along `dim` is `index` and whose others are their own."""
    steps = shapes.contiguous_strides(shape)
    position = index.astype(jnp.int64) * (steps[dim] if shape else 1)
    for d in range(index.ndim):
        if d != dim and index.shape[d] > 1:
            position = position + lax.broadcasted_iota(np.int64, index.shape, d) * steps[d]
    return Cells(position)


def wrapped(index: Array, n: int) -> Array:
    index = index.astype(jnp.int64)
    return jnp.where(index < 0, index + n, index)


def write_at(x: Array, src: Array, places: Places) -> Array:
    """`x` with `src` written at `places`.

    At places written twice torch sends the gradient to every source, also those overwritten.
    """
    if not src.size:
        return x
    if not (is_float(x) or is_complex(x)):
        return places.write(lax.scatter, x, src)

    @jax.custom_jvp
    def f(x: Array, src: Array) -> Array:
        return places.write(lax.scatter, x, src)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        x, src = primals
        tx, ts = tangents
        hit = places.write(lax.scatter, jnp.zeros(x.shape, jnp.bool_), jnp.ones(src.shape, jnp.bool_))
        kept = jnp.where(hit, jnp.zeros_like(tx), tx)
        return f(x, src), places.write(lax.scatter_add, kept, ts)

    return f(x, src)


def add_at(x: Array, src: Array, places: Places) -> Array:
    if is_bool(x):
        return places.write(lax.scatter_max, x.astype(jnp.uint8), src.astype(jnp.uint8)) != 0
    return places.write(lax.scatter_add, x, src)


# --- reductions into places ---

WRITERS = {
    "sum": lax.scatter_add, "mean": lax.scatter_add, "prod": lax.scatter_mul,
    "amax": lax.scatter_max, "amin": lax.scatter_min,
}  # fmt: skip


def _identity(reduce: str, dtype: Any) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if jnp.issubdtype(dtype, jnp.inexact):
        return -jnp.inf if reduce == "amax" else jnp.inf
    limits = jnp.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def combine(x: Array, src: Array, places: Places, reduce: str, include_self: bool) -> Array:
    """`src` reduced into `x` at `places`, with torch's derivative for each reduction."""
    if is_bool(x):
        whole = (a.astype(jnp.uint8) for a in (x, src))
        return combine(*whole, places, "amax" if reduce == "sum" else reduce, include_self) != 0
    ones = jnp.ones(src.shape, x.dtype)

    def added(src: Array) -> Array:
        return places.write(lax.scatter_add, jnp.zeros(x.shape, src.dtype), src)

    def started(x: Array, start: Any) -> Array:
        """`x`, or `start` where something is written and the old value does not count."""
        if include_self:
            return x
        hit = places.write(lax.scatter, jnp.zeros(x.shape, jnp.bool_), ones != 0)
        return jnp.where(hit, jnp.asarray(start, x.dtype), x)

    def count() -> Array:
        n = added(ones) + jnp.asarray(int(include_self), x.dtype)
        return jnp.where(n == 0, jnp.ones_like(n), n)

    def value(x: Array, src: Array) -> Array:
        y = places.write(WRITERS[reduce], started(x, _identity(reduce, x.dtype)), src)
        if reduce != "mean":
            return y
        return y / count() if is_float(x) or is_complex(x) else y // count()

    if not (is_float(x) or is_complex(x)):
        return value(x, src)
    f = jax.custom_jvp(value)

    @f.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        x, src = primals
        y, (tx, ts) = f(x, src), tangents
        if reduce == "prod":
            cx, cs = _product_slopes(f, x, src, y, places, added)
            tx, ts = cx * tx, cs * ts
        elif reduce in ("amax", "amin"):
            own, theirs = (x == y).astype(x.dtype), (src == places.take(y)).astype(x.dtype)
            tx, ts = own * tx, theirs * ts
        t = started(tx, 0) + added(ts)
        if reduce == "mean":
            t = t / count()
        elif reduce in ("amax", "amin"):
            t = t / (own + added(theirs))  # ties share
        return y, t

    return f(x, src)


def _product_slopes(
    f: Any, x: Array, src: Array, y: Array, places: Places, added: Any
) -> tuple[Array, Array]:
    """Products of the other factors; with one zero among the sources it is left out instead."""

    def without_zero(a: Array, zero: Array) -> Array:
        return jnp.where(zero, jnp.ones_like(a), a)

    own = without_zero(x, x == 0)
    zero = src == 0
    zeros = places.take(added(zero.astype(src.dtype)))
    single = zero & (zeros == 1)
    spared = places.take(f(x, without_zero(src, single)))
    rest = places.take(y) / without_zero(src, zero)
    return f(own, src) / own, jnp.where(single, spared, rest)


# --- checks of concrete indices ---


def bounds(index: Any, size: int, negative: bool) -> int | None:
    """The first index out of bounds, or None."""
    index = np.asarray(index)
    if not index.size:
        return None
    low = -size if negative else 0
    if int(index.min()) >= low and int(index.max()) < size:
        return None
    return int(index[(index < low) | (index >= size)].flat[0])


def size_at(input: Any, dim: int) -> int:
    return input.shape[dim] if input.ndim else 1


def check_dim(
    kind: type[Exception], text: str | None = None, negative: bool = False
) -> Callable[..., None]:
    """A check that ``index`` is within dimension ``dim`` of the input."""

    def check(input: Any, dim: int, index: Any, *args: Any, **kwargs: Any) -> None:
        size, axis = size_at(input, dim), shapes.wrap_dim(dim, input.ndim)
        bad = bounds(index, size, negative)
        if bad is not None:
            raise kind(
                text or f"index {bad} is out of bounds for dimension {axis} with size {size}"
            )

    return check
