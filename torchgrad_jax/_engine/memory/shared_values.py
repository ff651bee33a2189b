"""What nodes save of tensors whose values they keep: the version, as of every tensor, and the present values.

Nodes keep the values of tensors in memory that NumPy has, too, since a write by NumPy counts no version. They keep all
values where derivatives are taken along tangents alone: those are taken as an operation runs, before any later write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.state import MODES

LIVE: set[Any] = set()
"""All memory shared with NumPy, and levels that keep all values: nothing else is looked at while there is none.

Memory that is gone leaves it without a line of Python, so that no signal can come in between and be lost.
"""


class VersionAndValues(int):
    """The version at which a node saved a tensor, with what its memory held then."""

    array: Any
    outlasts = False
    """Whether the node reads the values even if a tensor was written to since, which is an error otherwise."""
    tangent: Any = None
    """The tangent that the values have at the open level."""


def outlasts(then: int) -> bool:
    """Return whether a node reads what it saved at a version even if that was written to since."""
    return then.__class__ is VersionAndValues and then.outlasts  # type: ignore[attr-defined]


def with_shared_values(saved: Sequence[Any], versions: tuple[int, ...]) -> tuple[int, ...]:
    """Versions of what a node saves; those of tensors whose values it keeps with the present ones."""
    if MODES.transposed is not None and MODES.transforming_levels.along_tangents_alone():
        return tuple([MODES.tangents.lasting(x, v) for x, v in zip(saved, versions)])
    for x in saved:
        if is_shared(x):
            return tuple([_with_values(x, v) for x, v in zip(saved, versions)])
    return versions


def is_shared(x: Any) -> bool:
    return getattr(getattr(x, "_st", x), "shared", False) is True


def _with_values(entry: Any, version: int) -> int:
    if not is_shared(entry) or version.__class__ is VersionAndValues:
        return version
    out = VersionAndValues(version)
    out.array = getattr(entry, "_st", entry).present(entry)
    return out
