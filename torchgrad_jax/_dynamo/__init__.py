"""The few names of torch._dynamo that scripts use around torch.compile."""

from __future__ import annotations

from typing import Any

from .._bridge.compile.explain import one_program_per_shape as _one_program_per_shape
from .._core.errors.messages import missing as _missing
from ..compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    list_backends as list_backends,
    reset as reset,
    set_stance as set_stance,
)
from . import config as config, exc as exc


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """A warning: each shape is compiled for itself, and all are right."""
    _one_program_per_shape("mark_dynamic()")


def mark_static(t: Any, index: Any = None) -> None:
    """Nothing: each shape is compiled for itself."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: XLA decides where arrays are."""


def is_dynamo_supported() -> bool:
    """True: `torch.compile` works wherever this package does."""
    return True


def graph_break(msg: str = "") -> None:
    """Nothing outside of compiled code."""


# `eval_frame` needs nn, which is above this package.
__getattr__ = _missing(__name__, OptimizedModule="eval_frame")
