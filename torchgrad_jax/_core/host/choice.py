"""Who computes a kernel on a CPU: NumPy or XLA. This file is the whole rule.

`softmax` of 1,000 elements is NumPy's, because XLA would compile for 20 ms what takes 10 us, and of a million it is
XLA's. `x[0]` of a million is NumPy's again, because it touches one row. `sort` is NumPy's at any size, because XLA's
takes 3 to 7 times as long.

The rule looks at the steps of a kernel, their dtypes and shapes, never at how often or when it runs: the same call
gives the same bits each time. In short:

* **Work, not size.** A step counts the elements that it reads or writes. A view counts none, and a gather those that
  it gives. Up to `LARGEST` of them in each step, and up to `LIMIT` by estimate in all (`steps.py` has the prices), a
  kernel is NumPy's.
* **Few steps of arithmetic** on more elements than that, such as `a + b` or `abs(x) * 2` of a million, go
  through NumPy block by block, while a block's values are in the processor's cache (`blocks.py`).
* **Views of all of an array.** A kernel that gives an argument in another shape copies nothing (`looked_at`).
* **Loops** may have more: XLA compiles a loop for a second, and runs one step after the other, too.
* **Exceptions** (`EXCEPTIONS`) are steps for which XLA is slower at any size. Whatever their size, a kernel with one is
  NumPy's if NumPy takes no longer for the other steps than it saves by that one.

`TORCHGRAD_JAX_EXECUTOR=numpy` gives NumPy whatever it has code for, and `xla` gives XLA everything, to find out whether
a result or a time depends on the choice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from . import blocks, products, reductions

VARIABLE = "TORCHGRAD_JAX_EXECUTOR"

LARGEST, OF_ROUNDS = 1 << 18, 1 << 19
"""Elements that a step may read or write, and in a program with a loop, of which each round takes a part."""
SMALL = 1 << 15
"""Elements of a result, up to which a kernel may take longer than `LIMIT` if it stands for many kernels, or if there is
code for it that was written by hand."""
OF_THREADS = 1 << 22
"""Elements of an array from which on XLA's threads do even a single comparison sooner than NumPy."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
BLOCKS_END = 1 << (22 if CORES == 1 else 18)
"""Elements of an array up to which arithmetic goes block by block. NumPy has one thread, and XLA has one for each core:
a product of 400,000 numbers takes NumPy 250 us, and XLA 300 with one thread and 150 with two."""
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
_MOVES = frozenset(("concatenate", "stack", "pad", "copy"))
"""Primitives that copy rows of elements."""
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
    blocks: bool = False
    """Whether the kernel is done block by block."""

    def touch(self, eqn: Any) -> bool:
        """Return whether NumPy may do a step, by the number of elements that it reads or writes."""
        return max(touched(eqn), default=0) <= self.largest

    def spend(self, microseconds: float) -> bool:
        """Return whether there is so much time left, which is then gone."""
        self.left -= microseconds
        return self.left >= 0


def room(jaxpr: Any, limit: float, more: float = 1.0) -> Room:
    """What NumPy may do of a kernel that may take `limit` microseconds, infinite if it may take any time.

    `more` says how many times as long it may take; it may be `OF_FORM`.
    """
    if only_moves(jaxpr):
        limit, more = math.inf, 1.0
    steps, elements = [*all_steps(jaxpr)], max([v.aval.size for v in jaxpr.outvars], default=0)
    return room_for(any(e.primitive.name == "scan" for e in steps), sum(map(saves, steps)), limit * more, elements)


def room_for(loops: bool, saved: float, limit: float, elements: int) -> Room:
    """What NumPy may do of a kernel.

    Args:
        loops: whether it has any.
        saved: microseconds that it saves by its exceptions.
        limit: microseconds that it may take; infinite if it may take any time.
        elements: those of its largest result.
    """
    if EXECUTOR == "numpy":
        return Room(math.inf, math.inf, loops)
    if LIMIT < limit < math.inf and elements > SMALL:
        limit = LIMIT
    if loops:
        return Room(OF_THREADS if limit == math.inf else OF_ROUNDS, max(limit, OF_LOOP), loops)
    if saved:
        return Room(math.inf, limit + saved, loops)
    return Room(OF_THREADS if limit == math.inf else LARGEST, limit, loops)


def only_moves(jaxpr: Any) -> bool:
    """Return whether a kernel only copies rows of elements, for which XLA takes one thread, and as long as NumPy."""
    names = {e.primitive.name for e in all_steps(jaxpr) if any(v.aval.ndim for v in e.outvars)}
    return not names.isdisjoint(_MOVES) and not names - _MOVES - _LOOKS - INNER.keys() and "transpose" not in names


