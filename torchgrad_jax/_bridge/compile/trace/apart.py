"""Whether what a program writes is memory that it reads in another way, too.

A program takes each argument, and each tensor from outside, for memory of its own. `f(x, x.view(4))`,
`f(x[:3], x[2:])` or `f(w)` of a function that knows `w` itself give one memory twice, which matters as soon as
something is written there, or the gradient is taken of a tensor that is given twice.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...._engine.graph.history import requires_grad_of
from ...._engine.memory.shared import memory_in_common
from ...._engine.memory.strided import storage_offset
from ...._engine.memory.tensor import Storage, Tensor, alias_of

ONE_MEMORY = (
    "a tensor that is written or differentiated shares its memory with another one that the program takes for itself"
)
OTHER_TENSOR = "an argument was a tensor that the function also knows from elsewhere"


class Apart:
    """What a program writes and what it reads, to be compared with the arguments of each call."""

    __slots__ = (
        "_compared", "_differentiable", "_known", "_of_gradients", "_outside", "_written", "_written_args", "_writes",
        "compares", "fixed",
    )  # fmt: skip

    def __init__(self, program: Any, fixed: dict[int, Tensor], compared: Iterable[Tensor] = ()) -> None:
        sources = program.sources
        self._compared = {id(t): weakref.ref(t) for t in compared}
        """Tensors that the code may ask whether an argument is one of them."""
        self.fixed = [(i, weakref.ref(t)) for i, t in fixed.items()]
        """Arguments that were tensors which the function also knows from elsewhere: the program is for these alone."""
        self._outside = {id(s.what): s.what for s in sources if s.kind == "tensor"}
        self._of_gradients = [s for s in sources if s.kind == "grad"]
        to = [sources[i] for i, _, _ in program.writes if i >= 0]
        self._written = {id(s.what): s.what for s in to if s.kind == "tensor"}
        self._written.update((id(st), st) for st, _, k, _ in program.peers if k >= 0)
        self._written_args = {~i for i, _, _ in program.writes if i < 0}
        self._known = {id(t): ref for ref, *_ in program.known_tensors if (t := ref()) is not None}
        self._writes = bool(program.writes or self._written or program.grads)
        self._differentiable = {
            key: ref for key, ref in self._known.items() if (t := ref()) is not None and requires_grad_of(t)
        }
        self.compares = self._writes or bool(self._differentiable or self._compared)
        """Whether it can matter that something is one memory."""

    def of_others(self, args: Sequence[Any]) -> bool:
        """Return whether an argument that the function knows from elsewhere is another tensor now."""
        return any(ref() is not args[i] for i, ref in self.fixed)

    def clash(self, args: Sequence[Any]) -> bool:
        """Whether something is written, or differentiated, that an argument or another tensor shows in another way.

        So it is where code may ask whether an argument is a tensor that it knows, and the program is not for that one.
        """
        if self._compared and any(
            _is_among(x, self._compared) and all(i != k for k, _ in self.fixed) for i, x in enumerate(args)
        ):
            return True
        if not self._writes:
            return any(_is_among(x, self._differentiable) for x in args)
        for i, x in enumerate(args):
            if not isinstance(x, Tensor):
                continue
            st = x._st
            if id(st) in self._written:
                return True
            if _is_among(x, self._known):
                return True
            if i in self._written_args and (
                id(st) in self._outside or any(y is not x and _overlap(x, y) for y in args if isinstance(y, Tensor))
            ):
                return True
            if self._of_gradients and any(s.storage(args) is st for s in self._of_gradients):
                return True
            if st.shared and self._shown_elsewhere(st, i in self._written_args):
                return True
        return any(
            st.shared and _in_common(st, (o for o in self._outside.values() if o is not st))
            for st in self._written.values()
        )

    def _shown_elsewhere(self, st: Storage, written: bool) -> bool:
        return _in_common(st, (self._outside if written else self._written).values())


def versions_before(counters: Sequence[Any], increments: Sequence[int]) -> list[int]:
    """From which version each counter grows; one that two arguments share, where the first one leaves it."""
    found = [counter.version for counter in counters]
    if increments and len({*map(id, counters)}) < len(counters):
        grown: dict[int, int] = {}
        for k, (counter, n) in enumerate(zip(counters, increments)):
            found[k] += grown.get(id(counter), 0)
            grown[id(counter)] = grown.get(id(counter), 0) + n
    return found


def _is_among(x: Any, tensors: dict[int, Any]) -> bool:
    return id(x) in tensors and tensors[id(x)]() is x


def _in_common(st: Storage, others: Iterable[Storage]) -> bool:
    return any(memory_in_common(st, other) is not None for other in others if other.shared)


def _overlap(x: Tensor, y: Tensor) -> bool:
    """Return whether two tensors have an element in common."""
    apart = 0 if x._st is y._st else memory_in_common(x._st, y._st)
    if apart is None:
        return False
    first, second = _where(x, 0), _where(y, apart)
    try:
        return np.shares_memory(np.asarray(first), np.asarray(second), max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Place:
    """An array that nobody may look into: it only tells where the elements of a tensor are."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.__array_interface__ = about


def _where(t: Tensor, at: int) -> _Place:
    m, size = t._m, t._m.dtype.itemsize
    address = (1 << 40) + at + storage_offset(t) * size
    return _Place(
        {
            "version": 3,
            "shape": m.shape,
            "typestr": f"|V{size}",
            "data": (address, True),
            "strides": tuple([s * size for s in m.strides]),
        }
    )


def stand_in(t: Tensor) -> Tensor:
    """Another tensor that is the same, for a trace that has to tell an argument from what the function knows itself."""
    out = alias_of(t, t._m, t._al, t._vc, type(t))
    out._rg, out._fn, out._onr, out._g, out._x = t._rg, t._fn, t._onr, t._g, t._x
    out.__dict__.update(t.__dict__)
    return out
