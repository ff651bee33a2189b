"""Streams and events of CUDA on XLA, which has one order of work; graphs of CUDA are refused.

XLA starts work in the order in which the program asks for it, and whatever reads an array waits until it is there. So
every order that a program asks for by streams and events is kept, and no two streams run at once: a `Stream` is a name,
waiting for one is done already, and an `Event` with timing waits for the work before it when it is recorded.
"""

from __future__ import annotations

import itertools
import time
from types import TracebackType
from typing import Any

from .._core.arrays import devices
from .._core.signals import uninterrupted
from ._gpus import gpu as _gpu, gpus as _gpus, index as _index, is_done, wait

_numbers = itertools.count(1).__next__
_NO_GRAPHS = "XLA schedules by itself, and torchgrad_jax has no CUDA graphs; torch.compile runs many kernels at once"


def _need_one(without: Exception) -> None:
    if not _gpus():
        raise without


class Stream:
    """A name for a queue of work of one GPU; all of them are one queue.

    Args:
        device: the GPU.
        priority: accepted; there is no other queue to come before.
    """

    priority = 0

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        _need_one(RuntimeError(f"torch.cuda.{cls.__name__} requires CUDA support"))
        return super().__new__(cls)

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        _gpu(device)
        self.device = devices.device("cuda", _index(device))
        self.device_index = self.device.index
        self.stream_id = self.cuda_stream = kwargs.get("stream_id", _numbers())

    def query(self) -> bool:
        """Return whether everything that was started on the GPU is done."""
        return is_done(self.device)

    def synchronize(self) -> None:
        """Wait for everything that was started on the GPU."""
        wait(self.device)

    def wait_event(self, event: Event) -> None:
        """Nothing: what comes later waits for what it reads."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing: what comes later waits for what it reads."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event at this point."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.stream_id:#x}>"


class ExternalStream(Stream):
    """Refused: XLA puts no work into queues of others."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("XLA schedules by itself, and puts no work into another library's CUDA stream")


class Event:
    """A point in the work of a GPU.

    Args:
        enable_timing: whether `record` takes the time. It waits for the work before it then, since XLA does not tell
            when that was done.
        blocking: accepted.
        interprocess: refused.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Event:
        _need_one(RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}"))
        return super().__new__(cls)

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("torch.cuda.Event: there are no events between processes")
        self._timing = enable_timing
        self._at: float | None = None
        self._stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Note this point; with `enable_timing`, wait for the work before it and take the time."""
        self._stream = current_stream() if stream is None else stream
        if self._timing:
            wait(self._stream.device)
        self._at = time.perf_counter()

    def query(self) -> bool:
        """Return whether the work before the event is done, or there is none."""
        return self._stream is None or self._timing or self._stream.query()

    def synchronize(self) -> None:
        """Wait for the work before the event."""
        if self._stream is not None and not self._timing:
            self._stream.synchronize()

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing: what comes later waits for what it reads."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another one.

        Raises:
            ValueError: one of them does not take the time, or was not recorded.
        """
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1000

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {'uninitialized' if self._at is None else hex(id(self))}>"


# --- the current stream ---------------------------------------------------------------------------

_current: dict[int | None, Stream] = {}


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless the program says otherwise.

    Raises:
        AssertionError: without a GPU, as in torch.
    """
    _need_one(AssertionError("Torch not compiled with CUDA enabled"))
    return Stream(device, stream_id=0)


def current_stream(device: Any = None) -> Stream:
    """The stream that `stream` or `set_stream` chose for a GPU.

    Raises:
        AssertionError: without a GPU, as in torch.
    """
    _need_one(AssertionError("Torch not compiled with CUDA enabled"))
    return _current.get(_index(device)) or default_stream(device)


@uninterrupted
def set_stream(stream: Stream | None) -> None:
    """Make a stream the current one of its GPU; nothing for None."""
    if stream is not None:
        _current[stream.device_index] = stream


class StreamContext:
    """A context in which a stream is the current one of its GPU; nothing for None."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = current_stream(self.stream.device)
            set_stream(self.stream)

    @uninterrupted
    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        set_stream(self._before)


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream is the current one; None changes nothing."""
    return StreamContext(stream)


# --- graphs ---------------------------------------------------------------------------------------


class CUDAGraph:
    """Refused: `torch.compile` is what runs many kernels at once."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _need_one(RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}"))
        raise NotImplementedError(_NO_GRAPHS)


class graph:
    """Refused, as `CUDAGraph`."""

    def __init__(self, cuda_graph: CUDAGraph, *args: Any, **kwargs: Any) -> None:
        _need_one(AssertionError("Torch not compiled with CUDA enabled"))
        raise NotImplementedError(_NO_GRAPHS)


def graph_pool_handle() -> Any:
    """Refused, as `CUDAGraph`."""
    _need_one(RuntimeError("Tried to instantiate dummy base class _graph_pool_handle"))
    raise NotImplementedError(_NO_GRAPHS)


def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused, as `CUDAGraph`; see `torch.compile`.

    Raises:
        AssertionError: without a GPU.
        NotImplementedError: with one.
    """
    _need_one(AssertionError("Torch not compiled with CUDA enabled"))
    raise NotImplementedError(_NO_GRAPHS)


def is_current_stream_capturing() -> bool:
    """False: nothing captures."""
    return False
