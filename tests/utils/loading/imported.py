"""A module that tells who imports it."""

from __future__ import annotations

import os
from typing import Any

if "IMPORTS" in os.environ:
    with open(os.environ["IMPORTS"], "a") as file:
        file.write(f"{os.getpid()}\n")


def negative(items: Any) -> Any:
    """A function for `collate_fn`."""
    return [-i for i in items]
