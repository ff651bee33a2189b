"""Transformations of optax as optimizers here, and optimizers here as transformations of optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._bridge.compile.watch.observer import unobserved
from .._bridge.jax_side.interop import as_jax, from_jax, operator_of
from .._core.arrays.transfer import as_jax_array
from .._core.jax.x64 import as_host, with_x64
from .._core.random.keys import is_key, words_of
from .._engine.graph.record import no_grad
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .._functions.exchange import as_tensor
from ..autograd.grad_mode import enable_grad
from ..optim._ruled import Ruled
from ..optim.optimizer import Optimizer

_STATE = "optax"
"""The entry of the optimizer's state that has the leaves of optax's state, by their number."""


class Optax(Optimizer):
    """A transformation of optax as an optimizer: `step()` updates the parameters by their `.grad`.

    The transformation has all parameters at once, as a list in their order, and its state is in `state_dict()`. It is
    the same for all of them; for groups use `optax.multi_transform`. Schedules of learning rates are optax's as well.
    If a parameter has 64 bits, optax computes with JAX's 64-bit types, and else with the types that JAX has.

    Args:
        params: the parameters, each of which has a gradient in every step.
        transformation: such as `optax.adamw(1e-3)`.

    For example, where optax is installed:

        w = torch.ones(2, requires_grad=True)
        optimizer = torch.interop.Optax([w], optax.sgd(0.5))
        (w * w).sum().backward()
        optimizer.step()  # w is now tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, params: Any, transformation: Any) -> None:
        super().__init__(params, {})
        for group in self.param_groups:
            if unknown := set(group) - {"params", "param_names"}:
                raise ValueError(
                    f"Optax: a group has {', '.join(sorted(unknown))}, which optax does not know; use "
                    "optax.multi_transform for parameters that are treated differently"
                )
        self._transformation = transformation
        in_64_bits = any(p.dtype.itemsize // (2 if p.dtype.is_complex else 1) == 8 for p in self._params())
        init = with_x64(transformation.init) if in_64_bits else as_host(transformation.init)
        state = init([as_jax_array(read(p)) for p in self._params()])
        leaves, self._structure = jax.tree.flatten(state)
        self._keys = [str(jax.random.key_impl(x)) if is_key(x) else None for x in leaves]
        held = {str(i): as_tensor(jnp.array(words_of(x))) for i, x in enumerate(leaves)}
        vars(self)["state"][_STATE] = held
        self._operator = operator_of(self._updated) if in_64_bits else from_jax(self._updated)

    def _params(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def _updated(self, grads: Any, leaves: Any, params: Any) -> Any:
        import optax

        with unobserved(), jax.numpy_dtype_promotion("standard"):  # optax counts its steps in int32
            updates, state = self._transformation.update(grads, self._state_of(leaves), params)
            return optax.apply_updates(params, updates), list(map(words_of, jax.tree.leaves(state)))

    def _state_of(self, leaves: Any) -> Any:
        impls = zip(leaves, self._keys, strict=True)
        return self._structure.unflatten([x if k is None else jax.random.wrap_key_data(x, impl=k) for x, k in impls])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter.

        Args:
            closure: computes the loss again and returns it.

        Returns:
            What `closure` returned, or None.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        params, leaves = self._params(), list(vars(self)["state"][_STATE].values())
        if without := [i for i, p in enumerate(params) if p.grad is None]:
            raise RuntimeError(
                f"Optax: parameters {without} have no gradient, and optax updates all of them; leave out those that "
                "are not learned"
            )
        with no_grad():
            new, state = self._operator([p.grad for p in params], leaves, params)
            for old, value in zip([*params, *leaves], [*new, *state], strict=True):
                old.copy_(value)
        return loss


def as_optax(optimizer: type[Optimizer], **options: Any) -> Any:
    """Make an optimizer of `optim` a transformation of optax, for parameters that are arrays in any pytree.

    Args:
        optimizer: a class such as `optim.AdamW`, one that updates each parameter by a rule.
        **options: its options, such as `lr=1e-3`; the same for all parameters.

    Returns:
        An `optax.GradientTransformation`. Its `update` needs the parameters, and its state is a list of dicts, those of
        `optimizer.state`.

    For example, where optax is installed:

        sgd = torch.interop.as_optax(torch.optim.SGD, lr=0.5)
        params = {"w": jnp.ones(2, jnp.float32)}
        updates, state = sgd.update({"w": jnp.ones(2, jnp.float32)}, sgd.init(params), params)
        updates["w"].tolist()  # [-0.5, -0.5]
    """
    import optax

    if not (isinstance(optimizer, type) and issubclass(optimizer, Ruled)):
        raise TypeError(f"as_optax takes a class of optim that updates by a rule, not {optimizer}")

    def made(params: list[Tensor]) -> Any:
        return optimizer([p.detach().clone() for p in params], **options)  # type: ignore[call-arg]

    def start(params: list[Tensor]) -> Any:
        own = made(params)
        (group,) = own.param_groups
        for p in group["params"]:
            p.grad = p * 0  # some look at its shape
            own._start(own.state[p], group, p)
        return [_tensors_in(own.state[p]) for p in group["params"]]

    def step(params: list[Tensor], grads: list[Tensor], states: Any) -> Any:
        own = made(params)
        held = own.param_groups[0]["params"]
        for p, g, state in zip(held, grads, states, strict=True):
            p.grad = g.detach()
            own.state[p] = {k: v.detach().clone() for k, v in state.items()} | _others(own, p)
        with no_grad():
            own.step()
            return [p.detach() - before for p, before in zip(held, params)], [_tensors_in(own.state[p]) for p in held]

    def init(params: Any) -> Any:
        return as_jax(start, None)(jax.tree.leaves(params))

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        if params is None:
            raise ValueError("as_optax: update needs the parameters: update(gradients, state, params)")
        grads, structure = jax.tree.flatten(updates)
        found, state = as_jax(step, None)(jax.tree.leaves(params), grads, state)
        return structure.unflatten(found), state

    return optax.GradientTransformation(init, update)


def _tensors_in(state: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in state.items() if isinstance(v, Tensor)}


def _others(own: Any, p: Any) -> dict[str, Any]:
    """Return what a new state has besides tensors, such as a `momentum_buffer` of None."""
    fresh: dict[str, Any] = {}
    own._start(fresh, own.param_groups[0], p)
    return {k: v for k, v in fresh.items() if not isinstance(v, Tensor)}
