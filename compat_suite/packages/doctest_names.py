"""A plugin of pytest: the names that examples in docstrings take for granted."""

import importlib
from typing import Any

import pytest

NAMES = {"np": "numpy", "torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "kornia": "kornia"}


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.update({n: importlib.import_module(module) for n, module in NAMES.items()})
