"""Python functions with torch's signatures, written from the rows of the table.

The body of a function is the plain case of `record.apply`, unrolled: plain tensors, recording on or
off, nothing watching. Everything else goes to the general path.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.arrays import placement, shapes
from ..._core.state import (
    DUAL,
    FUNCTION_MODE,
    GRAD,
    IN_RUN,
    INFERENCE,
    MODES,
    PACKING,
    TRANSFORM,
    UNDER_JAX,
    WRITE_LOCK,
)
from ..._core.written_code import compiled
from ..._ops import registry as reg
from ..graph import record
from ..graph.history import requires_grad_of
from ..graph.inplace import inplace_call, write_known
from ..graph.record import COMMON, NUMBERS, PLAIN, PLAIN_MODES
from ..graph.views import VIEW_MODES, fast_view
from ..memory.strided import read
from ..memory.tensor import Extras, Storage
from ..surface import PREFIXED
from . import compared
from .arguments import EMPTY, MISSING, NUMPY_NAMES, size_argument
from .binding import Binding, as_key
from .enter import NO_NAMES, enter
from .finish import finish
from .rows import RowForm

_ARRAY: Any = Storage.array


def unrollable(b: Binding, inplace: bool) -> bool:
    """Return whether the plain case of this row can be unrolled."""
    row = b.row
    required = _required(b)
    if inplace:
        others = [p for p in b.dynamic if p not in required]
        plain = row.check is None and row.returns is None and not any(p.default is EMPTY for p in others)
        return plain and not b.lists and len(required) in (1, 2, 3)
    absent = all(p.default in (EMPTY, None) for p in b.dynamic if _may_be_tensor(p) and p not in required)
    return not b.lists and not row.kernel.writes and bool(required) and absent and len(b.dynamic) <= _MANY_LEAVES


_MANY_LEAVES = 6


def _required(b: Binding) -> list[reg.Param]:
    """The parameters that are tensors, or numbers in their place, in every call."""
    return [p for p in b.dynamic if _may_be_tensor(p) and not p.optional]


# Names in generated code start with "_", so that no parameter of torch's can be shadowed.
_LEAF = """
    _c{i} = {p}.__class__
    if {absent}_c{i} in _plain and {p}._x.__class__ is not _Extras:
        _k{i} = {p}._m
        if {p}._al is None:
            _x{i} = {p}._st.array
            _r{i} = {p}._rg
        else:
            _x{i} = _read({p})
            _r{i} = {p}._rg
            if _mode & 1 and not _r{i} and _requires({p}): return {fallback}
{number}    else:
        return {fallback}
"""
_ABSENT = """{p} is None:
        _k{i} = _x{i} = None
        _r{i} = False
    elif """
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
        except Exception as _error: _me.form.explain({args}, _no_names, _error); raise{compared}{check}
    try: _a = {fwd}
    except ValueError as _error: _me.form.explain({args}, _no_names, _error); raise
    return _finish(_plan, _a, _mode, {given})
"""
_WRITE = """{compared}
    if (_mode & 1 and ({anyr})){aliased} or _many:
        try: _u = _known(_call, {leaves}, _mode)
        except Exception as _error: _me.form.explain({args}, _no_names, _error); raise
        return {fallback} if _u is None else _u
    _write = _call.inplace or _inplace_call(_call)
    try: _plan = _write.plans[{keys}]
    except KeyError: _plan = None
    if _plan is None:
        if _overlaps({me}._m.shape, {me}._m.strides): return {fallback}
        try: _plan = _write.plan({keys})
        except Exception as _error: _me.form.explain({args}, _no_names, _error); raise
    with _write_lock:
        _s = {me}._st
        if (_held(_s) if _s.shared else _s.array) is _x0:
            _s.array = _plan.fwd({xs})
            _s.stamp += 1
            {me}._vc.version += 1
            return {me}
    return {fallback}
"""


