"""Functions that are written while Python runs, as text, around objects that are there already.

names = Names()
source = f"def is_on():\\n  return {names.name(config)}.on is True\\n"
is_on = compiled(source, names.known, "is_on", __file__)
"""

from __future__ import annotations

import linecache
from typing import Any


class Names:
    """What code that is written calls objects."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        """The objects, by what the code calls them."""
        self._by_identity: dict[int, str] = {}

    def name(self, value: Any) -> str:
        """What the code calls an object."""
        if value is None or value is True or value is False:
            return repr(value)
        known = self._by_identity.get(id(value))
        if known is None:
            known = self._by_identity[id(value)] = f"_{len(self.known)}"
            self.known[known] = value
        return known


def compiled(source: str, names: dict[str, Any], wanted: str, file: str, shown: bool = False) -> Any:
    """A function of written code.

    Args:
        source: the code.
        names: its global variables.
        wanted: the name of the function.
        file: who has written it.
        shown: whether tracebacks, debuggers and `inspect.getsource` show it; no other code may have its file and name.
    """
    name = f"{file}:{wanted}"
    # Without an entry, tracebacks would show lines of the file that has written it.
    lines = source.splitlines(keepends=True) if shown else []
    linecache.cache[name] = len(source), None, lines, name
    exec(compile(source, name, "exec"), names)
    return names.pop(wanted)
