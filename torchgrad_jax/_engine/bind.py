"""Functions, methods, operators, in-place and out= forms, derived from the op table.

For each row a Python function with torch's signature is generated. Its body is the plain case of
`record.apply`, unrolled: plain tensors, recording on or off, nothing watching. Everything else goes
to the general path.
"""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._core import dtypes, errors, events, outputs
from .._core.meta import Meta
from .._core.state import MODES, OBSERVED, next_sequence_nr
from .._ops import TABLE, registry as reg
from . import record
from .history import edge_of, requires_grad_of
from .overrides import REPLACED, SOURCES, foreign, handle, overridden as overridden
from .record import NUMBERS, PLAIN, apply, apply_inplace, inplace_call, no_grad
from .resize import resize
from .strided import check_disjoint, check_writable, read
from .tensor import Storage, Tensor
from .trace import Apart, Call, Overlap
from .views import apply_view, apply_view_inplace, fast_view, known_view

_EMPTY = inspect.Parameter.empty
_MAX_VIEWS = 20_000
NAMESPACES: dict[str, dict[str, Callable[..., Any]]] = {}
"""Public functions by namespace ("" is the top level) and name."""
METHODS: dict[str, Callable[..., Any]] = {}
"""Methods to install on Tensor."""
OPERATORS: dict[str, Callable[..., Any]] = {}
"""Dunder methods to install on Tensor."""
COMPOSITES: dict[str, Any] = {}
"""Functions over tensors registered with `composite`, by public name and namespace."""

_ALIASES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}
_KIND_NAMES = {reg.Array: "Tensor", reg.Scalar: "Number", reg.TracedInt: "int", reg.Arrays: "tuple of Tensors",
               reg.OptArrays: "tuple of Tensors", int: "int", float: "float", bool: "bool", str: "str",
               reg.Dims: "tuple of ints", reg.Size: "tuple of ints", reg.Dtype: "torch.dtype"}  # fmt: skip


class Ops:
    """Every row of the table as a function over tensors, by row name."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no op {name!r} is declared")


ops: Any = Ops()


# --- arguments ------------------------------------------------------------------------------------


def type_name(value: Any) -> str:
    """How torch's messages name the type of an argument."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        inner = (
            f" of {type_name(value[0])}s"
            if value and isinstance(value[0], (*NUMBERS, Tensor))
            else ""
        )
        return type(value).__name__ + inner if inner else type(value).__name__
    return type(value).__name__


def bad_argument(op: str, param: reg.Param, position: int, value: Any) -> TypeError:
    """torch's complaint about an argument of the wrong type."""
    where = f"argument '{param.name}'" + ("" if param.kwonly else f" (position {position})")
    got = type(value).__name__ if param.kind is reg.Array else type_name(value)
    return TypeError(f"{op}(): {where} must be {_KIND_NAMES.get(param.kind, 'valid')}, not {got}")


MISSING: Any = type("missing", (), {"__slots__": (), "__repr__": lambda self: "<required>"})()
"""Default of required arguments, which may come under numpy's name instead."""


def missing_argument(op: str, param: reg.Param) -> TypeError:
    """torch's complaint about an argument that was not given."""
    return TypeError(f'{op}() missing 1 required positional arguments: "{param.name}"')


def as_int(value: Any) -> int | None:
    """An int where torch takes an int: Python and numpy integers, 0-dim integer tensors."""
    if value.__class__ is int:
        return value
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if (
        isinstance(value, Tensor)
        and value._m.numel == 1
        and value._m.dtype.category < dtypes.FLOATING
    ):
        if value._m.dtype.category == dtypes.BOOL:
            return None
        return int(record.concrete(value).reshape(()))
    return None


def as_ints(value: Any) -> tuple[int, ...] | None:
    """A tuple of ints from a sequence of ints, or None."""
    if isinstance(value, list | tuple):
        out = tuple(as_int(v) for v in value)
        return None if None in out else out  # type: ignore[return-value]
    return None


def static_value(op: str, param: reg.Param, position: int, value: Any) -> Any:
    """A static argument checked and normalised."""
    kind = param.kind
    if value is MISSING:
        raise missing_argument(op, param)
    if value is None and (param.optional or param.default is None):
        return None
    out: Any = None
    if kind is int:
        out = as_int(value)
    elif kind is bool:
        out = bool(value) if isinstance(value, bool | np.bool_) else None
    elif kind is float:
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            out = float(value)
        elif isinstance(value, Tensor) and value._m.numel == 1:
            out = float(record.concrete(value).reshape(()))
    elif kind is str:
        out = value if isinstance(value, str) else None
    elif kind is reg.Dims or kind is reg.Size:
        single = as_int(value) if not isinstance(value, list | tuple) else None
        out = (single,) if single is not None else as_ints(value)
    elif kind is reg.Dtype:
        try:
            out = dtypes.to_dtype(value)
        except TypeError:
            out = None
    else:
        return tuple(value) if isinstance(value, list) else value
    if out is None:
        raise bad_argument(op, param, position, value)
    return out


