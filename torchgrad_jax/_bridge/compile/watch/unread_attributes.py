"""Attributes that a traced function cannot have looked at, by the names in the code that ran.

A method of a trainer is compiled, and the trainer keeps a list of losses that grows, the best state so far, the last
result. What the method reads of it stands by name in the code that ran while the method was traced. All other
attributes of such plain objects may change.
"""

from __future__ import annotations

import sys
import types
from typing import Any

_BY_ANY_NAME = frozenset([
    "vars", "dir", "getattr", "setattr", "hasattr", "delattr", "attrgetter", "__dict__", "__getattribute__",
    "__getstate__", "__reduce__", "__reduce_ex__", "eval", "exec", "globals", "locals",
    "jax", "jnp", "lax", "jit", "from_jax", "to_jax",
])  # fmt: skip
"""Code that names one of these may look at attributes whose names it computes, or run what JAX traced before."""
_LOOK_AT_ALL = frozenset(["copy", "dataclasses", "inspect", "json", "marshal", "pickle", "pprint", "string"])
"""Modules of the standard library whose functions look at all attributes of what they are given."""
_KNOWN = frozenset(
    [
        "torchgrad_jax",
        "jax",
        "jaxlib",
        "numpy",
        "ml_dtypes",
        "opt_einsum",
        "etils",
        "typing_extensions",
        "_distutils_hack",  # run where JAX imports something late, or caches a kernel
    ]
)
"""Packages whose code looks at attributes of modules, tensors and optimizers alone."""


class CodeThatRan:
    """Which code of the user's ran."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[types.CodeType, str]] = {}
        """By identity, since code that was put together may hold what has no hash."""
        self._looks_at_all = False
        self.complete = False
        """Whether nothing was missed."""

    def note(self, frame: types.FrameType) -> None:
        """A function of Python is called."""
        code = frame.f_code
        found = self._kinds.get(id(code))
        if found is None:
            found = self._kinds[id(code)] = (code, _kind_of(frame))
        if found[1] == "all" and not self._looks_at_all:
            caller = frame.f_back
            while caller is not None and _kind_of(caller) in ("all", "library"):
                caller = caller.f_back
            self._looks_at_all = caller is not None and _kind_of(caller) == "user"

    def names(self) -> frozenset[str] | None:
        """All names and texts in it; None where it may look at any attribute."""
        if self._looks_at_all or not self.complete:
            return None
        found: set[str] = set()
        for code, kind in self._kinds.values():
            if kind == "user":
                _collect(code, found)
        return None if not _BY_ANY_NAME.isdisjoint(found) else frozenset(found)


def _kind_of(frame: types.FrameType) -> str:
    name = frame.f_globals.get("__name__") or ""
    top = name.partition(".")[0]
    if top in _KNOWN:
        return "known"
    if top in _LOOK_AT_ALL:
        return "all"
    return "library" if top in sys.stdlib_module_names and top != "__main__" else "user"


def _collect(code: types.CodeType, found: set[str]) -> None:
    found.update(code.co_names)
    _collect_constants(code.co_consts, found)


def _collect_constants(constants: Any, found: set[str]) -> None:
    for const in constants:
        if isinstance(const, str):
            found.add(const)
        elif isinstance(const, tuple | frozenset):
            _collect_constants(const, found)
        elif isinstance(const, types.CodeType):
            _collect(const, found)
