"""torch.monitor: counts and averages of a program over windows of time, and events that handlers are called with."""

from __future__ import annotations

import enum
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

STAT_EVENT = "torch.monitor.Stat"
"""The name of the event in which a `Stat` tells what it counted."""


class Aggregation(enum.IntEnum):
    """What a `Stat` makes of the values of a window."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __str__(self) -> str:
        return f"Aggregation.{self.name}"


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN

_FUNCTIONS: dict[Aggregation, tuple[str, Callable[[Sequence[float]], float]]] = {
    COUNT: ("count", len),
    SUM: ("sum", sum),
    MEAN: ("mean", lambda values: sum(values) / len(values)),
    MAX: ("max", max),
    MIN: ("min", min),
}
"""What each is called in an event, and how it is computed. torch computes no VALUE either."""


class data_value_t:
    """The class of a value in an event: an int, a float, a bool or a string. It has no instances."""

    def __init__(self, *args: Any) -> None:
        raise TypeError("torch.monitor.data_value_t: No constructor defined!")


class Event:
    """Something that happened: a name, a time, and numbers, bools and strings by name."""

    def __init__(self, name: str, timestamp: datetime, data: Mapping[str, int | float | bool | str]) -> None:
        kinds = isinstance(name, str) and isinstance(timestamp, datetime) and isinstance(data, Mapping)
        if not kinds or not all(isinstance(k, str) and isinstance(v, int | float | str) for k, v in data.items()):
            raise TypeError(
                "Event(): incompatible constructor arguments: it takes a name, a datetime, and a dict from strings to "
                f"ints, floats, bools or strings, and got {name!r}, {timestamp!r}, {data!r}"
            )
        self.name, self.timestamp = name, timestamp
        self.data = {k: float(v) if isinstance(v, bool) else v for k, v in data.items()}


class EventHandlerHandle:
    """A handler that was registered; `unregister_event_handler` takes it."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self._handler = handler


_handlers: tuple[EventHandlerHandle, ...] = ()
_lock = threading.Lock()


def log_event(event: Event) -> None:
    """Call every registered handler with an event, in the order of their registration."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event(): incompatible function arguments: it takes an Event and got {event!r}")
    for handle in _handlers:
        handle._handler(event)


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Let a function be called with each event.

    Returns:
        The handle that `unregister_event_handler` takes.

    Example:
        >>> import datetime
        >>> import torchgrad_jax as torch
        >>> handle = torch.monitor.register_event_handler(lambda event: print(event.name, event.data))
        >>> torch.monitor.log_event(torch.monitor.Event("step", datetime.datetime.now(), {"loss": 0.5}))
        step {'loss': 0.5}
        >>> torch.monitor.unregister_event_handler(handle)
    """
    global _handlers
    if not callable(callback):
        raise TypeError(
            f"register_event_handler(): incompatible function arguments: it takes a function and got {callback!r}"
        )
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers = (*_handlers, handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Let a function be called no longer; a handle that was taken back before changes nothing."""
    global _handlers
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(
            f"unregister_event_handler(): incompatible function arguments: it takes a handle and got {handler!r}"
        )
    with _lock:
        _handlers = tuple(h for h in _handlers if h is not handler)


class Stat:
    """Values of a window of time, told to the handlers of events where the window ends.

    Args:
        name: what the event's numbers are called, for example `"loss"` for `loss.mean`.
        aggregations: what is computed of the values.
        window_size: how long a window is; windows of one size begin at the same times in all processes.
        max_samples: after so many values the window's event comes at once, and its further values are not counted.

    A `Stat` that is deleted tells what it has.
    """

    def __init__(
        self, name: str, aggregations: Sequence[Aggregation], window_size: timedelta, max_samples: int = 2**63 - 1
    ) -> None:
        self._values: list[float] = []
        kinds = isinstance(name, str) and isinstance(max_samples, int)
        if not kinds or not isinstance(window_size, timedelta | float) or isinstance(aggregations, str):
            raise TypeError(
                "Stat(): incompatible constructor arguments: it takes a name, aggregations, a timedelta and an int, "
                f"and got {name!r}, {aggregations!r}, {window_size!r}, {max_samples!r}"
            )
        seconds = window_size.total_seconds() if isinstance(window_size, timedelta) else window_size
        self._name, self._most, self._length = name, max_samples, max(1, math.floor(seconds * 1000))
        self._chosen = [Aggregation(a) for a in aggregations]
        self._last = dict.fromkeys((a for a in _FUNCTIONS if a in self._chosen), 0.0)
        self._window, self._told = self._now(), False
        self._lock = threading.RLock()

    def _now(self) -> int:
        return int(time.time() * 1000) // self._length

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def count(self) -> int:
        """How many values of this window are waiting to be told."""
        with self._lock:
            self._end_old_window()
            return len(self._values)

    def add(self, v: float) -> None:
        """Count a value."""
        if not isinstance(v, int | float):
            raise TypeError(f"add(): incompatible function arguments: it takes a number and got {v!r}")
        with self._lock:
            self._end_old_window()
            if self._told:
                return
            self._values.append(float(v))
            if len(self._values) >= self._most:
                self._told = True
                self._tell()

    def get(self) -> dict[Aggregation, float]:
        """Return what the last window gave; zeros before the first one ended."""
        with self._lock:
            self._end_old_window()
            return dict(self._last)

    def _end_old_window(self) -> None:
        now = self._now()
        if now != self._window:
            self._window, self._told = now, False
            self._tell()

    def _tell(self) -> None:
        values, self._values = self._values, []
        if not values:
            return
        self._last = {a: float(_FUNCTIONS[a][1](values)) for a in self._last}
        data = {f"{self._name}.{_FUNCTIONS[a][0]}": value for a, value in self._last.items()}
        log_event(Event(STAT_EVENT, datetime.now(), data))

    def __del__(self) -> None:
        if self._values:
            self._tell()


class _WaitCounterTracker:
    """A stretch of waiting, as a context. Nothing collects it here, as in torch without a collector."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


class _WaitCounter:
    """Waiting under a name; `guard()` marks a stretch of it."""

    def __init__(self, key: str) -> None:
        if not isinstance(key, str):
            raise TypeError(f"_WaitCounter(): incompatible constructor arguments: it takes a name and got {key!r}")

    def guard(self) -> _WaitCounterTracker:
        """A context for a stretch of waiting."""
        return _WaitCounterTracker()


class TensorboardEventHandler:
    """A handler that writes the numbers of `Stat`s as scalars.

    Args:
        writer: a `torch.utils.tensorboard.SummaryWriter`.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())


__all__ = [
    "STAT_EVENT",
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]
