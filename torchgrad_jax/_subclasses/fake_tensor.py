"""Tensors with shapes and no data, which torch's compiler uses: here no tensor is one."""

from __future__ import annotations

from typing import Any

from .._engine.tensor import Tensor


class FakeTensor:
    """Nothing is an instance; device "meta" makes tensors without data."""


class FakeTensorMode:
    """Refused: use device "meta"."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "FakeTensorMode is not supported: tensors without elements are made on device 'meta'"
        )


def is_fake(x: Tensor | Any) -> bool:
    """False."""
    return False
