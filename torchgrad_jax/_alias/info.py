"""`python -m torchgrad_jax info`: what a report of a bug should say about the machine and its software."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator

import jax

from .. import version

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "torch")
_SETTINGS = ("JAX_", "XLA_", "TORCHGRAD_JAX_", "CUDA_VISIBLE_DEVICES")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _facts() -> Iterator[tuple[str, str]]:
    yield "torchgrad_jax", f"{version.__version__}, which follows torch {version.torch}"
    yield "Python", sys.version.replace("\n", " ")
    yield "platform", f"{platform.platform()}, {os.cpu_count()} CPUs"
    for package in _PACKAGES:
        yield package, _version(package)
    yield "devices", ", ".join(f"{d} ({d.device_kind})" for d in jax.local_devices())
    for name, value in sorted(os.environ.items()):
        if name.startswith(_SETTINGS):
            yield name, value


def main() -> int:
    """Print the report, a line for each fact."""
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in _facts()))
    return 0
