"""The few names of torch._dynamo that scripts use around torch.compile."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name
from ..compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    reset as reset,
)


class _Config:
    """Settings of a compiler that is not there; `suppress_errors` alone has a meaning, False."""

    def __getattr__(self, name: str) -> Any:
        if name == "suppress_errors":
            return False
        raise AttributeError(_no_such_name(f"torch._dynamo.config.{name}"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "suppress_errors" and value is False:
            return
        raise AttributeError(_no_such_name(f"torch._dynamo.config.{name}"))


config = _Config()


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Nothing: each shape is compiled for itself, and all are right."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: XLA decides where arrays are."""


def is_dynamo_supported() -> bool:
    """True: `torch.compile` works wherever this package does."""
    return True


def is_inductor_supported() -> bool:
    """True: XLA compiles what inductor would."""
    return True


def graph_break(msg: str = "") -> None:
    """Nothing outside of compiled code."""


def __getattr__(name: str) -> Any:
    if name == "OptimizedModule":
        return __getattr__("eval_frame").OptimizedModule
    if name == "eval_frame":  # needs nn, which is above this package
        import importlib

        return importlib.import_module(f"{__name__}.eval_frame")
    raise AttributeError(_no_such_name(f"torch._dynamo.{name}"))
