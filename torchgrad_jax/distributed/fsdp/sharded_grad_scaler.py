"""ShardedGradScaler: `GradScaler` for gradients of which each process has a part."""

from __future__ import annotations

from typing import Any

from ...amp.grad_scaler import GradScaler


class ShardedGradScaler(GradScaler):
    """`torch.amp.GradScaler`. A gradient is one tensor over all devices, so that all processes see an overflow.

    Args:
        device: the type of the devices.
        init_scale: by how much losses are multiplied at first.
        backoff_factor: by how much the scale is multiplied after an overflow.
        growth_factor: by how much it is multiplied after some steps without one.
        growth_interval: after how many steps.
        enabled: whether it does anything.
        process_group: nothing here reads it.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device,
            init_scale=init_scale,
            backoff_factor=backoff_factor,
            growth_factor=growth_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )


__all__ = ["ShardedGradScaler"]
