"""Steps written down as they are taken, for a run of tensor code that stands for a batch of them.

JAX's own trace of a program costs tens of microseconds per step, which a program pays each time it runs
inside of `vmap`. A tape is a JAX trace like any other, so that whatever JAX code a run comes to is written
down too; the engine's compiled kernels, which nearly all steps are, it takes as they are: what they give is
known from their plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.arrays.meta import Meta
from ..._core.errors import messages as errors
from ..._core.jax.caches import remember
from ..._core.jax.evaluate import bind_equation, evaluate
from ..._core.jax.private import take_current_trace

_NUMBERS = frozenset((bool, int, float, complex))


@remember()
def aval_of(m: Meta) -> Any:
    """Return what JAX knows of an array that is described by `m`."""
    return jax.core.ShapedArray(m.shape, m.dtype.np)


class Value(jax.core.Tracer):
    """Stands for the value with a number, which a step of a tape gives."""

    __slots__ = ("number",)

    def __init__(self, tape: Tape, aval: Any, number: int) -> None:
        self._trace = tape
        self.aval = aval
        self.number = number

    @property
    def _debug_info(self) -> None:
        """What JAX asks for to complain of a value that outlived its trace: torch's complaint comes first."""
        if not self._trace.is_valid():
            raise RuntimeError(errors.ESCAPED)


class Look(NamedTuple):
    """Values to look at when the run is over, as tensors of one example, and the check of their rows."""

    tensors: list[Any]
    check: Callable[..., None]


class Literal:
    """A number among the arguments of a step: part of the program."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = (value.__class__, repr(value), getattr(value, "dtype", None))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.key == other.key


class Bound:
    """A primitive of JAX's with its parameters, as a step."""

    __slots__ = ("key", "params", "primitive")

    def __init__(self, primitive: Any, params: Any) -> None:
        self.primitive, self.params = primitive, params
        self.key = (primitive, tuple([(k, _param(v)) for k, v in params.items()]))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bound) and self.key == other.key

    def __call__(self, *args: Any) -> Any:
        return bind_equation(self, args)  # type: ignore[arg-type] - which reads these two attributes


class Closed:
    """A program that JAX has traced, as a step; told apart by identity."""

    __slots__ = ("jaxpr",)

    def __init__(self, jaxpr: Any) -> None:
        self.jaxpr = jaxpr

    def __call__(self, *args: Any) -> Any:
        return evaluate(self.jaxpr, args)


class Same:
    """Something compared by identity, kept alive by the key it is part of."""

    __slots__ = ("what",)

    def __init__(self, what: Any) -> None:
        self.what = what

    def __hash__(self) -> int:
        return id(self.what)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.what is other.what


def _param(value: Any) -> Any:
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        return Same(value)
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return value


