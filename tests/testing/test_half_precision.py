"""Half precision: faults of a few roundings in gradients are found, and nothing is alarmed by rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torchgrad_jax
from torchgrad_jax.testing import assert_matches_torch

pytest.importorskip("torch")


def _with_fault(lib: Any, x: Any, factor: float) -> Any:
    """The input itself, with a wrong gradient on one side."""

    class Identity(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * factor

    return Identity.apply(x) if lib is torchgrad_jax else x * 1


FUNCTIONS = {
    "product": lambda lib, x: x * 3,
    "sum": lambda lib, x: x.sum(-1),
    "linear": lambda lib, x: lib.nn.functional.linear(x, lib.ones(3, 8, dtype=x.dtype) * 0.5),
    "softmax": lambda lib, x: lib.softmax(x, -1),
    "square": lambda lib, x: (x * x).mean(),
}


def _input(dtype: str) -> Any:
    values = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    return torchgrad_jax.tensor(values).to(getattr(torchgrad_jax, dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "factor"), [("bfloat16", 1.03), ("bfloat16", 0.97), ("float16", 1.02)])
def test_a_factor_in_a_gradient_is_found(name: str, dtype: str, factor: float) -> None:
    def f(lib: Any, x: Any) -> Any:
        return FUNCTIONS[name](lib, _with_fault(lib, x, factor))

    with pytest.raises(AssertionError, match="gradient of input 0"):
        assert_matches_torch(f, [_input(dtype)], order=1)


RIGHT = {
    **FUNCTIONS,
    "sigmoid": lambda lib, x: lib.sigmoid(x),
    "hardswish": lambda lib, x: lib.nn.functional.hardswish(x),
    "chain": lambda lib, x: lib.stack([x[i] * x[i - 1] for i in range(4)]).sum(0).sigmoid(),
    "norm": lambda lib, x: x * ((x**2).mean(-1, keepdim=True) + 1e-5).rsqrt(),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_is_no_alarm(name: str, dtype: str) -> None:
    assert_matches_torch(RIGHT[name], [_input(dtype)], order=1)
