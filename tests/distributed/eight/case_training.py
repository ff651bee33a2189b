"""Trainings over eight devices are those of one device: one way of each kind."""

import pytest

from tests.distributed.eight.training import FEW, check


@pytest.mark.parametrize("way, compiled", sorted(FEW))
def test_as_on_one_device(way: str, compiled: bool):
    check(way, compiled)
