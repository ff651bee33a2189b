"""The look at a compiled function's arguments and surroundings before its last program runs again.

The whole look (`Entry.why_stale`) finds the program for any arguments, and says what has changed. A function that is
called with plain tensors of the same kinds over and over gets a shorter one, which only says yes or no:

    look_quickly(entry, mode, args)
    entry.takes(args, mode)  # True: the program may run. False: it takes the whole look

Where there is little to look at, the short look is Python code written for this program: one comparison after the
other, with no loop, takes half the time. That counts where a program runs for 30 microseconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.written_code import Names, compiled
from ...._engine.memory.tensor import Tensor

Look = Callable[[Sequence[Any], int], bool]

_MOST_TENSORS = 64
_MOST_ARGUMENTS = 6


def takes_nothing(args: Sequence[Any], mode: int) -> bool:
    """The look of a program that has not run a second time."""
    return False


def look_quickly(entry: Any, mode: int, args: Sequence[Tensor]) -> None:
    """Let a program that has just been found right for some arguments look at such arguments quickly.

    Args:
        entry: the program, whose `takes` becomes that look.
        mode: the bits of the modes.
        args: plain tensors, no two of one memory.
    """
    kinds = tuple([(x._m, x._rg) for x in args])
    places = entry.program.conditions.guards.holds  # another one where a place was found to have another value
    if entry.taken[:2] != (mode, kinds) or entry.taken[2] is not places:
        short = _is_short(entry) and len(args) <= _MOST_ARGUMENTS
        entry.takes = (_written if short else _in_a_loop)(entry, mode, kinds)
        entry.taken = mode, kinds, places


def _in_a_loop(entry: Any, mode: int, kinds: Sequence[Any]) -> Look:
    def takes(args: Sequence[Any], now: int) -> bool:
        if now != mode or len(args) != len(kinds):
            return False
        for x, (m, requires) in zip(args, kinds):
            if x.__class__ is not Tensor or x._m is not m or x._rg is not requires or x._al is not None:
                return False
            if x._x is not None or x.__dict__:
                return False
        if len(args) > 1 and len({id(x._st) for x in args}) != len(args):
            return False
        return entry.why_stale(args) is None

    return takes


def _is_short(entry: Any) -> bool:
    """Return whether what has to be compared are few things by their identity, and nothing else."""
    conditions = entry.program.conditions
    more = (
        entry.run_quickly is None,
        conditions.constants,
        conditions.are_many,
        conditions.log,
        conditions.apart.fixed,
        conditions.apart.compares,
        conditions.guards.has_arrays,
    )
    return len(entry.program.traced.known_tensors) <= _MOST_TENSORS and not any(more)


def _written(entry: Any, mode: int, kinds: Sequence[Any]) -> Look:
    code = Names()
    args, lines = [f"x{i}" for i in range(len(kinds))], list[str]()
    for x, (m, requires) in zip(args, kinds):
        lines.append(f"{x}.__class__ is {code.name(Tensor)} and {x}._m is {code.name(m)}")
        lines.append(f"{x}._rg is {requires} and {x}._al is None and {x}._x is None and not {x}.__dict__")
    lines += [f"{x}._st is not {y}._st" for x, y in itertools.combinations(args, 2)]
    for ref, st, m, al, rg in entry.program.traced.known_tensors:
        parts = (("_m", m), ("_rg", rg), ("_al", al), ("_st", st))
        same = " and ".join(f"t.{key} is {code.name(value)}" for key, value in parts)
        lines.append(f"((t := {code.name(ref)}()) is None or ({same}))")
    lines.append(f"{code.name(entry.program.conditions.guards.holds)}()")
    unpacked = f"  {', '.join(args)}, = args\n" if args else ""
    source = (
        f"def takes(args, mode):\n  if mode != {mode} or len(args) != {len(args)}: return False\n"
        f"{unpacked}  return {' and '.join(lines)}\n"
    )
    return compiled(source, code.known, "takes", __file__)
