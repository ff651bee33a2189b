"""How the user's own code made the call that is being complained about."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_PACKAGE = __name__.partition(".")[0]


def _outside() -> FrameType | None:
    """The innermost running frame that does not belong to this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    # Generated functions have globals of their own, and are named after the file that writes them.
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == _PACKAGE or f"/{_PACKAGE}/" in frame.f_code.co_filename


def by_keyword(name: str) -> bool:
    """Whether the user's call names this argument.

    torch's messages give the position of an argument unless it came by keyword, which a Python
    function is not told; the instruction that is calling it knows. Only error messages ask.
    """
    frame = _outside()
    return frame is not None and name in names_in_call(frame)


def names_in_call(frame: FrameType) -> tuple[str, ...]:
    """The names of the keyword arguments of the call that a frame is making; () if it does not write them out."""
    code = frame.f_code
    last = [step for step in dis.get_instructions(code) if step.offset <= frame.f_lasti][-3:]
    # Up to Python 3.12 the names are an instruction before the call, then a constant that it takes.
    kinds = ("LOAD_CONST", "KW_NAMES") if last[-1].opname == "CALL_KW" else ("KW_NAMES",)
    names = [code.co_consts[step.arg or 0] for step in last if step.opname in kinds]
    return next((n for n in names if isinstance(n, tuple)), ())


def caller_of(function: Callable[..., Any]) -> FrameType | None:
    """The frame that called a function whose globals know it as `_me`, as generated ones do; it must be running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("_me") is not function:
        frame = frame.f_back
    while frame is not None and (
        frame.f_globals.get("_me") is function or frame.f_code.co_name in _CALLS_AGAIN
    ):
        frame = frame.f_back
    return beyond_overrides(frame)


def beyond_overrides(frame: FrameType | None) -> FrameType | None:
    """The frame, or the first before it that does not only look for overrides."""
    while frame is not None and f"/{_PACKAGE}/_engine/overrides.py" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame


_CALLS_AGAIN = ("_first_call", "rebind")
