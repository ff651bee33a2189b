"""torch.__config__: what runs underneath, in words."""

from __future__ import annotations

import os
import platform

import jax
import jaxlib

from .version import __version__


def show() -> str:
    """The libraries that do the work and the devices they found."""
    found = ", ".join(sorted({d.device_kind for d in jax.local_devices()}))
    return "\n".join(
        [
            "torchgrad_jax runs on:",
            f"  - torchgrad_jax {__version__}",
            f"  - JAX {jax.__version__}, jaxlib {jaxlib.__version__}",
            f"  - backend {jax.default_backend()}, devices: {found}",
            f"  - Python {platform.python_version()}",
            "",
        ]
    )


def parallel_info() -> str:
    """Return how many threads XLA has on the CPU."""
    return f"XLA's thread pool:\n\tstd::thread::hardware_concurrency() : {os.cpu_count()}\n"
