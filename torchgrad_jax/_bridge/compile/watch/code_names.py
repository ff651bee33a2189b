"""Names and texts in the code of functions: what they may look up in globals, modules and objects."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator

from ...._core.jax.caches import CALLS


def string_constants(code: types.CodeType) -> Iterator[str]:
    """Strings in a function and in those defined in it: by one of them it may look something up."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from string_constants(const)
        elif isinstance(const, str):
            yield const


def names_in(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes in a function and in those defined in it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from names_in(const)


def global_names(code: types.CodeType) -> Iterator[str]:
    """Names of globals alone, and of modules that are imported: `x.log()` is nothing to a global `log`."""
    names, of_globals = code.co_names, _NAMES_OF_GLOBALS.get(code.co_code)
    if of_globals is None:
        steps = dis.get_instructions(code)
        used = {i.argval for i in steps if i.opname in _OF_GLOBALS}
        of_globals = [i for i, name in enumerate(names) if name in used]
        _NAMES_OF_GLOBALS.put(code.co_code, of_globals)
    yield from (names[i] for i in of_globals)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from global_names(const)


def asks_for_type(code: types.CodeType) -> bool:
    """Whether code calls `type`, which tells a number that is followed from a plain one."""
    if "type" in code.co_names and _loads_global(code, "type"):
        return True
    return any(map(asks_for_type, _inner(code)))


def asks_for_identity(code: types.CodeType) -> bool:
    """Whether code asks whether something is one object with something else than None, True and the like."""
    before = ""
    for step in dis.get_instructions(code):
        if step.opname == "IS_OP" and before != "LOAD_CONST":
            return True
        before = step.opname
    return _loads_global(code, "id") or any(map(asks_for_identity, _inner(code)))


def _loads_global(code: types.CodeType, name: str) -> bool:
    return any(
        step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval == name for step in dis.get_instructions(code)
    )


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (c for c in code.co_consts if isinstance(c, types.CodeType))


_NAMES_OF_GLOBALS = CALLS.cache()
"""Which of a code's names are those of globals, by its instructions, which tell names by their numbers."""


_OF_GLOBALS = frozenset(f"{what}_{kind}" for what in ("LOAD", "STORE", "DELETE") for kind in ("GLOBAL", "NAME")) | {
    "IMPORT_NAME"
}
