"""What JAX is told about the processes, so that `jax.devices()` has the devices of all of them.

Meshes over several processes need that. It has to happen before anything uses a device.
"""

from __future__ import annotations

import os
import socket

import jax

from ._stores import Store, own_address

ALWAYS = "TORCHGRAD_JAX_DISTRIBUTED"
"""A variable of the environment: 1 has the effect of the backend `xla`, whichever backend a program names."""


def is_wanted(backend: str) -> bool:
    """Whether a group with this backend makes JAX's processes one system."""
    return "xla" in backend or os.environ.get(ALWAYS, "0") == "1"


def connect(store: Store, rank: int, size: int) -> None:
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
        jax.distributed.initialize(address, size, rank)
    except RuntimeError as e:
        raise RuntimeError(
            "init_process_group with the backend 'xla' has to come before the first tensor, since JAX learns of the "
            f"other processes when it opens its devices ({e})"
        ) from None


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
