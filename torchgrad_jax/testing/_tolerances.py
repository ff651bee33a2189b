"""How far apart two numbers may be: each element for itself, and only as far as rounding explains.

An element may differ by some roundings of its own size. Where it is a small difference of large
terms, as in a long sum, the terms round too. How large they are is not guessed from the rest of the
tensor: the reference is run again on inputs that are moved by a rounding, and each element may
differ by as much as that moves it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

RELATIVE = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 1e-5,
    "float64": 1e-10,
    "complex64": 1e-5,
    "complex128": 1e-10,
}
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
    """Whether something is an array of floating or complex numbers."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.inexact)


def relative(name: str) -> float:
    """The relative tolerance of a dtype; 0 for those that are exact."""
    return RELATIVE.get(name, 0.0)


def rounding(name: str) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(jnp.finfo(name).eps) if name in RELATIVE else 0.0


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
    """Whether elements that differ by more than allowed are so near that it pays to look at more moves."""
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


def differs(got: Any, want: Any, rtol: float, movement: Any = 0.0) -> np.ndarray:
    """By how much each element is further off than allowed; 0 where it is not."""
    x, y = wide(got), wide(want)
    with np.errstate(all="ignore"):
        least = float(jnp.finfo(np.asarray(want).dtype).tiny) if inexact(want) else 0.0
        apart, allowed = np.abs(x - y), rtol * (np.abs(y) + movement) + least
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | ((apart <= allowed) & np.isfinite(y))
        excess = np.where(np.isfinite(apart), apart / np.maximum(allowed, 1e-300), np.inf)
    return np.where(same, 0.0, excess)
