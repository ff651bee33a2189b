"""torch.cuda for JAX's GPU backend: which GPUs there are, and how much memory they use.

XLA schedules by itself, so that streams, events and graphs have no counterpart here; `synchronize`
waits for everything that was dispatched.
"""

from __future__ import annotations

import collections
import importlib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import jax

from .._core import devices
from .._core.errors import no_such_name as _no_such_name
from .._engine.tensor import Tensor
from .._functions import constructors as _constructors, random as _random
from .._functions.symbolic import (
    AcceleratorError as AcceleratorError,
    OutOfMemoryError as OutOfMemoryError,
)
from . import nvtx as nvtx, streams as streams
from .streams import (
    CUDAGraph as CUDAGraph,
    Event as Event,
    ExternalStream as ExternalStream,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    graph as graph,
    is_current_stream_capturing as is_current_stream_capturing,
    make_graphed_callables as make_graphed_callables,
    set_stream as set_stream,
    stream as stream,
)

_NO_GPU = "Found no NVIDIA GPU: JAX sees no GPU backend. Install a JAX build for your GPU to use torch.cuda."


def _gpus() -> list[Any]:
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


def _gpu(device: Any = None) -> Any:
    """The JAX device that an argument names; the current one where it is None."""
    found = _gpus()
    if not found:
        raise RuntimeError(_NO_GPU)
    index = _index(device)
    if not 0 <= index < len(found):
        raise RuntimeError(f"Invalid device id {index}: there are {len(found)} GPUs")
    return found[index]


def _index(device: Any) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    dev = devices.device(device)
    if dev.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {dev}")
    return current_device() if dev.index is None else dev.index


def is_available() -> bool:
    """Whether JAX sees a GPU."""
    return bool(_gpus())


def device_count() -> int:
    """How many GPUs JAX sees."""
    return len(_gpus())


def is_initialized() -> bool:
    """Whether GPUs are ready for use; JAX prepares all it sees."""
    return is_available()


def init() -> None:
    """Make sure that there is a GPU."""
    _gpu(0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors of dtype bfloat16 work on the GPU."""
    return is_available()


def current_device() -> int:
    """The index of the GPU that tensors go to when no index is given."""
    if not _gpus():
        raise RuntimeError(_NO_GPU)
    dev = devices.default_device()
    return dev.index or 0 if dev.type == "cuda" else 0


def set_device(device: Any) -> None:
    """Refused for any GPU but the current one: name the device where tensors are made instead."""
    index = _index(device)
    _gpu(index)
    if index != current_device():
        raise NotImplementedError(
            f"set_device({index}): changing the current GPU is not supported; use "
            f"`with torch.device('cuda:{index}')` or torch.set_default_device('cuda:{index}')"
        )


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return _gpu(device).device_kind


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU as (major, minor)."""
    major, _, minor = str(_gpu(device).compute_capability).partition(".")
    return int(major), int(minor or 0)


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """What JAX knows about a GPU: name, capability, memory."""
    gpu = _gpu(device)
    major, minor = get_device_capability(device)
    return SimpleNamespace(
        name=gpu.device_kind,
        major=major,
        minor=minor,
        total_memory=_stats(gpu).get("bytes_limit", 0),
    )


def synchronize(device: Any = None) -> None:
    """Wait for everything that was dispatched."""
    gpu = _gpu(device)
    jax.device_put(0.0, gpu).block_until_ready()
    for array in jax.live_arrays("gpu"):
        array.block_until_ready()


def empty_cache() -> None:
    """Nothing: XLA keeps freed memory for later use and offers no way to return it."""


def ipc_collect() -> None:
    """Refused: memory is not shared between processes."""
    raise NotImplementedError("ipc_collect: GPU memory is not shared between processes here")


def _stats(gpu: Any) -> dict[str, Any]:
    return gpu.memory_stats() or {}


def _figure(name: str, device: Any) -> int:
    return int(_stats(_gpu(device)).get(name, 0)) if is_available() else 0


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
    stats = _stats(_gpu(device))
    total = int(stats.get("bytes_limit", 0))
    return total - int(stats.get("bytes_in_use", 0)), total


def memory_stats(device: Any = None) -> collections.OrderedDict[str, Any]:
    """XLA's figures about a GPU's memory, under XLA's names; empty without a GPU."""
    return (
        collections.OrderedDict(sorted(_stats(_gpu(device)).items()))
        if is_available()
        else collections.OrderedDict()
    )


def reset_peak_memory_stats(device: Any = None) -> None:
    """Refused: XLA's peak cannot be reset."""
    _gpu(device)
    raise NotImplementedError(
        "reset_peak_memory_stats: XLA does not reset its peak; start a fresh process to measure"
    )


# --- random numbers -------------------------------------------------------------------------------


def _generator(device: Any = None) -> Any:
    index = _index(device)
    _gpu(index)
    return _random.default_for(devices.device("cuda", index))


def manual_seed(seed: int) -> None:
    """Restart the default generator of the current GPU; without a GPU nothing happens."""
    if is_available():
        _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Restart the default generators of all GPUs; without a GPU nothing happens."""
    for i in range(device_count()):
        _generator(i).manual_seed(int(seed))


def seed() -> None:
    """Restart the default generator of the current GPU at an unpredictable seed."""
    if is_available():
        _generator().seed()


def seed_all() -> None:
    """Restart the default generators of all GPUs at one unpredictable seed."""
    if is_available():
        manual_seed_all(_generator().seed())


def initial_seed() -> int:
    """The seed that the current GPU's default generator started at."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's default generator."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' default generators."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Restore the state of a GPU's default generator."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states of all GPUs' default generators."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


class device:
    """Make tensors on one GPU inside of a `with` block."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._entered: Any = None

    def __enter__(self) -> None:
        self._entered = None
        if self._device is not None and not (isinstance(self._device, int) and self._device < 0):
            index = _index(self._device)
            _gpu(index)
            if devices.default_device().type == "cuda":
                self._entered = devices.device("cuda", index)
                self._entered.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self._entered is not None:
            self._entered.__exit__(*exc)


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(f"{__name__}.amp")
    if name.endswith("Tensor"):
        found = _constructors.tensor_types("cuda").get(name)
        if found is not None:
            globals()[name] = found
            return found
    raise AttributeError(_no_such_name(f"torch.cuda.{name}"))
