"""Programs of a compiled function in a file, for machines that start without compiling: `step.save` and `step.load`.

with interop.target("v5e:2x2"):
    step.save("step.bin", x, y)  # on a laptop

step.load("step.bin")            # on the TPUs; the first call traces the function, and compiles nothing
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from ..._core.files.atomic import replacing
from ..._core.jax import programs_ahead
from ..._core.jax.kernel_archives import packed, unpacked, why_not
from ..._core.jax.kernel_files import without_files
from .inspection import Lowered, state_of

_OF_HOST = re.compile(r"custom_call @\w*callback")


def archive_of(low: Lowered) -> bytes:
    """Compile a program and that of its backward pass, and return both as an archive."""
    return packed(_kind(low), state=low.state, programs=_programs(low))


def write_to_cache(low: Lowered, folder: str | os.PathLike[str]) -> None:
    """Compile a program and that of its backward pass for processes that have a folder as `TORCHGRAD_JAX_CACHE`."""
    for key, value in _programs(low):
        _write(programs_ahead.file_in_cache(folder, key), value)


def save(path: str | os.PathLike[str], low: Lowered) -> None:
    """Write a program and that of its backward pass to a file; see `Compiled.save`."""
    _write(path, archive_of(low))


def _write(path: str | os.PathLike[str], data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


def _compiled(low: Lowered) -> jax.stages.Compiled:
    """The program compiled here: XLA loses functions of one that it read from a file when it writes that once more."""
    with without_files():
        return low.compile()


def _kind(low: Lowered) -> dict[str, str]:
    here = low.target is None
    devices = programs_ahead.executable_of(_compiled(low)).local_devices() if here else low.target.devices
    return programs_ahead.kind_of(devices[0])


def _programs(low: Lowered) -> Iterator[tuple[str, bytes]]:
    """The program and that of its backward pass, each with its key."""
    for part in [low, low.backward] if low.backward is not None else [low]:
        if _OF_HOST.search(part.as_text()):
            raise RuntimeError("the program calls functions of this process (callbacks), so no file can hold it")
        module = part.as_jax().compiler_ir("stablehlo")
        yield programs_ahead.key_of(module, _kind(low)), programs_ahead.program_of(_compiled(part))


def load(path: str | os.PathLike[str], fn: Any) -> None:
    """Let JAX use the programs of a file; see `Compiled.load`."""
    try:
        archive = unpacked(Path(path).read_bytes())
    except ValueError as error:
        raise RuntimeError(f"{path} is no file that step.save has written, or it is damaged: {error}") from error
    if (why := why_not(archive.kind)) is not None:
        raise RuntimeError(f"the programs in {path} cannot run here: {why}")
    here = state_of(fn)
    for name, there in archive.state.items():
        if name in here and here[name] != there:
            raise RuntimeError(f"the programs in {path} are for {name} of {there}, and here it is {here[name]}")
    for key, value in archive.programs.items():
        programs_ahead.add(key, value)


__all__ = ["archive_of", "load", "save", "write_to_cache"]
