"""What kinds of objects a function can reach, by how what it reads of them is watched."""

from __future__ import annotations

import array
import enum
import functools
import io
import operator
import re
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque, namedtuple
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from ...._core.python_classes import is_python_class
from ...._engine.memory.tensor import Tensor
from .array_contents import ARRAYS
from .code_that_reads import OURS, is_about_code, whose
from .places import LOCKS

ATOMS = frozenset(
    [int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, object]
)
"""Classes of values that are nothing but what they are."""


class Kind(enum.Enum):
    """How an object is watched."""

    INSTANCE = enum.auto()  # by the attributes that code names
    CONTAINER = enum.auto()  # by all that is in it
    FUNCTION = enum.auto()
    METHOD = enum.auto()
    CLASS = enum.auto()
    MODULE = enum.auto()
    BUILTIN = enum.auto()  # written in C, and called
    ARRAY = enum.auto()  # by its bytes
    LEADS_ON = enum.auto()  # a cell, a view, a partial: by what it holds
    OPTIMIZER = enum.auto()
    SCHEDULE = enum.auto()
    WHOLE = enum.auto()  # by all attributes
    WEAK = enum.auto()
    PROXY = enum.auto()
    LOCAL = enum.auto()  # attributes that each thread has for itself
    NAMES = enum.auto()  # looks up attributes by name
    CACHED = enum.auto()  # keeps the results of a function
    VARIABLE = enum.auto()  # of a context
    LOCK = enum.auto()
    ITERATOR = enum.auto()
    OURS = enum.auto()  # an object of this package
    SAFE = enum.auto()  # nothing in it ever changes
    OPAQUE = enum.auto()  # has state that nothing tells


_BUILTINS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    type(np.sum),  # a function of Python, which NumPy calls from C
)
_VIEWS = tuple({type(view) for d in ({}, OrderedDict()) for view in (d.keys(), d.values(), d.items())})
_LEADS_ON = (
    functools.partial, types.CellType, types.MappingProxyType, property, staticmethod, classmethod, memoryview,
    types.GenericAlias, slice, *_VIEWS,
)  # fmt: skip
_SAFE = (
    types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.UnionType, types.FrameType,
    types.TracebackType, re.Pattern, re.Match, operator.itemgetter, np.dtype, np.generic, np.ufunc, type(np.sum),
    jax.Array, jax.core.Tracer, type(namedtuple("_", "field").field),
)  # fmt: skip
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
_CACHED = type(functools.lru_cache(int))

_kinds: weakref.WeakKeyDictionary[type, Kind] = weakref.WeakKeyDictionary()
_ours: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary({Tensor: True})


def kind_of(x: Any) -> Kind:
    """How an object is watched."""
    cls = type(x)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kind_of_class(cls)
        if kind is Kind.LOCAL and is_ours(cls):
            kind = Kind.SAFE
        _kinds[cls] = kind
    if kind is Kind.INSTANCE or kind is Kind.SAFE:
        held = getattr(x, "__dict__", None) if kind is Kind.SAFE and is_ours(cls) else dict_of(x)
        if held and kind is Kind.INSTANCE:
            if "param_groups" in held and "state" in held:
                return Kind.OPTIMIZER
            if "optimizer" in held and hasattr(cls, "get_last_lr"):
                return Kind.SCHEDULE
        if is_ours(cls) and held and not ("_parameters" in held and "_modules" in held):
            if any(name in held for name in _HOLDS_USERS_DATA) or _is_users_data(cls):
                return Kind.WHOLE
            return Kind.OURS
    return kind


def dict_of(x: Any) -> dict[str, Any] | None:
    """The attributes of an object, without asking its class."""
    try:
        held = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None


def _kind_of_class(cls: type) -> Kind:
    for kind, classes in _BY_CLASS:
        if issubclass(cls, classes):
            return kind
    if cls in weakref.ProxyTypes:
        return Kind.PROXY
    if (cls.__module__ or "").partition(".")[0] in _SAFE_MODULES and not is_python_class(cls):
        return Kind.SAFE
    if issubclass(cls, io.IOBase):
        return Kind.OPAQUE
    advance = getattr(cls, "__next__", None)
    if advance is not None and not isinstance(advance, types.FunctionType):
        return Kind.ITERATOR
    for base in cls.__mro__:
        if not is_python_class(base) and base not in _BASES_WITHOUT_STATE and not issubclass(base, BaseException):
            return Kind.OPAQUE
    return Kind.INSTANCE


_BY_CLASS: tuple[tuple[Kind, Any], ...] = (
    (Kind.CLASS, type),
    (Kind.FUNCTION, types.FunctionType),
    (Kind.METHOD, types.MethodType),
    (Kind.MODULE, types.ModuleType),
    (Kind.BUILTIN, _BUILTINS),
    (Kind.LEADS_ON, _LEADS_ON),
    (Kind.ARRAY, (*ARRAYS, array.array)),
    (Kind.CONTAINER, (dict, list, tuple, set, frozenset, deque)),
    (Kind.WEAK, weakref.ref),
    (Kind.LOCAL, threading.local),
    (Kind.NAMES, (operator.attrgetter, operator.methodcaller)),
    (Kind.CACHED, _CACHED),
    (Kind.VARIABLE, ContextVar),
    (Kind.LOCK, LOCKS),
    (Kind.SAFE, _SAFE),
)


def is_ours(cls: type) -> bool:
    """Whether a class is defined in this package or in JAX: by the file of its methods, or of its module."""
    known = _ours.get(cls)
    if known is None:
        held = [_function_of(value) for value in list(vars(cls).values())]
        files = [
            v.__code__.co_filename for v in held if isinstance(v, types.FunctionType) and v.__module__ == cls.__module__
        ]
        if not files:
            files = [getattr(sys.modules.get(cls.__module__), "__file__", None) or ""]
        known = _ours[cls] = any(whose(file) == OURS and not is_about_code(file) for file in files)
    return known


def _function_of(value: Any) -> Any:
    return getattr(value, "fget", None) or getattr(value, "__func__", value)


def _is_users_data(cls: type) -> bool:
    return any(cls.__module__.partition(".")[2].startswith(part) for part in _OF_USERS_DATA)
