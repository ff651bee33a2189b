"""Anomaly detection, as in torch.autograd.anomaly_mode: where did this NaN, or this error, come from?"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .._core import events
from .._core.builtin_functions import builtin
from .._core.errors import warn
from .._core.errors.messages import AsWritten
from .._core.signals import restore, uninterrupted
from .._core.state import MODES, OBSERVED
from .._engine.graph.node import Node
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class _Watcher:
    """What the engine tells about operations and nodes while the mode is on."""

    __slots__ = ("check_forward", "check_nan")

    def __init__(self, check_nan: bool, check_forward: bool) -> None:
        self.check_nan, self.check_forward = check_nan, check_forward

    def node_recorded(self, node: Node) -> None:
        """Remember where a node was made, and during which node's evaluation."""
        node.metadata["traceback_"] = _user_stack()
        task = MODES.graph_task
        if task is not None and task.current is not None:
            node.metadata["parent_"] = task.current

    def evaluate(self, node: Node, run: Callable[[], Any]) -> Any:
        """Run a node; on an error, say where it was made."""
        try:
            out = run()
            if self.check_nan:
                _check_gradients(node, out)
        except Exception:
            _report(node)
            raise
        return out

    def op_ran(self, call: Any, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Stop at the first op that makes NaN or infinity out of finite inputs."""
        if self.check_forward:
            _check_outputs(call.name, leaves, outs)


def _user_stack() -> list[str]:
    """The stack as `traceback.format_stack` prints it, without the frames of this package."""
    frames = [f for f in traceback.extract_stack(sys._getframe(1)) if not f.filename.startswith(_PACKAGE)]
    return traceback.format_list(frames)


def _check_gradients(node: Node, out: Any) -> None:
    for i, g in enumerate(out or ()):
        t = getattr(g, "tensor", g)
        if t is None:
            continue
        array = read(t)
        if isinstance(array, jax.core.Tracer) or t._m.dtype.category < 2:
            continue
        if bool(np.isnan(np.asarray(array)).any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


def _report(node: Node) -> None:
    """Warn with the traceback of the forward call, and of those that led to it."""
    stack = _stack_of(node)
    name = node.name()
    if stack is None:
        warn.to_user(
            f"Error detected in {name}. No forward pass information available. Enable detect anomaly during forward "
            "pass for more information."
        )
    else:
        warn.to_user(f"Error detected in {name}. Traceback of forward call that caused the error:\n{''.join(stack)}")
    seen = {node}
    parent = _parent_of(node)
    while parent is not None and parent not in seen:
        seen.add(parent)
        stack = _stack_of(parent)
        head = f"\n\nPrevious calculation was induced by {parent.name()}. "
        if stack is None:
            warn.to_user(
                head + "No forward pass information available. Enable detect anomaly during forward pass for more "
                "information."
            )
        else:
            warn.to_user(f"{head}Traceback of forward call that induced the previous calculation:\n{''.join(stack)}")
        parent = _parent_of(parent)


def _metadata(node: Node) -> dict[Any, Any]:
    return (node.extras.metadata or {}) if node.extras is not None else {}


def _stack_of(node: Node) -> list[str] | None:
    return _metadata(node).get("traceback_")


def _parent_of(node: Node) -> Node | None:
    return _metadata(node).get("parent_")


# --- checking the forward -------------------------------------------------------------------------


def _nonfinite(t: Any) -> np.ndarray | None:
    """Where a tensor is not finite; None when it is, or when nobody can know."""
    if isinstance(t, float | complex):
        bad = np.asarray(not np.isfinite(t))
    elif isinstance(t, Tensor) and t._m.dtype.category >= 2:
        array = read(t)
        if isinstance(array, jax.core.Tracer):
            return None
        host = np.asarray(array)
        bad = ~np.isfinite(host if host.dtype.kind in "fc" else host.astype(np.float32))
    else:
        return None
    return bad if bad.any() else None


def _check_outputs(name: str, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
    for k, out in enumerate(outs):
        bad = _nonfinite(out)
        if bad is None or any(_nonfinite(v) is not None for v in leaves):
            continue
        where = np.argwhere(bad)
        shown = ", ".join(str(tuple(int(i) for i in w)) for w in where[:5])
        values = np.asarray(read(out))[bad][:5].tolist()
        shapes = ", ".join(str(list(v._m.shape)) if isinstance(v, Tensor) else repr(v) for v in leaves if v is not None)
        stack = _user_stack()
        raise RuntimeError(
            f"'{name}' made NaN or infinity out of finite inputs: output {k} of shape {list(out._m.shape)} has "
            f"{len(where)} such value(s), at {shown}{', ...' if len(where) > 5 else ''}: {values}. Inputs: {shapes}. "
            f"It was called here:\n{''.join(stack[-1:])}"
        )


# --- the modes ------------------------------------------------------------------------------------


def _set(enabled: bool, check_nan: bool, check_forward: bool) -> None:
    """The mode is the process's, as in torch: threads that start, and those that set no mode yet, see it."""
    for name, value, place in (("enabled", enabled, 1), ("check_nan", check_nan, 2)):
        if not isinstance(value, bool):
            raise TypeError(
                f"set_anomaly_enabled(): argument '{name}' (position {place}) must be bool, not {type(value).__name__}"
            )
    if enabled and any(run.may_write_outside for run in MODES.runs):
        raise AsWritten("it turns on anomaly detection, which looks at each step", lasting=True)
    shared, watcher = type(MODES), _Watcher(check_nan, check_forward) if enabled else None
    bits = events.bits_for(MODES.observers, watcher)
    shared.anomaly_checks_nan = check_nan  # from here on no call, where a signal would come
    shared.anomaly = watcher
    shared.bits = shared.bits & ~OBSERVED | (OBSERVED if enabled else 0)
    MODES.bits = bits


@builtin
def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on."""
    return MODES.anomaly is not None


@builtin
def is_anomaly_check_nan_enabled() -> bool:
    """Return whether gradients are checked for NaN while it is on."""
    return MODES.anomaly_checks_nan


@builtin
def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly detection on or off, without a word.

    Example:
        >>> set_anomaly_enabled(True, check_nan=False)
        >>> is_anomaly_enabled(), is_anomaly_check_nan_enabled()
        (True, False)
        >>> set_anomaly_enabled(False)
    """
    _set(enabled, check_nan, False)


def _checks_forward() -> bool:
    return MODES.anomaly is not None and MODES.anomaly.check_forward


class _Setting:
    """Sets anomaly detection back at the end of a block, also when a signal comes on the way."""

    prev = False
    prev_check_nan = True
    _prev_check_forward = False

    @uninterrupted
    def __exit__(self, *args: object) -> None:
        restore(_set, self.prev, self.prev_check_nan, self._prev_check_forward)


class detect_anomaly(_Setting):
    """Within it, errors in backward name the forward call that made the failing node.

    Args:
        check_nan: also raise when a gradient is NaN.
        check_forward: also raise at the first operation whose output is NaN or infinite while its
            inputs are finite, naming the op and the place (not in torch).

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.tensor([1.0, 0.0])
        >>> with set_detect_anomaly(True, check_forward=True):
        ...     y = x.log()
        Traceback (most recent call last):
        ...
        RuntimeError: 'log' made NaN or infinity out of finite inputs: ...
    """

    def __init__(self, check_nan: bool = True, *, check_forward: bool = False) -> None:
        self.prev = is_anomaly_enabled()
        self.check_nan = check_nan
        self.prev_check_nan = is_anomaly_check_nan_enabled()
        self.check_forward = check_forward
        warn.to_user(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging."
        )

    def __enter__(self) -> None:
        self._prev_check_forward = _checks_forward()
        try:
            _set(True, self.check_nan, self.check_forward)
        except BaseException:  # a signal's, say
            self.__exit__()
            raise


class set_detect_anomaly(_Setting):
    """Turn anomaly detection on or off; as a context manager, until its end.

    Args:
        mode: on or off.
        check_nan: also raise when a gradient is NaN.
        check_forward: see `detect_anomaly`.
    """

    def __init__(self, mode: bool, check_nan: bool = True, *, check_forward: bool = False) -> None:
        self.prev = is_anomaly_enabled()
        self.prev_check_nan = is_anomaly_check_nan_enabled()
        self._prev_check_forward = _checks_forward()
        try:
            _set(mode, check_nan, check_forward)
        except BaseException:
            self.__exit__()
            raise

    @uninterrupted
    def __enter__(self) -> None:
        """Nothing: constructing it did."""


__all__ = ["detect_anomaly", "set_detect_anomaly"]
