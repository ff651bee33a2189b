"""Exceptions that are carried from one thread or process to another."""

from __future__ import annotations

import sys
import traceback
from typing import Any


class ExceptionWrapper:
    """An exception from another thread or process, to be raised again in this one.

    Args:
        exc_info: what `sys.exc_info()` gave there; of this thread if left out.
        where: words that say where that was.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, tb = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = kind
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(kind, value, tb))

    def reraise(self) -> None:
        """Raise an exception of the same type whose message has the original traceback."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:  # a KeyError shows the repr of its message
            text = _Verbatim(text)
        try:
            error = self.exc_type(text)
        except Exception:  # the constructor takes other arguments
            raise RuntimeError(text) from None
        raise error


class _Verbatim(str):
    """A string whose repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


ExceptionWrapper.__module__ = "torchgrad_jax._utils"  # the module in which torch has it
