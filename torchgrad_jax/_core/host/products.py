"""Products of matrices and convolutions as NumPy does them: `make` functions and costs for the table of `host_steps`.

A product is done in parts so small that BLAS does not start its threads. The threads wait
for each other in a busy loop, which takes milliseconds where other processes compute, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[..., Any]

_ALONE, _ALONE_VECTOR = 1 << 18, 9 << 10
"""Multiplications that OpenBLAS does without threads, of two matrices, and of a matrix and a vector."""
_PARTS = 32
"""A product of more parts is XLA's."""
_CALL = 6000
"""What one more call costs, as the number of elements that could be copied in that time."""
_COPY = 0.15e-3
"""Microseconds for an element that BLAS rearranges once more because a product is cut."""
_EACH = 0.15
"""Microseconds that each product of a stack takes, however small its matrices are."""
_SPREAD = 1e-3
"""Microseconds for an element of the product of a column and a row, which is no sum."""
_WINDOWS = 1 << 21
"""Elements of all windows of a convolution together."""
_WINDOW, _MULTIPLIED = 0.1e-3, 10e-6
"""Microseconds that NumPy takes longer than XLA for an element of a window, and for a multiplication."""


# --- products -------------------------------------------------------------------------------------


def dot(params: Any, ins: Any, outs: Any) -> Step | None:
    """`dot_general`."""
    (left, right), (rows, columns) = params["dimension_numbers"]
    dt = outs[0].dtype
    if any(a.dtype != dt for a in ins) or dt.kind not in "fc" or not ins[0].size or not ins[1].size:
        return None
    product = _product(*_sizes(params, ins))
    plain = len(ins[0].shape) == len(ins[1].shape) == 2 and not rows
    if product is None or (plain and (left, right) == ((1,), (0,))):
        return product
    first = _arranged(len(ins[0].shape), rows, left, ins[0].shape, last=True)
    second = _arranged(len(ins[1].shape), columns, right, ins[1].shape, last=False)
    shape = outs[0].shape
    return lambda x, y: product(first(x), second(y)).reshape(shape)


def _sizes(params: Any, ins: Any) -> tuple[int, int, int]:
    (left, _), (batch, _) = params["dimension_numbers"]
    summed = math.prod([ins[0].shape[d] for d in left])
    many = math.prod([ins[0].shape[d] for d in batch])
    return ins[0].size // summed // many, summed, ins[1].size // summed // many


