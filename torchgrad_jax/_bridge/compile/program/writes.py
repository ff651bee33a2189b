"""What a run of a program writes outside: elements of tensors, gradients, flags, version counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...._core.arrays.meta import Meta
from ...._engine.memory.strided import write
from ...._engine.memory.tensor import Storage, Tensor, make
from ..trace.apart import versions_before
from ..trace.traced_program import Source, TracedProgram, resolve_argument
from .compiled_backward import SpentGraph


@dataclass(frozen=True, slots=True)
class Writes:
    """Where the results of a program go. A leaf is a tensor, or the number of an argument."""

    storages: list[tuple[Storage, int, int]]
    """(storage from outside, result, how often it is written)."""
    elsewhere: list[tuple[Source | int, int, int]]
    """(source, or argument ~i; result; how often it is written)."""
    gradients: list[tuple[Any, Any, Meta | None, int]]
    """(leaf, result or tensor, meta if it is a result, version): gradients that are replaced."""
    spent_gradients: list[tuple[Any, SpentGraph]]
    """Leaves whose gradients have a graph that is used up."""
    flags: list[tuple[Any, bool]]
    """(leaf, whether it requires a gradient from now on)."""
    new_state: list[tuple[Storage, int]]
    """(storage that the trace made and somebody still holds, result)."""
    counters: list[Any]
    """The version counters that grow; an argument's by its number."""
    increments: list[int]
    """How much each of them grows."""
    of_arguments: bool
    """Whether a counter is an argument's."""

    @classmethod
    def of(cls, traced: TracedProgram, at: Sequence[int], spent: list[tuple[Any, SpentGraph]]) -> Writes:
        """What a traced program writes; `at` says where each of its results is among those of a run."""
        sources = traced.sources
        direct = [i >= 0 and sources[i].kind == "tensor" for i, _, _ in traced.writes]
        return cls(
            storages=[
                *[(sources[i].what, at[k], n) for (i, k, n), to_storage in zip(traced.writes, direct) if to_storage],
                *[(st, at[k], n) for st, _, k, n in traced.peers if k >= 0],
            ],
            elsewhere=[
                (i if i < 0 else sources[i], at[k], n)
                for (i, k, n), to_storage in zip(traced.writes, direct)
                if not to_storage
            ],
            gradients=[(leaf, k if m is None else at[k], m, version) for leaf, k, m, version in traced.grads],
            spent_gradients=spent,
            flags=traced.flags,
            new_state=[(st, at[k]) for st, k in traced.new_state],
            counters=[vc for vc, _ in traced.counters],
            increments=[n for _, n in traced.counters],
            of_arguments=any(isinstance(vc, int) for vc, _ in traced.counters),
        )

    def versions(self, args: Sequence[Tensor]) -> tuple[Sequence[Any], Sequence[int]]:
        """The version counters that a run on these arguments lets grow, and how they stand before it."""
        if not self.of_arguments:
            return self.counters, versions_before(self.counters, ())
        counters = [args[vc]._vc if isinstance(vc, int) else vc for vc in self.counters]
        return counters, versions_before(counters, self.increments)

    def store(
        self,
        arrays: Sequence[Any],
        args: Sequence[Tensor],
        versions: tuple[Sequence[Any], Sequence[int]],
        times: int = 1,
    ) -> None:
        """Write the results of the last of so many runs to where they belong.

        Once more after an interrupt, it does what was left to do.
        """
        for st, k, stamps in self.storages:
            st.array = arrays[k]
            st.stamp += stamps * times
        for source, k, stamps in self.elsewhere:
            if isinstance(source, int):
                write(args[~source], arrays[k], bump=False)
                continue
            st = source.storage(args)
            st.array = arrays[k]
            st.stamp += stamps * times
        for vc, count, n in zip(*versions, self.increments):
            vc.version = count + n * times
        if times:
            self._store_gradients(arrays, args)
        for leaf, requires in self.flags:
            resolve_argument(leaf, args)._rg = requires
        for st, k in self.new_state:
            st.array = arrays[k]

    def _store_gradients(self, arrays: Sequence[Any], args: Sequence[Tensor]) -> None:
        for leaf, k, m, version in self.gradients:
            leaf = resolve_argument(leaf, args)
            if m is None:
                leaf._g = k
            else:
                g = make(arrays[k], m)
                g._st.version = version
                leaf._g = g
        for leaf, graph in self.spent_gradients:
            graph.give_to(resolve_argument(leaf, args)._g, args)
