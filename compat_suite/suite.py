"""What the test files share: one test per case and check, whose report names every job that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from .case import Case
from .cases import CASES
from .jobs import Job, jobs_of
from .judge import Oracle, judge_all


def per_case(check: str, keep: Callable[[Case], bool] = lambda case: True, most: int | None = None) -> Any:
    """Parametrize over the cases that have jobs of a check, and take at most so many jobs of each, from all over.

    `make conformance` runs every job; `test_points.py` has those of the family "points".
    """
    seen: Counter[str] = Counter()
    params = []
    for case in CASES:
        jobs = [job for job in jobs_of(case) if job.check == check]
        if jobs and case.family != "points" and keep(case):
            seen[case.op] += 1
            params.append(pytest.param(_spread(jobs, most), id=_name(case, seen[case.op])))
    return pytest.mark.parametrize("jobs", params)


def _spread(jobs: list[Job], most: int | None) -> list[Job]:
    if most is None or len(jobs) <= most:
        return jobs
    return [jobs[k * len(jobs) // most] for k in range(most)]


def _name(case: Case, n: int) -> str:
    return case.op.removeprefix("torch.") + (f"-{n}" if n > 1 else "")


def expect_agreement(jobs: list[Job], oracle: Oracle) -> None:
    """Fail with everything that differs."""
    bad = judge_all(jobs, oracle)
    if bad:
        pytest.fail(
            "\n\n".join(v.report() for v in bad[:10]) + (f"\n\n... {len(bad)} in all" if len(bad) > 10 else ""),
            pytrace=False,
        )
