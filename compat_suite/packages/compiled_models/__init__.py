"""The published models that `python -m compat_suite compiled` runs: one file per family of packages.

A family is a table: for each model, a function that makes a `Training` of it, small and with random weights. The
packages are imported by these functions alone, so that the names can be listed without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import adapters, diffusion, images, text_and_sound, words


def table() -> dict[str, Callable[[], Any]]:
    """All models by name, which begins with the package."""
    return words.MODELS | text_and_sound.MODELS | images.MODELS | diffusion.MODELS | adapters.MODELS
