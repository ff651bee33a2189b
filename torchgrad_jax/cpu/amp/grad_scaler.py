"""torch.cpu.amp.grad_scaler."""

from __future__ import annotations

from ...amp._first_names import DeviceGradScaler


class GradScaler(DeviceGradScaler):
    """`torch.amp.GradScaler("cpu", ...)`, which torch recommends instead."""

    _DEVICE = "cpu"


__all__ = ["GradScaler"]
