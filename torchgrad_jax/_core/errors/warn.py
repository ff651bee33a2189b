"""Warnings, which point at the line of the program that they are about."""

from __future__ import annotations

import warnings

from ..state import SETTINGS
from .messages import users_frame

_seen: set[str] = set()


def once(message: str) -> None:
    """`to_user`, the first time only."""
    if SETTINGS.warn_always or message not in _seen:
        _seen.add(message)
        to_user(message)


def to_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that led here, however deep this is."""
    frame = users_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    known = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, known)


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that are given once per process are repeated each time."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    SETTINGS.warn_always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` last said."""
    return SETTINGS.warn_always
