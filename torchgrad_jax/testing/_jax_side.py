"""One side of a comparison: a function over arrays, in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._paths import walk
from ._sides import Given, Missing, first_line, plain
from ._tolerances import Move, inexact, random_like

_NO_FORWARD = "custom_vjp"


def _conj(tree: Any) -> Any:
    """torch's gradient is the conjugate of JAX's, and so are its cotangents."""
    return jax.tree_util.tree_map(lambda x: jnp.conj(x) if jnp.iscomplexobj(x) else x, tree)


def _vjp(f: Callable[..., Any], *points: Any) -> Callable[[Any], Any]:
    _, pull = jax.vjp(f, *points)
    return lambda cotangent: _conj(pull(_conj(cotangent)))


def state_of(given: Given, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters and buffers of a module, by the names that the module gives them."""
    return {k.split("'")[1]: v for k, v in arrays.items() if k not in given.arrays}


class JaxSide:
    """A function over arrays, called as `fn(*inputs)`, or as `fn(params, *inputs)` when there are such.

    `params` makes the function's parameters of a dict of those of the module beside it, so that
    gradients have the module's names whatever the parameters are called here.
    """

    def __init__(
        self, fn: Callable[..., Any], *, seed: int, params: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:  # fmt: skip
        self.name, self.fn, self.seed, self.params = "jax", fn, seed, params
        self.move: Move = (0.0, 0)
        self.optimizer: Any = None
        self.count = 0

    def call(self, given: Given, arrays: Mapping[str, Any]) -> Any:
        inputs = given.fill(arrays.__getitem__)
        if self.params is None:
            return self.fn(*inputs)
        return self.fn(self.params(state_of(given, arrays)), *inputs)

    def _parts(self, given: Given, arrays: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The function from the floating arrays to the floating results, both by name."""
        all_arrays = {k: jnp.asarray(v) for k, v in arrays.items()}
        moving = {k: v for k, v in all_arrays.items() if inexact(v) and not k.startswith("buffer")}

        def f(moving: dict[str, Any]) -> dict[str, Any]:
            result = self.call(given, all_arrays | moving)
            return {k: v for k, v in walk(result, "output") if inexact(v)}

        return f, moving

    def run(self, kind: str, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """What is compared of one kind, by name; raises Missing where this side does not have it."""
        return getattr(self, f"_{kind}")(given, arrays, draw)

    def _value(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        found = self.call(given, {k: jnp.asarray(v) for k, v in arrays.items()})
        return {k: plain(v) for k, v in walk(found, "output")}

    def _state(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        raise Missing("a function of arrays has no state")

    def _draws(self, tree: Mapping[str, Any], draw: int) -> dict[str, Any]:
        return {
            k: jnp.asarray(random_like(v, self.seed, draw, k, self.move)) for k, v in tree.items()
        }

    def _gradient(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, moving = self._parts(given, arrays)
        outs = jax.eval_shape(f, moving)
        if not outs or not moving:
            return {}
        (found,) = _vjp(f, moving)(self._draws(outs, draw))
        return {k: plain(v) for k, v in found.items()}

    def _forward(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, moving = self._parts(given, arrays)
        tangents = self._draws({k: v for k, v in moving.items() if k in given.arrays}, draw)
        tangents |= {k: jnp.zeros_like(v) for k, v in moving.items() if k not in tangents}
        try:
            _, found = jax.jvp(f, (moving,), (tangents,))
        except TypeError as e:
            if _NO_FORWARD not in str(e):
                raise
            raise Missing(first_line(e)) from e
        return {k: plain(v) for k, v in found.items()}

    def _steps(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """Parameters (of a function, its inputs) after some steps of an optimizer of optax's."""
        f, moving = self._parts(given, arrays)
        trained = {k: v for k, v in moving.items() if k not in given.arrays} or moving
        cotangents = self._draws(jax.eval_shape(f, moving), draw)

        @jax.jit
        def step(trained: Any, state: Any) -> Any:
            (slopes,) = _vjp(lambda t: f(moving | t), trained)(cotangents)
            with jax.numpy_dtype_promotion("standard"):  # which optax needs
                updates, state = self.optimizer.update(slopes, state, trained)
            return {k: v + updates[k].astype(v.dtype) for k, v in trained.items()}, state

        state = self.optimizer.init(trained)
        for _ in range(self.count):
            trained, state = step(trained, state)
        return {k: plain(v) for k, v in trained.items()}

    def _second(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, moving = self._parts(given, arrays)
        outs = jax.eval_shape(f, moving)
        if not outs or not moving:
            return {}

        def gradient(moving: Any, cotangents: Any) -> Any:
            return _vjp(f, moving)(cotangents)[0]

        cotangents = self._draws(outs, draw)
        by_inputs, by_cotangents = _vjp(gradient, moving, cotangents)(self._draws(moving, draw))
        named = {f"the cotangent of {k}": v for k, v in by_cotangents.items()}
        return {k: plain(np.asarray(v)) for k, v in (by_inputs | named).items()}


__all__ = ["JaxSide", "state_of"]