UNSAID: Any = type("unsaid", (), {"__slots__": (), "__repr__": lambda self: "<left out>"})()
"""Default of arguments that may be left out, but not given as None."""


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
    overridable: bool = True,
) -> Callable[..., Any]:
    """The Python function for a row: ``name(...)``, ``name_(...)`` or an operator method.

    With `spread`, a size that comes last may come as so many arguments, which methods allow. `where` is the
    full name by which torch's overloads are known; what the engine alone calls is not `overridable`.

    Its code is written when it is first called: writing all of them would double the time of an import.
    """
    fn = types.FunctionType(_unwritten.__code__, space := {"_first_call": _first_call}, name)
    space["_me"] = fn
    fn.__qualname__ = name
    fn.__module__ = "torchgrad_jax"
    fn.__doc__ = b.row.doc
    fn.__wrapped__ = b.row.impl  # what `inspect.signature`, `inspect.getsource` and `help` show
    said = f"{b.row.namespace}_{name}" if b.row.namespace in PREFIXED else name
    fn.binding, fn.form = b, RowForm(b, said, inplace, operator, spread, where, overridable)
    return fn


def _unwritten(*args: Any, **kwargs: Any) -> Any:
    return _first_call(_me, args, kwargs)  # type: ignore[name-defined]  # noqa: F821 - in the function's own globals


def _first_call(fn: Any, args: Any, kwargs: Any) -> Any:
    """Give a function its code, in place, so that existing references become fast too."""
    written, form = fn.binding.written, fn.form
    key = (form.said, form.inplace, form.operator, form.spread is None)
    if key not in written:
        source, space = _source(form, form.said)
        # Named after this file, so that tracebacks can tell generated code from a user's.
        file = f"{__file__}{'' if form.spread is None else ':of sizes'}"
        written[key] = compiled(source, space, form.said, file, shown=True)
    made = written[key]
    fn.__globals__.update(made.__globals__)
    fn.__defaults__, fn.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
    fn.__code__ = made.__code__
    return fn(*args, **kwargs)


def _source(form: RowForm, name: str) -> tuple[str, dict[str, Any]]:
    """The text of a function and what it refers to."""
    b, row, varargs = form.binding, form.binding.row, form.spread
    space: dict[str, Any] = {
        "_Extras": Extras, "_plain": PLAIN, "_numbers": frozenset(NUMBERS), "_read": read,
        "_requires": requires_grad_of, "_MODES": MODES, "_calls": b.raw, "_taped": record.apply_taped,
        "_size_argument": size_argument, "_new_plan": record.new_plan, "_check": record.check_values,
        "_enter": enter, "_no_names": NO_NAMES, "_as_key": as_key, "_compare": compared.compare,
        "_compare_view": compared.compare_view,
    }  # fmt: skip
    with_out = row.out and not form.inplace and not form.operator and not row.view
    more = varargs is None and not form.operator
    lines = [f"def {name}({_signature(b, space, with_out, varargs, more)}):"]
    args = _arguments(b)
    if varargs is not None:
        lines.append(f"    {varargs.name} = _size_argument({varargs.name}, _kw, {varargs.name!r})")
    lines += _numpy_names(b, varargs)
    for left_out in row.numbers.left_out:
        lines += [
            f"    if {left_out} is _unsaid: {left_out} = None",
            f"    elif {left_out} is None: return _enter(_me, {args}, {{{left_out!r}: None}})",
        ]
    given = f"{args}, _kw, {'_more' if more else '()'}, {'out' if with_out else None}"
    rare = ["_kw", *(["_more"] if more else []), *(["out is not None"] if with_out else [])]
    lines += [f"    if {' or '.join(rare)}: return _enter(_me, {given})", "    _mode = _MODES.bits"]
    fallback = f"_enter(_me, {args})"
    if row.view:
        lines += [*([] if form.inplace else _known_view(b, space)), f"    return {fallback}"]
    elif unrollable(b, form.inplace):
        unrolled = _unrolled_write if form.inplace else _unrolled
        lines += unrolled(b, space, fallback, form.operator)
    else:
        lines += _known_lines(b, space, fallback, form.inplace)
    return "\n".join(lines), space


