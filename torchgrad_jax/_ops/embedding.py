"""Table lookups: embedding, embedding bags and max-norm renormalisation."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes
from .._core.arrays.kernels import scalar_name
from .._core.errors.checks import fail_if, first_outside, outside, readable
from .._core.errors.messages import legacy_type
from .._core.jax.custom_jvp import custom_jvp
from .._core.jax.sizes import value_of
from .places import check_selected, is_index, rows
from .registry import Array, Grad, op

SUM, MEAN, MAX = range(3)


def _check_indices(indices: Array, name: str, place: int = 1) -> None:
    if not is_index(indices):
        kind = legacy_type("torch." + dtypes.from_np(indices.dtype).type_name)
        raise RuntimeError(
            f"Expected tensor for argument #{place} 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {kind} instead (while checking arguments for {name})"
        )


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _looked_up(padding: int, by_frequency: bool, weight: Array, indices: Array) -> Array:
    """Rows of `weight`. The gradient skips the padding row and may be divided by row counts."""
    taken = rows(weight.shape, 0, indices).take(weight)
    return taken.reshape((*indices.shape, weight.shape[1]))


@_looked_up.defjvp
def _looked_up_jvp(padding: int, by_frequency: bool, primals: Any, tangents: Any) -> Any:
    weight, indices = primals
    t = _looked_up(-1, False, tangents[0], indices)
    flat = indices.reshape(-1)
    share = jnp.ones(flat.shape, weight.dtype)
    if by_frequency:
        count = jnp.zeros(weight.shape[:1], weight.dtype).at[flat].add(share)
        share = 1 / count[flat]
    if padding >= 0:
        share = jnp.where(flat == padding, jnp.zeros_like(share), share)
    if padding >= 0 or by_frequency:
        t = t * lax.expand_dims(share.reshape(indices.shape), (indices.ndim,))
    return _looked_up(padding, by_frequency, weight, indices), t


def _check_rows(weight: Any, indices: Any, *args: Any, **kwargs: Any) -> None:
    check_selected(weight, 0, indices)


def _embedding_forward(
    weight: Array, indices: Array, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Array:
    """torch's forward mode ignores padding and frequencies."""
    return _looked_up(-1, False, weight, indices)


