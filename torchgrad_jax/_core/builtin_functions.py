"""Builtin functions: objects of Python's class for functions written in C, each of which calls a function of Python.

A function of Python in a class is a method, and gets `self`; a builtin function is not. torch's operators are builtin
functions, so programs write ``act = torch.relu`` in the body of a class. An object made here has the class, the name,
the module and the text that torch's has, and calling it costs some 15 ns more than calling the function itself: Python
hands the arguments on where they lie.
"""

from __future__ import annotations

import copyreg
import ctypes
import inspect
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, TypeAlias, TypeVar

F = TypeVar("F")
_Parameters: TypeAlias = Sequence[tuple[str, Any]]

_FASTCALL_WITH_KEYWORDS = 0x80 | 0x02
"""METH_FASTCALL | METH_KEYWORDS: the C function gets `__self__`, the arguments, their number, and names of the last."""


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_call = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value
"""The C function of every object: it takes what a C function with these flags gets, and calls `__self__` with it."""
_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.POINTER(_Definition), ctypes.py_object, ctypes.py_object)
_made: dict[Any, Any] = {}


def builtin(fn: F, parameters: str | None = None) -> F:
    """Return the builtin function that calls a function of Python: always the same one for the same function.

    Args:
        fn: the function, whose name, module and text it has.
        parameters: what `inspect.signature` reads, such as ``"(input, dim=None)"``, if that is not what `fn` has.
    """
    made = _made.get(fn)
    if made is None:
        text = fn.__doc__ or ""
        parameters = parameters or _own_parameters(fn)
        if parameters is not None:
            text = f"{fn.__name__}{parameters}\n--\n\n{text}"
        definition = _Definition(fn.__name__.encode(), _call, _FASTCALL_WITH_KEYWORDS, text.encode())
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # the object reads it until Python ends
        made = _made[fn] = _new(ctypes.byref(definition), fn, fn.__module__)
    return made


def function_of(x: Any) -> Any:
    """Return the function of Python that a builtin function calls; anything else as it is."""
    return x.__self__ if type(x) is BuiltinFunctionType and type(x.__self__) is FunctionType else x


def shown(fn: Any) -> Any:
    """Return the object by which users know a function: the builtin function that calls it, if there is one."""
    return _made.get(fn, fn) if type(fn) is FunctionType else fn


def _own_parameters(fn: Any) -> str | None:
    """Return the parameters of a function as text; `inspect.signature` takes a hundred times as long."""
    fn = inspect.unwrap(fn)
    code, defaults = fn.__code__, fn.__defaults__ or ()
    names, flags, count = code.co_varnames, code.co_flags, code.co_argcount
    rest = [*names[count + code.co_kwonlyargcount :]]
    args = rest.pop(0) if flags & inspect.CO_VARARGS else ""
    given = {**dict(zip(names[count - len(defaults) : count], defaults)), **(fn.__kwdefaults__ or {})}
    parts = [(n, given.get(n, REQUIRED)) for n in names[: count + code.co_kwonlyargcount]]
    return parameters_text(parts[:count], parts[count:], args, rest[0] if flags & inspect.CO_VARKEYWORDS else "")


REQUIRED: Any = inspect.Parameter.empty
_LITERALS = frozenset([bool, int, float, str, tuple, type(None)])


def parameters_text(positional: _Parameters, named: _Parameters, args: str = "", kwargs: str = "") -> str | None:
    """Return names and defaults as a builtin function shows them, or None where a default is no literal."""
    if any(d is not REQUIRED and d.__class__ not in _LITERALS for _, d in (*positional, *named)):
        return None
    star = [f"*{args}"] if args else ["*"] if named else []
    before, after = ([n if d is REQUIRED else f"{n}={d!r}" for n, d in each] for each in (positional, named))
    return f"({', '.join([*before, *star, *after, *([f'**{kwargs}'] if kwargs else [])])})"


def _reduced(x: Any) -> Any:
    """Pickle one of these by its name, and all other builtin functions as ever."""
    return x.__name__ if function_of(x) is not x else x.__reduce__()


copyreg.pickle(BuiltinFunctionType, _reduced)  # type: ignore[arg-type]