def _numpy_names(b: Binding, varargs: reg.Param | None) -> list[str]:
    """Take NumPy's names of parameters, where nothing came under torch's."""
    lines = []
    for name, own in NUMPY_NAMES.items():
        p = next((p for p in b.params if p.name == own and p is not varargs), None)
        if p is not None and name not in ("x", "a", "x1", "x2"):  # operands seldom come by name: `enter` reads these
            default = "_missing" if p.default is EMPTY else f"_default_{own}"
            left_out = "_unsaid" if own in b.row.numbers.left_out else default
            lines.append(f"        if {name!r} in _kw and {own} is {left_out}: {own} = _kw.pop({name!r})")
    return ["    if _kw:", *lines] if lines else []


def _known_view(b: Binding, space: dict[str, Any]) -> list[str]:
    """A view whose geometry is known by the arguments as they came."""
    first, *others = [p.name for p in b.params]
    # The class is part of the key, since 1 == True.
    rest = [x for n in others for x in (n, f"{n}.__class__")]
    space.update(_views=b.views, _fast_view=fast_view)
    return [
        f"    if not _mode & {~VIEW_MODES} and {first}.__class__ in _plain and ({first}._x.__class__ is not _Extras "
        f"or (_mode & {INFERENCE} and {first}._x.inference and {first}._x.inner is None)):",
        f"        try: _known = _views[{_tuple([f'{first}._m', *rest])}]",
        "        except (KeyError, TypeError): pass",
        "        else:",
        *([f"            _compare_view(_me, {_arguments(b)}, _known)"] if compared.CHECKING else []),
        f"            return _fast_view(_known, {first}, _mode)",
    ]


def _arguments(b: Binding) -> str:
    return _tuple([p.name for p in b.params])


def _compared(b: Binding, leaves: str, *more: str, call: str = "_call", indent: int = 4) -> list[str]:
    """A line that compares what was found out of the arguments with the general reading, where that is asked for."""
    given = ", ".join(["_me", _arguments(b), call, leaves, *more])
    return [f"{' ' * indent}_compare({given})"] if compared.CHECKING else []


def _unrolled(b: Binding, space: dict[str, Any], fallback: str, operator: bool) -> list[str]:
    """The plain case of a row that gives new tensors."""
    common = COMMON & ~(TRANSFORM | UNDER_JAX) if b.row.check else COMMON  # a check takes no values that JAX traces
    lines = [f"    if _mode > 1 and _mode & {~(common | PACKING)}:"]
    lines += ["    " + line for line in _known_lines(b, space, fallback, False)]
    lines += _call_lines(b, space, fallback)
    leaves = [p.name if _may_be_tensor(p) else f"_x{i}" for i, p in enumerate(b.dynamic)]
    numbers = [i for i, p in enumerate(b.dynamic) if not _may_be_tensor(p)]
    for i in numbers:
        lines += _number_lines(b.dynamic[i], space, fallback, f"_x{i}")
        lines.append(f"    _k{i} = None if _x{i} is None else _x{i}.__class__")
    if _may_be_mixed(b):
        lines.append(f"    if _mode > 1 and _mode & {IN_RUN | DUAL} and {_mixed(b, space)}: return {fallback}")
    lines += [
        f"    if _mode > 1 and _mode & {IN_RUN | DUAL}:",
        f"        _t = _taped(_call, {_tuple(leaves)}, _mode)",
        f"        return {fallback} if _t is None else _t",
    ]
    required = _required(b)
    for i, p in enumerate(b.dynamic):
        if i in numbers:
            continue
        # Of an operator the first operand is a tensor; who calls it with a number is told so.
        number = _NUMBER.format(i=i, p=p.name) if p.scalar and not (operator and not i) else ""
        absent = "" if p in required else _ABSENT.format(i=i, p=p.name)
        lines.append(_LEAF.format(i=i, p=p.name, number=number, fallback=fallback, absent=absent))
        if b.row.kernel.conjugated is not None:
            lines.append(f"    if {p.name}.__class__ in _plain and {p.name}._al is not None and {p.name}._al.conj:")
            lines.append(f"        return {fallback}")
    return [*lines, _run_lines(b, space, leaves, fallback)]


def _may_be_tensor(p: reg.Param) -> bool:
    return p.kind is reg.Array or p.scalar


