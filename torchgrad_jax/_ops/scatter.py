"""Gathering and scattering single elements, and slices replaced by a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.dtypes import BOOL, COMPLEX
from .._core.arrays.kernels import refuse, scalar_name
from .._core.arrays.parts import diagonal_dims, selected
from .._core.errors.checks import fail_if, first_outside, outside, readable
from .._core.host import forms
from .._core.jax.sizes import value_of
from .helpers import broadcast, convert, is_bool
from .inner import inner_op
from .places import WRITERS, Cells, add_at, cells, check_dim, combine, is_index, wrapped, write_at
from .registry import (
    Apart,
    Array,
    Compares,
    Fits,
    Grad,
    InPlace,
    Layout,
    Numbers,
    Overlap,
    Scalar,
    Static,
    TorchKernel,
    op,
    with_rule,
)

Shape = tuple[int, ...]


# --- gather and scatter ---


def _check_rank(x: Array, index: Array, what: str) -> None:
    if max(x.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {what} tensor")


@op(check=check_dim(RuntimeError), keeps=("input",), host=forms.gathered)
def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Elements of `input` whose coordinate along `dim` is given by `index`."""
    axis = shapes.wrap_dim(dim, input.ndim)
    if sparse_grad:
        raise NotImplementedError("gather: sparse_grad=True, there are no sparse tensors")
    if not index.size:
        return jnp.zeros(index.shape, input.dtype)
    if not is_index(index):
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    _check_rank(input, index, "input")
    for d in range(index.ndim if input.ndim else 0):
        if d != axis and index.shape[d] > input.shape[d]:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no "
                f"larger than self {list(input.shape)} apart from dimension {axis}"
            )
    return cells(input.shape, axis, index).take(input)


def _scatter_places(x: Array, dim: int, index: Array, src: Array | None) -> Any:
    """Places, and `src` cut down to the shape of `index`; (None, None) when nothing is written."""
    axis = shapes.wrap_dim(dim, x.ndim)
    if src is not None and src.dtype != x.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.size:
        return None, None
    if not is_index(index):
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    _check_rank(x, index, "self")
    if src is not None:
        _check_rank(src, index, "src")
    at_least = [s.shape or (1,) for s in (index, x)]
    over = any(d != axis and n > at_least[1][d] for d, n in enumerate(at_least[0]))
    beyond = src is not None and any(n > m for n, m in zip(at_least[0], src.shape or (1,)))
    if over or beyond:
        text = (
            f"Expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {axis}"
        )
        if src is not None:
            text += f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(text)
    places = cells(x.shape, axis, index)
    if src is None or src.shape == index.shape:
        return places, src
    if not src.ndim or not index.ndim:
        return places, src.reshape(-1)[:1].reshape(index.shape)
    return places, lax.slice(src, (0,) * index.ndim, index.shape)


def _scatter_node(base: str) -> Callable[[dict[str, Any]], str]:
    return lambda a: base if a["reduce"] is None else "NotImplemented"


def _cut_short(node: str) -> Callable[..., tuple[str, str] | None]:
    """torch's gradient of `src` has the shape of the index, even if parts of `src` were not used."""

    def refused(metas: dict[str, Any], outs: Any, wanted: set[str]) -> tuple[str, str] | None:
        have, want = metas["index"].shape, metas["src"].shape
        if "src" not in wanted or have == want or not (have and want):
            return None
        text = (
            f"Function {node} returned an invalid gradient at index 1 - got {list(have)} but expected shape "
            f"compatible with {list(want)}"
        )
        return text, "src"

    return refused


def _scattered(x: Array, places: Any, src: Array, reduce: str | None) -> Array:
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if places is None:
        return x
    if reduce is None:
        return write_at(x, src, places)
    return add_at(x, src, places) if reduce == "add" else combine(x, src, places, "prod", True)


@op(
    inplace=InPlace(apart=Apart.WHOLLY),
    check=check_dim(RuntimeError),
    function=False,
    method=False,
    refused=_cut_short("ScatterBackward0"),
    node=_scatter_node("ScatterBackward0"),
)
def scatter_src(input: Array, dim: int, index: Array, src: Array, reduce: str | None = None) -> Array:
    """`src` written to the elements at `index` along `dim`, or added or multiplied into them."""
    places, cut = _scatter_places(input, dim, index, src)
    return _scattered(input, places, cut, reduce)


