"""Judges jobs: our result against an oracle's, in the light of the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from . import ledger as ledgers
from .compare import differences, snippet
from .execute import Result, run
from .jobs import Job
from .libs import ours

LAYOUT = re.compile(r"(result \d+: )?(stride|is_view): ")


class Oracle(Protocol):
    """A source of right answers."""

    name: str
    """For people, with a version."""
    kind: str
    """For the ledger: torch, jax or numeric."""
    attributes: bool
    """Whether it knows more than numbers."""

    def result(self, job: Job) -> Result | None:
        """What a job should show; None where this oracle has nothing to say."""
        ...


@runtime_checkable
class Projecting(Protocol):
    """An oracle that knows a part of a result only."""

    def shown(self, job: Job, got: Result) -> Result:
        """That part of ours."""
        ...


@dataclass(frozen=True)
class Verdict:
    """How a job ended."""

    job: Job
    status: str
    """passed, failed, xfailed, stale (an xfail that passes), skipped, or silent (no opinion)."""
    texts: tuple[str, ...] = ()
    oracle: str = ""

    @property
    def bad(self) -> bool:
        """Whether the run fails."""
        return self.status in ("failed", "stale")

    @property
    def listed(self) -> bool:
        """Whether a report shows it: it fails the run, or differs as the ledger says."""
        return self.bad or bool(self.texts)

    @property
    def layout_only(self) -> bool:
        """Whether nothing but strides, or being a view, differs: numbers and types are right."""
        return bool(self.texts) and all(LAYOUT.match(text) for text in self.texts)

    def report(self) -> str:
        """What differs and a program that shows it."""
        if self.status == "stale":
            return f"{self.job.id}\n  is in ledger/xfail.toml, but it agrees with {self.oracle} now: remove the entry"
        said = "".join(f"\n  {text}" for text in self.texts)
        code = "".join(f"\n    {line}" for line in snippet(self.job).splitlines())
        return f"{self.job.id}\n  differs from {self.oracle}:{said}\n  to reproduce:{code}"


def judge(job: Job, oracle: Oracle, ledger: ledgers.Ledger | None = None) -> Verdict:
    """Run one job and compare."""
    book = ledgers.current() if ledger is None else ledger
    if book.skipped(job.id, oracle.kind):
        return Verdict(job, "skipped")
    want = oracle.result(job)
    if want is None:
        return Verdict(job, "silent")
    met, got = run(ours(), job), run(ours(), job)
    found = tuple(changes(met, got))
    if isinstance(oracle, Projecting):
        got = oracle.shown(job, got)
    found += tuple(differences(job, got, want, oracle.attributes, getattr(oracle, "tolerance", None)))
    expected = book.expected_failure(job.id, oracle.kind)
    if expected is not None:
        return Verdict(job, "xfailed" if found else "stale", found, oracle.name)
    return Verdict(job, "failed" if found else "passed", found, oracle.name)


def changes(first: Result, second: Result) -> Iterator[str]:
    """How a repeated call differs from the first one, which reads its arguments and makes a plan.

    Forward results have to be the same to the last bit. Gradients agree to rounding, however a pass is run: of those
    the second ones are judged.
    """
    for name in ("kind", "error", "saved"):
        if getattr(first, name) != getattr(second, name):
            yield f"called again: {name} was {getattr(first, name)} and is {getattr(second, name)}"
    for n, (a, b) in enumerate(zip(first.parts, second.parts)):
        same = (a.value is None) is (b.value is None)
        if same and a.value is not None and b.value is not None:
            same = a.value.dtype == b.value.dtype and a.value.tobytes() == b.value.tobytes()
        if not same or replace(a, value=None) != replace(b, value=None):
            yield f"called again: result {n} was {a} and is {b}"


def judge_all(jobs: Iterable[Job], oracle: Oracle) -> list[Verdict]:
    """The verdicts that fail the run."""
    return [v for v in (judge(job, oracle) for job in jobs) if v.bad]
