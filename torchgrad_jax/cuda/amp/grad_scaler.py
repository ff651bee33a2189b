"""torch.cuda.amp.grad_scaler."""

from __future__ import annotations

from ...amp._first_names import DeviceGradScaler


class GradScaler(DeviceGradScaler):
    """`torch.amp.GradScaler("cuda", ...)`, which torch recommends instead."""

    _DEVICE = "cuda"


__all__ = ["GradScaler"]
