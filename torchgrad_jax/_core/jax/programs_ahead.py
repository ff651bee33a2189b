"""Programs that were compiled on another machine, for the devices of this one.

    value = program_of(lowered.compile())  # on a laptop
    add(key_of(module, kind), value)       # on the TPU: JAX runs that program in the place of compiling the module

JAX's own key of a program names what the compiler was told and by which machine: a compiler without a GPU gives its
version as "NVIDIA H100 80GB HBM3", and one beside a GPU as "cuda 12090". So a machine would not find a program that was
made ahead. The key here holds what decides whether a program is the right one: the module as it is before XLA compiles
it, without lines of source files; the versions; and the kind of device.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import jax
import jaxlib

from ... import version
from .kernel_files import VARIABLE, are_without, machine
from .own_kernels import MODULE
from .private import COMPILATION_CACHE, CacheInterface

_PROGRAMS: dict[str, bytes] = {}
"""Programs that were made ahead, by their keys."""
_FOLDERS: list[Path] = []
"""Folders with more of them: each program is a file whose name is its key."""
_IN_CACHE = "programs"


def kind_of(device: Any) -> dict[str, str]:
    """Return what has to be the same on the machine that makes a program and on the one that runs it."""
    kind = {
        "torchgrad_jax": version.__version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "platform": f"{device.platform}, {device.device_kind}",
    }
    if device.platform == "tpu":
        return kind | {"libtpu": device.client.platform_version}
    return kind | {"machine": machine()} if device.platform == "cpu" else kind


def key_of(module: Any, kind: dict[str, str]) -> str:
    """Return the key of a program: the name of its module, and a hash of all that it depends on."""
    name = str(module.operation.attributes["sym_name"]).strip('"')
    found = hashlib.sha256(module.operation.get_asm(enable_debug_info=False).encode())
    found.update(repr(sorted(kind.items())).encode())
    return f"{name}-ahead-{found.hexdigest()}"


def executable_of(compiled: jax.stages.Compiled) -> Any:
    """Return XLA's own object of a compiled program."""
    found = compiled.runtime_executable()
    if found is None:
        raise RuntimeError("this program has no executable of XLA's, so it cannot be kept")
    return found


def program_of(compiled: jax.stages.Compiled) -> bytes:
    """Return a compiled program as bytes, as JAX keeps programs in files."""
    serialized = executable_of(compiled).serialize()
    return COMPILATION_CACHE.compress_executable(COMPILATION_CACHE.combine_executable_and_time(serialized, 0))


def add(key: str, value: bytes) -> None:
    """Let JAX use a program where it would compile the module of this key."""
    _PROGRAMS[key] = value
    _tell_jax()


def file_in_cache(folder: str | os.PathLike[str], key: str) -> Path:
    """Return where processes that have this folder as `TORCHGRAD_JAX_CACHE` look for a program; its folder is made."""
    there = Path(folder) / _IN_CACHE
    there.mkdir(parents=True, exist_ok=True)
    return there / key


def look_in_cache() -> None:
    """Let JAX use the programs that `TORCHGRAD_JAX_CACHE` has, if there are some."""
    folder = Path(os.environ.get(VARIABLE) or os.devnull) / _IN_CACHE
    if folder.is_dir():
        _FOLDERS.append(folder)
        _tell_jax()


def _read_ahead(key: str) -> bytes | None:
    """A program that was made ahead, or None."""
    for folder in _FOLDERS:
        if key not in _PROGRAMS and (folder / key).is_file():
            _PROGRAMS[key] = (folder / key).read_bytes()
    return _PROGRAMS.get(key)


def _tell_jax() -> None:
    if not isinstance(COMPILATION_CACHE.get_cache_key, _Keys):
        COMPILATION_CACHE.get_cache_key = _Keys(COMPILATION_CACHE.get_cache_key)
        COMPILATION_CACHE._get_cache = _Caches(COMPILATION_CACHE._get_cache)


class _Keys:
    """JAX's function that gives the key of a module; for one that was compiled ahead, the key of that program."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, module: Any, devices: Any, *args: Any, **kwargs: Any) -> str:
        key: str = self._before(module, devices, *args, **kwargs)
        first = devices.flat[0]
        if not key.startswith(MODULE) or not hasattr(first, "client") or are_without():
            return key
        ahead = key_of(module, kind_of(first))
        return key if _read_ahead(ahead) is None else ahead


class _Caches:
    """JAX's function that gives the files of programs; with the programs that were made ahead among them."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, backend: Any) -> Any:
        return _WithPrograms(self._before(backend))


class _WithPrograms(CacheInterface):
    """The programs that were made ahead, and the files of others."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self._path = getattr(files, "_path", None)

    def get(self, key: str) -> Any:
        """Return a program, or None."""
        ahead = _PROGRAMS.get(key)
        return ahead if ahead is not None or self._files is None else self._files.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep a program under a key."""
        if self._files is not None:
            self._files.put(key, value)


__all__ = ["add", "executable_of", "file_in_cache", "key_of", "kind_of", "look_in_cache", "program_of"]
