"""`python -m torchgrad_jax info`: what a report of a bug should say about machine, software and settings."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator

import jax

from .. import version
from .._core.jax.caches import cache_info
from .._core.jax.kernel_files import folder_of_kernels

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "torch")
_ENVIRONMENT = ("JAX_", "XLA_", "TORCHGRAD_JAX_", "CUDA_VISIBLE_DEVICES")
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_device", "jax_platforms")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> str:
    """The devices that JAX opens, or why it opens none: a report is wanted most where it does not."""
    try:
        return ", ".join(f"{d} ({d.device_kind})" for d in jax.local_devices())
    except RuntimeError as error:
        return f"none: {error}"


def _kernel_folder() -> str:
    """Where compiled kernels are kept, and how many and how large they are."""
    folder = folder_of_kernels()
    if not folder:
        return "not kept"
    try:
        sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
    except OSError:  # remote, or not there before the first kernel
        return folder
    return f"{folder}, {len(sizes)} files, {sum(sizes) / 2**20:.0f} MiB"


def _facts() -> Iterator[tuple[str, str]]:
    yield "torchgrad_jax", f"{version.__version__}, which follows torch {version.torch}"
    yield "Python", sys.version.replace("\n", " ")
    yield "platform", f"{platform.platform()}, {os.cpu_count()} CPUs"
    for package in _PACKAGES:
        yield package, _version(package)
    yield "devices", _devices()
    for name in _SETTINGS:
        yield name, str(getattr(jax.config, name))
    yield "compiled kernels", _kernel_folder()
    yield "limits of the caches", ", ".join(f"{name} {c.limit}" for name, c in cache_info().items() if name[0] != "_")
    for name, value in sorted(os.environ.items()):
        if name.startswith(_ENVIRONMENT):
            yield name, value


def main() -> int:
    """Print the report, a line for each fact."""
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in _facts()))
    return 0
