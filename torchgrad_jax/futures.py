"""torch.futures: values that another thread will set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
S = TypeVar("S")

_ONCE = "Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once."


class Future(Generic[T]):
    """A value, or an exception, that is there some time; who waits for it gets it then.

    Args:
        devices: no accelerator orders anything here, so that none may be named.

    Example:
        >>> future: Future[int] = Future()
        >>> doubled = future.then(lambda done: 2 * done.value())
        >>> future.set_result(4)
        >>> doubled.wait()
        8
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        if devices:
            raise RuntimeError("Cannot access accelerator device when none is available.")
        self._change = threading.Condition()
        self._completed = False
        self._result: Any = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Return whether the value, or the exception, is there."""
        return self._completed

    def wait(self) -> T:
        """The value, once it is there; the exception is raised."""
        with self._change:
            self._change.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The value of a future that is done; the exception is raised."""
        if not self._completed:
            raise RuntimeError("Future.value(): the future is not done; wait() for it")
        if self._error is not None:
            raise self._error
        return self._result

    def set_result(self, result: T) -> None:
        """Set the value, which wakes all who wait and runs the callbacks."""
        self._complete(result, None)

    def set_exception(self, result: Exception) -> None:
        """Set an exception for all who wait."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, result: Any, error: Exception | None) -> None:
        with self._change:
            if self._completed:
                raise RuntimeError(_ONCE)
            self._result, self._error, self._completed = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._change.notify_all()
        for callback in callbacks:
            callback(self)

    def _when_done(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._change:
            if not self._completed:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what a function of this one gives, once this one is done.

        Args:
            callback: called with this future.
        """
        after: Future[S] = Future()

        def run(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:  # whatever the callback raises reaches who waits
                after.set_exception(
                    RuntimeError(f"Got the following error when running the callback: {type(error).__name__}: {error}")
                )
                return
            after.set_result(result)

        self._when_done(run)
        return after

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future once it is done; what the function raises is dropped, as in torch.

        Args:
            callback: called with this future.
        """
        self.then(callback)


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of several, done when all of them are; it has the exception of one that failed.

    Args:
        futures: those to wait for.
    """
    everything: Future[list[Future[Any]]] = Future()
    left, lock = [len(futures)], threading.Lock()

    def arrived(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        finish()

    def finish() -> None:
        failed = next((f._error for f in futures if f._error is not None), None)
        if failed is not None:
            everything.set_exception(failed)
        else:
            everything.set_result(list(futures))

    if not futures:
        finish()
    for future in futures:
        future._when_done(arrived)
    return everything


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of several futures, once all are there.

    Args:
        futures: those to wait for.
    """
    return [cast("Future[Any]", f).wait() for f in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
