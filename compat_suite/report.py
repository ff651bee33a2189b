"""Runs the suite outside of pytest and reports per operator and check."""

from __future__ import annotations

import itertools
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bar
from .cases import CASES, COVERED
from .explain import answers_to
from .jobs import CHECK_TITLES, Job, all_jobs
from .judge import Oracle, Verdict, judge
from .libs import judge_library
from .oracles import choose
from .page import operator_row, page
from .saved_state import SavedState, code_of

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
    state = _state(args, oracle, jobs)
    if state.rows:
        print(f"{len(state.rows)} of them are judged already, in {args.state}")
    if args.minutes:
        # A part of the run is a sample of all.
        jobs.sort(key=lambda job: zlib.crc32(job.id.encode()))
    within = (lambda _: time.time() < began + 60 * args.minutes) if args.minutes else lambda _: True
    # A run that was interrupted reports in the same order.
    place = {job.id: n for n, job in enumerate(jobs)}
    verdicts = sorted(itertools.takewhile(within, progress(jobs, oracle, state)), key=lambda v: place[v.job.id])
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
        answers = {v.job.id: "\n\n".join(answers_to(v.job, oracle)) for v in verdicts if v.listed}
        Path(args.html).write_text(as_html(table, verdicts, oracle, answers), encoding="utf-8")
    return 1 if any(v.bad for v in verdicts) else 0


def _state(args: Any, oracle: Oracle, jobs: list[Job]) -> SavedState:
    """What an earlier call has judged of these jobs: same choice of cases, same judge, same code."""
    if args.state is None:
        return SavedState(None, "")
    ids = zlib.crc32("\n".join(job.id for job in jobs).encode())
    about = f"{len(jobs)} jobs ({ids:08x}) of {args.library}, judged by {oracle.name}"
    return SavedState(args.state, about, code_of(args.library, "compat_suite"))


def _wanted(job: Job, args: Any) -> bool:
    if args.family and job.case.family not in args.family:
        return False
    if args.op and not {job.case.op, job.case.core, job.case.op.removeprefix("torch.")} & set(args.op):
        return False
    return not args.checks or job.check in args.checks


def progress(jobs: list[Job], oracle: Oracle, state: SavedState) -> Iterator[Verdict]:
    """Judge each job that the state does not have, with a bar on a terminal."""
    bad, began, before = 0, time.time(), len(state.rows)
    by_id = {job.id: job for job in jobs}
    for saved in state.rows:
        verdict = _loaded(by_id[saved], state.rows[saved])
        bad += verdict.bad
        yield verdict
    todo = [job for job in jobs if job.id not in state.rows]
    try:
        for n, job in enumerate(todo, 1):
            verdict = judge(job, oracle)
            state.rows[job.id] = [verdict.status, verdict.texts, verdict.oracle]
            bad += verdict.bad
            yield verdict
            state.keep()
            if n % 10 == 0 or n == len(todo):
                bar.draw(before + n, len(jobs), bad, job.case.core, began, before)
    finally:
        bar.clear()
        state.keep(now=True)


def _loaded(job: Job, row: Sequence[Any]) -> Verdict:
    status, texts, oracle = row
    return Verdict(job, status, tuple(texts), oracle)


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
        {"id": v.job.id, "op": v.job.case.core, "check": v.job.check, "status": v.status, "texts": list(v.texts)}
        for v in verdicts
    ]
    path.write_text(json.dumps({"oracle": oracle.name, "jobs": rows}, indent=1) + "\n", encoding="utf-8")


def as_html(table: Table, verdicts: list[Verdict], oracle: Oracle, answers: Mapping[str, str]) -> str:
    """One page: totals, what differs with filters and with all answers by id, and the table of operators."""
    areas = {v.job.case.core: v.job.case.family for v in verdicts}
    head = "".join(f"<th>{title}</th>" for title in COLUMNS.values())
    rows = [
        operator_row(core, areas[core], "".join(_cell(cells.get(c)) for c in COLUMNS)) for core, cells in table.items()
    ]
    totals = as_text(table)
    operators = f"<tr><th></th>{head}</tr>{''.join(rows)}"
    return page(oracle.name, totals[totals.rindex("check ") :], operators, verdicts, answers)


def _cell(cell: Counter[str] | None) -> str:
    if cell is None:
        return "<td></td>"
    kind = "bad" if cell["failed"] or cell["stale"] else "good" if agreed(cell) else "known"
    return f"<td class={kind}>{cell['passed']}/{cell.total()}</td>"
