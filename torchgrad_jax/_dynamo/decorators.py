"""torch._dynamo.decorators: marks on functions and tensors. A compiled function is traced and compiled whole here.

So what a mark says of graphs that are cut, or of code that the tracer does not look into, has no effect on results;
each function says what is left of its meaning.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .._bridge.compile.explain import one_program_per_shape as _one_program_per_shape
from .._bridge.compile.new_sizes import mark as _mark
from .._bridge.compile.stance import POLICY as _POLICY
from .._core.errors.messages import missing as _missing
from .._core.signals import restore, uninterrupted
from .._engine.memory.tensor import Tensor as _Tensor
from ..compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    nonstrict_trace as nonstrict_trace,
    set_stance as set_stance,
    substitute_in_graph as substitute_in_graph,
)


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Have compiled functions that take a tensor run new sizes eagerly at first, as with `dynamic=True`."""
    _check_index(index)
    _mark_tensor("mark_dynamic", t, True)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Do what `mark_dynamic` does: each size is right in both."""
    _check_index(index)
    _mark_tensor("maybe_mark_dynamic", t, True)


def mark_unbacked(t: Any, index: Any, **hints: Any) -> None:
    """A warning: each shape is compiled for itself, so a size is known where a function is compiled."""
    _check_index(index)
    _one_program_per_shape("mark_unbacked()")


def mark_static(t: Any, index: Any = None) -> None:
    """Have compiled functions that take a tensor compile each size at once. A class of modules may be given, too."""
    if not isinstance(t, type):
        _mark_tensor("mark_static", t, False)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: XLA decides where arrays are."""


def graph_break(msg: str = "") -> None:
    """Nothing outside of compiled code."""


def _mark_tensor(name: str, t: Any, dynamic: bool) -> None:
    if not isinstance(t, _Tensor):
        raise AttributeError(f"{name}() marks sizes of a tensor; {type(t).__name__!r} object has none to mark")
    _mark(t, dynamic)


def _check_index(index: Any) -> None:
    if not isinstance(index, int | list | tuple):
        raise AssertionError(f"Expected index to be int, list, or tuple, got {type(index)}")


class error_on_graph_break:
    """Within it, or in a function that it decorates, say what becomes of functions that cannot be compiled.

    A compiled function is whole here or not compiled at all. With True one that cannot be compiled raises; with False
    it runs eagerly. `torch.compile(..., fullgraph=True)` raises in either case.

    Args:
        error_on_graph_break: whether it raises.
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error_on_graph_break = bool(error_on_graph_break)
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        before = _POLICY.graph_breaks, _POLICY.suppress_errors
        self._before.append(before)
        self._set(not self.error_on_graph_break, before[1] and not self.error_on_graph_break)

    @staticmethod
    def _set(graph_breaks: bool, suppress_errors: bool) -> None:
        _POLICY.graph_breaks, _POLICY.suppress_errors = graph_breaks, suppress_errors

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        restore(self._set, *self._before.pop())

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, within it."""

        @functools.wraps(inspect.unwrap(fn))
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


__getattr__ = _missing(__name__)
