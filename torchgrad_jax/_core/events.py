"""Observers, which are called around each operation and each node of a backward pass.

The profiler, the log of a checkpoint's operations and selective checkpoints are observers. The bit
`OBSERVED` sends operations down the general path, which calls the observers; without it nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .signals import uninterrupted
from .state import MODES, OBSERVED

Run = Callable[[], Any]


class Observer:
    """An observer that only lets things run. Subclasses do something before, after or instead."""

    def op(self, name: str, kind: str, args: Sequence[Any], run: Run) -> Any:
        """Around an operation: "op" of the table, "composite" of such, or a custom "function"."""
        return run()

    def kernel(self, call: Any, plan: Any, leaves: Sequence[Any], run: Run) -> Any:
        """Around the computation alone, below autograd: gives a tuple of arrays."""
        return run()

    def computed(self, kernel: Any, arrays: Sequence[Any]) -> None:
        """Arrays are about to be given to a kernel, of an operator or of a node."""

    def placed(self, array: Any, sharding: Any) -> None:
        """An array is about to be moved to where a sharding says."""

    def exchanged(self, what: str) -> None:
        """A collective of this process begins: its name, and perhaps more after a blank or a parenthesis."""

    def node(self, node: Any, run: Run) -> Any:
        """Around all that a backward pass does at a node, hooks included: gives what goes further."""
        return run()

    def function(self, node: Any, grads: Sequence[Any], run: Run) -> Any:
        """Around the node's own computation, given the gradients that came."""
        return run()

    def open_stretch(self, name: str) -> Any:
        """A stretch of the program that `record_function` names begins; gives what `close_stretch` gets."""

    def close_stretch(self, opened: Any) -> None:
        """The stretch ends."""

    def node_recorded(self, node: Any) -> None:
        """A node was made, of an operation or of a leaf whose gradient somebody asked for."""


def attach(observer: Observer) -> None:
    """Let an observer stand around what the current thread runs; the last one stands innermost."""
    MODES.own |= {"observers": (*MODES.observers, observer), "bits": MODES.bits | OBSERVED}


def detach(observer: Observer) -> None:
    """End that."""
    others = tuple(o for o in MODES.observers if o is not observer)
    MODES.own |= {"observers": others, "bits": bits_for(others, MODES.anomaly)}


def node_recorded(node: Any) -> None:
    """Tell anomaly detection and the observers that a node was made."""
    if MODES.anomaly is not None:
        MODES.anomaly.node_recorded(node)
    for observer in MODES.observers:
        observer.node_recorded(node)


def bits_for(observers: Sequence[Any], anomaly: Any) -> int:
    """`MODES.bits` of this thread with such observers."""
    if anomaly is not None or observers:
        return MODES.bits | OBSERVED
    return MODES.bits & ~OBSERVED


class Watching(Observer):
    """An observer for a `with` block. In it passes run node by node, and none is compiled as a whole."""

    around: tuple[Any, ...] = ()
    """The observers around the block."""

    def begin(self) -> None:
        """The block is about to begin."""

    def __enter__(self) -> Any:
        self.begin()
        self.around = MODES.observers
        MODES.own |= {"observers": (*self.around, self), "bits": MODES.bits | OBSERVED}
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        others = self.around
        try:
            others = tuple(o for o in MODES.observers if o is not self)
        finally:
            observed = OBSERVED if others or MODES.anomaly is not None else 0
            MODES.own |= {"observers": others, "bits": MODES.bits & ~OBSERVED | observed}


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


def computed(kernel: Any, arrays: Sequence[Any]) -> None:
    """Tell the observers of a kernel that is about to run."""
    for observer in MODES.observers:
        observer.computed(kernel, arrays)


def placed(array: Any, sharding: Any) -> None:
    """Tell the observers of an array that is about to be moved."""
    for observer in MODES.observers:
        observer.placed(array, sharding)


def exchanged(what: str) -> None:
    """Tell the observers of a collective that begins."""
    for observer in MODES.observers:
        observer.exchanged(what)


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
