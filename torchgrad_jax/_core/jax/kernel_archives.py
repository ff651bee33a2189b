"""Compiled kernels and programs in one archive of bytes, with what they were made for.

data = packed(kind, programs={key: value})
archive = unpacked(data)   # ValueError: these bytes are no archive, or are damaged
why_not(archive.kind)      # None; or "they were made for another jaxlib: 0.1, and here is 0.10.2"
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax

from .kernel_files import machine
from .own_kernels import MODULE
from .programs_ahead import kind_of

_ABOUT, _KERNELS, _PROGRAMS = "about.json", "kernels/", "programs/"
_ALWAYS = ("torchgrad_jax", "jax", "jaxlib", "platform")


class Archive(NamedTuple):
    """What an archive holds."""

    kind: dict[str, str]
    """The machine and the versions that it was made for."""
    state: dict[str, str]
    """What the program of a step reads and writes, by name: dtype and shape."""
    kernels: dict[str, bytes]
    """Kernels by JAX's keys, which are those of machines of the same kind as the one that compiled them."""
    programs: dict[str, bytes]
    """Programs by the keys of `programs_ahead.py`."""


def packed(
    kind: Mapping[str, str],
    *,
    state: Mapping[str, str] | None = None,
    kernels: Iterable[tuple[str, bytes]] = (),
    programs: Iterable[tuple[str, bytes]] = (),
) -> bytes:
    """Return an archive as bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(_ABOUT, json.dumps({**kind, "state": dict(state or {})}))
        for folder, held in ((_KERNELS, kernels), (_PROGRAMS, programs)):
            for key, value in held:
                archive.writestr(folder + key, value)  # JAX has compressed it
    return buffer.getvalue()


def unpacked(data: bytes) -> Archive:
    """Read an archive whole, and check it by its sums, before anything of it is used.

    Raises:
        ValueError: the bytes are no archive of kernels, or are damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            about = json.loads(archive.read(_ABOUT))
            if not isinstance(about, dict) or not all(isinstance(about.get(what), str) for what in _ALWAYS):
                raise ValueError("what describes them is no table of versions")
            state = about.pop("state", {})
            found = Archive(about, state if isinstance(state, dict) else {}, {}, {})
            for name in archive.namelist():
                if name != _ABOUT:
                    _held_in(found, name)[name.partition("/")[2]] = archive.read(name)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        raise ValueError(str(error)) from error
    return found


def _held_in(archive: Archive, name: str) -> dict[str, bytes]:
    folder, _, key = name.partition("/")
    held = {_KERNELS: archive.kernels, _PROGRAMS: archive.programs}.get(folder + "/")
    if held is None or not key.startswith(MODULE) or not key.isprintable() or any(c in key for c in "/\\:"):
        raise ValueError(f"{name!r} is no kernel")
    return held


def kind_here() -> dict[str, str]:
    """Return the machine and the versions that kernels compiled by this process are for."""
    return kind_of(jax.local_devices()[0]) | {"machine": machine()}


def why_not(kind: Mapping[str, Any]) -> str | None:
    """Return why kernels of this kind cannot run here, or None."""
    here = kind_here()
    for what, value in kind.items():
        if here.get(what) != value:
            return f"they were made for another {what}: {value}, and here is {here.get(what, 'none')}"
    return None


__all__ = ["Archive", "kind_here", "packed", "unpacked", "why_not"]
