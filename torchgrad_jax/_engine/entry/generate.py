"""Python functions with torch's signatures, written from the rows of the table.

The body of a function is the plain case of `record.apply`, unrolled: plain tensors, recording on or
off, nothing watching. Everything else goes to the general path.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.arrays import placement, shapes
from ..._core.errors import warn
from ..._core.errors.messages import LinAlgError
from ..._core.state import DUAL, GRAD, IN_RUN, MODES, TRANSFORM, WRITE_LOCK, next_sequence_nr
from ..._ops import registry as reg
from ..graph import record
from ..graph.grad_plan import grad_plan
from ..graph.history import edge_of, requires_grad_of
from ..graph.inplace import apply_inplace, inplace_call
from ..graph.record import COMMON, NUMBERS, PLAIN, PLAIN_MODES, apply
from ..graph.views import apply_view, apply_view_inplace, fast_view
from ..memory.strided import read
from ..memory.tensor import Extras, Storage, Tensor, wrap_beside
from ..modes.belonging import tensor_of_jax
from .arguments import ALIASES, EMPTY, MISSING, bad_argument, size_argument, tensor_of
from .binding import Binding, as_key
from .out import without_unsaid, write_out
from .overrides import foreign, handle
from .parser import NUMBERS_AS_TENSORS, raise_if_any, torch_complaint


def unrollable(b: Binding) -> bool:
    """Whether the plain case of this row can be unrolled."""
    row = b.row
    required = [p for p in b.dynamic if (p.kind is reg.Array or p.scalar) and not p.optional]
    others = [p for p in b.dynamic if p not in required]
    return (
        not b.lists
        and not row.view
        and row.check is None
        and row.returns is None
        and len(required) in (1, 2, 3)
        and all(p.default is None or (p.kind is reg.Scalar and p.default is not EMPTY) for p in others)
    )


# Names in generated code start with "_", so that no parameter of torch's can be shadowed.
_LEAF = """
    _c{i} = {p}.__class__
    if _c{i} in _plain and {p}._x.__class__ is not _Extras:
        _k{i} = {p}._m
        if {p}._al is None:
            _x{i} = {p}._st.array
            _r{i} = {p}._rg
        else:
            _x{i} = _read({p})
            _r{i} = {p}._rg
            if not _r{i} and _requires({p}): return {fallback}
{number}    else:
        return {fallback}
"""
_NUMBER = """    elif _c{i} in _numbers:
        _k{i} = _c{i}
        _x{i} = {p}
        _r{i} = False
"""
_RUN = """
    try: _plan = _call.plans[{keys}]
    except KeyError: _plan = None
    if _plan is None:{alone}
        try: _plan = _new_plan(_call, {keys}, {leaves})
        except Exception: _raise_complaint(_me, _binding, {args}); raise
    if not _plan.single:
        return _general(_call, {leaves})
    _a = _plan.fwd({xs})
    _t = _new(_Tensor)
    _s = _new(_Storage)
    _s.array = _a
    _s.meta = _t._m = _plan.out
    _s.version = _s.stamp = _s.pointer = _t._onr = 0
    _s.born = 0 if _mode < 2 else _MODES.birth
    _t._st = _t._vc = _s
    _t._al = _t._g = _t._acc = _t._x = None
    if _mode & 1 and ({anyr}) and _plan.any_diff:
        _mask = {mask}
        _gp = _plan.grads.get(_mask)
        if _gp is None:
            _gp = _grad_plan(_plan, _mask)
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
    if {me}._al is not None{aliased} or (_mode and ({anyr})) or _many:
        try: return _apply_inplace(_call, {leaves})
        except Exception: _raise_complaint(_me, _binding, {args}); raise
    _write = _call.inplace or _inplace_call(_call)
    try: _plan = _write.plans[{keys}]
    except KeyError: _plan = None
    if _plan is None:
        if _overlaps({me}._m.shape, {me}._m.strides): return {fallback}
        _plan = _write.plan({keys})
    with _write_lock:
        _s = {me}._st
        if _s.array is _x0:
            _s.array = _plan.fwd({xs})
            _s.stamp += 1
            {me}._vc.version += 1
            return {me}
    return {fallback}
