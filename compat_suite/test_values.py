"""Results: type, dtype, shape, strides, values; 0-dim, empty, non-contiguous, every dtype."""

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.oracles.jax_ref import JaxReference
from compat_suite.suite import expect_agreement, per_case


@per_case("value", most=4)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)


@per_case("value", lambda case: case.jax is not None, most=2)
def test_as_jax(jobs: list[Job]) -> None:
    """Where a case names JAX's function of the same meaning: an opinion independent of torch's."""
    expect_agreement(jobs, JaxReference())
