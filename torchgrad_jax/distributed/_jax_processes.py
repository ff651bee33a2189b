"""What JAX is told about the processes, so that `jax.devices()` has the devices of all of them.

Meshes over several processes need that. It has to happen before anything uses a device.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import os
import socket
import sys
from typing import Any

import jax

from ._stores import Store, own_address

ALWAYS = "TORCHGRAD_JAX_DISTRIBUTED"
"""A variable of the environment: 1 has the effect of the backend `xla`, whichever backend a program names."""


ONE_EACH = (
    "each process needs one device, and JAX has to know all of them, by "
    f"torch.distributed.init_process_group('xla') or {ALWAYS}=1 in the environment"
)


def has_gpus() -> bool:
    """Whether JAX runs on GPUs here, by what is installed and chosen: asking for devices would open them."""
    chosen = (jax.config.jax_platforms or "").split(",")[0]
    if chosen:
        return chosen in ("cuda", "rocm", "gpu")
    plugins = [p.name for p in importlib.metadata.entry_points(group="jax_plugins")]
    return any(os.path.exists(driver) and any(kind in name for name in plugins) for kind, driver in _DRIVERS.items())


_DRIVERS = {"cuda": "/dev/nvidiactl", "rocm": "/dev/kfd"}
"""JAX takes a plugin for GPUs where the file of the driver is."""


def join_processes(backend: str, store: Store, rank: int, size: int, timeout: float) -> None:
    """Make JAX's processes one system, if a group with this backend does that.

    With `nccl`, devices may be open already, by `torch.cuda.set_device` for example. JAX then stays as it is, and
    meshes of several processes raise.
    """
    if "xla" in backend or os.environ.get(ALWAYS, "0") == "1":
        connect(store, rank, size, timeout)
    elif "nccl" in backend:
        with contextlib.suppress(DevicesOpen):
            connect(store, rank, size, timeout)


_JOINED = "TORCHGRAD_JAX_JOINED"
"""A variable of the environment: which process has joined the others, for those that it starts."""


def has_joined() -> bool:
    """Whether this process has joined the others, or the one that started it has."""
    return _JOINED in os.environ or jax.distributed.is_initialized()


class DevicesOpen(RuntimeError):
    """JAX cannot learn of other processes any more."""


_end = {"raised": False}


def _end_at_once() -> None:
    """The last thing that a process does that has raised: JAX would wait for the others, and they for this one."""
    if _end["raised"]:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


atexit.register(_end_at_once)  # at import, so that what a program registers later runs before


def _notice_exceptions() -> None:
    before = sys.excepthook

    def hook(kind: Any, value: Any, traceback: Any) -> None:
        _end["raised"] = True
        before(kind, value, traceback)

    sys.excepthook = hook


def connect(store: Store, rank: int, size: int, timeout: float) -> None:
    """Tell JAX who the processes are, unless somebody has told it.

    Raises:
        RuntimeError: a device has been used before, or JAX has been told something else.
    """
    if size == 1:
        return
    if jax.distributed.is_initialized():
        if (jax.process_index(), jax.process_count()) != (rank, size):
            raise RuntimeError(
                f"JAX knows this process as {jax.process_index()} of {jax.process_count()}, and it is rank {rank} of "
                f"{size} here: jax.distributed.initialize got other numbers"
            )
        return
    if rank == 0:
        store.set("jax", f"{own_address(store)}:{_free_port()}")
    address = store.get("jax").decode()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        limit = max(1, min(int(timeout), 300))
        jax.distributed.initialize(address, size, rank, initialization_timeout=limit, shutdown_timeout_seconds=limit)
    except RuntimeError as e:
        raise DevicesOpen(
            "init_process_group with the backend 'xla' has to come before the first tensor, since JAX learns of the "
            f"other processes when it opens its devices. With {ALWAYS}=1 in the environment of a launcher tensors may "
            f"come first, but no array of JAX's own ({e})"
        ) from None
    os.environ[_JOINED] = str(os.getpid())
    _notice_exceptions()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def check_mesh(processes: int) -> None:
    """Complain where each process of a group would make a mesh of its own devices.

    Args:
        processes: how many there are in the group.

    Raises:
        RuntimeError: there are several processes, and JAX has not been told.
    """
    if processes > 1 and jax.process_count() == 1:
        raise RuntimeError(
            f"there are {processes} processes, and JAX knows only the devices of this one: begin with "
            f"torch.distributed.init_process_group('xla'), or set {ALWAYS}=1 in the environment, so that meshes span "
            "them; give mesh= for one of this process's devices alone"
        )
