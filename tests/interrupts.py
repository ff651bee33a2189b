"""Signals at every point: a function runs again and again, and each time an exception comes one instruction later."""

import contextlib
import dis
import opcode
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torchgrad_jax
from torchgrad_jax._core.jax import caches
from torchgrad_jax._core.state import WRITE_LOCK

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


def _delivers(frame: Any, before: int, at: int) -> bool:
    """Whether a handler of signals may run after one instruction and before another.

    Two points are left out, about which a context can do nothing: where the function that ends a `with` block begins,
    Python forgets the block; and where the one that begins it does, a mode that is set when its class is called is set.
    What a handler raises belongs to the instruction before, so that both must be in the same block.
    """
    code = frame.f_code
    name, handlers = opcode.opname[code.co_code[before]], _handlers(code)
    if name not in DELIVERING or (name == "RESUME" and _bounds_a_block(frame)):
        return False
    return handlers.get(before) == handlers.get(at)


def _bounds_a_block(frame: Any) -> bool:
    """Whether a frame is that of an `__enter__` or `__exit__` which Python calls, and not another of them."""
    name = frame.f_code.co_name
    return name in ("__enter__", "__exit__") and frame.f_back.f_code.co_name != name


def interrupted(run: Callable[[], Any], at: int, within: str = PACKAGE, delivered: bool = False) -> bool:
    """Run, and raise `Signal` before the instruction of that number in the package's code; whether there was one.

    With `delivered`, only those instructions count before which Python may run a handler.
    """
    left = at
    last: dict[int, int] = {}  # by identity: a frame that is over must not keep what it held

    def begin(frame: Any) -> None:
        last[id(frame)] = frame.f_lasti  # that of RESUME, which is no point of its own

    def instruction(frame: Any) -> None:
        nonlocal left
        before, at = last.get(id(frame)), frame.f_lasti
        last[id(frame)] = at
        if delivered and (before is None or not _delivers(frame, before, at)):
            return
        left -= 1
        if left == -1:  # once: what handles it is not interrupted again
            raise Signal

    try:
        with _watching(within, begin, instruction):
            run()
    except Signal:
        return True
    finally:
        if not delivered:
            _free_locks()
    return False


Look = Callable[[Any], None]
"""What is called with a frame."""


@contextlib.contextmanager
def _traced(within: str, begin: Look, instruction: Look) -> Iterator[None]:
    """Call `begin` where a function of some files begins in this thread, and `instruction` before its instructions."""

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(within):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        begin(frame)
        return each

    def each(frame: Any, event: str, arg: Any) -> Any:
        if event == "opcode":
            instruction(frame)
        return each

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def _monitored(within: str, begin: Look, instruction: Look) -> Iterator[None]:
    """The same from Python 3.12 on, where a function that was not traced before runs a while without opcode events."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    tool, events, thread = monitoring.DEBUGGER_ID, monitoring.events, threading.get_ident()

    def calls(look: Look, code: Any) -> Any:
        if not code.co_filename.startswith(within):
            return monitoring.DISABLE
        if threading.get_ident() == thread:
            look(sys._getframe(2))
        return None

    monitoring.use_tool_id(tool, "tests/interrupts.py")
    try:
        for event in (events.PY_START, events.PY_RESUME):
            monitoring.register_callback(tool, event, lambda code, at: calls(begin, code))
        monitoring.register_callback(tool, events.INSTRUCTION, lambda code, at: calls(instruction, code))
        monitoring.restart_events()  # what was left out for other files
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.INSTRUCTION)
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


_watching = _monitored if sys.version_info >= (3, 12) else _traced


def _free_locks() -> None:
    """Give back what this thread still holds.

    Between a lock and the `with` block around it there are instructions before which Python runs no handler, so no
    signal leaves it held. An exception that is raised there all the same does, and other threads would wait forever.
    """
    for lock in (WRITE_LOCK, caches._LOCK):
        while lock._is_owned():  # type: ignore[attr-defined]
            lock.release()


def length(run: Callable[[], Any], within: str = PACKAGE) -> int:
    """How many points there are at which `run` may be interrupted."""
    seen = 0

    def count(frame: Any) -> None:
        nonlocal seen
        seen += 1

    with _watching(within, lambda frame: None, count):
        run()
    return seen
