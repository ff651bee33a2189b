"""One executable for kernels that differ in their numbers alone.

    F.leaky_relu(x, 0.1)
    F.leaky_relu(x, 0.3)  # compiles nothing: the slope is an input of the executable

`apart` takes the numbers out of a jaxpr. The steps that are left are the key under which the executable is kept, so
every kernel with the same steps finds it. Some numbers stay in the steps: exponents, and those with which XLA leaves
out a step or has a cheaper one (`x * 1`, `x + 0`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from .program import Program

_STAY = (0.0, 1.0, -1.0, 2.0, 0.5)
_EXECUTABLES = KERNELS.cache()


class WithNumbers:
    """A function of the leaves of a kernel's arguments: an executable that is given the kernel's numbers with them.

    Inside of a larger program the numbers have to be inputs, too: of a number that it knows, XLA makes other code.
    """

    __slots__ = ("executable", "numbers")

    def __init__(self, executable: Callable[..., list[Any]], numbers: Sequence[Any]) -> None:
        self.executable, self.numbers = executable, numbers

    def __call__(self, *leaves: Any) -> list[Any]:
        return self.executable(self.numbers, *leaves)


def apart(closed: Any) -> WithNumbers | None:
    """A function of the leaves of a kernel's arguments, which gives the list of its results.

    It is None where there are no numbers to take out, and where the kernel has effects or holds arrays.
    """
    if closed.effects or closed.consts:
        return None
    inputs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    numbers, program = Program(closed, whole=True).lift(_moves)
    if not numbers:
        return None

    def fn(numbers: Sequence[Any], *args: Any) -> list[Any]:
        return program.run(*numbers, *args)

    steps = jax.make_jaxpr(fn)(numbers, *inputs)
    if steps.consts:
        return None
    key = str(steps)
    executable = _EXECUTABLES.get(key)
    if executable is None:
        KERNELS.compiled()
        executable = _EXECUTABLES.put(key, jit(fn))
    return WithNumbers(executable, numbers)


def _moves(v: Any, eqn: Any) -> bool:
    """Whether a literal of a step becomes an input: a number, or an array, whose text does not say all of it."""
    of_floats = np.issubdtype(v.aval.dtype, np.inexact)
    return bool(v.aval.shape) or (of_floats and eqn.primitive.name != "pow" and v.val not in _STAY)
