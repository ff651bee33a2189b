"""Compiled kernels as bytes, for other machines of the same kind: `save_cache_artifacts` and `load_cache_artifacts`."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from .._core.errors import warn
from .._core.jax import programs_ahead
from .._core.jax.kernel_archives import kind_here, packed, unpacked, why_not
from .._core.jax.kernel_files import add_kernel, used_kernels

_KIND = "kernel"


@dataclasses.dataclass
class CacheInfo:
    """Which kernels were saved or loaded: their keys, under the names that torch has for what Inductor compiles."""

    artifacts: defaultdict[str, list[str]] = dataclasses.field(default_factory=lambda: defaultdict(list))

    @property
    def inductor_artifacts(self) -> list[str]:
        """The keys of the kernels."""
        return self.artifacts[_KIND]

    @property
    def autotune_artifacts(self) -> list[str]:
        """Nothing: XLA tunes while it compiles."""
        return []

    @property
    def aot_autograd_artifacts(self) -> list[str]:
        """Nothing: the kernels of a backward pass are among the others."""
        return []

    @property
    def pgo_artifacts(self) -> list[str]:
        """Nothing: no profile is kept."""
        return []

    @property
    def precompile_artifacts(self) -> list[str]:
        """Nothing."""
        return []

    def empty(self) -> bool:
        """Return whether there is no kernel."""
        return not any(self.artifacts.values())


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """Return all kernels that this process has compiled or read, eager ones and those of compiled functions, as bytes.

    A process on a machine of the same kind that loads them does not compile them again; it traces compiled functions,
    which is the smaller part of a first call. Kernels that were not kept in files (`TORCHGRAD_JAX_CACHE=off`) cannot be
    saved.

    Returns:
        The bytes and what is in them; None if there is no kernel.

    Example:
        >>> import torchgrad_jax as torch
        >>> y = torch.compile(lambda x: x.sin().sum())(torch.ones(3))
        >>> artifacts = torch.compiler.save_cache_artifacts()  # doctest: +SKIP
        >>> info = torch.compiler.load_cache_artifacts(artifacts[0])  # doctest: +SKIP
    """
    info, kernels = CacheInfo(), dict(used_kernels())
    info.artifacts[_KIND] += kernels
    return None if not kernels else (packed(kind_here(), kernels=kernels.items()), info)


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Put kernels that `save_cache_artifacts` gave elsewhere among those of this machine.

    The bytes of a file that `step.save` or `python -m torchgrad_jax plan --cache` wrote may be given, too.

    Load only what you have saved yourself: kernels are code of the machine, which runs as it is.

    Returns:
        What was loaded. None, after a warning that says why, if nothing can be: the bytes are none of kernels, or are
        damaged, another version or kind of machine has made them, or this process keeps no kernels in files.
    """
    try:
        archive = unpacked(serialized_artifacts)
    except ValueError as error:
        return _refuse(f"these bytes are no kernels that save_cache_artifacts has saved: {error}")
    if (why := why_not(archive.kind)) is not None:
        return _refuse(why)
    info = CacheInfo()
    for key, value in archive.kernels.items():
        if not add_kernel(key, value):
            return _refuse("this process keeps no kernels in files (TORCHGRAD_JAX_CACHE, jax_compilation_cache_dir)")
    for key, value in archive.programs.items():
        programs_ahead.add(key, value)
    info.artifacts[_KIND] += [*archive.kernels, *archive.programs]
    return info


def _refuse(why: str) -> Any:
    warn.to_user(f"torch.compiler.load_cache_artifacts: {why}; nothing was loaded")
    return None


__all__ = ["CacheInfo", "load_cache_artifacts", "save_cache_artifacts"]
