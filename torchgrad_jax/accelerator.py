"""torch.accelerator: the accelerator that JAX sees, if any: a GPU, a TPU or another."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax

from . import cuda
from ._core.arrays import devices
from ._core.arrays.devices import device
from ._core.arrays.out_of_memory import wait_for
from ._core.errors import warn
from ._core.errors.messages import missing as _missing
from ._core.signals import uninterrupted
from ._core.state import MODES
from ._engine.run import windows

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream",
    "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Return whether JAX sees an accelerator."""
    return not devices.no_accelerator()


def device_count() -> int:
    """Return how many accelerators JAX sees in this process."""
    if MODES.target is not None:
        return len(MODES.target.devices)
    return len(jax.local_devices()) if is_available() else 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The device type of the accelerator; None without one.

    Example:
        >>> import torchgrad_jax as torch
        >>> found = torch.accelerator.current_accelerator()
        >>> there = "cpu" if found is None else found.type
        >>> torch.ones(2, device=there).device.type == there
        True
    """
    return device(devices.first().type) if is_available() else None


def _need_one() -> None:
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """The index of the accelerator that tensors go to when no index is given."""
    _need_one()
    if cuda.is_available():
        return cuda.current_device()
    dev = devices.default_device()
    return (dev.index or 0) if dev.type == devices.first().type else 0


def current_device_idx() -> int:
    """The former name of `current_device_index`."""
    warn.to_user("Use `current_device_index` instead.", FutureWarning)
    return current_device_index()


def set_device_index(device: Any) -> None:
    """Choose the GPU that ``"cuda"`` without an index means; see `torch.cuda.set_device`."""
    _need_one()
    cuda.set_device(device)


def set_device_idx(device: Any) -> None:
    """The former name of `set_device_index`."""
    warn.to_user("Use `set_device_index` instead.", FutureWarning)
    set_device_index(device)


def current_stream(device: Any = None) -> Any:
    """As `torch.cuda.current_stream`."""
    _need_one()
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """As `torch.cuda.set_stream`."""
    _need_one()
    cuda.set_stream(stream)


def synchronize(device: Any = None) -> None:
    """Wait for everything that was dispatched."""
    _need_one()
    windows.cut(windows.WAITED_FOR)
    if cuda.is_available():
        cuda.synchronize(device)
    else:
        wait_for(jax.live_arrays())


class device_index:
    """Make tensors on one GPU inside of a `with` block; None changes nothing."""

    def __init__(self, device: int | None) -> None:
        self.idx = device
        self._inside = cuda.device(device)

    def __enter__(self) -> None:
        if self.idx is not None:
            _need_one()
            self._inside.__enter__()

    @uninterrupted
    def __exit__(self, *raised: object) -> None:
        if self.idx is not None:
            self._inside.__exit__(*raised)


def get_device_capability(device: Any = None) -> Any:
    """Refused: JAX does not list the dtypes that a GPU computes in."""
    _need_one()
    raise NotImplementedError("torch.accelerator.get_device_capability is not supported")


def _of_memory(name: str, what: str) -> Callable[..., Any]:
    """A function of `torch.cuda` about memory, which needs an accelerator."""

    def ask(device: Any = None) -> Any:
        _need_one()
        if not cuda.is_available():
            kind = devices.first().type
            raise NotImplementedError(
                f"torch.accelerator.{name} is there for GPUs; for a {kind} ask jax.local_devices()[0].memory_stats()"
            )
        return getattr(cuda, name)(device)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = what
    return ask


memory_stats = _of_memory("memory_stats", "What JAX knows about the memory of a GPU, by name.")
memory_allocated = _of_memory("memory_allocated", "How many bytes are in use.")
max_memory_allocated = _of_memory("max_memory_allocated", "How many bytes were in use at most.")
memory_reserved = _of_memory("memory_reserved", "How many bytes XLA keeps.")
max_memory_reserved = _of_memory("max_memory_reserved", "How many bytes XLA kept at most.")
reset_peak_memory_stats = _of_memory("reset_peak_memory_stats", "As `torch.cuda` has it.")
get_memory_info = _of_memory("mem_get_info", "Free and total bytes.")


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Refused: JAX's counters cannot be set back."""
    _need_one()
    raise NotImplementedError("torch.accelerator.reset_accumulated_memory_stats: JAX keeps counting")


def empty_cache() -> None:
    """Nothing, as `torch.cuda.empty_cache`, with a GPU."""
    _need_one()
    cuda.empty_cache()


def empty_host_cache() -> None:
    """Nothing, with a GPU: XLA keeps freed memory for later use."""
    _need_one()


class Graph:
    """Refused: `torch.compile` is what runs many kernels at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _need_one()
        raise NotImplementedError("XLA schedules by itself, and torchgrad_jax has no graphs of kernels")


def get_device_module(device: Any = None) -> Any:
    """torch.cpu, torch.cuda, ...: the module about a kind of device.

    Args:
        device: a device or its type; the accelerator, or else the CPU, if None.
    """
    if device is None:
        kind = (current_accelerator() or devices.device("cpu")).type
    elif isinstance(device, str | devices.device):
        kind = devices.device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return importlib.import_module(f"{__package__}.{kind}")


__getattr__ = _missing(__name__)