def _unrolled_write(b: Binding, space: dict[str, Any], fallback: str, operator: bool) -> list[str]:
    """An unrecorded write to a plain tensor that owns its storage."""
    tensors = _required(b)
    others = [p for p in b.dynamic if p not in tensors]
    space.update({f"_default_{p.name}": p.default for p in others})
    rare = f"(_mode > 1 and _mode & {~(GRAD | FUNCTION_MODE)})"
    given = " or ".join([rare, *[f"{p.name} is not _default_{p.name}" for p in others]])
    lines = [f"    if {given}:", *["    " + line for line in _known_lines(b, space, fallback, True)]]
    lines += _call_lines(b, space, fallback)
    leaves = [p.name if p in tensors else "None" for p in b.dynamic]
    me = tensors[0].name
    lines += [
        f"    if {me}.__class__ in _plain and {me}._al is not None:",
        *_compared(b, _tuple(leaves), indent=8),
        f"        try: _u = _known(_call, {_tuple(leaves)}, _mode)",
        f"        except Exception as _error: _me.form.explain({_arguments(b)}, _no_names, _error); raise",
        f"        return {fallback} if _u is None else _u",
    ]
    for i, p in enumerate(tensors):
        number = _NUMBER.format(i=i, p=p.name) if p.scalar and not (operator and not i) else ""
        lines.append(_LEAF.format(i=i, p=p.name, number=number, fallback=fallback, absent=""))
        if b.row.kernel.conjugated is not None:
            lines.append(f"    if {p.name}._al is not None and {p.name}._al.conj: return {fallback}")
    return [*lines, _write_lines(b, space, tensors, leaves, fallback)]


def _call_lines(b: Binding, space: dict[str, Any], fallback: str) -> list[str]:
    """Look the call up by its static arguments, if there are any."""
    if not b.static:
        space["_call"] = b.call()
        return []
    key = _tuple([_key_of(p) for p in b.static])
    space["_raw_call"] = b.find
    return [
        f"    try: _call = _calls[{key}]",
        f"    except KeyError: return {fallback}",
        f"    except TypeError:\n        _call = _raw_call({_tuple([p.name for p in b.static])}, ())",
        f"        if _call is None: return {fallback}",
    ]


def _key_of(p: reg.Param) -> str:
    """Return what stands for a static argument in a key: its class, too, since 1 == True."""
    may_be_float = p.kind is float or p.kind is reg.Static
    value = f"({p.name} or _as_key({p.name})) if {p.name}.__class__ is float else {p.name}" if may_be_float else p.name
    return f"{value}, {p.name}.__class__"


def _known_lines(b: Binding, space: dict[str, Any], fallback: str, inplace: bool) -> list[str]:
    """Find the call by its arguments as they came, and run it; what has to be looked at closer is `fallback`'s."""
    known = write_known if inplace else record.apply_known
    space.update(_raw_call=b.find, _sequences=(list, tuple), _known=known)
    leaves = counts = ""
    mixed = compared.CHECKING and _may_be_mixed(b)  # without a plan for these `_known` gives None
    lines = [f"    if {_mixed(b, space)}: return {fallback}"] if mixed else []
    for p in b.dynamic:
        if p.kind in (reg.Arrays, reg.OptArrays):
            lines.append(f"    if {p.name}.__class__ not in _sequences: return {fallback}")
            leaves, counts = f"{leaves}*{p.name}, ", f"{counts}len({p.name}), "
        elif p.kind in (reg.Scalar, reg.TracedInt):
            lines += _number_lines(p, space, fallback, f"_l_{p.name}")
            leaves += f"_l_{p.name}, "
        else:
            leaves += f"{p.name}, "
    statics = "".join(f"{p.name}, " for p in b.static)
    key = "".join(f"{_key_of(p)}, " for p in b.static) + counts
    return [
        *lines,
        f"    try: _found = _calls[({key})]",
        f"    except KeyError: return {fallback}",
        f"    except TypeError: _found = _raw_call(({statics}), ({counts}))",
        f"    if _found is not None and not _mode & {~PLAIN_MODES}:",
        *_compared(b, f"({leaves})", call="_found", indent=8),
        f"        _u = _known(_found, ({leaves}), _mode)",
        "        if _u is not None: return _u",
        f"    return {fallback}",
    ]


