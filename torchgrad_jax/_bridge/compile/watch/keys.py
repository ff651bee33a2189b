"""By what a compiled function knows a call again, and how it speaks of itself."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ...._core.arrays import tree
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
    context = spec.context
    try:
        hash(context)
    except TypeError:
        context = repr(context)
    return (spec.kind, context, *[shape_of(c) for c in spec.children]) if spec.kind else None


def shared_with(tensors: Sequence[Tensor], x: Tensor) -> int:
    """Which earlier argument shares the storage of `x`, or -1."""
    for i, t in enumerate(tensors):
        if t._st is x._st:
            return i if t is x else -2 - i
    return -1
