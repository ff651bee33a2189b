"""What a worker has in common with the program: folders, the environment, warnings, and torch's settings.

A process that the program forks would have all of it. One that comes from the server is given what code reads without
being told.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import sys
import warnings
from dataclasses import dataclass
from typing import Any

from .._core.arrays.devices import device
from .._core.state import GRAD, INFERENCE, MODES, SAYS_GRAD, SETTINGS

_PACKAGE = __name__.partition(".")[0]
_GROUPS = f"{_PACKAGE}.distributed._groups"
_OF_TORCH = ("default_device", "grad_layout", "forward_grad")


def shim() -> str | None:
    """The folder in whose presence `import torch` means this package."""
    finder = sys.modules.get(f"{_PACKAGE}._alias.finder")
    return None if finder is None else finder.SHIM


@dataclass(frozen=True)
class Surroundings:
    """What a worker takes over."""

    name: str
    authkey: bytes
    environ: dict[str, str]
    folder: str | None
    argv: list[str]
    limit: int
    filters: list[Any]
    settings: dict[str, Any]
    modes: dict[str, Any]
    rank: tuple[int, int, str] | None


def taken(name: str) -> Surroundings:
    """Those of the running thread, for a process of this name."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = None
    return Surroundings(
        name,
        bytes(multiprocessing.current_process().authkey),
        dict(os.environ),
        folder,
        list(sys.argv),
        sys.getrecursionlimit(),
        [f for f in warnings.filters if f[2].__module__ != "__main__" and _can_be_sent(f)],
        dict(vars(SETTINGS)),
        modes(),
        None if _GROUPS not in sys.modules else sys.modules[_GROUPS].identity(),
    )


def _can_be_sent(obj: Any) -> bool:
    try:
        return bool(pickle.dumps(obj))
    except Exception:  # whatever pickling it raises
        return False


def modes() -> dict[str, Any]:
    """Torch's modes of the running thread, as far as its workers have them; an accelerator is none of these."""
    found = {n: getattr(MODES, n) for n in _OF_TORCH}
    on_cpu = {n: v for n, v in found.items() if not isinstance(v, device) or v.type == "cpu"}
    return {**on_cpu, "bits": MODES.bits & (GRAD | INFERENCE | SAYS_GRAD)}


def set_modes(given: dict[str, Any]) -> None:
    """Let the running thread have the modes of another."""
    MODES.own |= given


def imports() -> Any:
    """Return what has to be there before anything of the program can be unpickled, as plain Python objects."""
    finder = sys.modules.get(f"{_PACKAGE}._alias.finder")
    return [p or os.getcwd() for p in sys.path], None if finder is None else finder.packages()


def allow_imports(path: list[str], alias: tuple[str, ...] | None) -> None:
    """Let this process import what the program can, and have a `torch` where that has one."""
    sys.path[:] = path
    if alias is not None:
        finder = importlib.import_module(f"{_PACKAGE}._alias.finder")
        if finder.packages() != alias:  # and so it is in a copy of the server, and in what is forked from that
            finder.install_as_torch(alias or None)


def put_on(given: Surroundings) -> None:
    """Take them over."""
    multiprocessing.current_process().name = given.name
    multiprocessing.current_process().authkey = given.authkey
    _as_in_program(given.environ)
    if given.folder is not None:
        os.chdir(given.folder)
    sys.argv[:] = given.argv
    sys.setrecursionlimit(given.limit)
    warnings.filters[:] = given.filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
    vars(SETTINGS).update(given.settings)
    set_modes(given.modes)
    if given.rank is not None:
        importlib.import_module(_GROUPS).answer_as(*given.rank)


def _as_in_program(environ: dict[str, str]) -> None:
    """The program's environment, but for what says that a worker has one thread of a CPU."""
    kept = {n: os.environ[n] for n in ("JAX_PLATFORMS", "PJRT_NPROC") if n in os.environ}
    os.environ.clear()
    os.environ.update(environ)
    os.environ.update(kept)
