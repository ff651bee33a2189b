"""Where warnings point to: at the line of the program, however deep they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torchgrad_jax as tg
from tests.differential import caught_warnings


def _resized() -> None:
    tg.add(tg.ones(3), 1, out=tg.ones(2))


def _resized_draw() -> None:
    tg.bernoulli(tg.ones(4), out=tg.ones(2))


def _hook_without_inputs() -> None:
    net = tg.nn.Linear(2, 2)
    net.register_full_backward_hook(lambda *_: None)
    net(tg.ones(1, 2)).sum().backward()


def _transposed() -> None:
    _ = tg.ones(2, 1, 2).T


def _deprecated_kernel() -> None:
    tg.triangular_solve(tg.ones(2, 1), tg.eye(2))


def _copied() -> None:
    tg.tensor(tg.ones(2))


def _looked_for_a_gradient() -> None:
    _ = (tg.ones(2, requires_grad=True) * 2).grad


def _composed() -> None:
    tg.meshgrid(tg.ones(2), tg.ones(2))


def _stepped_too_early() -> None:
    opt = tg.optim.SGD([tg.ones(1, requires_grad=True)], 0.1)
    tg.optim.lr_scheduler.StepLR(opt, 1).step()


PROGRAMS = [
    _resized,
    _resized_draw,
    _hook_without_inputs,
    _transposed,
    _deprecated_kernel,
    _copied,
    _looked_for_a_gradient,
    _composed,
    _stepped_too_early,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_warnings_point_at_the_program(program: Any) -> None:
    with caught_warnings(tg) as caught:
        program()
    (told,) = caught
    first = program.__code__.co_firstlineno
    assert Path(told.filename) == Path(__file__)
    assert first < told.lineno <= first + 4


def test_all_warnings_go_the_same_way() -> None:
    """`warn.to_user` finds the line; a level of the stack would be wrong as soon as a caller gets a caller."""
    package = Path(tg.__file__).parent
    others = [path for path in package.rglob("*.py") if "warnings.warn(" in path.read_text("utf-8")]
    assert others == [package / "_core" / "errors" / "warn.py"]
