"""Sums, extremes and orders of arrays as NumPy makes them: for the table of `steps`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .inline import WHOLE, Inline, Reshape, Step


def summed(params: Any, ins: Any, outs: Any) -> Step | None:
    axes, dt = params["axes"], ins[0].dtype
    if all(ins[0].shape[d] == 1 for d in axes):
        return Reshape(outs[0].shape)
    better = _sum_of_few(axes, ins[0], outs[0].shape) or _sum_of_many(axes, ins[0], outs[0].shape)
    return better or (lambda x: np.add.reduce(x, axes, dtype=dt))


def _sum_of_few(axes: Any, aval: Any, shape: Any) -> Step | None:
    """A sum of a few elements each. NumPy begins again for each result, which takes longer than to add up."""
    cut = _cut(axes, aval.shape)
    if aval.dtype.kind != "f" or cut is None:
        return None
    before, n, behind = cut
    ones = np.ones(n, aval.dtype)
    if behind == 1 and n <= _FEW_SUMMED:  # a product with ones; BLAS adds one after the other, and with one thread
        return _by_rows(before, n, shape, lambda x: x.dot(ones), aval.dtype)
    if before == 1 and n <= _FEW_SUMMED and aval.size <= _SUMMED:
        return lambda x: ones.dot(x.reshape(n, behind)).reshape(shape)
    return _one_by_one(np.add, cut, shape) if n <= _FEWEST and aval.size >= _SUMMED else None


def _sum_of_many(axes: Any, aval: Any, shape: Any) -> Step | None:
    """Sums of many rows in parts, so that few roundings add up: NumPy adds one row after the other to the sum."""
    cut = _cut(axes, aval.shape)
    if aval.dtype.kind not in "fc" or cut is None or cut[2] == 1 or cut[1] < 2 * _PART:
        return None
    before, n, behind = cut
    parts = n // _PART
    whole = parts * _PART

    def add_up(x: Any) -> Any:
        x = x.reshape(before, n, behind)
        out = np.add.reduce(np.add.reduce(x[:, :whole].reshape(before, parts, _PART, behind), 2), 1)
        if whole < n:
            out += np.add.reduce(x[:, whole:], 1)
        return out.reshape(shape)

    return add_up


_PART = 512
"""Rows of such a part."""


def _cut(axes: Any, shape: Any) -> tuple[int, int, int] | None:
    """The dimensions before those that are reduced, these, and those behind, where they lie side by side."""
    kept = [d for d, n in enumerate(shape) if n > 1]
    gone = [d for d in kept if d in axes]
    if not gone or 0 in shape or kept[kept.index(gone[0]) :][: len(gone)] != gone:
        return None
    n, before = math.prod([shape[d] for d in gone]), math.prod(shape[: gone[0]])
    return before, n, math.prod(shape) // (n * before)


def _by_rows(rows: int, n: int, shape: Any, of_rows: Step, dtype: Any) -> Step:
    """The rows of a matrix, each made one number, some at a time if they are many."""
    step = max(1, _SUMMED // n)
    if rows <= step:
        return lambda x: of_rows(x.reshape(rows, n)).reshape(shape)

    def in_parts(x: Any) -> Any:
        x, out = x.reshape(rows, n), np.empty(rows, dtype)
        for k in range(0, rows, step):
            out[k : k + step] = of_rows(x[k : k + step])
        return out.reshape(shape)

    return in_parts


def _one_by_one(fn: Any, cut: tuple[int, int, int], shape: Any) -> Step:
    """The first of those that are reduced with the second, for all results at once, then with the third, and so on."""
    before, n, behind = cut

    def reduce(x: Any) -> Any:
        x = x.reshape(before, n, behind)
        out = fn(x[:, 0], x[:, 1])
        for i in range(2, n):
            fn(out, x[:, i], out=out)
        return out.reshape(shape)

    return reduce


_SUMMED, _FEW_SUMMED, _FEWEST = 1 << 12, 128, 16
"""Elements that BLAS adds up in one call, and so many to each result; elements that are added one after the other."""


def extreme(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axes, dt = params["axes"], ins[0].dtype
        if not ins[0].size or dt.kind == "c":
            return None
        if all(ins[0].shape[d] == 1 for d in axes):
            return Reshape(outs[0].shape)
        cut, shape = _cut(axes, ins[0].shape), outs[0].shape
        if cut is None or ins[0].size < _SUMMED:
            return lambda x: fn.reduce(x, axes)
        before, n, behind = cut
        if n <= _FEWEST:
            return _one_by_one(fn, cut, shape)
        if behind == 1 and n <= _TURNED:
            return lambda x: fn.reduce(np.ascontiguousarray(x.reshape(before, n).T), 0).reshape(shape)
        if behind == 1 and n <= _FOUND and dt.kind in "iuf":
            place, first = np.argmax if fn is np.maximum else np.argmin, np.arange(before) * n
            return lambda x: x.reshape(-1).take(place(x.reshape(before, n), 1) + first).reshape(shape)
        return lambda x: fn.reduce(x, axes)

    return make


_TURNED, _FOUND = 32, 2048
"""Elements of a row up to which a matrix is turned, so that NumPy finds the extremes of many rows at a time; and up to
which it finds the place of an extreme sooner than the extreme, for which it begins again in each row."""


def reduced(fn: Any, kinds: str) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axes, dt = params["axes"], ins[0].dtype
        if dt.kind not in kinds:
            return None
        if dt.kind == "b" and not outs[0].shape and ins[0].size <= _SUMMED:
            asked = "b'\\1' in" if fn is np.logical_or else "b'\\0' not in"
            return Inline(f"truth[{asked} {{0}}.tobytes()]", fresh=True)
        return lambda x: np.asarray(fn.reduce(x, axes, dtype=dt), dt)

    return make


def multiplied(params: Any, ins: Any, outs: Any) -> Step | None:
    """A product of all elements goes by columns first, of which NumPy multiplies several at a time."""
    size, dt = ins[0].size, ins[0].dtype
    columns = 64 if size < 1 << 16 else 1024
    if outs[0].shape or dt.kind not in "iuf" or size % columns or size < 1 << 12:
        return reduced(np.multiply, "iuf")(params, ins, outs)

    def multiply(x: Any) -> Any:
        by_column = np.multiply.reduce(x.reshape(-1, columns), 0, dt)
        return np.asarray(np.multiply.reduce(by_column, 0, dt), dt)

    return multiply


def place_of(fn: Any) -> Callable[..., Step | None]:
    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        if ins[0].dtype.kind == "c" or not ins[0].size or len(params["axes"]) != 1:
            return None
        (axis,), dt = params["axes"], outs[0].dtype
        place = f"{{0}}.{fn.__name__}({axis})"
        return Inline(place if dt == np.int64 else f"asarray({place}, {dt.name})", fresh=True)

    return make


def running(fn: Any) -> Callable[..., Step | None]:
    """A running sum or product, which is one of float64 that is rounded at each place, or a running extreme."""

    def make(params: Any, ins: Any, outs: Any) -> Step | None:
        axis, dt = params["axis"], ins[0].dtype
        if dt.kind not in "iuf":
            return None
        rounds = dt == np.float32 and fn in (np.add, np.multiply)
        within = np.dtype(np.float64) if rounds else dt
        if ins[0].size and in_wide_rows(ins[0].shape, axis):
            return _row_by_row(fn, ins[0], axis, params["reverse"], within)
        back = (*(slice(None),) * axis, slice(None, None, -1 if params["reverse"] else 1))
        if rounds:
            return lambda x: fn.accumulate(x[back], axis, dtype=within)[back].astype(dt)
        return lambda x: fn.accumulate(x[back], axis, dtype=dt)[back]

    return make


def in_wide_rows(shape: Any, axis: int) -> bool:
    """Return whether so many elements lie beside each other that NumPy joins several of them at a time."""
    return math.prod(shape[axis + 1 :]) >= _WIDE


_WIDE = 512


def _row_by_row(fn: Any, aval: Any, axis: int, reverse: bool, within: Any) -> Step:
    """Each row joined with the result of the row before, in the dtype `within`."""
    rows = range(aval.shape[axis])
    first, *others = reversed(rows) if reverse else rows

    def run(x: Any) -> Any:
        found = np.empty(aval.shape, within)
        x, out = np.moveaxis(x, axis, 0), np.moveaxis(found, axis, 0)
        before = out[first]
        before[...] = x[first]
        for i in others:
            before = fn(before, x[i], out=out[i])
        return found.astype(aval.dtype, copy=False)

    return run


def ordered(params: Any, ins: Any, outs: Any) -> Step | None:
    axis = params["dimension"]
    if params["num_keys"] != 1 or ins[0].dtype.kind == "c":
        return None

    if len(ins) == 1:
        return lambda key: [np.sort(key, axis, kind="stable" if ins[0].dtype.kind == "f" else None)]

    def sort(key: Any, *others: Any) -> list[Any]:
        order = np.argsort(key, axis, kind="stable")
        return [np.take_along_axis(x, order, axis) for x in (key, *others)]

    return sort


def top_k(params: Any, ins: Any, outs: Any) -> Step | None:
    """The largest elements in XLA's order, where NaN is larger than infinity and 0 than -0."""
    k, axis, dt = params["k"], params["axis"], ins[0].dtype
    if dt.kind not in "f" or axis % len(ins[0].shape) != len(ins[0].shape) - 1:
        return None
    whole, places = WHOLE[dt.itemsize], outs[1].dtype
    rows = (np.arange(ins[0].size // max(ins[0].shape[-1], 1)) * ins[0].shape[-1]).reshape((*ins[0].shape[:-1], 1))

    def top_k(x: Any) -> Any:
        bits = np.ascontiguousarray(x).view(whole)
        # The bits of a negative number grow with its distance from 0.
        order = np.argsort(~np.where(bits < 0, bits ^ np.iinfo(whole).max, bits), -1, "stable")[..., :k]
        return [x.take(order + rows), order.astype(places)]

    return top_k
