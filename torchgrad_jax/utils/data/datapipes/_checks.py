"""What pipes ask of the functions that they are given, and of the pipes."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sized
from typing import Any


def size(pipe: Any, source: Any) -> int:
    """The length of what a pipe reads from."""
    if isinstance(source, Sized):
        return len(source)
    raise no_size(pipe)


def no_size(pipe: Any) -> TypeError:
    """For pipes that cannot know."""
    return TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


def check_function(fn: Any) -> None:
    """Complain of what cannot be called, and warn of what cannot be pickled."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    fn = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(fn, "__name__", "")
    nested = "<locals>" in getattr(fn, "__qualname__", "") and not inspect.isclass(fn)
    if nested and hasattr(fn, "__code__"):
        kind = "Local"
    elif name == "<lambda>":
        kind = "Lambda"
    else:
        return
    warnings.warn(
        f"{kind} function is not supported by pickle, please use regular python function or functools.partial instead.",
        stacklevel=3,
    )


def check_columns(fn: Callable[..., Any], columns: Any) -> None:
    """Complain of a function that does not take as many arguments as there are columns."""
    try:
        given = inspect.signature(fn).parameters.values()
    except ValueError:  # a function that is not Python's
        return
    wanted = len(columns) if isinstance(columns, (list, tuple)) else 1
    plain = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p for p in given if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    any_number = any(p.kind is p.VAR_POSITIONAL for p in given)
    inner = fn.func if isinstance(fn, functools.partial) else fn
    told = f"The function {getattr(inner, '__name__', repr(inner))} takes"
    if by_name:
        raise ValueError(
            f"{told} {len(by_name)} non-default keyword-only parameters, which is not allowed."
        )
    if len(given) < wanted:
        if not any_number:
            raise ValueError(f"{told} {len(given)} parameters, but {wanted} are required.")
        return
    many = any(p.default is p.empty for p in plain[wanted:])
    if many or (len(plain) < wanted and not any_number):
        raise ValueError(f"{told} {len(plain)} positional parameters, but {wanted} are required.")


def columns_of(fn: Callable[..., Any], columns: Any, data: Any) -> Any:
    """A function of an example, or of columns of it."""
    if columns is None:
        return fn(data)
    if isinstance(columns, (list, tuple)):
        return fn(*[data[c] for c in columns])
    return fn(data[columns])
