"""torch.cpu.amp: torch.amp for one type of devices, as torch had it first."""

from __future__ import annotations

import warnings
from typing import Any

from ...amp import autocast_mode as _mode, grad_scaler as _scaler


class autocast(_mode.autocast):
    """`torch.amp.autocast("cpu", ...)`, which torch recommends instead."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        warnings.warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. "
            "Please use `torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_scaler.GradScaler):
    """`torch.amp.GradScaler("cpu", ...)`, which torch recommends instead."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        warnings.warn(
            "`torch.cpu.amp.GradScaler(args...)` is deprecated. "
            "Please use `torch.amp.GradScaler('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
