"""Where in a tensor a kernel reads or writes, shared by the indexing and scattering families."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.errors.checks import fail_if, first_outside, outside
from .._core.jax.custom_jvp import custom_jvp
from .helpers import anywhere, is_bool, is_complex, is_float, tangent_with_own_gradients
from .registry import with_rule

Array = jax.Array
Shape = tuple[int, ...]
IN_BOUNDS = lax.GatherScatterMode.PROMISE_IN_BOUNDS


def is_index(x: Array) -> bool:
    return x.dtype in (jnp.int32, jnp.int64)


# Both kinds are pytrees: a derivative rule takes them as arguments, since a rule that closes over
# the index arrays of one trace cannot be used in another.


@jax.tree_util.register_pytree_node_class
class Cells:
    """Single elements, by position in the flattened tensor."""

    def __init__(self, positions: Array) -> None:
        self.at = positions

    def tree_flatten(self) -> tuple[tuple[Array], None]:
        return (self.at,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: tuple[Array]) -> Cells:
        return cls(*leaves)

    @property
    def _starts(self) -> Array:
        return lax.expand_dims(self.at, (self.at.ndim,))

    def take(self, x: Array) -> Array:
        """The elements, shaped like the positions."""
        if not x.size:  # every position is out of range, and a check refuses it
            return jnp.zeros(self.at.shape, x.dtype)
        numbers = lax.GatherDimensionNumbers((), (0,), (0,))
        return lax.gather(x.reshape(-1), self._starts, numbers, (1,), mode=IN_BOUNDS)

    def write(self, how: Callable[..., Array], x: Array, src: Array) -> Array:
        """`x` with `src` scattered into it by a ``lax.scatter*`` function."""
        if not x.size:
            return x
        numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        flat = how(x.reshape(-1), self._starts, src, numbers, mode=IN_BOUNDS)
        return flat.reshape(x.shape)


@jax.tree_util.register_pytree_node_class
class Slices:
    """What index tensors on some dimensions select; other dimensions are taken whole."""

    def __init__(self, at: Array, dims: Shape, shape: Shape) -> None:
        self.at, self._dims, self._base = at, dims, shape

    def tree_flatten(self) -> tuple[tuple[Array], tuple[Shape, Shape]]:
        return (self.at,), (self._dims, self._base)

    @classmethod
    def tree_unflatten(cls, fixed: tuple[Shape, Shape], leaves: tuple[Array]) -> Slices:
        return cls(*leaves, *fixed)

    @classmethod
    def of(cls, shape: Shape, dims: Sequence[int], indices: Sequence[Array]) -> Slices:
        """From index tensors of one shape, one for each of `dims`."""
        return cls(jnp.stack([i.astype(jnp.int64) for i in indices], axis=-1), tuple(dims), shape)

    @property
    def _window(self) -> Shape:
        """Dimensions of the result that come from whole dimensions of the tensor."""
        dims, batch = self._dims, self.at.ndim - 1
        adjacent = dims == tuple(range(dims[0], dims[0] + len(dims)))
        lead = dims[0] if adjacent else 0  # if they are not adjacent, their dimensions come first
        ndim = len(self._base) - len(dims) + batch
        return tuple(d for d in range(ndim) if not lead <= d < lead + batch)

    @property
    def shape(self) -> Shape:
        """The shape of what is selected."""
        window = self._window
        rest = iter(n for d, n in enumerate(self._base) if d not in self._dims)
        inner = iter(self.at.shape[:-1])
        ndim = len(window) + self.at.ndim - 1
        return tuple(next(rest if d in window else inner) for d in range(ndim))

    def take(self, x: Array) -> Array:
        """The selected slices."""
        if not x.size:
            return jnp.zeros(self.shape, x.dtype)
        sizes = tuple(1 if d in self._dims else n for d, n in enumerate(self._base))
        numbers = lax.GatherDimensionNumbers(self._window, self._dims, self._dims)
        return lax.gather(x, self.at, numbers, sizes, mode=IN_BOUNDS)

    def write(self, how: Callable[..., Array], x: Array, src: Array) -> Array:
        """`x` with `src` scattered into the slices by a ``lax.scatter*`` function."""
        if not x.size or not src.size:
            return x
        numbers = lax.ScatterDimensionNumbers(self._window, self._dims, self._dims)
        return how(x, self.at, src, numbers, mode=IN_BOUNDS)


Places = Cells | Slices


def rows(shape: Shape, dim: int, index: Array) -> Slices:
    return Slices.of(shape, (dim,), (index.reshape(-1),))


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

    At places written twice torch sends the gradient to every source, also those overwritten, and its forward mode keeps
    the tangent of the source that stayed.
    """
    if not src.size:
        return x
    if not (is_float(x) or is_complex(x)):
        return places.write(lax.scatter, x, src)

    return _written(x, src, places)


@custom_jvp
def _written(x: Array, src: Array, places: Places) -> Array:
    return places.write(lax.scatter, x, src)


@_written.defjvp
def _written_jvp(primals: Any, tangents: Any) -> Any:
    (x, src, places), (tx, ts, _) = primals, tangents
    t = tangent_with_own_gradients(_tangents_of_written, _gradients_of_written, places, tx, ts)
    return _written(x, src, places), t


