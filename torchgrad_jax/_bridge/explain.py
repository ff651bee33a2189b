"""What compiled functions say of themselves: warnings, log lines, names and places."""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from typing import Any

from .._core.compiling import asks_for
from .keys import name_of
from .stance import POLICY

log = logging.getLogger("torchgrad_jax.compile")
_WAY_OUT = (
    "The results are right, but the steps are taken one by one. Do this outside of the compiled function, return the "
    "value instead, or keep it in a tensor; `torch.compiler.disable` says that it is meant so"
)


def tell(kind: str, text: str) -> None:
    """Log a line, and print it where that is asked for."""
    log.info("%s", text)
    if asks_for("recompiles"):
        print(f"[{kind}] {text}", file=sys.stderr)  # noqa: T201 - asked for


def traced_again(fn: Any, why: str) -> None:
    """Log that a function is traced once more."""
    tell("recompiles", f"{name_of(fn)}: traced again: {why}")


def given_up(fn: Any, why: Any) -> None:
    """Say that a function is no longer compiled."""
    _warn(
        f"torch.compile: {_place(fn)} is not compiled from now on, but runs as it is written, since each call does "
        f"something in Python that a program cannot repeat: {why}. {_WAY_OUT}"
    )


def never_compiled(fn: Any, why: Any) -> None:
    """Say that a function is not compiled at all, for something that it asks for."""
    _warn(
        f"torch.compile: {_place(fn)} is not compiled, but runs as it is written: {why}. {_WAY_OUT}"
    )


def unsupported(fn: Any, error: BaseException) -> None:
    """Say that a function cannot be compiled, where that is no error; torch breaks graphs silently."""
    text = f"{name_of(fn)} runs as it is written: {error}"
    if POLICY.graph_breaks:
        tell("graph_breaks", text)
    else:
        _warn(text)


def _warn(text: str) -> None:
    """Warn; programs that run with this package in torch's place get a log line, as torch writes one."""
    if POLICY.graph_breaks:
        log.warning("%s", text)
    else:
        warnings.warn(text, stacklevel=2 + _own_frames())


def _own_frames() -> int:
    """How many frames of this package called the function that asks."""
    frame: Any = sys._getframe(1)
    n = 0
    while frame is not None and (frame.f_globals.get("__name__") or "").startswith(_PACKAGE):
        frame, n = frame.f_back, n + 1
    return n - 1


_PACKAGE = __name__.partition(".")[0] + "."


def _place(fn: Any) -> str:
    """A function by name, file and line."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    at = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
    return f"{name_of(fn)}{at}"


__all__ = ["given_up", "never_compiled", "tell", "traced_again", "unsupported"]
