"""First gradients, `requires_grad` and node names: against torch, and against finite differences."""

import pytest

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.oracles.numeric import Numeric
from compat_suite.suite import expect_agreement, per_case


@pytest.mark.long(
    "maximum",
    "sign",
    "prod",
    "median",
    "cumprod",
    "logcumsumexp",
    "Tensor.view",
    "sort",
    "nn.functional.relu6",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose1d",
    "nn.functional.embedding_bag",
    "nn.functional.grid_sample",
    "nn.functional.scaled_dot_product_attention",
    "linalg.inv",
    "linalg.solve",
    "linalg.solve_triangular",
    "linalg.det",
    "linalg.slogdet",
    "linalg.cholesky",
    "linalg.qr",
    "linalg.svd",
    "linalg.pinv",
    "linalg.lstsq",
    "matrix_exp",
    "fft.fft",
    "fft.irfft",
    "combinations",
    "stft",
)
@per_case("grad", most=2)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)


@pytest.mark.long(
    "nn.functional.grid_sample",
    "linalg.solve",
    "linalg.det",
    "linalg.slogdet",
    "linalg.cholesky",
    "linalg.lstsq",
    "matrix_exp",
    "nn.functional.linear_cross_entropy",
)
@per_case("grad", lambda case: case.family != "random", most=1)
def test_as_finite_differences(jobs: list[Job]) -> None:
    """An opinion independent of torch's, which also catches what torch and we have in common."""
    expect_agreement(jobs, Numeric())
