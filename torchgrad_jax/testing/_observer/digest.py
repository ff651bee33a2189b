"""A tensor in a few numbers: enough to tell two runs apart without keeping what they computed."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_GOLDEN = 0.6180339887498949
_CHUNK = 1 << 20


@functools.lru_cache(maxsize=512)
def places(size: int, kept: int) -> np.ndarray:
    """Return which elements of a flat array are kept: all of a small one, of a large one some everywhere."""
    if size <= kept:
        return np.arange(size)
    spread = (np.arange(kept) * _GOLDEN % 1.0 * size).astype(np.int64)
    return np.unique(np.concatenate([[0, size - 1], spread]))


def signs(begin: int, end: int, which: int) -> np.ndarray:
    """One of two fixed rows of +1 and -1, which look random."""
    numbers = np.arange(begin, end, dtype=np.uint64)
    mixed = (numbers + np.uint64(1 + which)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.where(mixed >> np.uint64(63), 1.0, -1.0)


def sums(flat: np.ndarray) -> tuple[float, float, float]:
    """Two sums under random signs, in which every element counts, and the root mean square."""
    totals = np.zeros(3)
    for begin in range(0, flat.size, _CHUNK):
        part = flat[begin : begin + _CHUNK].astype(np.float64)
        with np.errstate(all="ignore"):
            for which in (0, 1):
                totals[which] += part @ signs(begin, begin + part.size, which)
            totals[2] += part @ part
    with np.errstate(all="ignore"):
        root = float(np.sqrt(totals[2] / max(flat.size, 1)))
    return float(totals[0]), float(totals[1]), root


def real(values: np.ndarray) -> np.ndarray:
    """A flat array of real numbers: complex ones as pairs."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def numbers_of(t: Any) -> np.ndarray | None:
    """The numbers of a tensor, or None inside of transforms and for tensors without memory."""
    try:
        t = t.detach()
        t = t if "strided" in str(t.layout) else t.to_dense()
        t = t.float() if str(t.dtype).endswith("bfloat16") else t
        return np.array(t.resolve_conj().resolve_neg().cpu().numpy())
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def digest(values: np.ndarray, kept: int) -> tuple[np.ndarray, tuple[float, float, float]]:
    """Some elements as double precision, and the sums over all."""
    flat = real(values)
    sample = flat[places(flat.size, kept)].astype(np.float64)
    if flat.size <= kept:  # all elements are there: the sums say nothing more
        with np.errstate(all="ignore"):
            root = float(np.sqrt(sample @ sample / max(flat.size, 1)))
        return sample, (0.0, 0.0, root)
    return sample, sums(flat)
