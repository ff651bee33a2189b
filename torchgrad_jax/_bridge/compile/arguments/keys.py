"""By what a compiled function knows a call again, and how it speaks of itself."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._core.arrays import tree
from ...._core.python_classes import is_python_class
from ...._core.python_values import PLAIN_VALUES
from ...._engine.memory.tensor import Tensor


class OftenAnew(str):
    """Why a program was not right that may be so in each call: of such programs, there are a few and no more."""

    __slots__ = ()


def name_of(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)


def recompile(fn: Any) -> str:
    """The error where nothing may be compiled any more."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    name, line, file = (name_of(fn), 0, "") if code is None else (code.co_name, code.co_firstlineno, code.co_filename)
    return (
        f"Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '{file}', function name: "
        f"'{name}', line number: {line}"
    )


def shape_of(spec: tree.Spec) -> Any:
    """A hashable form of a tree's structure."""
    return (spec.kind, _shape_of_context(spec.context), *map(shape_of, spec.children)) if spec.kind else None


def _shape_of_context(context: Any) -> Any:
    """Return what else there is to a container, such as the keys of a dict."""
    if context is None:
        return None
    if type(context) is list or type(context) is tuple:
        return tuple([x if x.__class__ is str else _shape_of_context(x) for x in context])
    return key_of_constant(context)


CONSTANTS = (*PLAIN_VALUES, np.ndarray, np.generic)
"""Classes of arguments that are constants of a program, known by their values."""


def key_of_constant(x: Any) -> Any:
    """By what an argument is known again that is no input: by its value if that is all there is to it, else itself."""
    if x.__class__ is float:
        return float, x.hex()  # 0.0 and -0.0 are two numbers
    if x.__class__ in PLAIN_VALUES:
        return x.__class__, x
    if isinstance(x, CONSTANTS):
        held = attributes_of(x)
        if held is None or _has_slots(type(x)) or (isinstance(x, np.ndarray) and x.dtype.hasobject):
            return id(x)
        if isinstance(x, np.ndarray | np.generic):
            return x.__class__, x.dtype, x.shape, x.tobytes(), held
        kind: Any = next(kind for kind in PLAIN_VALUES if isinstance(x, kind))
        return x.__class__, x.hex() if isinstance(x, float) else kind.__repr__(x), held
    return id(x)


def attributes_of(x: Any) -> tuple[Any, ...] | None:
    """The attributes that somebody gave an object, if all are plain values; None if they cannot be told apart so."""
    held = getattr(x, "__dict__", None) or {}
    if all(isinstance(v, PLAIN_VALUES) for v in held.values()):
        return tuple([(name, v.__class__, repr(v)) for name, v in sorted(held.items())])
    return None


@functools.lru_cache(1024)
def _has_slots(cls: type) -> bool:
    return any(
        isinstance(v, types.MemberDescriptorType) for c in cls.__mro__ if is_python_class(c) for v in vars(c).values()
    )


def shared_with(tensors: Sequence[Tensor], x: Tensor) -> int:
    """Return which earlier argument shares the storage of `x`, or -1."""
    for i, t in enumerate(tensors):
        if t._st is x._st:
            return i if t is x else -2 - i
    return -1