def is_possible() -> bool:
    """Return whether NumPy may compute anything."""
    return EXECUTOR != "xla" and jax.default_backend() == "cpu"


def goes_in_blocks(jaxpr: Any) -> bool:
    """Return whether NumPy does a kernel block by block where it `is_for_blocks`."""
    return not EXECUTOR and blocks.takes(jaxpr, (e for e in all_steps(jaxpr) if not inner_of(e)))


def is_for_blocks(elements: int) -> bool:
    """Return whether a kernel that gives so many elements goes block by block, if it can."""
    return blocks.BLOCK < elements <= BLOCKS_END


OF_BLOCKS = Room(BLOCKS_END, math.inf, loops=False, blocks=True)
"""What NumPy may do block by block."""


def touched(eqn: Any) -> list[int]:
    """The numbers of elements that a step reads or writes, one for each array."""
    return [v.aval.size for v in touching(eqn)]


def touching(eqn: Any) -> list[Any]:
    """The arrays of which a step reads or writes all elements."""
    name = eqn.primitive.name
    return [] if name in _LOOKS else [*eqn.invars[name in _PICKS :], *eqn.outvars]


def looked_at(jaxpr: Any) -> list[int] | None:
    """Which of its arguments a function gives in other shapes, one for each result, where it does nothing else."""
    at = {v: i for i, v in enumerate(jaxpr.invars)}
    for eqn in jaxpr.eqns:
        if not eqn.invars or hasattr(eqn.invars[0], "val") or eqn.invars[0] not in at or not _keeps_order(eqn):
            return None
        at[eqn.outvars[0]] = at[eqn.invars[0]]
    found = [at[v] for v in jaxpr.outvars if not hasattr(v, "val") and v in at]
    return found if len(found) == len(jaxpr.outvars) else None


def _keeps_order(eqn: Any) -> bool:
    """Return whether a step gives all elements of its first operand in their order."""
    old, new = eqn.invars[0].aval, eqn.outvars[0].aval
    if (old.size, old.dtype) != (new.size, new.dtype):
        return False
    inner = inner_of(eqn)
    if inner:
        return eqn.primitive.name in INNER and looked_at(getattr(inner[0][0], "jaxpr", inner[0][0])) == [0]
    moved = eqn.primitive.name == "reshape" and eqn.params.get("dimensions") is not None
    return eqn.primitive.name in _IN_ORDER and not moved


_IN_ORDER = frozenset((
    *("reshape", "squeeze", "broadcast_in_dim", "reduce_sum"),  # a sum over dimensions of one element
    *("convert_element_type", "copy", "stop_gradient"),
))  # fmt: skip


