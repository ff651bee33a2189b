"""Modules made without drawing initial values."""

from __future__ import annotations

import inspect
from typing import Any

from ..._functions.random import get_rng_state, set_rng_state
from ..modules.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module whose parameters hold no particular values.

    Args:
        module_cls: its class.
        args: arguments of its constructor.
        kwargs: keyword arguments of its constructor.

    Raises:
        RuntimeError: if the class is no module class or its constructor takes no device.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = get_rng_state()  # torch draws nothing
    try:
        return module_cls(*args, **kwargs).to_empty(device=kwargs.get("device", "cpu"))
    finally:
        set_rng_state(state)
