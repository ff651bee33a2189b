"""What a run of tensor code came to: its steps, as a pure function of its inputs and of what it captured.

A run of `vmap` writes its steps on a tape (`TapedSteps`); JAX traces other runs to a jaxpr (`JaxprSteps`). In a jaxpr
a placeholder stands for each tensor from outside that the code met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.arrays.meta import Meta
from ..._core.jax.evaluate import Take, evaluate
from ..._core.random.keys import is_key
from ..memory.tensor import wrap_array

_placeholder: Any = None
Captured = Sequence[Any] | Mapping[int, Any]
"""By its number, the value of each tensor from outside."""


def outside_value(index: int, m: Meta, weak: bool = False) -> Any:
    """A tracer that stands for the captured tensor number `index`; a `weak` one stands for a Python number."""
    global _placeholder
    if _placeholder is None:
        from jax.extend.core import Primitive

        _placeholder = Primitive("outside_value")
        _placeholder.def_abstract_eval(lambda *, index, aval: aval)
    aval = jax.core.ShapedArray(m.shape, m.dtype.np, weak_type=weak)
    return _placeholder.bind(index=index, aval=aval)


class TapedSteps:
    """What a run of `vmap` came to: steps over inputs and captured tensors."""

    __slots__ = ("_about", "_met", "_outs", "_steps", "_tape", "captured", "key", "mapped")

    def __init__(self, run: Any, steps: Sequence[Any], outs: Sequence[Any]) -> None:
        tape, self._met = run.tape, run.met
        self._tape = tape
        self._steps, self._outs = steps, tuple(outs)
        consts = [c if isinstance(c, jax.Array | np.ndarray) else jnp.asarray(c) for _, c in tape.consts]
        self.captured: list[Any] = [*run.captured_then(), *[wrap_array(c) for c in consts]]
        self.mapped = [*run.mapped, *[False] * len(consts)]
        self._about = (
            tuple([v.aval for v in tape.inputs]),
            self._outs,
            tuple(tape.outside),
            tuple([number for number, _ in tape.consts]),
        )
        self.key = (self._about, tuple(steps))

    def function(self) -> Callable[..., list[Any]]:
        """A pure function of the inputs and the captured arrays."""
        n_captured = len(self.captured) - len(self._tape.consts)
        return self._tape.function(self._steps, self._outs, n_captured)

    def loose(self) -> tuple[Any, list[Any], Callable[..., list[Any]]]:
        """The function with the numbers among its steps as further arguments: its key, the numbers, and it itself."""
        steps, numbers = self._tape.loosened(self._steps)
        n_captured = len(self.captured) - len(self._tape.consts)
        key = (self._about, tuple(steps), tuple([v.__class__ for v in numbers]))
        return key, numbers, self._tape.function(steps, self._outs, n_captured, len(numbers))


class JaxprSteps:
    """What a run came to that JAX traced."""

    __slots__ = ("birth", "captured", "jaxpr", "keys", "n_in")

    def __init__(self, jaxpr: Any, consts: Sequence[Any], run: Any) -> None:
        self.jaxpr = jaxpr
        self.n_in = len(jaxpr.invars)
        self.birth = run.birth
        self.keys = [jax.random.key_impl(c) if is_key(c) else None for c in consts]
        words = [jax.random.key_data(c) if is_key(c) else c for c in consts]
        self.captured: list[Any] = [*run.captured_then(), *map(wrap_array, words)]

    def function(self) -> Callable[..., list[Any]]:
        """A pure function of the inputs and the captured arrays."""
        jaxpr, n_in, keys = self.jaxpr, self.n_in, self.keys
        n_captured = len(self.captured) - len(jaxpr.constvars)

        def run(*arrays: Any) -> list[Any]:
            captured = arrays[n_in : n_in + n_captured]
            consts = [
                c if impl is None else jax.random.wrap_key_data(c, impl=impl)
                for c, impl in zip(arrays[n_in + n_captured :], keys)
            ]
            return evaluate_written(jaxpr, arrays[:n_in], captured, consts)

        return run


def evaluate_written(jaxpr: Any, inputs: Sequence[Any], captured: Captured, consts: Sequence[Any]) -> list[Any]:
    """Take the steps of a run again, on other values."""
    return evaluate(jaxpr, (*consts, *inputs), outside(captured))


def outside(captured: Captured, first: int = 0) -> Take:
    """Take placeholders for values from outside, which are numbered from `first`."""

    def take(eqn: Any, _: list[Any]) -> Any:
        return [captured[eqn.params["index"] - first]] if eqn.primitive is _placeholder else None

    return take


def placeholder() -> Any:
    """The primitive that stands for values from outside."""
    return _placeholder
