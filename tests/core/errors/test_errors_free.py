"""Errors that were caught leave nothing behind: no cycle of a traceback keeps tensors alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import torchgrad_jax as tg

F = tg.nn.functional
WRONG: Any = "a"


def _in_a_hook(x: Any) -> Any:
    def pack(t: Any) -> Any:
        raise KeyError("enough")

    with tg.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        return (x.requires_grad_() * 2).exp()


FAILING: dict[str, Callable[[Any], Any]] = {
    "shapes": lambda x: x @ tg.ones(5),
    "type": lambda x: x.sum(WRONG),
    "view": lambda x: x.view(7),
    "in place": lambda x: x.add_(tg.ones(4)),
    "in place type": lambda x: x.add_(WRONG),
    "keyword": lambda x: x.exp(no=1),
    "too many": lambda x: x.exp(1, 2),
    "composite": lambda x: F.linear(x, tg.ones(2, 9)),
    "composite type": lambda x: F.softmax(x, WRONG),
    "out": lambda x: tg.add(x, x, out=WRONG),
    "index": lambda x: x[9],
    "hook": _in_a_hook,
    "where": lambda x: tg.where(WRONG, x, x),
}


@pytest.mark.parametrize("how", FAILING)
def test_caught_errors_keep_no_tensors(how: str) -> None:
    def fail() -> weakref.ref[Any]:
        x = tg.ones(3)
        try:
            FAILING[how](x)
        except Exception:
            return weakref.ref(x._st)
        pytest.fail("no error")

    fail()  # code is generated and tables are read with the first call
    gc.collect()
    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()