"""
_EDGE = """
        if _r{i}:
            _e{i} = ({p}._fn, {p}._onr) if {p}._al is None and {p}._fn is not None else _edge_of({p})
        else:
            _e{i} = None"""


UNSAID: Any = type("unsaid", (), {"__slots__": (), "__repr__": lambda self: "<left out>"})()
"""Default of arguments that may be left out, but not given as None."""


def spreading(b: Binding) -> reg.Param | None:
    """The size that may come as so many arguments: one that comes last."""
    plain = [p for p in b.params if not p.kwonly]
    last = next((p for p in plain if p.kind is reg.Size and p.default is EMPTY), None)
    return last if last is not None and last is plain[-1] else None


def _signature(b: Binding, space: dict[str, Any], out: bool, varargs: reg.Param | None, more: bool) -> str:
    parts, star, rest = [], False, "*_more" if more else "*"
    space.update(_missing=MISSING, _unsaid=UNSAID)
    for p in b.params:
        if p is varargs:
            parts.append(f"*{p.name}")
            star = True
            continue
        if p.kwonly and not star:
            parts.append(rest)
            star = True
        if p.default is EMPTY and not (varargs and star):
            parts.append(f"{p.name}=_missing")
        elif p.name in b.row.numbers.left_out:
            parts.append(f"{p.name}=_unsaid")
        else:
            space[f"_default_{p.name}"] = None if p.default is EMPTY else p.default
            parts.append(f"{p.name}=_default_{p.name}")
    if not star and (out or more):
        parts.append(rest)
    if out:
        parts.append("out=None")
    parts.append("**_kw")
    return ", ".join(parts)


def _tuple(items: Sequence[str]) -> str:
    return "(" + "".join(f"{i}, " for i in items) + ")"


def generate(
    b: Binding,
    name: str,
    *,
    inplace: bool = False,
    operator: bool = False,
    spread: bool = True,
    where: str | None = None,
) -> Callable[..., Any]:
    """The Python function for a row: ``name(...)``, ``name_(...)`` or an operator method.

    With `spread`, a size that comes last may come as so many arguments, which methods allow. `where` is the
    full name by which torch's overloads are known.

    Its code is written when it is first called: writing all of them would double the time of an import.
    """
    space: dict[str, Any] = {"_first_call": functools.partial(_first_call, b, inplace, operator, spread)}
    fn = types.FunctionType(_unwritten.__code__, space, name)
    space["_me"] = fn
    fn.__qualname__ = name
    fn.__module__ = "torchgrad_jax"
    fn.__doc__ = b.row.doc
    fn.binding, fn.spread, fn.where = b, spreading(b) if spread else None, where
    return fn


def _unwritten(*args: Any, **kwargs: Any) -> Any:
    return _first_call(_me, args, kwargs)  # type: ignore[name-defined]  # noqa: F821 - in the function's own globals


def _first_call(b: Binding, inplace: bool, operator: bool, spread: bool, fn: Any, args: Any, kwargs: Any) -> Any:
    """Give a function its code, in place, so that whoever holds it already has the fast one."""
    name = fn.__name__
    source, space = _source(b, name, inplace, operator, spread)
    # Named after this file, so that tracebacks can tell generated code from a user's.
    exec(compile(source, f"{__file__}:{name}", "exec"), space)
    made = space.pop(name)
    for each in fn.__globals__.get("_twins", (fn,)):
        each.__globals__.update(space)
        each.__defaults__, each.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        each.__code__ = made.__code__
    return fn(*args, **kwargs)


def _source(b: Binding, name: str, inplace: bool, operator: bool, spread: bool) -> tuple[str, dict[str, Any]]:
    """The text of a function and what it refers to."""
    row = b.row
    space: dict[str, Any] = {
        "_new": object.__new__, "_Tensor": Tensor, "_Storage": Storage, "_Extras": Extras, "_plain": PLAIN,
        "_numbers": frozenset(NUMBERS), "_read": read, "_requires": requires_grad_of,
        "_edge_of": edge_of, "_MODES": MODES, "_next_seq": next_sequence_nr, "_calls": b.raw,
        "_made": made, "_general": apply, "_taped": record.apply_taped, "_binding": b,
        "_size_argument": size_argument, "_rebind": rebind, "_new_plan": record.new_plan, "_grad_plan": grad_plan,
        "_write_out": write_out, "_raise_complaint": raise_complaint, "_run_operator": run_operator,
        "_run_inplace": run_inplace, "_run_view_inplace": run_view_inplace, "_run_view": run_view,
        "_run_general": run_general, "_refuse_none": refuse_none, "_as_key": as_key,
    }  # fmt: skip
    varargs = spreading(b) if spread else None
    with_out = row.out and not inplace and not operator and not row.view
    names = [p.name for p in b.params]
    more = varargs is None and not operator
    lines = [f"def {name}({_signature(b, space, with_out, varargs, more)}):"]
    args = _tuple(names)
    if varargs is not None:
        lines.append(f"    {varargs.name} = _size_argument({varargs.name}, _kw, {varargs.name!r})")
    for name in row.numbers.left_out:
        lines += [
            f"    if {name} is _unsaid: {name} = None",
            f"    elif {name} is None: _refuse_none(_me, _binding, {args}, {name!r})",
        ]
    spare = f"_more, {'out' if with_out else None}" if more else "(), None"
    lines.append(f"    if _kw{' or _more' if more else ''}: return _rebind(_me, _binding, {args}, _kw, {spare})")
    if with_out:
        lines += [
            "    if out is not None:",
            f"        try: return _write_out(_me, {args}, {names!r}, out)",
            f"        except Exception: _raise_complaint(_me, _binding, {args}, out); raise",
        ]
    slow = "_run_inplace" if inplace else "_run_view" if row.view else "_run_general"
    if inplace and row.view:
        slow = "_run_view_inplace"
    fallback = f"{slow}(_me, _binding, {args})"
    if operator:
        fallback = f"_run_operator(_me, _binding, {args}, {slow})"
    if row.view and not inplace:
        first = names[0]
        # The class is part of the key, since 1 == True.
        rest = [x for n in names[1:] for x in (n, f"{n}.__class__")]
        space.update(_views=b.views, _fast_view=fast_view)
        lines += [
            "    _mode = _MODES.bits",
            f"    if not _mode & {~(GRAD | TRANSFORM)} and {first}.__class__ in _plain "
            f"and {first}._x.__class__ is not _Extras:",
            f"        try: _known = _views[{_tuple([f'{first}._m', *rest])}]",
            "        except (KeyError, TypeError): pass",
            f"        else: return _fast_view(_known, {first}, _mode & 1)",
            f"    return {fallback}",
        ]
    elif row.view:
        lines.append(f"    return {fallback}")
    elif not unrollable(b):
        lines += ["    _mode = _MODES.bits", *_known_lines(b, space, fallback, inplace)]
    else:
        lines += _unrolled(b, space, fallback, inplace, operator)
    return "\n".join(lines), space


def _unrolled(b: Binding, space: dict[str, Any], fallback: str, inplace: bool, operator: bool) -> list[str]:
    """The plain case: fresh result, or an unrecorded write to a tensor that owns its storage."""
    lines = ["    _mode = _MODES.bits"]
    tensors = [p for p in b.dynamic if (p.kind is reg.Array or p.scalar) and not p.optional]
    others = [p for p in b.dynamic if p not in tensors]
    space.update({f"_default_{p.name}": p.default for p in others})
    rare = "_mode > 1" if inplace else f"(_mode > 1 and _mode & {~COMMON})"
    given = " or ".join([rare, *[f"{p.name} is not _default_{p.name}" for p in others]])
    lines += [f"    if {given}:", *["    " + line for line in _known_lines(b, space, fallback, inplace)]]
    lines += _call_lines(b, space)
    leaves = [p.name if p in tensors else "None" for p in b.dynamic]
    if not inplace:
        lines += [
            f"    if _mode > 1 and _mode & {IN_RUN | DUAL}:",
            f"        _t = _taped(_call, {_tuple(leaves)}, _mode)",
            f"        return {fallback} if _t is None else _t",
        ]
    for i, p in enumerate(tensors):
        # Of an operator the first operand is a tensor; who calls it with a number is told so.
        number = _NUMBER.format(i=i, p=p.name) if p.scalar and not (operator and not i) else ""
        lines.append(_LEAF.format(i=i, p=p.name, number=number, fallback=fallback))
        if b.row.kernel.conjugated is not None:
            lines.append(f"    if {p.name}._al is not None and {p.name}._al.conj: return {fallback}")
    run = _write_lines if inplace else _run_lines
    return [*lines, run(b, space, tensors, leaves, fallback)]


def _call_lines(b: Binding, space: dict[str, Any]) -> list[str]:
    """Look the call up by its static arguments, if there are any."""
    if not b.static:
        space["_call"] = b.call()
        return []
    key = _tuple([_key_of(p) for p in b.static])
    return [
        f"    try: _call = _calls[{key}]",
        f"    except (KeyError, TypeError): _call = _made(_me, _binding, {_tuple([p.name for p in b.params])}, "
        f"{_tuple([p.name for p in b.static])})",
    ]


def _key_of(p: reg.Param) -> str:
    """What stands for a static argument in a key: its class, too, since 1 == True."""
    may_be_float = p.kind is float or p.kind is reg.Static
    value = f"({p.name} or _as_key({p.name})) if {p.name}.__class__ is float else {p.name}" if may_be_float else p.name
    return f"{value}, {p.name}.__class__"


def _known_lines(b: Binding, space: dict[str, Any], fallback: str, inplace: bool) -> list[str]:
    """Find the call by its arguments as they came, and run it; what has to be looked at closer is `fallback`'s."""
    space.update(_raw_call=b.find, _sequences=(list, tuple), _known=record.apply_known, _apply_inplace=apply_inplace)
    lines, leaves, counts, guards = [], "", "", []
    for p in b.dynamic:
        leaf = p.name
        if p.kind in (reg.Arrays, reg.OptArrays):
            lines.append(f"    if {p.name}.__class__ not in _sequences: return {fallback}")
            guards.append(f"all([_x.__class__ in _plain for _x in {p.name}])")
            leaf, counts = f"*{p.name}", f"{counts}len({p.name}), "
        elif p.kind in (reg.Scalar, reg.TracedInt):
            lines += _number_lines(p, space, fallback)
            leaf = f"_l_{p.name}"
        else:
            or_number = f" or {p.name}.__class__ in _numbers" if p.scalar else ""
            or_none = f" or {p.name} is None" if p.optional else ""
            guards.append(f"({p.name}.__class__ in _plain{or_number}{or_none})")
        leaves += f"{leaf}, "
    arrays = [p for p in b.dynamic if p.kind not in _NO_ARRAY]
    if arrays and all(p.scalar for p in arrays):  # numbers alone are no call of this row
        guards.append("(" + " or ".join(f"{p.name}.__class__ in _plain" for p in arrays) + ")")
    statics = "".join(f"{p.name}, " for p in b.static)
    key = "".join(f"{_key_of(p)}, " for p in b.static) + counts
    args = _tuple([p.name for p in b.params])
    run = "_apply_inplace" if inplace else "_general"
    if not inplace:
        run_known = [
            f"    if _found is not None and not _mode & {~PLAIN_MODES}:",
            f"        _u = _known(_found, ({leaves}), _mode)",
            "        if _u is not None: return _u",
        ]
    else:
        run_known = []
    return [
        *lines,
        f"    try: _found = _calls[({key})]",
        f"    except KeyError: return {fallback}",
        f"    except TypeError: _found = _raw_call(({statics}), ({counts}))",
        *run_known,
        f"    if _found is None or not ({' and '.join(guards)}): return {fallback}",
        f"    try: return {run}(_found, ({leaves}))",
        f"    except Exception: _raise_complaint(_me, _binding, {args}); raise",
    ]


