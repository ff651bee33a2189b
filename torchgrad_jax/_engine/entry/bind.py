"""The whole surface, derived from the op table: functions, methods, operators, in-place and `out=` forms.

What is registered here on import is `ops` and the dictionaries of `surface`; importing them from here
makes sure that they are filled.
"""

from __future__ import annotations

from typing import Any

from ..._ops import TABLE
from ..._ops.registry import OpDef
from ..surface import (
    COMPOSITES as COMPOSITES,
    METHODS as METHODS,
    NAMESPACES as NAMESPACES,
    OPERATORS as OPERATORS,
    enter,
    named,
    ops as ops,
)
from .binding import Binding, public_name
from .composite import composite as composite
from .generate import generate
from .overrides import REPLACED, SOURCES
from .rows import spreading


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
        for i, name in enumerate((public_name(row), *row.aliases)):
            _bind(row, b.under(name) if i else b, name, "" if i else row.name)
        for name in row.operators:
            in_place = name == inplace_operator(row.operators[0])
            OPERATORS[name] = generate(b, name, operator=True, inplace=in_place)


def inplace_operator(name: str) -> str:
    """``__add__`` -> ``__iadd__``."""
    return f"__i{name.removeprefix('__')}"


def _bind(row: OpDef, b: Binding, name: str, own: str) -> None:
    """The functions of a row under one of its names; `own` if that is the row's."""
    method = row.method and not row.namespace
    for suffix in ("", "_") if row.inplace else ("",):
        if not (own or method or (row.function and not suffix)):
            continue
        # The engine alone calls the others, with parameters of their own.
        known = row.function or method
        where = f"{row.namespace or 'torch'}.{name}{suffix}" if known else None
        fn = generate(b, name + suffix, inplace=bool(suffix), where=where)
        if own:
            setattr(ops, own + suffix, fn)
        if method:
            enter(METHODS, name + suffix, fn)
            # Functions take a size as one argument.
            if row.function and not suffix and spreading(b):
                fn = generate(b, name, spread=False, where=f"torch.{name}")
        if row.namespace and (suffix or row.function):
            named(fn, row.namespace, name + suffix)
        if (own and row.namespace) if suffix else row.function:
            enter(NAMESPACES.setdefault(row.namespace, {}), name + suffix, fn)


bind_table()
