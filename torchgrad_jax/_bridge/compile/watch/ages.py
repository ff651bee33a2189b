"""Which objects were there before a function began, and which it has made itself.

    ages = Ages()
    with ages:
        made = []
        ages.is_old(made)  # False

While it lasts the collector of garbage is off, so all that was made since is in its youngest generation.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any

from ...._core.signals import uninterrupted

_lock = threading.Lock()
_active: list[Ages] = []
"""Who needs the collector to be off."""


class Ages:
    """Tells objects of before from new ones."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bool]] = {}
        self._collects = False
        self.young: set[int] = set()
        """Identities of new objects, as of the last `look`."""

    def __enter__(self) -> Ages:
        with _lock:
            if not _active:
                gc.collect(0)
                self._collects = gc.isenabled()
                gc.disable()
            _active.append(self)
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        self._known.clear()
        with _lock:
            _active.remove(self)
            if _active:  # another thread looks at ages, too, and turns the collector on when it is done
                _active[0]._collects |= self._collects
            elif self._collects:
                gc.enable()
            self._collects = False

    def is_old(self, x: Any) -> bool:
        """Return whether an object was there before."""
        known = self._known.get(id(x))
        if known is None:
            self.look()
            known = self._known[id(x)] = (x, not _is_collected(x) or id(x) not in self.young)
        return known[1]

    def look(self) -> None:
        """Find all new objects; an object that was new once stays new, even if garbage is collected in between."""
        self.young.update(map(id, gc.get_objects(0)))

    def was_there(self, x: Any, held: Collection[int] = ()) -> bool:
        """Return whether an object was there at the beginning, as of the last `look`.

        Args:
            x: the object.
            held: identities of what objects of before lead to, which was there, too. It alone decides about what the
                collector knows nothing of: arrays, and dicts with nothing but numbers and text in them.
        """
        return id(x) in held or (_is_collected(x) and id(x) not in self.young)

    def forget(self) -> None:
        """Keep no object alive that was asked for."""
        self._known.clear()


def _is_collected(x: Any) -> bool:
    return gc.is_tracked(x) or issubclass(type(x), ContextVar)
