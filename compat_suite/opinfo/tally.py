"""Totals over the judged rows of torch's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ledger import current
from .runner import CHECKS

GOALS = {"forward": 97.0, "grad": 97.0, "gradgrad": 95.0, "jvp": 95.0, "vmap": 90.0, "errors": 85.0}
"""The share of operators, in percent, all of whose samples agree; the rest stands in the ledger."""


@dataclass(frozen=True)
class Column:
    """One check over all operators."""

    check: str
    passed: int
    samples: int
    whole: int
    operators: int
    known: int

    @property
    def share(self) -> float:
        """Percent of operators that agree entirely."""
        return 100 * self.whole / self.operators

    @property
    def met(self) -> bool:
        """The goal is reached, and whatever differs is in the ledger."""
        if self.check not in GOALS:
            return True
        return self.share >= GOALS[self.check] and self.whole + self.known == self.operators


def known(check: str, name: str) -> bool:
    """Whether the ledger has this difference, with its reason."""
    return current().expected_failure(f"opinfo {check} {name}", "torch") is not None


def stale(state: dict[str, Any]) -> list[str]:
    """Entries of the ledger about what was judged here, all of which agreed."""
    judged = {
        f"opinfo {check} {name}": cell["failed"]
        for name, row in state.items()
        for check, cell in row.items()
        if check in CHECKS and cell["passed"] + cell["failed"]
    }
    out = []
    for entry in current().xfail:
        cells = [failed for job, failed in judged.items() if entry.matches(job, "torch")]
        if cells and not any(cells):
            out.append(entry.id)
    return out


def columns(state: dict[str, Any]) -> list[Column]:
    """Totals by check; checks that nothing was judged by are left out."""
    found = []
    for check in CHECKS:
        cells = {name: row[check] for name, row in state.items() if check in row}
        cells = {name: c for name, c in cells.items() if c["passed"] + c["failed"]}
        if not cells:
            continue
        bad = [name for name, c in cells.items() if c["failed"]]
        passed = sum(c["passed"] for c in cells.values())
        every = passed + sum(c["failed"] for c in cells.values())
        listed = sum(known(check, name) for name in bad)
        found.append(Column(check, passed, every, len(cells) - len(bad), len(cells), listed))
    return found


def summary(state: dict[str, Any]) -> int:
    """Print how many samples, and how many operators entirely, pass each check; 1 if a goal is missed."""
    print(f"\n{'check':10} {'samples':>22} {'operators':>20} {'in the ledger':>14} {'goal':>6}")
    rows = columns(state)
    for c in rows:
        samples = f"{c.passed}/{c.samples} = {100 * c.passed / c.samples:.1f}%"
        whole = f"{c.whole}/{c.operators} = {c.share:.1f}%"
        goal = f"{GOALS[c.check]:.0f}%" if c.check in GOALS else ""
        print(f"{c.check:10} {samples:>22} {whole:>20} {c.known or '':>14} {goal:>6}")
    if not any(c.check == "vmap" for c in rows):
        print("vmap: not judged, torchgrad_jax.func.vmap is missing")
    passing = stale(state)
    for entry in passing:
        print(f"the ledger has {entry!r}, which agrees: remove the entry")
    return 0 if all(c.met for c in rows) and not passing else 1