def dot_cost(eqn: Any) -> float:
    """Microseconds that NumPy takes longer than XLA."""
    sizes = [v.aval.size for v in (*eqn.invars, *eqn.outvars)]
    if not all(sizes):
        return 2.0
    rows, summed, columns = _sizes(eqn.params, [v.aval for v in eqn.invars])
    return 2.0 + product_cost(rows, summed, columns, sizes[2] // (rows * columns))


def product_cost(rows: int, summed: int, columns: int, many: int = 1) -> float:
    """Microseconds that NumPy takes longer than XLA for `many` products of two matrices."""
    if summed == 1:
        return many * rows * columns * _SPREAD
    cut = _cut(rows, summed, columns)
    if cut is None:
        return math.inf
    again = (cut[0] - 1) * summed * columns + (cut[1] - 1) * rows * summed
    calls = cut[0] * cut[1] * _CALL
    return many * ((again + calls * (cut != (1, 1)) + rows * summed * columns / 30) * _COPY + _EACH)


@functools.lru_cache(512)
def _cut(rows: int, summed: int, columns: int) -> tuple[int, int] | None:
    """Into how many parts the rows and columns of a product are divided; None where there would be too many."""
    if rows == 1 or columns == 1:
        parts = math.ceil(rows * summed * columns / _ALONE_VECTOR)
        cut = (1, parts) if rows == 1 else (parts, 1)
        return cut if parts <= min(8, max(rows, columns)) else None
    best = None
    for r in range(1, min(rows, _PARTS) + 1):
        width = _ALONE // (math.ceil(rows / r) * summed)
        if not width:
            continue
        c = math.ceil(columns / width)
        price = r * summed * columns + c * rows * summed + _CALL * r * c
        if r * c <= _PARTS and (best is None or price < best[0]):
            best = price, (r, c)
    return best and best[1]


def _product(rows: int, summed: int, columns: int) -> Step | None:
    """The product of two matrices, or of stacks of them."""
    if summed == 1:
        return np.multiply
    cut = _cut(rows, summed, columns)
    if cut is None or cut == (1, 1):
        return cut and np.matmul
    down, across = _pieces(rows, cut[0]), _pieces(columns, cut[1])
    pairs = [(a, b) for a in down for b in across]

    def in_parts(x: Any, y: Any) -> Any:
        out = np.empty((*x.shape[:-2], rows, columns), x.dtype)
        for a, b in pairs:
            np.matmul(x[..., a, :], y[..., b], out=out[..., a, b])
        return out

    return in_parts


def _pieces(size: int, parts: int) -> list[slice]:
    step = math.ceil(size / parts)
    return [slice(k, min(k + step, size)) for k in range(0, size, step)]


def _arranged(rank: int, batch: Any, summed: Any, shape: Any, last: bool) -> Step:
    """An operand as a stack of matrices: its summed dimensions come last, or else before its free ones."""
    free = [d for d in range(rank) if d not in batch and d not in summed]
    order = (*batch, *free, *summed) if last else (*batch, *summed, *free)
    sizes = [math.prod([shape[d] for d in ds]) for ds in ((free, summed) if last else (summed, free))]
    whole = (*[shape[d] for d in batch], *sizes)
    if order == (*range(rank),):
        return lambda x: x.reshape(whole)
    return lambda x: x.transpose(order).reshape(whole)


# --- convolutions ---------------------------------------------------------------------------------


class _Convolution:
    """Sizes of a convolution: of its windows, laid out as one matrix for each example, or for all of them."""

    def __init__(self, params: Any, ins: Any, outs: Any) -> None:
        x_order, w_order, self.out_order = params["dimension_numbers"]
        self.x_order, self.w_order = x_order, w_order
        examples, self.channels, *spatial = [ins[0].shape[d] for d in x_order]
        self.of_examples = params["batch_group_count"]
        self.groups = params["feature_group_count"] * self.of_examples
        self.many = examples // self.of_examples
        self.filters, self.taken, *self.kernel = [ins[1].shape[d] for d in w_order]
        self.places = [outs[0].shape[d] for d in self.out_order[2:]]
        self.strides, self.spread = params["window_strides"], params["rhs_dilation"]
        self.padding, self.inner = params["padding"], params["lhs_dilation"]
        self.grows = any(low or high for low, high in self.padding) or any(n != 1 for n in self.inner)
        grown = [(n - 1) * k + 1 for n, k in zip(spatial, self.inner)]
        self.grown = [low + n + high for n, (low, high) in zip(grown, self.padding)]
        self._set_place(spatial)
        self.summed, self.found = self.taken * math.prod(self.kernel), math.prod(self.places)
        self.elements = examples * self.channels * math.prod(self.kernel) * self.found
        self.together = self.kernel[-1] > self.places[-1]
        """Whether all windows are one matrix, each window in a row: they are long, as in the gradient of a kernel."""

    @property
    def matrices(self) -> tuple[int, int, int]:
        """The sizes of the matrix product that computes the convolution."""
        filters = self.filters // self.groups
        if self.together:
            return self.many * self.found, self.summed, filters
        return filters, self.summed, self.found

    def grow(self, x: Any) -> Any:
        """The input with its padding, and with zeros between its elements."""
        if not self.grows:
            return x
        out = np.zeros((*x.shape[:2], *self.grown), x.dtype)
        out[self._at] = x[self._of]
        return out

    def _set_place(self, spatial: list[int]) -> None:
        """Where in what has grown the input stands, and which part of it does."""
        at, of = [slice(None)] * 2, [slice(None)] * 2
        for size, step, (low, _), n in zip(spatial, self.inner, self.padding, self.grown):
            first = max(0, -(low // step)) if low < 0 else 0
            last = min(size, (n - 1 - low) // step + 1)
            of.append(slice(first, max(first, last)))
            begin = low + first * step
            at.append(slice(begin, begin + max(0, last - first) * step, step))
        self._at, self._of = tuple(at), tuple(of)

    def windows(self, x: Any) -> Any:
        """The windows of an input, without a copy: (example, group, channel, *kernel, *places)."""
        x = np.ascontiguousarray(self.grow(_in_order(x, self.x_order)))
        (example, channel, *rest), apart = x.strides, self.taken * x.strides[1]
        if self.of_examples > 1:
            apart = self.many * example
        shape = (self.many, self.groups, self.taken, *self.kernel, *self.places)
        steps = (
            example,
            apart,
            channel,
            *[s * k for s, k in zip(rest, self.spread)],
            *[s * k for s, k in zip(rest, self.strides)],
        )
        return np.ndarray(shape, x.dtype, x, 0, steps)


def _in_order(x: Any, order: tuple[int, ...]) -> Any:
    """The dimensions in another order."""
    return x if order == (*range(x.ndim),) else x.transpose(order)


def convolution(params: Any, ins: Any, outs: Any) -> Step | None:
    """`conv_general_dilated`: the windows of the input are laid out one after the other, then it is a product."""
    dt = outs[0].dtype
    if any(a.dtype != dt for a in ins) or dt.kind != "f":
        return None
    if not (ins[0].size and ins[1].size and outs[0].size and ins[0].ndim > 2):
        return None
    conv = _Convolution(params, ins, outs)
    product = _product(*conv.matrices) if conv.elements <= _WINDOWS else None
    if product is None:
        return None
    k, groups, found = len(conv.kernel), conv.groups, conv.found
    back = tuple(np.argsort(conv.out_order).tolist())
    shape = (conv.many, conv.filters, *conv.places)

    def per_example(x: Any, w: Any) -> Any:
        columns = conv.windows(x)
        if lone:
            out = _in_order(w, conv.w_order).reshape(-1, conv.summed).dot(columns.reshape(conv.summed, found))
            return _in_order(out.reshape(shape), back)
        columns = columns.reshape(conv.many, groups, conv.summed, found)
        weights = _in_order(w, conv.w_order).reshape(groups, -1, conv.summed)
        if conv.many > 1 and product is not np.matmul:
            weights = np.broadcast_to(weights, (conv.many, *weights.shape))
        return _in_order(product(weights, columns).reshape(shape), back)

    def all_together(x: Any, w: Any) -> Any:
        places = range(3 + k, 3 + 2 * k)
        rows = conv.windows(x).transpose(1, 0, *places, 2, *range(3, 3 + k))
        if groups == 1 and product is np.matmul:
            out = rows.reshape(-1, conv.summed).dot(_in_order(w, conv.w_order).reshape(-1, conv.summed).T)
        else:
            weights = _in_order(w, conv.w_order).reshape(groups, -1, conv.summed)
            out = product(rows.reshape(groups, -1, conv.summed), weights.transpose(0, 2, 1))
        out = out.reshape(groups, conv.many, found, -1).transpose(1, 0, 3, 2)
        return _in_order(out.reshape(shape), back)

    lone = conv.many == groups == 1 and product is np.matmul
    return all_together if conv.together else per_example


def convolution_cost(eqn: Any) -> float:
    """Microseconds that NumPy takes longer than XLA."""
    conv = _Convolution(eqn.params, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars])
    many = conv.groups * (1 if conv.together else conv.many)
    if conv.elements > _WINDOWS or _product(*conv.matrices) is None:
        return math.inf
    return 20 + _WINDOW * conv.elements + many * 0.5 + _MULTIPLIED * many * math.prod(conv.matrices)