def dynamic_value(op: str, param: reg.Param, position: int, value: Any) -> Any:
    """A leaf checked and normalised: tensor, Python number or None."""
    if isinstance(value, Tensor):
        if param.kind is reg.Scalar:
            if value._m.numel == 1 and not requires_grad_of(value):
                return record.concrete(value).reshape(()).item()
            raise bad_argument(op, param, position, value)
        if param.kind is reg.TracedInt:
            out = as_int(value)
            if out is None:
                raise bad_argument(op, param, position, value)
            return out
        return value
    if value is None:
        if param.optional or param.default is None:
            return None
        raise bad_argument(op, param, position, value)
    if param.kind is reg.TracedInt:
        out = as_int(value)
        if out is None:
            raise bad_argument(op, param, position, value)
        return out
    if param.kind is reg.Scalar or param.scalar:
        try:
            return record.as_leaf(value)
        except TypeError:
            pass
    if value is MISSING:
        raise missing_argument(op, param)
    raise bad_argument(op, param, position, value)


class Binding:
    """What is derived from one row: its argument handling and its calls by static arguments."""

    def __init__(self, row: reg.OpDef) -> None:
        self.row = row
        self.public = public_name(row)
        self.params = row.params
        self.dynamic = [p for p in row.params if p.dynamic]
        self.static = [p for p in row.params if not p.dynamic]
        self.lists = any(p.kind in (reg.Arrays, reg.OptArrays) for p in self.dynamic)
        self.raw: dict[Any, Call] = {}
        self.calls: dict[Any, Call] = {}
        self.result = _result_type(row)
        self.views: dict[Any, Any] = {}
        self.position = {p.name: i + 1 for i, p in enumerate(row.params)}

    def call(self, *statics: Any) -> Call:
        """The call for these static arguments (list lengths, where there are lists, come last)."""
        n = len(self.static)
        values = tuple(
            static_value(self.public, p, self.position[p.name], v)
            for p, v in zip(self.static, statics)
        )
        key = (values, tuple(v.__class__ for v in values), statics[n:])
        found = self.calls.get(key)
        if found is None:
            found = self.calls[key] = self._make(values, statics[n:])
        try:
            self.raw[tuple(x for v in statics[:n] for x in (v, v.__class__))] = found
        except TypeError:
            pass
        return found

    def _make(self, values: tuple[Any, ...], counts: tuple[Any, ...]) -> Call:
        row = self.row
        static = {p.name: v for p, v in zip(self.static, values)}
        passed = {
            p.name: (v.np if isinstance(v, dtypes.dtype) else v)
            for p, v in zip(self.static, values)
        }
        recipe: list[
            tuple[str, int, int, Any]
        ] = []  # name, first leaf, count (-1: single), default
        argnames: list[str] = []
        counts_left = list(counts)
        for p in self.dynamic:
            at = len(argnames)
            if p.kind in (reg.Arrays, reg.OptArrays):
                n = counts_left.pop(0)
                recipe.append((p.name, at, n, None))
                argnames += [f"{p.name}_{i}" for i in range(n)]
            else:
                default = (
                    p.default
                    if p.kind in (reg.Scalar, reg.TracedInt) and p.default is not _EMPTY
                    else None
                )
                recipe.append((p.name, at, -1, default))
                argnames.append(p.name)
        impl = row.impl

        def run(leaves: Sequence[Any]) -> Any:
            kwargs = dict(passed)
            for name, at, n, default in recipe:
                if n >= 0:
                    kwargs[name] = tuple(leaves[at : at + n])
                else:
                    v = leaves[at]
                    kwargs[name] = default if v is None else v
            return impl(**kwargs)

        def bound(leaves: Sequence[Any]) -> dict[str, Any]:
            out: dict[str, Any] = dict(passed)
            for name, at, n, default in recipe:
                out[name] = (
                    tuple(leaves[at : at + n])
                    if n >= 0
                    else (default if leaves[at] is None else leaves[at])
                )
            return out

        promoted = _promoted(row, recipe)
        node: Any = row.node
        if callable(row.node):
            shape_of = row.node

            def node_of(keys: Sequence[Any]) -> str:
                args = dict(static)
                for name, at, n, _ in recipe:
                    k = keys[at] if n < 0 and at < len(keys) else None
                    args[name] = (
                        None if k is None else "tensor" if isinstance(k, Meta) else "scalar"
                    )
                return shape_of(args)

            node = node_of
        geometry: Any = None
        if row.geometry is not None:
            shape_fn = row.geometry

            def geometry_of(m: Meta, leaves: Sequence[Any]) -> Any:
                kwargs = bound(leaves)
                kwargs.pop(recipe[0][0])
                return shape_fn(m, **kwargs)

            geometry = geometry_of

        check = None
        if row.check is not None:
            user_check = row.check
            check = lambda leaves: user_check(**_concrete(bound(leaves)))  # noqa: E731
        call = Call(
            row.name, run, node_name=node, argnames=tuple(argnames), promote=row.promote,
            promoted=promoted, nondiff=row.nondiff, grad=row.grad, layout=row.layout, check=check,
            check_result=row.check_result, result=self.result, edges=_edges(row, promoted, recipe),
            statics=static, geometry=geometry, grad_view=row.grad_view, joins=row.joins,
        )  # fmt: skip
        call.masks = "masks" in row.tags
        call.real = "real_gradient" in row.tags
        if "reads_partly_apart" in row.tags:
            call.apart = Apart.PARTLY
        if "reads_apart" in row.tags:
            call.apart = Apart.WHOLLY
        if "writes_overlap" in row.tags:
            call.overlaps = Overlap.FINE
        if "warns_of_overlap" in row.tags:
            call.overlaps = Overlap.WARNED
        call.inplace_check = row.inplace_check
        call.undifferentiable = _undifferentiable(row, recipe)
        call.grad_facts = (row.grad_follows, row.grad_version)
        return call

    def inplace_view(self, call: Call) -> Call:
        """The call whose node has the in-place form's name."""
        if self.row.inplace_node is not None and call.inplace is None:
            call.inplace = Call(
                call.name, call.run, node_name=self.row.inplace_node, argnames=call.argnames, edges=call.edges,
                statics=call.statics, geometry=call.geometry, grad_view=call.grad_view,
            )  # fmt: skip
        return call.inplace or call

    def remember(self, call: Call, leaves: Sequence[Any], args: Sequence[Any]) -> None:
        """Keep a view's geometry under its raw arguments, for the fast path."""
        known = known_view(call, leaves[0]._m, leaves)
        if known is None:
            return
        if len(self.views) >= _MAX_VIEWS:
            self.views.clear()
        try:
            self.views[(leaves[0]._m, *args[1:])] = known
        except TypeError:  # an unhashable list of dims
            pass

    def general(self, args: Sequence[Any]) -> tuple[Call, tuple[Any, ...]]:
        """Call and leaves from arguments in the row's order, whatever they are."""
        name = self.public
        statics, leaves, counts = [], [], []
        for i, (p, v) in enumerate(zip(self.params, args)):
            if not p.dynamic:
                statics.append(v)
            elif p.kind in (reg.Arrays, reg.OptArrays):
                if v is MISSING:
                    raise missing_argument(name, p)
                if isinstance(v, Tensor) or not isinstance(v, list | tuple):
                    raise bad_argument(name, p, i + 1, v)
                for j, item in enumerate(v):
                    if not isinstance(item, Tensor) and not (
                        item is None and p.kind is reg.OptArrays
                    ):
                        raise TypeError(
                            f"expected Tensor as element {j} in argument {i}, but got {type(item).__name__}"
                        )
                counts.append(len(v))
                leaves.extend(v)
            else:
                leaf = dynamic_value(name, p, i + 1, v)
                if leaf is p.default or (
                    p.kind is reg.Scalar
                    and leaf.__class__ is p.default.__class__
                    and leaf == p.default
                ):
                    leaf = None
                leaves.append(leaf)
        return self.call(*statics, *counts), tuple(leaves)


