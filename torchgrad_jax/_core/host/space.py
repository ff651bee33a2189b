"""What NumPy code runs in: the names that it may use, and NumPy's warnings turned off.

    for token in quietly:  # turned off, and what was set before is held: no signal comes in between
        try:
            return 1 / zeros
        finally:
            loudly(token)

After a call and before its result has a name, Python may run a handler of signals; a loop's next round has no such
point. An errstate costs 1 us, the variable behind it 0.1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np

from ..arrays.transfer import aligned
from ..jax.private import DEBUG_INFS, DEBUG_NANS, ArrayImpl
from . import inline
from .blocks import BLOCK

SIZES = re.compile(r"\((?:\d+, ?)+\d*\)|(?<=[\[: ])\d+(?=[:\],])")
"""The shapes, and the places in slices, of a text."""


def without_sizes(text: str, space: dict[str, Any]) -> str:
    """The text with names for shapes and for places in slices: kernels that differ in these alone have the same."""

    def named(found: re.Match[str]) -> str:
        name = f"n{len(space)}"
        space[name] = eval(found[0])
        return name

    return SIZES.sub(named, text)


@functools.lru_cache(4096)
def apart(text: str) -> tuple[str, tuple[Any, ...]]:
    """The text without its shapes and places in slices, and these."""
    return SIZES.sub("", text), tuple(map(eval, SIZES.findall(text)))


@functools.lru_cache(2048)
def compiled(text: str) -> Any:
    """The code of a text."""
    return compile(text, f"{__file__}:kernel", "exec")


def made_of(code: Any, space: dict[str, Any]) -> Any:
    """The function of code, `kernel` or the `body` of a loop, with these names."""
    exec(code, space)
    if "body" in space:
        return space["body"]
    made = space["kernel"]
    if "derived" in space:
        made.derived = space["derived"]
    return made


def _own(x: Any) -> np.ndarray:
    """A result as an array of its own."""
    if x.__class__ is np.ndarray and x.base is None and x.flags.c_contiguous and x.flags.owndata:
        return x
    return np.array(x, order="C")


def silently(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's without its warnings."""

    def call(*args: Any) -> Any:
        for token in _QUIETLY:
            try:
                return fn(*args)
            finally:
                _LOUDLY(token)
        return None  # is not reached, since the loop has no end

    return call


def warnings() -> tuple[Iterator[Any], Callable[[Any], Any]]:
    """Return what turns NumPy's warnings off, and what sets them as they were."""
    try:
        from numpy._core.umath import _extobj_contextvar, _make_extobj

        quiet = _make_extobj(all="ignore")
        _extobj_contextvar.reset(_extobj_contextvar.set(quiet))
        return map(_extobj_contextvar.set, repeat(quiet)), _extobj_contextvar.reset
    except (ImportError, AttributeError, TypeError):
        silent: Any = repeat("ignore")
        return map(np.seterr, silent), lambda before: np.seterr(**before)


_QUIETLY, _LOUDLY = warnings()
COMMON: dict[str, Any] = {
    "ndarray": np.ndarray,
    **inline.NAMES,
    "own": _own,
    "Unsure": inline.Unsure,
    "unfit": (inline.Unsure, OverflowError),
    "untaken": (inline.Unsure, IndexError, OverflowError),
    "numbers": frozenset((bool, int, float, complex)),
    "new": aligned,
    "block": BLOCK,
    "quietly": _QUIETLY,
    "loudly": _LOUDLY,
    "nans": DEBUG_NANS,
    "infs": DEBUG_INFS,
    "Array": ArrayImpl,
}
