"""What there is to note of each kind of object that a code can look at, and what the object leads to.

    kind_of(model)(reads, model, code, placed, named)  # notes facts with `reads`, and hands on what `model` leads to

A kind is a function here, and `KINDS` is the table of classes and kinds; the first row that fits counts. An object
whose state nothing tells is opaque: a function that reaches one from outside runs as it is written.
"""

from __future__ import annotations

import array
import decimal
import functools
import gc
import io
import operator
import re
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import Context, ContextVar
from typing import Any

import jax
import numpy as np

from ...._core.errors.messages import AsWritten
from ...._core.python_classes import is_python_class
from ...._engine.memory.tensor import Tensor
from .array_contents import ARRAYS, array_content, kept_results, objects_in, results_of
from .code_that_reads import CALLERS, LOOKERS, OURS, USERS, Code, code_of, is_of_user, is_ours, whose
from .facts import Alive, Cached
from .notes import Notes
from .object_contents import containers_in, dict_of
from .places import LOCKS, MISSING, Attributes, Cell, Class, Fixed, Lock, OfThread, before_it_was_taken
from .pure_calls import EFFECT, context_of_decimals, describe, variables_of_context, verdict

Kind = Callable[[Notes, Any, Code, bool, bool], None]
_NO_ATTRIBUTES = types.MappingProxyType[str, Any]({})
"""Stands for the attributes of an object without a dict: one for all, since identities of new ones come again."""


# --- by the attributes that code names ------------------------------------------------------------------------


