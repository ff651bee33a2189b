"""What a scripted function does to its arguments: numbers become of the kind that is annotated."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from .._engine.memory.tensor import Tensor

Cast = Callable[[Any], Any]


class _Refused(Exception):
    """A value that does not become what is annotated."""


def _float(value: Any) -> float:
    if isinstance(value, str) or (not hasattr(value, "__float__") and not _indexes(value)):
        raise _Refused
    return float(value)


def _int(value: Any) -> int:
    if isinstance(value, str | float) or (not hasattr(value, "__int__") and not _indexes(value)):
        raise _Refused
    return int(value)


def _complex(value: Any) -> complex:
    if isinstance(value, str) or not any(hasattr(value, f"__{n}__") for n in ("complex", "float")):
        raise _Refused
    return complex(value)


def _bool(value: Any) -> bool:
    if value is not None and not hasattr(value, "__bool__"):
        raise _Refused
    return bool(value)


def _indexes(value: Any) -> bool:
    return hasattr(value, "__index__")


_NUMBERS: dict[Any, Cast] = {float: _float, int: _int, bool: _bool, complex: _complex}


def _name(kind: Any) -> str:
    """A type as TorchScript writes it: ``List[float]``."""
    args = typing.get_args(kind)
    if not args:
        return getattr(kind, "__name__", str(kind))
    if _is_optional(kind):
        return f"Optional[{_name(args[0])}]"
    return f"{typing.get_origin(kind).__name__.capitalize()}[{', '.join(map(_name, args))}]"


def _is_optional(kind: Any) -> bool:
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    args = typing.get_args(kind)
    return union and len(args) == 2 and args[1] is type(None)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, type) and kind in _NUMBERS


def _cast(kind: Any) -> Cast | None:
    """What makes a value of this type of another; None where there is nothing to do."""
    if _is_number(kind):
        return _NUMBERS[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    parts = [_cast(a) for a in args] if origin is not None else []
    if not any(parts):
        return None
    if _is_optional(kind):
        inner = parts[0]
        return None if inner is None else (lambda v: None if v is None else inner(v))
    if origin is list:
        return functools.partial(_list, parts[0])
    if origin is tuple and Ellipsis not in args:
        return functools.partial(_tuple, parts)
    if origin is dict:
        return functools.partial(_dict, *parts)
    return None  # a union of several types takes a value as it is


def _same(value: Any) -> Any:
    return value


def _list(part: Cast | None, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _Refused
    return [*map(part or _same, value)]


def _tuple(parts: list[Cast | None], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) != len(parts):
        raise _Refused
    return tuple([(part or _same)(v) for part, v in zip(parts, value)])


def _dict(key: Cast | None, item: Cast | None, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _Refused
    return {(key or _same)(k): (item or _same)(v) for k, v in value.items()}


def _casts(fn: Any) -> dict[str, tuple[int, Any, Cast]]:
    """By name the parameters with something to do: position, annotation, and what to do."""
    try:
        hints = typing.get_type_hints(fn)
    except NameError:  # an annotation that nothing in sight explains
        return {}
    places = {name: i for i, name in enumerate(inspect.signature(fn).parameters)}
    found = {name: (i, hints[name], _cast(hints[name])) for name, i in places.items() if name in hints}
    return {name: (i, kind, cast) for name, (i, kind, cast) in found.items() if cast is not None}


def with_casts(fn: types.FunctionType) -> Any:
    """The function, called with arguments as TorchScript would hand them over."""
    casts = _casts(fn)
    if not casts:
        return fn
    name = fn.__name__

    def become(label: str, value: Any) -> Any:
        position, kind, cast = casts[label]
        if type(value) is kind:
            return value
        try:
            return cast(value)
        except (_Refused, TypeError, ValueError, RuntimeError) as e:
            found = "Tensor" if isinstance(value, Tensor) else type(value).__name__
            raise RuntimeError(
                f"{name}() Expected a value of type '{_name(kind)}' for argument '{label}' but instead "
                f"found type '{found}'.\nPosition: {position}\nValue: {value!r}"
            ) from e

    at = {position: label for label, (position, _, _) in casts.items()}
    parameters = inspect.signature(fn).parameters
    defaults = {
        label: (at_, become(label, parameters[label].default))
        for label, (at_, _, _) in casts.items()
        if parameters[label].default is not inspect.Parameter.empty
    }

    @functools.wraps(fn)
    def scripted(*args: Any, **kwargs: Any) -> Any:
        given = [become(at[i], v) if i in at else v for i, v in enumerate(args)]
        named = {k: become(k, v) if k in casts else v for k, v in kwargs.items()}
        for label, (position, value) in defaults.items():
            if position >= len(given):
                named.setdefault(label, value)
        return fn(*given, **named)

    return scripted
