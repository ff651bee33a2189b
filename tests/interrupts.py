"""Signals at every point: a function runs again and again, and each time an exception comes one instruction later."""

import _thread
import contextlib
import opcode
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import torchgrad_jax
from torchgrad_jax._core.jax import caches
from torchgrad_jax._core.signals import uninterrupted
from torchgrad_jax._core.state import WRITE_LOCK

PACKAGE = str(Path(torchgrad_jax.__file__).parent)


class Signal(BaseException):
    """What a handler of a signal raises."""


PASSIVE = {
    "BUILD_LIST", "BUILD_TUPLE", "CACHE", "COPY", "COPY_FREE_VARS", "EXTENDED_ARG", "JUMP_FORWARD", "KW_NAMES",
    "LOAD_CLOSURE", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL",
    "MAKE_CELL", "MAKE_FUNCTION", "NOP", "PRECALL", "PUSH_EXC_INFO", "PUSH_NULL", "RETURN_CONST", "RETURN_VALUE",
    "STORE_DEREF", "STORE_FAST", "SWAP",
}  # fmt: skip
"""Instructions that call nothing. A signal before one of them is as one before the next instruction."""

_TEXTS: dict[int, tuple[Any, list[bool]]] = {}
"""By identity of a code object, which may hold constants that have no hash: itself, and which bytes are passive."""


def _is_passive(code: Any, at: int) -> bool:
    if id(code) not in _TEXTS:
        _TEXTS[id(code)] = code, [opcode.opname[number] in PASSIVE for number in code.co_code]
    return _TEXTS[id(code)][1][at]


class _Ctrl:
    """`CTRL.c` is a signal that arrives, and nothing else: unlike a call, it does not end with its delivery."""

    arrives = _thread.interrupt_main
    c = property(methodcaller("arrives"))


CTRL = _Ctrl()


def signalled(run: Callable[[], Any], at: int, within: str | tuple[str, ...] = PACKAGE) -> str:
    """Run, and have a signal arrive before the instruction of that number in the package's code.

    Python itself decides where it runs the handler, which raises `Signal`: at the next place where it looks for
    signals, in whatever code that is. So there is no list here of such places and none of exceptions; an instruction
    after which Python does not look is one with nothing to test.

    Returns:
        The name of the function in which Python ran the handler; nothing if there is no such instruction.
    """
    left, where = at, ""

    def raises(number: int, frame: Any) -> None:
        nonlocal where
        where = frame.f_code.co_name
        raise Signal

    @uninterrupted
    def instruction(frame: Any) -> bool:
        nonlocal left
        if not _is_passive(frame.f_code, frame.f_lasti):
            left -= 1
            if left == -1:
                CTRL.c
        return left >= 0

    before = signal.signal(signal.SIGINT, raises)
    try:
        with _watching(within, instruction):
            run()
            len(())  # a signal before the last instruction is delivered here
    except Signal:
        pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert bool(where) == (left < 0)
    return where


def interrupted(run: Callable[[], Any], at: int, within: str = PACKAGE) -> bool:
    """Run, and raise `Signal` before the instruction of that number in the package's code; whether it came out.

    Unlike a signal it comes between any two instructions, also where Python would run no handler.
    """
    left = at

    def instruction(frame: Any) -> bool:
        nonlocal left
        left -= 1
        if left == -1:  # once: what handles it is not interrupted again
            raise Signal
        return True

    try:
        with _watching(within, instruction):
            run()
    except Signal:
        return True
    finally:
        _free_locks()
    return False


Look = Callable[[Any], bool]
"""What is called with a frame before each of its instructions, until it returns False."""


@contextlib.contextmanager
def _traced(within: str | tuple[str, ...], look: Look) -> Iterator[None]:
    """Call `look` before the instructions of some files in this thread."""
    on = True

    @uninterrupted  # these two call nothing once a signal has arrived, which would be delivered here otherwise
    def trace(frame: Any, event: str, arg: Any) -> Any:
        if not on or not frame.f_code.co_filename.startswith(within):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return each

    @uninterrupted
    def each(frame: Any, event: str, arg: Any) -> Any:
        nonlocal on
        if on and event == "opcode":
            on = look(frame)
        return each

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def _monitored(within: str | tuple[str, ...], look: Look) -> Iterator[None]:
    """The same from Python 3.12 on, where a function that was not traced before runs a while without opcode events."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    tool, events, thread = monitoring.DEBUGGER_ID, monitoring.events, threading.get_ident()
    on = True

    @uninterrupted
    def each(code: Any, at: int) -> Any:
        nonlocal on
        if not on:
            return None
        if not code.co_filename.startswith(within):
            return monitoring.DISABLE
        if threading.get_ident() == thread:
            on = look(sys._getframe(1))
        return None

    monitoring.use_tool_id(tool, "tests/interrupts.py")
    try:
        monitoring.register_callback(tool, events.INSTRUCTION, each)
        monitoring.restart_events()  # what was left out for other files
        monitoring.set_events(tool, events.INSTRUCTION)
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


def length(run: Callable[[], Any], within: str | tuple[str, ...] = PACKAGE) -> int:
    """How many points there are at which `run` may be interrupted."""
    seen = 0

    def count(frame: Any) -> bool:
        nonlocal seen
        seen += 1
        return True

    with _watching(within, count):
        run()
    return seen
