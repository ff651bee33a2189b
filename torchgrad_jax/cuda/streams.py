"""Streams, events and graphs of CUDA: classes to name and to ask for, which nothing here is an instance of."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import jax

_XLA = "XLA schedules by itself, and torchgrad_jax has no {}"


def _refusal(without: Exception, what: str) -> Exception:
    """What torch says without CUDA; with a GPU, that there is no such thing."""
    try:
        jax.local_devices(backend="gpu")
    except RuntimeError:
        return without
    return NotImplementedError(_XLA.format(what))


class Stream:
    """Refused: work is not put into streams."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        raise _refusal(
            RuntimeError(f"torch.cuda.{cls.__name__} requires CUDA support"), "CUDA streams"
        )


class ExternalStream(Stream):
    """Refused, as `Stream`."""


class _Dummy:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        name = cls.__name__
        raise _refusal(
            RuntimeError(f"Tried to instantiate dummy base class {name}"), f"CUDA {name}s"
        )


class Event(_Dummy):
    """Refused: there are no streams to record in."""


class CUDAGraph(_Dummy):
    """Refused: `torch.compile` is what runs many kernels at once."""


class graph:
    """Refused, as `CUDAGraph`."""

    def __init__(self, cuda_graph: CUDAGraph, *args: Any, **kwargs: Any) -> None:
        raise _refusal(AssertionError("Torch not compiled with CUDA enabled"), "CUDA graphs")


def graph_pool_handle() -> Any:
    """Refused, as `CUDAGraph`."""
    raise _refusal(
        RuntimeError("Tried to instantiate dummy base class _graph_pool_handle"), "CUDA graphs"
    )


def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused, as `CUDAGraph`; see `torch.compile`.

    Raises:
        AssertionError: without a GPU.
        NotImplementedError: with one.
    """
    raise _refusal(AssertionError("Torch not compiled with CUDA enabled"), "CUDA graphs")


class StreamContext:
    """Does nothing, for the one stream there can be: None."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        return None


def stream(stream: Stream | None) -> StreamContext:
    """A context in which work would go to a stream; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Nothing, for None."""


def current_stream(device: Any = None) -> Stream:
    """Refused: there are no streams.

    Raises:
        AssertionError: without a GPU, as in torch.
        NotImplementedError: with one.
    """
    raise _refusal(AssertionError("Torch not compiled with CUDA enabled"), "CUDA streams")


def default_stream(device: Any = None) -> Stream:
    """Refused, as `current_stream`."""
    return current_stream(device)


def is_current_stream_capturing() -> bool:
    """False: nothing captures."""
    return False
