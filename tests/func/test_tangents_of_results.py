"""Forward mode over reverse mode where a gradient reads the result of a call, whose tangent it has to find.

The gradient of `tanh` is computed from `tanh(x)`. The derivative of that gradient along a direction is compared with
what reverse mode over reverse mode gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import torchgrad_jax as torch
from torchgrad_jax.func import grad, jvp, vjp, vmap


class Tanh(torch.autograd.Function):
    """A Function that saves its result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.tanh()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (y,) = ctx.saved_tensors
        return t * (1 - y * y)


class TanhOfBatches(Tanh):
    """The same with a rule of its own."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return TanhOfBatches.apply(x), in_dims[0]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": torch.tanh,
    "in place": lambda x: (x * 1).tanh_(),
    "Function": Tanh.apply,
    "Function with a rule": TanhOfBatches.apply,
}
_ROWS = torch.tensor([[0.5, -1.0], [1.5, 0.7], [0.9, 2.0]])
_X, _DIRECTION = torch.tensor([0.6, -0.8]), torch.tensor([0.3, 1.1])
PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda f, x: f(x),
    "in vmap": lambda f, x: vmap(lambda row: f(x * row))(_ROWS),
    "in vmap of vmap": lambda f, x: vmap(lambda a: vmap(lambda b: f(x * a + b))(_ROWS))(_ROWS),
}


def _through_dual_level(g: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(_X.clone().requires_grad_(), _DIRECTION)
        (slope,) = torch.autograd.grad(g(x), x, create_graph=True)
        return torch.autograd.forward_ad.unpack_dual(slope).tangent.detach()


WAYS: dict[str, Callable[[Any], Any]] = {
    "jvp of grad": lambda g: jvp(grad(g), (_X,), (_DIRECTION,))[1],
    "for each direction": lambda g: vmap(lambda t: jvp(grad(g), (_X,), (t,))[1])(_DIRECTION[None])[0],
    "dual level": _through_dual_level,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str, place: str) -> None:
    def g(x: Any) -> Any:
        y = PLACES[place](FUNCTIONS[name], x)
        return (y * y).sum() + y.sum()

    (wanted,) = vjp(grad(g), _X)[1](_DIRECTION)
    for way in WAYS:
        found = WAYS[way](g)
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-4), (way, found, wanted)


def test_results_that_hooks_pack() -> None:
    """What hooks packed of a result is left to them."""
    seen = []

    def keep(t: Any) -> Any:
        seen.append(t)
        return t

    fw = torch.autograd.forward_ad
    with fw.dual_level(), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        x = fw.make_dual(_X.clone().requires_grad_(), _DIRECTION)
        y = vmap(lambda row: (x * row).tanh())(_ROWS)
        assert seen
        (slope,) = torch.autograd.grad(y.sum(), x)
    rows = _ROWS * (1 - (_X * _ROWS).tanh() ** 2)
    torch.testing.assert_close(slope.detach(), rows.sum(0))
