"""From a row of the table to its calls: which arguments are leaves, which are static, what the engine must know."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta
from ..._core.arrays.python_numbers import Number, looked_at
from ..._core.errors.checks import readable
from ..._core.jax.caches import CALLS, TEMPLATES, VIEWS
from ..._core.jax.sizes import SMALLEST
from ..._ops import registry as reg
from ..._ops.aten import op_name
from ..graph.record import PLAIN
from ..graph.views import known_view
from ..memory.tensor import Tensor
from ..run.templates import Form
from ..run.trace import Call
from .arguments import EMPTY, MISSING, argument, bad_argument, may_change, missing_argument, type_name
from .return_types import return_type

_SIZES = frozenset((
    "size", "normalized_shape", "output_size", "length", "split_size", "split_sizes", "N", "C", "HxW", "shape",
    "last_dim_size", "repeats", "start", "end", "shifts", "pad", "count", "num_classes",
))  # fmt: skip
"""Static arguments that are sizes of tensors, or places in them: most of them come from some tensor's shape."""
_SIZE: Any = object()
"""Stands in keys for a size that may be any."""


class Binding:
    """What is derived from one row: its argument handling and its calls by static arguments."""

    def __init__(self, row: reg.OpDef) -> None:
        self.row = row
        self.public = public_name(row)
        prefixed = row.namespace in ("fft", "linalg", "special") and not self.public.startswith("_")
        self.called = f"{row.namespace}_{self.public}" if prefixed else self.public
        self.params = row.params
        self.dynamic = [p for p in row.params if p.dynamic]
        self.static = [p for p in row.params if not p.dynamic]
        self.lists = any(p.kind in (reg.Arrays, reg.OptArrays) for p in self.dynamic)
        self._raw = CALLS.cache()
        self.raw: dict[Any, Call] = self._raw.young
        """Calls by their arguments as they came, of which equal ones may be written in several ways."""
        self.calls = CALLS.cache()
        self._templates = CALLS.cache()
        """By static arguments that are no sizes: the templates of all calls with these."""
        self.result = _result_type(row)
        self._views = VIEWS.cache()
        self.views: dict[Any, Any] = self._views.young
        self.position = {p.name: i + 1 for i, p in enumerate(row.params)}

    def under(self, name: str) -> Binding:
        """The same calls, with the arguments checked in the name of an alias."""
        other = copy.copy(self)
        other.called = other.called.removesuffix(other.public) + name
        other.public = name
        return other

    def call(self, *statics: Any) -> Call:
        """The call for these static arguments (list lengths, where there are lists, come last)."""
        n = len(self.static)
        values = tuple(
            looked_at(argument(self.called, p, self.position[p.name], v)) for p, v in zip(self.static, statics)
        )
        key = (tuple(map(as_key, values)), tuple(v.__class__ for v in values), statics[n:])
        call = self.calls.get(key)
        if call is None:
            call = self.calls.put(key, self._make(values, statics[n:]))
        if not may_change(statics[:n]):
            key = raw_key(statics[:n], statics[n:])
            if key is not None:
                self._raw.put(key, call)
        return call

    def find(self, statics: Sequence[Any], counts: tuple[int, ...]) -> Call | None:
        """The call for static arguments with lists among them, if it is known."""
        key = raw_key(statics, counts)
        return None if key is None else self.raw.get(key)

    def _make(self, values: tuple[Any, ...], counts: tuple[Any, ...]) -> Call:
        row = self.row
        static = {p.name: v for p, v in zip(self.static, values)}
        leaves = _Leaves(self.dynamic, counts, static)
        promoted = _promoted(row, leaves.places)
        return Call(
            row.name,
            leaves.runner(row.impl),
            node_name=leaves.namer(row.node),
            argnames=leaves.names,
            row=row,
            promoted=promoted,
            check=row.check and leaves.checker(row.check),
            result=self.result,
            edges=_edges(row, promoted, leaves.places),
            statics=static,
            geometry=row.geometry and leaves.shaper(row.geometry),
            forward=row.forward and leaves.runner(row.forward),
            any_size=True,
            forms=self._forms(values, counts),
        )

    def _forms(self, values: tuple[Any, ...], counts: tuple[Any, ...]) -> list[Form]:
        """The call with symbols in the place of sizes among its static arguments, if there are any."""
        sizes: list[int] = []

        def masked(v: Any) -> Any:
            if v.__class__ is tuple:
                return tuple([masked(x) for x in v])
            if v.__class__ is int and v >= SMALLEST:
                sizes.append(v)
                return _SIZE
            return v

        kept = tuple([masked(v) if p.name in _SIZES else v for p, v in zip(self.static, values)])
        if not sizes:
            return []

        def run(symbols: Sequence[Any]) -> Any:
            given = iter(symbols)

            def filled(v: Any) -> Any:
                if v.__class__ is tuple:
                    return tuple([filled(x) for x in v])
                return next(given) if v is _SIZE else v

            static = {p.name: filled(v) if p.name in _SIZES else v for p, v in zip(self.static, kept)}
            return _Leaves(self.dynamic, counts, static).runner(self.row.impl)

        key = (tuple(map(as_key, kept)), tuple(v.__class__ for v in values), counts)
        templates = self._templates.get(key)
        if templates is None:
            templates = self._templates.put(key, TEMPLATES.cache())
        return [Form(templates, tuple(sizes), run)]

    def inplace_view(self, call: Call) -> Call:
        """The call whose node has the in-place form's name."""
        form = self.row.inplace
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

    def remember(self, call: Call, leaves: Sequence[Any], args: Sequence[Any]) -> None:
        """Keep a view's geometry under its raw arguments, for the fast path."""
        known = known_view(call, leaves[0]._m, leaves)
        if known is None or may_change(args[1:]):
            return
        try:
            self._views.put((leaves[0]._m, *(x for v in args[1:] for x in (v, v.__class__))), known)
        except TypeError:  # a list of dimensions has no hash
            pass

    def general(self, args: Sequence[Any]) -> tuple[Call, tuple[Any, ...]]:
        """Call and leaves from arguments in the row's order, whatever they are."""
        statics, leaves, counts = [], [], []
        for i, (p, v) in enumerate(zip(self.params, args)):
            if not p.dynamic:
                statics.append(v)
            elif p.kind in (reg.Arrays, reg.OptArrays):
                counts.append(len(self._check_list(p, i, v)))
                leaves.extend(v)
            elif v.__class__ in PLAIN and p.kind is reg.Array:
                leaves.append(v)
            else:
                leaf = argument(self.called, p, i + 1, v)
                same = p.kind is reg.Scalar and leaf.__class__ is p.default.__class__ and leaf == p.default
                leaves.append(None if leaf is p.default or same else leaf)
        return self.find(statics, tuple(counts)) or self.call(*statics, *counts), tuple(leaves)

    def _check_list(self, p: reg.Param, i: int, value: Any) -> Any:
        """A list of tensors, or torch's complaint."""
        if value is MISSING:
            raise missing_argument(self.called, p.name)
        if isinstance(value, Tensor) or not isinstance(value, list | tuple):
            raise bad_argument(self.called, p, i + 1, value)
        for j, item in enumerate(value):
            if not isinstance(item, Tensor) and not (item is None and p.kind is reg.OptArrays):
                raise TypeError(f"expected Tensor as element {j} in argument {i}, but got {type_name(item)}")
        return value


