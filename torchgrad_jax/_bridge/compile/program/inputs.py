"""What a program reads in each run, in the order in which it takes it.

w.add_(g)            # `w` is written to: its array comes first, and its memory is overwritten
loss.backward()      # the memory of the old gradient becomes that of the new one
return w * x + mask  # what is only read comes last: tensors from outside, then arguments and all else
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._core.arrays.meta import Meta
from ...._core.jax.target import platform
from ...._core.random.generator import restorable
from ...._core.state import WRITE_LOCK
from ...._engine.memory.strided import read
from ...._engine.memory.tensor import Storage, Tensor, keep_arrived, placement_of
from ..trace.traced_program import Source, TracedProgram, resolve_argument
from .donation import is_large, spare
from .overwrite import in_place


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a program. Sources are named by their numbers in `TracedProgram.sources`."""

    order: list[int]
    """The sources that are inputs: those that are overwritten, tensors that are only read, and the others."""
    overwritten: list[int]
    """The first of them, whose memory the program gets."""
    overwritten_storages: list[Storage]
    """The tensors among these."""
    overwritten_gradients: list[Source]
    """The gradients among these."""
    spare: list[tuple[Any, Meta]]
    """Leaves and what their gradients are like that nobody reads before they are replaced: their memory comes after
    what is overwritten, and the new gradients go there."""
    dropped: list[Any]
    """Other leaves whose gradients are worth freeing before the program runs."""
    storages: list[Storage]
    """The tensors from outside that are only read."""
    others: list[Source]
    """Arguments, random numbers, gradients and numbers."""
    arguments: list[int] | None
    """Which arguments the others are, if all of them are arguments."""
    draws: bool
    """Whether random numbers are among them."""
    ahead: list[int]
    """Which of the others the checks read that come ahead of the program."""

    @classmethod
    def of(cls, traced: TracedProgram, args: Sequence[Tensor], constants: Collection[int], *, graph: bool) -> Inputs:
        """The inputs of a program. One that calls kernels overwrites none of them.

        Args:
            traced: the program.
            args: the arguments that it was traced with.
            constants: the sources that are constants of the program.
            graph: whether its results have a graph. Such a program gives no memory away.
        """
        sources = traced.sources
        written = _overwritten(traced, graph=graph) if traced.kernels is None else []
        tensors = [i for i in written if sources[i].kind == "tensor"]
        gradients = [i for i in written if sources[i].kind == "grad"]
        first = [*tensors, *gradients]
        rest = [i for i in range(len(sources)) if i not in set(first)]
        kept = [i for i in rest if sources[i].kind == "tensor" and i not in constants]
        others = [i for i in rest if sources[i].kind != "tensor"]
        order = [*first, *kept, *others]
        n = len(first) + len(kept)
        replaced = list(_replaced_unread(traced)) if traced.checks is None or not traced.checks.late else []
        held = [s.array(args) for s in sources if s.kind in ("arg", "tensor", "grad")]
        # Scratch memory may stand in for a gradient as long as no array is bound to the devices that it lies on.
        free = not any(isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) and x.committed for x in held)
        free = free and not any(placement_of(s.what) for s in sources if s.kind == "tensor") and traced.kernels is None
        large = [(leaf, m) for leaf, m in replaced if is_large(m)]
        return cls(
            order=order,
            overwritten=first,
            overwritten_storages=[sources[i].what for i in tensors],
            overwritten_gradients=[sources[i] for i in gradients],
            spare=large if free else [],
            dropped=[] if free else [leaf for leaf, _ in large],
            storages=[sources[i].what for i in kept],
            others=[sources[i] for i in others],
            arguments=[sources[i].what for i in others] if all(sources[i].kind == "arg" for i in others) else None,
            draws=any(s.kind == "draw" for s in sources),
            ahead=[] if traced.checks is None else [order.index(i) - n for i in traced.checks.inputs],
        )

    @property
    def n_given_away(self) -> int:
        """How many of the first inputs are memory that the program gets."""
        return len(self.overwritten) + len(self.spare)

    def positions(self) -> list[int | None]:
        """Which source each input is, in order; None is memory that is not read."""
        n = len(self.overwritten)
        return [*self.order[:n], *[None] * len(self.spare), *self.order[n:]]

    def read_others(self, args: Sequence[Tensor], drawn: dict[Any, Any]) -> list[Any]:
        """The others now; `drawn` gets the states of generators before their draws."""
        if self.arguments is not None:
            return [read(args[i]) for i in self.arguments]
        if not self.draws:
            return [s.array(args) for s in self.others]
        with restorable(drawn):
            return [s.array(args) for s in self.others]

    def read_overwritten(self, args: Sequence[Tensor]) -> list[Any]:
        """The arrays that the program overwrites."""
        own = [keep_arrived(st) for st in self.overwritten_storages]
        return own + [keep_arrived(s.storage(args)) for s in self.overwritten_gradients]

    def arrays_to_overwrite(self, args: Sequence[Tensor]) -> list[Any]:
        """The arrays whose memory the program gets; copies of those that somebody else looks at."""
        own = self.read_overwritten(args)
        if own and max(map(sys.getrefcount, own)) > _HOLDERS:
            own = [jnp.array(x) if sys.getrefcount(x) > _HOLDERS + 1 else x for x in own]
        return own + [spare(resolve_argument(leaf, args), m) for leaf, m in self.spare]

    def give_back(self, arrays: Sequence[Any], args: Sequence[Tensor]) -> None:
        """After a run whose check failed, and which gives back what it got: let it be where it was."""
        storages = [*self.overwritten_storages, *[s.storage(args) for s in self.overwritten_gradients]]
        for st, array in zip(storages, arrays):
            st.array = array


