"""`python -m torchgrad_jax doctor`: the report of `info`, what is wrong with the environment, and how to mend it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import jax

from .. import version
from .._core.jax.kernel_files import folder_of_kernels
from .._core.jax.private import KNOWN
from .._core.jax.x64 import IS_GUEST
from .info import main as report

_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


def _release(text: str) -> tuple[int, ...]:
    """The numbers of a version: (0, 12, 1) of "0.12.1.dev3"."""
    parts = text.split(".")[:3]
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts)


def _of_devices() -> Iterator[str]:
    try:
        kinds = {d.platform for d in jax.devices()}
    except RuntimeError as error:
        chosen = jax.config.jax_platforms
        hint = f"; JAX was told to use {chosen!r} (JAX_PLATFORMS, or jax_platforms)" if chosen else ""
        yield f"JAX opens no device: {error}{hint}"
        return
    if "gpu" not in kinds and (Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi")):
        if not any(map(importlib.util.find_spec, _PLUGINS)):
            yield 'there is an NVIDIA GPU, and JAX without CUDA does not see it: pip install "jax[cuda13]"'
        elif not jax.config.jax_platforms:
            yield "there is an NVIDIA GPU that JAX cannot open: `nvidia-smi` says whether its driver works"
    if "tpu" not in kinds and any(Path("/dev").glob("accel[0-9]*")) and importlib.util.find_spec("libtpu") is None:
        yield 'there is a TPU, and JAX without its driver does not see it: pip install "jax[tpu]"'


def _of_versions() -> Iterator[str]:
    jaxlib = importlib.metadata.version("jaxlib")
    if jaxlib != jax.__version__:
        yield f'jax {jax.__version__} and jaxlib {jaxlib} differ: pip install -U "jax=={jax.__version__}"'
    first, last = (_release(text) for text in KNOWN.split(" to "))
    if not first <= _release(jax.__version__) or _release(jax.__version__)[:2] > last[:2]:
        yield f"jax {jax.__version__} was not tested with this package, which knows {KNOWN}"
    try:
        torch = importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return
    if _release(torch)[:2] != _release(version.torch)[:2]:
        yield (
            f"PyTorch {torch} is installed beside, and this package follows {version.torch}: `compare` may show what "
            "changed between the two"
        )


def _of_settings() -> Iterator[str]:
    if not (jax.config.jax_enable_x64 or IS_GUEST):
        yield "jax_enable_x64 is off: int64 and float64 tensors would lose half of their bits"
    if os.environ.get("JAX_DISABLE_JIT", "0").lower() in ("1", "true"):
        yield "JAX_DISABLE_JIT is set: nothing is compiled, and all is slow"
    if jax.config.jax_debug_nans:
        yield "jax_debug_nans is on: each result is looked through for NaN, which is slow"


def _of_kernels() -> Iterator[str]:
    folder = folder_of_kernels()
    if not folder:
        yield "compiled kernels are not kept: each process compiles them again (jax_compilation_cache_dir)"
    elif "://" not in folder and (why := _not_writable(Path(folder))):
        yield f"compiled kernels cannot be kept in {folder}: {why}; JAX_COMPILATION_CACHE_DIR names another folder"


def _not_writable(folder: Path) -> str:
    """Why nothing can be written to a folder, or to the nearest one above it that is there; "" if it can be."""
    there = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return error.strerror or str(error)


LOOKS: tuple[Callable[[], Iterator[str]], ...] = (_of_devices, _of_versions, _of_settings, _of_kernels)


def main() -> int:
    """Print the report and what was found; 1 if something is wrong."""
    report()
    found = [text for look in LOOKS for text in look()]
    sys.stdout.write("".join(f"\n* {text}" for text in found) + "\n" if found else "\nNothing is wrong.\n")
    return 1 if found else 0
