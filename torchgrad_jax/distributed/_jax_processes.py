"""What JAX is told about the processes, so that `jax.devices()` has the devices of all of them.

Meshes over several processes need that. It has to happen before anything uses a device.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import socket
import sys
from typing import Any

import jax

from .._core.arrays import summands
from .._core.jax.private import backends_are_open
from ._rendezvous import place
from ._stores import Store, own_address

ALWAYS = "TORCHGRAD_JAX_DISTRIBUTED"
"""A variable of the environment: 1 has the effect of the backend `xla`, whichever backend a program names, and 0 keeps
JAX from learning of the processes of a launcher with any other backend."""


ONE_EACH = (
    "each process needs one device, and JAX has to know all of them, by a launcher or "
    "torch.distributed.init_process_group('xla')"
)


def has_gpus() -> bool:
    """Return whether JAX runs on GPUs here, by what is installed and chosen: asking for devices would open them."""
    chosen = (jax.config.jax_platforms or "").split(",")[0]
    if chosen:
        return chosen in ("cuda", "rocm", "gpu")
    plugins = [p.name for p in importlib.metadata.entry_points(group="jax_plugins")]
    return any(os.path.exists(driver) and any(kind in name for name in plugins) for kind, driver in _DRIVERS.items())


_DRIVERS = {"cuda": "/dev/nvidiactl", "rocm": "/dev/kfd"}
"""JAX takes a plugin for GPUs where the file of the driver is."""


def join_processes(backend: str, store: Store, rank: int, size: int, timeout: float) -> None:
    """Make JAX's processes one system, if a group with this backend does that, or a launcher has started them.

    With a backend other than `xla`, devices may be open already, by `torch.cuda.set_device` for example. JAX then
    stays as it is in all of the processes, and meshes of several processes raise.
    """
    always = os.environ.get(ALWAYS)
    if "xla" in backend or always == "1":
        connect(store, rank, size, timeout)
    elif "nccl" in backend or (always is None and _launched_as() == (rank, size)):
        store.set(f"open {rank}", str(int(backends_are_open())))
        if all(store.get(f"open {r}") == b"0" for r in range(size)):
            connect(store, rank, size, timeout)


def _launched_as() -> tuple[int, int] | None:
    """The rank and the world size that a launcher has given to this process, as the environment says."""
    try:
        return place()
    except ValueError:
        return None


PLACE = "TORCHGRAD_JAXPLACE_OF"
"""A variable of the environment: which process has the place that a launcher's variables name. The processes that it
starts inherit those variables, and have no place."""


def take_place() -> bool:
    """Return whether a launcher has started this process beside others, and no process in between."""
    said = _launched_as()
    if said is None or said[1] == 1:
        return False
    own = f"{os.getpid()} as {said[0]} of {said[1]}"
    before = os.environ.setdefault(PLACE, own)
    if before.partition(" ")[2] != own.partition(" ")[2]:  # the process that started this one is another launcher
        before = os.environ[PLACE] = own
    return before == own


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
    if "JAX_ENABLE_PREEMPTION_SERVICE" not in os.environ:
        jax.config.update("jax_enable_preemption_service", False)  # SIGTERM would end no process any more
    try:
        limit = max(1, min(int(timeout), 300))
        jax.distributed.initialize(address, size, rank, initialization_timeout=limit, shutdown_timeout_seconds=limit)
    except RuntimeError as e:
        raise RuntimeError(
            "init_process_group with the backend 'xla' has to come before the first tensor, since JAX learns of the "
            "other processes when it opens its devices. Under a launcher tensors may come first, but no array of JAX's "
            f"own ({e})"
        ) from None
    _notice_exceptions()
    summands.SEVERAL.append(True)
    jax.devices()  # this waits for all processes, so it must not be left to whichever of them makes a tensor first


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
            f"there are {processes} processes, and JAX knows only the devices of this one. Meshes span them under a "
            f"launcher (without {ALWAYS}=0, and if no array of JAX's own comes before the first tensor), and after "
            "torch.distributed.init_process_group('xla'); give mesh= for one of this process's devices alone"
        )
