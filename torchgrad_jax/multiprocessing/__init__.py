"""torch.multiprocessing: Python's own. Tensors are copied to other processes, not shared."""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # noqa: F403

from .._core.errors.messages import missing as _missing
from .spawn import (
    ProcessContext as ProcessContext,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,
    start_processes as start_processes,
)

__all__ = [*_python.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]  # type: ignore[attr-defined]


def get_all_sharing_strategies() -> set[str]:
    """Tensors are sent by value, which torch has no name for; its portable strategy stands for it."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """The only one of `get_all_sharing_strategies`."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepts the one strategy there is."""
    if new_strategy not in get_all_sharing_strategies():
        raise NotImplementedError(
            f"torch.multiprocessing.set_sharing_strategy({new_strategy!r}): memory is not shared between processes"
        )


__getattr__ = _missing(__name__)
