"""Orders, and what comes first in them, as functions of NumPy's that were written by hand: see `forms`.

A float32 number and its place make one integer that comes before another where the number is smaller, or the same and
further ahead:

    the bits of the number, turned so that they grow with it    32 bits
    the place along the dimension                               32 bits

NumPy sorts such integers several at a time, and their lower halves are then the places in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import shapes
from .forms import Keys, along, any_of, few, floats, refuse_if
from .inline import Step

_PACKED = 128
"""Elements from which on it is worth to make such integers."""
_PLACE = 0xFFFFFFFF


def _is_packed(key: Any) -> bool:
    return key.dtype.np == np.float32 and key.numel >= _PACKED


def _taken(keys: Keys) -> bool:
    return floats(keys) and keys["input"].ndim > 0 and (few(keys) or _is_packed(keys["input"]))


def _packing(key: Any, axis: int, descending: bool) -> Step:
    """Make the integers; NaN is larger than all numbers, and zeros are equal."""
    places = np.arange(key.shape[axis]).reshape([-1 if d == axis else 1 for d in range(key.ndim)])
    wide, whole, sign, most = np.dtype(np.int64), np.dtype(np.int32), np.int32(31), np.int32(0x7FFFFFFF)
    zero = np.float32(0)

    def packed(x: Any) -> Any:
        x = x + zero  # -0.0 becomes 0.0
        wrong = x != x
        bits = x.view(whole)
        if any_of(wrong):
            bits[wrong] = most
        flips = bits >> sign
        flips &= most
        bits ^= flips
        if descending:
            np.invert(bits, bits)
        out = bits.astype(wide)
        out <<= 32
        out |= places
        return out

    return packed


def _order(key: Any, axis: int, descending: bool) -> Step:
    """A stable order; of a few numbers NaN comes last, or is refused where it would come first."""
    if _is_packed(key):
        pack = _packing(key, axis, descending)

        def order_packed(x: Any) -> Any:
            out = pack(x)
            out.sort(axis)
            out &= _PLACE
            return out

        return order_packed
    if not descending:
        return lambda x: x.argsort(axis, "stable")

    def order(x: Any) -> Any:
        refuse_if(any_of(x != x))
        return (-x).argsort(axis, "stable")

    return order


def _part_of_order(key: Any, axis: int, descending: bool, begin: int, end: int) -> Step:
    """The places that an order has from `begin` to `end`, which are its first ones or just one."""
    part, n = (*[slice(None)] * axis, slice(begin, end)), key.shape[axis]
    if not _is_packed(key):
        order = _order(key, axis, descending)
        return lambda x: order(x)[part]
    pack, last = _packing(key, axis, descending), min(end, n) - 1

    def first(x: Any) -> Any:
        out = pack(x)
        out.partition(last, axis)
        out = out[part]
        if end - begin > 1:
            out.sort(axis)
        return out & _PLACE

    return first


def ordered(keys: Keys, dim: int, descending: bool, stable: Any) -> Step | None:
    """The elements in order, and where they were."""
    x = keys["input"]
    if not _taken(keys):
        return None
    axis = shapes.wrap_dim(dim, x.ndim)
    order, pick = _order(x, axis, descending), along(x, axis, x.shape[axis])

    def sort(x: Any) -> Any:
        at = order(x)
        return pick(x, at), at

    return sort


def order(keys: Keys, dim: int, descending: bool, stable: Any) -> Step | None:
    """The places of the elements in order."""
    x = keys["input"]
    return _order(x, shapes.wrap_dim(dim, x.ndim), descending) if _taken(keys) else None


def largest(keys: Keys, k: int, dim: int, largest: bool, sorted: bool) -> Step | None:
    """The first `k` in order."""
    x = keys["input"]
    if not _taken(keys) or not k:
        return None
    axis = shapes.wrap_dim(dim, x.ndim)
    first, pick = _part_of_order(x, axis, largest, 0, k), along(x, axis, k)

    def top(x: Any) -> Any:
        at = first(x)
        return pick(x, at), at

    return top


def kth(keys: Keys, k: int, dim: int, keepdim: bool) -> Step | None:
    """The element that comes at one place of the order, and where it was."""
    x = keys["input"]
    return _one_of_order(x, shapes.wrap_dim(dim, x.ndim), k - 1, keepdim) if _taken(keys) else None


def middle(keys: Keys, dim: int, keepdim: bool) -> Step | None:
    """The lower middle of the order, where no element is NaN."""
    x = keys["input"]
    if not _taken(keys):
        return None
    axis = shapes.wrap_dim(dim, x.ndim)
    find = _one_of_order(x, axis, (x.shape[axis] - 1) // 2, keepdim)

    def median(x: Any) -> Any:
        refuse_if(any_of(x != x))
        return find(x)

    return median


def _one_of_order(key: Any, axis: int, k: int, keepdim: bool) -> Step:
    pick, place = along(key, axis, 1), _part_of_order(key, axis, False, k, k + 1)
    shape = [1 if d == axis else n for d, n in enumerate(key.shape) if keepdim or d != axis]

    def find(x: Any) -> Any:
        at = place(x)
        return pick(x, at).reshape(shape), at.reshape(shape)

    return find
