"""Calls of rows: which arguments of a row are leaves, and what the engine must know of a call.

``x.sum(1)``: `input` is a leaf, `dim` is static; the call computes the sum over dimension 1 of any array.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta
from ..._core.arrays.python_numbers import Number
from ..._core.errors.checks import readable
from ..._core.jax.caches import TEMPLATES
from ..._core.jax.sizes import SMALLEST
from ..._ops import registry as reg
from .templates import Form
from .trace import Call
from .trace_files import text_of

_SIZES = frozenset((
    "size", "normalized_shape", "output_size", "length", "split_size", "split_sizes", "N", "C", "HxW", "shape",
    "last_dim_size", "repeats", "start", "end", "shifts", "pad", "count", "num_classes",
))  # fmt: skip
"""Static arguments that are sizes of tensors, or places in them: most of them come from some tensor's shape."""


class _Size(Enum):
    ANY = 0
    """Stands in keys for a size that may be any."""


_SIZE = _Size.ANY
_OWN = str(reg.__package__)
"""The package of the rows in the table."""


def make_call(
    row: reg.OpDef, static: dict[str, Any], counts: tuple[int, ...], result: type | None, templates: Any
) -> Call:
    """The call of a row for static arguments by name, and for lists of so many tensors.

    `result` is the class of the named tuple that the row gives; `templates` keeps those of all calls of the row.
    """
    leaves = _Leaves(row, counts, static)
    promoted = _promoted(row, leaves.places)
    return Call(
        row.name,
        leaves.runner(row.impl),
        node_name=leaves.namer(row.node),
        argnames=leaves.names,
        row=row,
        promoted=promoted,
        check=row.check and leaves.checker(row.check),
        result=result,
        edges=_edges(row, promoted, leaves.places),
        statics=static,
        geometry=row.geometry and leaves.shaper(row.geometry),
        forward=row.forward and leaves.runner(row.forward),
        since={
            version: reg.Later(leaves.runner(later.impl), *[f and leaves.runner(f) for f in later[1:]])
            for version, later in row.since.items()
        },
        any_size=True,
        name_in_files=partial(_name_in_files, row, static, counts),
        forms=_forms(row, static, counts, templates),
    )


def _forms(row: reg.OpDef, static: dict[str, Any], counts: tuple[int, ...], templates: Any) -> list[Form]:
    """The call with symbols in the place of sizes among its static arguments, if there are any."""
    sizes: list[int] = []

    def masked(v: Any) -> Any:
        if v.__class__ is tuple:
            return tuple([masked(x) for x in v])
        if v.__class__ is int and v >= SMALLEST:
            sizes.append(v)
            return _SIZE
        return v

    kept = {name: masked(v) if name in _SIZES else v for name, v in static.items()}
    if not sizes:
        return []

    def run(symbols: Sequence[Any]) -> Any:
        given = iter(symbols)

        def filled(v: Any) -> Any:
            if v.__class__ is tuple:
                return tuple([filled(x) for x in v])
            return next(given) if v is _SIZE else v

        return _Leaves(row, counts, {k: filled(v) if k in _SIZES else v for k, v in kept.items()}).runner(row.impl)

    key = (tuple(map(as_key, kept.values())), tuple(v.__class__ for v in static.values()), counts)
    known = templates.get(key)
    if known is None:
        known = templates.put(key, TEMPLATES.cache())
    return [Form(known, tuple(sizes), run, name=partial(_name_in_files, row, kept, counts))]


def _name_in_files(row: reg.OpDef, static: dict[str, Any], counts: tuple[int, ...]) -> str | None:
    """What a call is called in files of traces: those of this package's own rows are the same in each process."""
    if row.impl.__module__.startswith(_OWN):
        return text_of((row.name, row.impl.__qualname__, *[x for v in static.items() for x in v], counts))
    return None


def inplace_view(call: Call) -> Call:
    """The call of a view whose node has the in-place form's name."""
    form = call.row.inplace
    if form is not None and form.node is not None and call.inplace is None:
        call.inplace = Call(
            call.name,
            call.run,
            node_name=form.node,
            argnames=call.argnames,
            row=call.row,
            edges=call.edges,
            statics=call.statics,
            geometry=call.geometry,
            forms=call.forms,
        )
    return call.inplace or call


def as_key(value: Any) -> Any:
    """A static argument as a part of a key, in which -0.0 is another number than 0.0."""
    return "-0.0" if value.__class__ is float and not value and math.copysign(1.0, value) < 0 else value


