"""torch.nn."""

from __future__ import annotations

from typing import Any

from .._functions.linear_loss import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from . import functional as functional, parameter as parameter
from .parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchgrad_jax does not implement torch.nn.{name}")
