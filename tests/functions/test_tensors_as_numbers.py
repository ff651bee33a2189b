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


test_as_torch_does = table(__file__, "numbers.txt")
