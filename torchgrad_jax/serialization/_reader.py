"""torch.PyTorchFileReader: a name for annotations; torch.load reads files."""

from __future__ import annotations

from typing import Any


class PyTorchFileReader:
    """Refused: torch.load reads checkpoints, and no reader of their parts is public here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.PyTorchFileReader is not supported: torch.load reads checkpoints (with mmap=True storages when "
            "their tensors are made)"
        )
