"""A compiled backward pass or window that fails: it runs kernel by kernel, and a debug log says why."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import jax

log = logging.getLogger("torchgrad_jax.backward")
_LIBRARIES = frozenset(("torchgrad_jax", "jax", "jaxlib", "numpy", *sys.stdlib_module_names))


def note(error: Exception, what: str, args: Sequence[Any]) -> bool:
    """Log that `what`, compiled, failed on `args`. Gives whether it would fail again on other arguments.

    Raises:
        error: it comes from code of the user, which ran in the middle of it: a signal handler.
    """
    if is_users(error):
        raise error
    log.debug("%s could not run compiled and runs node by node: %r", what, error)
    return not any(isinstance(x, jax.core.Tracer) for x in args)


def is_users(error: Exception) -> bool:
    """Return whether code of the user raised it, which ran in the middle of something else: a signal handler."""
    return _raised_in(error.__traceback__) not in _LIBRARIES


def _raised_in(traceback: TracebackType | None) -> str:
    """The top-level package of the code that raised."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return "jax"
    return str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
