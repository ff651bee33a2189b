"""torch.multiprocessing: Python's own, with processes that are safe beside JAX. Tensors are copied to them, not shared.

A forked copy of a process that runs JAX hangs. So `Process`, `Queue`, `Event`, `Lock` and the others that belong to a
start method take the one of `_forks.py`, unless the program has chosen "spawn" or "forkserver". Begin with
`_forks.py`; `_carrying.py` says how objects travel, `_queue.py` by which way, `_memory.py` where their arrays lie.
"""

from __future__ import annotations

import multiprocessing as _python
from collections.abc import Callable as _Callable
from multiprocessing import *  # type: ignore[assignment] # noqa: F403
from typing import Any as _Any

from .._core.errors.messages import missing as _missing
from . import _forks
from ._memory import POSSIBLE as _POSSIBLE
from .spawn import (
    ProcessContext as ProcessContext,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    spawn as spawn,
    start_processes as start_processes,
)

__all__ = [*_python.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]  # type: ignore[attr-defined]


def _context() -> _Any:
    """The context of the start method that the program chose, or the one of this package.

    Python says "fork" also where nobody chose it: a lock that a library has made is enough.
    """
    method = _python.get_start_method(allow_none=True)
    ours = method not in ("spawn", "forkserver") and _POSSIBLE
    return _forks.CONTEXT if ours else _python.get_context(method)


class Process(_python.process.BaseProcess):
    """A process of the program's start method."""

    _start_method = None

    @staticmethod
    def _Popen(process_obj: _Any) -> _Any:
        return _context().Process._Popen(process_obj)


def _of_context(name: str) -> _Callable[..., _Any]:
    def make(*args: _Any, **kwargs: _Any) -> _Any:
        return getattr(_context(), name)(*args, **kwargs)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = getattr(_python.context.BaseContext, name).__doc__  # type: ignore[attr-defined]
    return make


globals().update(
    {
        name: _of_context(name)
        for name in (
            "Array", "Barrier", "BoundedSemaphore", "Condition", "Event", "JoinableQueue", "Lock", "Manager", "Pool",
            "Queue", "RLock", "Semaphore", "SimpleQueue", "Value",
        )
    }
)  # fmt: skip


def _set_thread_name(name: str) -> None:
    """Name the running thread, for tools that list threads."""
    try:
        with open("/proc/thread-self/comm", "w") as file:
            file.write(name[:15])
    except OSError:  # only Linux has names that can be set so
        pass


def _get_thread_name() -> str:
    """The name of the running thread."""
    try:
        with open("/proc/thread-self/comm") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def get_all_sharing_strategies() -> set[str]:
    """Tensors are sent by value, which torch has no name for; its portable strategy stands for it."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """The only one of `get_all_sharing_strategies`."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept the one strategy there is."""
    if new_strategy not in get_all_sharing_strategies():
        raise NotImplementedError(
            f"torch.multiprocessing.set_sharing_strategy({new_strategy!r}): memory is not shared between processes"
        )


__getattr__ = _missing(__name__)
