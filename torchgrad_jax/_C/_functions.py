"""The node that programs look for by its class, as in torch._C._functions."""

from __future__ import annotations

from .._core.errors.messages import missing as _missing
from .._engine.graph.node import AccumulateGrad as AccumulateGrad

__all__ = ["AccumulateGrad"]

__getattr__ = _missing(__name__)
