"""torch.cuda.amp.autocast_mode."""

from __future__ import annotations

from typing import Any

from ...amp import autocast_mode as _mode
from ...amp._first_names import DeviceAutocast


class autocast(DeviceAutocast):
    """`torch.amp.autocast("cuda", ...)`, which torch recommends instead."""

    _DEVICE = "cuda"


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd` for GPUs."""
    return _mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`torch.amp.custom_bwd` for GPUs."""
    return _mode.custom_bwd(bwd, device_type="cuda")


__all__ = ["autocast", "custom_bwd", "custom_fwd"]
