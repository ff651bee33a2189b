"""Compiled kernels as bytes, for other machines of the same kind: `save_cache_artifacts` and `load_cache_artifacts`."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections import defaultdict
from typing import Any

import jax
import jaxlib

from .. import version
from .._core.errors import warn
from .._core.jax.kernel_files import add_kernel, machine, used_kernels
from .._core.jax.own_kernels import MODULE

_ABOUT, _FOLDER, _KIND = "about.json", "kernels/", "kernel"


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
        """Whether there is no kernel."""
        return not any(self.artifacts.values())


def _made_on() -> dict[str, str]:
    """What has to be the same where kernels are to run."""
    devices = jax.local_devices()[0]
    return {
        "torchgrad_jax": version.__version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "platform": f"{devices.platform}, {devices.device_kind}",
        "machine": machine(),
    }


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
    info, buffer = CacheInfo(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(_ABOUT, json.dumps(_made_on()))
        for key, value in used_kernels():
            archive.writestr(_FOLDER + key, value)  # JAX has compressed it
            info.artifacts[_KIND].append(key)
    return None if info.empty() else (buffer.getvalue(), info)


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo | None:
    """Put kernels that `save_cache_artifacts` gave elsewhere among those of this machine.

    Load only what you have saved yourself: kernels are code of the machine, which runs as it is.

    Returns:
        What was loaded. None, after a warning that says why, if nothing can be: the bytes are none of kernels, or are
        damaged, another version or kind of machine has made them, or this process keeps no kernels in files.
    """
    try:
        kernels = _kernels_of(serialized_artifacts)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError) as error:
        return _refuse(f"these bytes are no kernels that save_cache_artifacts has saved: {error}")
    if isinstance(kernels, str):
        return _refuse(kernels)
    info = CacheInfo()
    for key, value in kernels.items():
        if not add_kernel(key, value):
            return _refuse("this process keeps no kernels in files (TORCHGRAD_JAX_CACHE, jax_compilation_cache_dir)")
        info.artifacts[_KIND].append(key)
    return info


def _kernels_of(data: bytes) -> dict[str, bytes] | str:
    """The kernels, or why they are for another machine. All are read, and checked by their sums, before one is used."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        made, here = json.loads(archive.read(_ABOUT)), _made_on()
        if not isinstance(made, dict):
            raise ValueError("what describes them is no table")
        for what, value in here.items():
            if made.get(what) != value:
                return f"these kernels were made for another {what}: {made.get(what)}, and here is {value}"
        kernels: dict[str, bytes] = {}
        for name in archive.namelist():
            key = name.removeprefix(_FOLDER)
            if name == _ABOUT:
                continue
            if not name.startswith(_FOLDER + MODULE) or not key.isprintable() or any(c in key for c in "/\\:"):
                raise ValueError(f"{name!r} is no kernel")
            kernels[key] = archive.read(name)
    return kernels


def _refuse(why: str) -> Any:
    warn.to_user(f"torch.compiler.load_cache_artifacts: {why}; nothing was loaded")
    return None


__all__ = ["CacheInfo", "load_cache_artifacts", "save_cache_artifacts"]
