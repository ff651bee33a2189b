"""Blocks that restore what they change: as those of `contextlib`, and whole when a signal comes."""

import contextlib
import inspect
import threading
from typing import Any

import pytest

from torchgrad_jax._core.signals import contextmanager, restore, uninterrupted

BOTH = pytest.mark.parametrize("make", [contextmanager, contextlib.contextmanager], ids=["ours", "contextlib"])


def block(make: Any, log: list[Any]) -> Any:
    @make
    def context(value, *, swallowed=()):
        """What it says."""
        log.append("begin")
        try:
            yield value
        except swallowed:
            log.append("swallowed")
        finally:
            log.append("end")

    return context


@BOTH
def test_as_contextlib_s(make: Any):
    log: list[Any] = []
    context = block(make, log)
    with context(3) as value:
        log.append(value)
    with context(4, swallowed=KeyError):
        raise KeyError
    with pytest.raises(ValueError, match="passes"), context(5):
        raise ValueError("passes")
    with pytest.raises(StopIteration), context(6):
        raise StopIteration
    assert context(7)(lambda x: x + 1)(1) == 2
    assert log == ["begin", 3, "end", "begin", "swallowed", "end", *["begin", "end"] * 3]
    assert inspect.signature(context) == inspect.signature(context.__wrapped__)
    assert context.__doc__ == context(1).__doc__ == "What it says."
    assert isinstance(context(1), contextlib.AbstractContextManager)


@BOTH
def test_generators_that_are_no_blocks(make: Any):
    @make
    def without_a_yield():
        return
        yield

    @make
    def with_two_yields():
        yield
        yield

    with pytest.raises(RuntimeError, match="generator didn't yield"), without_a_yield():
        pass
    with pytest.raises(RuntimeError, match="generator didn't stop"), with_two_yields():
        pass


def test_uninterrupted_functions_are_as_they_were():
    def outer():
        cell = 1

        @uninterrupted
        def inner(x, y=2, *rest, z=3):
            """What it says."""
            return x + y + z + cell, rest

        return inner

    fn: Any = outer()
    assert fn(1) == (7, ())
    assert fn(1, 1, 5, z=0) == (3, (5,))
    assert str(inspect.signature(fn)) == "(x, y=2, *rest, z=3)"
    assert fn.__doc__ == "What it says."
    assert fn.__code__.co_firstlineno == outer.__code__.co_firstlineno + 3
    assert _called_by_a_thread(fn) == (7, ())


def _called_by_a_thread(fn: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(fn(1)))
    thread.start()
    thread.join()
    return found[0]


def test_what_restores_is_called_again():
    calls: list[int] = []

    def step(x):
        calls.append(x)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(step, 5)
    assert calls == [5, 5]
    restore(step, 6)
    assert calls == [5, 5, 6]
