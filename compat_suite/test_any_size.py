"""What is traced once for any sizes: the same bits as a trace of the sizes at hand, for every operator."""

import pytest

from compat_suite.any_size import differences
from compat_suite.templates import calls_of_cases


@pytest.mark.parametrize("jobs", [pytest.param(jobs, id=name) for name, jobs in calls_of_cases()])
def test_templates_give_what_a_trace_by_shape_gives(jobs) -> None:
    found, _ = differences(jobs)
    assert not found, "\n".join(found[:10])
