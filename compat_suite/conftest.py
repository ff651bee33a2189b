"""Chooses the oracle: live torch where it is installed and `--oracle` allows it, else what is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from compat_suite.judge import Oracle
from compat_suite.libs import torch_installed


@pytest.fixture(scope="session")
def torch_oracle(request: pytest.FixtureRequest) -> Oracle:
    """The oracle that speaks for torch."""
    if request.config.getoption("--oracle") != "recorded" and torch_installed():
        from compat_suite.oracles.torch_live import LiveTorch

        return LiveTorch()
    from compat_suite.oracles.torch_recorded import RecordedTorch

    return RecordedTorch()


@pytest.fixture(scope="module", autouse=True)
def forget_kernels() -> Iterator[None]:
    """Each file makes thousands of kernels that no other file needs: a few GB if they all stayed."""
    yield
    jax.clear_caches()
