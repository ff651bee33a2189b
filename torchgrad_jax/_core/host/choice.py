"""Who computes a kernel on a CPU: NumPy or XLA. This file is the whole rule.

`x + y` of 1,000 elements is NumPy's, because XLA would compile for 20 ms what takes 1 us, and of a million it is
XLA's. `x[0]` of a million is NumPy's again, because it touches one row. `sort` is NumPy's at any size, because XLA's
takes 3 to 7 times as long.

The rule looks at the steps of a kernel, their dtypes and shapes, never at how often or when it runs: the same call
gives the same bits each time. In short:

* **Work, not size.** A step counts the elements that it reads or writes. A view counts none, and a gather those that
  it gives. Up to `LARGEST` of them in each step, and up to `LIMIT` by estimate in all (`steps.py` has the prices), a
  kernel is NumPy's.
* **Loops** may have more: XLA compiles a loop for a second, and runs one step after the other, too.
* **Exceptions** (`_sooner_in_numpy`) are steps for which XLA is slower at any size. A kernel that has one is NumPy's,
  unless it also has a product of matrices that XLA does sooner.

`TORCHGRAD_JAX_EXECUTOR=numpy` gives NumPy whatever it has code for, and `xla` gives XLA everything, to find out whether
a result or a time depends on the choice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

VARIABLE = "TORCHGRAD_JAX_EXECUTOR"

LARGEST, OF_ROUNDS = 1 << 15, 1 << 19
"""Elements that a step may read or write, and in a program with a loop, of which each round takes a part."""
OF_THREADS = 1 << 22
"""Elements of an array from which on XLA's threads do even a single comparison sooner than NumPy."""
LIMIT = 100.0
"""Microseconds that NumPy may take for a kernel.

Compiling a kernel costs as much as a thousand calls of it."""
OF_FORM = 4.0
"""How many times as long the derived code of a kernel may take that has code written by hand, which takes less."""
OF_MANY = 1500.0
"""Microseconds that NumPy may take for what stands for many kernels: a backward pass, a step of an optimizer."""
ROUND = 10.0
"""Microseconds more for each round of a loop, which XLA takes as well."""
OF_ROUND = 200.0
"""Microseconds that NumPy may take for a round: XLA does one step after the other, too, and takes about as long."""
OF_LOOP = 1500.0
"""Microseconds that NumPy may take beside the rounds of a loop: XLA compiles a loop and its derivative for a second."""
ALONE = 50.0
"""What a product of a program with a loop costs if XLA does it, and NumPy the rest."""

INNER = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "custom_vmap_call": "call",
}
"""The primitives that run a jaxpr once, and the parameter that holds it."""

_LOOKS = frozenset(("broadcast_in_dim", "squeeze", "reshape", "transpose", "rev", "slice", "split", "unstack"))
"""Primitives that touch no element: NumPy looks at the memory in another way."""
_PICKS = frozenset(("gather", "dynamic_slice"))
"""Primitives that touch the elements that they give, and not all that they are given."""


def given_executor() -> str:
    """The executor that the environment names."""
    name = os.environ.get(VARIABLE, "")
    if name not in ("", "numpy", "xla"):
        raise ValueError(f"{VARIABLE}={name!r}: it is 'numpy' or 'xla', or is not set")
    return name


EXECUTOR = given_executor()
"""Who computes whatever it can: "numpy" or "xla"; "" where the rule decides."""


@dataclass
class Room:
    """How much of a kernel NumPy may still do."""

    largest: float
    """Elements of a step."""
    left: float
    """Microseconds."""
    loops: bool
    """Whether there is a loop."""

    def touch(self, eqn: Any) -> bool:
        """Whether NumPy may do a step, by the number of elements that it reads or writes."""
        return max(touched(eqn), default=0) <= self.largest

    def spend(self, microseconds: float) -> bool:
        """Whether there is so much time left, which is then gone."""
        self.left -= microseconds
        return self.left >= 0


def room(jaxpr: Any, limit: float) -> Room:
    """What NumPy may do of a kernel that may take `limit` microseconds, infinite if it may take any time."""
    steps = [*all_steps(jaxpr)]
    loops = any(e.primitive.name == "scan" for e in steps)
    if EXECUTOR == "numpy" or (not loops and any(map(_sooner_in_numpy, steps))):
        return Room(math.inf, math.inf, loops)
    largest = OF_THREADS if limit == math.inf else OF_ROUNDS if loops else LARGEST
    return Room(largest, max(limit, OF_LOOP) if loops else limit, loops)


