"""The whole surface, derived from the op table: functions, methods, operators, in-place and `out=` forms.

What is registered here on import is `ops` and the dictionaries of `surface`; importing them from here
makes sure that they are filled.
"""

from __future__ import annotations

from typing import Any

from .._ops import TABLE
from .binding import Binding, public_name
from .composite import composite as composite
from .generate import generate
from .overrides import REPLACED, SOURCES
from .surface import (
    COMPOSITES as COMPOSITES,
    METHODS as METHODS,
    NAMESPACES as NAMESPACES,
    OPERATORS as OPERATORS,
    enter,
    ops as ops,
)


def _public() -> Any:
    for space, names in NAMESPACES.items():
        for fn in names.values():
            yield space, fn


def _use_plain(plain: dict[Any, Any]) -> None:
    """The engine's own calls are nobody's to override."""
    for name, fn in list(vars(ops).items()):
        setattr(ops, name, plain.get(fn, fn))


SOURCES.append(_public)


REPLACED.append(_use_plain)


def bind_table() -> None:
    """Generate everything that follows from the table."""
    for row in TABLE.values():
        b = Binding(row)
        label = public_name(row)
        fn = generate(b, label)
        setattr(ops, row.name, fn)
        if row.function:
            space = NAMESPACES.setdefault(row.namespace, {})
            if row.namespace:
                fn.__module__ += f".{row.namespace}"  # where pickle looks for it
            for n in (label, *row.aliases):
                enter(space, n, fn)
        if row.method and row.namespace == "":
            for n in (label, *row.aliases):
                enter(METHODS, n, fn)
        if row.inplace:
            ip = generate(b, label + "_", inplace=True)
            setattr(ops, row.name + "_", ip)
            if row.namespace == "":
                if row.method:
                    for n in (label, *row.aliases):
                        enter(METHODS, n + "_", ip)
            else:
                ip.__module__ += f".{row.namespace}"
                enter(NAMESPACES.setdefault(row.namespace, {}), label + "_", ip)
        if row.operator:
            OPERATORS[row.operator] = generate(b, row.operator, operator=True)
        if row.reflected:
            OPERATORS[row.reflected] = generate(b, row.reflected, operator=True)
        if row.inplace_operator:
            OPERATORS[row.inplace_operator] = generate(
                b, row.inplace_operator, operator=True, inplace=True
            )


bind_table()
