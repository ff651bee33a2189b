"""torch.utils._device: the context that `with torch.device(...)` is, under the name that packages import."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._core.arrays import devices


class DeviceContext:
    """Inside, new tensors are on a device; the same as `with device:`."""

    def __init__(self, device: Any) -> None:
        self.device = devices.device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.device.__exit__(*exc)


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function makes its tensors on a device.

    Example:
        >>> import torchgrad_jax as torch
        >>> set_device("meta")(lambda: torch.ones(2).device)()
        device(type='meta')
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with DeviceContext(device):
                return fn(*args, **kwargs)

        return inside

    return decorate
