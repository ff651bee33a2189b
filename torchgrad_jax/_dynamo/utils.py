"""What packages ask about torch.compile."""

from __future__ import annotations

from .._core.errors import warn
from .._core.jax.caches import remember


@remember()
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, the first time that there is this to say."""
    warn.to_user(msg)


def is_compile_supported(device_type: str) -> bool:
    """True: torch.compile works on every device that there is."""
    return True