class Tape(jax.core.Trace):
    """The steps of one run. A step is (function, arguments, number of its first result, how many).

    Arguments are numbers of values, or literals. A step with one result that is no tuple says -1.
    """

    __slots__ = ("consts", "count", "inputs", "known", "looks", "outside", "parent_trace", "steps")

    def __init__(self, avals: Sequence[Any], parent: Any) -> None:
        super().__init__()
        self.parent_trace = parent
        self.requires_low = False
        self.steps: list[tuple[Any, tuple[Any, ...], int, int]] = []
        self.count = 0
        self.consts: list[tuple[int, Any]] = []
        """Arrays from elsewhere that steps read, and their numbers."""
        self.known: dict[int, int] = {}
        self.outside: list[tuple[int, int]] = []
        """Values that stand for captured tensors: their numbers, and those of the tensors."""
        self.looks: list[Look] = []
        """Checks to make when the run is over, see `deferred`."""
        self.inputs = [self._value(a) for a in avals]

    def _value(self, aval: Any) -> Value:
        self.count += 1
        return Value(self, aval, self.count - 1)

    def holds(self, x: Any) -> bool:
        """Return whether `x` is a value of this tape."""
        return x.__class__ is Value and x._trace is self

    def place(self, index: int, m: Meta) -> Value:
        """Return what stands for the captured tensor `index`."""
        self.outside.append((self.count, index))
        return self._value(aval_of(m))

    def number_of(self, x: Any) -> Any:
        """How a step refers to an argument."""
        kind = x.__class__
        if kind is Value and x._trace is self:
            return x.number
        if kind in _NUMBERS or isinstance(x, np.generic | int | float | complex):
            return Literal(x)
        number = self.known.get(id(x))
        if number is None:
            number = self.known[id(x)] = self.count
            self.count += 1
            self.consts.append((number, x))
        return number

    def kernel(self, fn: Callable[..., Any], xs: Sequence[Any], avals: Any) -> Any:
        """A step that is a compiled kernel: what it gives, or None where it must be called as it is.

        `avals` describes its results: one aval, or a tuple of them.
        """
        refs = []
        for x in xs:
            kind = x.__class__
            if kind is Value:
                if x._trace is not self:
                    return None
                refs.append(x.number)
            elif kind in _NUMBERS:
                refs.append(Literal(x))
            elif kind is np.ndarray or (isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)):
                refs.append(self.number_of(x))
            else:
                return None
        at = self.count
        if avals.__class__ is not tuple:
            self.count = at + 1
            self.steps.append((fn, tuple(refs), at, -1))
            return Value(self, avals, at)
        n = len(avals)
        self.count = at + n
        self.steps.append((fn, tuple(refs), at, n))
        return [Value(self, a, k) for k, a in enumerate(avals, at)]

    def stop(self, x: Value, stop: Callable[[Any], Any]) -> Value:
        """The same value where `stop` ends derivatives."""
        self.steps.append((stop, (x.number,), self.count, -1))
        return self._value(x.aval)

    def _step(self, fn: Any, args: Sequence[Any], avals: Sequence[Any], single: bool) -> Any:
        refs = tuple([self.number_of(x) for x in args])
        self.steps.append((fn, refs, self.count, -1 if single else len(avals)))
        values = [self._value(a) for a in avals]
        return values[0] if single else values

    # --- what JAX asks of a trace ----------------------------------------------------------------

    def stage_value(self, val: Any) -> Any:
        """A value from elsewhere as one of this trace's."""
        number = self.number_of(val)
        aval = jax.typeof(val)
        if number.__class__ is int:
            return Value(self, aval, number)
        return self._step(jnp.asarray, [val], [aval], True)

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        """One primitive."""
        if jax.config.eager_constant_folding and not any(isinstance(x, Value) for x in tracers):
            return self._now(lambda: primitive.bind(*tracers, **params))
        avals = [jax.typeof(x) for x in tracers]
        out, _ = primitive.abstract_eval(*avals, **params)
        single = not primitive.multiple_results
        return self._step(Bound(primitive, params), tracers, [out] if single else out, single)

    def process_call(self, primitive: Any, f: Any, tracers: Any, params: Any, /) -> Any:
        """A call of a function that JAX traces for it."""
        return self._traced(lambda t, xs: t.process_call(primitive, f, xs, params), tracers)

    process_map = process_call

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **settings: Any) -> Any:
        """A function with a derivative of its own."""
        return self._traced(lambda t, xs: t.process_custom_jvp_call(primitive, fun, jvp, xs, **settings), tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **settings: Any
    ) -> Any:
        """A function with a derivative of its own in reverse mode."""
        return self._traced(lambda t, xs: t.process_custom_vjp_call(primitive, fun, fwd, bwd, xs, **settings), tracers)

    def _now(self, compute: Callable[[], Any]) -> Any:
        """Return what `jax.ensure_compile_time_eval` wants: values, and no step."""
        from jax.extend.core import set_current_trace

        with set_current_trace(self.parent_trace):
            return compute()

    def _traced(self, call: Callable[[Any, Any], Any], tracers: Sequence[Any]) -> Any:
        """Leave a step to a trace of JAX's own."""
        if jax.config.eager_constant_folding and not any(isinstance(x, Value) for x in tracers):
            return self._now(lambda: call(self.parent_trace, tracers))
        from jax.extend.core import set_current_trace

        def alone(*xs: Any) -> Any:
            with take_current_trace() as trace:
                return call(trace, list(xs))

        with set_current_trace(self):
            closed = jax.make_jaxpr(alone)(*[jax.typeof(x) for x in tracers])
        args = [*closed.consts, *tracers]
        return self._step(Closed(closed.jaxpr), args, closed.out_avals, False)

    # --- what it amounts to ----------------------------------------------------------------------

    def needed(self, outs: Sequence[Any]) -> list[Any]:
        """The steps that some values come from."""
        wanted, kept = {r for r in outs if r.__class__ is int}, []
        for step in reversed(self.steps):
            _, refs, at, n = step
            if (n < 0 and at in wanted) or not wanted.isdisjoint(range(at, at + n)):
                kept.append(step)
                wanted.update([r for r in refs if r.__class__ is int])
        return kept[::-1]

    def loosened(self, steps: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The steps with the numbers that kernels get made values, and these numbers."""
        numbers: list[Any] = []
        out = []
        for fn, refs, at, n in steps:
            if fn.__class__ is not Bound and fn.__class__ is not Closed:
                given = list(refs)
                for i, r in enumerate(refs):
                    if r.__class__ is Literal and r.value.__class__ in (int, float, complex):
                        given[i] = self.count + len(numbers)
                        numbers.append(r.value)
                refs = tuple(given)
            out.append((fn, refs, at, n))
        return out, numbers

    def function(self, steps: Sequence[Any], outs: Sequence[Any], n_captured: int, n_numbers: int = 0) -> Any:
        """The steps as a pure function of the inputs, the captured arrays, the constants, and numbers."""
        n_in, n_consts = len(self.inputs), len(self.consts)
        last = n_in + n_captured + n_consts
        places = [(number, n_in + i) for number, i in self.outside]
        places += [(number, n_in + n_captured + k) for k, (number, _) in enumerate(self.consts)]
        places += [(self.count + k, last + k) for k in range(n_numbers)]
        count = self.count + n_numbers

        def run(*arrays: Any) -> list[Any]:
            env: list[Any] = [None] * count
            env[:n_in] = arrays[:n_in]
            for number, i in places:
                env[number] = arrays[i]
            for fn, refs, at, n in steps:
                out = fn(*[env[r] if r.__class__ is int else r.value for r in refs])
                if n < 0:
                    env[at] = out
                else:
                    env[at : at + n] = out
            return [env[r] if r.__class__ is int else r.value for r in outs]

        return run
