"""Known differences: a strict ledger. An entry that passes, or that matches nothing, fails the run.

`ledger/xfail.toml` lists what differs, `ledger/skip.toml` what must not even run (crashes, true
nondeterminism). An entry's id is a job's id, or a pattern with `*` all of whose matches differ.
"""

from __future__ import annotations

import datetime
import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent / "ledger"
KINDS = ("missing", "differs", "upstream")
"""Not there yet; there, but different; a defect of JAX, or of the oracle."""
ORACLES = ("torch", "jax", "numeric", "any")
FIELDS = {"id", "oracle", "kind", "reason", "date"}


class LedgerError(ValueError):
    """An entry that is not what an entry has to be."""


@dataclass(frozen=True)
class Entry:
    """One known difference."""

    id: str
    oracle: str
    kind: str
    reason: str
    date: datetime.date

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The id, where `*` stands for any text."""
        return re.compile(".*".join(re.escape(part) for part in self.id.split("*")))

    def matches(self, job_id: str, oracle: str) -> bool:
        """Whether the entry speaks of this job under this oracle."""
        return self.oracle in (oracle, "any") and self.pattern.fullmatch(job_id) is not None


def parse(data: Mapping[str, Any], where: str) -> tuple[Entry, ...]:
    """Entries of a loaded file; every field is there and has its type."""
    if set(data) - {"entry"}:
        raise LedgerError(f"{where}: only [[entry]] tables, not {sorted(set(data) - {'entry'})}")
    out: list[Entry] = []
    for n, row in enumerate(data.get("entry", [])):
        at = f"{where}, entry {n + 1} ({row.get('id', 'no id')})"
        if set(row) != FIELDS:
            raise LedgerError(f"{at}: fields {sorted(row)}, want {sorted(FIELDS)}")
        if row["kind"] not in KINDS or row["oracle"] not in ORACLES:
            raise LedgerError(f"{at}: kind is one of {KINDS}, oracle one of {ORACLES}")
        if not isinstance(row["date"], datetime.date) or not all(
            isinstance(row[f], str) and row[f].strip() for f in ("id", "reason")
        ):
            raise LedgerError(f"{at}: date is a date; id and reason are text")
        out.append(Entry(**row))
    twice = {e.id for e in out if sum(e.id == f.id and e.oracle == f.oracle for f in out) > 1}
    if twice:
        raise LedgerError(f"{where}: entered twice: {sorted(twice)}")
    return tuple(out)


@dataclass(frozen=True)
class Ledger:
    """Both files."""

    xfail: tuple[Entry, ...] = ()
    skip: tuple[Entry, ...] = ()

    def expected_failure(self, job_id: str, oracle: str) -> Entry | None:
        """The entry that says that this job differs."""
        return next((e for e in self.xfail if e.matches(job_id, oracle)), None)

    def skipped(self, job_id: str, oracle: str) -> Entry | None:
        """The entry that says that this job must not run."""
        return next((e for e in self.skip if e.matches(job_id, oracle)), None)

    def stale(self, jobs: Iterable[tuple[str, str]]) -> list[Entry]:
        """Entries that match none of the (job id, oracle) pairs."""
        pairs = list(jobs)
        return [e for e in (*self.xfail, *self.skip) if not any(e.matches(*pair) for pair in pairs)]


def load(home: Path = HOME) -> Ledger:
    """Read and check both files."""
    xfail, skip = (parse(tomllib.loads((home / f).read_text(encoding="utf-8")), f) for f in ("xfail.toml", "skip.toml"))
    return Ledger(xfail, skip)


@functools.cache
def current() -> Ledger:
    """The ledger of this checkout."""
    return load()
