"""torch.cpu.amp.autocast_mode."""

from __future__ import annotations

from ...amp._first_names import DeviceAutocast


class autocast(DeviceAutocast):
    """`torch.amp.autocast("cpu", ...)`, which torch recommends instead."""

    _DEVICE = "cpu"


__all__ = ["autocast"]
