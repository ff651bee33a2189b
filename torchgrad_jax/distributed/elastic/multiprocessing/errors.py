"""torch.distributed.elastic.multiprocessing.errors: errors of launched processes, for the one that launched them.

The launcher gives each process a file, `TORCHELASTIC_ERROR_FILE`. A main function under `@record` writes there what it
raises, and the launcher's own error, a `ChildFailedError`, shows it.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import functools
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_NO_FILE = "<N/A>"
_HINT = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


class ErrorHandler:
    """Writes what a process raises to the file that its launcher has named; a subclass may write it elsewhere."""

    def initialize(self) -> None:
        """Called before the main function: crashes of the interpreter print a traceback."""
        with contextlib.suppress(Exception):  # standard error may be no file
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, its traceback and the time to the file, if there is one."""
        extra = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        self._write({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}})

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Write the error of a process that this one has launched to this one's own file.

        Args:
            rootcause_error_file: the file of the other process.
            error_code: its exit code.
        """
        with open(rootcause_error_file) as file:
            data = json.load(file)
        if error_code and isinstance(data.get("message"), dict):
            data["message"]["errorCode"] = error_code
        self._write(data)

    def _write(self, data: dict[str, Any]) -> None:
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path:
            with open(path, "w") as file:
                json.dump(data, file)


def get_error_handler() -> ErrorHandler:
    """The handler that `record` uses unless it is given one."""
    return ErrorHandler()


def record(fn: Callable[P, T], error_handler: ErrorHandler | None = None) -> Callable[P, T | None]:
    """A main function whose errors the launcher of this process will show; they are raised as before.

    Args:
        fn: the main function of a script.
        error_handler: says where errors are written.

    Returns:
        The function. It returns None where `fn` ends with `sys.exit(0)`.
    """
    handler = get_error_handler() if error_handler is None else error_handler

    @functools.wraps(fn)
    def main(*args: P.args, **kwargs: P.kwargs) -> T | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as e:
            if e.code != 0:
                raise
            return None
        except ChildFailedError as e:
            failure = e.get_first_failure()[1]
            if failure.error_file != _NO_FILE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as e:
            handler.record_exception(e)
            raise

    return main


@dataclass
class ProcessFailure:
    """How a launched process failed.

    Args:
        local_rank: its number on its node.
        pid: its process id.
        exitcode: what it returned; minus the number of the signal that ended it.
        error_file: where it may have written its error.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)
    written: float = field(init=False)
    """When the file was written, or else when the failure was seen: seconds do not tell who was first."""

    def __post_init__(self) -> None:
        self.error_file_data, self.timestamp = {"message": "<NONE>"}, int(time.time())
        self.written = time.time()
        if os.path.isfile(self.error_file):
            self.written = os.stat(self.error_file).st_mtime
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            where = self.message["extraInfo"] if isinstance(self.message, dict) else self.error_file_data
            self.timestamp = int(where.get("timestamp", 0))
            return
        self.error_file = _NO_FILE
        received = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        self.message = received if self.exitcode < 0 else _HINT

    def signal_name(self) -> str:
        """The name of the signal that ended the process."""
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.exitcode).name
        return _NO_FILE

    def timestamp_isoformat(self) -> str:
        """When it failed: day, underscore, time."""
        return datetime.datetime.fromtimestamp(self.timestamp).isoformat(sep="_")

    def _traceback(self) -> str:
        if not isinstance(self.message, dict):
            return str(self.message)
        said = self.message.get("extraInfo", {}).get("py_callstack")
        return str(said or self.message.get("message", _NO_FILE)).replace("\n", "\n  ")

    def lines(self, rank: int) -> str:
        """Return what `ChildFailedError` says about it."""
        name = self.signal_name()
        return "\n".join(
            f"  {label:<10}: {value}"
            for label, value in {
                "time": self.timestamp_isoformat(),
                "host": socket.getfqdn(),
                "rank": f"{rank} (local_rank: {self.local_rank})",
                "exitcode": f"{self.exitcode} (pid: {self.pid}) " + ("" if name == _NO_FILE else f" ({name})"),
                "error_file": self.error_file,
                "traceback": self._traceback(),
            }.items()
        )


class ChildFailedError(Exception):
    """Processes that were launched have failed.

    Args:
        name: what was launched.
        failures: how they failed, by rank; the one with the earliest time is taken for the cause of the others.
    """

    __module__ = "torch.distributed.elastic.multiprocessing.errors"

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError("a ChildFailedError needs a failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        return min(self.failures.items(), key=lambda item: (item[1].timestamp, item[1].written))

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All failures in words, the first one last."""
        first = self.get_first_failure()[0]
        said = {r: f"[{i}]:\n{f.lines(r)}" for i, (r, f) in enumerate(self.failures.items())}
        title = f"{self.name} FAILED"
        longest = max(len(line) for text in (title, *said.values()) for line in text.split("\n"))
        width = min(longest, 60)
        others = [text for r, text in said.items() if r != first] or ["  <NO_OTHER_FAILURES>"]
        border, section = boarder_delim * width, section_delim * width
        cause = ["Root Cause (first observed failure):", said[first]]
        return "\n".join(["", border, title, section, "Failures:", *others, section, *cause, border])


__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]
