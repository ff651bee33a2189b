"""What a window runs as: kernel by kernel when its steps come for the first time, and later as a program.

    steps = ((mul, (-1, -2), -1), (sin, (0,), -1))    # value 0 is made of the inputs -1 and -2, value 1 of value 0
    run(steps, [x, w], alive=(1,), fused=False)       # None: it never came before, so its kernels run one by one
    run(steps, [x, w], alive=(1,), fused=False)       # [value 1], computed by one program

The key of a program is all of that but the inputs: which kernels, what each reads, and which results somebody holds.
Kernels know their shapes, so the sizes are in it. Numbers are inputs. The first meeting needs no program, since its
kernels are there or are compiled for other windows as well.

Kernels of XLA's become one program with a call of each, so that it gives the bits of the kernels one by one
(`kept_calls.py`). A fused program lets XLA put the calls into one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.arrays.out_of_memory import guarded
from ..._core.jax.caches import KERNELS
from . import kept_calls
from .compile_failures import is_users, note
from .kernel import Kernel

Step = tuple[Kernel, tuple[int, ...], int]
"""A kernel, what it reads, and how many results it gives: -1 for one that is not in a list.

What it reads are numbers of values, or of inputs: -1 is the first input, -2 the second.
"""
_PROGRAMS = KERNELS.cache()


class Program:
    """The steps of a window as a function of its inputs, which is written and compiled when it is first called.

    Args:
        steps: the steps.
        inputs: how many inputs there are.
        alive: the numbers of the values that are wanted.
        fused: whether XLA may fuse across kernels.
        device: where the kernels run.
    """

    __slots__ = ("_alive", "_device", "_failed", "_fn", "_fused", "_inputs", "_steps", "starts")

    def __init__(self, steps: Sequence[Step], inputs: int, alive: Sequence[int], fused: bool, device: Any) -> None:
        self._steps, self._inputs, self._alive, self._fused, self._device = steps, inputs, alive, fused, device
        self._fn: Any = None
        self._failed = False
        self.starts = 0
        """How many kernels and programs it starts."""

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the values that are wanted; None where the steps had better run one by one."""
        if self._failed:
            return None
        try:
            return (self._fn or self._written())(*inputs)
        except Exception as error:
            # What is wrong with a kernel is the step's to say.
            self._failed = note(error, "a window", inputs)
            return None

    def _written(self) -> Any:
        names: dict[Kernel, str] = {}
        steps, at = [], 0
        for kernel, refs, n in self._steps:
            count = 1 if n < 0 else n
            outs = [f"v{i}" for i in range(at, at + count)]
            ins = [f"v{r}" if r >= 0 else f"i{-r - 1}" for r in refs]
            steps.append(kept_calls.Step(outs, names.setdefault(kernel, f"k{len(names)}"), ins, n < 0))
            at += count
        kernels = {name: kernel for kernel, name in names.items()}
        space: dict[str, Any] = {name: kernel.run or kernel for name, kernel in kernels.items()}
        given, results = [f"i{i}" for i in range(self._inputs)], [f"v{i}" for i in self._alive]
        joined = kept_calls.together(steps, given, kernels, space, results, fused=self._fused, name="window")
        if self._device.type != "cpu":
            for step in joined or ():
                if step.fn not in kernels:
                    space[step.fn] = guarded(space[step.fn], self._device)
        self.starts = len(joined or steps)
        self._fn = kept_calls.function(joined or steps, space, given, results, "window", __file__)
        self._steps = ()
        return self._fn


def run(
    steps: tuple[Step, ...], inputs: Sequence[Any], alive: tuple[int, ...], fused: bool, device: Any
) -> tuple[Program, Sequence[Any] | None]:
    """Return the program of some steps, and the values that are wanted, or None if they had better run one by one."""
    key = (fused, steps, alive)
    program = _PROGRAMS.get(key)
    if program is None:
        return _PROGRAMS.put(key, Program(steps, len(inputs), alive, fused, device), 0), None
    return program, program(inputs)


class Failed:
    """In the place of a value: the error of the step that was to give it, or of one that it needed."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def one_by_one(
    steps: Sequence[Step], inputs: Sequence[Any], alive: frozenset[int]
) -> tuple[dict[int, Any], list[tuple[int, Exception]]]:
    """Run the kernels of some steps in their order, and let go of a value after the last step that reads it.

    Returns:
        What is alive by number, each an array or `Failed`, and the errors with the number of the step that raised it.
    """
    last = {r: k for k, (_, refs, _) in enumerate(steps) for r in refs if r >= 0}
    values: dict[int, Any] = {}
    errors: list[tuple[int, Exception]] = []
    at = 0
    for k, (kernel, refs, n) in enumerate(steps):
        count = 1 if n < 0 else n
        if not any(i in alive or i in last for i in range(at, at + count)):
            at += count
            continue
        args = [values[r] if r >= 0 else inputs[-r - 1] for r in refs]
        outs: Any = next((x for x in args if x.__class__ is Failed), None)
        if outs is None:
            try:
                outs = (kernel.run or kernel)(*args)
            except Exception as error:
                if is_users(error):
                    raise
                errors.append((k, error))
                outs = Failed(error)
        made = [outs] * count if n < 0 or outs.__class__ is Failed else outs
        values.update({i: x for i, x in zip(range(at, at + count), made) if i in alive or i in last})
        at += count
        for r in refs:
            if r >= 0 and last[r] == k and r not in alive:
                values.pop(r, None)
    return values, errors
