"""What the tests of distributions need around them."""

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def _validation():
    """Live torch checks arguments, as it does at its start.

    The first function that it compiles switches these checks off for the rest of the process.
    """
    if importlib.util.find_spec("torch") is not None:
        from torch.distributions import Distribution

        Distribution.set_default_validate_args(True)
