"""Jaxprs that NumPy evaluates to the very bits that XLA's CPU kernel would give.

Moving, comparing and choosing elements is exact everywhere, and so is one rounded operation, which IEEE 754
defines. What is refused is where XLA may round otherwise than step by step: a product that an addition reads (it
becomes a fused multiply-add), a division by what is repeated (it becomes a multiplication), half types computed in
a wider one, sums whose order XLA chooses, functions that are approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import exact_steps
from .exact_steps import Unsure
from .transfer import SMALL

__all__ = ["Program", "Unsure", "program"]

_LONGEST = 40
"""Steps of a program."""

GIVEN, SUMMED, PRODUCT, SCALED, WIDE = range(5)
"""What a value has been through: nothing that rounds; sums; products, which a sum must not read; products with what is
repeated, which XLA multiplies together first, and quotients; a rounding to a half type, which XLA may leave out where
something computes with the result."""

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
_MOVED = frozenset((
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "rev", "slice", "concatenate",
    "pad", "copy", "split", "stack", "unstack", "tile", "bitcast_convert_type", "stop_gradient",
    "dynamic_slice", "dynamic_update_slice", "gather", "scatter", "select_n", "iota", "real", "imag",
    "complex"
))  # fmt: skip
_COMPARED = frozenset(["eq", "ne", "lt", "le", "gt", "ge", "is_finite"])
_SAME = frozenset(["neg", "abs", "sign", "max", "min", "clamp", "floor", "ceil", "round", "conj"])
_ARITHMETIC = frozenset((
    "add", "add_any", "sub", "mul", "div", "sqrt", "square", "integer_pow", "divide", "scatter-add"
))  # fmt: skip
_WHOLE = frozenset((
    "add", "add_any", "sub", "mul", "neg", "abs", "sign", "max", "min", "clamp", "and", "or", "not", "xor",
    "square", "argmax", "argmin", "cumsum", "scatter-add", "reduce_sum", "reduce_prod", "reduce_max",
    "reduce_min", "reduce_and", "reduce_or"
))  # fmt: skip
"""What is computed with integers and booleans."""


class _No(Exception):
    """XLA may compute this otherwise."""


class _Value:
    """A value while a program is made: where it lies, what it has been through."""

    __slots__ = ("at", "constant", "source", "state")

    def __init__(self, at: int, source: str, state: int = GIVEN, constant: Any = None) -> None:
        self.at, self.source, self.state, self.constant = at, source, state, constant


class Program:
    """Steps over a list of values."""

    __slots__ = ("_constants", "_dtypes", "_outs", "_size", "_steps", "_watch")

    def __init__(
        self, dtypes: Sequence[Any], watch: Sequence[int], constants: Sequence[tuple[int, Any]],
        steps: Sequence[tuple[Callable[..., Any], tuple[int, ...], int, bool]], outs: Sequence[int], size: int,
    ) -> None:  # fmt: skip
        self._dtypes, self._watch, self._constants = dtypes, watch, constants
        self._steps, self._outs, self._size = steps, outs, size

    def __call__(self, args: Sequence[Any]) -> list[np.ndarray]:
        """The results for flat arguments; `Unsure` where their values leave it open what XLA would give."""
        env: list[Any] = [None] * self._size
        with np.errstate(all="ignore"):
            for i, (x, dt) in enumerate(zip(args, self._dtypes)):
                try:
                    env[i] = np.asarray(x, dt)
                except (OverflowError, TypeError, ValueError):
                    raise Unsure from None
            for at, value in self._constants:
                env[at] = value
            for at in self._watch:
                exact_steps.no_subnormals(env[at])
            for fn, where, out, watched in self._steps:
                found = fn(*[env[i] for i in where])
                if watched:
                    exact_steps.no_subnormals(found)
                if out < 0:
                    env[-out : -out + len(found)] = found
                else:
                    env[out] = found
        return [env[i] for i in self._outs]


def program(closed: Any) -> Program | None:
    """The same for NumPy as a closed jaxpr computes, if that is sure to give the same bits."""
    try:
        return _Maker(closed).program()
    except (_No, Unsure):  # the second by what is computed of constants alone
        return None


class _Maker:
    """A program in the making."""

    def __init__(self, closed: Any) -> None:
        self.steps: list[tuple[Callable[..., Any], tuple[int, ...], int, bool]] = []
        self.constants: list[tuple[int, Any]] = []
        self.size = 0
        self.computes = self.narrowed = False
        self.inputs = [self._input(v.aval) for v in closed.jaxpr.invars]
        consts = [self._constant(np.asarray(c)) for c in closed.consts]
        self.avals = [v.aval for v in closed.jaxpr.invars]
        self.outs = self._run(closed.jaxpr, consts, self.inputs)

    def program(self) -> Program:
        """What came of it."""
        watch = [
            v.at for v, a in zip(self.inputs, self.avals) if self.computes and _is_inexact(a.dtype)
        ]
        return Program(
            [a.dtype for a in self.avals], watch, self.constants, self.steps,
            [v.at for v in self.outs], self.size,
        )  # fmt: skip

    def _place(self, n: int = 1) -> int:
        at = self.size
        self.size += n
        return at

    def _input(self, aval: Any) -> _Value:
        _check_aval(aval)
        return _Value(self._place(), "argument")

    def _constant(self, value: np.ndarray) -> _Value:
        if _is_inexact(value.dtype) and exact_steps.has_subnormals(value):
            raise _No
        v = _Value(self._place(), "constant", constant=value)
        self.constants.append((v.at, value))
        return v

    def _run(self, jaxpr: Any, consts: Sequence[_Value], args: Sequence[_Value]) -> list[_Value]:
        env: dict[Any, _Value] = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))

        def value(v: Any) -> _Value:
            if hasattr(v, "val"):
                return self._constant(np.asarray(v.val, v.aval.dtype))
            return env[v]

        for eqn in _needed(jaxpr):
            ins = [value(v) for v in eqn.invars]
            name = eqn.primitive.name
            inner = _CALLS.get(name)
            if inner is not None:
                closed = eqn.params[inner]
                consts = [self._constant(np.asarray(c)) for c in getattr(closed, "consts", ())]
                found = self._run(getattr(closed, "jaxpr", closed), consts, ins)
            else:
                found = self._step(name, eqn, ins)
            env.update(zip(eqn.outvars, found))
        return [value(v) for v in jaxpr.outvars]

    def _step(self, name: str, eqn: Any, ins: list[_Value]) -> list[_Value]:
        if len(self.steps) >= _LONGEST:
            raise _No
        for v in eqn.outvars:
            _check_aval(v.aval)
        avals = [v.aval for v in eqn.invars]
        make = exact_steps.STEPS.get(name)
        fn = make and make(eqn.params, avals, [v.aval for v in eqn.outvars])
        if not fn:
            raise _No
        state, watched = self._judged(name, eqn, ins, avals)
        if state == GIVEN and len(eqn.outvars) == 1 and all(v.constant is not None for v in ins):
            return [self._constant(np.asarray(fn(*[v.constant for v in ins])))]
        n = len(eqn.outvars)
        at = self._place(n)
        where = tuple([v.at for v in ins])
        self.steps.append((fn, where, -at if eqn.primitive.multiple_results else at, watched))
        return [_Value(at + i, name, state) for i in range(n)]

    def _judged(
        self, name: str, eqn: Any, ins: list[_Value], avals: Sequence[Any]
    ) -> tuple[int, bool]:
        """What the results have been through, and whether they may come out subnormal; `_No` if XLA may differ."""
        most = max((v.state for v in ins), default=GIVEN)
        if name in _MOVED:
            return most, False
        if name == "convert_element_type":
            return self._converted(most, avals[0].dtype, eqn.outvars[0].aval.dtype)
        if most == WIDE:
            raise _No
        dt = avals[0].dtype if avals else eqn.outvars[0].aval.dtype
        if not _is_inexact(dt):
            if name in _WHOLE or name in _COMPARED:
                return GIVEN, False
            raise _No
        self.computes = True
        if name in _COMPARED:
            return GIVEN, False
        if name in _SAME:
            return most, False
        if name in ("reduce_sum", "dot_general"):
            if any(v.source != "argument" for v in ins):
                raise _No
            return SUMMED, True
        if name in ("reduce_max", "reduce_min"):
            return most, False
        if name not in _ARITHMETIC:
            raise _No
        return self._rounded(name, most, ins, dt), True

    def _rounded(self, name: str, most: int, ins: list[_Value], dt: Any) -> int:
        if dt.kind == "c" and name not in ("add", "add_any", "sub"):
            raise _No
        half = _is_half(dt)
        if half and most != GIVEN:
            raise _No
        constant = [v.constant is not None for v in ins]
        if name in ("add", "add_any", "sub", "scatter-add"):
            zeros = any(c and not np.all(v.constant) for c, v in zip(constant, ins))
            if most > SUMMED or (
                name != "scatter-add" and (zeros or (any(constant) and most != GIVEN))
            ):
                raise _No  # constants are added first, and sums with zero left out
            return WIDE if half else SUMMED
        if name in ("mul", "square", "integer_pow"):
            spread = any(constant) or any(v.source == "broadcast_in_dim" for v in ins)
            if most == SCALED:
                raise _No
            return WIDE if half else SCALED if spread else PRODUCT
        if most > SUMMED or (name == "div" and ins[1].source not in ("argument", "select_n")):
            raise _No  # XLA multiplies by the reciprocal of what it can tell to be repeated
        return WIDE if half else SCALED

    def _converted(self, most: int, old: Any, new: Any) -> tuple[int, bool]:
        if old == new:
            return most, False
        if old.kind == "b" and _is_inexact(new):
            return WIDE, False  # a product with one becomes a choice
        if _is_half(new) and not _is_inexact(old):
            raise _No
        if not _is_inexact(old) or new.kind == "b":
            if most == WIDE:
                raise _No
            self.computes |= _is_inexact(old)
            return GIVEN, False
        if not _is_inexact(new):
            if most == WIDE:
                raise _No
            self.computes = True
            return GIVEN, False
        self.computes = True
        if _digits(new) >= _digits(old) and not (_is_half(old) and _is_half(new)):
            if self.narrowed:
                raise _No  # XLA may leave out both
            return most, False
        if not _is_half(new):
            self.narrowed = True
            return most, True
        if old != np.float32:
            raise _No  # in one step or in two
        return WIDE, True


def _needed(jaxpr: Any) -> list[Any]:
    """The equations that the results depend on."""
    if jaxpr.effects:
        raise _No
    wanted = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(eqn.outvars):
            kept.append(eqn)
            wanted.update(v for v in eqn.invars if not hasattr(v, "val"))
    return kept[::-1]


def _is_inexact(dt: Any) -> bool:
    return jax.numpy.issubdtype(dt, np.inexact)


def _is_half(dt: Any) -> bool:
    return dt.itemsize == 2 and _is_inexact(dt)


def _digits(dt: Any) -> int:
    return jax.numpy.finfo(dt).nmant


def _check_aval(aval: Any) -> None:
    shape = getattr(aval, "shape", None)
    if shape is None or not all(isinstance(n, int) for n in shape):
        raise _No
    if int(np.prod(shape, dtype=np.int64)) > SMALL or not isinstance(aval.dtype, np.dtype):
        raise _No