@op(
    inplace=InPlace(apart=Apart.WHOLLY),
    check=check_dim(RuntimeError),
    function=False,
    method=False,
    numbers=Numbers(fits=Fits.EXACTLY),
    node=_scatter_node("ScatterBackward1"),
)
def scatter_value(input: Array, dim: int, index: Array, value: Scalar, reduce: str | None = None) -> Array:
    """One value written to the elements at `index` along `dim`, or added or multiplied into them."""
    places, _ = _scatter_places(input, dim, index, None)
    src = jnp.broadcast_to(jnp.asarray(value).astype(input.dtype), index.shape)
    return _scattered(input, places, src, reduce)


@op(inplace=InPlace(apart=Apart.WHOLLY), refused=_cut_short("ScatterAddBackward0"), check=check_dim(RuntimeError))
def scatter_add(input: Array, dim: int, index: Array, src: Array) -> Array:
    """`src` added to the elements at `index` along `dim`."""
    places, cut = _scatter_places(input, dim, index, src)
    if places is None:
        return input
    axis = shapes.wrap_dim(dim, input.ndim)
    # The index is an argument of the rule, since JAX's `vmap` does not see an index that a rule closes over.
    return with_rule(
        lambda x, y, at: add_at(x, y, cells(x.shape, axis, at)),
        lambda x, y, at, out, tx, ty, _: tx + add_at(jnp.zeros_like(tx), ty, cells(x.shape, axis, at)),
    )(input, cut, index)


_NO_KERNEL = {"amax": COMPLEX, "amin": COMPLEX, "mean": BOOL}
"""The dtypes for which torch has no kernel that scatters by a reduction."""


@op(
    inplace=InPlace(apart=Apart.WHOLLY),
    compares=Compares.IN_GRADIENTS,
    check=check_dim(RuntimeError),
    keeps={"input": ("input", "index", "src", "result"), "src": ("input", "index", "src", "result")},
)
def scatter_reduce(
    input: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Array:
    """`src` reduced into the elements at `index` along `dim`."""
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in WRITERS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if reduce in _NO_KERNEL:
        refuse(input, f"scatter_gather_tensor_cpu_reduce_{reduce}", _NO_KERNEL[reduce])
    places, cut = _scatter_places(input, dim, index, src)
    return input if places is None else combine(input, cut, places, reduce, include_self)


def _check_flat(input: Any, index: Any, *written: Any, **options: Any) -> None:
    n = math.prod(input.shape)
    if not n and index.size:
        writes = written or options
        raise IndexError(
            f"{'put_(): Tried to put elements into' if writes else 'take(): tried to take from'} an empty tensor"
        )

    def error() -> Exception:
        bad = first_outside(index, n, negative=True)
        return IndexError(f"out of range: tried to access index {bad} on a tensor of {n} elements.")

    fail_if(outside(index, n, negative=True), error)


# --- flat positions ---


@op(check=_check_flat, keeps=("input",))
def take(input: Array, index: Array) -> Array:
    """Elements of the flattened tensor, shaped like `index`."""
    if index.dtype != jnp.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {scalar_name(index)}")
    if not index.size:
        return jnp.zeros(index.shape, input.dtype)
    return Cells(wrapped(index, input.size)).take(input)


@op(
    keeps={"input": ("index",), "source": ("source",)},
    inplace=InPlace(apart=Apart.WHOLLY),
    layout=Layout.PRESERVE,
    check=_check_flat,
    out=False,
)
def put(input: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """`source` written to, or added at, positions of the flattened tensor."""
    if index.dtype != jnp.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {scalar_name(index)}")
    if source.dtype != input.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{scalar_name(input)} and source.dtype = {scalar_name(source)}"
        )
    if source.size != index.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    if not index.size:
        return input
    places = Cells(wrapped(index, input.size).reshape(-1))
    return (add_at if accumulate else write_at)(input, source.reshape(-1), places)


# --- masks ---


def _check_masked_scatter(input: Any, mask: Any, source: Any) -> None:
    mask = readable(mask)
    shape = np.broadcast_shapes(input.shape, mask.shape)
    copies = math.prod(shape) // max(mask.size, 1)
    fail_if(
        mask.sum(dtype=np.int64) * copies > math.prod(source.shape),
        lambda: RuntimeError("Number of elements of source < number of ones in mask"),
    )


@op(inplace=InPlace(overlaps=Overlap.REFUSED_EARLY), out=False, check=_check_masked_scatter)
def masked_scatter(input: Array, mask: Array, source: Array) -> Array:
    """Successive elements of `source` written where `mask` is true."""
    if not is_bool(mask):
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {scalar_name(mask)}")
    if source.dtype != input.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{scalar_name(input)} and {scalar_name(source)}"
        )
    mask, x = broadcast(mask, input)
    if not source.size or not x.size:
        return x
    nth = lax.cumsum(mask.reshape(-1).astype(jnp.int64)) - 1
    taken = Cells(jnp.clip(nth, 0, value_of(source.size - 1))).take(source)
    return jnp.where(mask, taken.reshape(x.shape), x)


