"""torch.utils.collect_env: what a report of a bug should say about the machine and its software.

`python -m torchgrad_jax.utils.collect_env` prints it.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys

import jax

from .. import version

_RELEVANT = ("torch", "numpy", "jax", "mypy", "triton", "optree", "onnx")


def _packages() -> str:
    """The versions of the packages that matter here, one a line."""
    found = {f"{d.name}=={d.version}" for d in importlib.metadata.distributions() if d.name}
    return "\n".join(sorted((f for f in found if any(p in f.lower() for p in _RELEVANT)), key=str.lower))


def get_pretty_env_info() -> str:
    """The report as text.

    Example:
        >>> from torchgrad_jax.utils import collect_env
        >>> "JAX version: " in collect_env.get_pretty_env_info()
        True
    """
    facts = {
        "PyTorch version": f"{version.torch}+torchgrad.jax {version.__version__}",
        "JAX version": jax.__version__,
        "JAX devices": ", ".join(f"{d} ({d.device_kind})" for d in jax.local_devices()),
        "Python version": sys.version.replace("\n", " "),
        "Python platform": platform.platform(),
        "Libc version": "-".join(platform.libc_ver()),
        "CPU": f"{platform.processor()} {platform.machine()}",
        "Versions of relevant libraries": f"\n{_packages()}",
    }
    return "\n".join(f"{title}: {value}" for title, value in facts.items())


def main() -> None:
    """Print the report."""
    sys.stdout.write(get_pretty_env_info() + "\n")


if __name__ == "__main__":
    main()
