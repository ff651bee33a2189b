"""Observers: whoever stands around each operation and each node of a backward pass while it runs.

The profiler, the log of a checkpoint's operations and selective checkpoints are observers. The bit
`OBSERVED` sends operations down the general path, which asks here; without it nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from .state import MODES, OBSERVED

Run = Callable[[], Any]


class Observer:
    """Does nothing but let things run; subclasses add what they do before, after or instead."""

    def op(self, name: str, kind: str, args: Sequence[Any], run: Run) -> Any:
        """Around an operation: "op" of the table, "composite" of such, or a custom "function"."""
        return run()

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: Run) -> Any:
        """Around the computation alone, below autograd: gives a tuple of arrays."""
        return run()

    def node(self, node: Any, run: Run) -> Any:
        """Around all that a backward pass does at a node, hooks included: gives what goes further."""
        return run()

    def function(self, node: Any, grads: Sequence[Any], run: Run) -> Any:
        """Around the node's own computation, given the gradients that came."""
        return run()


def attach(observer: Observer) -> None:
    """Let an observer stand around what the current thread runs; the last one stands innermost."""
    MODES.observers = (*MODES.observers, observer)
    MODES.bits |= OBSERVED


def detach(observer: Observer) -> None:
    """End that."""
    MODES.observers = tuple(o for o in MODES.observers if o is not observer)
    heed()


@contextmanager
def watched() -> Iterator[None]:
    """Have everything run as if somebody looked on: passes go node by node, none is compiled as a whole."""
    observer = Observer()
    attach(observer)
    try:
        yield
    finally:
        detach(observer)


def heed() -> None:
    """Bring the mode's bit up to date after the last observer may have left."""
    if MODES.anomaly is not None or MODES.observers:
        MODES.bits |= OBSERVED
    else:
        MODES.bits &= ~OBSERVED


def op(name: str, kind: str, args: Sequence[Any], run: Run) -> Any:
    """Run an operation with every observer around it."""
    for observer in reversed(MODES.observers):
        run = partial(observer.op, name, kind, args, run)
    return run()


def kernel(call: Any, plan: Any, leaves: Sequence[Any], run: Run) -> Any:
    """Run a kernel with every observer around it."""
    for observer in reversed(MODES.observers):
        run = partial(observer.kernel, call, plan, leaves, run)
    return run()


def node(node: Any, run: Run) -> Any:
    """Visit a node with every observer around it."""
    for observer in reversed(MODES.observers):
        run = partial(observer.node, node, run)
    return run()


def function(node: Any, grads: Sequence[Any], run: Run) -> Any:
    """Run a node's function with every observer around it."""
    for observer in reversed(MODES.observers):
        run = partial(observer.function, node, grads, run)
    return run()
