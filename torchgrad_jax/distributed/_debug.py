"""How much is said about what processes do, as programs set it by `TORCH_DISTRIBUTED_DEBUG` and ask for it."""

from __future__ import annotations

import enum
import os


class DebugLevel(enum.IntEnum):
    """How much is said. Errors here always name the call and the ranks."""

    OFF, INFO, DETAIL = range(3)


_VARIABLE = "TORCH_DISTRIBUTED_DEBUG"


def _of_environment() -> DebugLevel:
    name = os.environ.get(_VARIABLE, "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(f"The value of {_VARIABLE} must be one of {', '.join(DebugLevel.__members__)}, not {name}")
    return DebugLevel[name]


_set: list[DebugLevel] = []


def get_debug_level() -> DebugLevel:
    """The level that was set, or that of the environment."""
    return _set[-1] if _set else _of_environment()


def set_debug_level(level: DebugLevel) -> None:
    """Set the level, whatever the environment says."""
    _set[:] = [DebugLevel(level)]


def set_debug_level_from_env() -> None:
    """Take the level that the environment says."""
    _set[:] = [_of_environment()]
