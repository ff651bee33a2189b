"""Forward mode: tangents of results."""

import pytest

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.suite import expect_agreement, per_case


@pytest.mark.long(
    "median",
    "nn.functional.batch_norm",
    "nn.functional.embedding_bag",
    "linalg.solve",
    "linalg.det",
    "linalg.slogdet",
    "linalg.cholesky",
    "linalg.lstsq",
    "matrix_exp",
    "istft",
    "nn.functional.linear_cross_entropy",
)
@per_case("jvp", most=1)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)