def _tangents_of_written(places: Places, tx: Array, ts: Array) -> Array:
    """Each place has the tangent of its value: of several that were written there, of the one that stayed."""
    dtype = np.int32 if ts.size < 2**31 else np.int64
    numbers = lax.iota(dtype, ts.size).reshape(ts.shape)
    stayed = places.write(lax.scatter, jnp.full(tx.shape, -1, dtype), numbers)
    return jnp.where(stayed < 0, tx, Cells(jnp.maximum(stayed, 0)).take(ts))


def _gradients_of_written(places: Places, g: Array) -> tuple[Array, Array]:
    """A value that was overwritten gets the gradient of its place, too, which makes this another map's transpose."""
    part = places.take(g)
    hit = places.write(lax.scatter, jnp.zeros(g.shape, jnp.bool_), jnp.ones(part.shape, jnp.bool_))
    return jnp.where(hit, jnp.zeros_like(g), g), part


def add_at(x: Array, src: Array, places: Places) -> Array:
    if is_bool(x):
        return places.write(lax.scatter_max, x.astype(jnp.uint8), src.astype(jnp.uint8)) != 0
    return places.write(lax.scatter_add, x, src)


WRITERS = {
    "sum": lax.scatter_add,
    "mean": lax.scatter_add,
    "prod": lax.scatter_mul,
    "amax": lax.scatter_max,
    "amin": lax.scatter_min,
}


def _identity(reduce: str, dtype: Any) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if jnp.issubdtype(dtype, jnp.inexact):
        return -jnp.inf if reduce == "amax" else jnp.inf
    limits = jnp.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def _added(x: Array, src: Array, places: Places) -> Array:
    return places.write(lax.scatter_add, jnp.zeros(x.shape, src.dtype), src)


def _without_old_values(x: Array, src: Array, places: Places, include_self: bool, start: Any) -> Array:
    """`x`, or `start` at the places that are written to, where the old values do not count."""
    if include_self:
        return x
    hit = places.write(lax.scatter, jnp.zeros(x.shape, jnp.bool_), jnp.ones(src.shape, jnp.bool_))
    return jnp.where(hit, jnp.asarray(start, x.dtype), x)


def _count(x: Array, src: Array, places: Places, include_self: bool) -> Array:
    n = _added(x, jnp.ones(src.shape, x.dtype), places) + jnp.asarray(int(include_self), x.dtype)
    return jnp.where(n == 0, jnp.ones_like(n), n)


def combine(x: Array, src: Array, places: Places, reduce: str, include_self: bool) -> Array:
    """`src` reduced into `x` at `places`, with torch's derivative for each reduction."""
    if is_bool(x):
        x, src = x.astype(jnp.uint8), src.astype(jnp.uint8)
        return combine(x, src, places, "amax" if reduce == "sum" else reduce, include_self) != 0
    return _combined(reduce, include_self, x, src, places)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _combined(reduce: str, include_self: bool, x: Array, src: Array, places: Places) -> Array:
    start = _without_old_values(x, src, places, include_self, _identity(reduce, x.dtype))
    y = places.write(WRITERS[reduce], start, src)
    if reduce != "mean":
        return y
    n = _count(x, src, places, include_self)
    return y / n if is_float(x) or is_complex(x) else y // n


@_combined.defjvp
def _combined_jvp(reduce: str, include_self: bool, primals: Any, tangents: Any) -> Any:
    x, src, places = primals
    tx, ts, _ = tangents
    y = _combined(reduce, include_self, x, src, places)
    if reduce == "prod":
        cx, cs = _product_slopes(x, src, y, places, include_self)
        tx, ts = _without_old_values(cx, src, places, include_self, 0) * tx, cs * ts
    elif reduce in ("amax", "amin"):
        own, theirs, share = _ties(x, src, y, places)
        counts = _without_old_values(jnp.ones(x.shape, jnp.bool_), src, places, include_self, False)
        kept = counts, own, theirs, share, places
        return y, tangent_with_own_gradients(_tangents_of_ties, _gradients_of_ties, kept, tx, ts)
    t = _without_old_values(tx, src, places, include_self, 0) + _added(x, ts, places)
    return y, t / _count(x, src, places, include_self) if reduce == "mean" else t


def _tangents_of_ties(kept: Any, tx: Array, ts: Array) -> Array:
    counts, own, theirs, _, places = kept
    none = jnp.zeros_like(tx)
    total = jnp.where(counts, own * tx, none) + _added(tx, theirs * ts, places)
    return total / (jnp.where(counts, own, none) + _added(tx, theirs, places))


def _gradients_of_ties(kept: Any, g: Array) -> tuple[Array, Array]:
    """torch's backward shares a gradient with an old value that is as extreme, also where old values do not count."""
    counts, own, theirs, share, places = kept
    part = g / share
    return jnp.where(counts, own * part, jnp.zeros_like(g)), theirs * places.take(part)


