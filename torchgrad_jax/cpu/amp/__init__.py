"""torch.cpu.amp: torch.amp for one type of devices, as torch had it first."""

from __future__ import annotations

from ...amp._first_names import DeviceAutocast, DeviceGradScaler


class autocast(DeviceAutocast):
    """`torch.amp.autocast("cpu", ...)`, which torch recommends instead."""

    _DEVICE = "cpu"


class GradScaler(DeviceGradScaler):
    """`torch.amp.GradScaler("cpu", ...)`, which torch recommends instead."""

    _DEVICE = "cpu"
