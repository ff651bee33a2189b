"""Who says what is right."""

from __future__ import annotations

from ..judge import Oracle
from ..libs import torch_installed


def choose(name: str) -> Oracle:
    """The oracle of a name: live torch, recorded torch, or auto, which is live torch where that is installed."""
    if name == "live" or (name == "auto" and torch_installed()):
        import torch

        from .torch_live import LiveTorch

        torch.set_num_threads(1)
        return LiveTorch()
    from .torch_recorded import RecordedTorch

    return RecordedTorch()
