"""Where warnings point to: at the line of the program, however deep they come from."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import torchgrad_jax as tg


def _resized() -> None:
    tg.add(tg.ones(3), 1, out=tg.ones(2))


def _resized_draw() -> None:
    tg.bernoulli(tg.ones(4), out=tg.ones(2))


def _hook_without_inputs() -> None:
    net = tg.nn.Linear(2, 2)
    net.register_full_backward_hook(lambda *_: None)
    net(tg.ones(1, 2)).sum().backward()


@pytest.mark.parametrize("program", [_resized, _resized_draw, _hook_without_inputs])
def test_warnings_point_at_the_program(program: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program()
    (told,) = caught
    first = program.__code__.co_firstlineno
    assert Path(told.filename) == Path(__file__)
    assert first < told.lineno <= first + 4
