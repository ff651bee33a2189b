"""Which attributes a call reads, told by the objects themselves, beside what the guards of a program compare.

with Spy(objects) as spy:
    step(x)                  # eager
spy.unguarded(entry)         # ["Model.scale"]: read by the call, and compared by no guard
"""

import sys

from torchgrad_jax._bridge.compile.watch.code_that_reads import code_of
from torchgrad_jax._bridge.compile.watch.facts import Keys, Place
from torchgrad_jax._core.python_code import OURS

_TABLES = ("_parameters", "_buffers", "_modules")


class Spy:
    """Replaces `__getattribute__` of the classes of some objects, and notes what code of users reads of them."""

    def __init__(self, objects):
        self.objects = {id(x): x for x in objects}
        self.read = {}
        """(object, table, name) by the identities of the table and the name: the dict in which the attribute is."""
        self._before = []

    def __enter__(self):
        for cls in {type(x) for x in self.objects.values()}:
            self._before.append((cls, vars(cls).get("__getattribute__")))
            cls.__getattribute__ = self._noting(cls.__getattribute__)
        return self

    def __exit__(self, *exc):
        for cls, own in self._before:
            if own is None:
                del cls.__getattribute__
            else:
                cls.__getattribute__ = own

    def _noting(self, get):
        def noting(x, name):
            asks = sys._getframe(1).f_code
            # A class whose base is replaced, too, is asked twice.
            if id(x) in self.objects and asks is not noting.__code__ and code_of(asks).whose != OURS:
                self._note(x, name)
            return get(x, name)

        return noting

    def _note(self, x, name):
        held = object.__getattribute__(x, "__dict__")
        for table in (held, *(held[key] for key in _TABLES if key in held)):
            if name in table:
                self.read[id(table), name] = (x, table, name)

    def unguarded(self, entry):
        """What was read and no guard of a program compares, in words."""
        guards = entry.program.conditions.guards
        places = {fact.at for fact in guards.facts if isinstance(fact, Place)}
        whole = {id(fact.object) for fact in guards.each(Keys)}
        return sorted(
            f"{type(x).__name__}.{name}"
            for at, (x, table, name) in self.read.items()
            if at not in places and id(table) not in whole
        )
