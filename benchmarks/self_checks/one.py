"""Runs some trainings in this process, and prints for each what its compiled functions did, as a line of JSON.

Compiled functions check themselves in one of three ways: every so many runs, as if the hundredth of the time were over
(`often`); when it is over, for some seconds of training (`budget`); or every so many runs because somebody asked
(`verify`). What differs between the first and the second is the clock alone.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .trainings import COMPILE_THEMSELVES, GROUPS, MARK


class Over(BaseException):
    """A training has run for as long as it may."""


class Observed:
    """What compiled functions do, and how they check themselves, counted while a training runs."""

    def __init__(self) -> None:
        self.functions: list[Any] = []
        self.checks = self.not_compared = 0
        self.alarms: list[str] = []
        self.in_checks = self.in_all = 0.0

    def wrap(self, step: Callable[..., Any], limit: float) -> Callable[..., Any]:
        """A step whose calls from the third one on are timed, until the limit is over."""
        count = 0

        def timed(*args: Any) -> Any:
            nonlocal count
            began = time.perf_counter()
            found = step(*args)
            count += 1
            if count > 2:
                self.in_all += time.perf_counter() - began
            if self.in_all > limit:
                raise Over
            return found

        return timed

    def row(self, name: str) -> dict[str, Any]:
        """What was counted."""
        programs = [e for f in self.functions for entries in f.entries.values() for e in entries]
        return {
            "name": name,
            "runs": sum(f.counts["run"] for f in self.functions),
            "eager": sum(f.counts["eager"] for f in self.functions),
            "traced": sum(f.counts["traced"] for f in self.functions),
            "reasons": [str(reason)[:200] for f in self.functions for reason in f.reasons],
            "checks": self.checks,
            "not_compared": self.not_compared,
            "alarms": self.alarms,
            "not_checked": sorted({e.clock.why_not for e in programs if e.clock.why_not}),
            "in_checks": self.in_checks,
            "in_all": self.in_all,
        }


@contextmanager
def observed(every: int) -> Iterator[Observed]:
    """Count what compiled functions do; where `every` is no 0, each is due after so many runs."""
    from torchgrad_jax._bridge.compile import verification
    from torchgrad_jax._bridge.compile.compiled import Compiled
    from torchgrad_jax._bridge.compile.program.entry import Clock

    seen, checking = Observed(), verification.Verification
    made, check, stale, again = Compiled.__init__, checking.check, checking._stale, Compiled.traced_again

    class Often(Clock):
        def has_run(self, began: float, ended: float) -> float:
            self._ran = math.inf
            return every - 1 if self.why_not is None else math.inf

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        seen.functions.append(self)

    def timed_check(self: Any, *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return check(self, *args)
        finally:
            seen.checks += 1
            seen.in_checks += time.perf_counter() - began

    def noted_stale(self: Any, difference: str) -> Any:
        seen.alarms.append(difference)
        return stale(self, difference)

    def counted_trace(self: Any, *args: Any) -> Any:
        program = again(self, *args)
        seen.not_compared += program is None
        return program

    changed = [
        (Compiled, "__init__", make),
        (checking, "check", timed_check),
        (checking, "_stale", noted_stale),
        (Compiled, "traced_again", counted_trace),
        *([(verification, "Clock", Often)] if every else []),
    ]
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in changed]
    for holder, name, new in changed:
        setattr(holder, name, new)
    try:
        yield seen
    finally:
        for holder, name, old in before:
            setattr(holder, name, old)


def main(group: str, way: str, number: str, steps: str, part: str, names: str = "", *sites: str) -> None:
    """Run the trainings of a group.

    Args:
        group: one of `GROUPS`.
        way: one of `WAYS`.
        number: after how many runs a program is checked, or for how many seconds each training runs.
        steps: how many steps each training takes.
        part: which trainings: what all their names have in them.
        names: the same, with one of these in their names, which have vertical bars between them.
        sites: where packages are installed.
    """
    sys.path += sites
    if way == "verify":
        os.environ["TORCHGRAD_JAX_VERIFY"] = number
    torch: Any = sys.modules.get("torch")
    if torch is None or "torchgrad_jax" not in str(torch.__file__):
        import torchgrad_jax as torch
    limit = float(number) if way == "budget" else math.inf
    warnings.simplefilter("ignore")
    for name, train in GROUPS[group]():
        if part not in name or not any(wanted in name for wanted in names.split("|")):
            continue
        with observed(int(number) if way == "often" else 0) as seen:
            wrapped = seen.wrap

            def wrap(step: Any, wrapped: Any = wrapped) -> Any:
                return wrapped(step if group in COMPILE_THEMSELVES else torch.compile(step), limit)

            error = ""
            try:
                train(torch, int(steps), wrap)
            except (Over, SystemExit):  # as some scripts end
                pass
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"[:300]
            print("\n" + MARK + json.dumps({**seen.row(name), "error": error}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
