"""First gradients, `requires_grad` and node names: against torch, and against finite differences."""

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.oracles.numeric import Numeric
from compat_suite.suite import expect_agreement, per_case


@per_case("grad", most=2)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)


@per_case("grad", lambda case: case.family != "random", most=1)
def test_as_finite_differences(jobs: list[Job]) -> None:
    """An opinion independent of torch's, which also catches what torch and we have in common."""
    expect_agreement(jobs, Numeric())
