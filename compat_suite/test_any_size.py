"""What is traced once for any sizes: the same bits as a trace of the sizes at hand, for every operator."""

import pytest

from compat_suite.any_size import differences
from compat_suite.cases import CASES
from compat_suite.jobs import jobs_of
from compat_suite.suite import _name, _spread


def _jobs():
    for n, case in enumerate(CASES):
        checks = {check: [j for j in jobs_of(case) if j.check == check] for check in ("value", "grad", "second", "jvp")}
        chosen = [
            job for check, jobs in checks.items() for job in _spread(jobs, 2 if check in ("value", "grad") else 1)
        ]
        if chosen:
            yield pytest.param(chosen, id=f"{_name(case, 1)}-{n}")


@pytest.mark.parametrize("jobs", [*_jobs()])
def test_templates_give_what_a_trace_by_shape_gives(jobs) -> None:
    found, _ = differences(jobs)
    assert not found, "\n".join(found[:10])
