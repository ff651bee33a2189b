"""Tensors where a number is wanted."""

import pytest

import torchgrad_jax as tg
from tests.differential import live_torch
from tests.expressions import table


@pytest.fixture(autouse=True, scope="module")
def _each_time():
    """Warnings that come once per process come each time, whichever test is first."""
    libraries = [m for m in (tg, live_torch()) if m is not None]
    for m in libraries:
        m.set_warn_always(True)
    yield
    for m in libraries:
        m.set_warn_always(False)


test_as_torch_does = pytest.mark.long(
    "torch.nn.functional.leaky_relu(-torch.ones(2), torch.tensor(2.0))",
    "torch.nn.functional.elu(-torch.ones(2, requires_grad=True), torch.tensor(0.5))",
)(table(__file__, "numbers.txt"))
