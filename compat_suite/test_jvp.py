"""Forward mode: tangents of results."""

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.suite import expect_agreement, per_case


@per_case("jvp", most=1)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)
