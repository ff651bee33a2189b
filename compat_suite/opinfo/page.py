"""The report as a page, and a progress bar for terminals."""

from __future__ import annotations

import html
import shutil
import sys
from typing import Any

from .runner import CHECKS
from .tally import GOALS, columns, known

STYLE = """
body { font: 14px/1.4 sans-serif; margin: 2em; } table { border-collapse: collapse; }
td, th { border: 1px solid #ccc; padding: 2px 8px; text-align: right; } td:first-child { text-align: left; }
.good { background: #dfd; } .bad { background: #fdd; } .known { background: #ffc; } pre { white-space: pre-wrap; }
"""


def as_html(state: dict[str, Any]) -> str:
    """Totals, then one row per operator; a differing cell links to what differs."""
    totals = "".join(
        f"<tr><td>{c.check}</td><td>{c.passed}/{c.samples}</td><td>{c.whole}/{c.operators}</td>"
        f"<td>{c.share:.1f}%</td><td>{c.known}</td><td>{GOALS.get(c.check, '')}</td></tr>"
        for c in columns(state)
    )
    head = "".join(f"<th>{c}</th>" for c in CHECKS)
    body = "".join(
        f"<tr><td>{html.escape(name)}</td>" + "".join(_cell(name, c, row.get(c)) for c in CHECKS) + "</tr>"
        for name, row in sorted(state.items())
    )
    notes = "".join(
        f'<h3 id="{html.escape(f"{name} {c}")}">{html.escape(name)}: {c}</h3><pre>{html.escape(_reasons(row[c]))}</pre>'
        for name, row in sorted(state.items())
        for c in CHECKS
        if c in row and row[c]["failed"]
    )
    return (
        f"<!doctype html><meta charset=utf-8><title>op_db conformance</title><style>{STYLE}</style>"
        "<h1>torch's operator table, judged against live torch</h1>"
        "<table><tr><th>check</th><th>samples</th><th>operators</th><th>share</th><th>in the ledger</th>"
        f"<th>goal</th></tr>{totals}</table><h2>Operators</h2>"
        f"<table><tr><th>operator</th>{head}</tr>{body}</table><h2>Differences</h2>{notes}\n"
    )


def _cell(name: str, check: str, cell: dict[str, Any] | None) -> str:
    every = cell["passed"] + cell["failed"] if cell else 0
    if not cell or not every:
        return "<td></td>"
    text = f"{cell['passed']}/{every}"
    if not cell["failed"]:
        return f'<td class="good">{text}</td>'
    kind = "known" if known(check, name) else "bad"
    return f'<td class="{kind}"><a href="#{html.escape(f"{name} {check}")}">{text}</a></td>'


def _reasons(cell: dict[str, Any]) -> str:
    return "\n".join([cell["first"], *(f"{n} x {text}" for text, n in cell["reasons"].items())])


class _Bar:
    """A line at the bottom of a terminal; nothing anywhere else."""

    def show(self, done: int, every: int, name: str, seconds: float) -> None:
        """Draw it."""
        if not sys.stderr.isatty():
            return
        left = seconds / done * (every - done)
        tail = f" {done}/{every}, {left / 60:.0f} min left  {name}"
        width = max(10, min(40, shutil.get_terminal_size().columns - len(tail) - 3))
        full = int(done / every * width)
        print(f"\r\033[K[{'#' * full}{'.' * (width - full)}]{tail}", end="", file=sys.stderr)

    def clear(self) -> None:
        """Make room for a line of text."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)


bar = _Bar()