_NO_ARRAY = (reg.Arrays, reg.OptArrays, reg.Scalar, reg.TracedInt)


def _number_lines(p: reg.Param, space: dict[str, Any], fallback: str) -> list[str]:
    """The leaf for a number: None where it is the default."""
    kinds = "_numbers" if p.kind is reg.Scalar else "(int,)"
    given = [f"if {p.name}.__class__ in {kinds}: _l_{p.name} = {p.name}", f"else: return {fallback}"]
    if p.default is not EMPTY:
        default = f"_default_{p.name}"
        space[default] = p.default
        same = f"{p.name}.__class__ is {default}.__class__ and {p.name} == {default}"
        given = [f"if {p.name} is {default} or ({same}): _l_{p.name} = None", f"el{given[0]}", given[1]]
    return [f"    {line}" for line in given]


def _numbered(b: Binding, tensors: Sequence[reg.Param], letter: str) -> str:
    """The tuple of what the code found out of each leaf, under names such as ``_k0``."""
    number = {p.name: i for i, p in enumerate(tensors)}
    return _tuple([f"_{letter}{number[p.name]}" if p.name in number else "None" for p in b.dynamic])


def _any_requires(tensors: Sequence[reg.Param]) -> str:
    return " or ".join(f"_r{i}" for i in range(len(tensors)))


