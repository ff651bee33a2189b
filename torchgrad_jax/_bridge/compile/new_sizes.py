"""Sizes that a function of `torch.compile(dynamic=True)` meets, and has no program for.

    step = torch.compile(step, dynamic=True)
    step(x[:8])  # compiled
    step(x[:9])  # runs eagerly: for a size that is new this takes 2 ms, where XLA would compile for 700
    ...          # and is compiled, too, after a hundred calls with 9 rows

A program pays when it saves in its calls what compiling it takes, some hundred calls of the function. Calls are
counted, and not timed: then processes that run the same calls compile the same ones. On an accelerator each size is
compiled at once, since eager code compiles every operator for a size that is new.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ..._core.arrays.meta import Meta
from ..._engine.memory.tensor import Tensor
from .calls import Call

CALLS = 100
"""So many calls with the same sizes run eagerly."""
_MOST = 4096
"""Combinations of sizes whose calls are counted."""
_MARKED: dict[int, weakref.ref[Tensor]] = {}


def mark(t: Tensor) -> None:
    """Note that a tensor is one whose sizes change: functions that take it treat new sizes as with `dynamic=True`."""
    key = id(t)
    _MARKED[key] = weakref.ref(t, lambda _: _MARKED.pop(key, None))


class NewSizes:
    """The calls of a function with sizes that it has no program for.

    Args:
        dynamic: whether they run eagerly at first.
    """

    def __init__(self, dynamic: bool) -> None:
        self._dynamic = dynamic
        self._calls: dict[Any, int] = {}
        """By the kind of arguments, how many calls ran eagerly."""

    def run_eagerly(self, call: Call, known: Iterable[Any]) -> bool:
        """Return whether a call runs eagerly, and count it.

        Args:
            call: the call, of a kind that there is no program for.
            known: the kinds of arguments that there are programs for.
        """
        self._dynamic = self._dynamic or any(id(t) in _MARKED for t in call.tensors)
        if not self._dynamic or any(t._m.device.type != "cpu" for t in call.tensors):
            return False
        kind = _without_sizes(call.key)
        if all(_without_sizes(key) != kind for key in known):
            return False
        calls = self._calls.pop(call.key, 0) + 1
        if calls > CALLS:
            return False
        if len(self._calls) >= _MOST:
            del self._calls[next(iter(self._calls))]
        self._calls[call.key] = calls
        return True


def _without_sizes(key: Any) -> Any:
    """The kind of arguments, without the sizes of tensors among them."""
    if isinstance(key, Meta):
        return key.dtype, len(key.shape), key.device
    return tuple(map(_without_sizes, key)) if key.__class__ is tuple else key