def _concrete(bound: dict[str, Any]) -> dict[str, Any]:
    def value(v: Any) -> Any:
        if isinstance(v, tuple):
            return tuple(value(x) for x in v)
        if not hasattr(v, "aval") or jnp.issubdtype(v.dtype, jnp.inexact):
            return v  # data stays where it is; a check that reads it asks for it
        return np.asarray(v)

    return {k: value(v) for k, v in bound.items()}


def _promoted(row: reg.OpDef, recipe: Sequence[Any]) -> frozenset[int]:
    if row.promote is reg.Promote.NONE:
        return frozenset()
    kinds = {p.name: p for p in row.params}
    out = []
    for name, at, n, _ in recipe:
        p = kinds[name]
        named = row.promoted is not None and name in row.promoted
        implied = row.promoted is None and (p.kind in (reg.Array, reg.Arrays) or p.scalar)
        if named or implied:
            out.extend(range(at, at + max(n, 1) if n >= 0 else at + 1))
    return frozenset(out)


def _undifferentiable(row: reg.OpDef, recipe: Sequence[Any]) -> dict[int, str]:
    """Leaves that may not require grad, and what is said when they do."""
    aten = row.aten or row.name.lstrip("_")
    where = {at: name for name, at, _, _ in recipe if name in row.undifferentiable}
    return {at: errors.undifferentiable(aten, name) for at, name in where.items()}


def _wrapped(row: reg.OpDef, recipe: Sequence[Any]) -> frozenset[int]:
    """Leaves where a number counts as a tensor for next_functions."""
    if not row.wraps:
        return frozenset()
    unpromoted = row.promote is reg.Promote.NONE
    scalars = {p.name for p in row.params if p.scalar or (unpromoted and p.kind is reg.Array)}
    return frozenset(at for name, at, _, _ in recipe if name in scalars)


