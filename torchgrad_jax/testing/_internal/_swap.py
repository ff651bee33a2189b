"""Tests of modules that run with and without swapping tensors; swapping is not supported, and says so."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ._marks import SwapTensorsGuard
from ._parametrize import Variant, _no_decorators, _TestParametrizer


def wrapSwapTensorsTest(swap: bool | None = None) -> Callable[[Any], Any]:
    """A test inside of `SwapTensorsGuard(swap)`."""

    def wrap(fn: Any) -> Any:
        @functools.wraps(fn)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with SwapTensorsGuard(swap):
                return fn(*args, **kwargs)

        return guarded

    return wrap


class swap(_TestParametrizer):
    """Run a test once for each of the values of `SwapTensorsGuard`."""

    def __init__(self, swap_values: list[bool]) -> None:
        self.swap_values = swap_values

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        for value in self.swap_values:
            yield wrapSwapTensorsTest(value)(test), f"swap_{value}", {}, _no_decorators
