"""The errors of `torch.compile`."""

from __future__ import annotations

from .._core.errors.messages import (
    InvalidBackend as InvalidBackend,
    TorchDynamoException as TorchDynamoException,
    Unsupported as Unsupported,
)
