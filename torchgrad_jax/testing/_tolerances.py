"""How far apart two numbers may be: the one table, and what it says of two arrays.

An element may differ by some roundings of its own size. Where it is a small difference of large terms, as in a long
sum, the terms round too. `assert_matches_torch` does not guess how large they are: the reference is run again on inputs
that are moved by a rounding, and each element may differ by as much as that moves it. Checks that see results alone
(the tests, the suite, the fuzzer) allow a share of 1, or of the largest element, instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """How far an element may be off: by a share of its own size or, where that is more, of what was added up to it.

    Attributes:
        rtol: the share of the expected element.
        atol: the share of the terms, which the caller knows, measures or takes for 1.
    """

    rtol: float
    atol: float

    def scaled(self, factor: float) -> Tolerance:
        """Both shares times a factor; the caller says why."""
        return Tolerance(self.rtol * factor, self.atol * factor)


EXACT = Tolerance(0.0, 0.0)
TOLERANCES = {
    "float16": Tolerance(2e-3, 1e-3),
    "bfloat16": Tolerance(2e-2, 8e-3),
    "float32": Tolerance(2e-6, 2e-6),
    "float64": Tolerance(1e-12, 1e-12),
    "complex64": Tolerance(2e-6, 2e-6),
    "complex128": Tolerance(1e-12, 1e-12),
}
"""Some roundings of each dtype: kernels of XLA and torch sum in different orders and take different polynomials."""
NUMBER = Tolerance(1e-6, 0.0)
"""That of a number of Python of which nobody knows what it came from: mostly from float32."""
_STEPS = (2.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 12.0, 64.0, 64.0)
"""Sizes of the moves, in roundings. Small ones see what rounding does, large ones the slope under it."""
_MORE = (2.0,) * 12 + (3.0,) * 12 + (5.0,) * 12
"""More small moves, for elements that the first ones may have missed by chance."""

FLOAT32_OF_HALF = {"float16", "bfloat16"}
"""Dtypes whose rounding can be seen by computing in float32."""
HALF_TIGHTLY = 1.0
"""How many roundings apart results in half precision may be in any case."""
HALF_SEEN = 2.0
"""How many times as far as the reference's own rounding takes it."""

Arrays = Mapping[str, Any]
Move = tuple[float, int]
"""By how much numbers are moved, relative to themselves, and which of several drawn directions."""


