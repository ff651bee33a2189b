"""One side of a comparison: a function over arrays, in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._dataflow import Dtypes, of_program
from ._described import first_line, plain
from ._paths import walk
from ._sides import Given, Missing, frozen_leaves, moving, name_of_gradient, used_outputs
from ._tolerances import Move, inexact, random_like

_SHORT = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64"}
_NO_FORWARD = "custom_vjp"


def _conj(tree: Any) -> Any:
    """torch's gradient is the conjugate of JAX's, and so are its cotangents."""
    return jax.tree_util.tree_map(lambda x: jnp.conj(x) if jnp.iscomplexobj(x) else x, tree)


def _vjp(f: Callable[..., Any], *points: Any) -> Callable[[Any], Any]:
    _, pull = jax.vjp(f, *points)
    return lambda cotangent: _conj(pull(_conj(cotangent)))


def dtype_of(name: str) -> str:
    """Return the dtype that JAX has for a tensor of the named one: int32 for int64, unless 64-bit types are on."""
    return jnp.asarray(np.zeros(0, name)).dtype.name if name in ("int64", "float64", "complex128") else name


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
    ) -> None:
        self.name, self.fn, self.seed, self.params = "jax", fn, seed, params
        self.move: Move = (0.0, 0)
        self.held_in: str | None = None
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
        points = {k: v for k, v in all_arrays.items() if moving(k, v)}

        def f(points: dict[str, Any]) -> dict[str, Any]:
            result = self.call(given, all_arrays | points)
            return {k: v for k, v in walk(result, "output") if inexact(v)}

        return f, points

    def dtypes_inside(self, given: Given, arrays: Mapping[str, Any]) -> Dtypes:
        """The floating dtypes that each result is computed in, and those of the whole function."""
        f, points = self._parts(given, arrays)
        program, shapes = jax.make_jaxpr(f, return_shape=True)(points)
        text = str(program)
        whole = {name for short, name in _SHORT.items() if f":{short}[" in text}
        names = sorted(shapes)  # in which order JAX takes the entries of a dict
        return {"": whole, **dict(zip(names, of_program(program, _SHORT), strict=True))}

    def run(self, kind: str, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """What is compared of one kind, by name; raises Missing where this side does not have it."""
        return getattr(self, f"_{kind}")(given, arrays, draw)

    def _value(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        found = self.call(given, {k: jnp.asarray(v) for k, v in arrays.items()})
        return {k: plain(v) for k, v in walk(found, "output")}

    def _state(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        raise Missing("a function of arrays has no state")

    def _draws(self, tree: Mapping[str, Any], draw: int) -> dict[str, Any]:
        return {k: jnp.asarray(random_like(v, self.seed, draw, k, self.move, self.held_in)) for k, v in tree.items()}

    def _gradient(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, points = self._parts(given, arrays)
        outs = jax.eval_shape(f, points)
        if not outs or not points:
            return {}
        used = used_outputs(list(outs), draw)
        cotangents = self._draws(outs, draw)
        cotangents |= {k: jnp.zeros_like(v) for k, v in cotangents.items() if k not in used}
        (found,) = _vjp(f, points)(cotangents)
        return {name_of_gradient(k, used, list(outs)): plain(v) for k, v in found.items()}

    def _frozen(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, points = self._parts(given, arrays)
        frozen = frozen_leaves(list(points), draw)
        outs = jax.eval_shape(f, points)
        if not outs or not frozen:
            return {}
        (found,) = _vjp(f, points)(self._draws(outs, draw))
        return {k: plain(v) for k, v in found.items() if k not in frozen}

    def _forward(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, points = self._parts(given, arrays)
        try:
            _, found = jax.jvp(f, (points,), (self._draws(points, draw),))
        except TypeError as e:
            if _NO_FORWARD not in str(e):
                raise
            raise Missing(first_line(e)) from e
        return {k: plain(v) for k, v in found.items()}

    def _steps(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """Parameters (of a function, its inputs) after some steps of an optimizer of optax's.

        The optimizer has JAX's 64-bit types, whatever the parameters have: with 32 bits, optax rounds `1 - b2**count`
        of its Adam by 1e-4 of it, and then no tolerance tells a wrong rule from a rounded one.
        """
        f, points = self._parts(given, arrays)
        trained = {k: v for k, v in points.items() if k not in given.arrays} or points
        cotangents = self._draws(jax.eval_shape(f, points), draw)

        @jax.jit
        def slopes_at(trained: Any) -> Any:
            return _vjp(lambda t: f(points | t), trained)(cotangents)[0]

        @jax.jit
        def step(trained: Any, slopes: Any, state: Any) -> Any:
            with jax.numpy_dtype_promotion("standard"):  # which optax needs
                updates, state = self.optimizer.update(slopes, state, trained)
            return {k: v + updates[k].astype(v.dtype) for k, v in trained.items()}, state

        with jax.enable_x64(True):
            state = self.optimizer.init(trained)
        for _ in range(self.count):
            slopes = slopes_at(trained)
            with jax.enable_x64(True):
                trained, state = step(trained, slopes, state)
        return {k: plain(v) for k, v in trained.items()}

    def _second(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        f, points = self._parts(given, arrays)
        outs = jax.eval_shape(f, points)
        if not outs or not points:
            return {}

        def gradient(points: Any, cotangents: Any) -> Any:
            return _vjp(f, points)(cotangents)[0]

        cotangents = self._draws(outs, draw)
        by_inputs, by_cotangents = _vjp(gradient, points, cotangents)(self._draws(points, draw))
        named = {f"the cotangent of {k}": v for k, v in by_cotangents.items()}
        return {k: plain(np.asarray(v)) for k, v in (by_inputs | named).items()}
