"""Warnings, which point at the line of the program that they are about."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator

from ..signals import contextmanager
from ..state import SETTINGS
from .messages import users_frame

_seen: set[str] = set()
_OF_THREAD = threading.local()


class Refused(Exception):
    """There was something to warn of where nobody is to hear of it yet."""


@contextmanager
def refused() -> Iterator[None]:
    """Code inside may be run once more, and warn then: here it raises `Refused` instead."""
    before = getattr(_OF_THREAD, "refused", False)
    _OF_THREAD.refused = True
    try:
        yield
    finally:
        _OF_THREAD.refused = before


def once(message: str) -> None:
    """`to_user`, the first time only."""
    if getattr(_OF_THREAD, "refused", False):
        raise Refused(message)
    if SETTINGS.warn_always or message not in _seen:
        _seen.add(message)
        to_user(message)


def to_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that led here, however deep this is."""
    if getattr(_OF_THREAD, "refused", False):
        raise Refused(message)
    frame = users_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    known = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, known)


def of_deprecation(message: str) -> None:
    """Warn of a name that goes, where Python shows it: in tests and under `python -W default`, as PyTorch does."""
    if getattr(_OF_THREAD, "refused", False):
        raise Refused(message)
    warnings.warn(message, DeprecationWarning, stacklevel=2)


def set_warn_always(b: bool, /) -> None:
    """Return whether warnings that are given once per process are repeated each time."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    SETTINGS.warn_always = b


def is_warn_always_enabled() -> bool:
    """Return what `set_warn_always` last said."""
    return SETTINGS.warn_always
