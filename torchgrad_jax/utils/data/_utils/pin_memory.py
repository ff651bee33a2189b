"""Batches in memory that an accelerator reads directly."""

from __future__ import annotations

import collections.abc
import queue
from typing import Any

from ...._core.errors.remote_errors import ExceptionWrapper
from ...._engine.memory.tensor import Tensor
from .collate import _is_named, _rebuilt, _rebuilt_map
from .signal_handling import MP_STATUS_CHECK_INTERVAL


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return what a batch becomes by `pin_memory` of its tensors and of the objects in it that have such a method.

    Args:
        data: the batch, a nested container.
        device: accepted; there is one kind of pinned memory.
    """
    if isinstance(data, Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt_map(data, {k: pin_memory(v, device) for k, v in data.items()})
    if _is_named(data):
        return type(data)(*[pin_memory(v, device) for v in data])
    if isinstance(data, tuple):
        return [pin_memory(v, device) for v in data]
    if isinstance(data, collections.abc.Sequence):
        return _rebuilt(data, [pin_memory(v, device) for v in data])
    return data


def _pin_memory_loop(in_queue: Any, out_queue: Any, device_id: int, done_event: Any, device: Any = None) -> None:
    """What a thread does that pins the batches of workers as they come."""
    while not done_event.is_set():
        try:
            number, data = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            continue
        except EOFError:
            return
        if not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device)
            except Exception:  # raised where the batch is asked for
                data = ExceptionWrapper(where=f"in pin memory thread for device {device_id}")
        out_queue.put((number, data))