def _edges(
    row: reg.OpDef, promoted: frozenset[int], recipe: Sequence[Any]
) -> Callable[[Sequence[Any]], tuple[int, ...]]:
    """Which leaves have an entry in next_functions: promoted tensors always, others when floating;
    numbers only where torch turns them into tensors. A tensor left out has an empty entry."""
    wrapped, without = _wrapped(row, recipe), _undifferentiable(row, recipe)
    at = {name: i for name, i, _, _ in recipe}
    optional = {at[p.name]: p.scalar for p in row.params if p.kind is reg.Array and p.optional}
    bounds = frozenset(i for i, scalar in optional.items() if scalar)
    # The tensor that something is filled with has a formula, and an entry, whatever its dtype.
    fill = {
        at[p.name] for p in row.params if p.name == "value" and p.kind is reg.Array and p.scalar
    }

    def edges(keys: Sequence[Any]) -> tuple[int, ...]:
        # Where numbers are allowed too, torch has another overload for them.
        tensors = any(isinstance(keys[i], Meta) for i in bounds)
        return tuple(
            i for i, k in enumerate(keys)
            if i not in without and (
                (i in wrapped and k is not None)
                or ((i in promoted or i in fill) and isinstance(k, Meta))
                or (isinstance(k, Meta) and k.dtype.category >= dtypes.FLOATING)
                or (k is None and i in optional and (tensors or not optional[i]))
            )
        )  # fmt: skip

    return edges


# --- named tuples ---------------------------------------------------------------------------------

RETURN_TYPES: dict[str, type] = {}


def return_type(name: str, fields: Sequence[str]) -> type:
    """The named tuple ``torch.return_types.<name>``."""
    found = RETURN_TYPES.get(name)
    if found is not None:
        return found
    base = namedtuple(name, list(fields))  # type: ignore[misc]

    class Result(base):  # type: ignore[misc,valid-type]
        __slots__ = ()

        def __new__(cls, *values: Any) -> Any:
            if len(values) == 1 and len(fields) != 1:
                values = tuple(values[0])
            return base.__new__(cls, *values)

        def __repr__(self) -> str:
            body = ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self))
            return f"torch.return_types.{name}(\n{body})"

        def __reduce__(self) -> Any:
            return (_rebuild_result, (name, tuple(fields), tuple(self)))

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = "torch.return_types"
    Result.n_fields = Result.n_sequence_fields = len(fields)
    Result.n_unnamed_fields = 0
    RETURN_TYPES[name] = Result
    return Result