def _write_lines(
    b: Binding, space: dict[str, Any], tensors: Sequence[reg.Param], leaves: Sequence[str], fallback: str
) -> str:
    """Write to the first tensor."""
    space.update(
        _inplace_call=inplace_call,
        _apply_inplace=apply_inplace,
        _overlaps=shapes.has_overlap,
        _write_lock=WRITE_LOCK,
        _many=placement.MANY,
    )
    others = [(i, p.name) for i, p in enumerate(tensors) if i]
    aliased = "".join(f" or (_c{i} in _plain and {name}._al is not None)" for i, name in others)
    return _WRITE.format(
        keys=_numbered(b, tensors, "k"),
        xs=", ".join(f"_x{i}" for i in range(len(tensors))),
        me=tensors[0].name,
        anyr=_any_requires(tensors),
        fallback=fallback,
        aliased=aliased,
        leaves=_tuple(leaves),
        args=_tuple([p.name for p in b.params]),
    )


def _run_lines(
    b: Binding, space: dict[str, Any], tensors: Sequence[reg.Param], leaves: Sequence[str], fallback: str
) -> str:
    """Run the kernel, wrap its result, and record a node if an argument requires a gradient."""
    bit = {p.name: 1 << i for i, p in enumerate(b.dynamic)}
    if len(tensors) == 1:
        mask = str(bit[tensors[0].name])
    else:
        mask = " + ".join(f"({bit[p.name]} if _r{i} else 0)" for i, p in enumerate(tensors))
    alone = ""
    if all(p.scalar for p in tensors):  # the call may have numbers alone, and no tensor
        numbers = " and ".join(f"_c{i} in _numbers" for i in range(len(tensors)))
        alone = f"\n        if {numbers}: return {fallback}"
    return _RUN.format(
        keys=_numbered(b, tensors, "k"),
        xs=", ".join(f"_x{i}" for i in range(len(tensors))),
        leaves=_tuple(leaves),
        anyr=_any_requires(tensors),
        mask=mask,
        edges="".join(_EDGE.format(i=i, p=p.name) for i, p in enumerate(tensors)),
        edge_tuple=_numbered(b, tensors, "e"),
        leaf_list=", ".join(leaves),
        alone=alone,
        args=_tuple([p.name for p in b.params]),
    )


