"""Gradients of gradients, with respect to inputs and cotangents."""

import pytest

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.suite import expect_agreement, per_case


@pytest.mark.long(
    "add",
    "remainder",
    "exp-2",
    "erf",
    "erfinv",
    "digamma",
    "prod",
    "norm",
    "median",
    "cumprod",
    "logcumsumexp",
    "index_put",
    "nn.functional.cosine_embedding_loss",
    "nn.functional.conv1d",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose1d",
    "nn.functional.conv_transpose2d",
    "nn.functional.layer_norm",
    "nn.functional.group_norm",
    "nn.functional.normalize",
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
    "linalg.eigh",
    "linalg.pinv",
    "linalg.pinv-2",
    "linalg.lstsq",
    "matrix_exp",
    "split_copy",
    "combinations",
    "masked.prod",
    "stft",
    "istft",
    "nn.functional.linear_cross_entropy",
)
@per_case("second", most=1)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)
