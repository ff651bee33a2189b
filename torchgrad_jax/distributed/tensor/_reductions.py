"""Which results are reductions of what the processes compute of their own parts, decided by the steps of an operator.

`x.sum(0)` of rows that are split over the axis "dp" is `reduce_sum` over the dimension that "dp" splits, so each
process computes a summand: the same operator of its own rows. The operator is traced twice, for the whole tensors and
for the parts, and both traces are followed step by step. A step that is not known here, or a number that is another
one for the parts, ends the search, and the result is the whole one, as XLA computes it. The count that a mean divides
by is the one exception: parts of equal size have means of their own, whose average is the whole one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

State = dict[str, Any]
"""What each axis of a mesh does with an array: the number of the dimension that it splits, or how it reduces."""


class Unknown(Exception):
    """The steps are none that are known here."""


def found_in(whole: Any, part: Any, states: Sequence[State], sizes: Mapping[str, int]) -> list[State]:
    """The states of the results of a jaxpr.

    Args:
        whole: the closed jaxpr for the whole arrays.
        part: the same for what a process has of them.
        states: those of the arguments.
        sizes: the lengths of the axes.
    """
    if len(whole.consts) != len(part.consts) or any(not np.array_equal(*c) for c in zip(whole.consts, part.consts)):
        raise Unknown
    return _Search(sizes).jaxpr(whole.jaxpr, part.jaxpr, [{} for _ in whole.consts], states)


_ANY: State = {"": None}
"""The state of an array with one number everywhere, whatever splits it."""


class _Search:
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.counts: dict[Any, float] = {}
        """For a variable that stands for a number of elements: how many times as large it is for the whole arrays."""

    def jaxpr(self, whole: Any, part: Any, consts: Sequence[State], states: Sequence[State]) -> list[State]:
        known = dict(zip((*whole.constvars, *whole.invars), (*consts, *states), strict=True))
        if len(whole.eqns) != len(part.eqns):
            raise Unknown
        for a, b in zip(whole.eqns, part.eqns, strict=True):
            if a.primitive is not b.primitive:
                raise Unknown
            before = [{} if hasattr(v, "val") else known[v] for v in a.invars]
            after = self.equation(a, b, before)
            for v, w, state in zip(a.outvars, b.outvars, after, strict=True):
                if state is not _ANY and self.part_shape(v.aval.shape, state) != w.aval.shape:
                    raise Unknown
                known[v] = state
        return [{} if hasattr(v, "val") else known[v] for v in whole.outvars]

    def part_shape(self, shape: tuple[int, ...], state: State) -> tuple[int, ...]:
        """The shape of what a process has."""
        sizes = list(shape)
        for axis, what in state.items():
            if isinstance(what, int):
                if sizes[what] % self.sizes[axis]:
                    raise Unknown
                sizes[what] //= self.sizes[axis]
        return tuple(sizes)

    def equation(self, a: Any, b: Any, before: list[State]) -> list[State]:
        name = a.primitive.name
        if name in _CALLS:
            return self.inside(a.params[_CALLS[name]], b.params[_CALLS[name]], before)
        if len(a.outvars) != 1:
            raise Unknown
        counts = [self.count(v, w) for v, w in zip(a.invars, b.invars, strict=True)]
        if any(n != 1 for n in counts):
            if name in ("broadcast_in_dim", "convert_element_type") and len(counts) == 1:
                self.counts[a.outvars[0]] = counts[0]
            elif name not in _DIVIDE or counts != [1, self.summands(before[0])]:
                raise Unknown
        if name == "broadcast_in_dim" and a.outvars[0].aval.shape != b.outvars[0].aval.shape and not any(before):
            if a.invars[0].aval.shape:
                raise Unknown
            return [_ANY]
        if any(state is _ANY for state in before):
            if name not in _EACH:
                raise Unknown
            if all(state is _ANY or not v.aval.shape for v, state in zip(a.invars, before)):
                if any(state for state in before if state is not _ANY):
                    raise Unknown
                return [_ANY]
            shaped = next(s for v, s in zip(a.invars, before) if s is not _ANY and v.aval.shape)
            split = {axis: what for axis, what in shaped.items() if isinstance(what, int)}
            before = [split if state is _ANY else state for state in before]
        averages = name in _DIVIDE and counts[1] != 1
        out: State = {}
        for axis in sorted({axis for state in before for axis in state}):
            what = _after(a, [state.get(axis) for state in before])
            if what is not None:
                out[axis] = "avg" if what == "sum" and averages else what
        return [out]

    def count(self, v: Any, w: Any) -> float:
        """Return how many times as large a number is for the whole arrays: 1 where it is the same one."""
        if hasattr(v, "val") != hasattr(w, "val"):
            raise Unknown
        if not hasattr(v, "val"):
            return self.counts.get(v, 1)
        if np.array_equal(v.val, w.val):
            return 1
        if np.ndim(v.val) or not w.val:
            raise Unknown
        return float(v.val) / float(w.val)

    def summands(self, state: State) -> int:
        """Return how many summands there are of a sum."""
        return math.prod(self.sizes[axis] for axis, what in state.items() if what == "sum")

    def inside(self, a: Any, b: Any, before: list[State]) -> list[State]:
        if hasattr(a, "consts"):
            if a.consts or b.consts:
                raise Unknown
            a, b = a.jaxpr, b.jaxpr
        return self.jaxpr(a, b, [], before)


_CALLS = {"jit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
"""Steps that have steps of their own, and the parameter that holds them."""
_DIVIDE = ("div", "divide")
_EACH = frozenset({
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
    "clamp", "complex", "conj", "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma", "div",
    "divide", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag", "integer_pow",
    "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or",
    "pow", "real", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient",
    "sub", "tan", "tanh", "xor",
})  # fmt: skip
"""Steps that compute each element of their result of the elements in its place."""
_REDUCE = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "product",
    "reduce_or": "sum",
    "reduce_and": "product",
}
"""Reductions, and what they make of parts; that of truth values is a sum or a product in torch, too."""
_MOVES = ("broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "rev", "dynamic_slice", "gather")
"""Steps that move elements of their first argument, and give a reduction where that is one."""
_LINEAR = ("sum", "avg")


def _after(eqn: Any, before: list[Any]) -> Any:
    """What an axis does with the result of a step, by what it does with each argument; None for nothing."""
    if all(what is None for what in before):
        return None
    name, p = eqn.primitive.name, eqn.params
    if name in _REDUCE:
        return _reduced(name, p["axes"], before[0])
    if name == "dot_general":
        return _product(eqn, p["dimension_numbers"], *before)
    if any(isinstance(what, str) for what in before):
        return _of_reductions(eqn, name, before)
    if name in _EACH:
        return _each(eqn, before)
    if name in _MOVES and all(what is None for what in before[1:]):
        return _moved(eqn, name, p, before[0])
    raise Unknown


def _reduced(name: str, axes: Sequence[int], what: Any) -> Any:
    op = _REDUCE[name]
    if isinstance(what, str):
        if what == op or (what == "avg" and op == "sum"):
            return what
        raise Unknown
    return op if what in axes else what - sum(d < what for d in axes)


def _product(eqn: Any, numbers: Any, x: Any, y: Any) -> Any:
    (xc, yc), (xb, yb) = numbers
    if isinstance(x, str) or isinstance(y, str):
        if {x, y} in ({"sum", None}, {"avg", None}):
            return x or y
        raise Unknown
    if x is not None and y is not None:
        if any((x, y) == pair for pair in zip(xc, yc)):
            return "sum"
        if any((x, y) == pair for pair in zip(xb, yb)):
            return xb.index(x)
        raise Unknown
    at: Any
    at, contracted, batch = (x, xc, xb) if y is None else (y, yc, yb)
    if at in contracted or at in batch:
        raise Unknown
    free = [d for d in range(eqn.invars[0 if y is None else 1].aval.ndim) if d not in contracted and d not in batch]
    before = 0 if y is None else eqn.invars[0].aval.ndim - len(xc) - len(xb)
    return len(batch) + before + free.index(at)


def _of_reductions(eqn: Any, name: str, before: list[Any]) -> Any:
    """Return what becomes of reductions: a linear step of them is one."""
    ops, others = {w for w in before if isinstance(w, str)}, [w for w in before if not isinstance(w, str)]
    if len(ops) > 1 or any(w is not None for w in others):
        raise Unknown
    (op,) = ops
    if name in ("add", "add_any", "sub", "concatenate", "stack", "complex") and not others:
        if op in _LINEAR or name in ("concatenate", "stack"):
            return op
    elif isinstance(before[0], str) and not any(isinstance(w, str) for w in before[1:]):
        if name in _MOVES or name in ("copy", "copy_p"):
            return op
        if name in ("neg", "mul", *_DIVIDE, "real", "imag") and op in _LINEAR:
            return op
        if name == "convert_element_type" and eqn.outvars[0].aval.dtype.kind not in "bui":
            return op
    elif name == "mul" and len(before) - len(others) == 1 and op in _LINEAR:
        return op
    raise Unknown


def _each(eqn: Any, before: list[Any]) -> Any:
    shape, found = eqn.outvars[0].aval.shape, set()
    for v, what in zip(eqn.invars, before, strict=True):
        if v.aval.shape == shape:
            found.add(what)
        elif v.aval.shape:
            raise Unknown
    if len(found) != 1:
        raise Unknown
    return found.pop()


def _moved(eqn: Any, name: str, p: Mapping[str, Any], dim: int) -> Any:
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if name == "transpose":
        return p["permutation"].index(dim)
    if name == "squeeze":
        return dim - sum(d < dim for d in p["dimensions"])
    if name == "broadcast_in_dim" and after[p["broadcast_dimensions"][dim]] == before[dim]:
        return p["broadcast_dimensions"][dim]
    if name == "reshape":
        for d, size in enumerate(after):
            if size == before[dim] and math.prod(before[:dim]) == math.prod(after[:d]):
                return d
    raise Unknown


def traced(plan: Any, avals: Sequence[jax.ShapeDtypeStruct]) -> Any:
    """The steps of a plan for arguments of some shapes."""
    return jax.make_jaxpr(plan.fn)(*avals)
