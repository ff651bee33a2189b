"""Functions under kernels, which these tests call by themselves, run while JAX has 64-bit types."""

import pytest


@pytest.fixture(autouse=True)
def _as_in_a_kernel(jax_with_64_bits: None) -> None:
    pass