def _older(names: Sequence[str], n: int, others: Sequence[str], method: bool) -> list[str]:
    """The arguments of an older overload with `n` numbers: one called beta stands before the input of a function."""
    at = 1 if names[0] == "beta" and not method else 0
    return [*names[:at], others[0], *names[at:n], *others[1:]]


def _deprecated(me: Any, b: Binding, slots: Sequence[str], others: Sequence[str]) -> str:
    """The warning about an older overload, and the present one, as torch writes them."""
    numbers = b.row.numbers.first
    method, out = _is_method(me), [] if _is_method(me) else ["Tensor out = None"]
    older = [f"{'Number' if s in numbers else 'Tensor'} {s}" for s in slots[method:]]
    newer = [f"Tensor {s}" for s in others[method:]]
    newer += ["*", *(f"Number {s} = 1" for s in numbers), *out]
    return (
        f"This overload of {me.__name__} is deprecated:\n"
        f"\t{me.__name__}({', '.join([*older, *(['*', *out] if out else [])])})\n"
        f"Consider using one of the following signatures instead:\n\t{me.__name__}({', '.join(newer)})"
    )


def _is_method(me: Any) -> bool:
    return bool(me.where) and me.where.startswith("Tensor.")


def numbers_first(me: Any, b: Binding, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """torch's older overloads, which have their numbers among the positional arguments, or NotImplemented."""
    names, others = b.row.numbers.first, [p.name for p in b.params if not p.kwonly]
    n = len(args) - len(others)
    if not 0 < n <= len(names):
        return NotImplemented
    named = {k: v for k, v in named.items() if v is not None}
    alone = me.__name__ in NUMBERS_AS_TENSORS
    if me.__name__.removesuffix("_") in b.row.aliases:
        # An overload for numbers, which is no older one.
        if not alone or [a.__class__ in NUMBERS for a in args[1:]] != [True, True]:
            return NotImplemented
        return me(*args[:2], **named, alpha=args[2])
    slots = _older(names, n, others, _is_method(me))
    for slot, a in zip(slots, args):
        number = a.__class__ in NUMBERS
        fits = number if slot in names else alone or not number
        if not fits or not (number or isinstance(a, Tensor)):
            return NotImplemented
    warn.once(_deprecated(me, b, slots, others))
    named.update(zip(slots, args))
    return me(*[named.pop(name) for name in others], **named)


def run_general(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Anything that is not the plain case."""
    if foreign(args):
        return override(me, b, args)
    if args[0].__class__ in NUMBERS and me.__name__ in NUMBERS_AS_TENSORS and not _is_method(me):
        args = (tensor_of(args[0]), *args[1:]) if args[1].__class__ in NUMBERS else args
    try:
        return apply(*b.general(args))
    except Exception:
        raise_complaint(me, b, args)
        raise


def run_view(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """A view of the first argument."""
    if foreign(args):
        return override(me, b, args)
    try:
        call, leaves = b.general(args)
        out = apply_view(call, leaves)
    except Exception:
        raise_complaint(me, b, args)
        raise
    b.remember(call, leaves, args)
    return out


def run_view_inplace(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Change how the first argument sees its storage."""
    if foreign(args):
        return override(me, b, args)
    try:
        call, leaves = b.general(args)
        return apply_view_inplace(b.inplace_view(call), leaves)
    except Exception:
        raise_complaint(me, b, args)
        raise


def run_inplace(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Write the result into the first argument."""
    if foreign(args):
        return override(me, b, args)
    try:
        if not isinstance(args[0], Tensor):
            raise bad_argument(b.public + "_", b.params[0], 1, args[0])
        return apply_inplace(*b.general(args))
    except Exception:
        raise_complaint(me, b, args)
        raise


def made(me: Any, b: Binding, args: Sequence[Any], statics: Sequence[Any]) -> Any:
    """The call for static arguments that have not been seen."""
    try:
        return b.call(*statics)
    except Exception:
        raise_complaint(me, b, args)
        raise


def raise_complaint(me: Any, b: Binding, args: Sequence[Any], out: Any = None) -> None:
    """Raise what torch says of the arguments, if it does: an error that is not about them stays what it is."""
    if isinstance(sys.exc_info()[1], LinAlgError):  # the error is about the values of a matrix
        return
    positional, named = given(me, b, args)
    if out is not None:
        named["out"] = out
    raise_if_any(_complaint_about(me, positional, named))


def refuse_none(me: Any, b: Binding, args: Sequence[Any], name: str) -> None:
    """Raise what torch says where None is given for something that may only be left out."""
    positional, named = given(me, b, args)
    at = next(i for i, p in enumerate(b.params) if p.name == name)
    if b.params[at].kwonly:
        named[name] = None
    elif not any(name in (n, ALIASES.get(n)) for n in named):
        positional = [*positional, *([None] if len(positional) <= at else [])]
    raise _complaint_about(me, positional, named) or bad_argument(b.public, b.params[at], at + 1, None)


def given(me: Any, b: Binding, args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments by position and by name, as far as that can be known: a function is not told which were named."""
    named, positional = {}, []
    there = [value is not MISSING and value is not p.default for p, value in zip(b.params, args)]
    last = max((i for i, p in enumerate(b.params) if there[i] and not p.kwonly), default=-1)
    by_name = False
    for i, (p, value) in enumerate(zip(b.params, args)):
        by_name |= p.kwonly or value is MISSING  # arguments after a missing one came by name
        if by_name and there[i]:
            named[p.name] = value
        elif not by_name and i <= last:
            spread = p is me.spread and _is_method(me) and isinstance(value, list | tuple) and value
            positional += value if spread else [value]
    return positional, named


def _complaint_about(me: Any, positional: Sequence[Any], named: dict[str, Any]) -> TypeError | None:
    where = getattr(me, "where", None)
    return where and torch_complaint(where, me.__name__, positional, named)


def _default(b: Binding, name: str | None) -> Any:
    return next((p.default for p in b.params if p.name == name), None)


def _too_many(me: Any, takes: Sequence[str], args: Sequence[Any]) -> TypeError:
    plural = "" if len(takes) == 1 else "s"
    return TypeError(f"{me.__name__}() takes {len(takes)} positional argument{plural} but {len(args)} were given")


def run_operator(me: Any, b: Binding, args: Sequence[Any], run: Any) -> Any:
    """An operator: operands of a foreign type are somebody else's business."""
    if not isinstance(args[0], Tensor):
        raise TypeError(
            f"descriptor '{me.__name__}' for 'torch._C.TensorBase' objects doesn't apply to a "
            f"'{type(args[0]).__name__}' object"
        )
    for a in args[1:2]:
        if isinstance(a, jax.Array):
            return run(me, b, (args[0], tensor_of_jax(a, args[0]), *args[2:]))
        if isinstance(a, np.ndarray) and me.__name__ == "__eq__":  # Python would compare identities
            return run(me, b, (args[0], wrap_beside(jnp.asarray(a), args[0]._m.device), *args[2:]))
        foreign = not isinstance(a, (Tensor, *NUMBERS, np.generic, list, tuple)) and a is not None
        if foreign and not hasattr(type(a), "__torch_function__"):
            return NotImplemented
        if isinstance(a, list | tuple | type(None)) and b.params[1].kind is reg.Array:
            return NotImplemented
    return run(me, b, args)


def rebind(me: Any, b: Binding, args: Sequence[Any], kw: dict[str, Any], more: tuple[Any, ...], out: Any) -> Any:
    """Calls that the parameters do not take: with numpy's argument names, or with too many arguments."""
    named = dict(zip([p.name for p in b.params], args))
    if more and b.row.numbers.first and not kw:
        numbers = {p.name: named[p.name] for p in b.params if p.kwonly}
        first = tuple(named[p.name] for p in b.params if not p.kwonly)
        result = numbers_first(me, b, first + more, {**numbers, "out": out})
        if result is not NotImplemented:
            return result
    said = set()
    for k, v in kw.items():
        known = ALIASES.get(k)
        taken = known in named and named[known] is not MISSING
        if known not in named or more or (taken and named[known] is not _default(b, known)):
            message = f"{me.__name__}() got an unexpected keyword argument '{k}'"
            raise _complaint(me, b, args, kw, more, out) or TypeError(message)
        named[known] = v
        said.add(known)
    if more:
        takes = [p.name for p in b.params if not p.kwonly]
        raise _complaint(me, b, args, kw, more, out) or _too_many(me, takes, (*takes, *more))
    if not said.intersection(b.row.numbers.left_out):
        named = without_unsaid(me, named)
    return me(**named, **({} if out is None else {"out": out}))


def _complaint(
    me: Any, b: Binding, args: Sequence[Any], kw: dict[str, Any], more: tuple[Any, ...], out: Any
) -> TypeError | None:
    """What torch says of all of the arguments."""
    positional, named = given(me, b, args)
    named |= kw if out is None else {**kw, "out": out}
    if more:
        positional = [*[a for p, a in zip(b.params, args) if not p.kwonly], *more]
    return _complaint_about(me, positional, named)


def override(me: Any, b: Binding, args: Sequence[Any]) -> Any:
    """Hand the first call that meets a foreign object over to its `__torch_function__`.

    Which arguments came by keyword is not known here; those with a default are passed so. After this
    call functions look at their arguments themselves.
    """
    required = [a for p, a in zip(b.params, args) if p.default is EMPTY and not p.kwonly]
    optional = {
        p.name: a
        for p, a in zip(b.params, args)
        if not (p.default is EMPTY and not p.kwonly) and a is not p.default and a is not MISSING
    }
    return handle(me, required, optional)
