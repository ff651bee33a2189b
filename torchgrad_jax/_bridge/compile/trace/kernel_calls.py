"""A program that calls the kernels of eager code, so that it gives eager code's bits: `torch.compile(f, mode="exact")`.

    y = (x * w).sin()     # while `f` is traced, the kernels of `mul` and `sin` are called on tracers
    v2 = k0(i0, i1)       # what is written down for them: calls of the same kernels
    v3 = k1(v2)

A program of the other modes is all of these steps in one, which XLA fuses as it likes: a product that goes into a sum
is rounded once, where eager code rounds it twice. Here each kernel is computed by what computes it in eager code,
NumPy or XLA, and XLA's start together where that keeps their bits (`kept_calls.py`).

A trace shows a kernel as a call of its steps. `Kernels` remembers which kernel that is. A step that is no kernel's,
such as a sum of two gradients, is made one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ...._core.jax import jit_caches
from ...._core.jax.evaluate import results_of
from ...._engine.run import compile_failures, kept_calls
from ...._engine.run.kernel import Kernel, traced_later
from .equal_steps import called


class Kernels:
    """The kernels that a run has called, by the steps that JAX's trace has for them.

    Args:
        device: where the program runs.
    """

    __slots__ = ("_by_steps", "device")

    def __init__(self, device: Any) -> None:
        self.device = device
        self._by_steps: dict[int, tuple[Any, Kernel, bool]] = {}

    def note(self, kernel: Kernel | None, args: Sequence[Any], single: bool, runs: Kernel | None) -> None:
        """Remember a kernel that was called on tracers.

        Args:
            kernel: the kernel, or None for a function that calls several.
            args: its arguments.
            single: whether it gives its one result, and not a list.
            runs: what eager code calls instead, a kernel of the leaves of these arguments.
        """
        traced = None if kernel is None else kernel.traced
        if kernel is None or traced is None:
            return
        found = [traced.trace(*args).jaxpr]
        if jit_caches.Closures.seen:
            with jit_caches.of_all_runs():
                found.append(traced.trace(*args).jaxpr)
        for steps in found:
            self._by_steps[id(steps)] = steps, runs or kernel, single

    def of(self, eqn: Any) -> tuple[Kernel, bool, bool]:
        """Return the kernel of a step, whether it gives its one result, and whether it takes numbers as they are."""
        steps = eqn.params.get("jaxpr")
        known = self._by_steps.get(id(steps))
        if known is not None and len(eqn.invars) == len(steps.jaxpr.invars):
            return known[1], known[2], True
        inner = called(eqn)
        key = eqn if inner is None else inner
        made = self._by_steps.get(id(key))
        if made is None:
            made = self._by_steps[id(key)] = key, traced_later(_function_of(eqn), self.device), False
        return made[1], False, False


def _function_of(eqn: Any) -> Callable[..., Any]:
    """A step as a function of its arguments, which gives the list of its results."""

    def step(*args: Any) -> list[Any]:
        return [*results_of(eqn, [*args])]

    step.__name__ = step.__qualname__ = str(eqn.params.get("name", eqn.primitive.name))
    return step


_MARKS = frozenset(["copy_p", "optimization_barrier", "stop_gradient"])
"""Steps that mean something to JAX and XLA, and give their arguments."""


def _gives_arguments(eqn: Any) -> bool:
    """Whether a step gives the arrays that it is given, which eager code does not touch there."""
    inner = called(eqn)
    if inner is None:
        return eqn.primitive.name in _MARKS
    steps = inner.jaxpr
    return [*steps.invars] == [*steps.outvars] or (
        len(steps.eqns) == 1
        and steps.eqns[0].invars == steps.invars
        and steps.eqns[0].outvars == steps.outvars
        and _gives_arguments(steps.eqns[0])
    )


class _Name(str):
    """Stands for a value: its name in the function that is written."""

    __slots__ = ()


class _Call:
    """A call of a kernel: names of what it gives and reads, and what JAX knows of its arguments."""

    __slots__ = ("effects", "kernel", "like", "step")

    def __init__(self, step: kept_calls.Step, kernel: Kernel, like: Sequence[Any], effects: bool) -> None:
        self.step, self.kernel, self.like, self.effects = step, kernel, like, effects


def as_kernels(
    kernels: Kernels, count: int, build: Callable[[list[Any], Callable[..., Any]], Sequence[Any]]
) -> Callable[..., list[Any]]:
    """Return a function of arrays that calls kernels for the steps that `build` takes.

    Args:
        kernels: those of the trace.
        count: how many arguments the function has.
        build: given names for these, and what takes a step (see `evaluate`), gives the results.
    """
    writer = _Writer(kernels)
    names = [_Name(f"i{k}") for k in range(count)]
    return writer.function(names, [writer.name(x) for x in build([*names], writer.take)])


class _Writer:
    """Writes the calls of kernels down, and what stands in them as a constant."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._calls: list[_Call] = []
        self._called: dict[Kernel, str] = {}
        self._constants: list[Any] = []
        self._known: dict[Any, str] = {}
        self._values = 0

    def take(self, eqn: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Write a step down; return names for its results."""
        if _gives_arguments(eqn):
            return args
        kernel, single, as_given = self._kernels.of(eqn)
        given = [_plain(v, x, as_given) for v, x in zip(eqn.invars, args)]
        like = [
            jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) if x.__class__ is _Name else x
            for v, x in zip(eqn.invars, given)
        ]
        outs = [_Name(f"v{self._values + k}") for k in range(len(eqn.outvars))]
        self._values += len(outs)
        name = self._called.setdefault(kernel, f"k{len(self._called)}")
        step = kept_calls.Step([*outs], name, [self.name(x) for x in given], single)
        self._calls.append(_Call(step, kernel, like, bool(eqn.effects)))
        return outs

    def name(self, x: Any) -> str:
        """Return the name of a value; a constant gets one."""
        if x.__class__ is _Name:
            return str(x)
        key = (x.__class__, repr(x)) if isinstance(x, int | float | complex) else id(x)
        if key not in self._known:
            self._known[key] = f"c{len(self._constants)}"
            self._constants.append(x)
        return self._known[key]

    def function(self, names: Sequence[str], results: Sequence[str]) -> Callable[..., list[Any]]:
        """Return the function of the values with these names that gives those."""
        calls = _needed(self._calls, results)
        for call in calls:
            if call.kernel.is_open:
                call.kernel.trace(call.like)
        kernels = {name: kernel for kernel, name in self._called.items()}
        space: dict[str, Any] = {name: kernel.run or kernel for name, kernel in kernels.items()}
        constants = self._constants
        given = [*map(str, names), *[f"c{k}" for k in range(len(constants))]]
        steps = [call.step for call in calls]
        run = kept_calls.function(steps, space, given, results, "exact_step", __file__)
        joined = kept_calls.together(steps, given, kernels, space, results, name="exact_step")
        if joined is not None:
            run = _unless_it_fails(kept_calls.function(joined, space, given, results, "exact_step", __file__), run)
        return (lambda *xs: run(*xs, *constants)) if constants else run


def _unless_it_fails(
    joined: Callable[..., list[Any]], one_by_one: Callable[..., list[Any]]
) -> Callable[..., list[Any]]:
    """Return a function whose kernels start together, and one by one where that fails: then a kernel says why."""
    fails = False

    def run(*xs: Any) -> list[Any]:
        nonlocal fails
        if not fails:
            try:
                return joined(*xs)
            except Exception as error:
                fails = compile_failures.note(error, "an exact step", xs)
        return one_by_one(*xs)

    return run


def _needed(calls: Sequence[_Call], results: Sequence[str]) -> list[_Call]:
    """The calls that these results need, and those that do more than to give results."""
    needed, found = {*results}, []
    for call in reversed(calls):
        if call.effects or not needed.isdisjoint(call.step.outs):
            needed.update(call.step.ins)
            found.append(call)
    return found[::-1]


def _plain(v: Any, x: Any, as_given: bool) -> Any:
    """An argument of a step as eager code has it: numbers of Python's are such, where a kernel takes them."""
    if not hasattr(v, "val") or x.__class__ is _Name:
        return x
    array = np.asarray(x, v.aval.dtype)
    return array.item() if as_given and v.aval.weak_type and not array.shape else array
