"""Names by which PyTorch's loader watches its workers.

Workers are children of the process that they are forked from, not of the program, so that the program gets no signal
when one ends. Loaders look at their workers' sentinels instead.
"""

from __future__ import annotations

import os
import signal

MP_STATUS_CHECK_INTERVAL = 5.0
"""Seconds after which a loader looks whether its workers still run."""

_WORKERS: dict[int, tuple[int, ...]] = {}


def _set_worker_pids(key: int, pids: tuple[int, ...]) -> None:
    """Remember the workers of a loader's iterator."""
    if key in _WORKERS:
        raise ValueError("_set_worker_pids should be called only once for each _BaseDataLoaderIter.")
    _WORKERS[key] = tuple(pids)


def _remove_worker_pids(key: int) -> None:
    """Forget them."""
    if key not in _WORKERS:
        raise ValueError(f"Cannot find worker information for _BaseDataLoaderIter with id {key}")
    del _WORKERS[key]


def _error_if_any_worker_fails() -> None:
    """Raise if a worker that is remembered is gone."""
    for pids in _WORKERS.values():
        for pid in pids:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                raise RuntimeError(f"DataLoader worker (pid {pid}) exited unexpectedly.") from None


def _set_worker_signal_handlers() -> None:
    """In a worker: let SIGTERM end it at once, also where the program handles that signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _set_SIGCHLD_handler() -> None:
    """In the program: there is no such signal to handle; see above."""