def _number_lines(p: reg.Param, space: dict[str, Any], fallback: str, leaf: str) -> list[str]:
    """The leaf for a number: None where it is the default."""
    kinds = "_numbers" if p.kind is reg.Scalar else "(int,)"
    given = [f"if {p.name}.__class__ in {kinds}: {leaf} = {p.name}", f"else: return {fallback}"]
    if p.default is not EMPTY:
        default = f"_default_{p.name}"
        space[default] = p.default
        same = f"{p.name}.__class__ is {default}.__class__ and {p.name} == {default}"
        given = [f"if {p.name} is {default} or ({same}): {leaf} = None", f"el{given[0]}", given[1]]
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
    space.update(_inplace_call=inplace_call, _overlaps=shapes.has_overlap, _write_lock=WRITE_LOCK, _many=placement.MANY)
    space["_held"] = _ARRAY.__get__  # `array` would look once more at memory that NumPy shares
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
        args=_arguments(b),
        compared="\n".join(["", *_compared(b, _tuple(leaves), _numbered(b, tensors, "k"))]),
    )


def _may_be_mixed(b: Binding) -> bool:
    """Whether a tensor beside a number stands for a number, as in `clamp(x, 0, tensor(2.))`: `fallback` sees to it."""
    return b.row.numbers.dtype is reg.NumberDtype.ALL_OR_NONE


def _mixed(b: Binding, space: dict[str, Any]) -> str:
    """The text that asks whether there are numbers and tensors among the optional arguments."""
    space["_none"] = type(None)
    classes = _tuple([f"{p.name}.__class__" for p in b.dynamic if p.optional])
    return f"len({{c in _numbers for c in {classes} if c is not _none}}) > 1"


def _run_lines(b: Binding, space: dict[str, Any], leaves: Sequence[str], fallback: str) -> str:
    """Run the kernel, and leave the rest to `finish`."""
    space["_finish"] = finish(len(leaves))
    tensors = {i: p for i, p in enumerate(b.dynamic) if _may_be_tensor(p)}
    every = range(len(b.dynamic))
    alone, check = "", ""
    required = _required(b)
    if all(p.scalar for p in required):  # the call may have numbers alone, and no tensor
        numbers = " and ".join(f"_c{i} in _numbers" for i, p in tensors.items() if p in required)
        alone = f"\n        if {numbers}: return {fallback}"
    if _may_be_mixed(b):
        alone += f"\n        if {_mixed(b, space)}: return {fallback}"
    if b.row.check is not None:
        check = f"\n    _check(_call, {_tuple(leaves)}, {_tuple([f'_x{i}' for i in every])})"
    mask = " + ".join(f"({1 << i} if _r{i} else 0)" for i in tensors)
    keys = _tuple([f"_k{i}" for i in every])
    return _RUN.format(
        keys=keys,
        compared="\n".join(["", *_compared(b, _tuple(leaves), keys, f"{mask} if _mode & 1 else -1")]),
        fwd=_forward(b, required),
        leaves=_tuple(leaves),
        given=", ".join(f"{leaves[i]}, {f'_r{i}' if i in tensors else False}" for i in every),
        alone=alone,
        check=check,
        args=_arguments(b),
    )


def _forward(b: Binding, required: Sequence[reg.Param]) -> str:
    """The call of the kernel, which gets the leaves that are there."""
    xs = [f"_x{i}" for i in range(len(b.dynamic))]
    maybe = [i for i, p in enumerate(b.dynamic) if p not in required and (_may_be_tensor(p) or p.default is not EMPTY)]
    whole = f"_plan.fwd({', '.join(xs)})"
    if not maybe:
        return whole
    if len(maybe) == 1:
        (at,) = maybe
        return f"_plan.fwd({', '.join(xs[:at] + xs[at + 1 :])}) if _k{at} is None else {whole}"
    return f"_plan.fwd(*[_x for _x in ({', '.join(xs)},) if _x is not None])"
