"""torch._C._nn: what `Module.to` makes of its arguments."""

from __future__ import annotations

from typing import Any

from .._core.arrays import devices
from .._core.errors.messages import missing as _missing
from .._functions.convert import parse_to


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, whether not to wait, and memory format that the arguments of `to` name."""
    device, dtype, kind = parse_to(args, kwargs)
    given = kwargs.get("device", args[0] if args else None)
    if isinstance(given, str | devices.device):  # as it is given: "cuda" has no index
        device = devices.device(given)
    waiting = kwargs.get("non_blocking", next((a for a in args if isinstance(a, bool)), False))
    return device, dtype, waiting, kind


__getattr__ = _missing(__name__)
