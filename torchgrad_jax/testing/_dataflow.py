"""In which dtypes each result of a call was computed: the coarsest of them says how closely it can agree.

A call may give a loss in float32 beside an output in half precision. What rounds on the way to one does not make the
other less exact, so that each is followed back through the operators that made it.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from ._described import dtype_name
from ._paths import walk

Dtypes = dict[str, set[str]]
"""The names of dtypes by result; those of the whole call by the name ""."""


class _Flow:
    """For each storage the dtypes of all that it was computed from.

    A number that leaves the tensors (`item()`) may come back anywhere: what is computed afterwards has its dtypes.
    """

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.inside: dict[int, set[str]] = {}
        self.of_numbers: set[str] = set()
        self.kept: list[Any] = []
        """Tensors whose storages are known; while they live no other storage has the same key."""

    def of(self, t: Any) -> set[str]:
        """Return what a tensor was computed in."""
        return self.inside.get(t.untyped_storage()._cdata, set()) | {dtype_name(t)}

    def note(self, operator: Any, given: Any, out: Any) -> None:
        """Note one operator; one that writes may give back nothing."""
        taken, made = ([x for _, x in walk(values, "") if isinstance(x, self.lib.Tensor)] for values in (given, out))
        found = self.of_numbers.union(*map(self.of, taken), *map(self.of, made))
        for t in (*made, *(taken if operator._schema.is_mutable else ())):
            self.kept.append(t)
            self.inside[t.untyped_storage()._cdata] = self.of(t) | found
        if not made and isinstance(out, float | complex):
            self.of_numbers = self.of_numbers | found


@contextlib.contextmanager
def watched(lib: Any) -> Iterator[_Flow]:
    """Follow what is computed in a block."""
    modes = importlib.import_module(f"{lib.__name__}.utils._python_dispatch")
    flow = _Flow(lib)

    class Watch(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            flow.note(func, [list(args), kwargs or {}], out)
            return out

    with Watch():
        yield flow


def of_program(program: Any, names: dict[str, str]) -> list[set[str]]:
    """The dtypes that each result of a jaxpr was computed in.

    Args:
        program: a closed jaxpr.
        names: the full names of dtypes by those that jaxprs show.
    """
    jaxpr = program.jaxpr
    inside = {v: {v.aval.dtype.name} for v in (*jaxpr.invars, *jaxpr.constvars)}
    for step in jaxpr.eqns:
        text = str(step)
        shown = {name for short, name in names.items() if f":{short}[" in text}
        used = [inside[v] for v in step.invars if not hasattr(v, "val")]  # literals have values
        for v in step.outvars:
            inside[v] = shown.union(*used)
    return [set() if hasattr(v, "val") else inside[v] for v in jaxpr.outvars]
