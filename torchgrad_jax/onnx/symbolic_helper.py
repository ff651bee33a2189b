"""Decorators of functions that torch's exporter to ONNX would call. Nothing here does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .._core.errors import no_such_name as _no_such_name

_F = TypeVar("_F", bound=Callable[..., Any])


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """Return the function as it is: nothing is exported, and so it is never called."""
    return lambda fn: fn


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.onnx.symbolic_helper.{name}"))