class _Leaves:
    """Which arguments of a function the leaves of a call are, and functions of arguments as functions of leaves."""

    def __init__(self, row: reg.OpDef, counts: Sequence[int], static: dict[str, Any]) -> None:
        self.static = static
        self.passed = {k: v.np if isinstance(v, dtypes.dtype) else v for k, v in static.items()}
        self.places: list[tuple[str, int, int, Any]] = []
        """Of each parameter its name, its first leaf, how many there are (-1: one that is no list), its default."""
        names: list[str] = []
        lengths = iter(counts)
        for p in [p for p in row.params if p.dynamic]:
            if p.kind in (reg.Arrays, reg.OptArrays):
                n = next(lengths)
                self.places.append((p.name, len(names), n, None))
                names += [f"{p.name}_{i}" for i in range(n)]
            else:
                number = p.kind in (reg.Scalar, reg.TracedInt) and p.default is not inspect.Parameter.empty
                self.places.append((p.name, len(names), -1, p.default if number else None))
                names.append(p.name)
        self.names = tuple(names)

    def arguments(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """All arguments by name."""
        out = dict(self.passed)
        for name, at, n, default in self.places:
            if n >= 0:
                out[name] = tuple(leaves[at : at + n])
            else:
                out[name] = default if leaves[at] is None else leaves[at]
        return out

    def runner(self, impl: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
        """The implementation as a function of the leaves."""
        return lambda leaves: impl(**self.arguments(leaves))

    def checker(self, check: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
        """The check of values as a function of the leaves."""
        passed, places = self.passed, self.places
        alone = [(name, at, default) for name, at, n, default in places if n < 0]
        lists = [(name, at, at + n) for name, at, n, _ in places if n >= 0]
        array = np.ndarray

        def run(leaves: Sequence[Any]) -> None:
            given = {
                name: default if (v := leaves[at]) is None else v if v.__class__ is array else _readable(v)
                for name, at, default in alone
            }
            for name, begin, end in lists:
                given[name] = tuple([v if v.__class__ is array else _readable(v) for v in leaves[begin:end]])
            check(**passed, **given)

        return run

    def shaper(self, geometry: Callable[..., Any]) -> Callable[[Meta, Sequence[Any]], Any]:
        """The geometry of a view as a function of the first tensor's meta and of the leaves."""

        def geometry_of(m: Meta, leaves: Sequence[Any]) -> Any:
            named = self.arguments(leaves)
            del named[self.places[0][0]]
            return geometry(m, **named)

        return geometry_of

    def namer(self, node: Any) -> Any:
        """The name of the backward node, or a function of the keys that gives it."""
        if not callable(node):
            return node

        def node_of(keys: Sequence[Any]) -> str:
            named: dict[str, Any] = dict(self.static)
            for name, at, n, _ in self.places:
                k = keys[at] if n < 0 and at < len(keys) else None
                named[name] = None if k is None else "tensor" if isinstance(k, Meta) else "scalar"
            return str(node(named))

        return node_of


def _readable(v: Any) -> Any:
    """A leaf as a check reads it: indices are fetched, other data stays on its device."""
    if v.__class__ is np.ndarray or type(v) is Number or not hasattr(v, "aval") or jnp.issubdtype(v.dtype, jnp.inexact):
        return v
    return readable(v)


def _promoted(row: reg.OpDef, places: Sequence[Any]) -> frozenset[int]:
    if row.promote is reg.Promote.NONE:
        return frozenset()
    kinds = {p.name: p for p in row.params}
    out = []
    for name, at, n, _ in places:
        p = kinds[name]
        named = row.promoted is not None and name in row.promoted
        implied = row.promoted is None and (p.kind in (reg.Array, reg.Arrays) or p.scalar)
        if named or implied:
            out.extend(range(at, at + max(n, 1) if n >= 0 else at + 1))
    return frozenset(out)


def _wrapped(row: reg.OpDef, places: Sequence[Any]) -> frozenset[int]:
    """Leaves where a number counts as a tensor for next_functions."""
    if not row.numbers.wrapped:
        return frozenset()
    unpromoted = row.promote is reg.Promote.NONE
    scalars = {p.name for p in row.params if p.scalar or (unpromoted and p.kind is reg.Array)}
    return frozenset(at for name, at, _, _ in places if name in scalars)


def _edges(
    row: reg.OpDef, promoted: frozenset[int], places: Sequence[Any]
) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    """Which leaves have an entry in next_functions: promoted tensors always, others when floating;
    numbers only where torch turns them into tensors. A tensor left out has an empty entry."""
    wrapped = _wrapped(row, places)
    refused = row.no_gradient.get(reg.NoGradient.REFUSED, ())
    without = {at for name, at, _, _ in places if name in refused}
    at = {name: i for name, i, _, _ in places}
    optional = {at[p.name]: p.scalar for p in row.params if p.kind is reg.Array and p.optional}
    bounds = frozenset(i for i, scalar in optional.items() if scalar)
    # The tensor that something is filled with has a formula, and an entry, whatever its dtype.
    fill = {at[p.name] for p in row.params if p.name == "value" and p.kind is reg.Array and p.scalar}

    def edges(keys: Sequence[Any]) -> tuple[int, ...]:
        # Where numbers are allowed too, torch has another overload for them.
        tensors = any(isinstance(keys[i], Meta) for i in bounds)
        return tuple(
            i
            for i, k in enumerate(keys)
            if i not in without
            and (
                (i in wrapped and k is not None)
                or ((i in promoted or i in fill) and isinstance(k, Meta))
                or (isinstance(k, Meta) and k.dtype.category >= dtypes.FLOATING)
                or (k is None and i in optional and (tensors or not optional[i]))
            )
        )

    return edges
