"""The node that programs look for by its class, as in torch._C._functions."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import no_such_name as _no_such_name
from .._engine.graph.node import AccumulateGrad as AccumulateGrad

__all__ = ["AccumulateGrad"]


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch._C._functions.{name}"))
