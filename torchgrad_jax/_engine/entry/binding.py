"""From the arguments of a row to its call: which of them are leaves, and which call the others make."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..._core.arrays.python_numbers import looked_at
from ..._core.jax.caches import CALLS, VIEWS
from ..._ops import registry as reg
from ..._ops.aten import op_name
from ..graph.record import PLAIN
from ..graph.views import known_view
from ..memory.tensor import Tensor
from ..run.row_calls import as_key, make_call
from ..run.trace import Call
from ..surface import PREFIXED
from .arguments import MISSING, argument, as_number, bad_argument, is_number, may_change, missing_argument, type_name
from .return_types import return_type


class Binding:
    """What is derived from one row: its argument handling and its calls by static arguments."""

    def __init__(self, row: reg.OpDef) -> None:
        self.row = row
        self.public = public_name(row)
        prefixed = row.namespace in PREFIXED and not self.public.startswith("_")
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
        self.written: dict[Any, Any] = {}
        """Functions whose code `generate` has written, by what their text depends on."""

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
            named = {p.name: v for p, v in zip(self.static, values)}
            call = self.calls.put(key, make_call(self.row, named, statics[n:], self.result, self._templates))
        if not may_change(statics[:n]):
            key = raw_key(statics[:n], statics[n:])
            if key is not None:
                self._raw.put(key, call)
        return call

    def find(self, statics: Sequence[Any], counts: tuple[int, ...]) -> Call | None:
        """The call for static arguments with lists among them, if it is known."""
        key = raw_key(statics, counts)
        return None if key is None else self.raw.get(key)

    def remember(self, call: Call, leaves: Sequence[Any], args: Sequence[Any]) -> None:
        """Keep a view's geometry under its raw arguments, for the fast path."""
        if may_change(args[1:]):
            return
        known = known_view(call, leaves[0]._m, leaves)
        try:
            self._views.put((leaves[0]._m, *(x for v in args[1:] for x in (v, v.__class__))), known)
        except TypeError:  # a list of dimensions has no hash
            pass

    def general(self, args: Sequence[Any]) -> tuple[Call, tuple[Any, ...]]:
        """Call and leaves from arguments in the row's order, whatever they are."""
        statics, leaves, counts = self.read(args)
        return self.find(statics, counts) or self.call(*statics, *counts), leaves

    def read(self, args: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...], tuple[int, ...]]:
        """Static arguments as they came, leaves, and the lengths of lists among these."""
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
        if self.row.numbers.dtype is reg.NumberDtype.ALL_OR_NONE:
            leaves[1:] = _numbers_if_one_is(leaves[1:])
        return statics, tuple(leaves), tuple(counts)

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


def _numbers_if_one_is(given: Sequence[Any]) -> Sequence[Any]:
    """Make `(0, 2.0)` of `(0, tensor(2.0))`: beside a number, a tensor without dimensions stands for a number."""
    if all(v is None or isinstance(v, Tensor) for v in given) or not all(v is None or is_number(v) for v in given):
        return given
    return [None if v is None else as_number(v) for v in given]


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