def _ties(x: Array, src: Array, y: Array, places: Places) -> tuple[Array, Array, Array]:
    """Which values are the extremes, and how many share a place; NaN where the result is NaN, which nothing equals."""
    own, theirs = (x == y).astype(x.dtype), (src == places.take(y)).astype(x.dtype)
    share = own + _added(x, theirs, places)
    lost = share == 0  # explicit, since XLA takes the product of 0 and 1 / 0 for 0
    own = jnp.where(lost, jnp.nan, own)
    theirs = jnp.where(places.take(lost), jnp.nan, theirs)
    return own, theirs, jnp.where(lost, jnp.ones_like(share), share)


def _product_slopes(x: Array, src: Array, y: Array, places: Places, include_self: bool) -> tuple[Array, Array]:
    """Products of the other factors; with one zero among the sources it is left out instead."""

    def without_zero(a: Array, zero: Array) -> Array:
        return jnp.where(zero, jnp.ones_like(a), a)

    def product(x: Array, src: Array) -> Array:
        return _combined("prod", include_self, x, src, places)

    own = without_zero(x, x == 0)
    zero = src == 0
    zeros = places.take(_added(x, zero.astype(src.dtype), places))
    several = zero & (zeros > 1)

    def by_division(x: Array, src: Array, y: Array) -> tuple[Array, Array]:
        spared = places.take(product(x, without_zero(src, zero)))
        rest = places.take(y) / without_zero(src, zero)
        return jnp.where(zero & ~several, spared, rest), spared

    def by_zeros(x: Array, src: Array, y: Array) -> Array:
        slopes, spared = by_division(x, src, y)
        factors = jnp.where(zero, src, jnp.zeros_like(src))
        exact = spared * _product_of_other_zeros(x, factors, zeros, places)
        return jnp.where(several, _with_derivative_of(slopes, exact), slopes)

    theirs = lax.cond(anywhere(several), by_zeros, lambda *a: by_division(*a)[0], x, src, y)
    return product(own, src) / own, theirs


_with_derivative_of = with_rule(lambda value, other: value, lambda value, other, out, t, to: to)


def _product_of_other_zeros(x: Array, factors: Array, zeros: Array, places: Places) -> Array:
    """For each of several zeros at one place the product of the others.

    The product is 0. With two zeros its first derivative is not, with three its second, and with four its third. The
    sums here have those derivatives, and compile much faster than running products of sorted factors. With five zeros
    and more the fourth derivative and those after it would be needed, and are NaN.
    """

    def others(a: Array) -> Array:
        return places.take(_added(x, a, places)) - a

    total, squares = others(factors), others(factors * factors)
    pairs = (total * total - squares) / 2
    triples = (pairs * total - total * squares + others(factors * factors * factors)) / 3
    unknown = jnp.where(zeros > 4, jnp.nan, jnp.zeros_like(total))
    found = [total, pairs, triples, _nan_from_derivative(4, total, unknown)]
    return jnp.select([zeros == 2, zeros == 3, zeros == 4], found[:3], found[3])


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _nan_from_derivative(order: int, x: Array, unknown: Array) -> Array:
    """0, with derivatives of 0 below this order; from it on they are `unknown`."""
    return jnp.zeros_like(x)


@_nan_from_derivative.defjvp
def _nan_from_derivative_jvp(order: int, primals: Any, tangents: Any) -> Any:
    x, unknown = primals
    slope = unknown if order == 1 else _nan_from_derivative(order - 1, x, unknown)
    return jnp.zeros_like(x), slope * tangents[0]


# --- checks of concrete indices ---


def size_at(input: Any, dim: int) -> int:
    return input.shape[dim] if input.ndim else 1


def touches(input: Any, size: int) -> bool:
    """Return whether torch checks indices into a dimension of this size: it does not where the slices are empty."""
    return not size or 0 not in input.shape


OUT_OF_RANGE = "index out of range in self"


def check_selected(input: Any, dim: int, index: Any, *args: Any, **kwargs: Any) -> None:
    """The checks of index_select, which looks at indices also where there is nothing to select."""
    size = size_at(input, dim)
    if input.ndim > 1 and index.size and not size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")

    if (wrong := outside(index, size)) is False:
        return

    def error() -> Exception:
        if input.ndim > 1 and (shapes.wrap_dim(dim, input.ndim) or not input.size):
            bad = first_outside(index, size)
            return RuntimeError(f"INDICES element is out of DATA bounds, id={bad} axis_dim={size}")
        return IndexError(OUT_OF_RANGE)

    fail_if(wrong, error)


def check_dim(kind: type[Exception], text: str | None = None, negative: bool = False) -> Callable[..., None]:
    """A check that ``index`` is within dimension ``dim`` of the input, if there are slices to touch."""

    def check(input: Any, dim: int, index: Any, *args: Any, **kwargs: Any) -> None:
        size = size_at(input, dim)
        if not touches(input, size) or (wrong := outside(index, size, negative)) is False:
            return
        where = f"is out of bounds for dimension {shapes.wrap_dim(dim, input.ndim)} with size {size}"
        fail_if(wrong, lambda: kind(text or f"index {first_outside(index, size, negative)} {where}"))

    return check
