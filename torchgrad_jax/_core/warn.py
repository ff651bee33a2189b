"""Warnings that torch gives once per process, unless asked to repeat them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1])
_seen: set[str] = set()
_always = False


def once(message: str, stacklevel: int | None = 3) -> None:
    """Warn, the first time only; with no level, at the line outside of this package that led here."""
    if _always or message not in _seen:
        _seen.add(message)
        if stacklevel is None:
            to_user(message)
        else:
            warnings.warn(message, stacklevel=stacklevel)


def to_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package that led here, however deep this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that are given once per process are repeated each time."""
    global _always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` last said."""
    return _always
