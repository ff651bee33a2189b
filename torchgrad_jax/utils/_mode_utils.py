"""torch.utils._mode_utils."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

no_dispatch = contextlib.nullcontext
"""There is no dispatch to do without."""


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Whether all are the same object."""
    return all(m is modes[0] for m in modes)
