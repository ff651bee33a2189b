"""torch.utils._mode_utils: what writers of modes ask."""

from __future__ import annotations

from contextlib import nullcontext as no_dispatch  # noqa: F401 - there is no dispatcher to leave out
from typing import Any


def all_same_mode(modes: Any) -> bool:
    """Return whether all modes of a list are the first one."""
    return all(mode == modes[0] for mode in modes)
