"""What nodes save of tensors in memory that NumPy has, too: the version, as of every tensor, and the present values."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

LIVE: set[weakref.ref[Any]] = set()
"""All memory shared with NumPy: nothing else is looked at while there is none.

Memory that is gone leaves it without a line of Python, so that no signal can come in between and be lost.
"""


class VersionAndValues(int):
    """The version at which a node saved a tensor, with what its shared memory held then."""

    array: Any


def with_shared_values(saved: Sequence[Any], versions: tuple[int, ...]) -> tuple[int, ...]:
    """Versions of what a node saves; those of tensors in shared memory with the present values."""
    for x in saved:
        if _is_shared(x):
            return tuple([_with_values(x, v) for x, v in zip(saved, versions)])
    return versions


def _is_shared(x: Any) -> bool:
    return getattr(getattr(x, "_st", x), "shared", False) is True


def _with_values(entry: Any, version: int) -> int:
    if not _is_shared(entry) or version.__class__ is VersionAndValues:
        return version
    out = VersionAndValues(version)
    out.array = getattr(entry, "_st", entry).present(entry)
    return out
