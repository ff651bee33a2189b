"""The whole surface, derived from the op table: functions, methods, operators, in-place and `out=` forms.

What is registered here on import is `ops` and the dictionaries of `surface`; importing them from here
makes sure that they are filled.
"""

from __future__ import annotations

import functools
from typing import Any

from ..._ops import TABLE
from ..._ops.registry import OpDef
from ..overrides.looking import own, renamed
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
from .composite import Composed, composite as composite
from .generate import generate
from .rows import spreading


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


def on_tensor(fn: Any, name: str) -> Any:
    """A function for Tensor, which is not the one of a module: torch.add and Tensor.add are two things to override."""
    form: Any = getattr(fn, "form", None)
    if isinstance(form, Composed):
        return renamed(form.under(fn, f"Tensor.{name}"), name)
    if getattr(fn, "__globals__", {}).get("_me") is not fn:  # written by hand
        return own(fn, name)
    given = {"inplace": form.inplace, "operator": form.operator, "spread": form.spread is not None}
    return generate(form.binding, name, **given, where=f"Tensor.{name}")


def _bind(row: OpDef, b: Binding, name: str, row_name: str) -> None:
    """The functions of a row under one of its names; `row_name` if that is the row's own."""
    method = row.method and not row.namespace
    for suffix in ("", "_") if row.inplace else ("",):
        if not (row_name or method or (row.function and not suffix)):
            continue
        # The engine alone calls the others, with parameters of their own.
        known = row.function or method
        where = f"{row.namespace or 'torch'}.{name}{suffix}" if known else None
        make = functools.partial(generate, b, name + suffix, inplace=bool(suffix), where=where)
        if row_name:
            ops.declare(row_name + suffix, functools.partial(make, overridable=False))
        fn = make()
        if method:
            enter(METHODS, name + suffix, fn)
            # Functions take a size as one argument.
            if row.function and not suffix and spreading(b):
                fn = generate(b, name, spread=False, where=f"torch.{name}")
        if row.namespace and (suffix or row.function):
            named(fn, row.namespace, name + suffix)
        if (row_name and row.namespace) if suffix else row.function:
            enter(NAMESPACES.setdefault(row.namespace, {}), name + suffix, fn)


bind_table()
