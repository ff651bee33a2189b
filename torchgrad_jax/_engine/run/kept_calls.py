"""Kernels of XLA's that run as one program and keep the bits of each.

    v5, = k0(v0)                     v5, v6, = p0(v0, v1)
    v6, = k1(v5, v1)       becomes   v7, = k2(v6)
    v7, = k2(v6)

where XLA computes `k0` and `k1`, and NumPy `k2`. The program `p0` has a call of each kernel, and XLA compiles it
without its pass that puts calls into the code around them, so that it fuses nothing across kernels. What is saved is
the start of each kernel, and new memory for each result that only other kernels of the program read.

XLA for TPUs puts calls into the code around them whatever it is asked, so that kernels start one by one there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._core.arrays.meta import Meta
from ..._core.host import choice
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from ..._core.jax.private import options_of_xla
from ..._core.jax.x64 import with_x64
from ..._core.written_code import compiled
from . import executors
from .kernel import Kernel
from .numbers_apart import WithNumbers

_MOST = 256
"""Kernels of one program."""


_on_device = with_x64(jnp.asarray)


class Step(NamedTuple):
    """A call of a kernel, with names for values."""

    outs: list[str]
    fn: str
    """The name of what is called."""
    ins: list[str]
    single: bool = False
    """Whether it gives its one result, and not a list of results."""
    sum: Meta | None = None
    """For a sum of two values, what these look like."""


@functools.cache
def _options() -> dict[str, Any]:
    """The option that keeps calls, where XLA has it and it does what it says."""
    if jax.default_backend() not in ("cpu", "gpu"):
        return {}
    return options_of_xla(("xla_disable_hlo_passes", "call-inliner"))


def together(
    steps: Sequence[Step],
    given: Sequence[str],
    kernels: Mapping[str, Kernel],
    space: dict[str, Any],
    results: Sequence[str],
    *,
    fused: bool = False,
    name: str = "backward_pass",
) -> list[Step] | None:
    """Return the steps with programs in the place of several kernels each, or None where there are none to join.

    Args:
        steps: the steps, in an order in which they can run.
        given: the names of the values that are there before.
        kernels: by name, the kernels that the steps call.
        space: what the names of functions stand for; the programs are added.
        results: the names of the values that are read afterwards.
        fused: whether XLA may put the calls into one another and fuse across kernels, which gives other last bits.
        name: what the programs are called, where kernels are listed.
    """
    if not (fused or _options()):
        return None
    options: dict[str, Any] = {} if fused else _options()
    programs = {id(s): kernels[s.fn].fusable if fused else _in_xla(s, kernels) for s in steps}
    there, pending, out = {*given}, [*steps], []
    while pending:
        group: list[Step] = []
        for alone in (True, False):
            made = {*there}
            taken, rest = [], []
            for s in pending:
                fits = (programs[id(s)] is None) == alone and made.issuperset(s.ins)
                if fits and (alone or len(taken) < _MOST):
                    made.update(s.outs)
                    taken.append(s)
                else:
                    rest.append(s)
            pending, there = rest, made
            if alone:
                out += taken
            else:
                group = taken
        if len(group) > 1:
            read = {*results}.union(*[s.ins for s in pending])
            out.append(_program(group, [programs[id(s)] for s in group], read, space, name, options))
        else:
            out += group
    return out if len(out) < len(steps) else None


def _in_xla(step: Step, kernels: Mapping[str, Kernel]) -> Callable[..., Any] | None:
    """Return what XLA runs for a step, or None where NumPy computes it, or XLA with other options."""
    if step.sum is not None:
        return executors.add_in_xla if step.sum.numel > choice.LARGEST else None
    return kernels[step.fn].joinable


def _program(
    group: Sequence[Step],
    fns: Sequence[Any],
    read: set[str],
    space: dict[str, Any],
    called: str,
    options: dict[str, Any],
) -> Step:
    """Return one step for several, and add the program that it calls to `space`."""
    made = [n for s in group for n in s.outs]
    ins = [*dict.fromkeys([n for s in group for n in s.ins if n not in {*made}])]
    outs = [n for n in made if n in read]

    numbers = {k: [*map(_on_device, fn.numbers)] for k, fn in enumerate(fns) if fn.__class__ is WithNumbers}

    def joined(numbers: dict[int, list[Any]], *values: Any) -> list[Any]:
        env = dict(zip(ins, values))
        for k, (s, fn) in enumerate(zip(group, fns)):
            given = [env[n] for n in s.ins]
            if k in numbers:
                env.update(zip(s.outs, fn.executable(numbers[k], *given)))
                continue
            found = fn(*given)
            env.update(zip(s.outs, [found] if s.single else found))
        return [env[n] for n in outs]

    joined.__name__ = joined.__qualname__ = called
    name = f"p{len(space)}"
    KERNELS.compiled()
    space[name] = functools.partial(jit(joined, compiler_options=options), numbers)
    return Step(outs, name, ins)


def function(
    steps: Sequence[Step], space: dict[str, Any], given: Sequence[str], results: Sequence[str], name: str, file: str
) -> Any:
    """Return the function that takes these steps, with what their names stand for.

    It lets go of a value after the last step that reads it.

    Args:
        steps: the steps.
        space: what the names of functions stand for.
        given: the names of its arguments.
        results: the names of what it gives.
        name: its own name.
        file: who has written it.
    """
    kept = {*results, *given}
    lines: list[str] = []
    for step in reversed(steps):
        dead = [n for n in dict.fromkeys([*step.outs, *step.ins]) if n not in kept]
        kept.update(dead)
        if dead:
            lines.append("".join([f"{n} = " for n in dead]) + "None")
        target = step.outs[0] if step.single else "".join([f"{n}, " for n in step.outs])
        lines.append(f"{target} = {step.fn}({', '.join(step.ins)})")
    lines.append(f"def {name}({', '.join(given)}):")
    text = "\n    ".join([*reversed(lines), f"return [{', '.join(results)}]"])
    return compiled(text, space, name, file)
