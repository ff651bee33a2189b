"""torch.cuda.memory: XLA's figures about the memory of GPUs."""

from __future__ import annotations

import collections
from typing import Any

from .._core.errors import warn
from .._core.errors.messages import missing as _missing
from ._gpus import gpu as _gpu, gpus as _gpus


def stats(gpu: Any) -> dict[str, Any]:
    """XLA's figures about a GPU."""
    return gpu.memory_stats() or {}


def _figure(name: str, device: Any) -> int:
    return int(stats(_gpu(device)).get(name, 0)) if _gpus() else 0


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a GPU; 0 without one."""
    return _figure("bytes_in_use", device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were ever in use on a GPU; 0 without one."""
    return _figure("peak_bytes_in_use", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that XLA holds on a GPU, in use or not; 0 without one."""
    return _figure("pool_bytes", device) or _figure("bytes_reserved", device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that XLA ever held on a GPU; 0 without one."""
    return _figure("peak_pool_bytes", device) or _figure("peak_bytes_reserved", device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free bytes and all bytes that XLA may use on a GPU."""
    found = stats(_gpu(device))
    total = int(found.get("bytes_limit", 0))
    return total - int(found.get("bytes_in_use", 0)), total


def memory_stats(device: Any = None) -> collections.OrderedDict[str, Any]:
    """XLA's figures about a GPU's memory, under XLA's names; empty without a GPU."""
    return collections.OrderedDict(sorted(stats(_gpu(device)).items())) if _gpus() else collections.OrderedDict()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Refused: XLA's peak cannot be reset."""
    _gpu(device)
    raise NotImplementedError("reset_peak_memory_stats: XLA does not reset its peak; start a fresh process to measure")


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats`; XLA's names have no parts."""
    return dict(memory_stats(device))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats` as a text, a figure in each line."""
    found = {"bytes_in_use": 0, **memory_stats(device)}
    return "\n".join(f"{name:<32}{value:>20,}" for name, value in found.items())


def _former(name: str, now: str) -> None:
    warn.to_user(f"`torch.cuda.{name}` has been renamed to `torch.cuda.{now}`", FutureWarning)


def memory_cached(device: Any = None) -> int:
    """The former name of `memory_reserved`."""
    _former("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The former name of `max_memory_reserved`."""
    _former("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def _all_peaks(name: str, device: Any) -> None:
    warn.to_user(
        f"torch.cuda.{name} now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
    )
    reset_peak_memory_stats(device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """`reset_peak_memory_stats`."""
    _all_peaks("reset_max_memory_allocated", device)


def reset_max_memory_cached(device: Any = None) -> None:
    """`reset_peak_memory_stats`."""
    _all_peaks("reset_max_memory_cached", device)


__getattr__ = _missing(__name__)
