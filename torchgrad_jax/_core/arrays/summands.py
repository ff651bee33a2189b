"""Arrays over several processes of which each process has a summand of its own.

For example, `x.sum()` of a tensor whose rows are split over two processes is the sum of what each of them computes of
its rows. The array of the result is the whole sum, which both have, and a note beside it keeps this process's summand.
Arrays do not change, so a note holds as long as its array: what is written to a storage takes another array's place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .placement import names_of


@dataclass(frozen=True, eq=False)
class Summands:
    """What is known of an array that is a reduction of what the processes have."""

    own: Any
    """What this process has; None where it has all devices, or is not known."""
    reductions: Mapping[str, str]
    """How the axes of the mesh reduce: "sum", "avg", "max", "min" or "product"."""


_NOTES: dict[int, tuple[weakref.ref[Any], Summands]] = {}
"""By the identity of the array."""
RUN: list[Callable[[Any, Any, Any], Any]] = []
"""Runs a compiled kernel, given with its plan and arguments, where arrays lie on a mesh over several processes."""
SEVERAL: list[bool] = []
"""Not empty once JAX knows of several processes: until then nobody asks for summands."""


def note(array: Any, summands: Summands) -> Any:
    """The array, with a note of the summands that it is the reduction of."""
    key = id(array)
    _NOTES[key] = weakref.ref(array, lambda _: _NOTES.pop(key, None)), summands
    return array


def summands_of(array: Any) -> Summands | None:
    """Return what is known of the summands of an array; None for one that is no reduction."""
    found = _NOTES.get(id(array))
    return found[1] if found is not None and found[0]() is array else None


def carry(array: Any, other: Any, view: Callable[[Any], Any]) -> None:
    """Note of an array that shows some elements of another one which process has which summands of them.

    Args:
        array: perhaps a reduction.
        other: what `view` shows of it, split by the same axes or by fewer.
        view: a function of the whole.
    """
    found = summands_of(array) if _NOTES else None
    if found is None or _axes(array) != _axes(other):
        return
    own = found.own
    if own is None or (own.shape != array.shape and len(array.sharding.addressable_devices) > 1):
        own = None
    elif own.shape != array.shape:  # only this process's block of the view is read
        whole = np.zeros(array.shape, own.dtype)
        whole[_block(array)] = own
        own = np.asarray(view(whole))[_block(other)]
    else:
        own = view(own)
    note(other, Summands(own, found.reductions))


def _axes(array: Any) -> set[str]:
    return {a for entry in array.sharding.spec for a in names_of(entry)}


def _block(array: Any) -> Any:
    (index,) = array.sharding.addressable_devices_indices_map(array.shape).values()
    return index