@inner_op(node="MaskedSelectBackward0", keeps=("input",))
def masked_select_at(input: Array, positions: Array, shape: Static = None) -> Array:
    """Elements of `input`, broadcast to a `shape`, at the flat positions where a mask is true."""
    return Cells(positions).take(input if shape is None else jnp.broadcast_to(input, shape))


# --- slices replaced by a tensor ---


def _replaced(x: Array, src: Array, part: Shape, places: Callable[[], Cells]) -> Array:
    if src.shape != part:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(part)}"
        )
    if not src.size:
        return x
    src = convert(src, x.dtype)
    return places().write(_unique_scatter, x, src)


def _unique_scatter(x: Array, at: Array, src: Array, numbers: Any, mode: Any) -> Array:
    """A scatter to places without duplicates, for which JAX's own derivative is torch's."""
    return lax.scatter(x, at, src, numbers, mode=mode, unique_indices=True)


def _positions(shape: Shape) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _written_clone(shape: Shape, **_: Any) -> tuple[Shape, int]:
    """torch clones the memory, gaps included, and writes to the clone."""
    return (math.prod(shape),), 2


@op(out=False, layout=Layout.PRESERVE, grad=Grad.REAL, kernel=TorchKernel(made_as=_written_clone))
def select_scatter(input: Array, src: Array, dim: int, index: int) -> Array:
    """`input` with the slice at `index` of `dim` replaced by `src`."""
    axis, at = selected(input.shape, dim, index)
    part = input.shape[:axis] + input.shape[axis + 1 :]
    start = [0] * input.ndim
    start[axis] = at
    if src.shape == part:
        src = convert(src, input.dtype)
        return lax.dynamic_update_slice(input, lax.expand_dims(src, (axis,)), [value_of(i) for i in start])
    return _replaced(input, src, part, lambda: Cells(jnp.zeros(0, jnp.int64)))


@op(layout=Layout.PRESERVE, grad=Grad.REAL, kernel=TorchKernel(made_as=_written_clone))
def slice_scatter(
    input: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    """`input` with ``[start:end:step]`` of `dim` replaced by `src`."""
    if not input.ndim:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    axis = shapes.wrap_dim(dim, input.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    where = slice(start, end, step)
    chosen = range(*where.indices(input.shape[axis]))
    part = (*input.shape[:axis], len(chosen), *input.shape[axis + 1 :])
    if src.shape == part and step == 1 and src.size:
        offset = [chosen.start if d == axis else 0 for d in range(input.ndim)]
        return lax.dynamic_update_slice(input, convert(src, input.dtype), offset)
    cut = (slice(None),) * axis + (where,)
    return _replaced(input, src, part, lambda: Cells(jnp.asarray(_positions(input.shape)[cut])))


@op(out=False, layout=Layout.PRESERVE)
def diagonal_scatter(input: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """`input` with a diagonal replaced by `src`."""
    d1, d2 = diagonal_dims(input.ndim, dim1, dim2)
    rows, cols = input.shape[d1], input.shape[d2]
    length = max(min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols), 0)
    part = (*tuple(n for d, n in enumerate(input.shape) if d not in (d1, d2)), length)
    return _replaced(input, src, part, lambda: Cells(jnp.asarray(np.diagonal(_positions(input.shape), offset, d1, d2))))


@inner_op(grad=Grad.NO)
def one_hot_sized(input: Array, num_classes: int) -> Array:
    """1 at the class of each element, 0 elsewhere."""
    classes = lax.broadcasted_iota(input.dtype, (*input.shape, num_classes), input.ndim)
    return (lax.expand_dims(input, (input.ndim,)) == classes).astype(jnp.int64)
