"""Torch's own tables of layers and optimizers (`module_db`, `optim_db`), played on both libraries.

    python -m compat_suite modules [--name NAME] [--only layers|optimizers] [--samples N] [--jobs N]

Live torch only. Every sample is built and run from the same seed; what differs is printed at once and
counted in the table at the end.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

from ..ledger import current
from ..opinfo.runner import Score
from .layers import CHECKS as LAYER_CHECKS, Layers
from .optimizers import CHECKS as OPTIMIZER_CHECKS, Optimizers

CHECKS = (*LAYER_CHECKS, *OPTIMIZER_CHECKS)


ROWS_PER_PROCESS = 12
"""A process that has compiled this many rows is replaced, which gives its memory back."""


@functools.cache
def tables() -> dict[str, tuple[Any, ...]]:
    """Torch's rows by table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
        from torch.testing._internal.common_optimizers import optim_db
    return {"layers": tuple(module_db), "optimizers": tuple(optim_db)}


Job = tuple[str, int, int, int]
"""A table, the number of a row, how many samples, the seed."""


def chosen(args: Any) -> list[tuple[str, Job]]:
    """Rows by name, as jobs."""
    return [
        (info.name, (table, i, args.samples, args.seed))
        for table, rows in tables().items()
        if args.only in (None, table)
        for i, info in enumerate(rows)
        if not args.name or info.name.rpartition(".")[2] in args.name
    ]


def judge(job: Job) -> dict[str, Score]:
    """Scores of one row, by check."""
    import torch

    torch.set_num_threads(1)
    table, number, samples, seed = job
    player = (Layers if table == "layers" else Optimizers)(samples, seed)
    return player.run(tables()[table][number])


def results(args: Any) -> Iterator[tuple[str, dict[str, Score]]]:
    """Rows by name, with their scores, as they become known."""
    jobs = chosen(args)
    if len(jobs) <= ROWS_PER_PROCESS and args.jobs < 2:
        yield from ((name, judge(job)) for name, job in jobs)
        return
    with get_context("spawn").Pool(args.jobs, maxtasksperchild=ROWS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(_judge_named, jobs, chunksize=1)


def _judge_named(job: tuple[str, Job]) -> tuple[str, dict[str, Score]]:
    return job[0], judge(job[1])


def known(name: str, check: str) -> bool:
    """Whether the ledger has this difference, with its reason."""
    return current().expected_failure(f"modules {check} {name}", "torch") is not None


def main(args: Any) -> int:
    """Play all samples; 1 where something differs that the ledger does not have."""
    began = time.time()
    total: dict[str, list[int]] = {c: [0, 0, 0] for c in CHECKS}
    unknown = 0
    for name, scores in results(args):
        for check, score in scores.items():
            cell = total[check]
            cell[0] += score.passed
            cell[1] += score.passed + score.failed
            if not score.failed:
                continue
            listed = known(name, check)
            cell[2] += score.failed if listed else 0
            unknown += not listed
            if not listed:
                _complain(name, check, score)
        print(".", end="", file=sys.stderr, flush=True)
    print(f"\n{'check':12} {'samples':>16} {'in the ledger':>14}")
    for check, (passed, every, listed) in total.items():
        if every:
            share = f"{passed}/{every}"
            print(f"{check:12} {share:>16} {listed or '':>14}")
    print(f"{time.time() - began:.0f} s")
    return 1 if unknown else 0


def _complain(name: str, check: str, score: Score) -> None:
    every = score.passed + score.failed
    print(f"{name} {check}: {score.failed} of {every} differ: {score.first}", flush=True)
    for reason, n in list(score.reasons.items())[1:4]:
        print(f"    {n} x {reason}", flush=True)
