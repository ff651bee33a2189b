"""Elementwise operators, orders and places as functions of NumPy's that were written by hand.

A row of the table says ``host=forms.ordered``. The function gets the metas of the arguments, or the types of numbers,
by name, and the static arguments:

    def logaddexp(keys):
        return np.logaddexp if floats(keys) else None

What it gives is called with the arguments that are there, and stands for the code from the row's jaxpr. It gives the
same, to the rounding of the dtype, or raises `Unsure` for values that it does not take: that code does those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import shapes
from ..errors.checks import all_between
from .inline import Step, Unsure

Keys = dict[str, Any]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def floats(keys: Keys) -> bool:
    """Return whether these are tensors of float32 or of float64 with elements, and maybe numbers that fit in."""
    given = [k for k in keys.values() if k is not None]
    kinds = {k.dtype.np for k in given if not isinstance(k, type)}
    whole = all(k in (int, float) if isinstance(k, type) else k.numel for k in given)
    return whole and len(kinds) == 1 and kinds <= {*FLOATS}


def few(keys: Keys) -> bool:
    """The same of tensors with so few elements that it does not matter how many nanoseconds NumPy takes for one."""
    return floats(keys) and all(isinstance(k, type) or k is None or k.numel <= MOST_OF_FEW for k in keys.values())


MOST_OF_FEW = 1024


def places(key: Any) -> bool:
    """Return whether a tensor holds places, as 64-bit integers."""
    return key.dtype.np == np.int64 and key.numel > 0


def any_of(mask: Any) -> bool:
    """Return whether a value of an array of bool is true; `any` takes longer to begin."""
    return b"\1" in mask.tobytes()


def refuse_if(wrong: bool) -> None:
    """Leave these values to the code from the jaxpr."""
    if wrong:
        raise Unsure


# --- elementwise ----------------------------------------------------------------------------------


def by(ufunc: Step, takes: Callable[[Keys], bool] = few) -> Callable[..., Step | None]:
    """Return what a ufunc gives for floating point numbers."""
    return lambda keys, **statics: ufunc if takes(keys) else None


def remainder(keys: Keys) -> Step | None:
    """Return what is left of a division, with the sign of the divisor; a zero has that of what is divided."""
    if isinstance(keys["other"], type) and not isinstance(keys["input"], type) and places(keys["input"]):
        return _integer_remainder if keys["other"] is int else None
    return _remainder if few(keys) else None


def _integer_remainder(x: Any, y: int) -> Any:
    refuse_if(y == 0)
    return np.remainder(x, y)


def _remainder(x: Any, y: Any) -> Any:
    out = np.remainder(x, y)
    refuse_if(any_of(np.equal(out, 0)))
    return out


def sign(keys: Keys, **statics: Any) -> Step | None:
    """-1, 0 or 1, where no element is NaN."""
    if not floats(keys):
        return None

    def sign(x: Any) -> Any:
        out = np.sign(x)
        refuse_if(any_of(out != out))
        return out

    return sign


def clamped(keys: Keys, **statics: Any) -> Step | None:
    """Between two numbers, of which one may be missing and none is 0: of two zeros the one that is given stays."""
    given = {name: keys.get(name) for name in ("min", "max")}
    numbers = [k for k in given.values() if k is not None]
    if not floats({"input": keys["input"]}) or not all(k in (int, float) for k in numbers):
        return None
    dt, has_low, has_high = keys["input"].dtype.np, given["min"] is not None, given["max"] is not None
    most = np.asarray(np.inf, dt)
    least = -most

    def clamp(x: Any, *limits: Any) -> Any:
        refuse_if(not all(limits))
        low, high = np.asarray(limits[0], dt), np.asarray(limits[-1], dt)  # faster than numbers
        return x.clip(low if has_low else least, high if has_high else most)

    return clamp


def nan_to_num(keys: Keys, **statics: Any) -> Step | None:
    """An array whose elements are all finite is as it was."""
    if not floats(keys):
        return None

    def copy(x: Any) -> Any:
        refuse_if(b"\0" in np.isfinite(x).tobytes())
        return x.copy()

    return copy


def softplus(keys: Keys, beta: float, threshold: float) -> Step | None:
    """``log(1 + exp(x))``, where no element is past the threshold."""
    if not floats(keys) or beta != 1:
        return None

    def soft(x: Any) -> Any:
        refuse_if(any_of(x > threshold))
        return np.log1p(np.exp(x))

    return soft


# --- places ---------------------------------------------------------------------------------------


def along(key: Any, axis: int, taken: int) -> Step:
    """The elements at places along an axis, of which there are `taken`."""
    step, base = math.prod(key.shape[axis + 1 :]), flat_places(key.shape, axis, taken)
    return lambda x, at: x.take((at if step == 1 else at * step) + base)


def flat_places(shape: tuple[int, ...], axis: int, taken: int) -> Any:
    """Where the rows along an axis begin in memory, for an array of `taken` places along that axis."""
    base: Any = np.zeros((), np.int64)
    for d, n in enumerate(shape):
        if d != axis:
            form = [-1 if i == d else 1 for i in range(len(shape))]
            base = base + (np.arange(n) * math.prod(shape[d + 1 :])).reshape(form)
    return np.broadcast_to(base, [taken if d == axis else n for d, n in enumerate(shape)])


def searched(keys: Keys, out_int32: bool, right: bool, side: Any) -> Step | None:
    """Where values belong in one sorted row."""
    edges, x, sorter = keys["sorted_sequence"], keys["input"], keys["sorter"]
    if sorter is not None or isinstance(x, type) or edges.ndim != 1 or not few({"edges": edges, "x": x}):
        return None
    to, dt = "right" if right or side == "right" else "left", np.int32 if out_int32 else np.int64

    def search(edges: Any, x: Any) -> Any:
        refuse_if(b"\0" in (edges[1:] >= edges[:-1]).tobytes() or any_of(edges != edges))
        return np.asarray(edges.searchsorted(x, to), dt)

    return search


def indexed(keys: Keys) -> Step | None:
    """The elements at integer places."""
    x, *given = keys.values()
    if not x.numel or not x.ndim or len(given) > x.ndim or not all(k is None or places(k) for k in given):
        return None
    if len(given) == 1 and given[0] is not None:
        return lambda x, at: x.take(at, 0)
    if all(k is not None for k in given):
        return lambda x, *at: x[at]
    whole = [k is None for k in given]

    def pick(x: Any, *at: Any) -> Any:
        rest = iter(at)
        return x[tuple([slice(None) if w else next(rest) for w in whole])]

    return pick


def written(keys: Keys, accumulate: bool) -> Step | None:
    """A copy with values at integer places; of two at one place the later one stays."""
    x, *given, values = keys.values()
    if accumulate or not x.numel or len(given) > x.ndim or isinstance(values, type) or values.dtype is not x.dtype:
        return None
    if not all(k is None or places(k) for k in given):
        return None
    whole = [k is None for k in given]

    def put(x: Any, *rest: Any) -> Any:
        *at, new = rest
        out, places = x.copy(), iter(at)
        out[tuple([slice(None) if w else next(places) for w in whole])] = new
        return out

    return put


def gathered(keys: Keys, dim: int, sparse_grad: bool) -> Step | None:
    """The elements at places along one dimension."""
    x, at = keys["input"], keys["index"]
    if not x.numel or not x.ndim or not places(at):
        return None
    axis = shapes.wrap_dim(dim, x.ndim)
    n, pick = x.shape[axis], None
    if all(a == b for d, (a, b) in enumerate(zip(at.shape, x.shape)) if d != axis):
        pick = along(x, axis, at.shape[axis])

    def gather(x: Any, at: Any) -> Any:
        refuse_if(not all_between(at, 0, n))
        assert pick is not None
        return pick(x, at)

    return pick and gather


def counted(keys: Keys, size: int) -> Step | None:
    """Return how often each number below `size` occurs."""
    if keys["weights"] is not None or not places(keys["input"]):
        return None

    def count(x: Any) -> Any:
        refuse_if(not all_between(x, 0, size))
        return np.bincount(x, minlength=size)

    return count


def histogram(keys: Keys, bins: int) -> Step | None:
    """Return how many elements are in each of some equal parts of a range that holds all of them."""
    limits = keys["min"], keys["max"]
    if not floats(keys) or not all(k is None or isinstance(k, type) for k in limits):
        return None
    kind = keys["input"].dtype.np.type

    def count(x: Any, *given: Any) -> Any:
        rest = iter(given)
        low, high = (kind(0 if k is None else next(rest)) for k in limits)
        if low == high:
            low, high = x.min(), x.max()
        place = (x.ravel() - low) * kind(bins) / (high - low)
        refuse_if(not low < high or b"\0" in ((place >= 0) & (place <= bins)).tobytes())
        refuse_if(any_of(x > high))
        return np.bincount(np.minimum(place.astype(np.int64), bins - 1), minlength=bins).astype(kind)

    return count


def chosen_losses(keys: Keys, ignore_index: int, reduction: str) -> Step | None:
    """Minus the entries of the classes that a target names, added or averaged, where none of them is left out."""
    x, target = keys["input"], keys["target"]
    if keys["weight"] is not None or not floats({"x": x}) or x.ndim != 2 or not places(target) or reduction == "none":
        return None
    n, classes = x.shape
    base, minus = np.arange(n) * classes, np.full(n, -1, x.dtype.np)
    share = x.dtype.np.type(n if reduction == "mean" else 1)
    ignored = 0 <= ignore_index < classes

    def loss(x: Any, at: Any) -> Any:
        refuse_if(not all_between(at, 0, classes) or (ignored and any_of(at == ignore_index)))
        return x.take(base + at).dot(minus) / share

    return loss