def instance(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object of a user's class."""
    cls = type(x)
    if cls is decimal.Decimal:
        r.state(context_of_decimals)
    if hasattr(cls, "__del__") and not r.ages.is_old(x):
        raise AsWritten(f"it makes a {cls.__name__}, which may act when it is gone (__del__)", lasting=False)
    special_methods(r, cls)
    if code.reads_class:
        r.note_class(x)
        _described(r, cls, code)
    if ("slots", id(cls)) not in r.once:
        r.once.add(("slots", id(cls)))
        for name in _unnamed_slots(cls):
            of_class(r, cls, name, code)
    held = dict_of(x)
    if code.compares and isinstance(held, dict) and issubclass(cls, types.SimpleNamespace):
        container(r, held, code, True, False)
    attributes(r, _NO_ATTRIBUTES if held is None else held, x, code, named)


def attributes(r: Notes, held: Any, x: Any, code: Code, named: bool) -> None:
    """The attributes of an object that code names; `held` is its dict."""
    names, cls = r.names(code), type(x)
    r.owners[id(held)] = x
    has_dict = isinstance(held, OfThread) or dict_of(x) is not None
    there = names & held.keys()
    for name in there:
        r.place(held, name, code)
    if there:
        _behind_attributes(r, cls, frozenset(there))
    rest = names - there
    is_layer = "_modules" in held and "_parameters" in held
    if is_layer:
        rest = _of_layer(r, held, x, code, rest)
    found, data, missing = _on_class(r, cls, code, rest)
    is_plain = has_dict and not is_layer and cls.__getattribute__ is object.__getattribute__
    if is_plain and (there or found) and id(x) not in r.behind_weak:
        r.put(Attributes(x), x, "__dict__", held)
    if len(missing) < len(rest):
        r.note_class(x)
        for name in data:
            r.put(Attributes(x), x, name, getattr(x, name, MISSING), code)
        overriding = [n for n in found if n not in data]
        if overriding and has_dict:
            r.note_absent(held, overriding)
    missing = _noticed(r, code, missing, cls)
    if missing and has_dict:
        r.note_absent(held, missing)
    if (named or code.looks_deep) and (code.looks_at_all or code.computes_names):
        _all_attributes(r, held, x, cls, code)


def _behind_attributes(r: Notes, cls: type, names: frozenset[str]) -> None:
    """What a class has under the names of attributes of an instance: a descriptor there would come before these."""
    if ("behind", id(cls), names) in r.once:
        return
    r.once.add(("behind", id(cls), names))
    for base in filter(is_of_user, cls.__mro__):
        found = names & base.__dict__.keys()
        r.note_absent(base, names - found)
        for name in found:
            value = base.__dict__[name]
            r.put(Class(base), base, name, value)
            special_methods(r, type(value))


def _of_layer(r: Notes, held: Any, x: Any, code: Code, names: frozenset[str]) -> frozenset[str]:
    """Parameters, buffers and submodules that are named; all of a module that is a container."""
    there: set[str] = set()
    for kind in ("_parameters", "_buffers", "_modules"):
        inner = held.get(kind)
        if inner:
            r.owners[id(inner)] = x
            hits = names & inner.keys()
            for name in hits:
                r.place(inner, name, code)
            there |= hits
    if there:
        _behind_attributes(r, type(x), frozenset(there))
    if hasattr(type(x), "__iter__") or hasattr(type(x), "__getitem__"):
        for kind in ("_modules", "_parameters"):
            if held.get(kind):
                container(r, held[kind], code, True, True)
    return names - there


def _all_attributes(r: Notes, held: Any, x: Any, cls: type, code: Code) -> None:
    if ("all", id(x)) in r.once:
        return
    r.once.add(("all", id(x)))
    if isinstance(held, dict):
        container(r, held, code, True, False)
    looks_on = code.looks_deep  # also in what nobody names: there methods of Python's own classes are no matter
    for base in filter(is_of_user if looks_on else is_python_class, cls.__mro__):
        for name, value in list(vars(base).items()) if not is_ours(base) else ():
            if issubclass(type(value), types.MemberDescriptorType):
                r.put(Attributes(x), x, name, getattr(x, name, MISSING), code)
            elif not (name.startswith("__") and name.endswith("__")):
                of_class(r, cls, name, code)


def _noticed(r: Notes, code: Code, missing: Collection[str], cls: type = object) -> Collection[str]:
    """Of names that are missing, those of which code notices when they are there, or which it gives a value."""
    if not missing or code.catches or r.handlers or code.may_ask_for_absent:
        return missing
    fallback: Any = getattr(cls, "__getattr__", None)
    if type(fallback) is types.FunctionType and code_of(fallback.__code__, fallback.__globals__).whose != OURS:
        return missing  # which an attribute would take the place of
    return code.writes.intersection(missing)


def tensor(r: Notes, x: Tensor, code: Code, placed: bool) -> None:
    """A tensor: attributes that somebody gave it, what code asks of it, its gradient and hooks."""
    if id(code) not in r.names_in_tensors:
        missing = _on_class(r, Tensor, code, r.names(code))[2]
        r.names_in_tensors[id(code)] = _noticed(r, code, missing)
    if x.__dict__ or not is_ours(type(x)):
        attributes(r, x.__dict__, x, code, False)
    elif names := r.names_in_tensors[id(code)]:
        r.owners[id(x.__dict__)] = x
        r.note_absent(x.__dict__, names)
    if code.reads_form:
        r.forms[id(x)] = x
    if code.reads_requires_grad:
        r.flags[id(x)] = x
    if placed:
        if id(x) not in r.gradients:
            r.gradients[id(x)] = x._g
            r.lead(x, x._g)
        for hooks in (x._x.hooks, x._x.post_acc) if x._x is not None else ():
            if hooks:
                r.push(hooks, code, True, False, False)


def _of_thread(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """Attributes that each thread has for itself."""
    attributes(r, OfThread(x), x, code, named)


def whole(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object of this package that holds what users put into it; its own code is not looked at.

    An iterator is one for what it iterates over, too.
    """
    held = dict_of(x)
    if held is not None:
        r.owners[id(held)] = x
        r.note_class(x)
        container(r, held, code, True, named and hasattr(type(x), "__next__"))


def ours(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object of this package: attributes that code names, such as a flag."""
    held = dict_of(x)
    for name in () if held is None else r.names(code) & held.keys():
        r.owners[id(held)] = x
        r.place(held, name, code, goes_on=False)


def layer_called(r: Notes, code: Code, module: Any) -> None:
    """A layer is called: what the call itself looks at."""
    held = vars(module)
    r.owners[id(held)] = module
    if ("called", id(module)) in r.once:
        return
    r.once.add(("called", id(module)))
    r.note_class(module)
    of_class(r, type(module), "__call__", code)
    for name in ("forward", "_compiled_call_impl"):
        if name in held:
            r.place(held, name, code)
        else:
            r.note_absent(held, (name,))
            of_class(r, type(module), name, code)
    for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
        hooks = held.get(name)
        if hooks is not None:
            r.owners[id(hooks)] = module
            for inner in (hooks, *(held[kinds] for kinds in _KINDS_OF_HOOKS if hooks)):
                container(r, inner, code, True, True)
    r.walk()


_KINDS_OF_HOOKS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")


def optimizer(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An optimizer: its groups, hooks and state."""
    held = vars(x)
    if id(x) not in r.optimizers:
        r.optimizers[id(x)] = x
        r.pending.append(x)
        tells = getattr(getattr(type(x), "step", None), "hooked", False)  # when it steps
        for inner in containers_in(held["state"]):
            r.lead(x, inner)
            r.note_container(inner, id(x) if tells else None)
    instance(r, x, code, placed, False)
    for name in ("state", "param_groups"):  # others, once a state was loaded
        r.place(held, name, code, goes_on=False)
    container(r, x.param_groups, code, True, False)
    for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        if name in held:
            container(r, held[name], code, True, False)


def schedule(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A schedule of learning rates: all of it."""
    if id(x) not in r.schedules:
        r.schedules[id(x)] = x
        r.pending.append(x)
        r.owners[id(vars(x))] = x
    container(r, vars(x), code, True, False)


# --- classes --------------------------------------------------------------------------------------------------


def of_class(r: Notes, cls: type, name: str, code: Code) -> Any:
    """What a class has under a name, and that none of the classes before it has it."""
    bases = cls.__mro__
    if ("bases", id(cls)) not in r.once:
        r.once.add(("bases", id(cls)))
        for base in bases:
            if is_python_class(base) and not is_ours(base):
                r.put(Attributes(base), base, "__bases__", base.__bases__)
    for at, base in enumerate(bases):
        if name not in base.__dict__:
            continue
        for earlier in filter(is_python_class, bases[:at]):
            r.note_absent(earlier, (name,))
        if is_python_class(base):
            r.put(Class(base), base, name, base.__dict__[name])
        if not is_ours(base):
            _value_of_class(r, base.__dict__[name], code)
        if code.calls_super:
            _behind(r, bases[at + 1 :], name, code)
        return base.__dict__[name]
    return MISSING


def _behind(r: Notes, bases: Iterable[type], name: str, code: Code) -> None:
    """What `super()` may find: the same name in the classes behind."""
    for base in filter(is_python_class, bases):
        if name not in base.__dict__:
            r.note_absent(base, (name,))
            continue
        r.put(Class(base), base, name, base.__dict__[name])
        if not is_ours(base):
            _value_of_class(r, base.__dict__[name], code)


def _value_of_class(r: Notes, value: Any, code: Code) -> None:
    parts: tuple[Any, ...] = (value,)
    if issubclass(type(value), property):
        parts = (value.fget, value.fset, value.fdel, *(() if type(value) is property else (value,)))
    elif issubclass(type(value), staticmethod | classmethod):
        parts = (value.__func__,)
    elif issubclass(type(value), types.MemberDescriptorType | types.GetSetDescriptorType):
        parts = ()
    for part in parts:
        r.push(part, code, True, True, False)


def _on_class(r: Notes, cls: type, code: Code, names: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Which names a class has; which of these are slots; which it has not."""
    values = {name: of_class(r, cls, name, code) for name in names}
    found = [name for name, v in values.items() if v is not MISSING and not issubclass(type(v), property)]
    kept: Any = types.MemberDescriptorType
    if issubclass(cls, BaseException):  # its cause and the like
        kept |= types.GetSetDescriptorType
    data = [name for name in found if issubclass(type(values[name]), kept) and name not in ("__class__", "__dict__")]
    missing = [name for name, v in values.items() if v is MISSING]
    _absent_on_bases(r, cls, _noticed(r, code, missing, cls))
    return found, data, missing


def _absent_on_bases(r: Notes, cls: type, names: Collection[str]) -> None:
    for base in filter(is_python_class, cls.__mro__ if names else ()):
        r.note_absent(base, names)


def class_(r: Notes, x: type, code: Code, placed: bool, named: bool) -> None:
    """A class: what code names of it and of its bases."""
    if x is decimal.Decimal:
        r.state(context_of_decimals)
    if not is_python_class(x):
        return
    special_methods(r, x)
    if type(x) is not type:
        special_methods(r, type(x))
    _described(r, x, code)
    matched = vars(x).get("__match_args__")
    if "__match_args__" in code.attributes and isinstance(matched, tuple):
        r.add_names(code, matched)
    for name in r.names(code):
        here = of_class(r, x, name, code)
        if here is MISSING and type(x) is not type and of_class(r, type(x), name, code) is not MISSING:
            _absent_on_bases(r, x, (name,))
    absent = [n for n in r.names(code) if not any(n in base.__dict__ for base in x.__mro__)]
    _absent_on_bases(r, x, _noticed(r, code, absent))
    if (named or code.looks_deep) and (code.looks_at_all or code.computes_names) and not is_ours(x):
        for base in filter(is_of_user if code.looks_deep else is_python_class, x.__mro__):
            for name in list(vars(base)):
                if not (name.startswith("__") and name.endswith("__")):
                    of_class(r, x, name, code)


def special_methods(r: Notes, cls: type) -> None:
    """Methods that Python itself calls where a class has them, and goes on without where it has not."""
    for base in cls.__mro__:
        if ("special", id(base)) not in r.once:
            r.once.add(("special", id(base)))
            if is_of_user(base):
                r.note_absent(base, _SPECIAL.difference(base.__dict__))


_OF_OPERATORS = """add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"""
_ALONE = """array bool call complex contains delattr delete eq float format ge get getattr getattribute gt hash index
init instancecheck int iter le len length_hint lt missing ne new repr reversed round set setattr str subclasscheck
torch_function trunc"""
_SPECIAL = frozenset(
    [f"__{kind}{name}__" for kind in "ri" for name in _OF_OPERATORS.split()]
    + [f"__{name}__" for name in _ALONE.split()]
)
"""Names of methods that no code names, and that Python does without where they are missing."""


def _described(r: Notes, cls: type, code: Code) -> None:
    """What a class is called, and the types of its fields."""
    if not is_python_class(cls) or is_ours(cls):
        return
    names = r.names(code)
    for name in names & _OF_CLASSES:
        r.put(Attributes(cls), cls, name, getattr(cls, name))
    for base in cls.__mro__ if not _DESCRIBE.isdisjoint(names | code.globals) else ():
        if is_python_class(base) and not is_ours(base):
            of_class(r, base, "__annotations__", code)


_OF_CLASSES = frozenset(["__name__", "__qualname__"])
"""What a class keeps in no dict."""


def _unnamed_slots(cls: type) -> Iterator[str]:
    """Methods that Python itself calls, such as `__call__`, which are no function of that name: a lambda, a partial."""
    for base in filter(is_python_class, cls.__mro__):
        for name, value in () if is_ours(base) else list(vars(base).items()):
            if not (name.startswith("__") and callable(value)):
                continue
            of = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
            if of is not base:  # else the class is written in C
                code = getattr(value, "__code__", None)
                if code is None or code.co_name != name:
                    yield name


# --- modules and functions ------------------------------------------------------------------------------------

_OUR_NAMES = ("torchgrad_jax", "torch", "jax", "jaxlib")
_WITHOUT_FLAGS = (types.FunctionType, types.BuiltinFunctionType, type, Tensor)
"""What this package and JAX have in their modules beside modules and objects with flags."""


def module(r: Notes, x: types.ModuleType, code: Code, placed: bool, named: bool) -> None:
    """A module: the variables that code names; all of a user's if it computes names."""
    held = vars(x)
    r.owners[id(held)] = x
    ours = x.__name__.partition(".")[0] in _OUR_NAMES
    for name in r.names(code):
        if name in held:
            r.place(held, name, code, goes_on=not ours or not isinstance(held[name], _WITHOUT_FLAGS))
            if ours and isinstance(held[name], type):
                _flags_of_class(r, held[name], code)
        elif not ours and (_noticed(r, code, (name,)) or "__getattr__" in held):
            r.note_absent(held, (name,))
    if "__getattr__" in held and not ours:
        r.push(held["__getattr__"], code, True, True)
    all_of_it = named and code.looks_at_all and not code.globals.isdisjoint(("vars", "dir"))
    users = whose(str(getattr(x, "__file__", ""))) is USERS and x.__name__ not in sys.builtin_module_names
    if code.computes_names and named and not all_of_it:
        all_of_it = users
    if all_of_it and not ours:
        container(r, held, code, True, False)
        for name, value in held.items() if code.looks_deep and users else ():
            if not name.startswith("__"):
                r.push(value, code, True, False, False)
    if type(x) is not types.ModuleType and not ours:
        attributes(r, held, x, code, False)


def _flags_of_class(r: Notes, cls: type, code: Code) -> None:
    """What a class of this package has under names of the code that is no method: a flag, or what a user put there."""
    for name in r.names(code):
        base = next((base for base in cls.__mro__ if name in base.__dict__), None)
        if base is not None and is_python_class(base) and not isinstance(value := base.__dict__[name], _METHODS):
            r.put(Class(base), base, name, value, code)


_METHODS = (
    types.FunctionType, property, staticmethod, classmethod, type, types.BuiltinFunctionType,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MemberDescriptorType, types.GetSetDescriptorType,
)  # fmt: skip
_OF_FUNCTIONS = frozenset([
    "__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__closure__", "__code__", "__defaults__",
    "__kwdefaults__",
])  # fmt: skip
"""Attributes of functions that are in no dict."""
_DESCRIBE = frozenset(["signature", "getfullargspec", "get_annotations", "get_type_hints"])
"""Functions of the standard library that look at all of these."""


def function(r: Notes, x: types.FunctionType, code: Code, placed: bool, named: bool) -> None:
    """A function: its attributes and defaults; what it is made of counts if it runs."""
    ours, held, names = whose(x.__code__.co_filename) is OURS, x.__dict__, r.names(code)
    if held:
        r.owners[id(held)] = x
        for name in names & held.keys():
            r.place(held, name, code)
        if "__wrapped__" in held:
            r.push(held["__wrapped__"], code, True, True)
    for cell in (x.__closure__ or ()) if ours or held else ():
        inner = Cell(cell).get("cell_contents", MISSING)
        if isinstance(inner, types.FunctionType | types.MethodType):
            r.push(inner, code, True, True)
    if ours:
        return
    if held and named and (code.looks_at_all or code.computes_names):
        container(r, held, code, True, False)
    r.function_met(x)
    if code.may_ask_for_absent:
        r.owners[id(held)] = x
        r.note_absent(held, names - held.keys())
    describes = not _DESCRIBE.isdisjoint(names | code.globals)
    for name in _OF_FUNCTIONS if describes else names & _OF_FUNCTIONS:
        r.put(Attributes(x), x, name, getattr(x, name), code)
    if "__globals__" in code.attributes:
        for name in names & x.__globals__.keys():
            r.place(x.__globals__, name, code)
    if x.__kwdefaults__:
        r.owners[id(x.__kwdefaults__)] = x
        container(r, x.__kwdefaults__, code, True, False)
    if x.__defaults__:
        r.push(x.__defaults__, code, True, True, False)


def method(r: Notes, x: types.MethodType, code: Code, placed: bool, named: bool) -> None:
    """A bound method: its function and its object."""
    r.push(x.__func__, code, placed, named)
    r.push(x.__self__, code, placed, named)
    _by_any_name(r, x, x.__self__, code)


def builtin(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A function written in C, which is called: its object; one that acts must not be handed on."""
    owner = getattr(x, "__self__", None)
    if named and x in LOOKERS and not code.names(x.__name__):
        r.looks_at_all(code)
    if owner is not None and not issubclass(type(owner), types.ModuleType | type):
        r.push(owner, code, placed, False)
        _by_any_name(r, x, owner, code)
    if placed and named:
        name = x.__name__
        handed_on = name in code.values or (name not in code.globals and name not in code.attributes)
        if handed_on and verdict(x) is EFFECT and r.ages.is_old(x):
            raise AsWritten(f"{describe(x)} is handed on, and it may act outside{code.place()}", lasting=False)


def _by_any_name(r: Notes, method: Any, x: Any, code: Code) -> None:
    """A method that looks attributes up, or sets them, by a name that stands elsewhere."""
    held = dict_of(x)
    if method.__name__ in _OF_ATTRIBUTES and not issubclass(type(x), type | types.ModuleType | Tensor):
        r.owners[id(held)] = x
        _all_attributes(r, _NO_ATTRIBUTES if held is None else held, x, type(x), code)


_OF_ATTRIBUTES = frozenset(["__getattribute__", "__setattr__", "__delattr__"])


def _names(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """What looks up attributes by name: the names."""
    r.add_names(code, (n for text in x.__reduce__()[1] if isinstance(text, str) for n in text.split(".")))


def cached(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A function that keeps its results: the function, and the results."""
    own_attributes(r, x, code, named)
    if ("cached", id(x)) not in r.once:
        r.once.add(("cached", id(x)))
        if issubclass(type(x.__wrapped__), types.FunctionType):
            r.caches[id(x.__wrapped__.__code__)] = x
        r.fact(Cached(x, frozenset(kept_results(x))))
        r.results[id(x)] = results_of(x)
    for result in r.results[id(x)]:
        r.push(result, code, placed, named)
    r.push(x.__wrapped__, code, placed, named)


# --- by what is in them ---------------------------------------------------------------------------------------


def container(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A list, dict, tuple, set or deque: all that is in it, and its attributes where its class is a user's."""
    if x is sys.modules and code.whose is CALLERS:
        return  # where the standard library looks up whose a class is
    fixed = issubclass(type(x), tuple | frozenset)
    if not fixed:
        r.note_container(x)
    items = [*dict.keys(x), *dict.values(x)] if issubclass(type(x), dict) else list(x)
    for item in items:
        if fixed:
            r.lead(x, item)
        r.push(item, code, placed, named, False)
    if issubclass(type(x), defaultdict):
        r.push(x.default_factory, code, placed, named, False)


def container_of_a_class(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A container whose class is none of Python's plain ones: its items and its attributes."""
    container(r, x, code, placed, named)
    instance(r, x, code, placed, named)


def array_(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An array: its elements, and its attributes."""
    is_new = placed and r.note_content(x, array_content(x) if placed else None)
    for v in objects_in(x):
        r.push(v, code, placed, True, is_new)
    if issubclass(type(x), np.ndarray) and x.base is not None and "base" in r.names(code):
        r.push(x.base, code, placed, named)
    if dict_of(x) is not None:
        instance(r, x, code, placed, named)


def leads_on(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A view, a proxy, a slice or the like: what it holds."""
    own_attributes(r, x, code, named)
    for part in gc.get_referents(x):
        if type(part) is dict and id(part) not in r.owners:
            r.owners[id(part)] = x
        r.push(part, code, placed, named)


def partial(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A partial: its function and arguments."""
    for name in ("func", "args", "keywords"):
        r.put(Fixed(x), x, name, getattr(x, name), code)
    leads_on(r, x, code, placed, named)


def cell(r: Notes, x: types.CellType, code: Code, placed: bool, named: bool) -> None:
    """A closure's cell: what is in it."""
    r.put(Cell(x), x, "cell_contents", Cell(x).get("cell_contents", MISSING), code)


def memory(r: Notes, x: memoryview, code: Code, placed: bool, named: bool) -> None:
    """A view of memory: the array that it belongs to."""
    r.push(x.obj, code, placed, named)


def weak(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A weak reference or a proxy: that what it leads to is there, which is not kept alive for it."""
    is_ref = issubclass(type(x), weakref.ref)
    if is_ref:
        own_attributes(r, x, code, named)
    there: Any = x() if is_ref else _behind_proxy(x)
    if is_ref or there is not None:
        r.behind_weak.add(id(there))
        if ("weak", id(x)) not in r.once:
            r.once.add(("weak", id(x)))
            ref = x if is_ref else weakref.ref(there)
            r.owners[id(ref)] = x
            r.fact(Alive(ref, type(there)))
    r.push(there, code, placed, named)


def own_attributes(r: Notes, x: Any, code: Code, named: bool) -> None:
    """Attributes that somebody gave an object of C, or that its class, a user's, gives it."""
    held = dict_of(x)
    if held and is_python_class(type(x)):
        attributes(r, held, x, code, named)
    elif held:
        r.owners[id(held)] = x
        for name in r.names(code) & held.keys():
            r.place(held, name, code)
        if named and (code.looks_at_all or code.computes_names):
            container(r, held, code, True, False)


def _behind_proxy(x: Any) -> Any:
    try:
        return x.__repr__.__self__
    except ReferenceError:
        return None


def _variable(r: Notes, x: ContextVar[Any], code: Code, placed: bool, named: bool) -> None:
    """A context variable: its value."""
    r.variable(x, code)


def lock(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A lock, which the function may take and give back. While it is traced it must not wait for others."""
    text = repr(x)
    mine = "<unlocked" in text or f"owner={threading.get_ident()} " in text
    if placed and not mine and (id(x), "state") not in r.known:
        raise AsWritten(f"it reaches a {type(x).__name__} from outside that is taken", lasting=False)
    r.put(Lock(x), x, "state", (text if placed else before_it_was_taken(text),))


def context(r: Notes, x: Context, code: Code, placed: bool, named: bool) -> None:
    """The variables of a context: a copy of this one, since one from outside may be given other values elsewhere."""
    if named and r.ages.is_old(x):
        raise _unknown_state(x)
    for variable in x:
        r.variable(variable, code)
    r.state(variables_of_context)


def descriptor(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """What looks up a slot: its name."""
    r.add_names(code, (x.__name__,))


# --- what nothing tells ---------------------------------------------------------------------------------------


def iterator(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An iterator: what it goes over; one from outside is opaque, since it goes on."""
    if placed and named and r.ages.is_old(x):
        raise _unknown_state(x)
    for part in gc.get_referents(x):
        if not issubclass(type(part), types.FrameType | types.CodeType | str):
            r.push(part, code, False, True)


def opaque(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object with state in C."""
    if placed and named and r.ages.is_old(x) and not _only_calls_stream(x, code):
        raise _unknown_state(x)


def _unknown_state(x: Any) -> AsWritten:
    return AsWritten(f"it reaches a {type(x).__name__} from outside, whose state nothing tells", lasting=False)


def _only_calls_stream(x: Any, code: Code) -> bool:
    """Whether something is a standard stream of which code hands no method on: then it is seen when it writes."""
    if (x is not sys.stdout and x is not sys.stderr) or code.may_ask_for_absent:
        return False
    return not any(hasattr(type(x), name) for name in code.values)


def safe(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object in which nothing ever changes."""
    if type(x) is decimal.Decimal:
        r.state(context_of_decimals)


# --- the table ------------------------------------------------------------------------------------------------

_BUILTINS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, type(np.sum),
)  # fmt: skip
"""The last one is a function of Python, which NumPy calls from C."""
_VIEWS = tuple({type(view) for d in ({}, OrderedDict()) for view in (d.keys(), d.values(), d.items())})
_SAFE = (
    types.CodeType, types.UnionType, types.FrameType,
    types.TracebackType, re.Pattern, re.Match, operator.itemgetter, np.dtype, np.generic, np.ufunc, jax.Array,
    jax.core.Tracer, type(namedtuple("_", "field").field),
)  # fmt: skip
KINDS: tuple[tuple[Any, Kind], ...] = (
    (type, class_),
    (types.FunctionType, function),
    (types.MethodType, method),
    (types.ModuleType, module),
    (_BUILTINS, builtin),
    (functools.partial, partial),
    (types.CellType, cell),
    (memoryview, memory),
    ((types.MappingProxyType, property, staticmethod, classmethod, types.GenericAlias, slice, *_VIEWS), leads_on),
    ((*ARRAYS, array.array), array_),
    ((dict, list, tuple, set, frozenset, deque), container_of_a_class),
    (weakref.ref, weak),
    (threading.local, _of_thread),
    ((operator.attrgetter, operator.methodcaller), _names),
    (type(functools.lru_cache(int)), cached),
    (ContextVar, _variable),
    (Context, context),
    ((types.MemberDescriptorType, types.GetSetDescriptorType), descriptor),
    (LOCKS, lock),
    (_SAFE, safe),
    (weakref.ProxyTypes, weak),
)
"""Classes, and of what kind their objects are."""
_SAFE_MODULES = frozenset([
    "_abc", "collections", "_contextvars", "_datetime", "datetime", "_decimal", "decimal", "_json", "_struct",
    "_typing", "typing", "jax", "jaxlib", "nanobind", "ml_dtypes", "zoneinfo", "_zoneinfo", "uuid", "fractions",
])  # fmt: skip
"""Modules of classes written in C whose objects never change."""
_BASES_WITHOUT_STATE = (object, types.SimpleNamespace, int, float, complex, str, bytes, type)
_OF_USERS_DATA = ("distributions", "utils.data")
"""Parts of this package whose objects are nothing but what users put into them."""
_HOLDS_USERS_DATA = ("_per_optimizer_states", "layers", "_init_fn")
"""Attributes of gradient scalers, of layers that are scanned and of custom operators."""

_kinds: weakref.WeakKeyDictionary[type, Kind] = weakref.WeakKeyDictionary(
    dict.fromkeys((list, dict, tuple, set, frozenset, deque), container)
)


def kind_of(x: Any) -> Kind:
    """How an object is watched."""
    cls = type(x)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kind_of_class(cls)
        _kinds[cls] = kind = safe if kind is _of_thread and is_ours(cls) else kind
    if kind is instance or kind is safe:
        held = getattr(x, "__dict__", None) if kind is safe and is_ours(cls) else dict_of(x)
        if held and kind is instance:
            if "param_groups" in held and "state" in held:
                return optimizer
            if "optimizer" in held and hasattr(cls, "get_last_lr"):
                return schedule
        if is_ours(cls) and held and not ("_parameters" in held and "_modules" in held):
            return whole if any(name in held for name in _HOLDS_USERS_DATA) or _is_users_data(cls) else ours
    return kind


def _kind_of_class(cls: type) -> Kind:
    for classes, kind in KINDS:
        if issubclass(cls, classes):
            return kind
    if (cls.__module__ or "").partition(".")[0] in _SAFE_MODULES and not is_python_class(cls):
        return safe
    if issubclass(cls, io.IOBase):
        return opaque
    advance = getattr(cls, "__next__", None)
    if advance is not None and not isinstance(advance, types.FunctionType):
        return iterator
    for base in cls.__mro__:
        if not is_python_class(base) and base not in _BASES_WITHOUT_STATE and not issubclass(base, BaseException):
            return opaque
    return instance


def _is_users_data(cls: type) -> bool:
    return any(cls.__module__.partition(".")[2].startswith(part) for part in _OF_USERS_DATA)
