"""Which GPUs there are."""

from __future__ import annotations

from typing import Any

import jax

from .._core.arrays import devices
from .._core.arrays.out_of_memory import wait_for
from .._core.state import MODES
from .._engine.run import windows

NO_GPU = "Found no NVIDIA GPU: JAX sees no GPU backend. Install a JAX build for your GPU to use torch.cuda."


def gpus() -> list[Any]:
    """The JAX devices."""
    if MODES.target is not None:
        return MODES.target.devices if MODES.target.platform == "cuda" else []
    devices.about_to_open()
    try:
        return jax.local_devices(backend="gpu")
    except RuntimeError:
        return []


def gpu(device: Any = None) -> Any:
    """The JAX device that an argument names; the current one where it is None."""
    found = gpus()
    if not found:
        raise RuntimeError(NO_GPU)
    i = index(device)
    if not 0 <= i < len(found):
        raise RuntimeError(f"Invalid device id {i}: there are {len(found)} GPUs")
    return found[i]


def index(device: Any) -> int:
    """The number of the GPU that an argument names."""
    if device is None:
        return current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    dev = devices.device(device)
    if dev.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {dev}")
    return current_device() if dev.index is None else dev.index


def _arrays(device: Any) -> list[Any]:
    """The arrays that are on a GPU, or are going to be."""
    there = gpu(device)
    return [a for a in jax.live_arrays(there.platform) if not a.is_deleted() and there in a.devices()]


def wait(device: Any = None) -> None:
    """Wait for everything that was started on a GPU. On a target nothing is."""
    if MODES.target is not None:
        return
    windows.cut(windows.WAITED_FOR)
    jax.device_put(0.0, gpu(device)).block_until_ready()
    wait_for(_arrays(device))


def is_done(device: Any = None) -> bool:
    """Return whether everything that was started on a GPU is done."""
    return all(array.is_ready() for array in _arrays(device))


def current_device() -> int:
    """The index of the GPU that ``"cuda"`` without an index means in this thread."""
    if not gpus():
        raise RuntimeError(NO_GPU)
    return MODES.gpu