def touched(eqn: Any) -> list[int]:
    """The numbers of elements that a step reads or writes, one for each array."""
    name = eqn.primitive.name
    if name in _LOOKS:
        return []
    arrays = (*eqn.invars[name in _PICKS :], *eqn.outvars)
    return [v.aval.size for v in arrays]


def all_steps(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of those that it calls."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner, _ in inner_of(eqn):
            yield from all_steps(getattr(inner, "jaxpr", inner))
        for branch in branches_of(eqn):
            yield from all_steps(branch.jaxpr)


def inner_of(eqn: Any) -> list[tuple[Any, list[int]]]:
    """The jaxpr that a step runs once, if it does, and which of the step's operands are the jaxpr's."""
    if eqn.primitive.name == "custom_linear_solve":
        counts, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        first = counts.matvec + counts.vecmat
        last = first + counts.solve + counts.transpose_solve
        return [(jaxprs.solve, [*range(first, first + counts.solve), *range(last, len(eqn.invars))])]
    inner = eqn.params.get(INNER.get(eqn.primitive.name, ""))
    return [] if inner is None else [(inner, [*range(len(eqn.invars))])]


def branches_of(eqn: Any) -> tuple[Any, ...]:
    """The jaxprs of which a step runs the one that its first operand names."""
    return eqn.params["branches"] if eqn.primitive.name == "cond" else ()


# --- the exceptions: beside each, how many times as long as NumPy XLA takes for a million elements -----------


def _sooner_in_numpy(eqn: Any) -> bool:
    """Whether XLA takes longer for a step than NumPy, however many elements it has."""
    rule = EXCEPTIONS.get(eqn.primitive.name)
    return rule is not None and eqn.invars[0].aval.ndim > 0 and rule(eqn)


def _along_rows(eqn: Any) -> bool:
    """Whether a step goes along the last dimension, where its elements lie side by side."""
    axis = eqn.params["axes"][0] if "axes" in eqn.params else eqn.params["axis"]
    return axis == eqn.invars[0].aval.ndim - 1


def _of_integers(eqn: Any) -> bool:
    return eqn.invars[0].aval.dtype.kind in "iu"


_SIDE, _TINY_SIDE, _BATCH = 256, 32, 16
"""Rows and columns of a matrix, up to which one thread decomposes it sooner than several. XLA calls LAPACK for one
matrix of a batch after the other with less ado, which counts where there are many and tiny ones."""


def of_lapack(matrices: Any) -> bool:
    """Whether these are matrices that NumPy gives to LAPACK itself."""
    shape = matrices[0].shape
    sides = [n for a in matrices for n in a.shape[-2:]]
    few = math.prod(shape[:-2]) <= _BATCH or min(shape[-2:]) > _TINY_SIDE
    return few and min(sides) > 0 and max(sides) <= _SIDE


def _is_thin(eqn: Any) -> bool:
    """Whether a convolution has few channels and a small window, so that little is added up for each result."""
    out, kernel = eqn.outvars[0].aval, eqn.invars[1].aval
    grouped = eqn.params["feature_group_count"] * eqn.params["batch_group_count"] > 1
    summed = kernel.size // kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]] if kernel.size else 0
    spread = any(n > 1 for n in eqn.params["lhs_dilation"])
    return not grouped and not spread and 0 < summed <= _SUMMED and out.size * summed <= _PRODUCTS


_SUMMED, _PRODUCTS = 32, 1 << 23
"""Products that each result of such a convolution adds up, and all of them together."""

_CHOSEN = 32
"""Elements of a row that XLA chooses about as fast as NumPy."""

EXCEPTIONS = {
    "sort": lambda eqn: True,  # 3 to 7
    **dict.fromkeys(
        ("lu", "cholesky", "eigh", "svd", "qr", "triangular_solve"),  # 1.5 to 1,300: see `one_thread.py`
        lambda eqn: of_lapack([v.aval for v in eqn.invars]),
    ),
    "top_k": lambda eqn: eqn.params["k"] > _CHOSEN,  # 10 for half of a row of 1,000
    "argmax": _along_rows,  # 3 to 30
    "argmin": _along_rows,
    "reduce_prod": lambda eqn: not eqn.outvars[0].aval.shape and eqn.invars[0].aval.size % 1024 == 0,  # 12
    "conv_general_dilated": _is_thin,  # 2 to 5, after 100 ms of compiling
    "cummax": _along_rows,  # 2
    "cummin": _along_rows,
    "cumsum": lambda eqn: _along_rows(eqn) and _of_integers(eqn),  # 7
    "cumprod": lambda eqn: _along_rows(eqn) and _of_integers(eqn),  # 4
}
