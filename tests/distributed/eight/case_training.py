"""Trainings over eight devices are those of one device: every way to spread a network, eager and compiled."""

import functools
from typing import Any

import numpy as np
import pytest

from tests.distributed.eight.training import WAYS, plain, trained


@functools.cache
def one_device() -> dict[str, Any]:
    return trained(plain, compiled=False)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("way", list(WAYS))
def test_as_on_one_device(way: str, compiled: bool):
    want, got = one_device(), trained(WAYS[way], compiled)
    assert want.keys() == got.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-8, atol=1e-12, err_msg=name)
