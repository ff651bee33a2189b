"""Functions written in C that do nothing but compute: everything that is not on this list may act outside.

What a function does through Python's own statements is seen by what has changed afterwards. What C functions do is
not, so the list says of each what it does: it computes (`PURE`); it changes what it belongs to, if that is a list, a
dict or the like, which is compared afterwards (`HOLDER`); it reads all attributes of what it belongs to (`READER`); it
reads or sets a context variable (`VARIABLE`); it fills a text that names attributes (`TEMPLATE`); it looks at a
setting of the interpreter that can be compared (`STATE`).
Everything else acts (`EFFECT`).
"""

from __future__ import annotations

import abc
import decimal
import types
from collections.abc import Callable
from typing import Any

PURE, HOLDER, READER, VARIABLE, STATE, EFFECT = "pure", "holder", "reader", "variable", "state", "effect"
TEMPLATE = "template"

_VALUES = """str bytes int float bool complex tuple frozenset range slice NoneType ellipsis code property staticmethod
classmethod Pattern Match type builtin_function_or_method method function method_descriptor wrapper_descriptor
method-wrapper super getset_descriptor member_descriptor classmethod_descriptor partial itemgetter attrgetter
methodcaller GenericAlias UnionType traceback frame mappingproxy Decimal Fraction date time datetime timedelta timezone
Struct cell BaseException ReferenceType Token Scanner"""
"""Classes all of whose methods compute."""
_HOLDERS = """list dict set bytearray memoryview generator coroutine deque OrderedDict defaultdict dict_items dict_keys
dict_values odict_items odict_keys odict_values dict_itemiterator dict_keyiterator dict_valueiterator list_iterator
tuple_iterator set_iterator range_iterator str_iterator list_reverseiterator odict_iterator enumerate zip map filter
reversed array StringIO BytesIO HASH HASHXOF blake2b blake2s
ndarray lock RLock"""
"""Classes whose methods change or read what they belong to, and nothing else."""
_MODULES = """math cmath _operator itertools _functools _bisect _heapq _struct binascii unicodedata _stat _string _sre
_json _collections _abc _typing _statistics _ast zlib _md5 _sha1 _sha256 _sha512 _sha2 _sha3 _blake2 _hashlib _weakref
_datetime _opcode _tokenize jax jaxlib ml_dtypes"""
"""Modules all of whose functions compute."""
_BUILTINS = """abs all any ascii bin callable chr delattr dir divmod eval exec format getattr globals hasattr hash hex
id isinstance issubclass iter len locals max min next oct ord pow repr round setattr sorted sum vars compile
__build_class__ aiter anext __import__"""
_SINGLE = """sys.intern sys.exc_info sys.exception sys.getsizeof sys._getframe sys._getframemodulename
sys.getrefcount sys.is_finalizing sys.audit sys.getprofile posix.fspath posix._path_normpath _thread.get_ident
_thread.get_native_id _imp.acquire_lock _imp.release_lock gc.is_tracked _warnings._filters_mutated
_thread.allocate_lock _thread.RLock"""
_STATES = """sys.getrecursionlimit sys.gettrace sys._is_gil_enabled posix.getpid posix.cpu_count
faulthandler.is_enabled
_abc._abc_instancecheck _abc._abc_subclasscheck numpy._get_extobj_dict numpy.geterrobj"""
"""Functions that look at a setting of the interpreter or of the process."""
_OF_OBJECT = """__new__ __init__ __setattr__ __getattribute__ __delattr__ __init_subclass__ __format__ __sizeof__
__subclasshook__ __class_getitem__ __eq__ __ne__ __hash__ __repr__ __str__ __enter__ __exit__"""
_READERS = "__reduce_ex__ __reduce__ __getstate__ __dir__"
_ACTS_IN_NUMPY = """save savez tofile fromfile load memmap seterr setbufsize set_printoptions seterrcall seed random
rand randn randint shuffle permutation choice normal uniform"""