@op(method=False, out=False, check=_check_rows, grad=Grad.REAL, forward=_embedding_forward)
def embedding(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Array:
    """Rows of `weight` at `indices`."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(indices, "embedding")
    return _looked_up(padding_idx, scale_grad_by_freq, weight, indices)


def _check_renormed(weight: Any, indices: Any, *args: Any, **kwargs: Any) -> None:
    """torch selects the rows one by one, the lowest index first."""
    n = weight.shape[0]

    def error() -> Exception:
        bad = first_outside(np.unique(indices), n, negative=True)
        return IndexError(f"select(): index {bad} out of range for tensor of size {list(weight.shape)} at dimension 0")

    fail_if(outside(indices, n, negative=True), error)


@op(function=False, method=False, inplace=True, check=_check_renormed)
def embedding_renorm(weight: Array, indices: Array, max_norm: float, norm_type: float) -> Array:
    """The rows at `indices` scaled down to the norm `max_norm` where they exceed it."""
    if weight.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {weight.ndim}-dimensional tensor for argument #1 'self' (while "
            "checking arguments for embedding_renorm_)"
        )
    _check_indices(indices, "embedding_renorm_", 2)
    if norm_type == 2:
        size = jnp.sqrt(lax.reduce_sum(weight * weight, axes=(1,)))
    elif norm_type == float("inf"):
        size = lax.reduce_max(jnp.abs(weight), axes=(1,))
    else:
        p = jnp.asarray(norm_type, weight.dtype)
        size = lax.reduce_sum(jnp.abs(weight) ** p, axes=(1,)) ** (1 / p)
    used = jnp.zeros(weight.shape[:1], jnp.bool_).at[indices.reshape(-1)].set(True)
    scale = jnp.asarray(max_norm, weight.dtype) / (size + jnp.asarray(1e-7, weight.dtype))
    scale = jnp.where(used & (size > max_norm), scale, jnp.ones_like(scale))
    return weight * lax.expand_dims(scale, (1,))


# --- bags ---


def _check_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> None:
    n, offsets, indices = weight.shape[0], readable(offsets).astype(np.int64), readable(indices)
    if offsets.size:
        fail_if(
            offsets[0] != 0,
            lambda: RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                f"position 0. However, got {offsets[0]}"
            ),
        )
        fail_if(
            offsets[-1] > indices.size,
            lambda: RuntimeError(
                f"offsets[-1] can not be greater than input's length {indices.size} but got "
                f"offsets[-1] of {offsets[-1]}"
            ),
        )
        back = offsets[1:] < offsets[:-1]  # torch reads outside of its memory there

        def unordered() -> Exception:
            at = int(np.flatnonzero(back)[0]) + 1
            return RuntimeError(
                f"offsets has to be in ascending order, but got offsets[{at}] of {offsets[at]} after {offsets[at - 1]}"
            )

        fail_if(back.any(), unordered)

    def error() -> Exception:
        bad = first_outside(indices, n)
        if mode == MAX or padding_idx is not None or weight.dtype == np.float64:
            found = f"Expected idx >= 0 && idx < num_embeddings but found idx to be {bad}"
            return RuntimeError(f"embedding_bag: {found}")
        at = int(np.flatnonzero(indices == bad)[0])  # torch's faster kernel has a longer text
        return RuntimeError(f"Index {at} of input takes value {bad} which is not in the valid range [0, {n})")

    fail_if(outside(indices, n), error)


def _check_weight(weight: Array, shares: Array | None) -> None:
    """Refuse weights that are no real numbers, and shares of samples of another dtype."""
    where = "(while checking arguments for embedding_bag)"
    kind = dtypes.from_np(weight.dtype)
    if kind.category != dtypes.FLOATING:
        name = dtypes.scalar_type_name(kind)
        legacy = f"CPU{name}Type" if kind.is_complex or kind is dtypes.bool_ else f"torch.{name}Tensor"
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got {legacy} instead {where}"
        )
    if shares is not None and shares.dtype != weight.dtype:
        names = [*map(scalar_name, (weight, shares))]
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type torch.{names[0]}Tensor does not equal torch.{names[1]}Tensor {where}"
        )


def _check_bag_arguments(
    weight: Array, indices: Array, offsets: Array, mode: int, shares: Array | None, last: bool
) -> None:
    """Refuse arguments of bags by their dtypes and shapes."""
    _check_indices(indices, "embedding_bag")
    if shares is not None and mode != SUM:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    if not SUM <= mode <= MAX:
        raise RuntimeError("`mode` must be sum, mean, or max.")
    _check_weight(weight, shares)
    if indices.ndim != 1:
        raise RuntimeError(f"input has to be a 1D Tensor, but got Tensor of dimension {indices.ndim}")
    if offsets.ndim != 1:
        raise RuntimeError(f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.ndim}")
    if last and not offsets.size:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if shares is None or shares.shape == indices.shape:
        return
    expected = "dim() == 1" if shares.ndim != 1 else "numel() == indices.numel()"
    raise RuntimeError(
        f"Expected per_sample_weights.value().{expected} to be true, but got false.  (Could this error message be "
        "improved?  If so, please report an enhancement request to PyTorch.)"
    )


def _padding(weight: Array, padding_idx: int | None) -> int:
    n = weight.shape[0]
    if padding_idx is None:
        return -1
    if not -n <= padding_idx < n:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-n} through {n - 1}, but got {padding_idx}"
        )
    return padding_idx % n


def _bag_of(offsets: Array, n: int) -> Array:
    """The bag that each of `n` positions is in; empty bags are in none."""
    starts = jnp.zeros(n + 1, jnp.int64).at[offsets].add(1, mode="drop")
    return lax.cumsum(starts[:n]) - 1


def _largest(x: Array, bag: Array, counted: Array, bags: int) -> Array:
    """Per bag and column the position of the first maximum (any, where the bag is empty).

    In comparisons nothing is larger than NaN, and NaN is larger than nothing: a bag that begins with NaN keeps it.
    """
    n, width = x.shape
    x = lax.stop_gradient(x)

    def first(where: Array) -> Array:
        place = jnp.where(where, lax.broadcasted_iota(np.int64, x.shape, 0), n)
        found = jnp.full((bags + 1, width), n, jnp.int64).at[bag].min(place)[:bags]
        return jnp.minimum(found, max(n - 1, 0))

    here = jnp.broadcast_to(lax.expand_dims(counted, (1,)), x.shape)
    known = here & (x == x)
    low = jnp.where(known, x, jnp.full_like(x, -jnp.inf))
    best = jnp.full((bags + 1, width), -jnp.inf, x.dtype).at[bag].max(low)
    start = first(here)
    begins = jnp.take_along_axis(x, start, axis=0)
    return jnp.where(begins == begins, first(known & (low == best[bag])), start)


@op(name="embedding_bag", method=False, out=False, check=_check_bag, node="EmbeddingBagBackward0", nondiff=(1, 2, 3))
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Sum, mean or maximum of the looked-up rows of each bag, with its book-keeping."""
    kinds = (dtypes.from_np(indices.dtype), dtypes.from_np(offsets.dtype))
    kind = dtypes.promote_types(*kinds).np
    indices, offsets = indices.astype(kind), offsets.astype(kind)
    _check_bag_arguments(weight, indices, offsets, mode, per_sample_weights, include_last_offset)
    padding = _padding(weight, padding_idx)
    n, bags = indices.size, offsets.size - int(include_last_offset)
    bag = _bag_of(offsets.astype(jnp.int64), n)
    counted = indices != padding
    if include_last_offset:
        counted = counted & (bag < bags)
    bag_in = jnp.where(counted, bag, value_of(bags))  # an additional bag takes what does not count
    size = jnp.zeros(bags + 1, jnp.int64).at[bag_in].add(1)[:bags]
    x = _looked_up(padding, scale_grad_by_freq and mode != MAX, weight, indices)
    if mode == MAX:
        some = lax.expand_dims(size, (1,)) > 0
        if n:
            which = indices[_largest(x, bag_in, counted, bags)].astype(jnp.int64)
        else:
            which = jnp.zeros((bags, x.shape[1]), jnp.int64)
        which = jnp.where(some, which, 0)
        columns = lax.broadcasted_iota(np.int64, which.shape, 1)
        out = jnp.where(some, weight[which, columns], jnp.zeros((), weight.dtype))
        return out, bag, size, which
    if per_sample_weights is not None:
        x = x * lax.expand_dims(per_sample_weights, (1,))
    wide = x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)
    total = jnp.zeros((bags + 1, x.shape[1]), wide.dtype).at[bag_in].add(wide)[:bags]
    if mode == MEAN:
        total = total / lax.expand_dims(jnp.maximum(size, 1).astype(wide.dtype), (1,))
        return total.astype(weight.dtype), bag, size, size
    unused = jnp.zeros(bags, jnp.int64)  # torch does no book-keeping for plain sums
    return total.astype(weight.dtype), jnp.zeros(0, jnp.int64), unused, unused
