"""What only the first call of a function does: it imports a module, fills a cache, sets an attribute that it asks for.

once = Once(entries=[(cache, "table", table)])
once.do()    # the function is traced again, and finds it done
once.undo()  # the trace has come to nothing: nobody may see it done twice
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import types
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax

from ...._core.arrays.python_numbers import Number
from ...._core.python_objects import parts_of
from ...._engine.memory.tensor import Tensor
from ..watch.facts import Scalar
from ..watch.places import place_of

_OF_A_TRACE = (Tensor, jax.Array, jax.core.Tracer, Number)
_ENDS = (*_OF_A_TRACE, types.FrameType, types.ModuleType)
"""Classes of objects that are no further parts of what leads to them."""


class Once(NamedTuple):
    """What a call has done that later calls find done."""

    entries: Sequence[tuple[Any, Any, Any]] = ()
    """New entries of dicts, and new attributes: (holder, key, value)."""
    imports: str | None = None
    """A module that was imported."""

    def do(self) -> None:
        """Do it, outside of any trace; a module that fails fails again where the function imports it."""
        if self.imports is not None:
            with contextlib.suppress(Exception):
                importlib.import_module(self.imports)
        for holder, key, value in self.entries:
            holder[key] = value

    def undo(self) -> None:
        """Take it back; a module that is there does no harm."""
        for holder, key, value in self.entries:
            if holder.get(key, None) is value:
                del holder[key]

    def is_new(self, done: Sequence[Once]) -> bool:
        """Whether a further trace may find it done: entries were made once at most, and each module imported once."""
        imported = [once.imports for once in done]
        return self.imports not in imported if self.imports is not None else None not in imported

    def stays(self, replaced: Sequence[Scalar]) -> bool:
        """Return whether a call that finds it done leaves it as it is: else it is done in each call.

        Args:
            replaced: places where the call has put numbers; one in what it was to do only once differs each time.
        """
        if not all(holder.get(key, None) is value for holder, key, value in self.entries):
            return False
        at = {place_of(holder, key) for holder, key, _ in self.entries}
        made = [value for _, _, value in self.entries] if replaced else []
        inside = {id(x) for x in parts_of(made, _is_part) if _is_part(x) or issubclass(type(x), _OF_A_TRACE)}
        return not any(place.at in at or id(place.object) in inside for place in replaced)


def _is_part(x: Any) -> bool:
    return not issubclass(type(x), (*_ENDS, type, types.FunctionType))


def is_of_no_trace(value: Any, young: Collection[int]) -> bool:
    """Whether a value that a traced function made has nothing of the trace in it, so that later calls can use it.

    Args:
        value: the value.
        young: identities of objects that the function made.
    """

    def is_made(x: Any) -> bool:
        return (id(x) in young or not gc.is_tracked(x)) and not issubclass(type(x), _ENDS)

    parts = parts_of([value], is_made)
    return not any(issubclass(type(x), _OF_A_TRACE) for x in parts)  # `isinstance` would ask a user's object
