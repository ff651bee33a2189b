"""torch.__future__: how a module's conversion to another dtype or device replaces its parameters."""

from __future__ import annotations


def _only_false(name: str, value: bool) -> None:
    if value:
        raise NotImplementedError(
            f"torch.__future__.{name}(True) is not supported: conversions of modules change parameters in place"
        )


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Return whether conversions make new parameters; only False is supported."""
    _only_false("set_overwrite_module_params_on_conversion", value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Return what `set_overwrite_module_params_on_conversion` last said."""
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Return whether conversions swap parameters with converted ones; only False is supported."""
    _only_false("set_swap_module_params_on_conversion", value)


def get_swap_module_params_on_conversion() -> bool:
    """Return what `set_swap_module_params_on_conversion` last said."""
    return False
