"""The programs that a compiled function keeps, by the kind of arguments; the one that ran last is the last of all.

kept.of(call.key)      # those for such arguments
kept.keep(key, entry)  # one more; where there are too many, the one that was not used for longest goes
kept.last              # the one to try first, if the next call is one like the last
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._core.jax import caches
from ..._engine.memory.tensor import Tensor
from . import explain
from .program.entry import Entry
from .program.quick_look import look_quickly
from .stance import POLICY


class Programs:
    """A bounded number of programs.

    Args:
        fn: the function, for what is said of them.
        limit: how many are kept; None is the number in force.
    """

    def __init__(self, fn: Callable[..., Any], limit: int | None) -> None:
        self._fn, self._limit = fn, limit
        self.by_key: dict[Any, list[Entry]] = {}
        self.last: Entry | None = None
        self.evicted = 0
        """How many were forgotten to make room for others."""
        self._limit_told = False

    def of(self, key: Any) -> Sequence[Entry]:
        """Those for arguments of a kind."""
        return self.by_key.get(key, ())

    def clear(self) -> None:
        """Forget all of them."""
        self.by_key.clear()
        self.last = None

    def keep(self, key: Any, entry: Entry) -> None:
        """Keep one more for later calls."""
        limit = self._limit or POLICY.recompile_limit
        if sum(map(len, self.by_key.values())) >= limit:
            self._tell_limit(limit, key, entry)
            self._drop_oldest()
        self.by_key.setdefault(key, []).append(entry)
        self.used(key, entry)

    def used(self, key: Any, entry: Entry) -> None:
        """Put the programs for a key behind all others, and this one behind them, since it is needed now."""
        used = self.by_key.get(key)
        if used is None:
            return
        if used[-1] is not entry:
            self.by_key[key] = used = [*[e for e in used if e is not entry], entry]
        if next(reversed(self.by_key)) != key:
            try:
                del self.by_key[key]
            finally:  # so that a signal loses no program
                self.by_key[key] = used

    def try_first(self, entry: Entry, args: tuple[Any, ...], mode: Any) -> None:
        """Let the next call try this one first, where its arguments are plain tensors."""
        plain = isinstance(mode, int) and all(
            x.__class__ is Tensor and x._al is None and x._x is None and x._m.dense and not x.__dict__ for x in args
        )
        alone = len({id(x._st) for x in args}) == len(args) if plain else False
        if plain and alone and entry.program.only_reads_arguments:
            look_quickly(entry, mode, args)
            self.last = entry

    def drop(self, entry: Entry) -> None:
        """Forget one."""
        for key, kept in list(self.by_key.items()):
            self.by_key[key] = [e for e in kept if e is not entry]
        if self.last is entry:
            self.last = None

    def _drop_oldest(self) -> None:
        """Forget the one whose kind of arguments has not come for longest."""
        oldest = next(iter(self.by_key), None)
        programs = self.by_key.get(oldest)
        if programs:
            self.evicted += 1
            if len(programs) > 1:
                self.by_key[oldest] = programs[1:]
            else:
                del self.by_key[oldest]
            del programs
            caches.KERNELS.program_dropped()

    def _tell_limit(self, limit: int, key: Any, newest: Entry) -> None:
        """Say once that programs are forgotten to make room, and which arguments came in so many kinds."""
        if not self._limit_told:
            self._limit_told = True
            kept = [(key, entry) for key, entries in self.by_key.items() for entry in entries]
            keys = [
                explain.with_constants(k, entry.program.conditions.constants) for k, entry in [*kept, (key, newest)]
            ]
            explain.limit_reached(self._fn, limit, keys)
