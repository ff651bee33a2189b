"""Implementations of flash attention by name, as in torch.nn.attention.

XLA chooses the kernels of attention here, so an implementation changes what its own function changes, and no kernel of
this package.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

_log = logging.getLogger("torchgrad_jax.nn.attention")


class FlashAttentionHandle(Protocol):
    """What takes an implementation back."""

    def remove(self) -> None:
        """Take it back."""


Register = Callable[..., FlashAttentionHandle | None]


def _not_here(name: str, module: str) -> Register:
    def register() -> NoReturn:
        raise ModuleNotFoundError(
            f"activate_flash_attention_impl({name!r}): the kernels of {module} take CUDA tensors of torch's, and no "
            "JAX arrays; in a compiled function on a GPU, sdpa_kernel(SDPBackend.FLASH_ATTENTION) takes cuDNN's",
            name=module,
        )

    return register


_implementations: dict[str, Register] = {
    "FA3": _not_here("FA3", "flash_attn_interface"),
    "FA4": _not_here("FA4", "flash_attn"),
}
_active: list[tuple[str, FlashAttentionHandle]] = []
"""The one that is in force, if there is one."""


def register_flash_attention_impl(impl: str, *, register_fn: Register) -> None:
    """Name an implementation.

    Args:
        impl: its name; what was registered under it before is forgotten.
        register_fn: called by `activate_flash_attention_impl`; may return an object whose `remove()` undoes it.
    """
    _implementations[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Undo what is in force, and call the function that was registered under a name.

    Raises:
        ValueError: there is no such name.
        ModuleNotFoundError: for "FA3" and "FA4", whose kernels do not run on JAX arrays.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.nn.attention.register_flash_attention_impl("mine", register_fn=lambda: print("in force"))
        >>> torch.nn.attention.activate_flash_attention_impl("mine")
        in force
    """
    restore_flash_attention_impl(_raise_warn=False)
    register: Any = _implementations.get(impl)
    if register is None:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}"
        )
    handle = register()
    if handle is not None:
        _active[:] = [(impl, handle)]


def list_flash_attention_impls() -> list[str]:
    """The names of all implementations."""
    return sorted(_implementations)


def current_flash_attention_impl() -> str | None:
    """The name of the implementation in force; None where there is none, or where it cannot be undone."""
    return _active[0][0] if _active else None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Undo the implementation in force."""
    if _active:
        _active.pop()[1].remove()
    elif _raise_warn:
        _log.warning("Trying to restore default FA2 impl when no custom impl was activated")