def all_steps(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of those that it calls."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner, _ in inner_of(eqn):
            yield from all_steps(getattr(inner, "jaxpr", inner))
        for branch in branches_of(eqn):
            yield from all_steps(branch.jaxpr)


def has_convolutions(jaxpr: Any) -> bool:
    """Return whether a kernel has a convolution."""
    return bool(_convolutions(jaxpr))


def _convolutions(jaxpr: Any) -> list[Any]:
    return [e for e in all_steps(jaxpr) if e.primitive.name == "conv_general_dilated"]


def convolves(jaxpr: Any) -> bool:
    """Return whether convolutions take so much of a kernel's time that it does not matter how XLA does the rest."""
    steps = _convolutions(jaxpr)
    elements = sum([v.aval.size for e in steps for v in (*e.invars, *e.outvars)])
    return sum([e.outvars[0].aval.size * _added_up(e) for e in steps]) > _HEAVY * elements


_HEAVY = 32
"""Multiplications for each element that convolutions read or write."""


def _added_up(eqn: Any) -> int:
    """Products that each result of a convolution adds up."""
    kernel = eqn.invars[1].aval
    return kernel.size // max(1, kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]])


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


# --- the exceptions -------------------------------------------------------------------------------------------


def saves(eqn: Any) -> float:
    """Microseconds that NumPy saves by a step, which it does at any size; 0 for all other steps."""
    rule = EXCEPTIONS.get(eqn.primitive.name)
    return 0.0 if rule is None or not eqn.invars[0].aval.ndim else rule(eqn)


def _each(nanoseconds: float, holds: Callable[[Any], bool] = lambda eqn: True) -> Callable[[Any], float]:
    """So much for each element, where a condition holds."""
    return lambda eqn: eqn.invars[0].aval.size * nanoseconds / 1000 if holds(eqn) else 0.0


def _sort(eqn: Any) -> float:
    """NumPy sorts integers several at a time, and XLA calls a comparison for each two of other numbers."""
    size, whole = eqn.invars[0].aval.size, len(eqn.invars) == 1 and eqn.invars[0].aval.dtype.kind in "iu"
    return size * (18e-3 if whole else 80e-3)


def _along_rows(eqn: Any) -> bool:
    """Return whether a step goes along the last dimension, where its elements lie side by side."""
    axis = eqn.params["axes"][0] if "axes" in eqn.params else eqn.params["axis"]
    return axis == eqn.invars[0].aval.ndim - 1


def _of_floats(eqn: Any) -> bool:
    return bool(eqn.invars[0].aval.dtype.kind == "f")


def _of_wide_rows(eqn: Any) -> bool:
    """Whether a running sum or its like goes along another dimension than the last one, over many elements beside."""
    aval = eqn.invars[0].aval
    return aval.dtype.kind in "iuf" and reductions.in_wide_rows(aval.shape, eqn.params["axis"])


def _of_all(eqn: Any) -> bool:
    """Return whether a step makes one number of so many elements that NumPy takes them by columns."""
    return not eqn.outvars[0].aval.shape and eqn.invars[0].aval.size % 1024 == 0


_SIDE, _TINY_SIDE, _BATCH = 256, 32, 16
"""Rows of a square matrix, up to which one thread decomposes it sooner than several; one of other shape takes as long
as it has products to make. XLA calls LAPACK for one matrix of a batch after the other with less ado, which counts where
there are many and tiny ones."""


def of_lapack(matrices: Any) -> bool:
    """Return whether these are matrices that NumPy gives to LAPACK itself."""
    shape = matrices[0].shape
    few = math.prod(shape[:-2]) <= _BATCH or min(shape[-2:]) > _TINY_SIDE
    work = [math.prod(a.shape[-2:]) * min(a.shape[-2:]) for a in matrices]
    return few and min(work) > 0 and max(work) <= _SIDE**3


def _of_lapack(eqn: Any) -> float:
    """Much: OpenBLAS's threads may wait for each other for 15 ms."""
    dims = eqn.invars[0].aval.ndim  # what has fewer is no matrix: pivots, eigenvalues, singular values
    matrices = [v.aval for v in (*eqn.invars, *eqn.outvars) if v.aval.ndim == dims]
    return 5000.0 if of_lapack(matrices) else 0.0


def _convolution(eqn: Any) -> float:
    """Return what a thousandth of XLA's compiling takes, less what NumPy takes longer; more for thin ones."""
    return _thin_convolution(eqn) or max(0.0, OF_CONVOLUTION - products.convolution_cost(eqn))


OF_CONVOLUTION = 150.0
"""Microseconds that NumPy may take longer for a convolution, which XLA compiles for 50 to 150 ms."""


def _thin_convolution(eqn: Any) -> float:
    """For few channels and a small window, where little is added up for each result."""
    out, kernel = eqn.outvars[0].aval, eqn.invars[1].aval
    grouped = eqn.params["feature_group_count"] * eqn.params["batch_group_count"] > 1
    if grouped or any(n > 1 for n in eqn.params["lhs_dilation"]) or not kernel.size:
        return 0.0
    summed = _added_up(eqn)
    return out.size * summed * 0.05e-3 if summed <= _SUMMED and out.size * summed <= _PRODUCTS else 0.0


_SUMMED, _PRODUCTS = 32, 1 << 23
"""Products that each result of such a convolution adds up, and all of them together."""

_CHOSEN = 32
"""Elements of a row that XLA chooses about as fast as NumPy."""

EXCEPTIONS: dict[str, Callable[[Any], float]] = {
    "sort": _sort,
    **dict.fromkeys(("lu", "cholesky", "eigh", "svd", "qr", "triangular_solve"), _of_lapack),
    "top_k": _each(10, lambda eqn: eqn.params["k"] > _CHOSEN),
    "argmax": _each(4, _along_rows),
    "argmin": _each(4, _along_rows),
    "reduce_prod": _each(0.7, _of_all),
    "conv_general_dilated": _convolution,
    "cummax": _each(3.5, lambda eqn: _along_rows(eqn) or _of_wide_rows(eqn)),
    "cummin": _each(3.5, lambda eqn: _along_rows(eqn) or _of_wide_rows(eqn)),
    "cumsum": _each(2.5, lambda eqn: _of_floats(eqn) or _along_rows(eqn) or _of_wide_rows(eqn)),
    "cumprod": _each(2.5, lambda eqn: _of_floats(eqn) or _along_rows(eqn) or _of_wide_rows(eqn)),
}
"""Microseconds that NumPy saves by a step, whatever its size, as measured for a million elements."""
