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
import keyword
import types
from collections.abc import Callable, Sequence
from typing import Any

from ...._engine.memory.tensor import Tensor
from .places import MISSING, Class, Items, Variable

Look = Callable[[Sequence[Any], int], bool]

_MOST_PLACES = 64
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
    places = entry.python_guards.quick_places  # others where a place was found to have another value
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
    """Whether what has to be compared are few things by their identity, and nothing else."""
    guards, program = entry.python_guards, entry.program
    more = (
        entry.run_quickly is None,
        entry.constants,
        entry.has_more_guards,
        entry.log,
        entry.apart.fixed,
        entry.apart.compares,
        guards.lists,
        guards.orders,
        guards.arrays,
    )
    count = len(guards.places) + len(guards.dicts) + 4 * len(program.known_tensors)
    return count <= _MOST_PLACES and not any(more)


class _Code:
    """Comparisons in the making, and the objects that they name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self.comparisons: list[str] = []

    def name(self, value: Any) -> str:
        """What the code calls an object."""
        if value is None or value is True or value is False:
            return repr(value)
        if id(value) not in self._known:
            self._known[id(value)] = name = f"_{len(self.names)}"
            self.names[name] = value
        return self._known[id(value)]

    def add(self, comparison: str) -> None:
        """One more condition for a yes."""
        self.comparisons.append(comparison)


def _written(entry: Any, mode: int, kinds: Sequence[Any]) -> Look:
    code = _Code()
    args = [f"x{i}" for i in range(len(kinds))]
    for x, (m, requires) in zip(args, kinds):
        code.add(f"{x}.__class__ is {code.name(Tensor)} and {x}._m is {code.name(m)}")
        code.add(f"{x}._rg is {requires} and {x}._al is None and {x}._x is None and not {x}.__dict__")
    for x, y in itertools.combinations(args, 2):
        code.add(f"{x}._st is not {y}._st")
    for ref, st, m, al, rg in entry.program.known_tensors:
        parts = (("_m", m), ("_rg", rg), ("_al", al), ("_st", st))
        same = " and ".join(f"t.{key} is {code.name(value)}" for key, value in parts)
        code.add(f"((t := {code.name(ref)}()) is None or ({same}))")
    for holder, key, value in entry.python_guards.places:
        code.add(_place(code, holder, key, value))
    for holder, n in entry.python_guards.dicts:
        held = holder.dict if isinstance(holder, Class) else holder
        code.add(f"len({code.name(held)}) == {n}")
    return _function(code, args, mode)


def _place(code: _Code, holder: Any, key: Any, value: Any) -> str:
    """The code that compares what is in a place with what was there."""
    missing, was = value is MISSING, code.name(value)
    if isinstance(holder, Class):
        holder = holder.dict
    if isinstance(holder, dict | types.MappingProxyType):
        of, name = code.name(holder), code.name(key)
        if isinstance(holder, dict) and type(holder) is not dict:  # it may make entries when it is asked
            return f"{of}.get({name}, {code.name(MISSING)}) is {was}"
        return f"{name} not in {of}" if missing else f"{of}[{name}] is {was}"
    of = code.name(holder.of)
    if isinstance(holder, Items):
        return f"len({of}) <= {key}" if missing else f"{of}[{key}] is {was}"
    if isinstance(holder, Variable):
        return f"{of}.get({code.name(MISSING)}) is {was}"
    if missing or not key.isidentifier() or keyword.iskeyword(key):
        return f"getattr({of}, {key!r}, {code.name(MISSING)}) is {was}"
    return f"{of}.{key} is {was}"


def _function(code: _Code, args: Sequence[str], mode: int) -> Look:
    unpacked = f"    {', '.join(args)}, = args\n" if args else ""
    source = (
        f"def takes(args, mode, *, {', '.join(f'{name}={name}' for name in code.names)}):\n"
        f"  if mode != {mode} or len(args) != {len(args)}: return False\n"
        f"  try:\n{unpacked}"
        f"    return {' and '.join(code.comparisons)}\n"
        # Of a cell that is empty, a list that is shorter.
        f"  except (LookupError, ValueError, AttributeError): return False\n"
    )
    exec(compile(source, f"{__file__}:look", "exec"), code.names)
    return code.names["takes"]