def _overwritten(traced: TracedProgram, *, graph: bool) -> list[int]:
    """The sources that the program writes to, and whose memory it may have."""
    sources = traced.sources
    shared = {id(first) for _, first, _, _ in traced.peers}
    updated = {i: k for i, k, _ in traced.writes if i >= 0 and id(sources[i].what) not in shared}
    looks = not graph and platform() == "cpu"
    there = in_place(traced.jaxpr, updated) if looks else updated
    return [i for i in updated if i in there]


def _replaced_unread(traced: TracedProgram) -> Iterable[tuple[Any, Meta]]:
    """The leaves whose gradients are replaced and not read before, and what their new gradients are like."""
    read = {_key(s.what) for s in traced.sources if s.kind == "grad"}
    return [(leaf, m) for leaf, _, m, _ in traced.grads if m is not None and _key(leaf) not in read]


def _key(leaf: Any) -> Any:
    return id(leaf) if isinstance(leaf, Tensor) else leaf


def result_order(traced: TracedProgram, inputs: Inputs) -> list[int]:
    """The results of a program, those first that go where an input was, in the order of these: so JAX pairs them."""
    written = {i: k for i, k, _ in traced.writes}
    spare = {_key(leaf) for leaf, _ in inputs.spare}
    first = [written[i] for i in inputs.overwritten]
    first += [k for leaf, k, m, _ in traced.grads if m is not None and _key(leaf) in spare]
    return list(dict.fromkeys([*first, *range(len(traced.jaxpr.outvars))]))


_HOLDERS = 3
"""References to an array that only its storage and a list hold, while it is counted."""


# --- arrays of NumPy's that are given again and again: JAX would copy them in each run ----------------


def hold_in_jax(st: Any) -> Any:
    """The array of a storage, from now on one of JAX's unless NumPy shares the memory."""
    if type(st) is not Storage or type(st.array) is not np.ndarray:
        return st.array
    with WRITE_LOCK:  # another thread may be writing to it
        st.array = array = jnp.array(st.array)
    return array


class GivenAgain:
    """Finds arguments of a program that are those of its last run, such as weights: each run would copy them to JAX.

    A new batch is held as it is: the program copies it faster than `jnp.array` does.
    """

    __slots__ = ("_last",)

    def __init__(self, count: int) -> None:
        self._last: list[Any] = [None] * count

    def hold_in_jax(self, storages: list[Any], arrays: list[Any]) -> list[Any]:
        """The arrays for this run, of which some of the storages hold some."""
        last = self._last
        self._last = [weakref.ref(x) if type(x) is np.ndarray else None for x in arrays]
        return [
            x if known is None or known() is not x else hold_in_jax(st) for known, st, x in zip(last, storages, arrays)
        ]
