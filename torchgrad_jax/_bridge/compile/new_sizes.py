"""Sizes that a compiled function meets, and has no program for.

    step = torch.compile(step, dynamic=True)
    step(x[:8])  # compiled
    step(x[:9])  # runs eagerly: for a size that is new this takes 2 ms, where XLA would compile for 700
    ...          # and is compiled, too, after a hundred calls with 9 rows

Without `dynamic`, this begins after eight sizes. With `dynamic=False`, and among several processes, each is compiled.
A program pays when it saves in its calls what compiling it takes, some hundred calls of the function. Calls are
counted, and not timed: then processes that run the same calls compile the same ones. On an accelerator each size is
compiled at once, since eager code compiles every operator for a size that is new.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any

import jax

from ..._core.arrays.meta import Meta
from ..._core.state import SETTINGS
from ..._engine.memory.tensor import Tensor
from .calls import Call
from .stance import POLICY

CALLS = 100
"""So many calls with the same sizes run eagerly."""
AUTOMATIC = 8
"""So many sizes are compiled before others run eagerly, where nobody says whether sizes change."""
_MOST = 4096
"""Combinations of sizes whose calls are counted."""
_MARKED: dict[int, tuple[bool, weakref.ref[Tensor]]] = {}
"""By their ids, tensors whose sizes were said to change (true), or not to."""


def mark(t: Tensor, dynamic: bool) -> None:
    """Note whether the sizes of a tensor change. That they do counts for more, and for more than `dynamic=False`."""
    key = id(t)
    if dynamic or key not in _MARKED:
        _MARKED[key] = dynamic, weakref.ref(t, lambda _: _MARKED.pop(key, None))


class NewSizes:
    """The calls of a function with sizes that it has no program for.

    Args:
        dynamic: whether they run eagerly at first; None for those after some sizes that were compiled.
        exact: whether a program has the bits of eager code.
    """

    def __init__(self, dynamic: bool | None, exact: bool) -> None:
        self._dynamic, self._exact = dynamic, exact
        self._calls: dict[Any, int] = {}
        """By the kind of arguments, how many calls ran eagerly."""

    def run_eagerly(self, call: Call, known: Collection[Any]) -> bool:
        """Return whether a call runs eagerly, and count it.

        Args:
            call: the call, of a kind that there is no program for.
            known: the kinds of arguments that there are programs for.
        """
        marks = [_MARKED[id(t)][0] for t in call.tensors if id(t) in _MARKED]
        if any(marks):
            self._dynamic = True
        elif marks:
            return False
        calls = self._calls.pop(call.key, 0) or (0 if self._has_programs_enough(call, known) else CALLS)
        if calls >= CALLS:
            return False
        if len(self._calls) >= _MOST:
            del self._calls[next(iter(self._calls))]
        self._calls[call.key] = calls + 1
        return True

    def _has_programs_enough(self, call: Call, known: Collection[Any]) -> bool:
        """Return whether there are programs enough for arguments that differ from these in their sizes alone."""
        if self._dynamic is False or any(t._m.device.type != "cpu" for t in call.tensors):
            return False
        if jax.process_count() > 1:
            return False  # a process that runs eagerly would not meet the others in their programs
        if (SETTINGS.deterministic or SETTINGS.equal_bits) and not self._exact:
            return False  # bits would change when a size that has run eagerly is compiled
        least = 1 if self._dynamic else AUTOMATIC
        if len(known) < least or not (self._dynamic or POLICY.automatic_dynamic):
            return False
        kind = _without_sizes(call.key)
        return sum(_without_sizes(key) == kind for key in known) >= least


def _without_sizes(key: Any) -> Any:
    """The kind of arguments, without the sizes of tensors among them."""
    if isinstance(key, Meta):
        return key.dtype, len(key.shape), key.device
    return tuple(map(_without_sizes, key)) if key.__class__ is tuple else key
