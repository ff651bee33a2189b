"""Numbers that are moved by a rounding: equal numbers alike, and none that a function got without rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .digest import places, real

COARSEST = 1e-4
"""Dtypes with a larger distance between 1 and the next number are half precisions."""
_LOOKED_AT = 32


def exact(result: np.ndarray, given: Sequence[np.ndarray]) -> bool:
    """Return whether a function only picked, moved or negated numbers that it was given, as a view or a maximum does.

    Whole numbers say nothing: masks and counts are exact whatever gave them.
    """
    flat = real(result)
    sample = np.abs(flat[places(flat.size, _LOOKED_AT)])
    with np.errstate(all="ignore"):
        sizes = [np.abs(real(g)).astype(sample.dtype) for g in given if g.dtype.kind in "fc"]
    return all(any((s == x).any() for s in sizes) for x in sample[~_whole(sample)])


def factor(values: np.ndarray, seed: int) -> np.ndarray:
    """By what to multiply so that each number moves by a rounding, up or down.

    The direction depends on the number itself: equal ones stay equal, a symmetric matrix stays symmetric, and what is
    computed twice is the same twice.
    """
    size = np.abs(values)
    bits = np.ascontiguousarray(size).view(np.uint32 if size.itemsize == 4 else np.uint64)
    mixed = (bits.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    signs = np.where(mixed >> np.uint64(63), 1.0, -1.0).astype(size.dtype)
    moved = 1 + np.finfo(size.dtype).eps * signs
    return np.where(_whole(size), np.ones_like(size), moved).reshape(values.shape)


def _whole(size: np.ndarray) -> np.ndarray:
    """Return which numbers are whole; infinities and those that are none count as such."""
    return ~np.isfinite(size) | (size == np.floor(size))
