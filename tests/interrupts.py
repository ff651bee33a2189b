"""Signals at every point: a function runs again and again, and each time an exception comes one instruction later."""

import dis
import opcode
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torchgrad_jax

PACKAGE = str(Path(torchgrad_jax.__file__).parent)


class Signal(BaseException):
    """What a handler of a signal raises."""


DELIVERING = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"}
"""Instructions after which Python runs the handlers of signals."""


_HANDLERS: dict[int, tuple[Any, dict[int, int]]] = {}
"""By identity of a code object, which may hold constants that have no hash: itself, and its handlers."""


def _handlers(code: Any) -> dict[int, int]:
    """Which handler catches what an instruction raises, by its place."""
    if id(code) not in _HANDLERS:
        table = reversed(dis._parse_exception_table(code))  # type: ignore[attr-defined]
        handlers = {at: e.target for e in table for at in range(e.start, e.end)}
        _HANDLERS[id(code)] = code, handlers
    return _HANDLERS[id(code)][1]


def _delivers(code: Any, before: int, at: int) -> bool:
    """Whether a handler of signals may run after one instruction and before another.

    Where a function that ends a `with` block begins is left out: Python forgets the block if a signal comes just there.
    What a handler raises belongs to the instruction before, so that both must be in the same block.
    """
    name, handlers = opcode.opname[code.co_code[before]], _handlers(code)
    if name not in DELIVERING or (name == "RESUME" and code.co_name == "__exit__"):
        return False
    return handlers.get(before) == handlers.get(at)


def interrupted(
    run: Callable[[], Any], at: int, within: str = PACKAGE, delivered: bool = False
) -> bool:
    """Run, and raise `Signal` before the instruction of that number in the package's code; whether there was one.

    With `delivered`, only those instructions count before which Python may run a handler.
    """
    left = at
    last: dict[Any, int] = {}

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(within):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return instruction

    def instruction(frame: Any, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "opcode":
            before, at = last.get(frame), frame.f_lasti
            last[frame] = at
            if delivered and (before is None or not _delivers(frame.f_code, before, at)):
                return instruction
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Signal
        return instruction

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except Signal:
        return True
    finally:
        sys.settrace(before)
    return False


def length(run: Callable[[], Any], within: str = PACKAGE) -> int:
    """How many points there are at which `run` may be interrupted."""
    seen = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(within):
            return None
        frame.f_trace_opcodes = True
        seen += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen
