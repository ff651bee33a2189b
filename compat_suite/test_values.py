"""Results: type, dtype, shape, strides, values; 0-dim, empty, non-contiguous, every dtype."""

import pytest

from compat_suite.jobs import Job
from compat_suite.judge import Oracle
from compat_suite.oracles.jax_ref import JaxReference
from compat_suite.suite import expect_agreement, per_case


@pytest.mark.long(
    "floor_divide",
    "Tensor.__rpow__",
    "log2",
    "tan",
    "erfinv",
    "lgamma",
    "digamma",
    "std_mean",
    "median",
    "einsum",
    "tile",
    "scatter",
    "scatter_reduce",
    "nonzero_static",
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "fill",
    "nn.functional.binary_cross_entropy",
    "nn.functional.embedding_bag",
    "nn.functional.interpolate",
    "linalg.inv",
    "linalg.solve",
    "linalg.det",
    "linalg.slogdet",
    "linalg.cholesky",
    "linalg.qr",
    "linalg.lstsq",
    "linalg.ldl_factor",
    "linalg.ldl_factor_ex",
    "linalg.ldl_solve",
    "matrix_exp",
    "histogramdd",
)
@per_case("value", most=4)
def test_as_torch(jobs: list[Job], torch_oracle: Oracle) -> None:
    expect_agreement(jobs, torch_oracle)


@pytest.mark.long(
    "trunc", "isnan", "logical_and", "amin", "any", "logsumexp", "softmax", "fft.rfft", "fft.fft2", "fft.fftn"
)
@per_case("value", lambda case: case.jax is not None, most=2)
def test_as_jax(jobs: list[Job]) -> None:
    """Where a case names JAX's function of the same meaning: an opinion independent of torch's."""
    expect_agreement(jobs, JaxReference())
