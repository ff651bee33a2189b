"""What an asynchronous operation among processes returns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..futures import Future
from ._errors import DistBackendError
from ._stores import seconds


class Work:
    """An operation among processes that may still run.

    Args:
        results: the tensors that it writes to.
        run: what it does, in a thread of its own; None where it is done already.
    """

    def __init__(self, results: Sequence[Any], run: Callable[[], Any] | None = None) -> None:
        self._results = list(results)
        self._future: Any = Future()
        self._error: Exception | None = None
        self._over = threading.Event()
        if run is None:
            self._end()
        else:
            threading.Thread(target=self._run, args=(run,), daemon=True).start()

    def _run(self, run: Callable[[], Any]) -> None:
        try:
            run()
        except Exception as e:
            self._error = e
        self._end()

    def _end(self) -> None:
        self._over.set()
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._results)

    def wait(self, timeout: Any = None) -> bool:
        """True, once the operation is over; what went wrong is raised."""
        limit = None if timeout is None or not seconds(timeout) else seconds(timeout)
        if not self._over.wait(limit):
            raise DistBackendError(f"Work.wait: the operation is not over after {limit:g} seconds")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Return whether it is over."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Return whether it is over and nothing went wrong."""
        return self._over.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """Return what went wrong."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors that were written to."""
        return self._results

    def synchronize(self) -> None:
        """Wait for it."""
        self.wait()

    def get_future(self) -> Any:
        """A future that gets its results."""
        return self._future


class ReceiveWork(Work):
    """A message to be received, and who sent it."""

    source = -1

    def source_rank(self) -> int:
        """Who sent it."""
        return self.source
