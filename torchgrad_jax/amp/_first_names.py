"""torch.amp for one type of devices, as torch had it first: what torch.cpu.amp and torch.cuda.amp share."""

from __future__ import annotations

from typing import Any

from .._core.errors import warn
from . import autocast_mode, grad_scaler


def _recommend(name: str, device: str) -> None:
    warn.to_user(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. "
        f"Please use `torch.amp.{name}('{device}', args...)` instead.",
        FutureWarning,
    )


class DeviceAutocast(autocast_mode.autocast):
    """`torch.amp.autocast` for one type of devices."""

    _DEVICE = ""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        _recommend("autocast", self._DEVICE)
        super().__init__(self._DEVICE, dtype, enabled, cache_enabled)


class DeviceGradScaler(grad_scaler.GradScaler):
    """`torch.amp.GradScaler` for one type of devices."""

    _DEVICE = ""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _recommend("GradScaler", self._DEVICE)
        super().__init__(self._DEVICE, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
