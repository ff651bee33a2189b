"""torch.cpu: what torch.cuda is for GPUs, for code that is written for any device."""

from __future__ import annotations

from typing import Any

import jax

from .._core.errors.messages import missing as _missing
from .._engine.run import windows


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Wait for everything that was dispatched."""
    windows.cut(windows.WAITED_FOR)
    for array in jax.live_arrays("cpu"):
        array.block_until_ready()


class Stream:
    """The one stream of a CPU, under the name that code for any device has for it."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing: nothing waits."""

    def record_event(self) -> None:
        """Nothing: nothing waits."""

    def wait_event(self, event: Any) -> None:
        """Nothing: nothing waits."""


class Event:
    """Does nothing: everything is done when it is asked for."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing."""

    def wait(self, stream: Any = None) -> None:
        """Nothing."""


_STREAM = Stream()


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return _STREAM


class StreamContext:
    """Does nothing: there is one stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


def stream(stream: Stream | None) -> StreamContext:
    """A context in which work goes to a stream, of which there is one."""
    return StreamContext(stream)


def set_device(device: Any) -> None:
    """Nothing: there is one CPU."""


def is_initialized() -> bool:
    """True."""
    return True


__getattr__ = _missing(__name__)
