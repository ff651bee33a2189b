"""`vmap` over each argument of each operator: what the calls give one by one, with their gradients."""

import pytest

from compat_suite.by_batch import RANDOM, REFUSED, TAKEN, differences, may_be_refused, ways
from compat_suite.cases import CASES
from compat_suite.jobs import BASE, Job
from compat_suite.judge import Oracle
from compat_suite.suite import per_case


@per_case("value", most=1)
def test_a_batch_gives_what_its_calls_give(jobs: list[Job], torch_oracle: Oracle) -> None:
    _compare(jobs, torch_oracle)


@per_case("value", most=3)
def test_batches_of_other_calls(jobs: list[Job], torch_oracle: Oracle) -> None:
    _compare(jobs, torch_oracle)


def _compare(jobs: list[Job], torch_oracle: Oracle) -> None:
    torch = getattr(torch_oracle, "lib", None)  # there is none where its answers are recorded
    for job in jobs:
        for way in ways(job) if job.dtype == BASE else ():
            try:
                found = differences(job, way)
            except RuntimeError as error:
                if not may_be_refused(job, way):
                    raise AssertionError(f"{job.call}, {way}") from error
                if torch is not None and job.case.op not in TAKEN:
                    with pytest.raises(RuntimeError):
                        differences(job, way, torch)
            else:
                assert not found, f"{job.call}, {way}: {found}"


def test_the_lists_name_operators_that_there_are() -> None:
    assert {*REFUSED, *RANDOM, *TAKEN} - {"Tensor.addbmm_"} <= {case.op for case in CASES}
