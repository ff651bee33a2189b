"""torch.Stream and torch.Event: the CPU's only stream, in which everything that was asked for is done."""

from __future__ import annotations

from typing import Any

from ._core.arrays import devices

_NO_EVENTS = "{} backend doesn't support events."


def _place(device: Any) -> devices.device:
    if isinstance(device, int) and not isinstance(device, bool):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    place = devices.device("cpu") if device is None else devices.device(device)
    if place.type not in ("cpu", "meta"):
        raise NotImplementedError(
            f"XLA schedules by itself, and torchgrad_jax has no streams or events of {place.type} devices"
        )
    return place


class Stream:
    """A queue of work: on the CPU there is one, and nothing waits in it.

    Args:
        device: "cpu".
        priority: accepted; one stream has no other to come before.
    """

    device_index = -1
    stream_id = 0

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _place(device)
        self.device_type = 0

    def query(self) -> bool:
        """True: nothing waits."""
        return True

    def synchronize(self) -> None:
        """Nothing: nothing waits."""

    def wait_event(self, event: Event) -> None:
        """Nothing: what the event stands for is done."""

    def wait_stream(self, stream: Stream) -> None:
        """Refused, since it takes an event."""
        raise RuntimeError(_NO_EVENTS.format(self.device.type))

    def record_event(self, event: Event | None = None) -> Event:
        """Refused: a CPU has no events."""
        raise RuntimeError(_NO_EVENTS.format(self.device.type))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash((Stream, self.device))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id=0"


class Event:
    """A place in a stream, which a CPU does not record.

    Args:
        device: "cpu".
        enable_timing: whether times would be taken.
        blocking: accepted.
        interprocess: accepted.
    """

    event_id = 0

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = _place(device)
        self._timing = enable_timing

    def query(self) -> bool:
        """True: everything is done."""
        return True

    def synchronize(self) -> None:
        """Nothing: everything is done."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing: everything is done."""

    def record(self, stream: Stream | None = None) -> None:
        """Refused: a CPU has no events."""
        raise RuntimeError(_NO_EVENTS.format(self.device.type))

    def elapsed_time(self, other: Event) -> float:
        """Refused: no event was recorded."""
        if not (self._timing and other._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise RuntimeError(_NO_EVENTS.format(self.device.type))

    def __repr__(self) -> str:
        flag = int(self._timing)
        return f"torch.Event device_type={self.device.type}, device_index=-1, event_flag={flag}, event_id=0"
