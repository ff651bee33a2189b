"""torch.cuda.amp: torch.amp for one type of devices, as torch had it first."""

from __future__ import annotations

from typing import Any

from ...amp import autocast_mode as _mode
from ...amp._first_names import DeviceAutocast, DeviceGradScaler


class autocast(DeviceAutocast):
    """`torch.amp.autocast("cuda", ...)`, which torch recommends instead."""

    _DEVICE = "cuda"


class GradScaler(DeviceGradScaler):
    """`torch.amp.GradScaler("cuda", ...)`, which torch recommends instead."""

    _DEVICE = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd` for GPUs."""
    return _mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`torch.amp.custom_bwd` for GPUs."""
    return _mode.custom_bwd(bwd, device_type="cuda")
