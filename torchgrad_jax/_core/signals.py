"""Blocks that a signal cannot leave half: a mode that a `with` block sets is restored, wherever Ctrl-C comes.

Python runs the handlers of signals where a function written in Python begins, after calls, and where loops jump back.
An `__exit__` that restores a mode begins with such a place, at which the block around it is over already: the mode
would stay. So a function that restores something is `uninterrupted`, and calls nothing before it has done so:

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.bits = self.before

`contextmanager` is that of `contextlib` with the same property. Where several calls restore something together,
`restore` makes them again if a signal comes in between.
"""

from __future__ import annotations

import contextlib
import functools
import opcode
import types
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

Fn = TypeVar("Fn", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")

_RESUME = opcode.opmap["RESUME"]
_AFTER_YIELD_FROM = 2
"""The argument with which RESUME runs no handlers: the function that yields has just run them."""


def uninterrupted(fn: Fn) -> Fn:
    """Make a function at whose beginning Python runs no handlers of signals. It costs a call nothing."""
    code: types.CodeType = fn.__code__  # type: ignore[attr-defined]
    text = bytearray(code.co_code)
    text[2 * text[::2].index(_RESUME) + 1] = _AFTER_YIELD_FROM
    fn.__code__ = code.replace(co_code=bytes(text))  # type: ignore[attr-defined]
    return fn


@uninterrupted
def restore(step: Callable[..., Any], *args: Any) -> None:
    """Call what restores something in several steps. It is called again if a signal interrupts it."""
    try:
        step(*args)
    except BaseException:
        step(*args)
        raise


def _copy(fn: Any) -> Any:
    """A function with the same code, to be changed."""
    copied = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    return functools.update_wrapper(copied, fn)


class _Block(contextlib._GeneratorContextManager[Any]):
    """A generator as a context. What it does before its `yield` has happened when its block begins."""

    def __enter__(self) -> Any:
        del self.args, self.kwds, self.func
        for value in self.gen:  # `next` is a call, after which a handler would run and the block not be entered
            return value
        raise RuntimeError("generator didn't yield")

    __exit__ = uninterrupted(_copy(contextlib._GeneratorContextManager.__exit__))


def contextmanager(fn: Callable[P, Iterator[T]]) -> Callable[P, contextlib._GeneratorContextManager[T]]:
    """`contextlib.contextmanager`, whose blocks run what stands behind `yield` whenever a signal comes.

    What the generator changes before its `yield` belongs into a `try` with what restores it, save where nothing is
    called in between.
    """

    @functools.wraps(fn)
    def begin(*args: P.args, **kwargs: P.kwargs) -> contextlib._GeneratorContextManager[T]:
        return _Block(fn, args, kwargs)  # type: ignore[arg-type]

    return begin
