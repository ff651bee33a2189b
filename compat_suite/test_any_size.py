"""What is traced once for any sizes: the same bits as a trace of the sizes at hand, for every operator."""

import pytest

from compat_suite.any_size import differences
from compat_suite.cases import CASES
from compat_suite.jobs import jobs_of
from compat_suite.suite import _name, _spread


def _jobs():
    for n, case in enumerate(CASES):
        jobs = [[job for job in jobs_of(case) if job.check == check] for check in ("value", "grad")]
        chosen = [*_spread(jobs[0], 2), *_spread(jobs[1], 2)]
        if chosen:
            yield pytest.param(chosen, id=f"{_name(case, 1)}-{n}")


@pytest.mark.long
@pytest.mark.parametrize("jobs", [*_jobs()])
def test_templates_give_what_a_trace_by_shape_gives(jobs) -> None:
    found, _ = differences(jobs)
    assert not found, "\n".join(found[:10])
