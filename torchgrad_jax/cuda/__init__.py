"""torch.cuda for JAX's GPU backend: which GPUs there are, and how much memory they use.

XLA schedules by itself: streams are names for its one order of work, and graphs have no counterpart. `synchronize`
waits for everything that was dispatched.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from .._core.arrays import devices
from .._core.errors.messages import no_such_name as _no_such_name
from .._core.signals import uninterrupted
from .._core.state import MODES
from .._functions import constructors as _constructors, random as _random
from .._functions.symbolic import AcceleratorError as AcceleratorError, OutOfMemoryError as OutOfMemoryError
from . import graphs as graphs, memory as memory, nvtx as nvtx, random as random, streams as streams
from ._gpus import current_device as current_device, gpu as _gpu, gpus as _gpus, index as _index, wait as _wait
from .memory import (
    max_memory_allocated as max_memory_allocated,
    max_memory_cached as max_memory_cached,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_cached as memory_cached,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    memory_stats_as_nested_dict as memory_stats_as_nested_dict,
    memory_summary as memory_summary,
    reset_max_memory_allocated as reset_max_memory_allocated,
    reset_max_memory_cached as reset_max_memory_cached,
    reset_peak_memory_stats as reset_peak_memory_stats,
    stats as _stats,
)
from .random import (
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
)
from .streams import (
    CUDAGraph as CUDAGraph,
    Event as Event,
    ExternalStream as ExternalStream,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    graph as graph,
    graph_pool_handle as graph_pool_handle,
    is_current_stream_capturing as is_current_stream_capturing,
    make_graphed_callables as make_graphed_callables,
    set_stream as set_stream,
    stream as stream,
)


def is_available() -> bool:
    """Return whether JAX sees a GPU."""
    return bool(_gpus())


def device_count() -> int:
    """Return how many GPUs JAX sees."""
    return len(_gpus())


def is_initialized() -> bool:
    """Return whether GPUs are ready for use; JAX prepares all it sees."""
    return is_available()


def init() -> None:
    """Make sure that there is a GPU."""
    _gpu(0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether tensors of dtype bfloat16 work on the GPU."""
    return is_available()


def set_device(device: Any) -> None:
    """Choose the GPU that ``"cuda"`` without an index means in this thread."""
    index = _index(device)
    if index >= 0:  # as in torch, a negative one asks for nothing
        _gpu(index)
        MODES.gpu = index


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return _gpu(device).device_kind


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU as (major, minor)."""
    major, _, minor = str(_gpu(device).compute_capability).partition(".")
    return int(major), int(minor or 0)


def get_arch_list() -> list[str]:
    """No architectures: XLA compiles for the GPU that it finds."""
    return []


def get_gencode_flags() -> str:
    """No flags; see `get_arch_list`."""
    return ""


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """Return what JAX knows about a GPU: name, capability, memory."""
    gpu = _gpu(device)
    major, minor = get_device_capability(device)
    return SimpleNamespace(
        name=gpu.device_kind, major=major, minor=minor, total_memory=_stats(gpu).get("bytes_limit", 0)
    )


def synchronize(device: Any = None) -> None:
    """Wait for everything that was dispatched."""
    _wait(device)


def empty_cache() -> None:
    """Nothing: XLA keeps freed memory for later use and offers no way to return it."""


def ipc_collect() -> None:
    """Refused: memory is not shared between processes."""
    raise NotImplementedError("ipc_collect: GPU memory is not shared between processes here")


class device:
    """Let ``"cuda"`` without an index be one GPU inside of a `with` block."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._entered: Any = None
        self._before = 0

    def __enter__(self) -> None:
        self._entered, self._before = None, MODES.gpu
        if self._device is not None and not (isinstance(self._device, int) and self._device < 0):
            index = _index(self._device)
            try:
                set_device(index)
                if devices.default_device().type == "cuda":
                    inside = devices.device("cuda", index)
                    inside.__enter__()
                    self._entered = inside
            except BaseException:  # a signal's, say
                MODES.gpu = self._before
                raise

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.gpu = self._before
        if self._entered is not None:
            self._entered.__exit__(*exc)


class device_of(device):
    """Make tensors on the GPU of another one inside of a `with` block; nothing for a tensor that is on none.

    Args:
        obj: a tensor or a storage.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def __getattr__(name: str) -> Any:
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return tuple(_random.default_for(devices.device("cuda", i)) for i in range(device_count()))
    if name == "amp":
        return importlib.import_module(f"{__name__}.amp")
    if name.endswith("Tensor"):
        found = _constructors.tensor_types("cuda").get(name)
        if found is not None:
            globals()[name] = found
            return found
    raise AttributeError(_no_such_name(f"torch.cuda.{name}"))
