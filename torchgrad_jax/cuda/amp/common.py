"""torch.cuda.amp.common."""

from __future__ import annotations

from importlib.util import find_spec

from .. import is_available


def amp_definitely_not_available() -> bool:
    """Return whether there is neither a GPU nor torch's package for TPUs."""
    return not (is_available() or find_spec("torch_xla"))


__all__ = ["amp_definitely_not_available"]