_values, _holders, _modules, _builtins, _single, _states, _of_object, _readers, _acts_in_numpy = (
    frozenset(text.split())
    for text in (_VALUES, _HOLDERS, _MODULES, _BUILTINS, _SINGLE, _STATES, _OF_OBJECT, _READERS, _ACTS_IN_NUMPY)
)
_known: dict[tuple[Any, ...], str] = {}


def verdict(function: Any) -> str:
    """What a function written in C does."""
    owner: Any = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    if issubclass(type(owner), types.ModuleType):
        key = ("module", owner.__name__, name)
    elif issubclass(type(owner), type):
        key = ("class", owner, name)
    elif owner is None:
        key = ("none", getattr(function, "__objclass__", None) or getattr(function, "__module__", None), name)
    else:
        key = ("object", type(owner), name)
    known = _known.get(key)
    if known is None:
        known = _known[key] = _find(*key)
    return known


def teller_of(function: Any) -> Callable[[], Any]:
    """For a function that looks at a setting: what tells how it is set."""
    return abc.get_cache_token if function.__name__.startswith("_abc_") else function


def context_of_decimals() -> Any:
    """How this thread computes with decimals."""
    context = decimal.getcontext()
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp


def _find(kind: str, of: Any, name: str) -> str:
    if kind == "module" or (kind == "none" and isinstance(of, str)):
        return _of_module(of, name)
    if of is None:
        return EFFECT
    if name in _readers:
        return READER
    if kind == "class" and name == "__new__":
        return PURE if _makes_values(of) else EFFECT
    owner = of if kind == "class" else next((base for base in of.__mro__ if _has_in_c(base, name)), of)
    kind_of_owner = owner.__name__
    if owner is object:
        return PURE if name in _of_object else EFFECT
    if issubclass(owner, BaseException) or owner.__module__.partition(".")[0] in ("jax", "jaxlib", "ml_dtypes"):
        return PURE
    if kind_of_owner == "ContextVar":
        return VARIABLE
    if owner.__module__ in ("datetime", "_datetime") and name in ("now", "utcnow", "today"):
        return EFFECT
    if kind_of_owner == "type" and name == "__subclasses__":
        return EFFECT
    if kind_of_owner == "str" and name in ("format", "format_map"):
        return TEMPLATE
    if kind_of_owner in _values or (kind == "class" and owner.__module__ == "itertools"):
        return PURE
    if kind_of_owner in _holders:
        return EFFECT if name in _acts_in_numpy or name == "dump" else HOLDER
    if owner.__module__.partition(".")[0] == "numpy":
        return PURE if issubclass(owner, _numpy_values()) else EFFECT
    return EFFECT


def _has_in_c(cls: type, name: str) -> bool:
    return name in vars(cls) and not isinstance(vars(cls)[name], types.FunctionType)


def _makes_values(of: type) -> bool:
    made = next((base for base in of.__mro__ if "__new__" in vars(base)), object)
    return made is object or made.__name__ in _values | _holders or issubclass(made, BaseException | type)


def _numpy_values() -> Any:
    import numpy as np

    return np.generic | np.dtype | np.ufunc | np.ndarray


def _of_module(module: str, name: str) -> str:
    package = module.partition(".")[0]
    if module == "builtins":
        return PURE if name in _builtins else EFFECT
    if f"{package}.{name}" in _states:
        return STATE
    if package == "numpy":
        return EFFECT if name in _acts_in_numpy or "random" in module else PURE
    return PURE if package in _modules or f"{module}.{name}" in _single else EFFECT


def describe(function: Any) -> str:
    """A function written in C, in words."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", repr(function))
    if owner is None:
        of = getattr(function, "__objclass__", None)
        return f"{of.__name__}.{name}()" if of is not None else f"{name}()"
    if issubclass(type(owner), types.ModuleType):
        return f"{name}()" if owner.__name__ == "builtins" else f"{owner.__name__.lstrip('_')}.{name}()"
    return f"{name}() of a {(owner if issubclass(type(owner), type) else type(owner)).__name__}"