def as_key(value: Any) -> Any:
    """A static argument as a part of a key, in which -0.0 is another number than 0.0."""
    return "-0.0" if value.__class__ is float and not value and math.copysign(1.0, value) < 0 else value


def raw_key(statics: Sequence[Any], counts: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Static arguments as they came, as a key; None if they are none.

    The class is part of it, since 1 == True; so a list of anything but ints is no key.
    """
    key: list[Any] = []
    for v in statics:
        if v.__class__ is list:
            if any(x.__class__ is not int for x in v):
                return None
            v = tuple(v)
            key += (v, list)
        else:
            key += (as_key(v), v.__class__)
    try:
        hash(found := (*key, *counts))
    except TypeError:
        return None
    return found


class _Leaves:
    """Which arguments of a function the leaves of a call are, and functions of arguments as functions of leaves."""

    def __init__(self, dynamic: Sequence[reg.Param], counts: Sequence[int], static: dict[str, Any]) -> None:
        self.static = static
        self.passed = {k: v.np if isinstance(v, dtypes.dtype) else v for k, v in static.items()}
        self.places: list[tuple[str, int, int, Any]] = []
        """Of each parameter its name, its first leaf, how many there are (-1: one that is no list), its default."""
        names: list[str] = []
        lengths = iter(counts)
        for p in dynamic:
            if p.kind in (reg.Arrays, reg.OptArrays):
                n = next(lengths)
                self.places.append((p.name, len(names), n, None))
                names += [f"{p.name}_{i}" for i in range(n)]
            else:
                number = p.kind in (reg.Scalar, reg.TracedInt) and p.default is not EMPTY
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

        def run(leaves: Sequence[Any]) -> None:
            named = dict(passed)
            for name, at, n, default in places:
                if n < 0:
                    named[name] = default if leaves[at] is None else _readable(leaves[at])
                else:
                    named[name] = tuple(map(_readable, leaves[at : at + n]))
            check(**named)

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


def _result_type(row: reg.OpDef) -> type | None:
    if row.returns is None:
        return None
    return return_type(result_name(row), row.returns)


def result_name(row: reg.OpDef) -> str:
    """The name of the named tuple of a row: ``max`` of the row ``max_dim``; of rows that nobody calls their own."""
    return public_name(row) if row.name.startswith("_") else op_name(row.name)


def public_name(row: reg.OpDef) -> str:
    """The name users call: the row's without the prefix of its namespace."""
    prefix = row.namespace.rpartition(".")[2] + "_"
    if row.namespace and row.name.startswith(prefix):
        return row.name[len(prefix) :]
    return row.name