def inexact(x: Any) -> bool:
    """Return whether something is an array of floating or complex numbers."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.inexact)


def default(name: str) -> Tolerance:
    """The tolerance of a dtype; integers and booleans are exact."""
    return TOLERANCES.get(name, EXACT)


def relative(name: str) -> float:
    """The relative tolerance of a dtype; 0 for those that are exact."""
    return default(name).rtol


def rounding(name: str) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(jnp.finfo(name).eps) if name in TOLERANCES else 0.0


def half_name(name: str) -> str | None:
    """The name of a dtype if it is one of half precision."""
    return name if name in FLOAT32_OF_HALF else None


def generator(seed: int, draw: int, name: str) -> np.random.Generator:
    """Random numbers that belong to a name, the same on both sides whatever else is drawn."""
    return np.random.default_rng([seed, draw, zlib.crc32(name.encode())])


def random_like(
    x: Any, seed: int, draw: int, name: str, move: Move = (0.0, 0), held_in: str | None = None
) -> np.ndarray:
    """Normal numbers with the shape and dtype of an array, each moved as inputs are by `move`.

    With `held_in` they are numbers of that coarser dtype.
    """
    random = generator(seed, draw, name)
    values = random.standard_normal(x.shape)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        values = values + 1j * random.standard_normal(x.shape)
    values = np.asarray(values)
    values = values.astype(np.float32 if x.dtype.itemsize == 2 else x.dtype).astype(x.dtype)
    if held_in is not None and not np.iscomplexobj(values):
        values = values.astype(held_in)
    values = moved({name: values}, move, seed)[name] if move[0] else values
    return values.astype(x.dtype)


def wide(x: Any) -> np.ndarray:
    """An array in double precision, where differences are taken."""
    x = np.asarray(x)
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def moved(arrays: Arrays, move: Move, seed: int) -> dict[str, Any]:
    """The arrays with each number moved up or down, relative to itself."""
    size, draw = move
    out = dict(arrays)
    for name, x in arrays.items():
        if inexact(x):
            signs = generator(seed, draw, name).choice([-1.0, 1.0], x.shape)
            out[name] = np.asarray(wide(x) * (1 + size * signs)).astype(x.dtype)
    return out


def movements(
    run: Callable[[Arrays, Move], Mapping[str, Any]], arrays: Arrays, eps: float, seed: int, *, more: bool = False
) -> dict[str, np.ndarray]:
    """For each result the size of what rounds on the way to it, element by element.

    At a jump (of `floor`, say) only one of the two directions moves a result, which is no rounding:
    the smaller of the two movements counts.
    """
    at = {k: wide(v) for k, v in run(arrays, (0.0, 0)).items()}
    sizes = {k: np.zeros(v.shape) for k, v in at.items()}
    for draw, step in enumerate(_STEPS + _MORE if more else _STEPS):
        moves: list[Move] = [(sign * step * eps, draw) for sign in (1, -1)]
        both = [run(moved(arrays, m, seed), m) for m in moves]
        for name, x in at.items():
            sides = [wide(b[name]) for b in both if name in b]
            if len(sides) == 2 and all(s.shape == x.shape for s in sides):
                with np.errstate(all="ignore"):
                    least = np.minimum(*(np.abs(s - x) for s in sides)) / (step * eps)
                sizes[name] = np.fmax(sizes[name], np.where(np.isfinite(least), least, 0))
    return sizes


def may_be_rounding(got: Any, want: Any, off: np.ndarray) -> bool:
    """Return whether elements that differ by more than allowed are so near that it pays to look at more moves."""
    x, y = wide(got), wide(want)
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(x - y)[off > 0] <= 1e-3 * np.max(np.abs(y), initial=1.0)))


def roundings_of(
    run: Callable[[Arrays, Move], Mapping[str, Any]],
    run_exactly: Callable[[Arrays, Move], Mapping[str, Any]],
    arrays: Arrays,
    movement: Mapping[str, np.ndarray],
    seed: int,
    eps: float,
) -> dict[str, float]:
    """For each result how far half precision takes it from what float32 gives, relative to what rounds on the way.

    Seen at the inputs and at some moved ones: an element may be right by chance.
    """
    found: dict[str, float] = {}
    for move in ((0.0, 0), *((sign * 2.0 * eps, draw) for draw in range(3) for sign in (1, -1))):
        there = moved(arrays, move, seed) if move[0] else dict(arrays)
        rough, exact = run(there, move), run_exactly(there, move)
        for name, x in rough.items():
            if name in exact and exact[name].shape == x.shape and x.size:
                y = wide(exact[name])
                with np.errstate(all="ignore"):
                    off = np.abs(wide(x) - y) / (np.abs(y) + movement.get(name, 0.0))
                found[name] = max(found.get(name, 0.0), float(np.max(off[np.isfinite(off)], initial=0.0)))
    return found


def differs(got: Any, want: Any, rtol: float, movement: Any = 0.0, absolute: float = 0.0) -> np.ndarray:
    """By how much each element is further off than allowed; 0 where it is not.

    Args:
        got: an array.
        want: the expected one, of the same shape.
        rtol: the share of each expected element by which it may be off; with 0 elements have to be equal.
        movement: the size of the terms of each element, where it was measured.
        absolute: by how much elements may be off in any case.
    """
    x, y = np.asarray(got), np.asarray(want)
    if not inexact(y):
        return np.where(x == y, 0.0, np.inf)
    least = max(absolute, float(jnp.finfo(y.dtype).tiny))
    x, y = wide(x), wide(y)
    with np.errstate(all="ignore"):
        apart, allowed = np.abs(x - y), np.maximum(rtol * np.abs(y), least) + rtol * movement
        excess = np.where(apart <= allowed, 0.0, apart / allowed)
        parts = [_same(a, b, rtol, least) for a, b in ((x.real, y.real), (x.imag, y.imag))]
    return np.where(np.isfinite(x) & np.isfinite(y), excess, np.where(parts[0] & parts[1], 0.0, np.inf))


def _same(x: np.ndarray, y: np.ndarray, rtol: float, least: float) -> np.ndarray:
    """Return whether parts of complex numbers are alike, of which others may be infinite or NaN."""
    near = np.isfinite(y) & (np.abs(x - y) <= np.maximum(rtol * np.abs(y), least))
    return near | (x == y) | (np.isnan(x) & np.isnan(y))


def difference(got: np.ndarray, want: np.ndarray, allowed: Tolerance, around: float | None = None) -> str | None:
    """Where two arrays of one shape differ, in words, or None.

    Args:
        got: an array.
        want: the expected one.
        allowed: how far its elements may be off.
        around: the size of the terms; by default that of the largest element, and 1 at least.
    """
    if around is None:
        size = np.abs(wide(want))
        around = max(float(size[np.isfinite(size)].max(initial=0.0)), 1.0)
    got, want = np.asarray(got), np.asarray(want)
    bad = differs(got, want, allowed.rtol, absolute=allowed.atol * around) > 0
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    at = f" at {where}" if bad.ndim else ""
    return f"{int(bad.sum())} of {bad.size} differ, first{at}: got {got[where]!r}, want {want[where]!r}"