def _rebuild_result(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return return_type(name, fields)(*values)


def _result_type(row: reg.OpDef) -> type | None:
    if row.returns is None:
        return None
    return return_type(row.returns_name or public_name(row), row.returns)


def public_name(row: reg.OpDef) -> str:
    """The name users call: the row's without the prefix of its namespace."""
    prefix = row.namespace.rpartition(".")[2] + "_"
    if row.namespace and row.name.startswith(prefix):
        return row.name[len(prefix) :]
    return row.name


# --- generated functions --------------------------------------------------------------------------


def _fast(b: Binding) -> bool:
    """Whether the plain case of this row can be unrolled."""
    row = b.row
    required = [p for p in b.dynamic if (p.kind is reg.Array or p.scalar) and not p.optional]
    others = [p for p in b.dynamic if p not in required]
    return (
        not b.lists and not row.view and row.check is None and row.check_result is None
        and row.returns is None and len(required) in (1, 2, 3)
        and all(p.default is None or (p.kind is reg.Scalar and p.default is not _EMPTY) for p in others)
    )  # fmt: skip


# Names in generated code start with "_", so that no parameter of torch's can be shadowed.
_LEAF = """
    _c{i} = {p}.__class__
    if _c{i} in _plain and {p}._x is None:
        _k{i} = {p}._m
        if {p}._al is None:
            _x{i} = {p}._st.array
            _r{i} = {p}._rg
        else:
            _x{i} = _read({p})
            _r{i} = {p}._rg or _requires({p})
{number}    else:
        return {fallback}
"""
_NUMBER = """    elif _c{i} in _numbers:
        _k{i} = _c{i}
        _x{i} = {p}
        _r{i} = False
"""
_RUN = """
    _plan = _call.plans.get({keys})
    if _plan is None:
        _plan = _new_plan(_call, {keys}, {leaves})
    if not _plan.single:
        return _general(_call, {leaves})
    _a = _plan.fwd({xs})
    _t = _new(_Tensor)
    _s = _new(_Storage)
    _s.array = _a
    _s.meta = _t._m = _plan.out
    _s.version = _s.stamp = _s.pointer = _t._onr = 0
    _t._st = _t._vc = _s
    _t._al = _t._g = _t._acc = _t._x = None
    if _mode and ({anyr}) and _plan.any_diff:
        _mask = {mask}
        _gp = _plan.grads.get(_mask)
        if _gp is None:
            _gp = _plan.grad_plan(_mask)
        _n = _new(_gp.node_class)
        _n.gp = _gp
{edges}
        _n.edges = {edge_tuple} if _gp.edge_pick is None else _gp.edge_pick({edge_tuple})
        _n.saved, _n.vers = _gp.save({leaf_list}, *([_s] if _gp.saved_out else ()))
        _n.seq = _next_seq()
        _n.extras = None
        _t._fn = _n
        _t._rg = True
    else:
        _t._fn = None
        _t._rg = False
    return _t
"""
_WRITE = """
    if {me}._al is not None{aliased} or (_mode and ({anyr})): return {fallback}
    _write = _call.inplace or _inplace_call(_call)
    _plan = _write.plans.get({keys})
    if _plan is None:
        _plan = _write.plan({keys})
    _s = {me}._st
    _s.array = _plan.fwd({xs})
    _s.stamp += 1
    {me}._vc.version += 1
    return {me}
"""
_EDGE = """
        if _r{i}:
            _e{i} = ({p}._fn, {p}._onr) if {p}._al is None and {p}._fn is not None else _edge_of({p})
        else:
            _e{i} = None"""


def _signature(b: Binding, space: dict[str, Any], out: bool, varargs: reg.Param | None) -> str:
    parts, star = [], False
    space["_missing"] = MISSING
    for p in b.params:
        if p is varargs:
            parts.append(f"*{p.name}")
            star = True
            continue
        if p.kwonly and not star:
            parts.append("*")
            star = True
        if p.default is _EMPTY and not (varargs and star):
            parts.append(f"{p.name}=_missing")
        else:
            space[f"_default_{p.name}"] = None if p.default is _EMPTY else p.default
            parts.append(f"{p.name}=_default_{p.name}")
    if out:
        if not star:
            parts.append("*")
        parts.append("out=None")
    parts.append("**_kw")
    return ", ".join(parts)


def _tuple(items: Sequence[str]) -> str:
    return "(" + "".join(f"{i}, " for i in items) + ")"


def generate(
    b: Binding, name: str, *, inplace: bool = False, operator: bool = False
) -> Callable[..., Any]:
    """The Python function for a row: ``name(...)``, ``name_(...)`` or an operator method.

    Its code is written when it is first called: writing all of them would double the time of an import.
    """
    space: dict[str, Any] = {"_first_call": functools.partial(_first_call, b, inplace, operator)}
    fn = types.FunctionType(_unwritten.__code__, space, name)
    space["_me"] = fn
    fn.__qualname__ = name
    fn.__module__ = "torchgrad_jax"
    fn.__doc__ = b.row.doc
    fn.binding = b  # type: ignore[attr-defined]
    return fn


def _unwritten(*args: Any, **kwargs: Any) -> Any:
    return _first_call(_me, args, kwargs)  # type: ignore[name-defined]  # noqa: F821 - in the function's own globals


def _first_call(b: Binding, inplace: bool, operator: bool, fn: Any, args: Any, kwargs: Any) -> Any:
    """Give a function its code, in place, so that whoever holds it already has the fast one."""
    name = fn.__name__
    source, space = _source(b, name, inplace, operator)
    fn.__globals__.update(space)
    # Named after this file, so that tracebacks can tell generated code from a user's.
    exec(compile(source, f"{__file__}:{name}", "exec"), fn.__globals__)
    made = fn.__globals__.pop(name)
    fn.__defaults__, fn.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
    fn.__code__ = made.__code__
    for other in fn.__globals__.get("_twins", ()):
        other.__defaults__, other.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        other.__code__ = made.__code__
    return fn(*args, **kwargs)


def _source(b: Binding, name: str, inplace: bool, operator: bool) -> tuple[str, dict[str, Any]]:
    """The text of a function and what it refers to."""
    row = b.row
    space: dict[str, Any] = {
        "_new": object.__new__, "_Tensor": Tensor, "_Storage": Storage, "_plain": PLAIN,
        "_numbers": frozenset(NUMBERS), "_read": read, "_requires": requires_grad_of,
        "_edge_of": edge_of, "_MODES": MODES, "_next_seq": next_sequence_nr, "_calls": b.raw,
        "_make_call": b.call, "_general": apply, "_binding": b, "_size_argument": size_argument,
        "_rebind": rebind, "_new_plan": record.new_plan, "_write_out": write_out, "_run_operator": run_operator,
        "_run_inplace": run_inplace, "_run_view_inplace": run_view_inplace, "_run_view": run_view,
        "_run_general": run_general,
    }  # fmt: skip
    varargs = next(
        (p for p in b.params if p.kind is reg.Size and not p.kwonly and p.default is _EMPTY), None
    )
    if (
        varargs is not None
        and b.params.index(varargs) != len([p for p in b.params if not p.kwonly]) - 1
    ):
        varargs = None
    with_out = row.out and not inplace and not operator and not row.view
    names = [p.name for p in b.params]
    lines = [f"def {name}({_signature(b, space, with_out, varargs)}):"]
    args = _tuple(names)
    if varargs is not None:
        lines.append(f"    {varargs.name} = _size_argument({varargs.name}, _kw, {varargs.name!r})")
    lines.append(
        f"    if _kw: return _rebind(_me, {args}, {names!r}, _kw{', out' if with_out else ''})"
    )
    if with_out:
        lines.append(f"    if out is not None: return _write_out(_me, {args}, {names!r}, out)")
    slow = "_run_inplace" if inplace else "_run_view" if row.view else "_run_general"
    if inplace and row.view:
        slow = "_run_view_inplace"
    fallback = f"{slow}(_me, _binding, {args})"
    if operator:
        fallback = f"_run_operator(_me, _binding, {args}, {slow})"
    if row.view and not inplace:
        first = names[0]
        space.update(_views=b.views, _fast_view=fast_view)
        lines += [
            "    _mode = _MODES.bits",
            f"    if _mode < 2 and {first}.__class__ in _plain and {first}._x is None:",
            f"        try: _known = _views[{_tuple([f'{first}._m', *names[1:]])}]",
            "        except (KeyError, TypeError): _known = None",
            f"        if _known is not None: return _fast_view(_known, {first}, _mode)",
            f"    return {fallback}",
        ]
    elif row.view or not _fast(b):
        lines.append(f"    return {fallback}")
    else:
        lines += _unrolled(b, space, fallback, inplace, operator)
    return "\n".join(lines), space


def _unrolled(
    b: Binding, space: dict[str, Any], fallback: str, inplace: bool, operator: bool
) -> list[str]:
    """The plain case: fresh result, or an unrecorded write to a tensor that owns its storage."""
    lines = ["    _mode = _MODES.bits", f"    if _mode > 1: return {fallback}"]
    hot, optional = [], []
    for p in b.dynamic:
        if (p.kind is reg.Array or p.scalar) and not p.optional:
            hot.append(p)
        else:
            optional.append(p)
            space[f"_default_{p.name}"] = p.default
            lines.append(f"    if {p.name} is not _default_{p.name}: return {fallback}")
    if b.static:
        # The class is part of the key, since 1 == 1.0 == True.
        key = _tuple([f"{p.name}, {p.name}.__class__" for p in b.static])
        lines += [
            f"    try: _call = _calls[{key}]",
            f"    except (KeyError, TypeError): _call = _make_call(*{_tuple([p.name for p in b.static])})",
        ]
    else:
        space["_call"] = b.call()
    for i, p in enumerate(hot):
        # Of an operator the first operand is a tensor; who calls it with a number is told so.
        number = _NUMBER.format(i=i, p=p.name) if p.scalar and not (operator and not i) else ""
        lines.append(_LEAF.format(i=i, p=p.name, number=number, fallback=fallback))
    where = {p.name: i for i, p in enumerate(hot)}
    keys = _tuple([f"_k{where[p.name]}" if p.name in where else "None" for p in b.dynamic])
    leaves = [p.name if p.name in where else "None" for p in b.dynamic]
    position = {p.name: i for i, p in enumerate(b.dynamic)}
    rs = [f"_r{i}" for i in range(len(hot))]
    if len(hot) == 1:
        mask = str(1 << position[hot[0].name])
    else:
        mask = " + ".join(f"({1 << position[p.name]} if _r{i} else 0)" for i, p in enumerate(hot))
    edges = "".join(_EDGE.format(i=i, p=p.name) for i, p in enumerate(hot))
    edge_tuple = _tuple([f"_e{where[p.name]}" if p.name in where else "None" for p in b.dynamic])
    if inplace:
        space["_inplace_call"] = inplace_call
        xs = ", ".join(f"_x{i}" for i in range(len(hot)))
        others = [(i, p.name) for i, p in enumerate(hot) if i]
        aliased = "".join(f" or (_c{i} in _plain and {name}._al is not None)" for i, name in others)
        anyr = " or ".join(rs)
        lines.append(
            _WRITE.format(
                keys=keys, xs=xs, me=hot[0].name, anyr=anyr, fallback=fallback, aliased=aliased
            )
        )
        return lines
    lines.append(
        _RUN.format(
            keys=keys, xs=", ".join(f"_x{i}" for i in range(len(hot))), leaves=_tuple(leaves),
            anyr=" or ".join(rs), mask=mask, edges=edges, edge_tuple=edge_tuple,
            leaf_list=", ".join(leaves),
        )
    )  # fmt: skip
    return lines


def run_general(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Anything that is not the plain case."""
    if foreign(args):
        return override(me, b, args)
    return apply(*b.general(args))


def run_view(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """A view of the first argument."""
    if foreign(args):
        return override(me, b, args)
    call, leaves = b.general(args)
    out = apply_view(call, leaves)
    b.remember(call, leaves, args)
    return out


def run_view_inplace(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Change how the first argument sees its storage."""
    if foreign(args):
        return override(me, b, args)
    call, leaves = b.general(args)
    return apply_view_inplace(b.inplace_view(call), leaves)


def run_inplace(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Write the result into the first argument."""
    if foreign(args):
        return override(me, b, args)
    if not isinstance(args[0], Tensor):
        raise bad_argument(b.public + "_", b.params[0], 1, args[0])
    return apply_inplace(*b.general(args))


def run_operator(me: Any, b: Binding, args: Sequence[Any], run: Any) -> Any:
    """An operator: operands of a foreign type are somebody else's business."""
    if not isinstance(args[0], Tensor):
        raise TypeError(
            f"descriptor '{me.__name__}' for 'torch._C.TensorBase' objects doesn't apply to a "
            f"'{type(args[0]).__name__}' object"
        )
    for a in args[1:2]:
        foreign = not isinstance(a, (Tensor, *NUMBERS, np.generic, list, tuple)) and a is not None
        if foreign and not hasattr(type(a), "__torch_function__"):
            return NotImplemented
        if isinstance(a, list | tuple | type(None)) and b.params[1].kind is reg.Array:
            return NotImplemented
    return run(me, b, args)


def size_argument(given: tuple[Any, ...], kw: dict[str, Any], name: str) -> Any:
    """A shape given as varargs, as one sequence, or by keyword."""
    if name in kw:
        return kw.pop(name)
    if len(given) == 1 and isinstance(given[0], list | tuple):
        return tuple(given[0])
    return given


def rebind(
    me: Any, args: Sequence[Any], names: Sequence[str], kw: dict[str, Any], out: Any = None
) -> Any:
    """Call again with numpy's argument names translated, or say which name is unknown."""
    named = dict(zip(names, args))
    for k, v in kw.items():
        known = _ALIASES.get(k)
        if known is None or known not in named:
            raise TypeError(f"{me.__name__}() got an unexpected keyword argument '{k}'")
        named[known] = v
    extra = {} if out is None else {"out": out}
    return me(**named, **extra)


def override(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Hand the first call that meets a foreign object over to its `__torch_function__`.

    Which arguments came by keyword is not known here; those with a default are passed so. After this
    call functions look at their arguments themselves.
    """
    required = [a for p, a in zip(b.params, args) if p.default is _EMPTY and not p.kwonly]
    optional = {
        p.name: a for p, a in zip(b.params, args)
        if not (p.default is _EMPTY and not p.kwonly) and a is not p.default and a is not MISSING
    }  # fmt: skip
    return handle(me, required, optional)


def write_out(me: Any, args: Sequence[Any], names: Sequence[str], out: Any) -> Any:
    """Compute, then write into `out`, resizing it as torch does."""
    targets = out if isinstance(out, tuple | list) else (out,)
    for t in targets:
        if not isinstance(t, Tensor):
            raise TypeError(
                f"{me.__name__}(): argument 'out' must be Tensor, not {type(t).__name__}"
            )
    tensors = [a for a in args if isinstance(a, Tensor)]
    tensors += [x for a in args if isinstance(a, list | tuple) for x in a if isinstance(x, Tensor)]
    name, named = _out_name(me), dict(zip(names, args))
    tracked = MODES.bits & 1 and name not in outputs.UNTRACKED
    if tracked and any(requires_grad_of(t) for t in [*tensors, *targets]):
        raise RuntimeError(errors.untracked_out(me.__name__))
    if name in outputs.COMPUTED_AS:
        if named.get("dtype") is None:
            named["dtype"] = targets[0]._m.dtype
        else:
            name += ".dtype"
    result = me(**named)
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(targets):
        raise TypeError(f"{me.__name__}(): expected {len(results)} out tensors, got {len(targets)}")
    for t, r in zip(targets, results):
        refused = outputs.refusal(name, len(results), r._m.dtype, t._m.dtype)
        if refused is not None:
            raise refused
        if name in outputs.APART:
            check_writable(t)
            if t._m.numel or name not in outputs.UNLESS_EMPTY:
                check_disjoint(t, tensors, True)
    with nullcontext() if tracked else no_grad():
        for t, r in zip(targets, results):
            _store(t, r, name in outputs.ROW_MAJOR)
    if name in outputs.SILENT:
        return None
    return (
        out
        if isinstance(out, Tensor)
        else type(result)(*out)
        if hasattr(result, "_fields")
        else tuple(out)
    )


def _out_name(me: Any) -> str:
    """A function's name with its namespace."""
    found = getattr(me, "out_name", None)
    if found is None:
        b = getattr(me, "binding", None)
        found = (
            f"{b.row.namespace}.{b.public}" if b is not None and b.row.namespace else me.__name__
        )
    return found


def store_out(target: Tensor, result: Tensor, name: str = "") -> None:
    """Write a result of the function of that name into an out= tensor."""
    refused = outputs.refusal(name, 1, result._m.dtype, target._m.dtype)
    if refused is not None:
        raise refused
    _store(target, result, False)


def _store(target: Tensor, result: Tensor, row_major: bool) -> None:
    if target._m.shape != result._m.shape:
        if target._m.numel:
            warnings.warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(target._m.shape)}, which does not match the required output shape "
                f"{list(result._m.shape)}. This behavior is deprecated, and in a future PyTorch release outputs "
                "will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by "
                "resizing it, inplace, to zero elements with t.resize_(0).",
                stacklevel=4,
            )
        resize(target, result._m.shape, None if row_major else result._m.strides)
    check_writable(target)
    METHODS["copy_"](target, result)


# --- compositions ---------------------------------------------------------------------------------


def composite(
    fn: Callable[..., Any] | None = None, /, *, name: str | None = None, method: bool = True,
    function: bool = True, namespace: str = "", aliases: Sequence[str] = (),
    inplace: Any = None, operator: str | None = None, out: bool = False,
) -> Any:  # fmt: skip
    """Register a Python function over tensors under torch's name and signature."""
    if fn is None:
        return lambda f: composite(
            f, name=name, method=method, function=function, namespace=namespace, aliases=aliases,
            inplace=inplace, operator=operator, out=out,
        )  # fmt: skip
    label = name or fn.__name__
    prefixed = namespace in ("fft", "linalg", "special")
    public = _with_conventions(fn, label, out, f"{namespace}_{label}" if prefixed else label)
    public.out_name = f"{namespace}.{label}" if namespace else label  # type: ignore[attr-defined]
    if function:
        space = NAMESPACES.setdefault(namespace, {})
        for n in (label, *aliases):
            _enter(space, n, public)
    if method and namespace in ("", "linalg") and (namespace == "" or method == "force"):
        for n in (label, *aliases):
            _enter(METHODS, n, public)
    if operator:
        OPERATORS[operator] = public
    if callable(inplace):
        for n in (label, *aliases):
            _enter(METHODS, n + "_", inplace)
    COMPOSITES[f"{namespace}.{label}" if namespace else label] = public
    return public


def _enter(space: dict[str, Any], name: str, fn: Any) -> None:
    if name in space:
        raise ValueError(f"{name!r} is declared twice")
    space[name] = fn


_ORDINARY = frozenset({Tensor, int, float, bool, complex, str, type(None), slice, dtypes.dtype})


def _parameter_names(fn: Any) -> tuple[Sequence[str], bool]:
    """Names of the parameters, and whether there is a ``**kwargs``; `inspect.signature` takes ten times as long."""
    code = inspect.unwrap(fn).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )


def _with_conventions(
    fn: Callable[..., Any], label: str, out: bool, event: str
) -> Callable[..., Any]:
    """Add numpy's argument names, overrides, and out= to a composition."""
    names, wild = _parameter_names(fn)
    star = (
        fn.__code__.co_varnames[fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount]
        if fn.__code__.co_flags & inspect.CO_VARARGS
        else None
    )
    takes_out = "out" in names
    first = names[0] if names and fn.__annotations__.get(names[0]) in ("Tensor", Tensor) else None
    alias = {k: v for k, v in _ALIASES.items() if v in names and k not in names}

    @functools.wraps(fn)
    def public(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not wild:
            for k in [k for k in kwargs if k in alias]:
                kwargs[alias[k]] = kwargs.pop(k)
            if star in kwargs:  # a size given by its name
                args = (*args, kwargs.pop(star))
            if out and not takes_out and "out" in kwargs:
                target = kwargs.pop("out")
                if target is not None:
                    return composite_out(public, args, kwargs, target)
        if (
            first is not None and args and args[0].__class__ not in PLAIN
            and not isinstance(args[0], Tensor) and not hasattr(type(args[0]), "__torch_function__")
        ):  # fmt: skip
            raise TypeError(
                f"{label}(): argument '{first}' (position 1) must be Tensor, not {type_name(args[0])}"
            )
        for a in args:
            if a.__class__ not in _ORDINARY and a.__class__ not in PLAIN and foreign((a,)):
                return handle(public, args, kwargs)
        if MODES.bits & OBSERVED and MODES.observers:
            given = (*args, *kwargs.values())
            return events.op(event, "composite", given, lambda: fn(*args, **kwargs))
        return fn(*args, **kwargs)

    public.__name__ = public.__qualname__ = label
    public.__module__ = "torchgrad_jax"
    public.takes_out = out and not takes_out  # type: ignore[attr-defined] - for the stubs
    return public


def composite_out(fn: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Call a composition and write its result into `out`."""
    names = [f"_{i}" for i in range(len(args))]

    def call(**named: Any) -> Any:
        return fn(*[named[n] for n in names], **kwargs)

    call.__name__, call.out_name = fn.__name__, fn.out_name  # type: ignore[attr-defined]
    return write_out(call, args, names, out)


# --- the whole surface ----------------------------------------------------------------------------


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
            for n in (label, *row.aliases):
                _enter(space, n, fn)
        if row.method and row.namespace == "":
            for n in (label, *row.aliases):
                _enter(METHODS, n, fn)
        if row.inplace:
            ip = generate(b, label + "_", inplace=True)
            setattr(ops, row.name + "_", ip)
            if row.namespace == "":
                if row.method:
                    for n in (label, *row.aliases):
                        _enter(METHODS, n + "_", ip)
            else:
                _enter(NAMESPACES.setdefault(row.namespace, {}), label + "_", ip)
        if row.operator:
            OPERATORS[row.operator] = generate(b, row.operator, operator=True)
        if row.reflected:
            OPERATORS[row.reflected] = generate(b, row.reflected, operator=True)
        if row.inplace_operator:
            OPERATORS[row.inplace_operator] = generate(
                b, row.inplace_operator, operator=True, inplace=True
            )


bind_table()
