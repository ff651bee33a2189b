"""Runs the suite outside of pytest and reports per operator and check."""

from __future__ import annotations

import itertools
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import bar
from .cases import CASES
from .core_ops import COVERED
from .jobs import CHECK_TITLES, Job, all_jobs
from .judge import Oracle, Verdict, judge
from .libs import judge_library, torch_installed
from .page import operator_row, page

COLUMNS = {"value": "forward", "layout": "layout", **CHECK_TITLES}
"""Columns of the table, and their titles."""
GOALS = {"value": 100.0, "grad": 100.0, "second": 98.0, "jvp": 98.0}
"""The share of calls, in percent, that has to agree."""


def main(args: Any) -> int:
    """`python -m compat_suite run`."""
    judge_library(args.library)
    oracle = choose(args.oracle)
    jobs = [job for job in all_jobs(CASES) if _wanted(job, args)]
    if not jobs:
        sys.exit("no case of that family, operator or check")
    print(f"oracle: {oracle.name}; {len(jobs)} jobs")
    began = time.time()
    if args.minutes:
        jobs.sort(
            key=lambda job: zlib.crc32(job.id.encode())
        )  # a part of the run is a sample of all
    within = (lambda _: time.time() < began + 60 * args.minutes) if args.minutes else lambda _: True
    verdicts = list(itertools.takewhile(within, progress(jobs, oracle)))
    if len(verdicts) < len(jobs):
        print(f"{len(verdicts)} of {len(jobs)} jobs in {args.minutes} minutes, a sample of all")
    for verdict in verdicts:
        if verdict.bad:
            print(verdict.report() + "\n")
    table = tabulate(verdicts)
    print(as_text(table))
    print(f"{time.time() - began:.0f} s")
    if args.json:
        write_json(Path(args.json), verdicts, oracle)
    if args.html:
        Path(args.html).write_text(as_html(table, verdicts, oracle), encoding="utf-8")
    return 1 if any(v.bad for v in verdicts) else 0


def choose(name: str) -> Oracle:
    """The oracle of a name: auto, live or recorded."""
    if name == "live" or (name == "auto" and torch_installed()):
        import torch

        from .oracles.torch_live import LiveTorch

        torch.set_num_threads(1)
        return LiveTorch()
    from .oracles.torch_recorded import RecordedTorch

    return RecordedTorch()


def _wanted(job: Job, args: Any) -> bool:
    if args.family and job.case.family not in args.family:
        return False
    if args.op and not {job.case.op, job.case.core, job.case.op.removeprefix("torch.")} & set(
        args.op
    ):
        return False
    return not args.checks or job.check in args.checks


def progress(jobs: list[Job], oracle: Oracle) -> Iterable[Verdict]:
    """Judge each job, with a bar on a terminal."""
    bad = 0
    for n, job in enumerate(jobs):
        verdict = judge(job, oracle)
        bad += verdict.bad
        yield verdict
        if n % 10 == 9 or n == len(jobs) - 1:
            bar.draw(n + 1, len(jobs), bad, job.case.core)
    bar.clear()


Table = dict[str, dict[str, Counter[str]]]


def tabulate(verdicts: Iterable[Verdict]) -> Table:
    """Counts of each status, by core operator and column.

    A result that differs in its strides, or in being a view, and in nothing else counts against the
    column of layouts and not against that of numbers.
    """
    table: Table = {}
    for v in verdicts:
        row = table.setdefault(v.job.case.core, {})
        status = "passed" if v.layout_only else v.status
        row.setdefault(v.job.check, Counter())[status] += 1
        if v.job.check in ("value", "grad"):
            row.setdefault("layout", Counter())[v.status if v.layout_only else "passed"] += 1
    return {core: table[core] for core in COVERED if core in table}


def agreed(cell: Counter[str]) -> bool:
    """Whether every job of a cell agrees; a known difference is still one."""
    return not (cell["failed"] or cell["xfailed"] or cell["stale"] or cell["skipped"])


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {100 * part / whole:.1f}%"


def as_text(table: Table) -> str:
    """Operators that do not agree everywhere, then the totals per check."""
    lines = []
    for core, row in table.items():
        worse = [f"{COLUMNS[c]} {n['passed']}/{n.total()}" for c, n in row.items() if not agreed(n)]
        if worse:
            lines.append(f"{core:45} {', '.join(worse)}")
    lines += ["", f"{'check':18} {'calls that agree':>24} {'operators that agree':>24} {'goal':>6}"]
    for check in COLUMNS:
        cells = [row[check] for row in table.values() if check in row]
        if not cells:
            continue
        calls, passed = sum(c.total() for c in cells), sum(c["passed"] for c in cells)
        whole = sum(map(agreed, cells))
        goal = f"{GOALS[check]:.0f}%" if check in GOALS else ""
        shares = f"{_share(passed, calls):>24} {_share(whole, len(cells)):>24}"
        lines.append(f"{COLUMNS[check]:18} {shares} {goal:>6}")
    return "\n".join(lines)


def write_json(path: Path, verdicts: list[Verdict], oracle: Oracle) -> None:
    """Every verdict, for other programs."""
    rows = [
        {
            "id": v.job.id,
            "op": v.job.case.core,
            "check": v.job.check,
            "status": v.status,
            "texts": list(v.texts),
        }
        for v in verdicts
    ]
    path.write_text(
        json.dumps({"oracle": oracle.name, "jobs": rows}, indent=1) + "\n", encoding="utf-8"
    )


def as_html(table: Table, verdicts: list[Verdict], oracle: Oracle) -> str:
    """One page: totals, what differs with filters, and the table of operators."""
    areas = {v.job.case.core: v.job.case.family for v in verdicts}
    head = "".join(f"<th>{title}</th>" for title in COLUMNS.values())
    rows = [
        operator_row(core, areas[core], "".join(_cell(cells.get(c)) for c in COLUMNS))
        for core, cells in table.items()
    ]
    totals = as_text(table)
    operators = f"<tr><th></th>{head}</tr>{''.join(rows)}"
    return page(oracle.name, totals[totals.rindex("check ") :], operators, verdicts)


def _cell(cell: Counter[str] | None) -> str:
    if cell is None:
        return "<td></td>"
    kind = "bad" if cell["failed"] or cell["stale"] else "good" if agreed(cell) else "known"
    return f"<td class={kind}>{cell['passed']}/{cell.total()}</td>"
