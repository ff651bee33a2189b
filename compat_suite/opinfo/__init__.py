"""Torch's own table of operators and samples (`op_db`), run on both libraries.

    python -m compat_suite opinfo [--core] [--op NAME] [--samples N] [--jobs N] [--state FILE]

Live torch only. What was judged is kept in a JSON file, so that an interrupted run goes on where it
stopped; `--html` writes the same as a page.
"""

from __future__ import annotations

import functools
import json
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..core_ops import CORE_OPS
from ..saved_state import code_of
from .page import as_html, bar
from .runner import CHECKS, Runner
from .scope import out_of_scope
from .tally import summary

ROWS_PER_PROCESS = 60
"""A process that has compiled this many operators is replaced, which gives its memory back."""


@functools.cache
def table() -> tuple[Any, ...]:
    """All rows of torch's table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return tuple(op_db)


def label(info: Any) -> str:
    """``round.decimals_3``."""
    return info.name + ("." + info.variant_test_name if info.variant_test_name else "")


def chosen(args: Any) -> list[int]:
    """Numbers of the rows that a run looks at, in order."""
    rows = [i for i, info in enumerate(table()) if not out_of_scope(info)]
    if args.op:
        return [i for i in rows if table()[i].name in args.op or label(table()[i]) in args.op]
    if args.core:
        return sorted((i for i in rows if table()[i].name in CORE_OPS), key=lambda i: CORE_OPS.index(table()[i].name))
    return rows


Job = tuple[int, int, int, tuple[str, ...]]
"""The number of a row, how many samples, the seed, and the checks."""


@functools.lru_cache(maxsize=1)
def _runner(samples: int, seed: int, checks: tuple[str, ...]) -> Runner:
    import torch

    torch.set_num_threads(1)
    return Runner(samples, seed, checks)


def judge(job: Job) -> dict[str, Any]:
    """Scores of one row, by check."""
    number, *settings = job
    began = time.time()
    scores = _runner(*settings).run(table()[number])
    return {c: asdict(s) for c, s in scores.items()} | {"seconds": round(time.time() - began, 1)}


def judged(jobs: list[Job], processes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows and their scores as they become known."""
    if processes < 2:
        yield from ((job[0], judge(job)) for job in jobs)
        return
    waiting = deque(jobs)
    results: SimpleQueue[tuple[int, dict[str, Any]] | None] = SimpleQueue()
    with ThreadPoolExecutor(processes) as keepers:
        kept = [keepers.submit(_keep, waiting, results) for _ in range(processes)]
        try:
            for _ in kept:
                while (result := results.get()) is not None:
                    yield result
        finally:
            waiting.clear()  # an interrupted run waits for what has begun, and for no more
        for keeper in kept:
            keeper.result()


def _keep(waiting: deque[Job], results: SimpleQueue[tuple[int, dict[str, Any]] | None]) -> None:
    """Have waiting rows judged, by one process after another.

    An executor can replace its processes by itself, but in Python 3.11 it then stops at times (gh-115634).
    """
    try:
        while waiting:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                for _ in range(ROWS_PER_PROCESS):
                    try:
                        job = waiting.popleft()
                    except IndexError:
                        return
                    results.put((job[0], process.submit(judge, job).result()))
    finally:
        results.put(None)


def main(args: Any) -> int:
    """Judge what the state file does not have yet, then print the table."""
    path = Path(args.state)
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    code = code_of("torchgrad_jax", "compat_suite")  # verdicts about other code are judged again
    settings = {"samples": args.samples, "seed": args.seed, "code": code}
    if state.pop("settings", settings) != settings:
        state = {}
    checks = tuple(args.checks) if args.checks else CHECKS
    numbers = chosen(args)
    names = {i: label(table()[i]) for i in numbers}
    todo = [i for i in numbers if args.redo or args.op or not {*checks} <= {*state.get(names[i], ())}]
    jobs: list[Job] = [(i, args.samples, args.seed, checks) for i in todo]
    began = time.time()
    for n, (number, row) in enumerate(judged(jobs, args.jobs)):
        name = names[number]
        state[name] = {**state.get(name, {}), **row}
        if not args.op:
            _save(path, {"settings": settings, **state})
        bar.clear()
        print(f"[{n + 1}/{len(todo)} {time.time() - began:.0f}s] {name}: {_marks(row)}", flush=True)
        for line in _complaints(row):
            print(line)
        bar.show(n + 1, len(todo), name, time.time() - began)
    bar.clear()
    kept = {names[i]: state[names[i]] for i in numbers if names[i] in state}
    if args.html:
        Path(args.html).write_text(as_html(kept), encoding="utf-8")
    return summary(kept)


def _save(path: Path, state: dict[str, Any]) -> None:
    """Replace the state file in one step: an interruption leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1))
    fresh.replace(path)


def _marks(row: dict[str, Any]) -> str:
    cells = ((c, row[c]) for c in CHECKS if c in row)
    return " ".join(f"{c}:{s['passed']}/{s['passed'] + s['failed']}" for c, s in cells if s["passed"] + s["failed"])


def _complaints(row: dict[str, Any]) -> Iterable[str]:
    for c in CHECKS:
        if c in row and row[c]["failed"]:
            yield f"    {c}: {row[c]['first']}"
            for reason, n in list(row[c]["reasons"].items())[1:4]:
                yield f"        {n} x {reason}"
