"""Bad shapes, dtypes, dims and indices: torch's exception types, and its text where users match on it."""

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.suite import expect_agreement, per_case


@per_case("error")
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)


@per_case("refused")
def test_dtypes_that_torch_refuses(jobs: list[Job], torch_oracle: Oracle) -> None:
    """`run` finds those that only this package refuses: that takes as long as all calls that are taken."""
    results = [torch_oracle.result(job) for job in jobs]
    expect_agreement([job for job, result in zip(jobs, results) if result and result.error], torch_oracle)
