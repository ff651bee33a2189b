"""Trainings over eight devices are those of one device: every other way to spread a network, eager and compiled."""

import pytest

from tests.distributed.eight.training import FEW, WAYS, check


@pytest.mark.parametrize("way, compiled", [(w, c) for w in WAYS for c in (False, True) if (w, c) not in FEW])
def test_as_on_one_device(way: str, compiled: bool):
    check(way, compiled)
