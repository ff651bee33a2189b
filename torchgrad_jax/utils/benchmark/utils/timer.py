"""Timing statements: warmed up, repeated, and waited for."""

from __future__ import annotations

import enum
import statistics
import sys
import textwrap
import timeit
from collections.abc import Callable
from typing import Any

import jax

from .common import Measurement, TaskSpec, set_torch_threads

_LARGEST = 2**31 - 1


def timer() -> float:
    """Seconds on a clock, read once everything that was dispatched is there."""
    for array in jax.live_arrays():
        array.block_until_ready()
    return timeit.default_timer()


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def _dedented(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a statement has to be a string, got {type(text).__name__}")
    return textwrap.dedent(text.lstrip("\n")).rstrip() if "\n" in text else text


class Timer:
    """How long a statement takes.

    Differs from torch: only Python is timed, `num_threads` does not bind XLA, and there are no counts of
    instructions (`collect_callgrind`).

    Args:
        stmt: what is timed, as source text.
        setup: runs before it, outside of the time.
        global_setup: only for C++, which is not supported.
        timer: a clock.
        globals: names for the statement; `torch` is among them in any case.
        label, sub_label, description, env: names for tables.
        num_threads: told in tables.
        language: Python.

    Example:
        >>> from torchgrad_jax.utils.benchmark import Timer
        >>> m = Timer("x + x", "x = torch.ones(3)", label="sums").timeit(5)
        >>> m.number_per_run, len(m.times), m.title
        (5, 1, 'sums')
    """

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            if language in (Language.CPP, "cpp", "c++"):
                raise NotImplementedError("torch.utils.benchmark.Timer: only statements in Python are timed")
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        names = {"torch": sys.modules[__name__.partition(".")[0]]} | (globals or {})
        stmt, setup = _dedented(stmt), _dedented(setup)
        self._globals = names
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        # A clock that stands still would make rates infinite.
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of `number` runs, after a few to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Refused: `blocked_autorange` does it better."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Refused: `blocked_autorange` does it better."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """So many runs that reading the clock does not count."""
        overhead = statistics.median(self._timeit(0) for _ in range(5))
        number = 1
        while number * 10 <= _LARGEST:
            taken = self._timeit(number)
            if taken > min_run_time or (overhead <= taken * 1e-4 and taken >= min_run_time / 1000):
                break
            number *= 10
        return number

    def _loop(
        self,
        number: int,
        enough: Callable[[list[float]], bool],
        least: float,
        most: float | None,
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:
        """Times until they are enough, and together as long as asked for."""
        total, times = 0.0, list[float]()
        while (total < least) or (not enough(times)):
            taken = self._timeit(number)
            if callback:
                callback(number, taken)
            total += taken
            times.append(taken)
            if most and total > most:
                break
        return Measurement(number, times, self._task_spec)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Times of blocks of runs, long enough each for the clock not to matter.

        Args:
            callback: called with the number of runs and the time of each block.
            min_run_time: seconds that all blocks take together at least.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            return self._loop(number, lambda times: True, min_run_time, None, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Times of blocks of runs, until they agree.

        Args:
            threshold: the share of the median that the middle half of the times may span.
            min_run_time, max_run_time: seconds that all blocks take together.
            callback: called with the number of runs and the time of each block.
        """

        def enough(times: list[float]) -> bool:
            return len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            return self._loop(number, enough, min_run_time, max_run_time, callback)

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: instructions are not counted."""
        raise NotImplementedError(
            "torch.utils.benchmark.Timer.collect_callgrind is not supported: use timeit or blocked_autorange"
        )
