"""What there is to note of each kind of object that a code can look at, and what the object leads to.

    kind_of(model)(reads, model, code, placed, named)  # notes facts with `reads`, and passes on what `model` leads to

A kind is a function here, and `KINDS` is the table of classes and kinds; the first row that fits counts. An object
whose state nothing tells is opaque: a function that reaches one from outside runs eagerly.
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
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from ...._core.c_functions import EFFECT, context_of_decimals, describe, verdict
from ...._core.errors.messages import AsWritten
from ...._core.python_arrays import ARRAYS, array_content, objects_in, results_of
from ...._core.python_classes import is_python_class
from ...._core.python_code import CALLERS, OURS, USERS, is_of_user, is_ours, whose
from ...._core.python_objects import dict_of, items_of
from ...._engine.memory.tensor import Tensor
from .code_that_reads import LOOKERS, Code, code_of
from .facts import Alive, Cached, Content
from .notes import Notes
from .places import LOCKS, MISSING, Attributes, Class, Fixed, Lock, OfThread, before_it_was_taken

Kind = Callable[[Notes, Any, Code, bool, bool], None]
_NO_ATTRIBUTES = types.MappingProxyType[str, Any]({})
"""Stands for the attributes of an object without a dict: one for all, since identities of new ones come again."""


# --- by the attributes that code names ------------------------------------------------------------------------


def instance(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object of a user's class."""
    cls = type(x)
    if hasattr(cls, "__del__") and not r.ages.is_old(x):
        raise AsWritten(f"it makes a {cls.__name__}, which may act when it is gone (__del__)", lasting=False)
    special_methods(r, cls)
    if code.reads_class:
        r.note_class(x)
        _described(r, cls, code)
    for name in _unnamed_slots(cls) if r.is_first("slots", cls) else ():
        of_class(r, cls, name, code)
    held = dict_of(x)
    if code.compares and isinstance(held, dict) and issubclass(cls, types.SimpleNamespace):
        container(r, held, code, True, False)
    attributes(r, _NO_ATTRIBUTES if held is None else held, x, code, named)


def attributes(r: Notes, held: Any, x: Any, code: Code, named: bool) -> None:
    """The attributes of an object that code names; `held` is its dict."""
    names, cls = r.names(code), type(x)
    has_dict = isinstance(held, OfThread) or dict_of(x) is not None
    there = names & held.keys()
    r.entries(held, x, there, code)
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
    for base in filter(is_of_user, cls.__mro__) if r.is_first("behind", cls, names) else ():
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
            hits = names & inner.keys()
            r.entries(inner, x, hits, code)
            there |= hits
    if there:
        _behind_attributes(r, type(x), frozenset(there))
    if hasattr(type(x), "__iter__") or hasattr(type(x), "__getitem__"):
        for kind in ("_modules", "_parameters"):
            if held.get(kind):
                container(r, held[kind], code, True, True)
    return names - there


def _all_attributes(r: Notes, held: Any, x: Any, cls: type, code: Code) -> None:
    if r.is_first("all", x):
        if isinstance(held, dict):
            container(r, held, code, True, False)
        _all_of_class(r, cls, code, x)


def _all_of_class(r: Notes, cls: type, code: Code, x: Any = None) -> None:
    """All that a class has, but for methods that Python itself calls, and the slots of `x`, an instance."""
    looks_on = code.looks_deep  # also in what nobody names: there methods of Python's own classes are no matter
    for base in filter(is_of_user if looks_on else is_python_class, cls.__mro__):
        for name, value in list(vars(base).items()) if not is_ours(base) else ():
            if x is not None and issubclass(type(value), types.MemberDescriptorType):
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


