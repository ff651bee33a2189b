"""torch.multiprocessing.spawn: several processes that run one function, waited for together."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from .._core.errors import warn

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """One of the processes failed.

    Args:
        msg: how.
        error_index: which of them.
        error_pid: its process id.
    """

    __slots__ = ("error_index", "error_pid", "msg")

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended by a signal or with an exit code.

    Args:
        msg: how.
        error_index: which of them.
        error_pid: its process id.
        exit_code: its exit code.
        signal_name: the signal, if it was one.
    """

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], report: str) -> None:
    """What a process does: the function, and a file with the traceback if it raises."""
    try:
        with contextlib.suppress(KeyboardInterrupt):
            fn(i, *args)
    except Exception:
        with open(report, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that were started together.

    Args:
        processes: the processes.
        error_files: where each writes its traceback.
    """

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one process ends; if it failed, end the others and raise.

        Args:
            timeout: how many seconds to wait.
            grace_period: how many seconds the others have to end by themselves.

        Returns:
            Whether all have ended.
        """
        if not self.sentinels:
            return True
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._end(grace_period)
                raise self._failure(index)
        return not self.sentinels

    def _end(self, grace: float | None) -> None:
        if grace is not None:
            self._wait(grace)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(30 if grace is None else grace)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def _failure(self, index: int) -> ProcessException:
        process, report = self.processes[index], self.error_files[index]
        if os.access(report, os.R_OK):
            with open(report, "rb") as file:
                stack = pickle.load(file)
            text = f"\n\n-- Process {index} terminated with the following error:\n{stack}"
            return ProcessRaisedException(text, index, process.pid)
        code = process.exitcode
        if code >= 0:
            text = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(text, index, process.pid, code)
        known = {s.value: s.name for s in signal.Signals}
        name = known.get(-code, f"<Unknown signal {-code}>")
        text = f"process {index} terminated with signal {name}"
        return ProcessExitedException(text, index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The former name of `ProcessContext`."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        warn.to_user("SpawnContext is renamed to ProcessContext since 1.4 release.")
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run a function in several processes.

    Args:
        fn: called with the number of the process and `args`.
        args: its other arguments.
        nprocs: how many.
        join: whether to wait for all of them.
        daemon: whether they end with this process.
        start_method: as in `multiprocessing`. A forked copy of a process that has run JAX may hang.

    Returns:
        The processes, unless they were waited for.
    """
    context = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for i in range(nprocs):
        handle, report = tempfile.mkstemp(prefix="torchgrad-errorfile-", suffix=".pickle")
        os.close(handle)
        os.unlink(report)  # that it is there says that the function raised
        process = context.Process(target=_run, args=(fn, i, args, report), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        reports.append(report)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with processes that start afresh.

    Args:
        fn: called with the number of the process and `args`.
        args: its other arguments.
        nprocs: how many.
        join: whether to wait for all of them.
        daemon: whether they end with this process.
        start_method: only "spawn"; another is ignored with a warning, as in torch.

    Returns:
        The processes, unless they were waited for.
    """
    if start_method != "spawn":
        warn.to_user(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
