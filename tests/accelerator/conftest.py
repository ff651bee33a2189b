"""These tests are about a GPU or a TPU, and run on a CPU as well."""

from pathlib import Path

import pytest

import torchgrad_jax as torch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.accelerator)


@pytest.fixture(autouse=True)
def dev():
    """The accelerator, where there is one: tensors are made there unless a test says otherwise."""
    torch.set_default_device("xla")
    yield torch.get_default_device()
    torch.set_default_device(None)


@pytest.fixture
def elsewhere(dev):
    """The accelerator; tests of what is between it and the host are skipped without one."""
    if dev.type == "cpu":
        pytest.skip("about an accelerator beside the host")
    return dev


@pytest.fixture
def cuda(elsewhere):
    """A GPU."""
    if elsewhere.type != "cuda":
        pytest.skip("about torch.cuda")
    return elsewhere