def everything(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """All attributes of an object."""
    held = dict_of(x)
    if held is not None:
        r.owners[id(held)] = x
        container(r, held, code, True, named)


def whole(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object of this package that holds what users put into it; its own code is not looked at.

    An iterator is one for what it iterates over, too.
    """
    r.note_class(x)
    everything(r, x, code, placed, named and hasattr(type(x), "__next__"))


def ours(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """An object of this package: attributes that code names, such as a flag."""
    held = dict_of(x)
    if held:
        r.entries(held, x, r.names(code) & held.keys(), code, goes_on=False)


def layer_called(r: Notes, code: Code, module: Any) -> None:
    """A layer is called: what the call itself looks at."""
    held = vars(module)
    r.owners[id(held)] = module
    if not r.is_first("called", module):
        return
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


def containers_in(x: Any) -> Iterator[Any]:
    """A dict or list and those in it."""
    if issubclass(type(x), dict | list):
        yield x
    for part in items_of(x) if issubclass(type(x), dict | list | tuple) else ():
        if issubclass(type(part), dict | list | tuple):
            yield from containers_in(part)


def schedule(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A schedule of learning rates: all of it."""
    if id(x) not in r.schedules:
        r.schedules[id(x)] = x
        r.pending.append(x)
    everything(r, x, code, placed, False)


# --- classes --------------------------------------------------------------------------------------------------


def of_class(r: Notes, cls: type, name: str, code: Code) -> Any:
    """What a class has under a name, and that none of the classes before it has it; all that `super()` may find."""
    for base in _users_bases(cls) if r.is_first("bases", cls) else ():
        r.put(Attributes(base), base, "__bases__", base.__bases__)
    found, without = MISSING, list[type]()
    for base in cls.__mro__:
        if name not in base.__dict__:
            without.append(base)
            continue
        value = base.__dict__[name]
        if is_python_class(base):
            r.put(Class(base), base, name, value)
        for part in _parts_of_member(value) if not is_ours(base) else ():
            r.push(part, code, True, True, False)
        found = value if found is MISSING else found
        if not code.calls_super:
            break
    if found is not MISSING:
        _absent(r, without, (name,))
    return found


def _users_bases(cls: type) -> list[type]:
    """A class and its bases, without those of this package and those written in C."""
    return [base for base in cls.__mro__ if is_python_class(base) and not is_ours(base)]


def _absent(r: Notes, classes: Iterable[type], names: Collection[str]) -> None:
    """Names that some classes do not have."""
    for base in filter(is_python_class, classes if names else ()):
        r.note_absent(base, names)


def _parts_of_member(value: Any) -> tuple[Any, ...]:
    """What runs, or is given, where code asks for what a class has."""
    cls = type(value)
    if issubclass(cls, property):
        return (value.fget, value.fset, value.fdel, *(() if cls is property else (value,)))
    if issubclass(cls, staticmethod | classmethod):
        return (value.__func__,)
    return () if issubclass(cls, types.MemberDescriptorType | types.GetSetDescriptorType) else (value,)


def _on_class(r: Notes, cls: type, code: Code, names: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return which names a class has; which of these are slots; which it has not."""
    values = {name: of_class(r, cls, name, code) for name in names}
    found = [name for name, v in values.items() if v is not MISSING and not issubclass(type(v), property)]
    kept: Any = types.MemberDescriptorType
    if issubclass(cls, BaseException):  # its cause and the like
        kept |= types.GetSetDescriptorType
    data = [name for name in found if issubclass(type(values[name]), kept) and name not in ("__class__", "__dict__")]
    missing = [name for name, v in values.items() if v is MISSING]
    _absent(r, cls.__mro__, _noticed(r, code, missing, cls))
    return found, data, missing


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
    *_, missing = _on_class(r, x, code, r.names(code))
    for name in missing if type(x) is not type else ():
        if of_class(r, type(x), name, code) is not MISSING:
            _absent(r, x.__mro__, (name,))
    if (named or code.looks_deep) and (code.looks_at_all or code.computes_names) and not is_ours(x):
        _all_of_class(r, x, code)


def special_methods(r: Notes, cls: type) -> None:
    """Methods that Python itself calls where a class has them, and goes on without where it has not."""
    for base in cls.__mro__:
        if r.is_first("special", base) and is_of_user(base):
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
    for base in _users_bases(cls) if not _DESCRIBE.isdisjoint(names | code.globals) else ():
        of_class(r, base, "__annotations__", code)


_OF_CLASSES = frozenset(["__name__", "__qualname__"])
"""What a class keeps in no dict."""


def _unnamed_slots(cls: type) -> Iterator[str]:
    """Methods that Python itself calls, such as `__call__`, which are no function of that name: a lambda, a partial."""
    for base in _users_bases(cls):
        for name, value in list(vars(base).items()):
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
    users = whose(str(getattr(x, "__file__", ""))) is USERS and x.__name__ not in sys.builtin_module_names
    lists = code.looks_at_all and not code.globals.isdisjoint(("vars", "dir"))
    if named and not ours and (lists or (code.computes_names and users)):
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
    r.entries(held, x, names & held.keys(), code)
    r.push(held.get("__wrapped__"), code, True, True)
    for cell in (x.__closure__ or ()) if ours or held else ():
        inner = Attributes(cell).get("cell_contents", MISSING)
        if isinstance(inner, types.FunctionType | types.MethodType):
            r.push(inner, code, True, True)
    if ours:
        return
    if held and named and (code.looks_at_all or code.computes_names):
        container(r, held, code, True, False)
    r.note_function(x)
    if code.may_ask_for_absent:
        r.owners[id(held)] = x
        r.note_absent(held, names - held.keys())
    describes = not _DESCRIBE.isdisjoint(names | code.globals)
    for name in _OF_FUNCTIONS if describes else names & _OF_FUNCTIONS:
        r.put(Attributes(x), x, name, getattr(x, name), code)
    if "__globals__" in code.attributes:
        r.entries(x.__globals__, x, names & x.__globals__.keys(), code)
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
    """A function written in C, which is called: its object; one that acts must not be passed on."""
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
            raise AsWritten(f"{describe(x)} is passed on, and it may act outside{code.place()}", lasting=False)


def _by_any_name(r: Notes, method: Any, x: Any, code: Code) -> None:
    """A method that looks attributes up, or sets them, by a name that stands elsewhere."""
    held = dict_of(x)
    if method.__name__ in _OF_ATTRIBUTES and not issubclass(type(x), type | types.ModuleType | Tensor):
        r.owners[id(held)] = x
        _all_attributes(r, _NO_ATTRIBUTES if held is None else held, x, type(x), code)


_OF_ATTRIBUTES = frozenset(["__getattribute__", "__setattr__", "__delattr__"])


def _names_given_to(x: Any) -> Iterator[str]:
    """The names that an `attrgetter` or a `methodcaller` looks up."""
    return (name for text in x.__reduce__()[1] if isinstance(text, str) for name in text.split("."))


def cached(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A function that keeps its results: the function, and the results."""
    own_attributes(r, x, code, named)
    if r.is_first("cached", x):
        if issubclass(type(x.__wrapped__), types.FunctionType):
            r.caches[id(x.__wrapped__.__code__)] = x
        r.fact(Cached(x))
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
    for item in [*dict.keys(x), *items_of(x)] if issubclass(type(x), dict) else items_of(x):
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
    is_new = placed and r.is_first("content", x)
    if is_new:
        r.fact(Content(x, array_content(x)))
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
    r.put(Attributes(x), x, "cell_contents", Attributes(x).get("cell_contents", MISSING), code)


def weak(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A weak reference or a proxy: that what it leads to is there, which is not kept alive for it."""
    is_ref = issubclass(type(x), weakref.ref)
    if is_ref:
        own_attributes(r, x, code, named)
    there: Any = x() if is_ref else _behind_proxy(x)
    if is_ref or there is not None:
        r.behind_weak.add(id(there))
        if r.is_first("weak", x):
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
        r.entries(held, x, r.names(code) & held.keys(), code)
        if named and (code.looks_at_all or code.computes_names):
            container(r, held, code, True, False)


def _behind_proxy(x: Any) -> Any:
    try:
        return x.__repr__.__self__
    except ReferenceError:
        return None


def lock(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A lock, which the function may take and give back. While it is traced it must not wait for others."""
    text = repr(x)
    mine = "<unlocked" in text or f"owner={threading.get_ident()} " in text
    if placed and not mine and (id(x), "state") not in r.known:
        raise AsWritten(f"it reaches a {type(x).__name__} from outside that is taken", lasting=False)
    r.put(Lock(x), x, "state", (text if placed else before_it_was_taken(text),))


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


def decimals(r: Notes, x: Any, code: Code, placed: bool, named: bool) -> None:
    """A decimal number, with which the thread computes as it is set."""
    r.state(context_of_decimals)
    if is_python_class(type(x)):
        instance(r, x, code, placed, named)


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
    (memoryview, lambda r, x, code, placed, named: r.push(x.obj, code, placed, named)),
    ((types.MappingProxyType, property, staticmethod, classmethod, types.GenericAlias, slice, *_VIEWS), leads_on),
    ((*ARRAYS, array.array), array_),
    ((dict, list, tuple, set, frozenset, deque), container_of_a_class),
    (weakref.ref, weak),
    (threading.local, lambda r, x, code, placed, named: attributes(r, OfThread(x), x, code, named)),
    ((operator.attrgetter, operator.methodcaller), lambda r, x, code, *_: r.add_names(code, _names_given_to(x))),
    (type(functools.lru_cache(int)), cached),
    (ContextVar, lambda r, x, code, *_: r.variable(x, code)),
    ((types.MemberDescriptorType, types.GetSetDescriptorType), lambda r, x, code, *_: r.add_names(code, (x.__name__,))),
    (LOCKS, lock),
    (decimal.Decimal, decimals),
    (_SAFE, safe),
    (weakref.ProxyTypes, weak),
)
"""Classes, and of what kind their objects are."""
_SAFE_MODULES = frozenset([
    "_abc", "collections", "_datetime", "datetime", "_decimal", "decimal", "_json", "_struct",
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
        _kinds[cls] = kind = safe if issubclass(cls, threading.local) and is_ours(cls) else kind
    if kind is instance or kind is safe:
        held = getattr(x, "__dict__", None) if kind is safe and is_ours(cls) else dict_of(x)
        if held and kind is instance:
            if "param_groups" in held and "state" in held:
                return optimizer
            if "optimizer" in held and hasattr(cls, "get_last_lr"):
                return schedule
        if is_ours(cls) and held and not ("_parameters" in held and "_modules" in held):
            is_data = cls.__module__.partition(".")[2].startswith(_OF_USERS_DATA)
            return whole if is_data or any(name in held for name in _HOLDS_USERS_DATA) else ours
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
